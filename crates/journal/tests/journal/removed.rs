//! Files that are removed, moved or left over, on the real disk.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tidemill_core::CutLog;
use tidemill_core::error::{Cause, Fault};
use tidemill_journal::{Disk, Journal, LockGuard, Medium, MediumFile, StreamSettings, inspect};

use crate::support::{cut, rows};

fn reason(result: Result<(), Cause>) -> String {
    match result {
        Err(Cause { fault: Fault::Operation, message: text, .. }) => text.into(),
        other => panic!("{other:?}"),
    }
}

/// What a run that keeps writing after this happened to its folder finds out, at the next sync and without one.
fn found_out(change: impl Fn(&Path)) {
    let above = tempfile::tempdir().unwrap();
    let folder = above.path().join("query.journal");
    let journal = Journal::open(&folder).unwrap();
    let numbers = rows(0, 3);
    let (mut writer, _reader) =
        journal.stream("numbers", numbers.schema(), &StreamSettings::default()).unwrap();
    let mut cuts = journal.cuts().unwrap();
    writer.append(&numbers, 0, None).unwrap();
    writer.sync().unwrap();
    cuts.append(&cut(0)).unwrap();
    cuts.sync().unwrap();
    writer.check_there().unwrap();
    change(&folder);
    // The system accepts it silently.
    writer.append(&numbers, 0, None).unwrap();
    cuts.append(&cut(1)).unwrap();
    assert!(reason(writer.check_there()).contains("removed, moved or replaced"));
    let text = reason(writer.sync());
    assert!(text.contains("query.journal/streams/numbers/") && text.contains("start from scratch"), "{text}");
    assert_eq!(writer.progress().synced(), 3, "nothing more counts as safe");
    assert!(writer.append(&numbers, 0, None).is_err(), "it takes nothing more");
    assert!(reason(cuts.sync()).contains("query.journal/cuts/"));
}

#[test]
fn a_folder_that_is_removed_is_noticed() {
    found_out(|folder| fs::remove_dir_all(folder).unwrap());
}

#[test]
fn a_folder_that_is_moved_away_is_noticed() {
    found_out(|folder| fs::rename(folder, folder.with_extension("old")).unwrap());
}

#[test]
fn a_folder_that_is_replaced_by_its_copy_is_noticed() {
    found_out(|folder| {
        let old = folder.with_extension("old");
        fs::rename(folder, &old).unwrap();
        let copied = std::process::Command::new("cp").arg("-a").arg(&old).arg(folder).status();
        assert!(copied.unwrap().success());
    });
}

#[test]
fn what_was_not_written_to_its_end_is_removed_at_the_next_start() {
    let folder = tempfile::tempdir().unwrap();
    drop(Journal::open(folder.path()).unwrap().cuts().unwrap());
    let left =
        ["snapshots/00000000000000000412.new", "commits.new", "query.new", "cuts/00000000000000000000.new"];
    left.iter().for_each(|name| fs::write(folder.path().join(name), [7; 100]).unwrap());
    fs::write(folder.path().join("snapshots/note.txt"), "mine").unwrap();
    drop(Journal::open(folder.path()).unwrap().cuts().unwrap());
    for name in left {
        assert!(!folder.path().join(name).exists(), "{name}");
    }
    assert!(folder.path().join("snapshots/note.txt").exists());
}

/// The real disk, on which this file is removed right after its folder was listed.
struct Removing(PathBuf);

impl Medium for Removing {
    fn names(&self, folder: &Path) -> io::Result<Vec<String>> {
        let names = Disk.names(folder);
        if self.0.parent() == Some(folder) {
            let _ = fs::remove_file(&self.0);
        }
        names
    }
    fn create_folder(&self, folder: &Path) -> io::Result<()> {
        Disk.create_folder(folder)
    }
    fn create(&self, path: &Path) -> io::Result<Arc<dyn MediumFile>> {
        Disk.create(path)
    }
    fn open(&self, path: &Path, write: bool) -> io::Result<Arc<dyn MediumFile>> {
        Disk.open(path, write)
    }
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        Disk.rename(from, to)
    }
    fn remove(&self, path: &Path) -> io::Result<()> {
        Disk.remove(path)
    }
    fn remove_folder(&self, folder: &Path) -> io::Result<()> {
        Disk.remove_folder(folder)
    }
    fn sync_folder(&self, folder: &Path) -> io::Result<()> {
        Disk.sync_folder(folder)
    }
    fn lock(&self, path: &Path) -> io::Result<Option<LockGuard>> {
        Disk.lock(path)
    }
}

#[test]
fn a_segment_that_is_let_go_while_its_folder_is_listed_is_left_out() {
    let folder = tempfile::tempdir().unwrap();
    let journal = Journal::open(folder.path()).unwrap();
    let settings = StreamSettings { segment_bytes: 4096, ..StreamSettings::default() };
    let (mut writer, _reader) = journal.stream("numbers", rows(0, 1).schema(), &settings).unwrap();
    for _ in 0..100 {
        writer.append(&rows(writer.end(), 5), 0, None).unwrap();
    }
    let whole = inspect::list(folder.path()).unwrap().streams.remove(0);
    assert!(whole.segments.len() > 2, "{whole:?}");
    let listed = inspect::list_on(&Removing(whole.segments[0].path.clone()), folder.path()).unwrap();
    let listed = &listed.streams[0];
    assert_eq!((listed.first, listed.end), (whole.segments[1].first, whole.end));
    assert_eq!(listed.segments, whole.segments[1..]);
    assert_eq!(listed.bytes, whole.bytes - whole.segments[0].bytes);
}
