//! The rows of a query, a batch at a time.

use std::collections::VecDeque;
use std::mem;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use tidemill_engine::arrow::array::RecordBatch;
use tidemill_engine::arrow::schema::SchemaRef;
use tidemill_engine::{Cause, CycleOutput, Sink};
use tidemill_sql::{Output, Prepared};

use crate::batch_queue::{BatchReceiver, BatchSender, ReceiveOutcome, batch_queue};
use crate::execution::{Execution, Phase, QueryEnd};
use crate::patience::Patience;
use crate::unread::UnreadRows;

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
    stage: Stage,
    schema: Option<SchemaRef>,
}

enum Stage {
    /// It takes in rows.
    Running(Box<Execution>),
    /// Its end is waited for on a thread, while its last rows are read.
    Ending(JoinHandle<Result<QueryEnd, Cause>>),
    Ended,
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
        let execution = begin(prepared, sinks)?;
        Ok(RowStream { batches: Some(batches), stage: Stage::Running(Box::new(execution)), schema })
    }

    /// The columns; `None` if they are known with the answer only, which comes at the end.
    pub fn schema(&self) -> Option<&SchemaRef> {
        self.schema.as_ref()
    }

    /// Follows the query.
    fn advance(&mut self) -> Result<(), Cause> {
        let Stage::Running(execution) = &mut self.stage else { return Ok(()) };
        let phase = execution.advance();
        if phase == Phase::Running {
            return Ok(());
        }
        if phase == Phase::Abandoned {
            self.batches = None;
        }
        let Stage::Running(execution) = mem::replace(&mut self.stage, Stage::Ended) else { return Ok(()) };
        let ending = thread::Builder::new().name("end of a stream".into()).spawn(move || execution.finish());
        let ending = ending.map_err(|error| Cause::resource(format!("cannot start a thread: {error}")))?;
        self.stage = Stage::Ending(ending);
        Ok(())
    }

    /// What comes after the rows: the answer, or why the query has failed.
    fn last(&mut self) -> Option<Result<RecordBatch, Cause>> {
        self.batches = None;
        let ended = match mem::replace(&mut self.stage, Stage::Ended) {
            Stage::Running(_) | Stage::Ended => return None,
            Stage::Ending(thread) => {
                thread.join().unwrap_or_else(|_| Err(Cause::bug("the query's thread panicked")))
            }
        };
        match ended {
            Ok(QueryEnd::Finished { answer, .. }) => answer.map(Ok),
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
        let patience = Patience::up_to(LOOK_MAX);
        loop {
            if let Err(cause) = self.advance() {
                self.batches = None;
                return Some(Err(cause));
            }
            let is_over = match &self.stage {
                Stage::Running(_) => false,
                Stage::Ending(thread) => thread.is_finished(),
                Stage::Ended => true,
            };
            let Some(batches) = &self.batches else { return self.last() };
            match batches.receive(patience.wait()) {
                ReceiveOutcome::Batch(batch) => return Some(Ok(batch)),
                _ if is_over => return self.last(),
                ReceiveOutcome::Nothing => {}
                // A query that is answered at its end has no sink.
                ReceiveOutcome::End => thread::sleep(patience.wait()),
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
