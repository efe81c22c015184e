//! Rows in memory, for tests and for programs that embed the engine.

use std::ops::RangeInclusive;
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use arrow_select::concat::concat_batches;
use parking_lot::Mutex;
use tidemill_core::memory::bytes_of_rows;
use tidemill_core::{Cause, CycleOutput, MemoryAccount, Sink};

use crate::pending::PendingRows;

/// The rows of one commit.
#[derive(Clone, Debug)]
pub struct MemoryCommit {
    /// The cycles.
    pub cycles: RangeInclusive<u64>,
    /// Their rows, in order; no batch is empty.
    pub batches: Vec<RecordBatch>,
}

/// Keeps all rows in memory, up to a limit. Readers see whole commits; a commit over the limit fails and
/// leaves nothing.
///
/// ```
/// use tidemill_connect::memory::MemorySink;
/// use tidemill_core::Sink;
/// use tidemill_core::arrow::schema::{DataType, Field, Schema};
///
/// let schema = Schema::new(vec![Field::new("vid", DataType::Int64, false)]).into();
/// let (mut sink, rows) = MemorySink::new(&schema, 1000);
/// sink.finish().unwrap();
/// assert!(rows.is_empty() && rows.is_finished());
/// ```
pub struct MemorySink {
    schema: SchemaRef,
    rows_max: usize,
    pending: PendingRows,
    shared: Arc<Mutex<CollectedRows>>,
}

/// Reads what a [`MemorySink`] has received, from any thread, while the query runs and after.
#[derive(Clone)]
pub struct MemoryRows {
    schema: SchemaRef,
    shared: Arc<Mutex<CollectedRows>>,
}

#[derive(Default)]
struct CollectedRows {
    commits: Vec<MemoryCommit>,
    rows: usize,
    /// The last cycle that was committed.
    cycle: Option<u64>,
    account: MemoryAccount,
    is_finished: bool,
}

impl MemorySink {
    /// A sink for at most `rows_max` rows, and the handle to read them.
    pub fn new(schema: &SchemaRef, rows_max: usize) -> (MemorySink, MemoryRows) {
        let shared = Arc::<Mutex<CollectedRows>>::default();
        let rows = MemoryRows { schema: schema.clone(), shared: shared.clone() };
        (MemorySink { schema: schema.clone(), rows_max, pending: PendingRows::default(), shared }, rows)
    }
}

impl MemorySink {
    /// The memory that its rows count against, as long as somebody can read them.
    #[must_use]
    pub fn memory(self, account: MemoryAccount) -> MemorySink {
        self.shared.lock().account = account;
        self
    }
}

impl MemoryRows {
    /// All commits so far that had rows.
    pub fn commits(&self) -> Vec<MemoryCommit> {
        self.shared.lock().commits.clone()
    }

    /// All rows so far as one batch.
    ///
    /// # Errors
    /// [`Cause::resource`] if they are too many for one batch, for example with more than 2 GiB of text in a column.
    pub fn read(&self) -> Result<RecordBatch, Cause> {
        self.read_with_cycle().map(|(rows, _)| rows)
    }

    /// The same, with the last cycle that was committed; `None`: there was none.
    ///
    /// # Errors
    /// As for [`read`](MemoryRows::read).
    pub fn read_with_cycle(&self) -> Result<(RecordBatch, Option<u64>), Cause> {
        let (commits, cycle) = {
            let shared = self.shared.lock();
            (shared.commits.clone(), shared.cycle)
        };
        let batches = commits.iter().flat_map(|commit| &commit.batches);
        let rows = concat_batches(&self.schema, batches).map_err(|error| {
            Cause::resource(format!("the rows do not fit into one batch: {error}")).with_source(error)
        })?;
        Ok((rows, cycle))
    }

    /// The number of rows so far.
    pub fn len(&self) -> usize {
        self.shared.lock().rows
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether the query has ended normally: no more rows come.
    pub fn is_finished(&self) -> bool {
        self.shared.lock().is_finished
    }
}

impl Sink for MemorySink {
    fn may_block(&self) -> bool {
        false
    }

    fn prepare(&mut self, output: CycleOutput) -> Result<(), Cause> {
        self.pending.push(output, &self.schema)
    }

    fn commit(&mut self, cycles: RangeInclusive<u64>) -> Result<(), Cause> {
        let batches = self.pending.take(*cycles.end());
        let mut shared = self.shared.lock();
        let rows = shared.rows + batches.iter().map(RecordBatch::num_rows).sum::<usize>();
        if rows > self.rows_max {
            return Err(Cause::resource(format!(
                "the result has {rows} rows in memory, but at most {} are allowed; raise max_result_rows, or \
                 write to a file",
                self.rows_max
            )));
        }
        let bytes = batches.iter().map(|rows| bytes_of_rows(rows) as u64).sum();
        shared.account.grow("the result in memory", bytes)?;
        shared.rows = rows;
        shared.cycle = Some(*cycles.end());
        if !batches.is_empty() {
            shared.commits.push(MemoryCommit { cycles, batches });
        }
        Ok(())
    }

    fn finish(&mut self) -> Result<(), Cause> {
        self.shared.lock().is_finished = true;
        Ok(())
    }
}
