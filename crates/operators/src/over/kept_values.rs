//! Values of earlier rows that a function may return for later ones.

use std::collections::VecDeque;
use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use tidemill_core::error::Cause;
use tidemill_core::{SnapshotReader, SnapshotWriter};

use crate::row_store::RowStore;
use crate::stored_rows::{kernel_error, read_rows, write_rows};

/// With fewer stored values, compacting is not worthwhile.
const COMPACT_VALUES: usize = 4096;

/// For so many values room is taken at first.
const VALUES_AT_ONCE: usize = 4;

/// A value of an earlier row: its coordinate in its key's order, and its number.
#[derive(Clone, Copy, Debug)]
pub(super) struct Kept {
    pub coordinate: i64,
    pub value: u64,
}

/// Values by number, and for each key those that are kept.
#[derive(Debug)]
pub(super) struct KeptValues {
    schema: SchemaRef,
    store: RowStore,
    keys: Vec<VecDeque<Kept>>,
    count: usize,
}

impl KeptValues {
    pub fn new(data_type: &DataType) -> Self {
        let schema = Arc::new(Schema::new(vec![Field::new("value", data_type.clone(), true)]));
        KeptValues { store: RowStore::new(schema.clone()), schema, keys: Vec::new(), count: 0 }
    }

    /// Adds a column; returns the number of its first value.
    pub fn append(&mut self, column: &ArrayRef, key_count: usize) -> Result<u64, Cause> {
        self.keys.resize_with(key_count, VecDeque::new);
        let rows = RecordBatch::try_new(self.schema.clone(), vec![column.clone()]).map_err(kernel_error)?;
        self.store.append(rows)
    }

    /// The kept values of a key, in order.
    pub fn of(&self, key: u32) -> &VecDeque<Kept> {
        &self.keys[key as usize]
    }

    /// Keeps a value as its key's last.
    pub fn push(&mut self, key: u32, kept: Kept) {
        self.keys[key as usize].push_back(kept);
        self.count += 1;
    }

    /// Drops a key's first value.
    pub fn pop_first(&mut self, key: u32) -> Option<Kept> {
        let first = self.keys[key as usize].pop_front();
        self.count -= usize::from(first.is_some());
        first
    }

    /// Drops a key's last value.
    pub fn pop_last(&mut self, key: u32) -> Option<Kept> {
        let last = self.keys[key as usize].pop_back();
        self.count -= usize::from(last.is_some());
        last
    }

    /// The values with these numbers; `NO_ROW` gives NULL.
    pub fn gather(&self, numbers: &[u64]) -> Result<ArrayRef, Cause> {
        self.store.gather(numbers)?.pop().ok_or_else(|| Cause::bug("kept values have no column"))
    }

    /// Bytes of memory held.
    pub fn bytes(&self) -> usize {
        let of_keys = self.keys.capacity() * size_of::<VecDeque<Kept>>();
        // Room is taken for several values of a key at a time.
        let values = self.keys.len() * VALUES_AT_ONCE + self.count;
        self.store.bytes() + of_keys + values * size_of::<Kept>()
    }

    /// The number of keys.
    pub fn key_count(&self) -> usize {
        self.keys.len()
    }

    /// The number of values kept.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Releases values that are no longer kept, once they are more than half.
    pub fn compact(&mut self) -> Result<(), Cause> {
        if self.store.len() <= COMPACT_VALUES || self.store.len() <= 2 * self.len() + COMPACT_VALUES {
            return Ok(());
        }
        let mut kept: Vec<u64> = self.keys.iter().flatten().map(|kept| kept.value).collect();
        kept.sort_unstable();
        self.store.keep(&kept)?;
        for entry in self.keys.iter_mut().flatten() {
            entry.value = kept.partition_point(|value| *value < entry.value) as u64;
        }
        Ok(())
    }

    pub fn snapshot(&self, writer: &mut SnapshotWriter) {
        writer.u64(self.keys.len() as u64);
        let mut numbers = Vec::new();
        for of_key in &self.keys {
            writer.u64(of_key.len() as u64);
            for kept in of_key {
                writer.i64(kept.coordinate);
                numbers.push(kept.value);
            }
        }
        write_rows(writer, self.store.rows(&numbers).ok());
    }

    pub fn restore(&mut self, reader: &mut SnapshotReader<'_>) -> Result<(), Cause> {
        let mut value = 0;
        for _ in 0..reader.u64()? {
            let mut of_key = VecDeque::new();
            for _ in 0..reader.u64()? {
                of_key.push_back(Kept { coordinate: reader.i64()?, value });
                value += 1;
            }
            self.keys.push(of_key);
        }
        self.count = value as usize;
        self.store.append(read_rows(reader, &self.schema)?).map(|_| ())
    }
}
