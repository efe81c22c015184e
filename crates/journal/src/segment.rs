//! Segments: the files of a log. Each is named after its first position and has a head that describes its content.
//!
//! | at | bytes | what |
//! |---|---|---|
//! | 0 | 8 | `TIDESEGM` |
//! | 8 | 4 | version of the format |
//! | 12 | 4 | length of the head, a multiple of 64 |
//! | 16 | 4 | CRC32 of all other bytes of the head |
//! | 20 | 1 | what the records are: 1 rows, 2 cuts |
//! | 21 | 8 | first position |
//! | 29 | | what the stream is, with its length before it: for rows the schema as a message of Arrow IPC |
//! | | | the last request numbers of the clients at this point |
//! | | | the offsets of the source at this point (from version 2 on) |
//! | | | zeros up to a multiple of 64 |

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::{io, sync::Arc};

use parking_lot::Mutex;
use tidemill_core::error::Cause;
use tidemill_core::fields::{Fields, Malformed, PutFields, TakeFields};

use crate::failure::{damaged, failed, foreign, other_version};
use crate::frame::ALIGNMENT;
use crate::medium::MediumFile;
use crate::origins::Origins;

const MAGIC: [u8; 8] = *b"TIDESEGM";
/// Version 2 has offsets, version 3 has stretches. Older segments are read, but no longer written.
pub(crate) const VERSION: u32 = 3;
const VERSION_WITHOUT_PLACES: u32 = 1;
const FRONT_BYTES: usize = 20;
/// The longest head: schema and clients.
const HEAD_BYTES_MAX: u64 = 64 << 20;
const ENDING: &str = ".segment";

/// What the records of a log are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Content {
    Rows = 1,
    Cuts = 2,
    Definitions = 3,
}

/// A segment of an open log.
#[derive(Debug)]
pub(crate) struct Segment {
    pub first: u64,
    pub path: PathBuf,
    pub head_bytes: u64,
    /// What the records describe: that of a stream which has got columns since is another one than that of the log.
    pub identity: Arc<[u8]>,
    /// The end of its records.
    written: AtomicU64,
}

impl Segment {
    pub(crate) fn new(
        first: u64,
        path: PathBuf,
        (head_bytes, identity): (u64, Arc<[u8]>),
        written: u64,
    ) -> Segment {
        Segment { first, path, head_bytes, identity, written: AtomicU64::new(written) }
    }

    pub(crate) fn written(&self) -> u64 {
        self.written.load(Ordering::Acquire)
    }

    pub(crate) fn set_written(&self, bytes: u64) {
        self.written.store(bytes, Ordering::Release);
    }
}

/// The file of a segment. It is closed for good if it could not be synced: what the system has of it is then unknown,
/// and asking again would only hide that.
pub(crate) struct SegmentFile {
    pub path: PathBuf,
    pub file: Arc<dyn MediumFile>,
    failure: Mutex<Option<Cause>>,
}

impl SegmentFile {
    pub(crate) fn new(path: PathBuf, file: Arc<dyn MediumFile>) -> SegmentFile {
        SegmentFile { path, file, failure: Mutex::new(None) }
    }

    pub(crate) fn sync(&self) -> Result<(), Cause> {
        let mut failure = self.failure.lock();
        if let Some(cause) = &*failure {
            return Err(cause.clone());
        }
        let path = self.path.display();
        let synced = match self.file.sync() {
            Ok(()) => self.check_there(),
            Err(error) => Err(Cause::operation(format!(
                "{path}: cannot sync: {error}; none of its rows counts as safe any more; start the query again \
                 to resume from what is on disk"
            )).with_source(error)),
        };
        synced.map_err(|cause| failure.insert(cause).clone())
    }

    /// Writes to a removed file succeed, but nobody will ever read them.
    pub(crate) fn check_there(&self) -> Result<(), Cause> {
        match self.file.is_at(&self.path) {
            Ok(true) => Ok(()),
            Ok(false) => Err(Cause::operation(format!(
                "{}: it was removed, moved or replaced while the query was running, so what is written to it \
                 is lost; senders still have what was not acknowledged. Put the journal's folder back and \
                 start the query again, or start from scratch in another folder",
                self.path.display()
            ))),
            Err(error) => Err(failed("look for", &self.path, error)),
        }
    }
}

/// The contents of a segment's head.
#[derive(Clone, Debug)]
pub(crate) struct SegmentHead {
    pub version: u32,
    pub content: u8,
    pub first: u64,
    pub identity: Vec<u8>,
    pub origins: Origins,
    pub bytes: u64,
}

/// The name of the segment that begins with this position.
pub(crate) fn segment_name(first: u64) -> String {
    format!("{first:020}{ENDING}")
}

/// The first position of a segment with this name; `None`: it is not a segment.
pub(crate) fn position_of(name: &str, ending: &str) -> Option<u64> {
    let digits = name.strip_suffix(ending)?;
    let is_number = digits.len() == 20 && digits.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| digits.parse().ok()).flatten()
}

/// The first positions of the segments among these names, ascending.
pub(crate) fn segment_positions(names: &[String]) -> Vec<u64> {
    let mut positions: Vec<u64> = names.iter().filter_map(|name| position_of(name, ENDING)).collect();
    positions.sort_unstable();
    positions
}

pub(crate) fn encode_head(content: Content, first: u64, identity: &[u8], origins: &Origins) -> Vec<u8> {
    let mut body = vec![content as u8];
    body.put_u64(first);
    body.put_bytes(identity);
    origins.encode(&mut body);
    body.resize((FRONT_BYTES + body.len()).next_multiple_of(ALIGNMENT) - FRONT_BYTES, 0);

    let mut head = Vec::with_capacity(FRONT_BYTES + body.len());
    head.put(&MAGIC);
    head.put_u32(VERSION);
    head.put_u32((FRONT_BYTES + body.len()) as u32);
    let checksum = checksum(&head, &body);
    head.put_u32(checksum);
    head.put(&body);
    head
}

/// Reads the head of a segment.
pub(crate) fn read_head(
    path: &Path,
    file: &dyn MediumFile,
    clients_max: usize,
) -> Result<SegmentHead, Cause> {
    let read = |target: &mut [u8]| read_exactly(file, target, 0).map_err(|error| failed("read", path, error));
    let length = file.length().map_err(|error| failed("read", path, error))?;
    if length < FRONT_BYTES as u64 {
        return Err(damaged(path, length, "the head of the segment is cut off"));
    }
    let mut front = [0; FRONT_BYTES];
    read(&mut front)?;
    let (version, head_bytes, checksum_read) = front_fields(&front);
    if front[..8] != MAGIC {
        return Err(foreign(path, "this is not a segment of a journal", "remove it from the folder"));
    }
    if !(VERSION_WITHOUT_PLACES..=VERSION).contains(&version) {
        return Err(other_version(path, version, VERSION));
    }
    let head_bytes = u64::from(head_bytes);
    if head_bytes > length.min(HEAD_BYTES_MAX) || head_bytes < ALIGNMENT as u64 {
        return Err(damaged(path, 12, "the head of the segment has an impossible length"));
    }
    let mut head = vec![0; head_bytes as usize];
    read(&mut head)?;
    if checksum(&head[..16], &head[FRONT_BYTES..]) != checksum_read {
        return Err(damaged(path, 0, "the checksum of the segment's head does not match"));
    }
    body_fields(Fields(&head[FRONT_BYTES..]), version, head_bytes, clients_max)
        .map_err(|Malformed| damaged(path, FRONT_BYTES as u64, "the head of the segment is incomplete"))
}

fn front_fields(front: &[u8; FRONT_BYTES]) -> (u32, u32, u32) {
    let number = |at: usize| u32::from_le_bytes([front[at], front[at + 1], front[at + 2], front[at + 3]]);
    (number(8), number(12), number(16))
}

fn body_fields(
    mut fields: Fields,
    version: u32,
    bytes: u64,
    clients_max: usize,
) -> Result<SegmentHead, Malformed> {
    Ok(SegmentHead {
        version,
        content: fields.u8()?,
        first: fields.u64()?,
        identity: fields.bytes()?.to_vec(),
        origins: Origins::decode(&mut fields, clients_max, version > VERSION_WITHOUT_PLACES)?,
        bytes,
    })
}

fn checksum(front: &[u8], body: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(front);
    hasher.update(body);
    hasher.finalize()
}

/// Reads exactly as many bytes as the target has.
pub(crate) fn read_exactly(file: &dyn MediumFile, target: &mut [u8], offset: u64) -> io::Result<()> {
    if file.read_at(target, offset)? == target.len() {
        Ok(())
    } else {
        Err(io::ErrorKind::UnexpectedEof.into())
    }
}
