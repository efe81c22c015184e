//! A keyed table in memory.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch};
use arrow_row::{RowConverter, SortField};
use arrow_schema::SchemaRef;
use tidemill_core::{Cause, MemoryAccount};

use super::table_handle::{PublishedTable, TableHandle};
use super::table_log::TableLog;

/// The log is rewritten when it has twice as many rows as there are keys, plus this many.
const SPARE_ROWS: u64 = 1 << 16;
/// What a key takes besides its bytes.
const KEY_BYTES: usize = 40;

/// Keeps the last row of each key. [`TableHandle`]s read it from other threads.
///
/// Keys are equal if all their columns are; NULL equals NULL. Rows are appended to a log, and for each key the number
/// of its last row is kept. Outdated rows are dropped when they are the majority. So memory is about twice the table,
/// and the cost of a commit depends on its rows, not on the size of the table.
///
/// ```
/// use std::sync::Arc;
/// use tidemill_connect::memory::TableStore;
/// use tidemill_core::arrow::array::{Int64Array, RecordBatch, StringArray};
///
/// let upserts = |keys: Vec<&str>, counts: Vec<i64>| {
///     let keys = Arc::new(StringArray::from(keys)) as _;
///     RecordBatch::try_from_iter([("campaign", keys), ("clicks", Arc::new(Int64Array::from(counts)) as _)])
/// };
/// let mut store = TableStore::new(&upserts(vec![], vec![])?.schema(), vec![0], 1000)?;
/// store.upsert(&[upserts(vec!["spring", "autumn"], vec![1, 1])?])?;
/// store.upsert(&[upserts(vec!["spring"], vec![2])?])?;
/// assert_eq!(store.handle().read()?, upserts(vec!["spring", "autumn"], vec![2, 1])?);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct TableStore {
    rows_max: usize,
    /// Converts key columns to bytes that are equal if the keys are; `None` without key columns.
    converter: Option<RowConverter>,
    /// For each key its index among the keys. Never iterated over, so its hash seed is not visible anywhere.
    places: HashMap<Box<[u8]>, usize>,
    /// Of the keys, with their places.
    key_bytes: u64,
    account: MemoryAccount,
    shared: Arc<PublishedTable>,
}

impl TableStore {
    /// An empty table for rows of this schema whose key is `key_columns`, with at most `rows_max` keys. Without key
    /// columns the table has one row, the last one.
    ///
    /// # Errors
    /// [`Cause::user`] if a key column has a type that cannot be a key; [`Cause::bug`] if such a column does not exist.
    pub fn new(schema: &SchemaRef, key_columns: Vec<usize>, rows_max: usize) -> Result<TableStore, Cause> {
        let field_count = schema.fields().len();
        if key_columns.iter().any(|column| *column >= field_count) {
            return Err(Cause::bug(format!(
                "key columns {key_columns:?} of a table of {field_count} columns"
            )));
        }
        let types = key_columns.iter().map(|column| schema.field(*column).data_type().clone());
        let fields: Vec<SortField> = types.map(SortField::new).collect();
        let converter = if fields.is_empty() {
            None
        } else {
            Some(RowConverter::new(fields).map_err(|error| {
                Cause::user(format!("a column cannot be part of a table's key: {error}; cast it"))
                    .with_source(error)
            })?)
        };
        let shared = Arc::new(PublishedTable::new(schema, key_columns));
        Ok(TableStore {
            rows_max,
            converter,
            places: HashMap::new(),
            key_bytes: 0,
            account: MemoryAccount::default(),
            shared,
        })
    }

    /// The memory that the table counts against, as long as it is written.
    #[must_use]
    pub fn memory(mut self, account: MemoryAccount) -> TableStore {
        self.account = account;
        self
    }

    /// A handle to read the table.
    pub fn handle(&self) -> TableHandle {
        TableHandle(self.shared.clone())
    }

    /// Takes rows in order; for equal keys the last one stays. Readers see all of them at once or, on an error, none.
    ///
    /// # Errors
    /// [`Cause::resource`] if there are too many keys; [`Cause::bug`] if the rows have a different schema.
    pub fn upsert(&mut self, batches: &[RecordBatch]) -> Result<(), Cause> {
        self.upsert_to(batches, None)
    }

    /// As [`upsert`](TableStore::upsert). These are the rows of the cycles up to this one.
    pub(crate) fn upsert_to(&mut self, batches: &[RecordBatch], cycle: Option<u64>) -> Result<(), Cause> {
        if batches.iter().all(|rows| rows.num_rows() == 0) {
            self.shared.lock().cycle = cycle;
            return Ok(());
        }
        // Only this method changes the state, so it may read it, work without the lock, and then change it.
        let (mut log, key_count) = {
            let state = self.shared.lock();
            (state.log.clone(), state.rows.len())
        };
        let updates =
            self.place_rows(batches, log.end()).inspect_err(|_| self.forget_keys_from(key_count))?;
        for rows in batches {
            log.push(rows.clone()).inspect_err(|_| self.forget_keys_from(key_count))?;
        }
        self.account.set(self.key_bytes + log.bytes());
        self.account.check("the table in memory").inspect_err(|_| self.forget_keys_from(key_count))?;
        let mut state = self.shared.lock();
        state.rows.resize(self.key_count(), 0);
        for (place, number) in updates {
            state.rows[place] = number;
        }
        state.log = log;
        state.version += 1;
        state.cycle = cycle;
        drop(state);
        self.drop_outdated()
    }

    /// Finds each row's index among the keys, including new keys: `(index, number of the row)`.
    fn place_rows(&mut self, batches: &[RecordBatch], first: u64) -> Result<Vec<(usize, u64)>, Cause> {
        let mut updates = Vec::with_capacity(batches.iter().map(RecordBatch::num_rows).sum());
        let mut number = first;
        for rows in batches {
            let Some(converter) = &self.converter else {
                self.places.entry(Box::default()).or_insert(0);
                updates.extend((0..rows.num_rows() as u64).map(|row| (0, number + row)));
                number += rows.num_rows() as u64;
                continue;
            };
            let columns = self.shared.key_columns.iter().map(|column| rows.column(*column).clone());
            let keys = converter.convert_columns(&columns.collect::<Vec<ArrayRef>>());
            let keys = keys.map_err(|error| {
                Cause::bug(format!("rows do not fit the table's key: {error}")).with_source(error)
            })?;
            for key in &keys {
                let place = match self.places.get(key.data()) {
                    Some(place) => *place,
                    None => self.add_key(key.data())?,
                };
                updates.push((place, number));
                number += 1;
            }
        }
        Ok(updates)
    }

    fn add_key(&mut self, key: &[u8]) -> Result<usize, Cause> {
        let place = self.places.len();
        if place >= self.rows_max {
            return Err(Cause::resource(format!(
                "the table has more than {} keys; raise max_result_rows, or group by fewer values",
                self.rows_max
            )));
        }
        self.places.insert(key.into(), place);
        self.key_bytes += (key.len() + KEY_BYTES) as u64;
        Ok(place)
    }

    fn key_count(&self) -> usize {
        self.places.len()
    }

    fn forget_keys_from(&mut self, key_count: usize) {
        self.places.retain(|_, place| *place < key_count);
    }

    /// Rewrites the log once most of its rows are outdated: each key's row is then copied once per at least as many
    /// upserts as there are keys.
    fn drop_outdated(&self) -> Result<(), Cause> {
        let (log, rows) = {
            let state = self.shared.lock();
            if state.log.end() <= 2 * state.rows.len() as u64 + SPARE_ROWS {
                return Ok(());
            }
            (state.log.clone(), state.rows.clone())
        };
        let mut rewritten = TableLog::default();
        rewritten.push(log.gather(&self.shared.schema, &rows)?)?;
        let mut state = self.shared.lock();
        state.rows = (0..rows.len() as u64).collect();
        state.log = rewritten;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use arrow_array::Int64Array;

    use super::*;

    #[test]
    fn outdated_rows_do_not_pile_up() {
        let rows = |value: i64| {
            let column = |values| Arc::new(Int64Array::from_iter_values(values)) as ArrayRef;
            let columns = [("key", column(0..1000_i64)), ("value", column(value..value + 1000))];
            RecordBatch::try_from_iter(columns).unwrap()
        };
        let mut store = TableStore::new(&rows(0).schema(), vec![0], 1000).unwrap();
        for value in 0..300 {
            store.upsert(&[rows(value)]).unwrap();
            assert!(store.shared.lock().log.end() <= 2000 + SPARE_ROWS);
            assert!(store.shared.lock().log.segment_count() <= 40);
        }
        assert_eq!(store.handle().read().unwrap(), rows(299));
    }
}
