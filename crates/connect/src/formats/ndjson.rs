//! NDJSON: one JSON object per line.
//!
//! - Columns are keys of the object, in the case of the first object's keys; other keys are left out, and a
//!   key that is not there is NULL.
//! - Numbers, strings and truth values are read as CSV reads them, so `"5"` is a number too, and `1.5` is no
//!   BIGINT. Objects and lists become structs and lists.
//! - Empty lines are left out. Lines may end with CR LF. A byte order mark at the beginning is left out.
//! - Faults are: a line that is not one JSON object, a value that is none of its column's type, NULL in a
//!   column that is NOT NULL, bytes that are not UTF-8, a NUL byte, more than [`RECORD_LIMIT_BYTES`].

use std::collections::VecDeque;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, RecordBatch, StringArray};
use arrow_json::ReaderBuilder;
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use arrow_select::concat::concat_batches;
use tidemill_core::error::Cause;
use tidemill_core::source::Faults;

use super::values::{self, BadRows, Texts, good_rows};
use super::{DecoderSettings, RECORD_LIMIT_BYTES, RecordDecoder, project};

/// Bytes that are taken in at once.
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
    /// What Arrow is asked for: scalars as strings, names as in the input.
    raw: Option<SchemaRef>,
    batch_rows: usize,
    place: String,
    buffer: Vec<u8>,
    /// The number of the line with which the buffer begins.
    line: u64,
    at_start: bool,
    discarding: bool,
    faults: Faults,
}

/// A line that is not empty: where it lies in the buffer, and its number.
#[derive(Clone, Copy)]
struct Line {
    begin: usize,
    end: usize,
    number: u64,
}

impl NdjsonDecoder {
    /// A decoder; its first input begins.
    ///
    /// # Errors
    /// [`Cause::User`] if a column has a type that JSON cannot be.
    pub fn new(settings: DecoderSettings) -> Result<NdjsonDecoder, Cause> {
        let schema = settings.schema;
        for field in schema.fields() {
            let raw = Schema::new(vec![raw_field(field, field.name())]);
            ReaderBuilder::new(Arc::new(raw)).build_decoder().map_err(|error| {
                Cause::User(format!("column '{}': JSON has no such values: {error}", field.name()))
            })?;
        }
        Ok(NdjsonDecoder {
            declared: schema.clone(),
            schema,
            raw: None,
            batch_rows: settings.batch_rows.max(1),
            place: "input".to_owned(),
            buffer: Vec::new(),
            line: 1,
            at_start: true,
            discarding: false,
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
                self.fault(self.line, too_long());
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
            let line = Line { begin: *start, end: newline, number: self.line };
            *start = newline + 1;
            self.line += 1;
            if std::mem::take(&mut self.discarding) {
                continue;
            }
            let bytes = &buffer[line.begin..line.end];
            match self.check(bytes) {
                Ok(true) => lines.push(line),
                Ok(false) => {}
                Err(reason) => self.fault(line.number, reason),
            }
            if lines.len() == self.batch_rows {
                self.emit(buffer, &lines, batches)?;
                lines.clear();
            }
        }
        self.emit(buffer, &lines, batches)
    }

    /// Whether there is something in a line.
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
        // What is cut off or no JSON at all is found out here, before it spoils a block.
        match content.starts_with(b"{") && content.ends_with(b"}") {
            true => Ok(true),
            false => Err(NO_OBJECT.to_owned()),
        }
    }

    fn fault(&mut self, line: u64, reason: impl std::fmt::Display) {
        self.faults.add(format!("{}, line {line}: {reason}", self.place));
    }

    fn emit(
        &mut self,
        buffer: &[u8],
        mut lines: &[Line],
        batches: &mut VecDeque<RecordBatch>,
    ) -> Result<(), Cause> {
        if lines.is_empty() {
            return Ok(());
        }
        // One after the other, so that it does not matter which lines come together.
        while self.raw.is_none()
            && let Some((first, others)) = lines.split_first()
        {
            match self.raw_schema(&buffer[first.begin..first.end]) {
                Ok(raw) => self.raw = Some(raw),
                Err(reason) => {
                    self.fault(first.number, reason);
                    lines = others;
                }
            }
        }
        let Some(raw) = self.raw.clone() else { return Ok(()) };
        let mut parts = Vec::new();
        let mut kept = Vec::with_capacity(lines.len());
        self.decode_lines(&raw, buffer, lines, &mut parts, &mut kept);
        if kept.is_empty() {
            return Ok(());
        }
        let rows = match parts.len() {
            1 => parts.swap_remove(0),
            _ => concat_batches(&raw, &parts).map_err(|error| Cause::Bug(error.to_string()))?,
        };
        let batch = self.typed(&rows, &kept)?;
        batches.extend((batch.num_rows() > 0).then_some(batch));
        Ok(())
    }

    /// Decodes all lines at once; if that fails, each half for itself, down to the line that is broken.
    fn decode_lines(
        &mut self,
        raw: &SchemaRef,
        buffer: &[u8],
        lines: &[Line],
        parts: &mut Vec<RecordBatch>,
        kept: &mut Vec<u64>,
    ) {
        match decode_block(raw, buffer, lines) {
            Ok(batch) => {
                parts.push(batch);
                kept.extend(lines.iter().map(|line| line.number));
            }
            Err(reason) if lines.len() == 1 => self.fault(lines[0].number, reason),
            Err(_) => {
                let (left, right) = lines.split_at(lines.len() / 2);
                self.decode_lines(raw, buffer, left, parts, kept);
                self.decode_lines(raw, buffer, right, parts, kept);
            }
        }
    }

    /// From strings to the columns' types.
    fn typed(&mut self, rows: &RecordBatch, numbers: &[u64]) -> Result<RecordBatch, Cause> {
        let mut bad = BadRows::default();
        let mut columns: Vec<ArrayRef> = Vec::with_capacity(rows.num_columns());
        for (field, column) in self.schema.fields().iter().zip(rows.columns()) {
            columns.push(match is_direct(field.data_type()) {
                false => values::column(field, &Strings(column.as_string()), &mut bad)?,
                true => {
                    if !field.is_nullable() {
                        for row in (0..column.len()).filter(|row| column.is_null(*row)) {
                            bad.mark(row, column.len(), || {
                                format!("column '{}' is NOT NULL, but there is no value", field.name())
                            });
                        }
                    }
                    column.clone()
                }
            });
        }
        let batch = good_rows(self.schema.clone(), columns, rows.num_rows(), &bad)?;
        let place = &self.place;
        bad.report(&mut self.faults, |row| format!("{place}, line {}", numbers[row]));
        Ok(batch)
    }

    /// The columns as an object writes their names; says why if the line is no object.
    fn raw_schema(&self, line: &[u8]) -> Result<SchemaRef, String> {
        let keys: serde_json::Map<String, serde_json::Value> =
            serde_json::from_slice(line).map_err(|error| format!("{NO_OBJECT}: {error}"))?;
        let spelled = |name: &str| match keys.contains_key(name) {
            true => name.to_owned(),
            false => {
                let same = keys.keys().find(|key| key.to_lowercase() == name.to_lowercase());
                same.map_or(name, |key| key).to_owned()
            }
        };
        let fields = self.schema.fields().iter().map(|field| raw_field(field, &spelled(field.name())));
        Ok(Arc::new(Schema::new(fields.collect::<Vec<_>>())))
    }
}

impl RecordDecoder for NdjsonDecoder {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    fn set_projection(&mut self, columns: &[usize]) -> Result<(), Cause> {
        self.schema = project(&self.declared, columns)?;
        self.raw = None;
        Ok(())
    }

    fn begin(&mut self, place: &str) {
        place.clone_into(&mut self.place);
        self.raw = None;
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

    fn finish(&mut self, batches: &mut VecDeque<RecordBatch>) -> Result<(), Cause> {
        if !self.buffer.is_empty() {
            self.buffer.push(b'\n');
        }
        self.run(true, batches)
    }

    fn faults(&mut self) -> Faults {
        std::mem::take(&mut self.faults)
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

/// Whether Arrow makes a column of this type from JSON itself.
fn is_direct(data_type: &DataType) -> bool {
    data_type.is_nested() || data_type.is_null() || data_type.is_binary()
}

fn raw_field(field: &Field, name: &str) -> Field {
    match is_direct(field.data_type()) {
        true => field.clone().with_name(name).with_nullable(true),
        false => Field::new(name, DataType::Utf8, true),
    }
}

/// Decodes lines each of which must be one object.
fn decode_block(schema: &SchemaRef, buffer: &[u8], lines: &[Line]) -> Result<RecordBatch, String> {
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
