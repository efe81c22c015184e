//! NDJSON: one JSON object per line.
//!
//! - Columns are keys of the object. If an object lacks such a key, a key that differs only in case counts; two of
//!   these are a fault. A missing key is NULL, and other keys are ignored.
//! - Numbers, strings and Booleans are read as in CSV, so `"5"` is a number too, and `1.5` is not a BIGINT. Objects and
//!   lists become structs and lists.
//! - Empty lines are skipped. Lines may end with CR LF. A byte order mark at the beginning is skipped.
//! - Faults are: a line that is not one JSON object, a value that does not have its column's type, NULL in a column
//!   that is NOT NULL, bytes that are not UTF-8, a NUL byte, more than [`RECORD_LIMIT_BYTES`]. Columns that nobody
//!   reads are checked, too.

use std::collections::VecDeque;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, RecordBatch, StringArray};
use arrow_json::ReaderBuilder;
use arrow_schema::{Field, Schema, SchemaRef};
use arrow_select::concat::concat_batches;
use tidemill_core::error::Cause;
use tidemill_core::source::Faults;

use super::bad_rows::{BadRows, Texts, no_value};
use super::ndjson_fields::{is_direct, raw_field};
use super::ndjson_keys as keys;
use super::ndjson_other_keys::OtherKeys;
use super::text_length::check_length;
use super::values::{self, good_rows};
use super::{DecoderSettings, RECORD_LIMIT_BYTES, RecordDecoder, Waiting, project};

/// How many bytes are taken in at once.
const PIECE_BYTES: usize = 512 * 1024;
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

const NO_OBJECT: &str = "not one JSON object";

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
    /// The fields requested from Arrow, for all declared columns: scalars as strings, with names as the last objects
    /// wrote them.
    raw: SchemaRef,
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
    faults: Faults,
}

/// A line that is not empty: its location in the buffer, and its number.
#[derive(Clone, Copy)]
struct LineRange {
    begin: usize,
    end: usize,
    number: u64,
}

impl LineRange {
    fn of(self, buffer: &[u8]) -> &[u8] {
        &buffer[self.begin..self.end]
    }
}

/// The rows of a block that could be decoded, and their lines.
struct DecodedParts<'a> {
    parts: &'a mut Vec<RecordBatch>,
    lines: &'a mut Vec<LineRange>,
}

impl DecodedParts<'_> {
    fn keep(&mut self, lines: &[LineRange], batch: RecordBatch) {
        self.lines.extend(lines);
        self.parts.push(batch);
    }
}

impl NdjsonDecoder {
    /// A decoder at the beginning of its first input.
    ///
    /// # Errors
    /// [`Cause::user`] if a column has a type that JSON cannot represent.
    pub fn new(settings: DecoderSettings) -> Result<NdjsonDecoder, Cause> {
        let schema = settings.schema;
        for field in schema.fields() {
            let raw = Schema::new(vec![raw_field(field, field.name())]);
            ReaderBuilder::new(Arc::new(raw)).build_decoder().map_err(|error| {
                Cause::user(format!("column '{}': JSON cannot contain such values: {error}", field.name()))
                    .with_source(error)
            })?;
        }
        Ok(NdjsonDecoder {
            read: (0..schema.fields().len()).collect(),
            raw: keys::as_declared(&schema),
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
                Ok(true) => {
                    if let Some(other_keys) = &mut self.other_keys {
                        let place = || format!("{}, line {}", self.place, line.number);
                        other_keys.look(bytes, place, &mut self.faults);
                    }
                    lines.push(line);
                }
                Ok(false) => {}
                Err(reason) => self.fault(line.number, bytes, reason),
            }
            if lines.len() == self.batch_rows {
                self.emit(buffer, &lines, batches)?;
                lines.clear();
            }
        }
        self.emit(buffer, &lines, batches)
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

    fn emit(
        &mut self,
        buffer: &[u8],
        lines: &[LineRange],
        batches: &mut VecDeque<RecordBatch>,
    ) -> Result<(), Cause> {
        if lines.is_empty() {
            return Ok(());
        }
        let mut parts = Vec::new();
        let mut kept = Vec::with_capacity(lines.len());
        let raw = self.raw.clone();
        self.decode_lines(
            &raw,
            false,
            buffer,
            lines,
            &mut DecodedParts { parts: &mut parts, lines: &mut kept },
        );
        if kept.is_empty() {
            return Ok(());
        }
        let rows = match parts.len() {
            1 => parts.swap_remove(0),
            _ => {
                // They may differ in how keys are written.
                let alike = |part: RecordBatch| RecordBatch::try_new(raw.clone(), part.columns().to_vec());
                let parts = parts.into_iter().map(alike).collect::<Result<Vec<_>, _>>();
                let rows = parts.and_then(|parts| concat_batches(&raw, &parts));
                rows.map_err(|error| Cause::bug(error.to_string()).with_source(error))?
            }
        };
        let batch = self.typed(&rows, &kept, buffer)?;
        batches.extend((batch.num_rows() > 0).then_some(batch));
        Ok(())
    }

    /// Decodes all lines at once. If that fails, decodes each half separately, down to the broken line. `are_alike`:
    /// all lines are known to have exactly these keys.
    fn decode_lines(
        &mut self,
        raw: &SchemaRef,
        are_alike: bool,
        buffer: &[u8],
        lines: &[LineRange],
        kept: &mut DecodedParts<'_>,
    ) {
        match decode_block(raw, buffer, lines) {
            Ok(batch) if are_alike => kept.keep(lines, batch),
            Ok(batch) => self.keep_alike(raw, buffer, lines, &batch, kept),
            Err(reason) if lines.len() == 1 => self.fault(lines[0].number, lines[0].of(buffer), reason),
            Err(_) => {
                let (left, right) = lines.split_at(lines.len() / 2);
                self.decode_lines(raw, are_alike, buffer, left, kept);
                self.decode_lines(raw, are_alike, buffer, right, kept);
            }
        }
    }

    /// Keeps the rows whose objects write their keys as they were read. Others are read again.
    fn keep_alike(
        &mut self,
        raw: &SchemaRef,
        buffer: &[u8],
        lines: &[LineRange],
        batch: &RecordBatch,
        kept: &mut DecodedParts<'_>,
    ) {
        let text = |row: usize| &buffer[lines[row].begin..lines[row].end];
        let mut done = 0;
        for run in keys::written_otherwise(raw, &self.declared, batch, text) {
            if done < run.rows.start {
                let before = done..run.rows.start;
                kept.keep(&lines[before.clone()], batch.slice(done, before.len()));
            }
            done = run.rows.end;
            match run.keys {
                Ok(own) => {
                    self.decode_lines(&own, true, buffer, &lines[run.rows], kept);
                    // The next ones are probably like these.
                    self.raw = own;
                }
                Err(reason) => {
                    lines[run.rows].iter().for_each(|line| self.fault(line.number, line.of(buffer), &reason));
                }
            }
        }
        if done < lines.len() {
            kept.keep(&lines[done..], batch.slice(done, lines.len() - done));
        }
    }

    /// Converts strings to the columns' types.
    fn typed(
        &mut self,
        rows: &RecordBatch,
        lines: &[LineRange],
        buffer: &[u8],
    ) -> Result<RecordBatch, Cause> {
        let mut bad = BadRows::of(&self.faults);
        let mut columns: Vec<ArrayRef> = Vec::with_capacity(self.read.len());
        for column in &self.read {
            let field = self.declared.field(*column);
            columns.push(match (is_direct(field.data_type()), rows.column(*column)) {
                (false, texts) => values::column(field, &Strings(texts.as_string()), &mut bad)?,
                (true, values) => {
                    check_direct(field, values, &mut bad);
                    values.clone()
                }
            });
        }
        let others = (0..rows.num_columns()).filter(|column| !self.read.contains(column));
        for column in others {
            match (self.declared.field(column), rows.column(column)) {
                (field, values) if is_direct(field.data_type()) => check_direct(field, values, &mut bad),
                (field, texts) => values::check(field, &Strings(texts.as_string()), &mut bad)?,
            }
        }
        let batch = good_rows(self.schema.clone(), columns, rows.num_rows(), &bad)?;
        if let Some(row_lines) = &mut self.row_lines {
            match bad.good() {
                None => row_lines.extend(lines.iter().map(|line| line.number)),
                Some(good) => {
                    row_lines.extend(good.values().set_indices().map(|row| lines[row].number));
                }
            }
        }
        let place = &self.place;
        let text = |row: usize| {
            let record = lines[row].of(buffer);
            record.strip_suffix(b"\r").unwrap_or(record)
        };
        bad.report(&mut self.faults, |row| format!("{place}, line {}", lines[row].number), text);
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
        self.raw = keys::as_declared(&self.declared);
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
        self.run(true, batches)
    }

    fn report_other_keys(&mut self) {
        self.other_keys = Some(OtherKeys::new(&self.declared));
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

struct Strings<'a>(&'a StringArray);

impl Texts for Strings<'_> {
    fn rows(&self) -> usize {
        self.0.len()
    }

    #[inline]
    fn get(&self, row: usize) -> Option<&str> {
        self.0.is_valid(row).then(|| self.0.value(row))
    }
}

/// Marks the rows of a column made by Arrow that lack a required value, or whose text is too long.
fn check_direct(field: &Field, values: &ArrayRef, bad: &mut BadRows) {
    check_length(field, values, bad);
    if !field.is_nullable() {
        for row in (0..values.len()).filter(|row| values.is_null(*row)) {
            bad.mark(row, values.len(), || no_value(field));
        }
    }
}

/// Decodes lines each of which must be one object.
fn decode_block(schema: &SchemaRef, buffer: &[u8], lines: &[LineRange]) -> Result<RecordBatch, String> {
    let builder =
        ReaderBuilder::new(schema.clone()).with_batch_size(lines.len() + 1).with_coerce_primitive(true);
    let mut decoder = builder.build_decoder().map_err(explain)?;
    for (index, line) in lines.iter().enumerate() {
        let bytes = buffer[line.begin..line.end].trim_ascii();
        let read = decoder.decode(bytes).map_err(explain)?;
        if read != bytes.len() || decoder.len() != index + 1 || decoder.has_partial_record() {
            return Err(NO_OBJECT.to_owned());
        }
    }
    match decoder.flush().map_err(explain)? {
        Some(batch) if batch.num_rows() == lines.len() => Ok(batch),
        _ => Err(NO_OBJECT.to_owned()),
    }
}

fn explain(error: arrow_schema::ArrowError) -> String {
    let text = error.to_string();
    text.strip_prefix("Json error: ").unwrap_or(&text).to_owned()
}

fn too_long() -> String {
    format!("longer than {RECORD_LIMIT_BYTES} bytes")
}
