//! A source of rows that are known when it is opened.

use std::sync::Arc;
use std::time::Duration;

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::SchemaRef;
use tidemill_engine::{Cause, Polled, Source};

/// Returns its rows once, and ends.
pub(crate) struct SingleBatchSource {
    schema: SchemaRef,
    rows: Option<RecordBatch>,
}

impl SingleBatchSource {
    /// A source of these rows.
    pub fn new(rows: RecordBatch) -> SingleBatchSource {
        SingleBatchSource { schema: rows.schema(), rows: Some(rows).filter(|rows| rows.num_rows() > 0) }
    }
}

impl Source for SingleBatchSource {
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
