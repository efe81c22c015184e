//! Transforms that call a program's functions, row by row.

use std::marker::PhantomData;
use std::sync::Arc;

use arrow_array::{ArrayRef, BooleanArray, RecordBatch, RecordBatchOptions};
use arrow_schema::{ArrowError, SchemaRef};
use arrow_select::filter::filter_record_batch;
use tidemill_engine::{Cause, Cut, Transform, Transformed};

use crate::row::{Row, each};

/// Keeps the rows for which a function is true.
pub(crate) struct Filter<R, F> {
    columns: Vec<usize>,
    keep: Arc<F>,
    row: PhantomData<fn(R)>,
}

impl<R, F> Filter<R, F> {
    pub fn new(columns: Vec<usize>, keep: Arc<F>) -> Self {
        Filter { columns, keep, row: PhantomData }
    }
}

impl<R: Row, F: Fn(R) -> bool + Send + Sync> Transform for Filter<R, F> {
    fn apply(&mut self, rows: &RecordBatch, _cut: &Cut) -> Result<Transformed, Cause> {
        let mut kept = Vec::with_capacity(rows.num_rows());
        each(rows, &self.columns, |_, row| {
            kept.push((self.keep)(row));
            Ok(())
        })?;
        let kept = BooleanArray::from(kept);
        if kept.true_count() == rows.num_rows() {
            return Ok(Transformed { rows: rows.clone(), causes: None });
        }
        let causes = kept.values().set_indices().map(|row| row as u32).collect();
        Ok(Transformed { rows: filter_record_batch(rows, &kept).map_err(bug)?, causes: Some(causes) })
    }
}

/// Turns each row into one new row.
pub(crate) struct Map<R, O, F> {
    columns: Vec<usize>,
    output: SchemaRef,
    /// Whether the new columns are added behind the old ones, or replace them.
    keeps_all: bool,
    function: Arc<F>,
    row: PhantomData<fn(R) -> O>,
}

impl<R, O, F> Map<R, O, F> {
    pub fn new(columns: Vec<usize>, output: SchemaRef, keeps_all: bool, function: Arc<F>) -> Self {
        Map { columns, output, keeps_all, function, row: PhantomData }
    }
}

impl<R: Row, O: Row, F: Fn(R) -> O + Send + Sync> Transform for Map<R, O, F> {
    fn apply(&mut self, rows: &RecordBatch, _cut: &Cut) -> Result<Transformed, Cause> {
        let mut made = Vec::with_capacity(rows.num_rows());
        each(rows, &self.columns, |_, row| {
            made.push((self.function)(row));
            Ok(())
        })?;
        let kept = if self.keeps_all { rows.columns().to_vec() } else { Vec::new() };
        let columns = kept.into_iter().chain(O::arrays(made)).collect();
        Ok(Transformed { rows: batch(&self.output, columns, rows.num_rows())?, causes: None })
    }
}

/// Turns each row into any number of new rows.
pub(crate) struct FlatMap<R, I, F> {
    columns: Vec<usize>,
    output: SchemaRef,
    function: Arc<F>,
    row: PhantomData<fn(R) -> I>,
}

impl<R, I, F> FlatMap<R, I, F> {
    pub fn new(columns: Vec<usize>, output: SchemaRef, function: Arc<F>) -> Self {
        FlatMap { columns, output, function, row: PhantomData }
    }
}

impl<R, I, F> Transform for FlatMap<R, I, F>
where
    R: Row,
    I: IntoIterator,
    I::Item: Row,
    F: Fn(R) -> I + Send + Sync,
{
    fn apply(&mut self, rows: &RecordBatch, _cut: &Cut) -> Result<Transformed, Cause> {
        let (mut made, mut causes) = (Vec::new(), Vec::new());
        each(rows, &self.columns, |row, values| {
            made.extend((self.function)(values));
            causes.resize(made.len(), row as u32);
            Ok(())
        })?;
        let rows = made.len();
        Ok(Transformed { rows: batch(&self.output, I::Item::arrays(made), rows)?, causes: Some(causes) })
    }
}

/// Keeps some columns.
pub(crate) struct Select {
    columns: Vec<usize>,
    output: SchemaRef,
}

impl Select {
    pub fn new(columns: Vec<usize>, output: SchemaRef) -> Self {
        Select { columns, output }
    }
}

impl Transform for Select {
    fn apply(&mut self, rows: &RecordBatch, _cut: &Cut) -> Result<Transformed, Cause> {
        let columns = self.columns.iter().map(|column| Arc::clone(rows.column(*column))).collect();
        Ok(Transformed { rows: batch(&self.output, columns, rows.num_rows())?, causes: None })
    }
}

/// Makes a batch of a schema from columns.
pub(crate) fn batch(schema: &SchemaRef, columns: Vec<ArrayRef>, rows: usize) -> Result<RecordBatch, Cause> {
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options).map_err(bug)
}

fn bug(error: ArrowError) -> Cause {
    Cause::bug(format!("a function's rows do not fit their schema: {error}")).with_source(error)
}
