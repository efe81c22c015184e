//! Hears from the system which files of a folder change (inotify, on Linux), instead of looking at all of them.
//!
//! Only a hint: whoever uses it looks at everything from time to time. It is used where the system tells of every change: in one
//! folder of a file system of this machine.

use std::collections::HashSet;
use std::ffi::OsString;

/// What has changed since this was last asked.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Changes {
    /// Files of these names were written to, or came.
    pub names: HashSet<OsString>,
    /// Files of these names were removed, renamed or replaced.
    pub moved: HashSet<OsString>,
    /// More has changed than the system could tell.
    pub too_many: bool,
    /// The system reports no more changes.
    pub has_ended: bool,
}

#[cfg(target_os = "linux")]
pub(super) use linux::FolderWatch;
#[cfg(not(target_os = "linux"))]
pub(super) use none::FolderWatch;

#[cfg(target_os = "linux")]
mod linux {
    use std::ffi::OsStr;
    use std::mem::MaybeUninit;
    use std::os::fd::OwnedFd;
    use std::os::unix::ffi::OsStrExt;
    use std::path::Path;

    use rustix::fs::inotify::{self, CreateFlags, ReadFlags, Reader, WatchFlags};
    use rustix::fs::statfs;
    use rustix::io::Errno;

    use super::Changes;

    /// ext2 to ext4, XFS, Btrfs, F2FS, ZFS, tmpfs. Changes of another machine, or in a layer below, give no event.
    const TELLING: [u64; 6] = [0xef53, 0x5846_5342, 0x9123_683e, 0xf2f5_2010, 0x2fc1_2fc1, 0x0102_1994];
    /// Room for some hundred events at a time.
    const BUFFER_BYTES: usize = 64 * 1024;

    /// Watches a folder.
    pub(in super::super) struct FolderWatch {
        inotify: OwnedFd,
        buffer: Vec<MaybeUninit<u8>>,
    }

    impl FolderWatch {
        /// `None`: nothing, or not everything, would be heard of its files.
        pub fn of(folder: &Path) -> Option<FolderWatch> {
            let kind = statfs(folder).ok()?.f_type;
            if !TELLING.contains(&(kind as u64)) {
                return None;
            }
            let inotify = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK).ok()?;
            let told = WatchFlags::MODIFY
                | WatchFlags::ATTRIB
                | WatchFlags::CLOSE_WRITE
                | WatchFlags::CREATE
                | WatchFlags::DELETE
                | WatchFlags::MOVE
                | WatchFlags::DELETE_SELF
                | WatchFlags::MOVE_SELF
                | WatchFlags::ONLYDIR;
            inotify::add_watch(&inotify, folder, told).ok()?;
            Some(FolderWatch { inotify, buffer: vec![MaybeUninit::uninit(); BUFFER_BYTES] })
        }

        /// What has changed since this was last asked. Does not wait.
        pub fn changes(&mut self) -> Changes {
            let mut changes = Changes::default();
            let mut reader = Reader::new(&self.inotify, &mut self.buffer);
            loop {
                let event = match reader.next() {
                    Ok(event) => event,
                    Err(Errno::AGAIN) => return changes,
                    Err(Errno::INTR) => continue,
                    Err(_) => {
                        changes.has_ended = true;
                        return changes;
                    }
                };
                let what = event.events();
                changes.too_many |= what.contains(ReadFlags::QUEUE_OVERFLOW);
                changes.has_ended |= what.intersects(
                    ReadFlags::DELETE_SELF | ReadFlags::MOVE_SELF | ReadFlags::IGNORED | ReadFlags::UNMOUNT,
                );
                let Some(name) = event.file_name() else { continue };
                let name = OsStr::from_bytes(name.to_bytes()).to_owned();
                if what.intersects(ReadFlags::DELETE | ReadFlags::MOVED_FROM | ReadFlags::MOVED_TO) {
                    changes.moved.insert(name.clone());
                }
                if !what.intersects(ReadFlags::DELETE | ReadFlags::MOVED_FROM) {
                    changes.names.insert(name);
                }
            }
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod none {
    use std::path::Path;

    use super::Changes;

    /// There is none here.
    pub(in super::super) enum FolderWatch {}

    impl FolderWatch {
        pub fn of(_folder: &Path) -> Option<FolderWatch> {
            None
        }

        pub fn changes(&mut self) -> Changes {
            match *self {}
        }
    }
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests {
    use std::ffi::OsStr;
    use std::fs;

    use super::*;

    fn is_told(names: &HashSet<OsString>, expected: &[&str]) -> bool {
        names.len() == expected.len() && expected.iter().all(|name| names.contains(OsStr::new(name)))
    }

    #[test]
    fn it_tells_what_is_written_what_comes_and_what_goes() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        fs::write(path("old"), "1").unwrap();
        let Some(mut watch) = FolderWatch::of(folder.path()) else {
            return eprintln!("skipped: there are no events for {}", folder.path().display());
        };
        assert_eq!(watch.changes(), Changes::default());
        fs::write(path("old"), "1\n2").unwrap();
        fs::write(path("new"), "3").unwrap();
        let changes = watch.changes();
        assert!(is_told(&changes.names, &["old", "new"]) && changes.moved.is_empty(), "{changes:?}");
        fs::rename(path("old"), path("older")).unwrap();
        fs::remove_file(path("new")).unwrap();
        let changes = watch.changes();
        assert!(is_told(&changes.moved, &["old", "older", "new"]), "{changes:?}");
        fs::remove_dir_all(folder.path()).unwrap();
        assert!(watch.changes().has_ended);
    }

    #[test]
    fn more_than_the_system_keeps_is_told_as_too_many() {
        let folder = tempfile::tempdir().unwrap();
        let Some(mut watch) = FolderWatch::of(folder.path()) else { return };
        let kept = fs::read_to_string("/proc/sys/fs/inotify/max_queued_events").unwrap();
        let kept: usize = kept.trim().parse().unwrap();
        if kept > 100_000 {
            return eprintln!("skipped: {kept} events are kept here");
        }
        for number in 0..kept / 2 + 100 {
            fs::write(folder.path().join(number.to_string()), "").unwrap();
        }
        assert!(watch.changes().too_many);
    }
}
