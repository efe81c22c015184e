//! Small pieces for joins that compare many pairs of rows. A join computes all pairs of a piece before it looks up, so with
//! large pieces nobody could end it for long.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::Result;
use datafusion::execution::{RecordBatchStream, SendableRecordBatchStream};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::execution_plan::replace_children_if_necessary;
use datafusion::physical_plan::joins::{HashJoinExec, NestedLoopJoinExec};
use futures_util::{Stream, StreamExt};

use super::passed_rows::PassedRows;

/// The rows of a piece. With a million rows on the other side, these are 32 million pairs.
const ROWS_MAX: usize = 32;

/// The join with small pieces of its second input, if it may compare many pairs in vain.
pub(super) fn of_join(join: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    let is_filtered = match join.downcast_ref::<HashJoinExec>() {
        Some(join) => join.filter().is_some(),
        None => join.is::<NestedLoopJoinExec>(),
    };
    match join.children().as_slice() {
        [first, second] if is_filtered => {
            let pieces = PassedRows::over(second, "SmallBatches", pass);
            let inputs = vec![Arc::clone(first), pieces];
            replace_children_if_necessary(join, inputs)
        }
        _ => Ok(join),
    }
}

/// A few rows at a time, with a pause before each piece.
fn pass(input: SendableRecordBatchStream) -> SendableRecordBatchStream {
    Box::pin(Pieces { input, rest: None, has_paused: false })
}

struct Pieces {
    input: SendableRecordBatchStream,
    /// Rows that are there.
    rest: Option<RecordBatch>,
    /// Whether whoever waits has been able to do something else since the last piece.
    has_paused: bool,
}

impl Stream for Pieces {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if self.rest.is_none() {
            match ready!(self.input.poll_next_unpin(context)) {
                Some(Ok(batch)) => self.rest = Some(batch),
                other => return Poll::Ready(other),
            }
        }
        if !std::mem::replace(&mut self.has_paused, true) {
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        self.has_paused = false;
        let batch = self.rest.take();
        let piece = batch.map(|batch| {
            let rows = batch.num_rows().min(ROWS_MAX);
            if rows < batch.num_rows() {
                self.rest = Some(batch.slice(rows, batch.num_rows() - rows));
            }
            Ok(batch.slice(0, rows))
        });
        Poll::Ready(piece)
    }
}

impl RecordBatchStream for Pieces {
    fn schema(&self) -> SchemaRef {
        self.input.schema()
    }
}
