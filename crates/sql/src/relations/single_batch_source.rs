//! A source of rows that are known when it is opened.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::SchemaRef;
use tidemill_engine::{Cause, Polled, Source};

/// Returns its rows once, and ends.
pub(crate) struct SingleBatchSource {
    schema: SchemaRef,
    /// Those that were not returned yet.
    rows: VecDeque<RecordBatch>,
}

impl SingleBatchSource {
    /// A source of these rows.
    pub fn new(rows: RecordBatch) -> SingleBatchSource {
        SingleBatchSource::of_batches(rows.schema(), vec![rows])
    }

    /// A source of the rows of several batches.
    pub fn of_batches(schema: SchemaRef, batches: Vec<RecordBatch>) -> SingleBatchSource {
        let rows = batches.into_iter().filter(|rows| rows.num_rows() > 0).collect();
        SingleBatchSource { schema, rows }
    }
}

impl Source for SingleBatchSource {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn poll(&mut self, _wait: Duration) -> Result<Polled, Cause> {
        Ok(self.rows.pop_front().map_or(Polled::Ended, Polled::Rows))
    }

    fn is_finite(&self) -> bool {
        true
    }
}
