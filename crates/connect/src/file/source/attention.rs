//! Which followed files are checked: all of them, or only those that the system has reported as changed.

use std::collections::{HashMap, HashSet};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::listing::OneFolder;
use super::offset::{FileIdentity, identity};
use super::watch::{Changes, FolderWatch};

/// Everything is looked at this often even without an event: the system reports none for what is written through a mapping of
/// memory, or under a name in another folder.
const LOOK_AT_ALL: Duration = Duration::from_secs(5);

/// A file that is read, as it was listed.
pub(super) struct ListedFile<'a> {
    pub path: &'a Path,
    pub part: u64,
    /// Whether it looks as it did when it was listed before.
    pub is_as_before: bool,
}

/// See the module.
#[derive(Default)]
pub(super) struct Attention {
    folder: Option<(OneFolder, FolderWatch)>,
    /// Which folder that is: if a folder above is renamed, another one takes its place, and no event says so.
    identity: FileIdentity,
    /// By name in the folder the part of a file that is read.
    parts: HashMap<OsString, u64>,
    /// Files that have nothing to read until an event names them.
    quiet: HashSet<u64>,
    /// Names of files that may be new.
    new: HashSet<OsString>,
    next_look: Option<Instant>,
}

impl Attention {
    /// Begins to listen, if it does not yet and something would be told. To be called before the files are listed.
    pub fn listen(&mut self, path: &str) {
        let now =
            |folder: &OneFolder| folder.place().metadata().ok().and_then(|metadata| identity(&metadata));
        if self.folder.as_ref().is_some_and(|(folder, _)| now(folder) == self.identity) {
            return;
        }
        self.folder = OneFolder::of(path).and_then(|folder| {
            self.identity = now(&folder);
            let watch = FolderWatch::of(folder.place())?;
            Some((folder, watch))
        });
    }

    /// All files were listed, which took so long: these are read. Returns when all are to be listed again. Of
    /// thousands of files, only those are opened that look different.
    pub fn listed<'a>(
        &mut self,
        files: impl Iterator<Item = ListedFile<'a>>,
        took: Duration,
    ) -> Option<Duration> {
        let before = std::mem::take(&mut self.quiet);
        self.new.clear();
        self.parts.clear();
        for ListedFile { path, part, is_as_before } in files {
            if is_as_before && before.contains(&part) {
                self.quiet.insert(part);
            }
            if let (Some(_), Some(name)) = (&self.folder, path.file_name()) {
                self.parts.insert(name.to_owned(), part);
            }
        }
        self.folder.as_ref()?;
        // Looking at a huge folder may not take more than a fraction of the time.
        Some(LOOK_AT_ALL.max(took * 40))
    }

    /// Hears what has changed; true if all files must be listed again.
    pub fn hear(&mut self) -> bool {
        let Some((_, watch)) = &mut self.folder else { return false };
        let Changes { names, moved, too_many, has_ended } = watch.changes();
        if has_ended {
            self.folder = None;
        }
        if too_many || has_ended {
            self.quiet.clear();
            return true;
        }
        let is_known_moved = moved.iter().any(|name| self.parts.contains_key(name));
        for name in moved.into_iter().chain(names) {
            match self.parts.get(&name) {
                Some(part) => {
                    self.quiet.remove(part);
                }
                None => {
                    self.new.insert(name);
                }
            }
        }
        is_known_moved
    }

    /// The files that may be new, at most once in a while: looking at them takes longer, the more files there are.
    pub fn take_new(&mut self) -> Vec<PathBuf> {
        let is_due = !self.new.is_empty() && self.next_look.is_none_or(|next| next <= Instant::now());
        let Some((folder, _)) = self.folder.as_ref().filter(|_| is_due) else { return Vec::new() };
        let mut paths: Vec<PathBuf> = self.new.drain().filter_map(|name| folder.file(&name)).collect();
        paths.sort_unstable();
        paths
    }

    /// Looking at new files took so long.
    pub fn looked(&mut self, took: Duration) {
        self.next_look = Some(Instant::now() + took * 20);
    }

    /// A file is read from now on.
    pub fn begin(&mut self, path: &Path, part: u64) {
        if let (Some(_), Some(name)) = (&self.folder, path.file_name()) {
            self.parts.insert(name.to_owned(), part);
        }
    }

    /// A file was read to its end. It is left alone if an event will say that it grows, or if there are so many files that each is
    /// opened for each read: then the next listing says so.
    pub fn at_end(&mut self, path: &Path, part: u64, is_of_many: bool) {
        if is_of_many || self.folder.is_some() && is_only_here(path) {
            self.quiet.insert(part);
        }
    }

    /// Whether there is nothing to read in a file.
    pub fn is_quiet(&self, part: u64) -> bool {
        self.quiet.contains(&part)
    }

    /// How many files have nothing to read.
    pub fn quiet(&self) -> usize {
        self.quiet.len()
    }

    /// A file is not followed any more.
    pub fn end(&mut self, part: u64) {
        self.quiet.remove(&part);
    }
}

/// Whether a file has this one name, and is not a link to another place.
#[cfg(unix)]
fn is_only_here(path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    path.symlink_metadata().is_ok_and(|metadata| metadata.is_file() && metadata.nlink() == 1)
}

#[cfg(not(unix))]
fn is_only_here(_path: &Path) -> bool {
    false
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests {
    use std::fs;

    use super::*;

    /// Listens to a folder with the files a and b, which are read to their ends.
    fn listening(folder: &Path, pattern: &str) -> Option<Attention> {
        let paths = [folder.join("a.csv"), folder.join("b.csv")];
        paths.iter().for_each(|path| fs::write(path, "1\n").unwrap());
        let mut attention = Attention::default();
        attention.listen(&format!("{}{pattern}", folder.display()));
        let files = paths.iter().zip([7, 8]);
        let files = files.map(|(path, part)| ListedFile { path, part, is_as_before: false });
        if attention.listed(files, Duration::ZERO).is_none() {
            eprintln!("skipped: there are no events for {}", folder.display());
            return None;
        }
        attention.at_end(&paths[0], 7, false);
        attention.at_end(&paths[1], 8, false);
        assert_eq!((attention.quiet(), attention.hear()), (2, false));
        Some(attention)
    }

    fn append(path: &Path) {
        use std::io::Write;
        fs::OpenOptions::new().append(true).open(path).unwrap().write_all(b"2\n").unwrap();
    }

    #[test]
    fn a_file_that_grows_is_looked_at_and_no_other() {
        for pattern in ["", "/*.csv"] {
            let folder = tempfile::tempdir().unwrap();
            let Some(mut attention) = listening(folder.path(), pattern) else { return };
            append(&folder.path().join("b.csv"));
            assert!(!attention.hear() && attention.is_quiet(7) && !attention.is_quiet(8));
            assert_eq!(attention.take_new(), Vec::<PathBuf>::new());
        }
    }

    #[test]
    fn a_file_that_comes_is_new_and_one_that_goes_lets_all_be_listed() {
        let folder = tempfile::tempdir().unwrap();
        let Some(mut attention) = listening(folder.path(), "/*.csv") else { return };
        for name in ["c.csv", "c.txt", ".c.csv"] {
            fs::write(folder.path().join(name), "1\n").unwrap();
        }
        assert!(!attention.hear());
        assert_eq!(attention.take_new(), [folder.path().join("c.csv")]);
        fs::rename(folder.path().join("c.txt"), folder.path().join("d.csv")).unwrap();
        assert!(!attention.hear());
        assert_eq!(attention.take_new(), [folder.path().join("d.csv")]);
        fs::rename(folder.path().join("a.csv"), folder.path().join("e.csv")).unwrap();
        assert!(attention.hear(), "a known file has another name");
        fs::remove_file(folder.path().join("b.csv")).unwrap();
        assert!(attention.hear(), "a known file is gone");
    }

    #[test]
    fn a_file_with_another_name_elsewhere_is_never_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let Some(mut attention) = listening(folder.path(), "") else { return };
        let elsewhere = tempfile::tempdir().unwrap();
        fs::hard_link(folder.path().join("a.csv"), elsewhere.path().join("a.csv")).unwrap();
        std::os::unix::fs::symlink(elsewhere.path().join("a.csv"), folder.path().join("l.csv")).unwrap();
        attention.listed(std::iter::empty(), Duration::ZERO);
        for (name, part) in [("a.csv", 7), ("b.csv", 8), ("l.csv", 9)] {
            attention.at_end(&folder.path().join(name), part, false);
        }
        assert!(!attention.is_quiet(7) && attention.is_quiet(8) && !attention.is_quiet(9));
    }

    #[test]
    fn another_folder_in_the_place_of_the_first_is_listened_to() {
        let folder = tempfile::tempdir().unwrap();
        let (above, path) = (folder.path().join("above"), folder.path().join("above/logs"));
        fs::create_dir_all(&path).unwrap();
        let Some(mut attention) = listening(&path, "") else { return };
        fs::rename(&above, folder.path().join("before")).unwrap();
        fs::create_dir_all(&path).unwrap();
        assert!(!attention.hear(), "nobody is told");
        attention.listen(&path.display().to_string());
        fs::write(path.join("c.csv"), "1\n").unwrap();
        attention.hear();
        assert_eq!(attention.take_new(), [path.join("c.csv")]);
    }

    #[test]
    fn of_many_files_only_those_that_look_different_are_opened_after_a_listing() {
        // Without a folder that tells of changes, as for a pattern over several.
        let mut attention = Attention::default();
        let paths: Vec<PathBuf> = (0..4).map(|part| PathBuf::from(format!("{part}.csv"))).collect();
        (0..3).for_each(|part| attention.at_end(&paths[part as usize], part, true));
        let listed = |attention: &mut Attention, changed: u64| {
            let files = paths.iter().zip(0..).map(|(path, part)| ListedFile {
                path,
                part,
                is_as_before: part != changed,
            });
            attention.listed(files, Duration::ZERO)
        };
        assert_eq!(listed(&mut attention, 1), None);
        let quiet = |attention: &Attention| (0..4).map(|part| attention.is_quiet(part)).collect::<Vec<_>>();
        assert_eq!(quiet(&attention), [true, false, true, false]);
        attention.at_end(&paths[1], 1, true);
        assert_eq!(listed(&mut attention, 9), None);
        assert_eq!(quiet(&attention), [true, true, true, false]);
    }
}
