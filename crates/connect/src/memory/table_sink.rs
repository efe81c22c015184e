//! A table that keeps the last row of each key, for CREATE MATERIALIZED VIEW.

use std::ops::RangeInclusive;

use arrow_schema::SchemaRef;
use tidemill_core::{Cause, CycleOutput, MemoryAccount, Sink};

use super::table_handle::TableHandle;
use super::table_store::TableStore;
use crate::pending::PendingRows;

/// Feeds a [`TableStore`] with upserts: rows that contain the key and the values. Each commit is a version; readers see
/// the table after some commit, and never part of a cycle. A commit over the limit fails and changes nothing. The table
/// is only in memory and ends with the process.
///
/// ```
/// use tidemill_connect::memory::TableSink;
/// use tidemill_core::arrow::schema::{DataType, Field, Schema};
/// let campaign = Field::new("campaign", DataType::Utf8, false);
/// let schema = Schema::new(vec![campaign, Field::new("clicks", DataType::Int64, false)]).into();
/// let (sink, table) = TableSink::new(&schema, vec![0], 1_000_000).unwrap();
/// let reader = std::thread::spawn(move || table.read().map(|rows| rows.num_rows()));
/// assert_eq!(reader.join().unwrap(), Ok(0));
/// # drop(sink);
/// ```
pub struct TableSink {
    schema: SchemaRef,
    store: TableStore,
    pending: PendingRows,
}

impl TableSink {
    /// A sink for rows whose key is `key_columns`, with at most `rows_max` keys, and the handle to read the table.
    ///
    /// # Errors
    /// As for [`TableStore::new`].
    pub fn new(
        schema: &SchemaRef,
        key_columns: Vec<usize>,
        rows_max: usize,
    ) -> Result<(TableSink, TableHandle), Cause> {
        let store = TableStore::new(schema, key_columns, rows_max)?;
        let handle = store.handle();
        Ok((TableSink { schema: schema.clone(), store, pending: PendingRows::default() }, handle))
    }
}

impl TableSink {
    /// The memory that the table counts against, as long as it is written.
    #[must_use]
    pub fn memory(self, account: MemoryAccount) -> TableSink {
        TableSink { store: self.store.memory(account), ..self }
    }
}

impl Sink for TableSink {
    fn prepare(&mut self, output: CycleOutput) -> Result<(), Cause> {
        self.pending.push(output, &self.schema)
    }

    fn commit(&mut self, cycles: RangeInclusive<u64>) -> Result<(), Cause> {
        let rows = self.pending.take(*cycles.end());
        self.store.upsert_to(&rows, Some(*cycles.end()))
    }
}
