//! What a sink of ours writes once and names in its [rows file](crate::StoredRowsFile): `views/<sink>.chunks/<number>.chunk`.
//!
//! `TIDECHNK`, version; then chunk after chunk: the length of its bytes, their CRC32, the bytes. All that is written between two
//! syncs is in one file, unless it is large. A file does not change once it is synced.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

use tidemill_core::error::Cause;
use tidemill_core::fields::{Fields, PutFields, TakeFields};

use crate::failure::{damaged, failed, other_version};
use crate::medium::{Medium, MediumFile};
use crate::segment::{position_of, read_exactly};

const MAGIC: [u8; 8] = *b"TIDECHNK";
const VERSION: u32 = 1;
const ENDING: &str = ".chunk";
const FILE_HEAD_BYTES: u64 = 12;
const CHUNK_HEAD_BYTES: u64 = 12;
/// What follows a file of this size begins another one: a file is removed when none of its chunks is named any more.
const FILE_BYTES: u64 = 64 << 20;

/// Where a chunk is, and what its bytes must be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChunkPlace {
    /// The number of the file.
    pub file: u64,
    /// Where the chunk begins in it.
    pub offset: u64,
    /// The length of its bytes.
    pub length: u64,
    /// Their CRC32.
    pub checksum: u32,
}

/// The files in which a sink keeps what does not change any more.
///
/// ```
/// use std::collections::BTreeSet;
/// use tidemill_journal::Journal;
/// let folder = tempfile::tempdir()?;
/// let mut chunks = Journal::open(folder.path())?.stored_chunks("totals")?;
/// let (one, two) = (chunks.write(b"rows")?, chunks.write(b"more rows")?);
/// chunks.sync()?;
/// assert_eq!(chunks.read(&two)?, b"more rows");
/// assert_eq!(one.file, two.file);
/// chunks.keep_only(&BTreeSet::new())?;
/// let missing = chunks.read(&one).unwrap_err().to_string();
/// assert!(missing.contains("totals.chunks/00000000000000000001.chunk"), "{missing}");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct StoredChunks {
    medium: Arc<dyn Medium>,
    folder: PathBuf,
    /// The numbers of all files.
    files: BTreeSet<u64>,
    /// Those that were not synced yet: the last of them is written, the others are synced but not their names.
    unsynced: Vec<u64>,
    writing: Option<OpenFile>,
    reading: Option<OpenFile>,
}

struct OpenFile {
    number: u64,
    file: Arc<dyn MediumFile>,
    length: u64,
}

impl StoredChunks {
    pub(crate) fn open(medium: Arc<dyn Medium>, folder: PathBuf) -> Result<StoredChunks, Cause> {
        let names = medium.names(&folder).map_err(|error| failed("list", &folder, error))?;
        let files = names.iter().filter_map(|name| position_of(name, ENDING)).collect();
        Ok(StoredChunks { medium, folder, files, unsynced: Vec::new(), writing: None, reading: None })
    }

    /// Writes a chunk. It is there for good after the next [`sync`](StoredChunks::sync).
    ///
    /// # Errors
    /// If the disk is full or fails. Then nothing is left of what was written since the last sync.
    pub fn write(&mut self, bytes: &[u8]) -> Result<ChunkPlace, Cause> {
        self.try_write(bytes).inspect_err(|_| self.discard())
    }

    /// Makes durable what was written since the last sync.
    ///
    /// # Errors
    /// As [`write`](StoredChunks::write).
    pub fn sync(&mut self) -> Result<(), Cause> {
        self.try_sync().inspect_err(|_| self.discard())
    }

    /// The bytes of a chunk.
    ///
    /// # Errors
    /// If they are not there, or are damaged, or a newer program wrote the file. The message names the file.
    pub fn read(&mut self, place: &ChunkPlace) -> Result<Vec<u8>, Cause> {
        let path = self.path(place.file);
        if self.reading.as_ref().is_none_or(|open| open.number != place.file) {
            self.reading = Some(self.open_file(place.file)?);
        }
        let Some(OpenFile { file, length, .. }) = &self.reading else {
            return Err(Cause::bug("a file of chunks was not opened"));
        };
        let read = |target: &mut [u8], offset: u64| {
            read_exactly(&**file, target, offset).map_err(|error| failed("read", &path, error))
        };
        let wrong = |reason: &str| damaged(&path, place.offset, reason);
        let end = place.offset.checked_add(CHUNK_HEAD_BYTES).and_then(|end| end.checked_add(place.length));
        if end.is_none_or(|end| end > *length) {
            return Err(wrong("it ends before the end of a chunk"));
        }
        let mut head = [0; CHUNK_HEAD_BYTES as usize];
        read(&mut head, place.offset)?;
        if head != chunk_head(place.length, place.checksum) {
            return Err(wrong("another chunk begins here than the one that belongs here"));
        }
        let mut bytes = vec![0; place.length as usize];
        read(&mut bytes, place.offset + CHUNK_HEAD_BYTES)?;
        if crc32fast::hash(&bytes) == place.checksum {
            Ok(bytes)
        } else {
            Err(wrong("the checksum of a chunk does not match"))
        }
    }

    /// Removes all other files than these. What cannot be removed costs room only, and is removed the next time.
    ///
    /// # Errors
    /// If the disk fails.
    pub fn keep_only(&mut self, named: &BTreeSet<u64>) -> Result<(), Cause> {
        for other in self.files.difference(named).copied().collect::<Vec<u64>>() {
            self.remove(other)?;
        }
        Ok(())
    }

    fn try_write(&mut self, bytes: &[u8]) -> Result<ChunkPlace, Cause> {
        if self.writing.as_ref().is_none_or(|open| open.length >= FILE_BYTES) {
            self.sync_file()?;
            self.begin_file()?;
        }
        let Some(open) = &mut self.writing else { return Err(Cause::bug("a file of chunks was not begun")) };
        let (length, checksum) = (bytes.len() as u64, crc32fast::hash(bytes));
        let place = ChunkPlace { file: open.number, offset: open.length, length, checksum };
        let written = open.file.write_at(&[&chunk_head(length, checksum), bytes], open.length);
        open.length += CHUNK_HEAD_BYTES + length;
        written.map(|()| place).map_err(|error| failed("write", &self.path(place.file), error))
    }

    fn try_sync(&mut self) -> Result<(), Cause> {
        self.sync_file()?;
        if !self.unsynced.is_empty() {
            let synced = self.medium.sync_folder(&self.folder);
            synced.map_err(|error| failed("sync the folder", &self.folder, error))?;
            self.unsynced.clear();
        }
        Ok(())
    }

    fn begin_file(&mut self) -> Result<(), Cause> {
        let number = self.files.last().map_or(1, |last| last + 1);
        let path = self.path(number);
        let file = self.medium.create(&path).map_err(|error| failed("create", &path, error))?;
        self.files.insert(number);
        self.unsynced.push(number);
        let mut head = MAGIC.to_vec();
        head.put_u32(VERSION);
        file.write_at(&[&head], 0).map_err(|error| failed("write", &path, error))?;
        self.writing = Some(OpenFile { number, file, length: FILE_HEAD_BYTES });
        Ok(())
    }

    fn sync_file(&mut self) -> Result<(), Cause> {
        let Some(open) = self.writing.take() else { return Ok(()) };
        open.file.sync().map_err(|error| failed("sync", &self.path(open.number), error))
    }

    /// Removes what was written since the last sync. If that fails as well, it is removed later, because nothing names it.
    fn discard(&mut self) {
        self.writing = None;
        for number in std::mem::take(&mut self.unsynced) {
            let _ = self.remove(number);
        }
    }

    fn remove(&mut self, number: u64) -> Result<(), Cause> {
        let path = self.path(number);
        match self.medium.remove(&path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(failed("remove", &path, error));
            }
            _ => self.files.remove(&number),
        };
        self.reading = self.reading.take().filter(|open| open.number != number);
        Ok(())
    }

    fn open_file(&self, number: u64) -> Result<OpenFile, Cause> {
        let path = self.path(number);
        let opened = self.medium.open(&path, false);
        let file = opened.map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => damaged(&path, 0, "the file with rows of a view is missing"),
            _ => failed("open", &path, error),
        })?;
        let length = file.length().map_err(|error| failed("read", &path, error))?;
        let mut head = [0; FILE_HEAD_BYTES as usize];
        if length < FILE_HEAD_BYTES {
            return Err(damaged(&path, 0, "it ends early"));
        }
        read_exactly(&*file, &mut head, 0).map_err(|error| failed("read", &path, error))?;
        let mut fields = Fields(&head);
        match (fields.array::<8>(), fields.u32()) {
            (Ok(MAGIC), Ok(VERSION)) => Ok(OpenFile { number, file, length }),
            (Ok(MAGIC), Ok(found)) => Err(other_version(&path, found, VERSION)),
            _ => Err(damaged(&path, 0, "this is not a file with rows of a view")),
        }
    }

    /// The number of a file with this name; `None`: it has no chunks.
    pub(crate) fn number_of(name: &str) -> Option<u64> {
        position_of(name, ENDING)
    }

    /// Whether a file was there when the folder was listed.
    pub(crate) fn has(&self, number: u64) -> bool {
        self.files.contains(&number)
    }

    pub(crate) fn path(&self, number: u64) -> PathBuf {
        self.folder.join(format!("{number:020}{ENDING}"))
    }
}

fn chunk_head(length: u64, checksum: u32) -> [u8; CHUNK_HEAD_BYTES as usize] {
    let mut head = [0; CHUNK_HEAD_BYTES as usize];
    head[..8].copy_from_slice(&length.to_le_bytes());
    head[8..].copy_from_slice(&checksum.to_le_bytes());
    head
}
