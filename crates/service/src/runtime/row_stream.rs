//! The rows of a query, a batch at a time.

use std::collections::VecDeque;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use tidemill_engine::arrow::array::RecordBatch;
use tidemill_engine::arrow::schema::SchemaRef;
use tidemill_engine::{Cause, CycleOutput, Sink};
use tidemill_sql::{LeftOut, Output, Prepared};

use crate::backoff::Backoff;
use crate::runtime::batch_queue::{BatchReceiver, BatchSender, ReceiveOutcome, batch_queue};
use crate::runtime::execution::{Execution, Phase, QueryEnd};
use crate::runtime::unread::UnreadRows;

/// A waiting reader notices at most this late that the query was cancelled or has ended.
const LOOK_MAX: Duration = Duration::from_millis(50);

/// The rows of a query as they come, whole cycles only. It is an iterator that ends with the query. A reader that is slow
/// slows the query down; dropping the stream ends the query at once.
///
/// The rows of a table that changes are upserts: a row replaces the previous one with the same
/// [key](tidemill_sql::Output::table_key).
///
/// See [`Query::stream`](crate::Query::stream).
pub struct RowStream {
    /// Declared first, so that it is dropped first: a sink that waits for room must not hold back the end.
    batches: Option<BatchReceiver>,
    /// `None`: it has ended.
    execution: Option<Box<Execution>>,
    schema: Option<SchemaRef>,
    left_out: Option<LeftOut>,
}

impl RowStream {
    pub(crate) fn start(
        prepared: Prepared,
        unread: UnreadRows,
        begin: impl FnOnce(Prepared, Vec<Box<dyn Sink>>) -> Result<Execution, Cause>,
    ) -> Result<RowStream, Cause> {
        let (sender, batches) = batch_queue(unread);
        let schema = prepared.outputs().first().map(|output| Arc::clone(&output.schema));
        let sink = |_: &Output| {
            let sink = StreamSink { sender: sender.clone(), prepared: VecDeque::new() };
            Box::new(sink) as Box<dyn Sink>
        };
        let sinks = prepared.outputs().iter().map(sink).collect();
        drop(sender);
        let execution = Some(Box::new(begin(prepared, sinks)?));
        Ok(RowStream { batches: Some(batches), execution, schema, left_out: None })
    }

    /// The columns; `None` if they are known with the answer only, which comes at the end.
    pub fn schema(&self) -> Option<&SchemaRef> {
        self.schema.as_ref()
    }

    /// What is missing from the rows because it could not be used; known when they have ended.
    pub fn left_out(&self) -> Option<&LeftOut> {
        self.left_out.as_ref()
    }

    /// What comes after the rows: the answer, or why the query has failed.
    fn last(&mut self) -> Option<Result<RecordBatch, Cause>> {
        self.batches = None;
        match self.execution.take()?.end() {
            Ok(QueryEnd::Finished { answer, status, .. }) => {
                self.left_out = status.left_out();
                answer.map(Ok)
            }
            Ok(QueryEnd::Abandoned) => {
                Some(Err(Cause::operation("the query was cancelled; its remaining rows are lost")))
            }
            Err(cause) => Some(Err(cause)),
        }
    }
}

impl Iterator for RowStream {
    type Item = Result<RecordBatch, Cause>;

    fn next(&mut self) -> Option<Self::Item> {
        let backoff = Backoff::up_to(LOOK_MAX);
        loop {
            let (Some(execution), Some(batches)) = (&mut self.execution, &self.batches) else { return None };
            if execution.advance() == Phase::Abandoned {
                return self.last();
            }
            // Looked at first: then all its rows are in the queue.
            let is_over = execution.wait_for_end(Duration::ZERO);
            let wait = if is_over { Duration::ZERO } else { backoff.wait() };
            match batches.receive(wait) {
                ReceiveOutcome::Batch(batch) => return Some(Ok(batch)),
                _ if is_over => return self.last(),
                ReceiveOutcome::Nothing => {}
                // The sinks have ended, or there are none because the query is answered at its end.
                ReceiveOutcome::End => {
                    execution.wait_for_end(wait);
                }
            }
        }
    }
}

/// Hands over the rows of committed cycles.
struct StreamSink {
    sender: BatchSender,
    /// The rows of cycles that are not committed yet.
    prepared: VecDeque<(u64, Vec<RecordBatch>)>,
}

impl Sink for StreamSink {
    fn prepare(&mut self, output: CycleOutput) -> Result<(), Cause> {
        let cycle = output.cut.cycle;
        let batches = output.streams.into_iter().flatten().filter(|batch| !batch.is_empty());
        self.prepared.push_back((cycle, batches.map(|batch| batch.rows).collect()));
        Ok(())
    }

    fn commit(&mut self, cycles: RangeInclusive<u64>) -> Result<(), Cause> {
        while let Some((cycle, _)) = self.prepared.front()
            && cycles.contains(cycle)
        {
            for batch in self.prepared.pop_front().into_iter().flat_map(|(_, batches)| batches) {
                self.sender.send(batch)?;
            }
        }
        Ok(())
    }
}
