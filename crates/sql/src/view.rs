//! Materialized views: their rows, kept in memory while a pipeline runs, and readable from any thread.

use std::sync::Arc;
use std::time::Duration;

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::SchemaRef;
use tidemill_connect::memory::{MemoryRows, MemorySink, TableHandle, TableSink};
use tidemill_engine::{Cause, Polled, Sink, Source};

use crate::definition::SourceDefinition;
use crate::first_rows::{First, FirstRows, FirstRowsSink};
use crate::named_relations::ViewDefinition;
use crate::prepared::Output;
use crate::projected::Projected;

/// The storage of rows.
#[derive(Clone)]
pub(crate) enum Kept {
    /// All rows of a stream.
    Rows(MemoryRows),
    /// The last row of each key.
    Table(TableHandle),
    /// The first rows in an order.
    First(FirstRows),
}

impl Kept {
    /// A sink that stores an output's rows with this schema, and the storage to read them.
    pub fn new(output: &Output, schema: &SchemaRef, rows_max: usize) -> Result<(Box<dyn Sink>, Kept), Cause> {
        match &output.table_key {
            Some(Some(key)) => {
                let (sink, table) = TableSink::new(schema, key.clone(), rows_max)?;
                Ok((Box::new(sink), Kept::Table(table)))
            }
            Some(None) => Err(Cause::user(
                "the columns that rows are grouped by are not in the result; add them to SELECT",
            )),
            None => {
                let (sink, rows) = MemorySink::new(schema, rows_max);
                Ok((Box::new(sink), Kept::Rows(rows)))
            }
        }
    }

    /// A sink that stores only the first rows, and the storage to read them.
    pub fn first(first: First, schema: &SchemaRef, rows_max: usize) -> (Box<dyn Sink>, Kept) {
        let (sink, rows) = FirstRowsSink::new(schema, first, rows_max);
        (Box::new(sink), Kept::First(rows))
    }

    /// The rows after some commit.
    pub fn read(&self) -> Result<RecordBatch, Cause> {
        match self {
            Kept::Rows(rows) => rows.read(),
            Kept::Table(table) => table.read(),
            Kept::First(rows) => rows.read(),
        }
    }
}

/// A materialized view of a running pipeline. Clones read the same rows, which stay when the pipeline has ended.
///
/// See [`RunningQuery::views`](crate::RunningQuery::views).
#[derive(Clone)]
pub struct ViewHandle {
    name: String,
    schema: SchemaRef,
    kept: Kept,
    /// What it was started for.
    view: Arc<ViewDefinition>,
}

impl ViewHandle {
    pub(crate) fn new(name: &str, schema: &SchemaRef, kept: Kept, view: Arc<ViewDefinition>) -> Self {
        ViewHandle { name: name.to_string(), schema: Arc::clone(schema), kept, view }
    }

    /// Whether it was started for this view.
    pub(crate) fn is_of(&self, view: &Arc<ViewDefinition>) -> bool {
        Arc::ptr_eq(&self.view, view)
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its rows after some cycle, never part of one.
    ///
    /// # Errors
    /// If a column has more text than a batch can hold.
    pub fn read(&self) -> Result<RecordBatch, Cause> {
        self.kept.read()
    }

    /// The view as a table that each query reads again.
    pub(crate) fn definition(&self) -> SourceDefinition {
        let view = self.clone();
        let open = move |columns: Option<&[usize]>| {
            let rows = view.read()?;
            Projected::open(Once::new(rows), columns)
        };
        let definition = SourceDefinition::new(&self.name, Arc::clone(&self.schema), Arc::new(open));
        SourceDefinition { is_table: true, is_finite: true, is_repeatable: true, ..definition }
    }
}

/// Rows that are returned once.
pub(crate) struct Once {
    schema: SchemaRef,
    rows: Option<RecordBatch>,
}

impl Once {
    /// A source that returns these rows and then ends.
    pub fn new(rows: RecordBatch) -> Once {
        Once { schema: rows.schema(), rows: Some(rows).filter(|rows| rows.num_rows() > 0) }
    }
}

impl Source for Once {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn poll(&mut self, _wait: Duration) -> Result<Polled, Cause> {
        Ok(self.rows.take().map_or(Polled::Ended, Polled::Rows))
    }

    fn is_finite(&self) -> bool {
        true
    }
}
