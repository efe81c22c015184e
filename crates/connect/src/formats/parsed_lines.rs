//! The short way to a format: a function that takes a line apart.

use std::borrow::Cow;
use std::collections::{HashMap, VecDeque};
use std::ops::Range;
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use tidemill_core::error::Cause;
use tidemill_core::source::Faults;

use super::bad_rows::{BadRows, Texts};
use super::line_cutter::{BadLine, Cut, LineCutter};
use super::values::{self, good_rows};
use super::{DecoderSettings, RecordDecoder, Waiting, project};

/// Takes a line apart. The values are texts, which [`ParsedLines`] converts to the types of the columns.
pub trait LineParser: Send {
    /// Puts the values of a line, which comes without its end, into `row`.
    ///
    /// # Errors
    /// Why the line is not a record. It is skipped, counted, and shown with its place.
    fn parse<'line>(&mut self, line: &'line str, row: &mut ParsedRow<'line, '_>) -> Result<(), String>;
}

/// The values of one line.
#[derive(Debug)]
pub struct ParsedRow<'line, 'columns> {
    columns: &'columns HashMap<String, usize>,
    values: Vec<Option<Cow<'line, str>>>,
    is_left_out: bool,
}

impl<'line> ParsedRow<'line, '_> {
    /// The value of a column. A name that is not declared is ignored, and a column without a value is NULL. If a column
    /// gets several values, the last one counts.
    pub fn set(&mut self, column: &str, value: impl Into<Cow<'line, str>>) {
        if let Some(column) = self.columns.get(column) {
            self.values[*column] = Some(value.into());
        }
    }

    /// The line is not a record, and that is not a fault: a comment, an empty line.
    pub fn leave_out(&mut self) {
        self.is_left_out = true;
    }
}

/// Reads a format by a [`LineParser`]: each line is a record.
///
/// ```
/// use std::collections::VecDeque;
/// use std::sync::Arc;
/// use tidemill_connect::formats::{DecoderSettings, LineParser, ParsedLines, ParsedRow, RecordDecoder};
/// use tidemill_core::arrow::array::cast::AsArray;
/// use tidemill_core::arrow::array::types::Int64Type;
/// use tidemill_core::arrow::schema::{DataType, Field, Schema};
///
/// /// `key: value; key: value`
/// struct Pairs;
///
/// impl LineParser for Pairs {
///     fn parse<'line>(&mut self, line: &'line str, row: &mut ParsedRow<'line, '_>) -> Result<(), String> {
///         for pair in line.split(';') {
///             let (key, value) = pair.split_once(':').ok_or(format!("'{pair}' has no colon"))?;
///             row.set(key.trim(), value.trim());
///         }
///         Ok(())
///     }
/// }
///
/// let schema = Arc::new(Schema::new(vec![Field::new("price", DataType::Int64, true)]));
/// let settings = DecoderSettings { schema, csv: Default::default(), batch_rows: 8192 };
/// let mut decoder = ParsedLines::new(Pairs, settings)?;
/// let mut batches = VecDeque::new();
/// decoder.begin("prices");
/// decoder.decode(b"name: pear; price: 7\nprice 8\nprice: many\n", &mut batches)?;
/// assert_eq!(batches[0].column(0).as_primitive::<Int64Type>().values(), &[7]);
/// assert_eq!(
///     decoder.faults().samples,
///     ["prices, line 2: 'price 8' has no colon", "prices, line 3: column 'price': 'many' is not a BIGINT"]
/// );
/// # Ok::<(), tidemill_core::Cause>(())
/// ```
pub struct ParsedLines<P> {
    parser: P,
    declared: SchemaRef,
    schema: SchemaRef,
    /// The declared columns by name.
    columns: HashMap<String, usize>,
    /// The declared columns whose values are looked at: those selected, then those that can be bad.
    looked_at: Vec<usize>,
    batch_rows: usize,
    place: String,
    lines: LineCutter,
    rows: ParsedTexts,
    row_lines: Option<Vec<u64>>,
    faults: Faults,
}

impl<P: LineParser> ParsedLines<P> {
    /// A decoder at the beginning of its first input.
    ///
    /// # Errors
    /// [`Cause::user`] if a column has a type that no text can be.
    pub fn new(parser: P, settings: DecoderSettings) -> Result<ParsedLines<P>, Cause> {
        let DecoderSettings { schema, batch_rows, .. } = settings;
        if let Some(field) = schema.fields().iter().find(|field| !values::is_supported(field.data_type())) {
            return Err(Cause::user(format!(
                "column '{}': text cannot be converted into {}; declare it as VARCHAR",
                field.name(),
                super::sql_type(field.data_type())
            )));
        }
        let names = schema.fields().iter().enumerate();
        Ok(ParsedLines {
            parser,
            columns: names.map(|(column, field)| (field.name().clone(), column)).collect(),
            looked_at: (0..schema.fields().len()).collect(),
            declared: Arc::clone(&schema),
            rows: ParsedTexts::new(schema.fields().len()),
            schema,
            batch_rows: batch_rows.max(1),
            place: "input".to_owned(),
            lines: LineCutter::new(),
            row_lines: None,
            faults: Faults::default(),
        })
    }

    /// Everything but the cutter, which passes on lines to it.
    fn parts(&mut self) -> (&mut LineCutter, Parts<'_, P>) {
        let ParsedLines { parser, declared, schema, columns, looked_at, batch_rows, place, lines, .. } = self;
        let (rows, row_lines, faults) = (&mut self.rows, &mut self.row_lines, &mut self.faults);
        let batch_rows = *batch_rows;
        (
            lines,
            Parts {
                parser,
                declared,
                schema,
                columns,
                looked_at,
                batch_rows,
                place,
                rows,
                row_lines,
                faults,
            },
        )
    }
}

/// What a line passes through.
struct Parts<'a, P> {
    parser: &'a mut P,
    declared: &'a SchemaRef,
    schema: &'a SchemaRef,
    columns: &'a HashMap<String, usize>,
    looked_at: &'a [usize],
    batch_rows: usize,
    place: &'a str,
    rows: &'a mut ParsedTexts,
    row_lines: &'a mut Option<Vec<u64>>,
    faults: &'a mut Faults,
}

impl<P: LineParser> Parts<'_, P> {
    fn take(&mut self, number: u64, line: Cut<'_>, batches: &mut VecDeque<RecordBatch>) -> Result<(), Cause> {
        let values = vec![None; self.columns.len()];
        let mut row = ParsedRow { columns: self.columns, values, is_left_out: false };
        let parsed = line.and_then(|line| {
            let parsed = self.parser.parse(line, &mut row);
            parsed.map(|()| line).map_err(|reason| BadLine { reason, bytes: line.as_bytes() })
        });
        match parsed {
            Err(bad) => {
                let place = || format!("{}, line {number}", self.place);
                self.faults.add_record(place, || bad.reason, bad.bytes);
            }
            Ok(_) if row.is_left_out => {}
            Ok(line) => {
                self.rows.push(number, &row.values);
                if self.faults.records.is_some() {
                    self.rows.raw.push(line.to_owned());
                }
            }
        }
        if self.rows.lines.len() >= self.batch_rows { self.emit(batches) } else { Ok(()) }
    }

    fn emit(&mut self, batches: &mut VecDeque<RecordBatch>) -> Result<(), Cause> {
        if self.rows.lines.is_empty() {
            return Ok(());
        }
        let mut bad = BadRows::of(self.faults);
        let mut columns = Vec::with_capacity(self.schema.fields().len());
        for (slot, column) in self.looked_at.iter().enumerate() {
            let (field, texts) = (self.declared.field(*column), self.rows.column(*column));
            if slot < self.schema.fields().len() {
                columns.push(values::column(field, &texts, &mut bad)?)
            } else {
                values::check(field, &texts, &mut bad)?
            }
        }
        let batch = good_rows(self.schema.clone(), columns, self.rows.lines.len(), &bad)?;
        if let Some(row_lines) = self.row_lines {
            let good = bad.good();
            let is_good = |row: usize| good.as_ref().is_none_or(|good| good.value(row));
            let lines = self.rows.lines.iter().enumerate();
            row_lines.extend(lines.filter(|(row, _)| is_good(*row)).map(|(_, line)| *line));
        }
        let (lines, raw, place) = (&self.rows.lines, &self.rows.raw, self.place);
        let text = |row: usize| raw.get(row).map_or(&[][..], |line| line.as_bytes());
        bad.report(self.faults, |row| format!("{place}, line {}", lines[row]), text);
        batches.extend((batch.num_rows() > 0).then_some(batch));
        self.rows.clear();
        Ok(())
    }
}

/// The texts of rows that do not form a batch yet.
struct ParsedTexts {
    /// The number of each row's line.
    lines: Vec<u64>,
    text: String,
    /// For each column where its values are in the text.
    columns: Vec<Vec<Option<Range<usize>>>>,
    /// The lines themselves, if bad ones are kept.
    raw: Vec<String>,
}

impl ParsedTexts {
    fn new(columns: usize) -> ParsedTexts {
        let columns = vec![Vec::new(); columns];
        ParsedTexts { lines: Vec::new(), text: String::new(), columns, raw: Vec::new() }
    }

    fn push(&mut self, line: u64, values: &[Option<Cow<'_, str>>]) {
        self.lines.push(line);
        for (column, value) in self.columns.iter_mut().zip(values) {
            column.push(value.as_ref().map(|value| {
                let start = self.text.len();
                self.text.push_str(value);
                start..self.text.len()
            }));
        }
    }

    fn column(&self, column: usize) -> ColumnTexts<'_> {
        ColumnTexts { text: &self.text, values: &self.columns[column] }
    }

    fn clear(&mut self) {
        self.lines.clear();
        self.text.clear();
        self.raw.clear();
        self.columns.iter_mut().for_each(Vec::clear);
    }
}

/// The texts of one column.
struct ColumnTexts<'a> {
    text: &'a str,
    values: &'a [Option<Range<usize>>],
}

impl Texts for ColumnTexts<'_> {
    fn rows(&self) -> usize {
        self.values.len()
    }

    fn get(&self, row: usize) -> Option<&str> {
        self.values[row].clone().map(|place| &self.text[place])
    }
}

impl<P: LineParser> RecordDecoder for ParsedLines<P> {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn set_projection(&mut self, columns: &[usize]) -> Result<(), Cause> {
        self.schema = project(&self.declared, columns)?;
        let others = (0..self.declared.fields().len()).filter(|column| !columns.contains(column));
        let checked = others.filter(|column| values::can_mismatch(self.declared.field(*column)));
        self.looked_at = columns.iter().copied().chain(checked).collect();
        Ok(())
    }

    fn begin(&mut self, place: &str) {
        place.clone_into(&mut self.place);
        self.lines.resume_at(1);
    }

    fn decode(&mut self, bytes: &[u8], batches: &mut VecDeque<RecordBatch>) -> Result<(), Cause> {
        let (lines, mut parts) = self.parts();
        lines.cut(bytes, |number, line| parts.take(number, line, batches))?;
        parts.emit(batches)
    }

    fn waiting(&self) -> Option<Waiting> {
        self.lines.waiting()
    }

    fn resume_at(&mut self, line: u64) {
        self.lines.resume_at(line);
    }

    fn finish(&mut self, batches: &mut VecDeque<RecordBatch>) -> Result<(), Cause> {
        let (lines, mut parts) = self.parts();
        lines.finish(|number, line| parts.take(number, line, batches))?;
        parts.emit(batches)
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
