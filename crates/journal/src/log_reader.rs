//! Reads a log while it is written by the same process: the file is mapped and read record by record.

use std::sync::Arc;

use arrow_buffer::{Buffer, MutableBuffer};
use tidemill_core::error::Cause;

use crate::failure::{damaged, failed};
use crate::frame::{FrameHead, HEAD_BYTES, decode_head};
use crate::medium::MediumFile;
use crate::record_log::LogShared;
use crate::segment::{Segment, read_exactly};

/// Up to this many bytes that are not mapped yet are copied; more are worth another mapping.
const COPIED_BYTES_MAX: u64 = 64 << 10;

/// A record whose checksum was verified.
pub(crate) struct Read {
    pub head: FrameHead,
    pub bytes: Buffer,
    pub segment: Arc<Segment>,
    pub offset: u64,
}

/// The reading end of a log.
pub(crate) struct LogReader {
    shared: Arc<LogShared>,
    place: Option<ReaderPosition>,
}

/// The reader's position: at the record that it read last.
struct ReaderPosition {
    segment: Arc<Segment>,
    file: Arc<dyn MediumFile>,
    mapped: Buffer,
    offset: u64,
    position: u64,
}

impl LogReader {
    pub(crate) fn new(shared: Arc<LogShared>) -> LogReader {
        LogReader { shared, place: None }
    }

    /// Another reader of the same log.
    pub(crate) fn another(&self) -> LogReader {
        LogReader::new(self.shared.clone())
    }

    /// The record that contains the position; `None`: it is not written yet.
    pub(crate) fn read(&mut self, from: u64) -> Result<Option<Read>, Cause> {
        if from >= self.shared.progress.end() {
            return Ok(None);
        }
        let (segment, end) = self.segment_of(from)?;
        let stays = |place: &ReaderPosition| Arc::ptr_eq(&place.segment, &segment) && place.position <= from;
        let mut place = match self.place.take().filter(stays) {
            Some(place) => place,
            None => self.place_at(segment)?,
        };
        let read = place.find(from, end)?;
        self.place = Some(place);
        Ok(Some(read))
    }

    /// The segment that contains the position, and the end of the segment's positions.
    fn segment_of(&self, position: u64) -> Result<(Arc<Segment>, u64), Cause> {
        let segments = self.shared.segments();
        let behind = segments.partition_point(|segment| segment.first <= position);
        let Some(at) = behind.checked_sub(1) else {
            let first = segments[0].first;
            return Err(Cause::operation(format!(
                "{}: position {position} no longer exists, the first one is {first}; keep more with `retain`",
                segments[0].path.display()
            )));
        };
        let end = segments.get(behind).map_or_else(|| self.shared.progress.end(), |next| next.first);
        Ok((segments[at].clone(), end))
    }

    fn place_at(&self, segment: Arc<Segment>) -> Result<ReaderPosition, Cause> {
        let open = self.shared.medium.open(&segment.path, false);
        let file = open.map_err(|error| failed("open", &segment.path, error))?;
        let (offset, position) = (segment.head_bytes, segment.first);
        Ok(ReaderPosition { segment, file, mapped: Buffer::default(), offset, position })
    }
}

impl ReaderPosition {
    fn find(&mut self, from: u64, end: u64) -> Result<Read, Cause> {
        loop {
            let head = self.head()?;
            if head.start != self.position || head.end() > end {
                return Err(self.damage("the record does not have the expected position"));
            }
            if from < head.end() {
                return self.record(head);
            }
            self.offset += head.length as u64;
            self.position = head.end();
        }
    }

    fn head(&mut self) -> Result<FrameHead, Cause> {
        let bytes = self.bytes(HEAD_BYTES)?;
        match decode_head(&bytes) {
            Ok(Some(head)) => Ok(head),
            Ok(None) => Err(self.damage("records are missing")),
            Err(reason) => Err(self.damage(reason)),
        }
    }

    fn record(&mut self, head: FrameHead) -> Result<Read, Cause> {
        let bytes = self.bytes(head.length)?;
        if head.matches(&bytes) {
            Ok(Read { head, bytes, segment: self.segment.clone(), offset: self.offset })
        } else {
            Err(self.damage("the checksum of a record does not match"))
        }
    }

    /// This many bytes from the reader's position on.
    fn bytes(&mut self, length: usize) -> Result<Buffer, Cause> {
        let (written, end) = (self.segment.written(), self.offset + length as u64);
        if end > written {
            return Err(self.damage("records are missing"));
        }
        let path = &self.segment.path;
        if end > self.mapped.len() as u64 {
            if written - self.offset <= COPIED_BYTES_MAX {
                let mut bytes = MutableBuffer::from_len_zeroed(length);
                let read = read_exactly(&*self.file, &mut bytes, self.offset);
                read.map_err(|error| failed("read", path, error))?;
                return Ok(bytes.into());
            }
            self.mapped = self.file.map(written).map_err(|error| failed("read", path, error))?;
        }
        Ok(self.mapped.slice_with_length(self.offset as usize, length))
    }

    fn damage(&self, reason: &str) -> Cause {
        damaged(&self.segment.path, self.offset, reason)
    }
}
