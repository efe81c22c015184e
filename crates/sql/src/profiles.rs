//! Measurements of this machine, stored in a file between runs by what was measured.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;
use std::sync::OnceLock;
use std::thread::available_parallelism;

use tidemill_engine::{Cause, SnapshotReader, SnapshotWriter};

/// The most measurements that are stored; the oldest are removed first.
const PROFILES_MAX: usize = 256;
/// One with a longer description is not stored.
const KEY_BYTES_MAX: usize = 4096;

/// What is measured.
pub(crate) trait Profile: Clone {
    /// The version of the file.
    const VERSION: u8;
    /// A longer one is not stored.
    const BYTES_MAX: usize;

    fn to_bytes(&self) -> Vec<u8>;

    fn from_bytes(bytes: &[u8]) -> Result<Self, Cause>;
}

/// The profiles of a file, newest first.
pub(crate) struct Profiles<P>(Vec<(String, P)>);

impl<P: Profile> Profiles<P> {
    /// The most bytes of all profiles together.
    const FILE_BYTES_MAX: u64 = (PROFILES_MAX * (KEY_BYTES_MAX + P::BYTES_MAX)) as u64;

    /// The profiles of a file; none if it does not exist, is damaged or has another version. It is then rewritten.
    pub fn read(path: &Path) -> Profiles<P> {
        let mut bytes = Vec::new();
        let read = File::open(path).and_then(|file| file.take(Self::FILE_BYTES_MAX).read_to_end(&mut bytes));
        match read {
            Ok(_) => Profiles::parse(&bytes).unwrap_or(Profiles(Vec::new())),
            Err(_) => Profiles(Vec::new()),
        }
    }

    fn parse(bytes: &[u8]) -> Result<Profiles<P>, Cause> {
        let mut reader = SnapshotReader::new(bytes)?;
        reader.version(P::VERSION)?;
        let mut profiles = Vec::new();
        while !reader.is_empty() && profiles.len() < PROFILES_MAX {
            let key = String::from_utf8_lossy(reader.bytes()?).into_owned();
            profiles.push((key, P::from_bytes(reader.bytes()?)?));
        }
        Ok(Profiles(profiles))
    }

    fn to_bytes(&self) -> Vec<u8> {
        let mut writer = SnapshotWriter::default();
        writer.u8(P::VERSION);
        for (key, profile) in &self.0 {
            writer.bytes(key.as_bytes());
            writer.bytes(&profile.to_bytes());
        }
        writer.finish()
    }

    /// The profile with this key.
    pub fn get(&self, key: &str) -> Option<P> {
        self.0.iter().find(|(known, _)| known == key).map(|(_, profile)| profile.clone())
    }

    /// Adds profiles to a file, and keeps those that others have added meanwhile.
    ///
    /// # Errors
    /// If it cannot be written. It then stays as it was.
    pub fn add_to(path: &Path, new: impl IntoIterator<Item = (String, P)>) -> io::Result<()> {
        let fits = |(key, profile): &(String, P)| {
            key.len() <= KEY_BYTES_MAX && profile.to_bytes().len() <= P::BYTES_MAX
        };
        let mut profiles = Profiles(new.into_iter().filter(fits).collect());
        for (key, profile) in Profiles::read(path).0 {
            if profiles.get(&key).is_none() {
                profiles.0.push((key, profile));
            }
        }
        profiles.0.truncate(PROFILES_MAX);
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)?;
        }
        // A concurrent reader sees the old file or the new one, and of two writers one comes later.
        let thread = format!("{:?}", std::thread::current().id());
        let thread: String = thread.chars().filter(char::is_ascii_digit).collect();
        let beside = path.with_extension(format!("new-{}-{thread}", std::process::id()));
        let written = fs::write(&beside, profiles.to_bytes()).and_then(|()| fs::rename(&beside, path));
        if written.is_err() {
            let _ = fs::remove_file(&beside);
        }
        written
    }
}

/// What costs depend on besides the query.
pub(crate) fn machine() -> &'static str {
    static MACHINE: OnceLock<String> = OnceLock::new();
    MACHINE.get_or_init(|| {
        let processors = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let model = processors.lines().find_map(|line| line.strip_prefix("model name")?.split_once(':'));
        let model = model.map_or(std::env::consts::ARCH, |(_, model)| model.trim());
        let cores = available_parallelism().map_or(1, usize::from);
        let build = if cfg!(debug_assertions) { ", debug" } else { "" };
        format!("tidemill {}{build}, {cores} of {model}", env!("CARGO_PKG_VERSION"))
    })
}

#[cfg(test)]
mod tests {
    use tempfile::TempDir;
    use tidemill_engine::{Proportions, RouterCosts, SplitProfile, SplitterCosts};

    use super::*;
    use crate::split_profiles::SplitProfiles;

    fn profile(query_ns: f64) -> SplitProfile {
        SplitProfile {
            query_ns,
            parts: Proportions::counted(1, 0, 0),
            splitter: SplitterCosts { consume_ns: 1.0, process_ns: 2.0, emit_ns: 3.0 },
            router: RouterCosts::default(),
        }
    }

    #[test]
    fn profiles_are_found_again_and_the_newest_are_kept() {
        let folder = TempDir::new().unwrap();
        let path = folder.path().join("cache/profiles");
        assert!(SplitProfiles::read(&path).0.is_empty());
        for number in 0..PROFILES_MAX + 3 {
            let again = ("again".to_string(), profile(number as f64));
            SplitProfiles::add_to(&path, [(number.to_string(), profile(1.0)), again]).unwrap();
        }
        let profiles = SplitProfiles::read(&path);
        assert_eq!(profiles.0.len(), PROFILES_MAX);
        assert_eq!(profiles.get("again"), Some(profile((PROFILES_MAX + 2) as f64)));
        assert!(profiles.get("258").is_some() && profiles.get("4").is_some() && profiles.get("3").is_none());
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1, "nothing is left beside it");
    }

    #[test]
    fn several_writers_leave_a_file_of_one_of_them() {
        let folder = TempDir::new().unwrap();
        let path = folder.path().join("profiles");
        std::thread::scope(|scope| {
            for writer in 0..8 {
                let path = &path;
                scope.spawn(move || {
                    for _ in 0..40 {
                        SplitProfiles::add_to(path, [(writer.to_string(), profile(1.0))]).unwrap();
                        assert!(!SplitProfiles::read(path).0.is_empty());
                    }
                });
            }
        });
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "nothing is left beside it");
    }

    #[test]
    fn a_damaged_file_is_made_anew_and_one_that_cannot_be_written_is_an_error() {
        let folder = TempDir::new().unwrap();
        let path = folder.path().join("profiles");
        SplitProfiles::add_to(&path, [("a".to_string(), profile(1.0))]).unwrap();
        let good = fs::read(&path).unwrap();
        for byte in 0..good.len() {
            let mut bad = good.clone();
            bad[byte] ^= 0x10;
            fs::write(&path, bad).unwrap();
            assert!(SplitProfiles::read(&path).0.is_empty(), "byte {byte}");
        }
        SplitProfiles::add_to(&path, [("b".to_string(), profile(2.0))]).unwrap();
        assert_eq!(SplitProfiles::read(&path).get("b"), Some(profile(2.0)));
        assert!(
            SplitProfiles::add_to(&path.join("below a file"), [("b".to_string(), profile(2.0))]).is_err()
        );
        // What is too long to be kept does not make the file unreadable.
        SplitProfiles::add_to(&path, [("k".repeat(KEY_BYTES_MAX + 1), profile(3.0))]).unwrap();
        assert_eq!(SplitProfiles::read(&path).0.len(), 1);
    }
}
