//! `--from-journal`: a case from what a pipeline has taken in.

use std::collections::HashMap;
use std::ops::RangeInclusive;
use std::path::Path;
use std::sync::Arc;

use tidemill_connect::formats::encode::TextFormat;
use tidemill_engine::arrow::array::temporal_conversions::timestamp_ns_to_datetime;
use tidemill_engine::arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use tidemill_engine::arrow::schema::{DataType, Field, Schema};
use tidemill_engine::{Past, Positions};

use super::case_file::HEAD;
use super::table::{Table, head_name};
use super::update::push;
use crate::journal::journaled_rows;
use crate::sql::user_error;

/// More rows of one source and cycle are not written.
const ROWS_MAX: usize = 100_000;

/// Returns the text of a case with the rows of these cycles: each at the time at which its cycle was closed. Values of masked columns are
/// replaced, equal ones by equal ones.
pub(super) fn case_text(
    journal: &Path,
    cycles: &RangeInclusive<u64>,
    masked: &[String],
) -> anyhow::Result<String> {
    let past = Past::open(journal)?;
    let (first, last) = (cycles.start(), cycles.end());
    let mut text = format!("Cycles {first} to {last} of {}, from an empty state.\n", journal.display());
    let mut masks = Masks { columns: masked, values: HashMap::new(), used: Vec::new() };
    let (mut idle, mut is_last) = (Vec::new(), false);
    for cycle in cycles.clone() {
        let input = past.rows_of(cycle)?;
        is_last = input.cut.last;
        let closed = i64::try_from(input.cut.closed_at_ns).ok().and_then(timestamp_ns_to_datetime);
        let closed = closed.ok_or_else(|| user_error(format!("cycle {cycle} has no time since 1970")))?;
        let mut sections = Vec::new();
        for (source, range) in input.sources.iter().filter(|(_, range)| !range.is_empty()) {
            if range.end - range.start > ROWS_MAX as u64 {
                return Err(user_error(format!(
                    "cycle {cycle} has more than {ROWS_MAX} rows of '{source}'; choose others with --cycles"
                )));
            }
            let positions: Positions = std::iter::once(range.clone()).collect();
            let rows = masks.mask(source, &journaled_rows(journal, source, &positions, ROWS_MAX)?)?;
            idle.retain(|idle| idle != source);
            sections.push((format!("{HEAD}rows {}", head_name(source)), rows_text(&rows)?));
        }
        for (place, (source, _)) in input.sources.iter().enumerate() {
            if input.cut.idle.get(place) == Some(&true) && !idle.contains(source) {
                idle.push(source.clone());
                sections.push((format!("{HEAD}idle {}", head_name(source)), String::new()));
            }
        }
        push(&mut text, &format!("{HEAD}at {closed}"), "", false);
        sections.iter().for_each(|(head, body)| push(&mut text, head, body, false));
        push(&mut text, &format!("{HEAD}cycle"), "", false);
    }
    if !is_last {
        push(&mut text, &format!("{HEAD}stop"), "", false);
    }
    masks.check()?;
    Ok(text)
}

/// Rows as CSV, or as JSON lines if a value of theirs has parts.
fn rows_text(rows: &RecordBatch) -> anyhow::Result<String> {
    if !rows.schema().fields().iter().any(|field| field.data_type().is_nested()) {
        return Ok(Table::of(rows)?.csv());
    }
    let (mut encoder, mut text) = (TextFormat::Ndjson.encoder(&rows.schema())?, Vec::new());
    encoder.rows(rows, &mut text)?;
    Ok(String::from_utf8_lossy(&text).into_owned())
}

/// What stands in place of the values of columns that nobody may see.
struct Masks<'a> {
    /// `column`, or `source.column`.
    columns: &'a [String],
    /// The number of each value, by column.
    values: HashMap<(String, String), usize>,
    used: Vec<&'a String>,
}

impl<'a> Masks<'a> {
    fn mask(&mut self, source: &str, rows: &RecordBatch) -> anyhow::Result<RecordBatch> {
        let (mut fields, mut columns) = (Vec::new(), Vec::new());
        for (field, column) in rows.schema().fields().iter().zip(rows.columns()) {
            let name = field.name();
            let qualified = format!("{source}.{name}");
            let asked = self.columns.iter().find(|asked| *asked == name || **asked == qualified);
            let (field, column) = match asked {
                None => (field.as_ref().clone(), Arc::clone(column)),
                Some(asked) => {
                    self.used.push(asked);
                    self.masked(source, field, column)?
                }
            };
            fields.push(field);
            columns.push(column);
        }
        Ok(RecordBatch::try_new(Arc::new(Schema::new(fields)), columns)?)
    }

    fn masked(
        &mut self,
        source: &str,
        field: &Field,
        column: &ArrayRef,
    ) -> anyhow::Result<(Field, ArrayRef)> {
        let name = field.name();
        let is_text = matches!(field.data_type(), DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View);
        if !is_text && !field.data_type().is_integer() {
            return Err(user_error(format!(
                "column '{name}' of '{source}' cannot be masked, because it is neither a text nor a whole number; \
                 leave it out of --mask, and change the case by hand"
            )));
        }
        let schema = Arc::new(Schema::new(vec![field.clone()]));
        let cells = Table::of(&RecordBatch::try_new(schema, vec![Arc::clone(column)])?)?.rows;
        let numbers: Vec<Option<usize>> =
            cells.into_iter().flatten().map(|cell| self.number(name, cell)).collect();
        let masked: ArrayRef = if is_text {
            Arc::new(StringArray::from_iter(
                numbers.iter().map(|number| Some(format!("{name}-{}", (*number)?))),
            ))
        } else {
            Arc::new(Int64Array::from_iter(numbers.iter().map(|number| i64::try_from((*number)?).ok())))
        };
        Ok((Field::new(name, masked.data_type().clone(), true), masked))
    }

    /// The number of a value, counted from 1 as values come; none of NULL. Columns of the same name share their numbers, so that
    /// joins still find each other.
    fn number(&mut self, column: &str, cell: String) -> Option<usize> {
        if cell.is_empty() {
            return None;
        }
        let next = self.values.keys().filter(|(other, _)| other == column).count() + 1;
        Some(*self.values.entry((column.to_owned(), cell)).or_insert(next))
    }

    /// Refuses a mask of nothing: what it was meant for would be written.
    fn check(&self) -> anyhow::Result<()> {
        match self.columns.iter().find(|column| !self.used.contains(column)) {
            None => Ok(()),
            Some(column) => Err(user_error(format!(
                "no row of these cycles has a column '{column}'; name it as the source does: --mask column, or \
                 source.column"
            ))),
        }
    }
}
