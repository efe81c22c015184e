//! A source of rows in memory.

use std::sync::Arc;
use std::time::Duration;

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::SchemaRef;
use tidemill_engine::{Cause, Polled, Source};

/// Gives its rows, then ends.
pub struct Once {
    pub schema: SchemaRef,
    pub rows: Option<RecordBatch>,
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
