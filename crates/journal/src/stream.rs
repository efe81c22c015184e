//! The journal of one stream: rows are appended at one end and read, by position, at the other.

use std::collections::BTreeSet;
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_buffer::Buffer;
use parking_lot::Mutex;
use tidemill_core::connections::Stretch;
use tidemill_core::error::Cause;
use tidemill_core::fields::Malformed;
use tidemill_core::source::{Request, SourceOffset, SourceOffsets};

use crate::failure::damaged;
use crate::frame::FrameHead;
use crate::lengths::opening;
use crate::log_reader::LogReader;
use crate::progress::StreamProgress;
use crate::record_log::{NewRecord, RecordLog};
use crate::recovery;
use crate::rows::{RowDecoder, RowEncoder};

/// How much of a stream is kept, and in what segments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamSettings {
    /// The size of a segment; at most a quarter of `bytes_max`.
    pub segment_bytes: u64,
    /// The maximum size of the journal. At the limit it accepts no more rows. One record may exceed it.
    pub bytes_max: u64,
    /// How much is kept although it is no longer needed, as long as `bytes_max` is not reached.
    pub retain_bytes: u64,
    /// The number of clients whose last request number is remembered; the one heard from longest ago is forgotten.
    pub clients_max: usize,
}

impl Default for StreamSettings {
    fn default() -> Self {
        StreamSettings { segment_bytes: 64 << 20, bytes_max: 16 << 30, retain_bytes: 0, clients_max: 10_000 }
    }
}

/// Rows of a stream that were appended together.
#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    /// The position of the first row.
    pub start: u64,
    /// The rows.
    pub rows: RecordBatch,
    /// When they arrived, on the engine's clock.
    pub arrived_ns: u64,
    /// Who sent them.
    pub request: Option<Request>,
    /// Whose they are, if the source has connections.
    pub stretches: Vec<Stretch>,
}

impl Record {
    /// What the bytes of a whole record hold.
    pub(crate) fn of(head: &FrameHead, bytes: &Buffer, decoder: &RowDecoder) -> Result<Record, String> {
        let content = head.content();
        let rows = decoder.decode(&bytes.slice_with_length(content.start, content.len()))?;
        if rows.num_rows() as u64 != u64::from(head.count) {
            return Err(format!("{} rows where {} are expected", rows.num_rows(), head.count));
        }
        let stretches =
            head.stretches(bytes).map_err(|Malformed| "it does not identify the sender of its rows")?;
        let (start, arrived_ns) = (head.start, head.arrived_ns);
        Ok(Record { start, rows, arrived_ns, request: head.request(bytes), stretches })
    }
}

/// The writing end of a stream's journal.
pub struct StreamWriter {
    log: RecordLog,
    encoder: RowEncoder,
    _open: OpenStream,
}

/// The reading end of a stream's journal.
pub struct StreamReader {
    log: LogReader,
    decoder: RowDecoder,
    /// What the head of the segment says that the decoder is for.
    identity: Arc<[u8]>,
}

/// A stream that is open in its journal. Another writer can open it when this is dropped.
pub(crate) struct OpenStream {
    pub name: String,
    pub open: Arc<Mutex<BTreeSet<String>>>,
}

impl Drop for OpenStream {
    fn drop(&mut self) {
        self.open.lock().remove(&self.name);
    }
}

impl StreamWriter {
    pub(crate) fn new(log: RecordLog, encoder: RowEncoder, open: OpenStream) -> StreamWriter {
        StreamWriter { log, encoder, _open: open }
    }

    /// Appends rows as one record and returns one past the position of the last. From now on they survive the end of
    /// this process, and after [`StreamWriter::sync`] also a power failure.
    ///
    /// # Errors
    /// [`Cause::resource`] if the journal or the disk is full; once there is room, appending works again. If a sync
    /// failed before, with that reason. If the rows have different columns than the stream.
    pub fn append(
        &mut self,
        rows: &RecordBatch,
        arrived_ns: u64,
        request: Option<&Request>,
    ) -> Result<u64, Cause> {
        self.append_from(rows, arrived_ns, request, &[], &[])
    }

    /// Appends rows like [`StreamWriter::append`], and in the same record the offsets of the source that change with
    /// them, and the connections that they came over.
    ///
    /// # Errors
    /// Like [`StreamWriter::append`]; [`Cause::user`] if there are too many offsets.
    pub fn append_from(
        &mut self,
        rows: &RecordBatch,
        arrived_ns: u64,
        request: Option<&Request>,
        offsets: &[SourceOffset],
        stretches: &[Stretch],
    ) -> Result<u64, Cause> {
        let count = u32::try_from(rows.num_rows())
            .map_err(|_| Cause::user("a batch has more than 4294967295 rows; send fewer at once"))?;
        let messages = self.encoder.encode(rows)?;
        let content: Vec<&[u8]> = messages.iter().map(|part| part.as_slice()).collect();
        self.log.append(NewRecord { count, arrived_ns, request, offsets, stretches }, &content)
    }

    /// Whether this request, or a later one of its client, was appended before.
    pub fn is_repeated(&self, request: &Request) -> bool {
        self.last_of(&request.client).is_some_and(|last| request.sequence <= last)
    }

    /// The number of the last request of a client, if it is known.
    pub fn last_of(&self, client: &str) -> Option<u64> {
        self.log.origins.clients.last_of(client)
    }

    /// The offsets of the source after the last row.
    pub fn offsets(&self) -> &SourceOffsets {
        self.log.origins.offsets()
    }

    /// Whether the limit of bytes leaves room for rows, once what is no longer needed is removed. Ask before appending.
    ///
    /// # Errors
    /// If the disk fails.
    pub fn has_room(&mut self) -> Result<bool, Cause> {
        self.log.has_room()
    }

    /// Makes everything that was appended durable.
    ///
    /// # Errors
    /// If the disk fails. It is then unknown what the disk has, so the journal accepts nothing more.
    pub fn sync(&mut self) -> Result<(), Cause> {
        self.log.sync()
    }

    /// Durably removes the rows from this position on, at which a record ends.
    ///
    /// # Errors
    /// If the disk fails, or no record ends there.
    pub fn discard_from(&mut self, position: u64) -> Result<(), Cause> {
        recovery::cut_back(&mut self.log, position)
    }

    /// Refuses a journal that has fewer rows than cuts name, up to `named`, if no loss of power can have taken them.
    ///
    /// # Errors
    /// If the end of the journal is lost.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use tidemill_core::arrow::array::{Int64Array, RecordBatch};
    /// # use tidemill_journal::{Disk, Journal, Medium as _, StreamSettings};
    /// # let column = Arc::new(Int64Array::from(vec![7, 8])) as _;
    /// # let rows = RecordBatch::try_from_iter([("value", column)])?;
    /// # let folder = tempfile::tempdir()?;
    /// # let settings = StreamSettings::default();
    /// let journal = Journal::open(folder.path())?;
    /// journal.stream("numbers", rows.schema(), &settings)?.0.note_opening()?;
    /// let (writer, _) = journal.stream("numbers", rows.schema(), &settings)?;
    /// assert!(writer.check_end(0).is_ok());
    /// assert_eq!(writer.check_end(2).is_err(), Disk.machine_start().is_some());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn check_end(&self, named: u64) -> Result<(), Cause> {
        let (medium, folder) = (&*self.log.shared.medium, &self.log.settings.folder);
        opening::read(medium, folder)?.check(medium, folder, self.end(), Some(named))
    }

    /// Notes, durably, that the journal was opened as it is now: what cuts name and it lacks was found to be lost.
    ///
    /// # Errors
    /// If the disk is full or fails.
    pub fn note_opening(&self) -> Result<(), Cause> {
        self.log.note_opening()
    }

    /// Checks that the files are still where they were created. [`StreamWriter::sync`] does so too.
    ///
    /// # Errors
    /// If someone has removed or moved them: what was appended is lost.
    pub fn check_there(&self) -> Result<(), Cause> {
        self.log.tail.file.check_there()
    }

    /// One past the position of the last row.
    pub fn end(&self) -> u64 {
        self.log.end()
    }

    /// How far the journal is, for other threads.
    pub fn progress(&self) -> Arc<StreamProgress> {
        self.log.shared.progress.clone()
    }

    /// How many bytes of an incompletely written record were cut off when the journal was opened.
    pub fn torn_bytes(&self) -> u64 {
        self.log.torn_bytes
    }
}

impl StreamReader {
    pub(crate) fn new(log: LogReader, (identity, decoder): (Arc<[u8]>, RowDecoder)) -> StreamReader {
        StreamReader { log, decoder, identity }
    }

    /// Another reader of the same stream, which begins anywhere.
    pub fn another(&self) -> StreamReader {
        let (decoder, identity) = (self.decoder.clone(), self.identity.clone());
        StreamReader { log: self.log.another(), decoder, identity }
    }

    /// The record that contains the position; `None`: it is not written yet. Reading sequentially is fast; going back
    /// searches the segment.
    ///
    /// # Errors
    /// If the position was removed, or the record is damaged.
    pub fn read(&mut self, from: u64) -> Result<Option<Record>, Cause> {
        let Some(read) = self.log.read(from)? else { return Ok(None) };
        if !Arc::ptr_eq(&self.identity, &read.segment.identity) {
            let decoder = self.decoder.of_segment(&read.segment.identity);
            self.decoder = decoder.map_err(|reason| damaged(&read.segment.path, 0, reason))?;
            self.identity = read.segment.identity.clone();
        }
        let record = Record::of(&read.head, &read.bytes, &self.decoder);
        record.map(Some).map_err(|reason| damaged(&read.segment.path, read.offset, reason))
    }
}
