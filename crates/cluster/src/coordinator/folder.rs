//! Records in a folder, for the nodes of one machine.
//!
//! All records are in one file, which is replaced as a whole: written beside it, synced, renamed, and the folder synced. So a
//! reader needs no lock and sees all records as of one moment, and a crash leaves either the old ones or the new ones. Who
//! changes them holds the lock of a second file; the system releases it when the process dies.
//!
//! The file: 8 bytes that say what it is and in which version, the revision of the last change, the number of records, for each
//! its key, revision, stamp and value, and a CRC-32 of all that. Numbers are little-endian, lengths have 4 bytes.

use std::collections::BTreeMap;
use std::fs::{self, File, TryLockError};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use super::checks::check;
use super::{Coordinator, CoordinatorError, Record, Revision, Stamp};

const MAGIC: [u8; 8] = *b"TMCOOR\x00\x01";
/// The interval at which a watch looks, and at which a lock that somebody holds is tried again.
const LOOK_EVERY: Duration = Duration::from_millis(20);
const LOCK_EVERY: Duration = Duration::from_millis(2);

pub(super) struct Folder {
    place: String,
    folder: PathBuf,
    timeout: Duration,
}

#[derive(Default)]
struct Content {
    last: Revision,
    records: BTreeMap<String, Record>,
}

impl Folder {
    pub fn new(folder: &Path, cluster: &str, timeout: Duration) -> Result<Folder, CoordinatorError> {
        let place = format!("file:{}", folder.display());
        let folder = folder.join(cluster);
        if let Err(error) = fs::create_dir_all(&folder) {
            let reason = format!("the folder cannot be created: {error}; choose one that can be written");
            return Err(CoordinatorError::Refused { place, reason });
        }
        Ok(Folder { place, folder, timeout })
    }

    fn unavailable(&self, what: &str, error: &io::Error) -> CoordinatorError {
        CoordinatorError::Unavailable { place: self.place.clone(), reason: format!("{what}: {error}") }
    }

    fn load(&self) -> Result<Content, CoordinatorError> {
        let path = self.folder.join("records");
        match fs::read(&path) {
            Ok(bytes) => decode(&bytes).ok_or_else(|| CoordinatorError::Damaged {
                place: self.place.clone(),
                reason: format!(
                    "{} was not written like this by any version of Tidemill that this one can read; restore it from \
                     a backup, with all nodes stopped",
                    path.display()
                ),
            }),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(Content::default()),
            Err(error) => Err(self.unavailable("the records cannot be read", &error)),
        }
    }

    /// Waits for the lock. The file that is returned holds it.
    fn lock(&self) -> Result<File, CoordinatorError> {
        let path = self.folder.join("lock");
        let file = File::options().create(true).truncate(false).write(true).open(&path);
        let file = file.map_err(|error| self.unavailable("the lock cannot be opened", &error))?;
        let end = Instant::now() + self.timeout;
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(file),
                Err(TryLockError::Error(error)) => {
                    return Err(self.unavailable("the lock cannot be taken", &error));
                }
                Err(TryLockError::WouldBlock) if Instant::now() >= end => {
                    return Err(CoordinatorError::Unavailable {
                        place: self.place.clone(),
                        reason: format!(
                            "another process has held {} for {:?}; is one of them stopped (SIGSTOP, a debugger)?",
                            path.display(),
                            self.timeout
                        ),
                    });
                }
                Err(TryLockError::WouldBlock) => thread::sleep(LOCK_EVERY),
            }
        }
    }

    /// Replaces the file. The inner error is that of a change that may have been made.
    fn replace(&self, content: &Content) -> io::Result<io::Result<()>> {
        let new = self.folder.join("records.new");
        let mut file = File::create(&new)?;
        file.write_all(&encode(content))?;
        file.sync_all()?;
        fs::rename(&new, self.folder.join("records"))?;
        Ok(File::open(&self.folder).and_then(|folder| folder.sync_all()))
    }
}

impl Coordinator for Folder {
    fn place(&self) -> &str {
        &self.place
    }

    fn read(&mut self, key: &str) -> Result<Option<Record>, CoordinatorError> {
        Ok(self.load()?.records.remove(key))
    }

    fn list(&mut self, prefix: &str) -> Result<BTreeMap<String, Record>, CoordinatorError> {
        let mut records = self.load()?.records;
        records.retain(|key, _| key.starts_with(prefix));
        Ok(records)
    }

    fn compare_and_set(
        &mut self,
        key: &str,
        expected: Option<Revision>,
        stamp: Stamp,
        value: &[u8],
    ) -> Result<Revision, CoordinatorError> {
        check(&self.place, key, value)?;
        let _lock = self.lock()?;
        let mut content = self.load()?;
        let found = content.records.get(key);
        if let Some(made) = found.filter(|found| found.stamp == stamp) {
            return Ok(made.revision);
        }
        if found.map(|found| found.revision) != expected {
            let found = found.cloned().map(Box::new);
            return Err(CoordinatorError::Stale {
                place: self.place.clone(),
                key: key.to_owned(),
                expected,
                found,
            });
        }
        let revision = Revision(content.last.0 + 1);
        content.last = revision;
        content.records.insert(key.to_owned(), Record { revision, stamp, value: value.to_vec() });
        match self.replace(&content) {
            Ok(Ok(())) => Ok(revision),
            Ok(Err(error)) => Err(CoordinatorError::Unknown {
                place: self.place.clone(),
                key: key.to_owned(),
                reason: format!("the folder cannot be synced: {error}"),
            }),
            Err(error) => Err(self.unavailable("the records cannot be written", &error)),
        }
    }

    fn wait(&mut self, seen: Revision, at_most: Duration) -> Result<Revision, CoordinatorError> {
        let end = Instant::now() + at_most;
        loop {
            let last = self.load()?.last;
            let left = end.saturating_duration_since(Instant::now());
            if last > seen || left.is_zero() {
                return Ok(last.max(seen));
            }
            thread::sleep(LOOK_EVERY.min(left));
        }
    }
}

fn encode(content: &Content) -> Vec<u8> {
    let mut bytes = MAGIC.to_vec();
    bytes.extend(content.last.0.to_le_bytes());
    bytes.extend((content.records.len() as u32).to_le_bytes());
    for (key, record) in &content.records {
        bytes.extend((key.len() as u32).to_le_bytes());
        bytes.extend(key.as_bytes());
        bytes.extend(record.revision.0.to_le_bytes());
        bytes.extend(record.stamp.0);
        bytes.extend((record.value.len() as u32).to_le_bytes());
        bytes.extend(&record.value);
    }
    let sum = crc32fast::hash(&bytes);
    bytes.extend(sum.to_le_bytes());
    bytes
}

/// Reads what [`encode`] writes; `None` for everything else.
fn decode(bytes: &[u8]) -> Option<Content> {
    let (mut rest, sum) = bytes.split_last_chunk::<4>()?;
    if crc32fast::hash(rest) != u32::from_le_bytes(*sum) || take(&mut rest, 8)? != MAGIC {
        return None;
    }
    let last = Revision(take_u64(&mut rest)?);
    let mut records = BTreeMap::new();
    for _ in 0..take_u32(&mut rest)? {
        let key = take_bytes(&mut rest)?;
        let revision = Revision(take_u64(&mut rest)?);
        let stamp = Stamp(take(&mut rest, 16)?.try_into().ok()?);
        let value = take_bytes(&mut rest)?.to_vec();
        records.insert(String::from_utf8(key.to_vec()).ok()?, Record { revision, stamp, value });
    }
    rest.is_empty().then_some(Content { last, records })
}

fn take<'a>(rest: &mut &'a [u8], count: usize) -> Option<&'a [u8]> {
    let (taken, left) = rest.split_at_checked(count)?;
    *rest = left;
    Some(taken)
}

fn take_u64(rest: &mut &[u8]) -> Option<u64> {
    Some(u64::from_le_bytes(take(rest, 8)?.try_into().ok()?))
}

fn take_u32(rest: &mut &[u8]) -> Option<u32> {
    Some(u32::from_le_bytes(take(rest, 4)?.try_into().ok()?))
}

fn take_bytes<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let count = take_u32(rest)?;
    take(rest, count as usize)
}
