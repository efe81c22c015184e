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

#[cfg(doc)]
use super::RECORD_LIMIT_BYTES;
use super::line_cutter::{Cut, LineCutter};
use super::text_form::refuse_restricted;
use super::{DecoderSettings, RecordDecoder, Waiting, project};

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
    cutter: LineCutter,
    rows: Rows,
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
                    "column '{}': lines have only the columns line_number BIGINT and line VARCHAR",
                    field.name()
                )));
            }
        }
        refuse_restricted(&settings.schema, "lines")?;
        Ok(LinesDecoder {
            declared: Arc::clone(&settings.schema),
            schema: settings.schema,
            batch_rows: settings.batch_rows.max(1),
            place: "input".to_owned(),
            cutter: LineCutter::new(),
            rows: Rows::default(),
            faults: Faults::default(),
        })
    }
}

impl Rows {
    fn push(&mut self, number: u64, line: &str) {
        self.numbers.push(number as i64);
        self.lines.push(line.to_owned());
    }

    /// Makes a batch of them.
    fn emit(&mut self, schema: &SchemaRef, batches: &mut VecDeque<RecordBatch>) -> Result<(), Cause> {
        let rows = std::mem::take(self);
        if rows.lines.is_empty() {
            return Ok(());
        }
        let count = rows.lines.len();
        let columns = schema.fields().iter().map(|field| match field.name().as_str() {
            NUMBER => Arc::new(Int64Array::from(rows.numbers.clone())) as ArrayRef,
            _ => Arc::new(StringArray::from_iter_values(&rows.lines)),
        });
        let options = RecordBatchOptions::new().with_row_count(Some(count));
        let batch = RecordBatch::try_new_with_options(Arc::clone(schema), columns.collect(), &options);
        batches.push_back(batch.map_err(|error| Cause::bug(error.to_string()).with_source(error))?);
        Ok(())
    }
}

/// What a line passes through.
struct LineConsumer<'a> {
    schema: &'a SchemaRef,
    batch_rows: usize,
    place: &'a str,
    rows: &'a mut Rows,
    faults: &'a mut Faults,
}

impl LineConsumer<'_> {
    fn take(&mut self, number: u64, line: Cut<'_>, batches: &mut VecDeque<RecordBatch>) -> Result<(), Cause> {
        match line {
            Ok(line) => self.rows.push(number, line),
            Err(bad) => {
                let place = || format!("{}, line {number}", self.place);
                self.faults.add_record(place, || bad.reason, bad.bytes);
            }
        }
        if self.rows.lines.len() == self.batch_rows { self.rows.emit(self.schema, batches) } else { Ok(()) }
    }
}

impl LinesDecoder {
    /// The cutter, and what it passes lines on to.
    fn parts(&mut self) -> (&mut LineCutter, LineConsumer<'_>) {
        let LinesDecoder { schema, batch_rows, place, cutter, rows, faults, .. } = self;
        (cutter, LineConsumer { schema, batch_rows: *batch_rows, place, rows, faults })
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
        self.cutter.resume_at(1);
    }

    fn decode(&mut self, bytes: &[u8], batches: &mut VecDeque<RecordBatch>) -> Result<(), Cause> {
        let (cutter, mut taking) = self.parts();
        cutter.cut(bytes, |number, line| taking.take(number, line, batches))?;
        taking.rows.emit(taking.schema, batches)
    }

    fn waiting(&self) -> Option<Waiting> {
        self.cutter.waiting()
    }

    fn resume_at(&mut self, line: u64) {
        self.cutter.resume_at(line);
    }

    fn finish(&mut self, batches: &mut VecDeque<RecordBatch>) -> Result<(), Cause> {
        let (cutter, mut taking) = self.parts();
        cutter.finish(|number, line| taking.take(number, line, batches))?;
        taking.rows.emit(taking.schema, batches)
    }

    fn keep_bad_records(&mut self) {
        self.faults.keep_records();
    }

    fn faults(&mut self) -> Faults {
        self.faults.take()
    }
}
