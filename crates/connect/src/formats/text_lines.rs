//! Lines: each line of a text is a row, unchanged.
//!
//! - Columns are `line_number` BIGINT, from 1 in each input, and `line` VARCHAR; either may be left out.
//! - Lines end with LF or CR LF, which is not part of them; the last one may lack it. Empty lines are rows, too.
//! - Faults are: bytes that are not UTF-8, more than [`RECORD_LIMIT_BYTES`]. They are counted as lines.

use std::collections::VecDeque;
use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array, RecordBatch, RecordBatchOptions, StringArray};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use tidemill_core::error::Cause;
use tidemill_core::source::Faults;

use super::{DecoderSettings, RECORD_LIMIT_BYTES, RecordDecoder, Waiting, project};

const NUMBER: &str = "line_number";
const LINE: &str = "line";

/// The columns of lines.
pub fn lines_schema() -> SchemaRef {
    let number = Field::new(NUMBER, DataType::Int64, false);
    Arc::new(Schema::new(vec![number, Field::new(LINE, DataType::Utf8, false)]))
}

/// Makes a row of each line.
///
/// ```
/// use std::collections::VecDeque;
/// use tidemill_connect::formats::text_lines::{LinesDecoder, lines_schema};
/// use tidemill_connect::formats::{DecoderSettings, RecordDecoder};
/// use tidemill_core::arrow::array::cast::AsArray;
///
/// let settings = DecoderSettings { schema: lines_schema(), csv: Default::default(), batch_rows: 8192 };
/// let mut decoder = LinesDecoder::new(settings)?;
/// let mut batches = VecDeque::new();
/// decoder.begin("messages");
/// decoder.decode(b"one\r\ntw", &mut batches)?;
/// decoder.decode(b"o\n\nthree", &mut batches)?;
/// decoder.finish(&mut batches)?;
/// let lines: Vec<String> = batches
///     .iter()
///     .flat_map(|rows| rows.column(1).as_string::<i32>().iter().flatten().map(String::from).collect::<Vec<_>>())
///     .collect();
/// assert_eq!(lines, ["one", "two", "", "three"]);
/// # Ok::<(), tidemill_core::Cause>(())
/// ```
pub struct LinesDecoder {
    declared: SchemaRef,
    schema: SchemaRef,
    batch_rows: usize,
    place: String,
    /// A line that has begun.
    begun: Vec<u8>,
    /// Whether the line that has begun is too long to be kept.
    is_too_long: bool,
    rows: Rows,
    next_number: i64,
    faults: Faults,
}

/// Lines that do not form a batch yet.
#[derive(Default)]
struct Rows {
    numbers: Vec<i64>,
    lines: Vec<String>,
}

impl LinesDecoder {
    /// A decoder at the beginning of its first input.
    ///
    /// # Errors
    /// [`Cause::user`] if a declared column does not exist for lines.
    pub fn new(settings: DecoderSettings) -> Result<LinesDecoder, Cause> {
        let known = lines_schema();
        for field in settings.schema.fields() {
            let is_known =
                known.field_with_name(field.name()).is_ok_and(|own| own.data_type() == field.data_type());
            if !is_known {
                return Err(Cause::user(format!(
                    "column '{}': lines have the columns line_number BIGINT and line VARCHAR only",
                    field.name()
                )));
            }
        }
        Ok(LinesDecoder {
            declared: Arc::clone(&settings.schema),
            schema: settings.schema,
            batch_rows: settings.batch_rows.max(1),
            place: "input".to_owned(),
            begun: Vec::new(),
            is_too_long: false,
            rows: Rows::default(),
            next_number: 1,
            faults: Faults::default(),
        })
    }

    /// Takes a piece of a line; drops it if the line is too long.
    fn extend(&mut self, bytes: &[u8]) {
        self.is_too_long |= self.begun.len() + bytes.len() > RECORD_LIMIT_BYTES;
        match self.is_too_long {
            true => self.begun.clear(),
            false => self.begun.extend_from_slice(bytes),
        }
    }

    /// Completes the line that has begun.
    fn end_line(&mut self, batches: &mut VecDeque<RecordBatch>) -> Result<(), Cause> {
        let number = self.next_number;
        self.next_number += 1;
        if self.begun.last() == Some(&b'\r') {
            self.begun.pop();
        }
        let too_long = std::mem::take(&mut self.is_too_long);
        let line = String::from_utf8(std::mem::take(&mut self.begun));
        match line {
            _ if too_long => self.fault(number, &format!("more than {RECORD_LIMIT_BYTES} bytes")),
            Err(_) => self.fault(number, "bytes that are not UTF-8"),
            Ok(line) => {
                self.rows.numbers.push(number);
                self.rows.lines.push(line);
            }
        }
        if self.rows.lines.len() == self.batch_rows { self.emit(batches) } else { Ok(()) }
    }

    fn fault(&mut self, number: i64, reason: &str) {
        self.faults.add(format!("{}, line {number}: {reason}", self.place));
    }

    fn emit(&mut self, batches: &mut VecDeque<RecordBatch>) -> Result<(), Cause> {
        let rows = std::mem::take(&mut self.rows);
        if rows.lines.is_empty() {
            return Ok(());
        }
        let count = rows.lines.len();
        let columns = self.schema.fields().iter().map(|field| match field.name().as_str() {
            NUMBER => Arc::new(Int64Array::from(rows.numbers.clone())) as ArrayRef,
            _ => Arc::new(StringArray::from_iter_values(&rows.lines)),
        });
        let options = RecordBatchOptions::new().with_row_count(Some(count));
        let batch = RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns.collect(), &options);
        batches.push_back(batch.map_err(|error| Cause::bug(error.to_string()))?);
        Ok(())
    }
}

impl RecordDecoder for LinesDecoder {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn set_projection(&mut self, columns: &[usize]) -> Result<(), Cause> {
        self.schema = project(&self.declared, columns)?;
        Ok(())
    }

    fn begin(&mut self, place: &str) {
        place.clone_into(&mut self.place);
        self.begun.clear();
        self.is_too_long = false;
        self.next_number = 1;
    }

    fn decode(&mut self, bytes: &[u8], batches: &mut VecDeque<RecordBatch>) -> Result<(), Cause> {
        let mut rest = bytes;
        while let Some(end) = memchr::memchr(b'\n', rest) {
            self.extend(&rest[..end]);
            self.end_line(batches)?;
            rest = &rest[end + 1..];
        }
        self.extend(rest);
        self.emit(batches)
    }

    fn waiting(&self) -> Option<Waiting> {
        let (bytes, line) = (self.begun.len() as u64, self.next_number as u64);
        (!self.is_too_long).then_some(Waiting { bytes, line })
    }

    fn go_on(&mut self, line: u64) {
        self.begun.clear();
        self.is_too_long = false;
        self.next_number = line as i64;
    }

    fn finish(&mut self, batches: &mut VecDeque<RecordBatch>) -> Result<(), Cause> {
        if !self.begun.is_empty() || self.is_too_long {
            self.end_line(batches)?;
        }
        self.emit(batches)
    }

    fn faults(&mut self) -> Faults {
        std::mem::take(&mut self.faults)
    }
}
