//! Rows that a statement gives.

use std::sync::Arc;

use arrow_array::{RecordBatch, RecordBatchOptions};
use arrow_schema::SchemaRef;
use parking_lot::Mutex;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;
use tidemill_engine::Cause;
use tidemill_service::{Cancellation, Error as EngineError, RowStream, Subscription};

use crate::convert::{Column, schema_capsule};
use crate::engine_value::EngineValue;
use crate::error::raised;
use crate::interrupt::interruptible;

/// Where rows come from.
pub(crate) enum RowSource {
    /// They are there.
    Ready(Option<RecordBatch>),
    /// They come as the query computes them.
    Coming(Box<RowStream>),
    /// They come as a view changes.
    Changes(Box<Subscription>),
}

impl Iterator for RowSource {
    type Item = Result<RecordBatch, Cause>;

    fn next(&mut self) -> Option<Self::Item> {
        match self {
            RowSource::Ready(rows) => rows.take().map(Ok),
            RowSource::Coming(stream) => stream.next(),
            RowSource::Changes(changes) => changes.next(),
        }
    }
}

/// Rows that a statement gives, a batch at a time. Several threads may take batches; each gets others.
#[pyclass(frozen, module = "tidemill._tidemill")]
pub(crate) struct Rows {
    schema: SchemaRef,
    source: EngineValue<Mutex<RowSource>>,
    cancellation: Cancellation,
    /// What was done, if the statement gives no rows.
    #[pyo3(get)]
    message: Option<String>,
    /// Whether all rows are there.
    #[pyo3(get)]
    is_complete: bool,
}

impl Rows {
    pub fn new(
        schema: SchemaRef,
        source: RowSource,
        cancellation: Cancellation,
        message: Option<String>,
    ) -> Rows {
        let is_complete = matches!(source, RowSource::Ready(_));
        Rows { schema, source: EngineValue::new(Mutex::new(source)), cancellation, message, is_complete }
    }
}

impl Rows {
    /// Returns rows with the names of the statement's columns: those of a stream have the names of its plan.
    fn named(&self, rows: &RecordBatch) -> Result<RecordBatch, Cause> {
        let options = RecordBatchOptions::new().with_row_count(Some(rows.num_rows()));
        let named =
            RecordBatch::try_new_with_options(Arc::clone(&self.schema), rows.columns().to_vec(), &options);
        named.map_err(|error| Cause::bug(error.to_string()))
    }
}

#[pymethods]
impl Rows {
    /// Returns the columns, as a capsule.
    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        schema_capsule(py, &self.schema)
    }

    /// Waits for the next batch; `None`: there are no more.
    fn next_batch(&self, py: Python<'_>) -> PyResult<Option<Column>> {
        let next = || match self.source.get() {
            Ok(source) => source.lock().next().transpose(),
            Err(cause) => Err(cause),
        };
        let next = interruptible(py, &self.cancellation, next)?;
        let next = next.and_then(|rows| rows.map(|rows| self.named(&rows)).transpose());
        next.map(|rows| rows.map(Column::of_rows)).map_err(|cause| raised(py, &EngineError::from(cause)))
    }

    /// Ends the query whose rows these are, from any thread: who waits for a batch gets no more.
    fn cancel(&self) {
        // The first request lets a query answer what it has taken in; the second ends it at once.
        self.cancellation.request();
        self.cancellation.request();
    }
}
