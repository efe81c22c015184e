//! The transform for filters and projections: several steps over a batch.

use std::sync::Arc;

use datafusion::arrow::array::{Array, AsArray, BooleanArray, RecordBatch, RecordBatchOptions};
use datafusion::arrow::compute::{FilterBuilder, concat_batches, prep_null_mask_filter};
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::Result;
use tidemill_engine::{
    Cause, Cut, FaultLog, Faults, MemoryAccount, MemoryBudget, Transform, Transformed, bytes_of_rows,
};
use tracing::warn;

use crate::expressions::compiled::{Compiled, plain};
use crate::limit_reached::stops;
use crate::logical::header;

/// What an error names if what is computed of one batch passes a limit on memory.
const HOLDER: &str = "what is computed for one batch of rows";
/// From here on, what is computed of one batch is compared with the limit.
const LARGE_BATCH: u64 = 1 << 20;

/// What was computed of a batch so far, in pieces.
struct Made {
    rows: Vec<RecordBatch>,
    causes: Vec<u32>,
    account: MemoryAccount,
}

/// Keeps the rows for which a condition is true, then computes columns.
#[derive(Clone, Debug)]
pub(crate) struct FilterProject {
    /// The conditions, each computed over the rows that the previous ones kept.
    filters: Vec<Compiled>,
    /// The input's columns that remain after the filters, from which the others are computed.
    kept: Vec<usize>,
    /// Over the remaining columns.
    columns: Vec<Compiled>,
    output: SchemaRef,
    faults: FaultLog,
    memory: MemoryBudget,
}

impl FilterProject {
    /// `filters` and `columns` refer to all of the input's columns.
    pub fn new(
        filters: Vec<Compiled>,
        columns: &[Compiled],
        output: SchemaRef,
        faults: FaultLog,
        inputs: usize,
        memory: MemoryBudget,
    ) -> Result<Self> {
        let mut kept: Vec<usize> = columns.iter().flat_map(Compiled::columns).collect();
        kept.sort_unstable();
        kept.dedup();
        // The closing time is not a column of the input.
        kept.retain(|index| *index < inputs);
        let columns = columns.iter().map(|column| column.over_columns(&kept)).collect::<Result<_>>()?;
        Ok(FilterProject { filters, kept, columns, output, faults, memory })
    }

    fn evaluate(&self, rows: &RecordBatch, cut: &Cut) -> Result<Transformed> {
        let Some(mask) = self.mask(rows, cut)? else {
            let kept = rows.project(&self.kept)?;
            return Ok(Transformed { rows: self.project(&kept, cut)?, causes: None });
        };
        let causes: Vec<u32> = mask.values().set_indices().map(|row| row as u32).collect();
        if causes.len() == rows.num_rows() {
            let kept = rows.project(&self.kept)?;
            return Ok(Transformed { rows: self.project(&kept, cut)?, causes: None });
        }
        let kept = rows.project(&self.kept)?;
        let filter = FilterBuilder::new(&mask).optimize().build();
        let kept = filter.filter_record_batch(&kept)?;
        Ok(Transformed { rows: self.project(&kept, cut)?, causes: Some(causes) })
    }

    /// Which rows stay; `None`: all.
    fn mask(&self, rows: &RecordBatch, cut: &Cut) -> Result<Option<BooleanArray>> {
        let mut mask: Option<BooleanArray> = None;
        for filter in &self.filters {
            let condition = filter.values(rows, cut)?;
            let condition = condition.as_boolean();
            let condition = match condition.nulls() {
                Some(_) => prep_null_mask_filter(condition),
                None => condition.clone(),
            };
            let both = match mask {
                None => condition,
                Some(before) => datafusion::arrow::compute::and(&before, &condition)?,
            };
            // Conditions that follow may not even be computable for these rows.
            if !both.has_true() {
                return Ok(Some(both));
            }
            mask = Some(both);
        }
        Ok(mask)
    }

    fn project(&self, kept: &RecordBatch, cut: &Cut) -> Result<RecordBatch> {
        let mut columns = Vec::with_capacity(self.columns.len());
        for column in &self.columns {
            columns.push(column.values(kept, cut)?);
        }
        let options = RecordBatchOptions::new().with_row_count(Some(kept.num_rows()));
        Ok(RecordBatch::try_new_with_options(Arc::clone(&self.output), columns, &options)?)
    }

    /// Computes the rows that can be computed; the others are counted and left out. They are found by bisection, so
    /// that one bad row in a batch costs little.
    fn evaluate_by_halves(
        &self,
        rows: &RecordBatch,
        first: u32,
        cut: &Cut,
        made: &mut Made,
    ) -> std::result::Result<(), Cause> {
        match self.evaluate(rows, cut) {
            Ok(done) => {
                match done.causes {
                    None => made.causes.extend(first..first + rows.num_rows() as u32),
                    Some(own) => made.causes.extend(own.iter().map(|row| first + row)),
                }
                made.account.grow(HOLDER, bytes_of_rows(&done.rows) as u64)?;
                made.rows.push(done.rows);
                Ok(())
            }
            Err(error) if rows.num_rows() <= 1 => match stops(&error) {
                Some(cause) => Err(cause.clone()),
                None => {
                    self.faults.add(|| describe(&plain(&error), rows));
                    Ok(())
                }
            },
            Err(error) => {
                if let Some(cause) = stops(&error) {
                    return Err(cause.clone());
                }
                let half = rows.num_rows() / 2;
                self.evaluate_by_halves(&rows.slice(0, half), first, cut, made)?;
                let rest = rows.slice(half, rows.num_rows() - half);
                self.evaluate_by_halves(&rest, first + half as u32, cut, made)
            }
        }
    }
}

impl Transform for FilterProject {
    fn apply(&mut self, rows: &RecordBatch, cut: &Cut) -> std::result::Result<Transformed, Cause> {
        if let Ok(done) = self.evaluate(rows, cut) {
            let bytes = bytes_of_rows(&done.rows) as u64;
            // As long as rows remain as long as they are, they are few bytes.
            if bytes > LARGE_BATCH {
                self.memory.account().grow(HOLDER, bytes)?;
            }
            return Ok(done);
        }
        let mut made = Made { rows: Vec::new(), causes: Vec::new(), account: self.memory.account() };
        let before = self.faults.read().count;
        self.evaluate_by_halves(rows, 0, cut, &mut made)?;
        log_faults(before, &self.faults.read());
        let rows = concat_batches(&self.output, &made.rows).map_err(|error| {
            Cause::resource(format!(
                "what is computed for one batch of rows is too long: {error}; use smaller cycles (cycle_events)"
            ))
            .with_source(error)
        })?;
        Ok(Transformed { rows, causes: Some(made.causes) })
    }
}

/// Logs the first rows that could not be computed, and then each time that there are ten times as many.
fn log_faults(before: u64, faults: &Faults) {
    let magnitude = |count: u64| count.checked_ilog10();
    if magnitude(before) != magnitude(faults.count) {
        let (rows, sample) = (faults.count, faults.samples.last().map_or("", String::as_str));
        warn!(rows, sample, "rows could not be computed and are left out");
    }
}

/// The most that is shown of a value.
const VALUE_BYTES_MAX: usize = 1000;

/// A reason with the row that it concerns.
pub(crate) fn describe(reason: &str, rows: &RecordBatch) -> String {
    use datafusion::arrow::util::display::array_value_to_string;
    let schema = rows.schema();
    // Those of our own, which no query can name.
    let of_user =
        schema.fields().iter().zip(rows.columns()).filter(|(field, _)| !field.name().starts_with('$'));
    let shown = of_user.take(8).map(|(field, column)| {
        let value = array_value_to_string(column, 0).unwrap_or_default();
        if value.len() > VALUE_BYTES_MAX {
            let beginning = &value[..value.floor_char_boundary(VALUE_BYTES_MAX)];
            format!("{}: {beginning}... ({} bytes)", header(field.name()), value.len())
        } else {
            format!("{}: {value}", header(field.name()))
        }
    });
    format!("{reason}; the row is {}", shown.collect::<Vec<_>>().join(", "))
}
