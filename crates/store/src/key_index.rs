//! From the hash of a key to the number of its newest row: one writer, any number of readers, no lock.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tidemill_core::prefetch;

/// The index is divided by the upper bits of the hash, so that growing takes short steps.
const SHARDS: usize = 64;
const SLOTS_MIN: usize = 16;
/// How many slots of an outgrown table move for each row. It is empty long before the new one is full.
const MOVED_PER_ROW: usize = 8;

/// A place for a key. The row's number plus one comes last when a slot is taken, and 0 means that it is free.
#[derive(Default)]
struct Slot {
    hash: AtomicU64,
    row: AtomicU64,
}

/// Slots with linear probing. A slot once taken stays with its hash.
struct Table {
    slots: Box<[Slot]>,
}

impl Table {
    fn new(slots: usize) -> Table {
        Table { slots: (0..slots).map(|_| Slot::default()).collect() }
    }

    fn first_slot(&self, hash: u64) -> usize {
        (hash as usize) & (self.slots.len() - 1)
    }

    /// The slot of this hash, or the free one that ends the search.
    fn find(&self, hash: u64) -> (&Slot, u64) {
        let mut at = self.first_slot(hash);
        loop {
            let slot = &self.slots[at];
            let row = slot.row.load(Ordering::Acquire);
            if row == 0 || slot.hash.load(Ordering::Relaxed) == hash {
                return (slot, row);
            }
            at = (at + 1) & (self.slots.len() - 1);
        }
    }
}

/// A shard's table, and the one that it has outgrown until all its keys have moved.
#[derive(Clone)]
struct Shard {
    table: Arc<Table>,
    outgrown: Option<Arc<Table>>,
}

impl Shard {
    fn newest(&self, hash: u64) -> Option<u64> {
        let (_, row) = self.table.find(hash);
        let row = match (row, &self.outgrown) {
            (0, Some(outgrown)) => outgrown.find(hash).1,
            (row, _) => row,
        };
        row.checked_sub(1)
    }
}

/// The index as readers see it. Rows that were added after it was taken may show as well, or may not.
#[derive(Clone)]
pub(crate) struct KeyIndex {
    shards: Arc<Vec<Shard>>,
}

impl KeyIndex {
    /// The number of the newest row with this hash, at least as new as when the index was taken.
    pub fn newest(&self, hash: u64) -> Option<u64> {
        self.shards[shard_of(hash)].newest(hash)
    }
}

fn shard_of(hash: u64) -> usize {
    (hash >> (64 - SHARDS.trailing_zeros())) as usize
}

/// The writer's side.
pub(crate) struct KeyIndexWriter {
    index: KeyIndex,
    fill: Vec<Fill>,
}

#[derive(Clone, Copy, Default)]
struct Fill {
    used: usize,
    /// How many slots of the outgrown table have moved.
    moved: usize,
}

impl KeyIndexWriter {
    pub fn new() -> KeyIndexWriter {
        let shard = || Shard { table: Arc::new(Table::new(SLOTS_MIN)), outgrown: None };
        let shards = Arc::new((0..SHARDS).map(|_| shard()).collect());
        KeyIndexWriter { index: KeyIndex { shards }, fill: vec![Fill::default(); SHARDS] }
    }

    /// The index for readers.
    pub fn index(&self) -> KeyIndex {
        self.index.clone()
    }

    /// The number of the newest row with this hash.
    pub fn newest(&self, hash: u64) -> Option<u64> {
        self.index.newest(hash)
    }

    /// Fetches the memory that this hash will need.
    pub fn prefetch(&self, hash: u64) {
        let table = &self.index.shards[shard_of(hash)].table;
        prefetch::read(&table.slots[table.first_slot(hash)]);
    }

    /// Makes a row the newest one of its hash. `link` gets the row that was, before any reader finds the new one. Rows
    /// before `first` are gone, and so may be their keys.
    pub fn set(&mut self, hash: u64, row: u64, first: u64, link: impl FnOnce(Option<u64>)) {
        let at = shard_of(hash);
        if self.index.shards[at].outgrown.is_some() {
            self.move_some(at, first);
        }
        let shard = &self.index.shards[at];
        let (slot, known) = shard.table.find(hash);
        let before = match (known, &shard.outgrown) {
            (0, Some(outgrown)) => outgrown.find(hash).1,
            (known, _) => known,
        };
        link(before.checked_sub(1).filter(|before| *before >= first));
        let fill = &mut self.fill[at];
        if known == 0 {
            slot.hash.store(hash, Ordering::Relaxed);
            fill.used += 1;
        }
        slot.row.store(row + 1, Ordering::Release);
        if fill.used * 4 > shard.table.slots.len() * 3 {
            self.grow(at, first);
        }
    }

    /// The bytes of all tables.
    pub fn bytes(&self) -> usize {
        let slots = |shard: &Shard| {
            shard.table.slots.len() + shard.outgrown.as_ref().map_or(0, |table| table.slots.len())
        };
        self.index.shards.iter().map(slots).sum::<usize>() * size_of::<Slot>()
    }

    /// Starts a new table: twice as large, or as large if most keys' rows are gone.
    fn grow(&mut self, at: usize, first: u64) {
        // With eight slots moved for each row, an outgrown table is empty before the new one is full.
        while self.index.shards[at].outgrown.is_some() {
            self.move_some(at, first);
        }
        let shards = Arc::make_mut(&mut self.index.shards);
        let table = &shards[at].table;
        let live = table.slots.iter().filter(|slot| slot.row.load(Ordering::Relaxed) > first).count();
        let size = (live * 2).next_power_of_two().max(SLOTS_MIN);
        let outgrown = std::mem::replace(&mut shards[at].table, Arc::new(Table::new(size)));
        shards[at].outgrown = Some(outgrown);
        self.fill[at] = Fill::default();
    }

    fn move_some(&mut self, at: usize, first: u64) {
        let shard = &self.index.shards[at];
        let Some(outgrown) = &shard.outgrown else { return };
        let fill = &mut self.fill[at];
        let end = (fill.moved + MOVED_PER_ROW).min(outgrown.slots.len());
        for slot in &outgrown.slots[fill.moved..end] {
            let (hash, row) = (slot.hash.load(Ordering::Relaxed), slot.row.load(Ordering::Relaxed));
            // A row of number n is stored as n + 1.
            if row <= first {
                continue;
            }
            let (free, known) = shard.table.find(hash);
            if known == 0 {
                free.hash.store(hash, Ordering::Relaxed);
                free.row.store(row, Ordering::Release);
                fill.used += 1;
            }
        }
        fill.moved = end;
        if end == outgrown.slots.len() {
            Arc::make_mut(&mut self.index.shards)[at].outgrown = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    #[test]
    fn keys_keep_their_newest_row_while_tables_grow_and_forget() {
        let mut writer = KeyIndexWriter::new();
        let mut oracle = HashMap::new();
        let mut hash = 7_u64;
        for row in 0..60_000_u64 {
            hash = hash.wrapping_mul(0x9E37_79B9_7F4A_7C15).wrapping_add(1);
            let key = (hash >> 20) % 9000;
            let key = key.wrapping_mul(0xD6E8_FEB8_6659_FD93);
            let first = row.saturating_sub(20_000);
            writer.set(key, row, first, |_| {});
            oracle.insert(key, row);
            if row % 1000 == 0 {
                let index = writer.index();
                let kept = oracle.iter().filter(|(_, newest)| **newest >= first);
                kept.for_each(|(key, newest)| assert_eq!(index.newest(*key), Some(*newest)));
            }
        }
        assert_eq!(writer.newest(1), None);
    }

    #[test]
    fn keys_that_are_gone_free_their_slots() {
        let mut writer = KeyIndexWriter::new();
        for row in 0..1_000_000_u64 {
            writer.set(row.wrapping_mul(0x9E37_79B9_7F4A_7C15), row, row.saturating_sub(1000), |_| {});
        }
        assert!(writer.bytes() < 200_000, "{} bytes for a thousand keys", writer.bytes());
    }
}
