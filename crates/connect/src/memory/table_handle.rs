//! The read side of a table in memory.

use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use parking_lot::{Mutex, MutexGuard};
use tidemill_core::Cause;

use super::table_log::TableLog;

/// A version of a table: its rows after some commit. It does not change.
#[derive(Clone, Debug)]
pub struct TableVersion {
    /// How many commits had changed the table by then.
    pub number: u64,
    /// One row per key, in the order in which the keys first came.
    pub rows: Arc<RecordBatch>,
}

/// Reads a table from any thread, while it changes and after. Clones read the same table.
///
/// A version is built when someone asks for it, outside of the table's lock, and kept until it is outdated. That costs
/// a copy of the table, so ask no more often than the answer is needed. The lock is held only to copy one number per
/// key.
#[derive(Clone)]
pub struct TableHandle(pub(crate) Arc<PublishedTable>);

pub(crate) struct PublishedTable {
    pub schema: SchemaRef,
    pub key_columns: Vec<usize>,
    state: Mutex<TableState>,
}

/// What was committed.
#[derive(Default)]
pub(crate) struct TableState {
    pub log: TableLog,
    /// For each key, in the order in which they first came, the number of its last row in the log.
    pub rows: Vec<u64>,
    pub version: u64,
    /// The last cycle that was committed.
    pub cycle: Option<u64>,
    latest: Option<TableVersion>,
}

impl PublishedTable {
    pub fn new(schema: &SchemaRef, key_columns: Vec<usize>) -> PublishedTable {
        PublishedTable { schema: schema.clone(), key_columns, state: Mutex::default() }
    }

    /// Locks the state. It is always changed in one step, so even a panic elsewhere leaves whole commits behind.
    pub fn lock(&self) -> MutexGuard<'_, TableState> {
        self.state.lock()
    }
}

impl TableHandle {
    /// The table's columns.
    pub fn schema(&self) -> SchemaRef {
        self.0.schema.clone()
    }

    /// The columns that form the key; empty means that the table has one row.
    pub fn key_columns(&self) -> &[usize] {
        &self.0.key_columns
    }

    /// The number of keys.
    pub fn len(&self) -> usize {
        self.0.lock().rows.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many commits have changed the table. The same number means the same rows.
    pub fn version_number(&self) -> u64 {
        self.0.lock().version
    }

    /// The table after the last commit: one row per key, in the order in which the keys first came.
    ///
    /// # Errors
    /// [`Cause::resource`] if the rows are too many for one batch, for example with more than 2 GiB of text in a
    /// column.
    pub fn read(&self) -> Result<RecordBatch, Cause> {
        self.version().map(|version| version.rows.as_ref().clone())
    }

    /// The same with its version number.
    ///
    /// # Errors
    /// As for [`read`](TableHandle::read).
    pub fn version(&self) -> Result<TableVersion, Cause> {
        self.version_and_cycle().map(|(version, _)| version)
    }

    /// The table after the last cycle that was committed, with that cycle; `None`: there was none.
    ///
    /// # Errors
    /// As for [`read`](TableHandle::read).
    pub fn read_with_cycle(&self) -> Result<(RecordBatch, Option<u64>), Cause> {
        self.version_and_cycle().map(|(version, cycle)| (version.rows.as_ref().clone(), cycle))
    }

    fn version_and_cycle(&self) -> Result<(TableVersion, Option<u64>), Cause> {
        let (log, rows, number, cycle) = {
            let state = self.0.lock();
            match &state.latest {
                Some(latest) if latest.number == state.version => return Ok((latest.clone(), state.cycle)),
                _ => (state.log.clone(), state.rows.clone(), state.version, state.cycle),
            }
        };
        let version = TableVersion { number, rows: Arc::new(log.gather(&self.0.schema, &rows)?) };
        let mut state = self.0.lock();
        if state.latest.as_ref().is_none_or(|latest| latest.number < number) {
            state.latest = Some(version.clone());
        }
        Ok((version, cycle))
    }
}
