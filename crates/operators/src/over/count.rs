//! `COUNT(*)` and `COUNT(column)`.

use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array};
use arrow_schema::DataType;
use tidemill_core::error::Cause;
use tidemill_core::{SnapshotReader, SnapshotWriter};

use super::fold::{Fold, RunningFold};
use super::function::{Input, RunningFunction};

pub(super) fn make(input: Input) -> Box<dyn RunningFunction> {
    Box::new(RunningFold::new(Count, DataType::Int64, input))
}

/// The number of rows that count.
#[derive(Debug)]
struct Count;

impl Fold for Count {
    type State = i64;

    fn states(&self, _column: Option<&ArrayRef>, rows: usize) -> Result<Vec<i64>, Cause> {
        Ok(vec![1; rows])
    }

    fn combine(&self, earlier: i64, later: i64) -> Result<i64, Cause> {
        Ok(earlier + later)
    }

    fn finish(&self, results: &[Option<i64>]) -> Result<ArrayRef, Cause> {
        Ok(Arc::new(results.iter().map(|count| count.unwrap_or(0)).collect::<Int64Array>()))
    }

    fn write(&self, state: i64, writer: &mut SnapshotWriter) {
        writer.i64(state);
    }

    fn read(&self, reader: &mut SnapshotReader<'_>) -> Result<i64, Cause> {
        reader.i64()
    }
}
