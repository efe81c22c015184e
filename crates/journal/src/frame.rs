//! The bytes of one record: a head, who sent it, and what is in it.
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
//! | 56 | 8 | zeros |
//! | 64 | | the client's name, zeros up to a multiple of 64 |
//! | | | the content, zeros up to a multiple of 64 |
//!
//! All numbers are little-endian. Records begin at multiples of 64, so the columns in them are aligned as Arrow wants.

use std::ops::Range;

use tidemill_core::source::Request;

use crate::fields::{Fields, PutFields};

/// What records and their parts are aligned to.
pub(crate) const ALIGNMENT: usize = 64;
/// The length of a record's head.
pub(crate) const HEAD_BYTES: usize = 64;
/// The longest record.
pub(crate) const RECORD_BYTES_MAX: u64 = 1 << 30;
/// The longest name of a client.
pub(crate) const CLIENT_BYTES_MAX: usize = 1024;

const MARK: [u8; 4] = *b"TIDR";
const NO_CLIENT: u32 = u32::MAX;
const ZEROS: [u8; ALIGNMENT] = [0; ALIGNMENT];

/// What the head of a record says.
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
}

/// What is to be written besides the content.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NewFrame<'a> {
    pub start: u64,
    pub count: u32,
    pub synced: u64,
    pub arrived_ns: u64,
    pub request: Option<&'a Request>,
}

/// The length of the record, with content of this length.
pub(crate) fn frame_bytes(request: Option<&Request>, content_bytes: usize) -> usize {
    HEAD_BYTES + padded(request.map_or(0, |request| request.client.len())) + padded(content_bytes)
}

/// Calls `write` with all parts of the record.
pub(crate) fn encode_frame<T>(frame: &NewFrame, content: &[&[u8]], write: impl FnOnce(&[&[u8]]) -> T) -> T {
    let client = frame.request.map_or(&[][..], |request| request.client.as_bytes());
    let content_bytes: usize = content.iter().map(|part| part.len()).sum();
    let length = frame_bytes(frame.request, content_bytes) as u32;
    let body_head = encode_head(frame, content_bytes);
    let mut parts = Vec::with_capacity(content.len() + 5);
    parts.extend([&body_head[..], client, &ZEROS[..padded(client.len()) - client.len()]]);
    parts.extend(content);
    parts.push(&ZEROS[..padded(content_bytes) - content_bytes]);

    let checksum = checksum(length, &parts);
    let mut front = [0; 8];
    front[..4].copy_from_slice(&length.to_le_bytes());
    front[4..].copy_from_slice(&checksum.to_le_bytes());
    parts.insert(0, &front);
    write(&parts)
}

/// The head behind length and checksum.
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
    head.put_u64(0);
    head
}

/// Reads a head; `Ok(None)` where no record begins, an error says why there can be none.
pub(crate) fn decode_head(bytes: &[u8]) -> Result<Option<FrameHead>, &'static str> {
    let head = bytes.get(..HEAD_BYTES).ok_or("the file ends within the head of a record")?;
    if head == ZEROS {
        return Ok(None);
    }
    let head = head_fields(head).map_err(|_| "the head of a record is cut off")?;
    let client_bytes = if head.client_length == NO_CLIENT { 0 } else { head.client_length as usize };
    if head.length as u64 > RECORD_BYTES_MAX || client_bytes > CLIENT_BYTES_MAX {
        return Err("a record has an impossible length");
    }
    let expected =
        HEAD_BYTES as u64 + padded(client_bytes) as u64 + padded(head.content_length as usize) as u64;
    match head.length as u64 == expected
        && head.count > 0
        && head.start.checked_add(head.count.into()).is_some()
    {
        true => Ok(Some(head)),
        false => Err("the head of a record contradicts itself"),
    }
}

fn head_fields(bytes: &[u8]) -> Result<FrameHead, crate::fields::EndsEarly> {
    let mut fields = Fields(bytes);
    let head = FrameHead {
        length: fields.u32()? as usize,
        checksum: fields.u32()?,
        start: fields.u64()?,
        synced: fields.u64()?,
        arrived_ns: fields.u64()?,
        count: fields.u32()?,
        client_length: fields.u32()?,
        sequence: fields.u64()?,
        content_length: fields.u32()?,
    };
    match fields.take(4)? == MARK {
        true => Ok(head),
        false => Err(crate::fields::EndsEarly),
    }
}

impl FrameHead {
    /// One past the record's last position.
    pub(crate) fn end(&self) -> u64 {
        self.start + u64::from(self.count)
    }

    /// Whether these bytes, the whole record, are what was written.
    pub(crate) fn matches(&self, record: &[u8]) -> bool {
        record.len() == self.length && checksum(self.length as u32, &[&record[8..]]) == self.checksum
    }

    /// Where the content is in the record.
    pub(crate) fn content(&self) -> Range<usize> {
        let start = HEAD_BYTES + padded(self.client_bytes());
        start..start + self.content_length as usize
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
