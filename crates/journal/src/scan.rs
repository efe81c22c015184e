//! Reads a segment record by record and trusts nothing, for recovery, verification and inspection. It maps nothing, so
//! it does no harm if another process shortens the file.

use std::path::PathBuf;
use std::sync::Arc;

use arrow_buffer::{Buffer, MutableBuffer};
use tidemill_core::error::Cause;

use crate::failure::failed;
use crate::frame::{ALIGNMENT, ENDS_WITHIN_HEAD, FrameHead, HEAD_BYTES, decode_head};
use crate::medium::MediumFile;
use crate::segment::read_exactly;

/// How much is examined at once behind the last record.
const WINDOW_BYTES: usize = 64 << 10;

const ENDS_WITHIN_RECORD: &str = "the file ends within a record";

/// A record and its location.
pub(crate) struct ScannedRecord {
    pub head: FrameHead,
    pub offset: u64,
    /// The whole record.
    pub bytes: Buffer,
}

/// The next item in a segment.
pub(crate) enum Next {
    Record(ScannedRecord),
    /// No more records: the file ends, or zeros follow.
    End,
    /// Something that is not a record.
    Bad(&'static str),
}

/// The records of one segment.
pub(crate) struct Scan {
    pub path: PathBuf,
    file: Arc<dyn MediumFile>,
    length: u64,
    /// The offset of the next record.
    pub offset: u64,
    /// The position that the next record must begin with.
    pub position: u64,
}

impl Scan {
    pub(crate) fn new(
        path: PathBuf,
        file: Arc<dyn MediumFile>,
        offset: u64,
        position: u64,
    ) -> Result<Scan, Cause> {
        let length = file.length().map_err(|error| failed("read", &path, error))?;
        Ok(Scan { path, file, length, offset, position })
    }

    /// The next record. After anything else the scan stays where it is.
    pub(crate) fn next(&mut self) -> Result<Next, Cause> {
        let next = self.due()?;
        if let Next::Record(found) = &next {
            self.offset += found.head.length as u64;
            self.position = found.head.end();
        }
        Ok(next)
    }

    /// The next record, without advancing past it; the file may have grown.
    pub(crate) fn peek(&mut self) -> Result<Next, Cause> {
        self.length = self.file.length().map_err(|error| failed("read", &self.path, error))?;
        self.due()
    }

    /// What is here: a record only if it has the expected position.
    fn due(&self) -> Result<Next, Cause> {
        match self.record_at(self.offset)? {
            Next::Record(found) if found.head.start != self.position => {
                Ok(Next::Bad("the record does not have the expected position"))
            }
            next => Ok(next),
        }
    }

    fn record_at(&self, offset: u64) -> Result<Next, Cause> {
        let rest = self.length.saturating_sub(offset);
        if rest == 0 {
            return Ok(Next::End);
        }
        let mut head = vec![0; rest.min(HEAD_BYTES as u64) as usize];
        if !self.is_read(&mut head, offset)? || head.iter().all(|byte| *byte == 0) {
            return Ok(Next::End);
        }
        let head = match decode_head(&head) {
            Ok(Some(head)) if head.length as u64 <= rest => head,
            Ok(Some(_)) => return Ok(Next::Bad(ENDS_WITHIN_RECORD)),
            Ok(None) => return Ok(Next::End),
            Err(reason) => return Ok(Next::Bad(reason)),
        };
        let mut bytes = MutableBuffer::from_len_zeroed(head.length);
        if !self.is_read(&mut bytes, offset)? {
            return Ok(Next::Bad(ENDS_WITHIN_RECORD));
        }
        if head.matches(&bytes) {
            Ok(Next::Record(ScannedRecord { head, offset, bytes: bytes.into() }))
        } else {
            Ok(Next::Bad("the checksum of a record does not match"))
        }
    }

    /// Why what is here, which is not a record, is damage and not a write that was cut short; `None`: it may be one. A power failure
    /// takes only what was not synced. If there was none since the log was opened, only the last write can be cut short, and
    /// its space is reserved before.
    pub(crate) fn damage(
        &self,
        bad: Option<&'static str>,
        is_uninterrupted: bool,
    ) -> Result<Option<String>, Cause> {
        let what = bad.unwrap_or("a record is missing");
        let witness = self.witness_of_damage(is_uninterrupted)?;
        Ok(match witness {
            Some(witness) if is_uninterrupted => Some(format!(
                "{what}, although the record at byte {witness} was written later, and the machine has not restarted \
                 since"
            )),
            Some(witness) => {
                Some(format!("{what}, although the record at byte {witness} says that it was synced"))
            }
            None if is_uninterrupted && matches!(bad, Some(ENDS_WITHIN_RECORD | ENDS_WITHIN_HEAD)) => {
                Some(format!("{what}, which nothing but another program can have shortened"))
            }
            None => None,
        })
    }

    /// Looks behind the current offset for a record that was written when the missing part was already synced, or simply later.
    /// Returns the offset of that record.
    fn witness_of_damage(&self, is_later_enough: bool) -> Result<Option<u64>, Cause> {
        let mut window = vec![0; WINDOW_BYTES];
        let mut at = self.offset;
        while at < self.length {
            let length = (self.length - at).min(window.len() as u64) as usize;
            self.read(&mut window[..length], at)?;
            for offset in (0..length).step_by(ALIGNMENT) {
                let Ok(Some(head)) = decode_head(&window[offset..length]) else { continue };
                let offset = at + offset as u64;
                let is_later = offset > self.offset && head.start > self.position;
                let claims = is_later && (is_later_enough || head.synced > self.position);
                if claims && matches!(self.record_at(offset)?, Next::Record(_)) {
                    return Ok(Some(offset));
                }
            }
            at += length as u64;
        }
        Ok(None)
    }

    /// Whether all records of a segment are there, and end before a position. Usually only the last one is read, which ends with the
    /// file; damage is for whoever reads it to find.
    pub(crate) fn ends_before(&mut self, position: u64) -> Result<bool, Cause> {
        if self.last_record_ends_at(position)? {
            return Ok(false);
        }
        loop {
            match self.next()? {
                Next::Record(_) => {}
                Next::Bad(_) => return Ok(false),
                Next::End => return Ok(self.position < position),
            }
        }
    }

    /// Whether a record that fills the end of the file ends at a position. Looks for it from the end of the file on.
    fn last_record_ends_at(&self, position: u64) -> Result<bool, Cause> {
        let mut window = vec![0; WINDOW_BYTES];
        let mut end = self.length;
        while end > self.offset {
            let start = self.offset.max(end.saturating_sub(window.len() as u64));
            let bytes = &mut window[..(end - start) as usize];
            self.read(bytes, start)?;
            for at in (0..bytes.len()).step_by(ALIGNMENT).rev() {
                let Ok(Some(head)) = decode_head(&bytes[at..]) else { continue };
                let offset = start + at as u64;
                if head.end() == position && offset + head.length as u64 == self.length {
                    return Ok(matches!(self.record_at(offset)?, Next::Record(_)));
                }
            }
            end = start;
        }
        Ok(false)
    }

    /// The number of bytes from here to the last one that is not zero.
    pub(crate) fn remains(&self) -> Result<u64, Cause> {
        let mut window = vec![0; WINDOW_BYTES];
        let mut end = self.length;
        while end > self.offset {
            let start = self.offset.max(end.saturating_sub(window.len() as u64));
            let bytes = &mut window[..(end - start) as usize];
            self.read(bytes, start)?;
            if let Some(last) = bytes.iter().rposition(|byte| *byte != 0) {
                return Ok(start + last as u64 + 1 - self.offset);
            }
            end = start;
        }
        Ok(0)
    }

    /// Reads; false if the file has become shorter meanwhile: its writer has returned the space that it did not need.
    fn is_read(&self, target: &mut [u8], offset: u64) -> Result<bool, Cause> {
        let read = self.file.read_at(target, offset).map_err(|error| failed("read", &self.path, error))?;
        Ok(read == target.len())
    }

    fn read(&self, target: &mut [u8], offset: u64) -> Result<(), Cause> {
        read_exactly(&*self.file, target, offset).map_err(|error| failed("read", &self.path, error))
    }
}
