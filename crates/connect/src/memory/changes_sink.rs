//! The changes of a table since they were last taken.

use std::ops::RangeInclusive;
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use parking_lot::{Mutex, MutexGuard};
use tidemill_core::{Cause, CycleOutput, Sink};

use super::table_store::TableStore;
use crate::pending::PendingRows;

/// Keeps the last row of each key among the rows since they were last taken. So a reader gets changes only as often as
/// it wants them, however often the table changes.
///
/// ```
/// use tidemill_connect::memory::ChangesSink;
/// use tidemill_core::arrow::schema::{DataType, Field, Schema};
/// let schema = Schema::new(vec![Field::new("clicks", DataType::Int64, false)]).into();
/// let (sink, changes) = ChangesSink::new(&schema, vec![], 1_000_000)?;
/// assert_eq!(changes.take()?, None);
/// # drop(sink);
/// # Ok::<(), tidemill_core::Cause>(())
/// ```
pub struct ChangesSink {
    pending: PendingRows,
    changes: Changes,
}

/// Takes the changes, from any thread.
#[derive(Clone)]
pub struct Changes {
    schema: SchemaRef,
    key_columns: Vec<usize>,
    rows_max: usize,
    store: Arc<Mutex<TableStore>>,
}

impl ChangesSink {
    /// A sink for rows whose key is `key_columns`; if that is empty, the table has one row. At most `rows_max` keys may
    /// wait.
    ///
    /// # Errors
    /// As for [`TableStore::new`].
    pub fn new(
        schema: &SchemaRef,
        key_columns: Vec<usize>,
        rows_max: usize,
    ) -> Result<(ChangesSink, Changes), Cause> {
        let store = TableStore::new(schema, key_columns.clone(), rows_max)?;
        let store = Arc::new(Mutex::new(store));
        let changes = Changes { schema: schema.clone(), key_columns, rows_max, store };
        Ok((ChangesSink { pending: PendingRows::default(), changes: changes.clone() }, changes))
    }
}

impl Changes {
    /// The last row of each key that has changed since the last call, in the order in which the keys first changed.
    ///
    /// # Errors
    /// [`Cause::resource`] if the rows are too many for one batch.
    pub fn take(&self) -> Result<Option<RecordBatch>, Cause> {
        if self.lock().handle().is_empty() {
            return Ok(None);
        }
        let empty = TableStore::new(&self.schema, self.key_columns.clone(), self.rows_max)?;
        let taken = std::mem::replace(&mut *self.lock(), empty);
        taken.handle().read().map(Some)
    }

    /// Locks the store. A panic elsewhere leaves whole commits behind.
    fn lock(&self) -> MutexGuard<'_, TableStore> {
        self.store.lock()
    }
}

impl Sink for ChangesSink {
    fn prepare(&mut self, output: CycleOutput) -> Result<(), Cause> {
        self.pending.push(output, &self.changes.schema)
    }

    fn commit(&mut self, cycles: RangeInclusive<u64>) -> Result<(), Cause> {
        let rows = self.pending.take(*cycles.end());
        self.changes.lock().upsert(&rows)
    }
}
