//! NDJSON: one JSON object per line.
//!
//! - Columns are keys of the object. If an object lacks such a key, a key that differs only in case counts; two of
//!   these are a fault. A missing key is NULL, and other keys are ignored. Fields of structs are found alike.
//! - Numbers, strings and Booleans are read as in CSV, so `"5"` is a number too, and `1.5` is not a BIGINT, neither in a
//!   column nor in a struct or a list. A VARCHAR that gets an object or a list is its text as it is written.
//! - Empty lines are skipped. Lines may end with CR LF. A byte order mark at the beginning is skipped.
//! - Faults are: a line that is not one JSON object, a value that does not have its column's type, NULL in a column
//!   that is NOT NULL, bytes that are not UTF-8, a NUL byte, more than [`RECORD_LIMIT_BYTES`], more than 100 levels of
//!   objects and lists. Columns that nobody reads are checked, too.

use std::collections::VecDeque;

use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::SchemaRef;
use tidemill_core::error::Cause;
use tidemill_core::source::Faults;

use super::bad_rows::BadRows;
use super::json::depth::{is_too_deep, too_deep};
use super::json::rows::{JsonColumns, JsonRows, NO_OBJECT};
use super::ndjson_other_keys::OtherKeys;
use super::values::good_rows;
use super::{DecoderSettings, RECORD_LIMIT_BYTES, RecordDecoder, Waiting, project};

/// How many bytes are taken in at once.
const PIECE_BYTES: usize = 512 * 1024;
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// A column that none of this many objects had is told before the input ends.
const OBJECTS_BEFORE_ABSENCES: u64 = 1_000;

/// Decodes NDJSON.
///
/// ```
/// use std::collections::VecDeque;
/// use std::sync::Arc;
/// use tidemill_connect::formats::ndjson::NdjsonDecoder;
/// use tidemill_connect::formats::{DecoderSettings, RecordDecoder};
/// use tidemill_core::arrow::schema::{DataType, Field, Schema};
///
/// let schema = Arc::new(Schema::new(vec![Field::new("clicks", DataType::Int64, true)]));
/// let settings = DecoderSettings { schema, csv: Default::default(), batch_rows: 8192 };
/// let mut decoder = NdjsonDecoder::new(settings)?;
/// let mut batches = VecDeque::new();
/// decoder.begin("clicks.json");
/// decoder.decode(b"{\"clicks\": 3}\n{\"clicks\": 1.5}\n{\"page\": \"/\"}\n", &mut batches)?;
/// assert_eq!(batches[0].num_rows(), 2);
/// let reason = "clicks.json, line 2: column 'clicks': 1.5 does not fit into BIGINT";
/// assert_eq!(decoder.faults().samples, [reason]);
/// # Ok::<(), tidemill_core::Cause>(())
/// ```
pub struct NdjsonDecoder {
    declared: SchemaRef,
    schema: SchemaRef,
    /// The declared columns.
    read: Vec<usize>,
    columns: JsonColumns,
    batch_rows: usize,
    place: String,
    buffer: Vec<u8>,
    /// The number of the line with which the buffer begins.
    line: u64,
    at_start: bool,
    discarding: bool,
    /// Reports keys without a column, if that is wanted.
    other_keys: Option<OtherKeys>,
    /// The line numbers of the rows since this was last asked, if they are kept.
    row_lines: Option<Vec<u64>>,
    /// How many objects were read, and how many of them had no key that is a column.
    objects: u64,
    strangers: u64,
    /// The number of the latter that is told next.
    strangers_told: u64,
    are_absences_told: bool,
    faults: Faults,
}

/// A line that is not empty: its location in the buffer, and its number.
#[derive(Clone, Copy)]
struct LineRange {
    begin: usize,
    end: usize,
    number: u64,
}

/// A line that has no row, and why.
type BrokenLine = (LineRange, String);

impl LineRange {
    fn of(self, buffer: &[u8]) -> &[u8] {
        &buffer[self.begin..self.end]
    }
}

impl NdjsonDecoder {
    /// A decoder at the beginning of its first input.
    ///
    /// # Errors
    /// [`Cause::user`] if a column has a type that JSON cannot represent.
    pub fn new(settings: DecoderSettings) -> Result<NdjsonDecoder, Cause> {
        let schema = settings.schema;
        Ok(NdjsonDecoder {
            read: (0..schema.fields().len()).collect(),
            columns: JsonColumns::new(&schema)?,
            declared: schema.clone(),
            schema,
            batch_rows: settings.batch_rows.max(1),
            place: "input".to_owned(),
            buffer: Vec::new(),
            line: 1,
            at_start: true,
            discarding: false,
            other_keys: None,
            row_lines: None,
            objects: 0,
            strangers: 0,
            strangers_told: 0,
            are_absences_told: false,
            faults: Faults::default(),
        })
    }

    fn run(&mut self, at_end: bool, batches: &mut VecDeque<RecordBatch>) -> Result<(), Cause> {
        let mut start = 0;
        if self.at_start {
            if self.buffer.len() < BYTE_ORDER_MARK.len()
                && BYTE_ORDER_MARK.starts_with(&self.buffer)
                && !at_end
            {
                return Ok(());
            }
            self.at_start = false;
            start = if self.buffer.starts_with(BYTE_ORDER_MARK) { BYTE_ORDER_MARK.len() } else { 0 };
        }
        let buffer = std::mem::take(&mut self.buffer);
        let result = self.run_lines(&buffer, &mut start, batches);
        self.buffer = buffer;
        self.buffer.drain(..start);
        if self.buffer.len() > RECORD_LIMIT_BYTES {
            if !self.discarding {
                let begun = std::mem::take(&mut self.buffer);
                self.fault(self.line, &begun, too_long());
            }
            self.discarding = true;
            self.buffer.clear();
        }
        result
    }

    /// Decodes the complete lines from `start` on, and moves it behind them.
    fn run_lines(
        &mut self,
        buffer: &[u8],
        start: &mut usize,
        batches: &mut VecDeque<RecordBatch>,
    ) -> Result<(), Cause> {
        let mut lines = Vec::with_capacity(self.batch_rows.min(buffer.len() / 16 + 1));
        let mut broken: Vec<BrokenLine> = Vec::new();
        for newline in memchr::memchr_iter(b'\n', &buffer[*start..]).map({
            let base = *start;
            move |at| base + at
        }) {
            let line = LineRange { begin: *start, end: newline, number: self.line };
            *start = newline + 1;
            self.line += 1;
            if std::mem::take(&mut self.discarding) {
                continue;
            }
            let bytes = &buffer[line.begin..line.end];
            match self.check(bytes) {
                Ok(true) => lines.push(line),
                Ok(false) => {}
                Err(reason) => broken.push((line, reason)),
            }
            if lines.len() == self.batch_rows {
                self.emit(buffer, &lines, std::mem::take(&mut broken), batches)?;
                lines.clear();
            }
        }
        self.emit(buffer, &lines, broken, batches)
    }

    /// Whether a line is not empty.
    fn check(&self, line: &[u8]) -> Result<bool, String> {
        if line.len() > RECORD_LIMIT_BYTES {
            return Err(too_long());
        }
        let content = line.trim_ascii();
        if content.is_empty() {
            return Ok(false);
        }
        if memchr::memchr(0, line).is_some() {
            return Err("a NUL byte".to_owned());
        }
        if std::str::from_utf8(line).is_err() {
            return Err("bytes that are not UTF-8".to_owned());
        }
        if is_too_deep(content) {
            return Err(too_deep());
        }
        // Lines that are cut off or not JSON are detected here, before they spoil a block.
        if content.starts_with(b"{") && content.ends_with(b"}") {
            Ok(true)
        } else {
            Err(NO_OBJECT.to_owned())
        }
    }

    fn fault(&mut self, line: u64, record: &[u8], reason: impl std::fmt::Display) {
        let NdjsonDecoder { faults, place, .. } = self;
        let record = record.strip_suffix(b"\r").unwrap_or(record);
        faults.add_record(|| format!("{place}, line {line}"), || reason.to_string(), record);
    }

    /// Makes a batch of these lines, and reports those between them that are broken.
    fn emit(
        &mut self,
        buffer: &[u8],
        lines: &[LineRange],
        mut broken: Vec<BrokenLine>,
        batches: &mut VecDeque<RecordBatch>,
    ) -> Result<(), Cause> {
        let mut rows = self.columns.rows();
        let mut kept = Vec::with_capacity(lines.len());
        for line in lines {
            let bytes = line.of(buffer);
            // The line was checked before.
            let text = std::str::from_utf8(bytes).unwrap_or_default();
            let read = self.columns.read(text, &mut rows);
            if let Some(other_keys) = &mut self.other_keys {
                for key in self.columns.take_new_strangers() {
                    let place = || format!("{}, line {}", self.place, line.number);
                    other_keys.report(&key, place, &mut self.faults);
                }
            }
            match read {
                Ok(has_columns) => {
                    kept.push(*line);
                    if !has_columns {
                        self.note_stranger(line.number);
                    }
                }
                Err(reason) => broken.push((*line, reason)),
            }
        }
        self.objects += kept.len() as u64;
        if self.objects >= OBJECTS_BEFORE_ABSENCES {
            self.note_absences();
        }
        if !kept.is_empty() {
            let batch = self.typed(&rows, &kept, &mut broken)?;
            batches.extend((batch.num_rows() > 0).then_some(batch));
        }
        // In the order of the lines, wherever blocks end.
        broken.sort_by_key(|(line, _)| line.number);
        for (line, reason) in broken {
            self.fault(line.number, line.of(buffer), reason);
        }
        Ok(())
    }

    /// Counts an object none of whose keys is a column: its row is all NULL. Each tenfold number is told.
    #[cold]
    fn note_stranger(&mut self, line: u64) {
        self.strangers += 1;
        if self.strangers < self.strangers_told {
            return;
        }
        self.strangers_told = self.strangers * 10;
        let (place, count, names) = (&self.place, self.strangers, self.columns.strangers());
        let objects =
            if count == 1 { "an object has".to_owned() } else { format!("{count} objects so far have") };
        self.faults.notice(format!("{place}, line {line}: {objects} no key that matches a column; {names}"));
    }

    /// Tells once which columns no object has had.
    fn note_absences(&mut self) {
        if self.are_absences_told {
            return;
        }
        if let Some(absences) = self.columns.absences() {
            self.are_absences_told = true;
            self.faults.notice(format!("{}: {absences}", self.place));
        }
    }

    /// Converts texts to the columns' types. Lines with other values are broken.
    fn typed(
        &mut self,
        rows: &JsonRows<'_>,
        lines: &[LineRange],
        broken: &mut Vec<BrokenLine>,
    ) -> Result<RecordBatch, Cause> {
        let mut bad = BadRows::of(&self.faults);
        let mut columns: Vec<ArrayRef> = Vec::with_capacity(self.read.len());
        for column in &self.read {
            columns.push(self.columns.column(*column, rows, &mut bad)?);
        }
        let others = (0..self.declared.fields().len()).filter(|column| !self.read.contains(column));
        for column in others {
            self.columns.check(column, rows, &mut bad)?;
        }
        let batch = good_rows(self.schema.clone(), columns, lines.len(), &bad)?;
        if let Some(row_lines) = &mut self.row_lines {
            match bad.good() {
                None => row_lines.extend(lines.iter().map(|line| line.number)),
                Some(good) => {
                    row_lines.extend(good.values().set_indices().map(|row| lines[row].number));
                }
            }
        }
        bad.report_rows(&mut self.faults, |_, row, reason| broken.push((lines[row], reason)));
        Ok(batch)
    }
}

impl RecordDecoder for NdjsonDecoder {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    fn set_projection(&mut self, columns: &[usize]) -> Result<(), Cause> {
        self.schema = project(&self.declared, columns)?;
        self.read = columns.to_vec();
        Ok(())
    }

    fn begin(&mut self, place: &str) {
        place.clone_into(&mut self.place);
        self.buffer.clear();
        self.line = 1;
        self.at_start = true;
        self.discarding = false;
    }

    fn decode(&mut self, bytes: &[u8], batches: &mut VecDeque<RecordBatch>) -> Result<(), Cause> {
        for piece in bytes.chunks(PIECE_BYTES) {
            self.buffer.extend_from_slice(piece);
            if memchr::memchr(b'\n', piece).is_some() || self.buffer.len() > RECORD_LIMIT_BYTES {
                self.run(false, batches)?;
            }
        }
        Ok(())
    }

    fn waiting(&self) -> Option<Waiting> {
        (!self.discarding).then_some(Waiting { bytes: self.buffer.len() as u64, line: self.line })
    }

    fn resume_at(&mut self, line: u64) {
        self.buffer.clear();
        self.line = line;
        self.at_start = false;
        self.discarding = false;
    }

    fn finish(&mut self, batches: &mut VecDeque<RecordBatch>) -> Result<(), Cause> {
        if !self.buffer.is_empty() {
            self.buffer.push(b'\n');
        }
        self.run(true, batches)?;
        self.note_absences();
        Ok(())
    }

    fn report_other_keys(&mut self) {
        self.other_keys = Some(OtherKeys::default());
        self.columns.keep_new_strangers();
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
        self.faults.take()
    }
}

fn too_long() -> String {
    format!("longer than {RECORD_LIMIT_BYTES} bytes")
}
