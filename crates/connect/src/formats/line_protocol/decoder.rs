//! Decodes line protocol that comes in pieces.

use std::collections::VecDeque;

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use tidemill_core::error::Cause;
use tidemill_core::source::Faults;
use tidemill_core::{BadRecords, Clock, TimeOfDay};

use super::marks::Marks;
use super::points::Points;
use super::shape::MarkedLine;
use super::{LineProtocolSettings, Precision};
use crate::formats::{DecoderSettings, RecordDecoder, Waiting};

/// The most bytes of lines in one batch, independent of the number of rows.
const BATCH_BYTES_MAX: usize = 256 << 20;

/// Lines are processed in pieces of this many bytes.
const PIECE_BYTES: usize = 64 * 1024;

/// Decodes line protocol.
///
/// ```
/// use std::collections::VecDeque;
/// use std::sync::Arc;
/// use tidemill_connect::formats::line_protocol::LineProtocolDecoder;
/// use tidemill_connect::formats::{DecoderSettings, RecordDecoder};
/// use tidemill_core::arrow::schema::{DataType, Field, Schema};
///
/// let schema = Arc::new(Schema::new(vec![
///     Field::new("host", DataType::Utf8, true),
///     Field::new("usage", DataType::Float64, true),
/// ]));
/// let settings = DecoderSettings { schema, csv: Default::default(), batch_rows: 8192 };
/// let mut decoder = LineProtocolDecoder::new(settings, Default::default())?;
/// let mut batches = VecDeque::new();
/// decoder.begin("agent");
/// decoder.decode(b"cpu,host=a usage=0.5 1767225600000000000\ncpu,host=b usage=\n", &mut batches)?;
/// assert_eq!(batches[0].num_rows(), 1);
/// assert!(decoder.faults().samples[0].starts_with("agent, line 2: '' is not a value"));
/// # Ok::<(), tidemill_core::Cause>(())
/// ```
#[derive(Debug)]
pub struct LineProtocolDecoder {
    declared: SchemaRef,
    points: Points,
    /// The marks of the text being processed.
    marks: Marks,
    settings: LineProtocolSettings,
    batch_rows: usize,
    /// The time of points without one; `None`: the clock's.
    arrival: Option<i64>,
    /// The largest time that was given to a point without one, so that a clock that is set back makes none earlier.
    latest_arrival: i64,
    /// Whether points without a time are left without one.
    leaves_times_open: bool,
    place: String,
    /// The beginning of a line whose end has not come yet.
    partial: Vec<u8>,
    /// The bytes of the lines whose rows have not been returned yet.
    batch_bytes: usize,
    line: u64,
    discarding: bool,
    /// The line numbers of the rows since this was last asked, if they are kept.
    row_lines: Option<Vec<u64>>,
    faults: Faults,
}

impl LineProtocolDecoder {
    /// A decoder at the beginning of its first input.
    ///
    /// # Errors
    /// [`Cause::user`] if a column's type or a setting is not supported.
    pub fn new(
        decoder: DecoderSettings,
        settings: LineProtocolSettings,
    ) -> Result<LineProtocolDecoder, Cause> {
        settings.check()?;
        let all: Vec<usize> = (0..decoder.schema.fields().len()).collect();
        Ok(LineProtocolDecoder {
            points: Points::new(&decoder.schema, &all, settings.clone())?,
            declared: decoder.schema,
            marks: Marks::default(),
            settings,
            batch_rows: decoder.batch_rows.max(1),
            arrival: None,
            latest_arrival: i64::MIN,
            leaves_times_open: false,
            place: "input".to_owned(),
            partial: Vec::new(),
            batch_bytes: 0,
            line: 1,
            discarding: false,
            row_lines: None,
            faults: Faults::default(),
        })
    }

    /// Rows were added since there were this many: they come from this line and the following ones.
    fn note_row_lines(&mut self, rows_before: usize) {
        if let Some(lines) = &mut self.row_lines {
            lines.extend((self.line..).take(self.points.rows() - rows_before));
        }
    }

    /// Sets the unit of the following times.
    pub fn set_precision(&mut self, precision: Precision) {
        self.points.set_precision(precision);
    }

    /// Sets the time of the following points without one, in nanoseconds since 1970; `None`: when they are decoded.
    pub fn set_arrival(&mut self, time_ns: Option<i64>) {
        self.arrival = time_ns;
    }

    /// Leaves the following points without a time if they have none: the part that puts the rows in order gives them
    /// their times.
    pub fn leave_times_open(&mut self) {
        self.leaves_times_open = true;
        self.points.leave_times_open();
    }

    /// The number of rows that [`push`](LineProtocolDecoder::push) made and nobody has taken yet.
    pub fn rows(&self) -> usize {
        self.points.rows()
    }

    /// Takes bytes like [`decode`](RecordDecoder::decode), but keeps all rows for
    /// [`take_rows`](LineProtocolDecoder::take_rows).
    ///
    /// # Errors
    /// [`Cause::bug`] only.
    pub fn push(&mut self, bytes: &[u8]) -> Result<(), Cause> {
        self.take_in(bytes, usize::MAX, &mut VecDeque::new())
    }

    /// The input has ended: takes a last line that has no line end.
    pub fn push_last_line(&mut self) {
        let line = std::mem::take(&mut self.partial);
        if !line.is_empty() && !self.discarding {
            let rows_before = self.points.rows();
            self.take_checked(&line, 0, line.len());
            self.note_row_lines(rows_before);
        }
        self.discarding = false;
    }

    /// All rows that were made so far, as one batch.
    ///
    /// # Errors
    /// [`Cause::bug`] only.
    pub fn take_rows(&mut self) -> Result<RecordBatch, Cause> {
        self.batch_bytes = 0;
        self.points.finish()
    }

    fn take_in(
        &mut self,
        bytes: &[u8],
        batch_rows: usize,
        batches: &mut VecDeque<RecordBatch>,
    ) -> Result<(), Cause> {
        let Some(last) = memchr::memrchr(b'\n', bytes) else {
            self.keep(bytes);
            return Ok(());
        };
        let mut start = 0;
        if !self.partial.is_empty() || self.discarding {
            start = memchr::memchr(b'\n', bytes).unwrap_or(last) + 1;
            self.keep(&bytes[..start - 1]);
            self.push_last_line();
            self.line += 1;
        }
        self.lines(&bytes[start..=last.max(start.saturating_sub(1))], batch_rows, batches)?;
        self.keep(&bytes[last + 1..]);
        Ok(())
    }

    /// Takes complete lines.
    fn lines(
        &mut self,
        mut text: &[u8],
        batch_rows: usize,
        batches: &mut VecDeque<RecordBatch>,
    ) -> Result<(), Cause> {
        while !text.is_empty() {
            let (piece, rest) = text.split_at(end_of_piece(text));
            let mut marks = std::mem::take(&mut self.marks);
            // Checked at once for all lines and, if that fails, line by line.
            let is_checked = marks.find(piece) || std::str::from_utf8(piece).is_ok();
            let result = self.piece(piece, marks.places(), is_checked, batch_rows, batches);
            self.marks = marks;
            result?;
            text = rest;
        }
        Ok(())
    }

    /// Takes complete lines with these marks, the last of which is a line end.
    fn piece(
        &mut self,
        text: &[u8],
        mut marks: &[u32],
        is_checked: bool,
        batch_rows: usize,
        batches: &mut VecDeque<RecordBatch>,
    ) -> Result<(), Cause> {
        let arrival = self.arrival();
        let mut start = 0;
        while !marks.is_empty() {
            let (line, rows_before) = (MarkedLine { start, marks }, self.points.rows());
            let (lines, count) =
                if is_checked { self.points.push_alike(text, line, batch_rows, arrival) } else { (0, 0) };
            let (lines, count) = match lines {
                0 => (1, self.take_line(text, line, is_checked, arrival)),
                _ => (lines, count),
            };
            self.note_row_lines(rows_before);
            let behind = marks[count - 1] as usize + 1;
            self.batch_bytes += behind - start;
            self.line += lines as u64;
            (start, marks) = (behind, &marks[count..]);
            if self.points.rows() >= batch_rows
                || self.batch_bytes >= BATCH_BYTES_MAX && batch_rows < usize::MAX
            {
                batches.push_back(self.take_rows()?);
            }
        }
        Ok(())
    }

    /// Takes a single line; returns how many marks it has.
    fn take_line(&mut self, text: &[u8], line: MarkedLine, is_checked: bool, arrival: i64) -> usize {
        let is_end = |mark: &u32| text[*mark as usize] == b'\n';
        let count = line.marks.iter().position(is_end).map_or(line.marks.len(), |index| index + 1);
        let end = line.marks[count - 1] as usize;
        if !is_checked {
            self.take_checked(text, line.start, end);
        } else if self.take(text, line.start, end, arrival) {
            self.points.learn(text, MarkedLine { marks: &line.marks[..count], ..line });
        }
        count
    }

    /// Whether it is a point.
    fn take(&mut self, text: &[u8], start: usize, end: usize, arrival: i64) -> bool {
        let end = if end > start && text[end - 1] == b'\r' { end - 1 } else { end };
        if end - start > self.settings.line_bytes_max {
            self.too_long(&text[start..end]);
            return false;
        }
        self.points.push(text, start, end, arrival).unwrap_or_else(|reason| {
            self.fault(&reason, &text[start..end]);
            false
        })
    }

    fn take_checked(&mut self, text: &[u8], start: usize, end: usize) {
        match std::str::from_utf8(&text[start..end]) {
            Ok(_) => {
                let arrival = self.arrival();
                self.take(text, start, end, arrival);
            }
            Err(_) => self.fault("bytes that are not UTF-8", &text[start..end]),
        }
    }

    /// Keeps the beginning of a line, or nothing more of it if it is too long.
    fn keep(&mut self, bytes: &[u8]) {
        if self.discarding {
            return;
        }
        // One byte more, for a carriage return.
        if self.partial.len() + bytes.len() > self.settings.line_bytes_max + 1 {
            let mut begun = std::mem::take(&mut self.partial);
            let missing = (BadRecords::RECORD_BYTES_MAX + 1).saturating_sub(begun.len());
            begun.extend_from_slice(&bytes[..bytes.len().min(missing)]);
            self.too_long(&begun);
            self.discarding = true;
            return;
        }
        self.partial.extend_from_slice(bytes);
    }

    fn arrival(&mut self) -> i64 {
        let now = || i64::try_from(TimeOfDay.now_ns()).unwrap_or(i64::MAX);
        self.latest_arrival = self.latest_arrival.max(self.arrival.unwrap_or_else(now));
        self.latest_arrival
    }

    #[cold]
    fn too_long(&mut self, line: &[u8]) {
        let limit = self.settings.line_bytes_max;
        self.fault(&format!("longer than {limit} bytes"), line);
    }

    #[cold]
    fn fault(&mut self, reason: &str, line: &[u8]) {
        let LineProtocolDecoder { faults, place, line: number, .. } = self;
        faults.add_record(|| format!("{place}, line {number}"), || reason.to_owned(), line);
    }

    /// Names that were seen for the first time and have no column, each with its kind.
    pub fn take_undeclared(&mut self) -> Vec<String> {
        self.points.take_news()
    }

    /// Faults, without undeclared names.
    pub fn take_faults(&mut self) -> Faults {
        self.faults.take()
    }
}

/// Where a piece of complete lines ends: a line that is longer than a piece forms its own.
fn end_of_piece(text: &[u8]) -> usize {
    if text.len() <= PIECE_BYTES {
        return text.len();
    }
    let last = memchr::memrchr(b'\n', &text[..PIECE_BYTES]);
    last.or_else(|| memchr::memchr(b'\n', text)).map_or(text.len(), |end| end + 1)
}

impl RecordDecoder for LineProtocolDecoder {
    fn schema(&self) -> SchemaRef {
        self.points.schema()
    }

    fn set_projection(&mut self, columns: &[usize]) -> Result<(), Cause> {
        self.points = Points::new(&self.declared, columns, self.settings.clone())?;
        if self.leaves_times_open {
            self.points.leave_times_open();
        }
        Ok(())
    }

    fn begin(&mut self, place: &str) {
        place.clone_into(&mut self.place);
        self.partial.clear();
        self.discarding = false;
        self.line = 1;
    }

    fn decode(&mut self, bytes: &[u8], batches: &mut VecDeque<RecordBatch>) -> Result<(), Cause> {
        self.take_in(bytes, self.batch_rows, batches)?;
        if self.points.rows() > 0 {
            batches.push_back(self.take_rows()?);
        }
        Ok(())
    }

    fn waiting(&self) -> Option<Waiting> {
        (!self.discarding).then_some(Waiting { bytes: self.partial.len() as u64, line: self.line })
    }

    fn resume_at(&mut self, line: u64) {
        self.partial.clear();
        self.discarding = false;
        self.line = line;
    }

    fn finish(&mut self, batches: &mut VecDeque<RecordBatch>) -> Result<(), Cause> {
        self.push_last_line();
        if self.points.rows() > 0 {
            batches.push_back(self.take_rows()?);
        }
        Ok(())
    }

    fn keep_row_lines(&mut self) {
        self.row_lines = Some(Vec::new());
    }

    fn take_row_lines(&mut self) -> Vec<u64> {
        self.row_lines.as_mut().map_or(Vec::new(), std::mem::take)
    }

    fn keep_bad_records(&mut self) {
        self.faults.keep_records();
    }

    fn faults(&mut self) -> Faults {
        let mut faults = self.take_faults();
        for news in self.points.take_news() {
            faults.add(format!("{}: {news}", self.place));
        }
        faults
    }
}
