//! The bytes of one record: a head, its origin, and its content.
//!
//! | at | bytes | what |
//! |---|---|---|
//! | 0 | 4 | length of the whole record, a multiple of 64; 0: no record, the log ends here |
//! | 4 | 4 | CRC32 of all other bytes of the record |
//! | 8 | 8 | first position |
//! | 16 | 8 | the position below which all was synced when this was written |
//! | 24 | 8 | arrival, nanoseconds |
//! | 32 | 4 | how many positions |
//! | 36 | 4 | length of the client's name; `u32::MAX`: no request |
//! | 40 | 8 | the request's number |
//! | 48 | 4 | length of the content |
//! | 52 | 4 | `TIDR` |
//! | 56 | 4 | length of the offsets; 0: none (always so before version 2) |
//! | 60 | 4 | length of the stretches; 0: none (always so before version 3) |
//! | 64 | | the client's name, zeros up to a multiple of 64 |
//! | | | the offsets that change with it ([`crate::origins`]), zeros up to a multiple of 64 |
//! | | | whose its rows are ([`crate::stretches`]), zeros up to a multiple of 64 |
//! | | | the content, zeros up to a multiple of 64 |
//!
//! All numbers are little-endian. Records begin at multiples of 64, so that the columns in them have the alignment that
//! Arrow needs.

use std::ops::Range;

use tidemill_core::connections::Stretch;
use tidemill_core::fields::{Fields, Malformed, PutFields, TakeFields};
use tidemill_core::source::{Request, SourceOffset};

use crate::origins::decode_offsets;
use crate::stretches::decode_stretches;

/// The alignment of records and their parts.
pub(crate) const ALIGNMENT: usize = 64;
/// The length of a record's head.
pub(crate) const HEAD_BYTES: usize = 64;
/// The longest record.
pub(crate) const RECORD_BYTES_MAX: u64 = 1 << 30;
/// The longest name of a client.
pub(crate) const CLIENT_BYTES_MAX: usize = 1024;

/// Why a head cannot be read.
pub(crate) const ENDS_WITHIN_HEAD: &str = "the file ends within the head of a record";

const MARK: [u8; 4] = *b"TIDR";
const NO_CLIENT: u32 = u32::MAX;
const ZEROS: [u8; ALIGNMENT] = [0; ALIGNMENT];

/// The contents of a record's head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FrameHead {
    pub length: usize,
    checksum: u32,
    pub start: u64,
    pub synced: u64,
    pub arrived_ns: u64,
    pub count: u32,
    client_length: u32,
    sequence: u64,
    content_length: u32,
    offsets_length: u32,
    stretches_length: u32,
}

/// What to write besides the content.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NewFrame<'a> {
    pub start: u64,
    pub count: u32,
    pub synced: u64,
    pub arrived_ns: u64,
    pub request: Option<&'a Request>,
    /// As [`crate::origins::encode_offsets`] writes them.
    pub offsets: &'a [u8],
    /// As [`crate::stretches::encode_stretches`] writes them.
    pub stretches: &'a [u8],
}

/// The length of a record whose content has this length.
pub(crate) fn frame_bytes(frame: &NewFrame, content_bytes: usize) -> usize {
    let client_bytes = frame.request.map_or(0, |request| request.client.len());
    let parts = [client_bytes, frame.offsets.len(), frame.stretches.len(), content_bytes];
    HEAD_BYTES + parts.map(padded).iter().sum::<usize>()
}

/// Calls `write` with all parts of the record.
pub(crate) fn encode_frame<T>(frame: &NewFrame, content: &[&[u8]], write: impl FnOnce(&[&[u8]]) -> T) -> T {
    let client = frame.request.map_or(&[][..], |request| request.client.as_bytes());
    let content_bytes: usize = content.iter().map(|part| part.len()).sum();
    let length = frame_bytes(frame, content_bytes) as u32;
    let body_head = encode_head(frame, content_bytes);
    let padding = |part: &[u8]| &ZEROS[..padded(part.len()) - part.len()];
    let mut parts = Vec::with_capacity(content.len() + 9);
    parts.push(&body_head[..]);
    for part in [client, frame.offsets, frame.stretches] {
        parts.extend([part, padding(part)]);
    }
    parts.extend(content);
    parts.push(&ZEROS[..padded(content_bytes) - content_bytes]);

    let checksum = checksum(length, &parts);
    let mut front = [0; 8];
    front[..4].copy_from_slice(&length.to_le_bytes());
    front[4..].copy_from_slice(&checksum.to_le_bytes());
    parts.insert(0, &front);
    write(&parts)
}

/// The head, without length and checksum.
fn encode_head(frame: &NewFrame, content_bytes: usize) -> Vec<u8> {
    let mut head = Vec::with_capacity(HEAD_BYTES - 8);
    head.put_u64(frame.start);
    head.put_u64(frame.synced);
    head.put_u64(frame.arrived_ns);
    head.put_u32(frame.count);
    head.put_u32(frame.request.map_or(NO_CLIENT, |request| request.client.len() as u32));
    head.put_u64(frame.request.map_or(0, |request| request.sequence));
    head.put_u32(content_bytes as u32);
    head.put(&MARK);
    head.put_u32(frame.offsets.len() as u32);
    head.put_u32(frame.stretches.len() as u32);
    head
}

/// Reads a head; `Ok(None)` if no record begins here. An error says why this cannot be a record.
pub(crate) fn decode_head(bytes: &[u8]) -> Result<Option<FrameHead>, &'static str> {
    let head = bytes.get(..HEAD_BYTES).ok_or(ENDS_WITHIN_HEAD)?;
    if head == ZEROS {
        return Ok(None);
    }
    let head = head_fields(head).map_err(|_| "the head of a record is cut off")?;
    let client_bytes = if head.client_length == NO_CLIENT { 0 } else { head.client_length as usize };
    if head.length as u64 > RECORD_BYTES_MAX || client_bytes > CLIENT_BYTES_MAX {
        return Err("a record has an impossible length");
    }
    let lengths =
        [head.offsets_length, head.stretches_length, head.content_length].map(|bytes| bytes as usize);
    let parts = lengths.iter().chain([&client_bytes]);
    let expected = HEAD_BYTES as u64 + parts.map(|bytes| padded(*bytes) as u64).sum::<u64>();
    if head.length as u64 == expected && head.count > 0 && head.start.checked_add(head.count.into()).is_some()
    {
        Ok(Some(head))
    } else {
        Err("the head of a record is inconsistent")
    }
}

fn head_fields(bytes: &[u8]) -> Result<FrameHead, Malformed> {
    let mut fields = Fields(bytes);
    let mut head = FrameHead {
        length: fields.u32()? as usize,
        checksum: fields.u32()?,
        start: fields.u64()?,
        synced: fields.u64()?,
        arrived_ns: fields.u64()?,
        count: fields.u32()?,
        client_length: fields.u32()?,
        sequence: fields.u64()?,
        content_length: fields.u32()?,
        offsets_length: 0,
        stretches_length: 0,
    };
    if fields.take(4)? != MARK {
        return Err(Malformed);
    }
    head.offsets_length = fields.u32()?;
    head.stretches_length = fields.u32()?;
    Ok(head)
}

impl FrameHead {
    /// One past the record's last position.
    pub(crate) fn end(&self) -> u64 {
        self.start + u64::from(self.count)
    }

    /// The checksum of the whole record.
    pub(crate) fn checksum(&self) -> u32 {
        self.checksum
    }

    /// Whether these bytes, the whole record, match their checksum.
    pub(crate) fn matches(&self, record: &[u8]) -> bool {
        record.len() == self.length && checksum(self.length as u32, &[&record[8..]]) == self.checksum
    }

    /// Where the content is in the record.
    pub(crate) fn content(&self) -> Range<usize> {
        let start = self.stretches_start() + padded(self.stretches_length as usize);
        start..start + self.content_length as usize
    }

    /// The offsets that change with it.
    pub(crate) fn offsets(&self, record: &[u8]) -> Result<Vec<SourceOffset>, Malformed> {
        let start = self.offsets_start();
        decode_offsets(record.get(start..start + self.offsets_length as usize).ok_or(Malformed)?)
    }

    /// Whose its rows are.
    pub(crate) fn stretches(&self, record: &[u8]) -> Result<Vec<Stretch>, Malformed> {
        let start = self.stretches_start();
        let bytes = record.get(start..start + self.stretches_length as usize).ok_or(Malformed)?;
        decode_stretches(bytes, self.count)
    }

    fn offsets_start(&self) -> usize {
        HEAD_BYTES + padded(self.client_bytes())
    }

    fn stretches_start(&self) -> usize {
        self.offsets_start() + padded(self.offsets_length as usize)
    }

    /// Who sent it: the name of the client, and the request's number.
    pub(crate) fn request(&self, record: &[u8]) -> Option<Request> {
        if self.client_length == NO_CLIENT {
            return None;
        }
        let client = record.get(HEAD_BYTES..HEAD_BYTES + self.client_bytes())?;
        Some(Request { client: String::from_utf8(client.to_vec()).ok()?, sequence: self.sequence })
    }

    fn client_bytes(&self) -> usize {
        if self.client_length == NO_CLIENT { 0 } else { self.client_length as usize }
    }
}

fn checksum(length: u32, parts: &[&[u8]]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&length.to_le_bytes());
    parts.iter().for_each(|part| hasher.update(part));
    hasher.finalize()
}

fn padded(length: usize) -> usize {
    length.next_multiple_of(ALIGNMENT)
}
