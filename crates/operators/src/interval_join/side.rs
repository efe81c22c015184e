//! The stored rows of one side of an interval join.

use std::collections::VecDeque;

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use tidemill_core::error::Cause;

use crate::row_store::RowStore;

/// A stored row.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    pub time: i64,
    /// Its number in the store: later rows have larger numbers.
    pub row: u64,
    /// Whether it had a match.
    pub is_matched: bool,
}

/// Rows by key, and within a key by time; rows with equal times are in the order of arrival.
#[derive(Debug)]
pub(super) struct Side {
    pub store: RowStore,
    entries: Vec<VecDeque<Entry>>,
    /// The number of entries.
    pub rows: usize,
}

impl Side {
    pub fn new(schema: SchemaRef) -> Self {
        Side { store: RowStore::new(schema), entries: Vec::new(), rows: 0 }
    }

    /// Bytes of memory held.
    pub fn bytes(&self) -> usize {
        let of_keys = self.entries.capacity() * size_of::<VecDeque<Entry>>();
        self.store.bytes() + of_keys + self.rows * size_of::<Entry>()
    }

    /// The rows of a key.
    pub fn entries(&self, key: u32) -> Option<&VecDeque<Entry>> {
        self.entries.get(key as usize)
    }

    /// Stores a row.
    pub fn insert(&mut self, key: u32, entry: Entry) {
        if self.entries.len() <= key as usize {
            self.entries.resize_with(key as usize + 1, VecDeque::new);
        }
        let entries = &mut self.entries[key as usize];
        match entries.back() {
            Some(last) if last.time > entry.time => {
                let place = entries.partition_point(|held| held.time <= entry.time);
                entries.insert(place, entry);
            }
            _ => entries.push_back(entry),
        }
        self.rows += 1;
    }

    /// Records that a row had a match.
    pub fn set_matched(&mut self, key: u32, time: i64, row: u64) {
        let Some(entries) = self.entries.get_mut(key as usize) else { return };
        let place = entries.partition_point(|held| (held.time, held.row) < (time, row));
        if let Some(entry) = entries.get_mut(place) {
            entry.is_matched = true;
        }
    }

    /// Drops the rows of a key that are earlier than `time`; adds those without a match to `unmatched`.
    pub fn expire(&mut self, key: u32, time: i64, unmatched: &mut Vec<(i64, u64)>) {
        let Some(entries) = self.entries.get_mut(key as usize) else { return };
        while let Some(entry) = entries.front().filter(|entry| is_before(entry.time, time)) {
            if !entry.is_matched {
                unmatched.push((entry.time, entry.row));
            }
            entries.pop_front();
            self.rows -= 1;
        }
    }

    /// Drops the rows of all keys that are earlier than `time`.
    pub fn expire_all(&mut self, time: i64) {
        let mut unmatched = Vec::new();
        for key in 0..self.entries.len() as u32 {
            self.expire(key, time, &mut unmatched);
            unmatched.clear();
        }
    }

    /// Whether the key has rows.
    pub fn has_rows(&self, key: u32) -> bool {
        self.entries(key).is_some_and(|entries| !entries.is_empty())
    }

    /// Releases the storage of dropped rows, and renumbers the keys.
    pub fn compact(&mut self, keys: &[u32], key_count: usize) -> Result<(), Cause> {
        let held = self.held_rows();
        self.store.keep(&held)?;
        let mut entries = Vec::new();
        entries.resize_with(key_count, VecDeque::new);
        for (key, mut of_key) in std::mem::take(&mut self.entries).into_iter().enumerate() {
            if of_key.is_empty() {
                continue;
            }
            for entry in &mut of_key {
                entry.row = held.partition_point(|row| *row < entry.row) as u64;
            }
            of_key.shrink_to_fit();
            entries[keys[key] as usize] = of_key;
        }
        self.entries = entries;
        Ok(())
    }

    fn held_rows(&self) -> Vec<u64> {
        let mut held: Vec<u64> = self.entries.iter().flatten().map(|entry| entry.row).collect();
        held.sort_unstable();
        held
    }

    /// All rows in the order of arrival, and which of them had a match; `None` if Arrow cannot gather them.
    pub fn contents(&self) -> Option<(RecordBatch, Vec<bool>)> {
        let mut held: Vec<(u64, bool)> =
            self.entries.iter().flatten().map(|entry| (entry.row, entry.is_matched)).collect();
        held.sort_unstable();
        let (numbers, is_matched): (Vec<u64>, Vec<bool>) = held.into_iter().unzip();
        Some((self.store.rows(&numbers).ok()?, is_matched))
    }
}

/// Whether the time is before the end. At the end of all inputs, even the last instant has passed.
pub(super) fn is_before(time: i64, end: i64) -> bool {
    time < end || end == i64::MAX
}
