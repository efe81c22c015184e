//! Answers that are too large to be made as a whole: computed as they are taken.

use std::collections::VecDeque;
use std::sync::Arc;

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::Result;
use tidemill_engine::{Cause, MemoryAccount, bytes_of_rows};

use super::computing::Computing;
use crate::limit_reached::limit_reached;
use crate::logical::{Names, shown_rows};
use crate::planning_limits::within;
use crate::statement::Statement;
use crate::store::FoundRows;
use crate::text::TextError;
use crate::turns::{Turns, turn_refused};

/// The rows of an answer, a batch at a time. Each is computed when it is taken, on the thread that takes it and in a
/// turn of its own. All of them are of the versions that the query read when it began.
///
/// See [`Planner::set_answers_in_batches`](crate::Planner::set_answers_in_batches).
pub struct RowBatches {
    /// What was computed before it was known that there is more.
    first: VecDeque<RecordBatch>,
    schema: SchemaRef,
    /// `None`: it has ended.
    computing: Option<Computing>,
    turns: Arc<dyn Turns>,
    reads: Vec<FoundRows>,
    /// What was copied of views and tables.
    tables: MemoryAccount,
    /// The first batches, as long as they were not taken.
    waiting: MemoryAccount,
    /// What it holds of views that they do not have any more.
    outlived: MemoryAccount,
    /// For the places of errors.
    statement: Statement,
}

impl RowBatches {
    pub(super) fn new(
        (first, waiting): (Vec<RecordBatch>, MemoryAccount),
        computing: Computing,
        turns: Arc<dyn Turns>,
        (reads, tables): (Vec<FoundRows>, MemoryAccount),
        statement: Statement,
    ) -> Result<RowBatches> {
        let without_rows: Vec<RecordBatch> = first.iter().take(1).map(|batch| batch.slice(0, 0)).collect();
        let schema = shown_rows(computing.whole(&without_rows)?)?.schema();
        let outlived = tables.budget().account();
        let (first, computing) = (first.into(), Some(computing));
        Ok(RowBatches { first, schema, computing, turns, reads, tables, waiting, outlived, statement })
    }

    /// The columns.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Counts what it holds of views that they have dropped or replaced since, as taking the next batch does. To be
    /// called while nobody takes one.
    ///
    /// # Errors
    /// If that is more than readers may hold.
    pub fn count_outlived_rows(&mut self) -> std::result::Result<(), Cause> {
        // The batches that wait are counted, and most of what they hold is of the same rows.
        count_outlived(&self.reads, self.waiting.bytes(), &mut self.outlived)
    }

    /// How much of that is counted.
    pub fn outlived_bytes(&self) -> u64 {
        self.outlived.bytes()
    }

    fn compute(&mut self) -> Result<Option<RecordBatch>> {
        if let Some(batch) = self.first.pop_front() {
            self.waiting.set(self.waiting.bytes().saturating_sub(bytes_of_rows(&batch) as u64));
            return shown_rows(batch).map(Some);
        }
        let Some(computing) = &mut self.computing else { return Ok(None) };
        count_outlived(&self.reads, 0, &mut self.outlived).map_err(limit_reached)?;
        let mut turn = self.turns.begin().map_err(turn_refused)?;
        loop {
            match computing.next(turn.as_mut())? {
                Some(batch) if batch.num_rows() == 0 => {}
                Some(batch) => return shown_rows(batch).map(Some),
                None => return Ok(None),
            }
        }
    }
}

/// A view continues, and what it drops or replaces stays in memory as long as a query reads it.
/// Without as much of it as is `counted` elsewhere.
fn count_outlived(
    reads: &[FoundRows],
    counted: u64,
    account: &mut MemoryAccount,
) -> std::result::Result<(), Cause> {
    let outlived = reads.iter().map(FoundRows::outlived_bytes).sum::<u64>();
    let more = outlived.saturating_sub(counted).saturating_sub(account.bytes());
    account.grow("rows of views that were replaced or dropped meanwhile", more)
}

impl Iterator for RowBatches {
    type Item = std::result::Result<RecordBatch, TextError>;

    fn next(&mut self) -> Option<Self::Item> {
        let (turns, memory) = (Arc::clone(&self.turns), self.tables.budget().clone());
        let computed = within(&turns, &memory, || self.compute());
        let error = |error| TextError::from_datafusion(&error, &self.statement, &Names::default());
        let next = computed.map_err(error).transpose();
        if !matches!(next, Some(Ok(_))) {
            self.computing = None;
            self.first.clear();
            self.reads.clear();
            for account in [&mut self.tables, &mut self.waiting, &mut self.outlived] {
                account.set(0);
            }
        }
        next
    }
}
