//! What is valid in the files of a sink that resumes after a crash: the last cycle, and how much of which file.
//!
//! The file has three blocks of 4096 bytes of text, padded with spaces: a head, and two records that are written
//! alternately, each with a number and a checksum. A torn write damages the record that was being written; the other
//! record is then the last commit. The file never grows, so it can be written when the disk is full.

use std::fs::{File, OpenOptions, TryLockError};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use tidemill_core::Cause;

use super::text_file::{open_failed, write_failed};

const BLOCK_BYTES: usize = 4096;
const HEAD: &str = "tidemill-manifest 1";
/// The shortest interval at which cycles without rows are recorded: reading them again costs little, recording each
/// would cost much.
const WITHOUT_ROWS_INTERVAL: Duration = Duration::from_secs(1);

/// What is committed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Committed {
    /// The last cycle.
    pub cycle: u64,
    /// The file that was written last, if there is one.
    pub part: Option<CommittedPart>,
}

/// How much of a file is valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CommittedPart {
    /// The first cycle in it.
    pub first_cycle: u64,
    /// The last cycle that has rows in it.
    pub last_cycle: u64,
    /// The number of valid bytes.
    pub bytes: u64,
    /// The number of rows in them.
    pub rows: u64,
    /// Nothing more will be written to it.
    pub is_complete: bool,
}

/// The open file. While it is open, no other run can open it.
pub(crate) struct Manifest {
    path: PathBuf,
    file: File,
    must_sync: bool,
    number: u64,
    committed: Option<Committed>,
    /// Whether this run has created it, and has not ended.
    is_new: bool,
    /// The last cycle, if it had no rows and has not been recorded yet.
    without_rows: Option<u64>,
    written_at: Instant,
}

impl Drop for Manifest {
    fn drop(&mut self) {
        // Closing the file would not end the lock while a child process that was just started still has it open.
        let _ = self.file.unlock();
    }
}

impl Manifest {
    /// Opens the manifest if it exists. `content` says what the files hold.
    pub fn open(path: &Path, content: &str, must_sync: bool) -> Result<Option<Manifest>, Cause> {
        let mut options = OpenOptions::new();
        let file = match options.read(true).write(true).open(path) {
            Ok(file) => file,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(open_failed(path, error)),
        };
        lock(&file, path)?;
        let mut text = vec![0; 3 * BLOCK_BYTES];
        file.read_exact_at(&mut text, 0).map_err(|_| damaged(path))?;
        let blocks: Vec<&[u8]> = text.chunks(BLOCK_BYTES).collect();
        check_head(path, blocks[0], content)?;
        let records = [read_record(blocks[1]), read_record(blocks[2])];
        if records.iter().all(|record| matches!(record, Slot::Damaged)) {
            return Err(damaged(path));
        }
        let last = records.into_iter().filter_map(Slot::into_record).max_by_key(|(number, _)| *number);
        let (number, committed) = last.map_or((0, None), |(number, committed)| (number, Some(committed)));
        Ok(Some(Manifest::new(path, file, must_sync, number, committed)))
    }

    /// Creates it where none exists; afterwards it exists completely or not at all.
    pub fn create(path: &Path, content: &str, must_sync: bool) -> Result<Manifest, Cause> {
        let mut new_path = path.as_os_str().to_owned();
        new_path.push(".new");
        let new_path = PathBuf::from(new_path);
        let mut options = OpenOptions::new();
        let options = options.read(true).write(true).create(true).truncate(true);
        let file = options.open(&new_path).map_err(|error| open_failed(&new_path, error))?;
        lock(&file, path)?;
        let mut text = block(&format!("{HEAD} {:08x}", crc32fast::hash(content.as_bytes())));
        text.extend(block(""));
        text.extend(block(""));
        let written = file.write_all_at(&text, 0).and_then(|()| file.sync_all());
        written.map_err(|error| write_failed(&new_path, error))?;
        std::fs::rename(&new_path, path).map_err(|error| open_failed(path, error))?;
        sync_folder_of(path)?;
        let mut manifest = Manifest::new(path, file, must_sync, 0, None);
        manifest.is_new = true;
        Ok(manifest)
    }

    fn new(path: &Path, file: File, must_sync: bool, number: u64, committed: Option<Committed>) -> Manifest {
        let (path, written_at) = (path.to_owned(), Instant::now());
        Manifest { path, file, must_sync, number, committed, is_new: false, without_rows: None, written_at }
    }

    /// What is committed; `None`: nothing yet.
    pub fn committed(&self) -> Option<Committed> {
        self.committed
    }

    /// Removes it if this run has created it and has committed nothing, as when a query is refused at its start: the next
    /// run may be another query. Returns whether it did.
    pub fn remove_unused(&self) -> bool {
        let is_unused = self.is_new && self.committed.is_none() && self.without_rows.is_none();
        is_unused && std::fs::remove_file(&self.path).is_ok()
    }

    /// Commits. When it returns, this is valid.
    pub fn commit(&mut self, committed: Committed) -> Result<(), Cause> {
        let number = self.number + 1;
        let block = block(&record_text(number, &committed));
        let place = (1 + number % 2) * BLOCK_BYTES as u64;
        let mut written = self.file.write_all_at(&block, place);
        if written.is_ok() && self.must_sync {
            written = self.file.sync_data();
        }
        written.map_err(|error| write_failed(&self.path, error))?;
        (self.number, self.committed, self.without_rows) = (number, Some(committed), None);
        self.written_at = Instant::now();
        Ok(())
    }

    /// Commits cycles up to this one, which have no rows. They are recorded at intervals: if the record is lost, the
    /// same cycles come again without rows. Their inputs must be kept until then, see [`Manifest::unrecorded`].
    pub fn commit_without_rows(&mut self, cycle: u64) -> Result<(), Cause> {
        self.without_rows = Some(cycle);
        if self.written_at.elapsed() >= WITHOUT_ROWS_INTERVAL { self.finish() } else { Ok(()) }
    }

    /// The first cycle that is committed but not recorded.
    pub fn unrecorded(&self) -> Option<u64> {
        self.without_rows?;
        Some(self.committed.map_or(0, |committed| committed.cycle + 1))
    }

    /// Records what has not been recorded yet.
    pub fn finish(&mut self) -> Result<(), Cause> {
        self.is_new = false;
        let Some(cycle) = self.without_rows else { return Ok(()) };
        self.commit(Committed { cycle, part: self.committed.and_then(|committed| committed.part) })
    }
}

/// Makes the names in the folder of this file survive a crash of the machine.
pub(crate) fn sync_folder_of(path: &Path) -> Result<(), Cause> {
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let synced = File::open(folder).and_then(|folder| folder.sync_all());
    synced.map_err(|error| write_failed(folder, error))
}

fn lock(file: &File, path: &Path) -> Result<(), Cause> {
    match file.try_lock() {
        Ok(()) => Ok(()),
        Err(TryLockError::WouldBlock) => Err(Cause::user(format!(
            "another run is writing to the results that '{}' belongs to; end it first, or choose another path",
            path.display()
        ))),
        Err(TryLockError::Error(error)) => Err(open_failed(path, error)),
    }
}

fn check_head(path: &Path, block: &[u8], content: &str) -> Result<(), Cause> {
    let text = std::str::from_utf8(block).map_err(|_| damaged(path))?.trim_end();
    if text == format!("{HEAD} {:08x}", crc32fast::hash(content.as_bytes())) {
        return Ok(());
    }
    Err(Cause::user(match text.strip_prefix(HEAD) {
        Some(_) => format!(
            "'{}' belongs to results whose columns or format differ from those of this query; choose another \
             path, or remove these results and the manifest",
            path.display()
        ),
        None => format!(
            "'{}' is not a manifest that this version can read (expected '{HEAD}'); choose another path",
            path.display()
        ),
    }))
}

fn damaged(path: &Path) -> Cause {
    Cause::operation(format!(
        "manifest '{}' is damaged, so it is unknown what is committed; restore it, or choose another path and \
         start the query from scratch",
        path.display()
    ))
}

fn block(text: &str) -> Vec<u8> {
    let mut block = text.as_bytes().to_vec();
    block.resize(BLOCK_BYTES - 1, b' ');
    block.push(b'\n');
    block
}

enum Slot {
    Blank,
    Damaged,
    Record(u64, Committed),
}

impl Slot {
    fn into_record(self) -> Option<(u64, Committed)> {
        match self {
            Slot::Record(number, committed) => Some((number, committed)),
            Slot::Blank | Slot::Damaged => None,
        }
    }
}

fn record_text(number: u64, committed: &Committed) -> String {
    let mut text = format!("{number} cycle {}", committed.cycle);
    if let Some(part) = committed.part {
        let state = if part.is_complete { "complete" } else { "open" };
        let CommittedPart { first_cycle, last_cycle, bytes, rows, .. } = part;
        text += &format!(" part {first_cycle} {last_cycle} bytes {bytes} rows {rows} {state}");
    }
    format!("{:08x} {text}", crc32fast::hash(text.as_bytes()))
}

fn read_record(block: &[u8]) -> Slot {
    if block.trim_ascii().is_empty() {
        return Slot::Blank;
    }
    let record = std::str::from_utf8(block).ok().and_then(|text| parse_record(text.trim_end()));
    record.map_or(Slot::Damaged, |(number, committed)| Slot::Record(number, committed))
}

fn parse_record(text: &str) -> Option<(u64, Committed)> {
    let (checksum, text) = text.split_once(' ')?;
    if u32::from_str_radix(checksum, 16).ok()? != crc32fast::hash(text.as_bytes()) {
        return None;
    }
    let words: Vec<&str> = text.split(' ').collect();
    let number = |index: usize| words.get(index).and_then(|word| word.parse().ok());
    let part = match words.get(3) {
        None => None,
        Some(_) => Some(CommittedPart {
            first_cycle: number(4)?,
            last_cycle: number(5)?,
            bytes: number(7)?,
            rows: number(9)?,
            is_complete: *words.get(10)? == "complete",
        }),
    };
    Some((number(0)?, Committed { cycle: number(2)?, part }))
}

#[cfg(test)]
mod tests {
    use tidemill_core::Fault;

    use super::*;

    fn committed(cycle: u64) -> Committed {
        let part = CommittedPart {
            first_cycle: 3,
            last_cycle: cycle,
            bytes: 7 * cycle,
            rows: 5,
            is_complete: cycle.is_multiple_of(2),
        };
        Committed { cycle, part: (!cycle.is_multiple_of(3)).then_some(part) }
    }

    fn reopen(path: &Path) -> Result<Option<Committed>, Cause> {
        Ok(Manifest::open(path, "key: Utf8", true)?.unwrap().committed())
    }

    #[test]
    fn the_last_commit_is_read_back_and_a_torn_one_leaves_the_one_before() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("manifest");
        assert!(Manifest::open(&path, "key: Utf8", true).unwrap().is_none());
        drop(Manifest::create(&path, "key: Utf8", true).unwrap());
        assert_eq!(reopen(&path).unwrap(), None);
        for cycle in 1..20 {
            let before = reopen(&path).unwrap();
            let mut manifest = Manifest::open(&path, "key: Utf8", true).unwrap().unwrap();
            manifest.commit(committed(cycle)).unwrap();
            let place = (1 + manifest.number % 2) * BLOCK_BYTES as u64;
            drop(manifest);
            assert_eq!(reopen(&path).unwrap(), Some(committed(cycle)));
            let whole = std::fs::read(&path).unwrap();
            for byte in [0, 7, 8, 10, 17] {
                let file = OpenOptions::new().write(true).open(&path).unwrap();
                file.write_all_at(b"#", place + byte).unwrap();
                assert_eq!(reopen(&path).unwrap(), before);
                std::fs::write(&path, &whole).unwrap();
            }
        }
    }

    #[test]
    fn damage_other_columns_and_a_second_run_are_told() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("manifest");
        let mut manifest = Manifest::create(&path, "key: Utf8", true).unwrap();
        let second = Manifest::open(&path, "key: Utf8", true).err();
        assert!(
            matches!(second, Some(Cause { fault: Fault::User, message, .. }) if message.contains("another run"))
        );
        manifest.commit(committed(1)).unwrap();
        manifest.commit(committed(2)).unwrap();
        drop(manifest);
        let other = Manifest::open(&path, "key: Int64", true).err();
        let refused = other.filter(|cause| cause.fault == Fault::User).unwrap();
        assert!(refused.message.contains("whose columns or format differ"), "{refused}");
        let whole = std::fs::read(&path).unwrap();
        for length in 0..3 {
            std::fs::write(&path, &whole[..length * BLOCK_BYTES]).unwrap();
            let refused = reopen(&path).err().unwrap();
            assert!(refused.fault == Fault::Operation && refused.message.contains("damaged"), "{refused}");
        }
        let mut spoiled = whole.clone();
        (spoiled[BLOCK_BYTES], spoiled[2 * BLOCK_BYTES]) = (b'#', b'#');
        std::fs::write(&path, spoiled).unwrap();
        assert!(
            matches!(reopen(&path), Err(Cause { fault: Fault::Operation, message, .. }) if message.contains("damaged"))
        );
    }

    #[test]
    fn cycles_without_rows_are_written_down_at_the_end() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("manifest");
        let mut manifest = Manifest::create(&path, "key: Utf8", true).unwrap();
        manifest.commit(committed(4)).unwrap();
        assert_eq!(manifest.unrecorded(), None);
        manifest.commit_without_rows(7).unwrap();
        manifest.commit_without_rows(9).unwrap();
        assert_eq!(manifest.unrecorded(), Some(5), "cycles 5 to 9 would come again");
        manifest.finish().unwrap();
        assert_eq!(manifest.unrecorded(), None);
        drop(manifest);
        assert_eq!(reopen(&path).unwrap(), Some(Committed { cycle: 9, ..committed(4) }));
    }
}
