//! One side of a join: its rows by key, with their weights and numbers of partners.

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use tidemill_core::error::Cause;
use tidemill_core::{FaultLog, SnapshotReader, SnapshotWriter};

use crate::changes::input::{Changes, Input, add, report_missing};
use crate::changes::{changelog_schema, weighted_batch};
use crate::encoded_rows::{Interned, RowBytes, RowCodec, RowTable};
use crate::keys::{KeyTable, NO_KEY};
use crate::state::damaged;
use crate::stored_rows::{read_rows, write_rows};

/// No row, or not touched.
const NONE: u32 = u32::MAX;

/// A row.
#[derive(Clone, Copy, Debug)]
struct Entry {
    /// The next and the previous row with the same key.
    next: u32,
    previous: u32,
    key: u32,
    /// Its number among the rows that this cycle touched.
    touched: u32,
    weight: i64,
}

/// The number of rows of a key, by weight: now, and at the end of the last cycle.
#[derive(Clone, Copy, Debug, Default)]
struct KeyCount {
    now: i64,
    before: i64,
    is_touched: bool,
}

/// How many rows of the other side match a row, by weight: now, and at the end of the last cycle.
#[derive(Clone, Copy, Debug, Default)]
struct Partners {
    now: i64,
    before: i64,
    is_touched: bool,
}

/// A row that the cycle touched.
#[derive(Clone, Copy, Debug)]
pub(super) struct Touched {
    /// Its number.
    pub row: u32,
    /// Its weight at the end of the last cycle.
    pub before: i64,
}

/// What is counted beside the rows of a side.
#[derive(Clone, Copy, Debug)]
pub(super) struct Counted {
    /// The rows of each key: the other side's rows depend on whether there are any.
    pub keys: bool,
    /// The partners of each row: rows of one key have different ones, and it matters whether there are any.
    pub partners: bool,
}

/// The rows of one side.
#[derive(Debug)]
pub(super) struct Side {
    schema: SchemaRef,
    columns: Vec<usize>,
    /// The codec of its rows.
    pub codec: RowCodec,
    /// Its rows.
    pub rows: RowTable,
    /// What comes in the current cycle.
    pub input: Input,
    /// Whether its rows may go.
    changes: bool,
    entries: Vec<Entry>,
    /// The first row of each key.
    first: Vec<u32>,
    /// The number of rows of each key; `None` if nobody asks. Beside the first rows, which are looked up for every row of the
    /// other side, they would take the room of those in the processor's cache.
    counts: Option<Vec<KeyCount>>,
    /// The number of keys that have rows.
    keys_used: usize,
    /// The partners of each row; `None` if nobody asks, or all rows of a key have the same.
    partners: Option<Vec<Partners>>,
    touched: Vec<Touched>,
    touched_keys: Vec<u32>,
    touched_partners: Vec<u32>,
}

impl Side {
    /// Makes a side without rows.
    pub fn new(
        schema: &SchemaRef,
        columns: &[usize],
        changes: bool,
        counted: Counted,
    ) -> Result<Side, Cause> {
        Ok(Side {
            schema: SchemaRef::clone(schema),
            columns: columns.to_vec(),
            codec: RowCodec::new(schema)?,
            // Only rows that may go again are looked for.
            rows: if changes { RowTable::indexed() } else { RowTable::unindexed() },
            input: Input::new(schema, changes),
            changes,
            entries: Vec::new(),
            first: Vec::new(),
            counts: counted.keys.then(Vec::new),
            keys_used: 0,
            partners: counted.partners.then(Vec::new),
            touched: Vec::new(),
            touched_keys: Vec::new(),
            touched_partners: Vec::new(),
        })
    }

    /// Bytes of memory held.
    pub fn memory(&self) -> usize {
        let partners = self.partners.as_ref().map_or(0, |partners| partners.capacity());
        self.rows.memory()
            + size_of::<Entry>() * self.entries.capacity()
            + size_of::<u32>() * self.first.capacity()
            + size_of::<KeyCount>() * self.counts.as_ref().map_or(0, Vec::capacity)
            + size_of::<Partners>() * partners
    }

    /// Adds the changes of the cycle to the rows.
    pub fn apply(
        &mut self,
        changes: &Changes,
        keys: &mut KeyTable,
        cycle: u64,
        faults: &FaultLog,
    ) -> Result<(), Cause> {
        let numbers = keys.intern(&changes.rows, &self.columns)?;
        let encoded = self.codec.encode(changes.rows.columns())?;
        self.first.resize(keys.len(), NONE);
        if let Some(counts) = &mut self.counts {
            counts.resize(keys.len(), KeyCount::default());
        }
        let interned = self.rows.intern_all(&encoded, changes.rows.num_rows());
        for (row, (interned, key)) in interned.into_iter().zip(numbers).enumerate() {
            self.change(interned, encoded.row(row), key, changes.weight(row))?;
        }
        for touched in 0..self.touched.len() {
            self.settle(touched, cycle, faults)?;
        }
        Ok(())
    }

    fn change(&mut self, row: Interned, bytes: RowBytes<'_>, key: u32, weight: i64) -> Result<(), Cause> {
        let Interned { number, is_new } = row;
        if is_new {
            self.link(number, key);
        }
        let entry = &mut self.entries[number as usize];
        if entry.touched == NONE {
            entry.touched = self.touched.len() as u32;
            self.touched.push(Touched { row: number, before: entry.weight });
        } else if self.touched[entry.touched as usize].before == 0 {
            self.rows.respell(number, bytes);
        }
        entry.weight = add(entry.weight, weight)?;
        Ok(())
    }

    /// Corrects a sum below zero, and adds the change of a row to the count of its key.
    fn settle(&mut self, touched: usize, cycle: u64, faults: &FaultLog) -> Result<(), Cause> {
        let Touched { row, before } = self.touched[touched];
        let entry = &mut self.entries[row as usize];
        if entry.weight < 0 {
            entry.weight = 0;
            report_missing(faults, &self.codec, &self.schema, self.rows.row(row), cycle);
        }
        if let Some(counts) = &mut self.counts
            && entry.key != NO_KEY
            && entry.weight != before
        {
            let count = &mut counts[entry.key as usize];
            if !std::mem::replace(&mut count.is_touched, true) {
                self.touched_keys.push(entry.key);
            }
            count.now = add(count.now, entry.weight - before)?;
        }
        Ok(())
    }

    /// Puts a new row first in the chain of its key.
    fn link(&mut self, row: u32, key: u32) {
        let mut entry = Entry { next: NONE, previous: NONE, key, touched: NONE, weight: 0 };
        if key != NO_KEY {
            entry.next = std::mem::replace(&mut self.first[key as usize], row);
            if entry.next == NONE {
                self.keys_used += 1;
            } else if self.changes {
                // Only rows that go need the one before them.
                self.entries[entry.next as usize].previous = row;
            }
        }
        if self.entries.len() == row as usize {
            self.entries.push(entry);
        } else {
            self.entries[row as usize] = entry;
        }
        if let Some(partners) = &mut self.partners {
            partners.resize(self.entries.len(), Partners::default());
            partners[row as usize] = Partners::default();
        }
    }

    fn unlink(&mut self, row: u32) {
        let Entry { next, previous, key, .. } = self.entries[row as usize];
        if next != NONE {
            self.entries[next as usize].previous = previous;
        }
        if previous != NONE {
            self.entries[previous as usize].next = next;
        } else if key != NO_KEY {
            self.first[key as usize] = next;
            self.keys_used -= usize::from(next == NONE);
        }
    }

    /// The rows that the cycle has touched.
    pub fn touched(&self) -> &[Touched] {
        &self.touched
    }

    /// The rows whose number of partners the cycle has touched.
    pub fn touched_partners(&self) -> &[u32] {
        &self.touched_partners
    }

    /// The keys for which rows came or went, with the number of rows before and now.
    pub fn touched_keys(&self) -> impl Iterator<Item = (u32, i64, i64)> + '_ {
        self.touched_keys.iter().map(|key| {
            let (before, now) = self.counts(*key);
            (*key, before, now)
        })
    }

    /// Whether the cycle has touched a row.
    pub fn is_touched(&self, row: u32) -> bool {
        self.entries[row as usize].touched != NONE
    }

    /// The number of times that a row is there now.
    pub fn weight(&self, row: u32) -> i64 {
        self.entries[row as usize].weight
    }

    /// The key of a row.
    pub fn key(&self, row: u32) -> u32 {
        self.entries[row as usize].key
    }

    /// The number of rows of a key, by weight: before the cycle, and now.
    pub fn counts(&self, key: u32) -> (i64, i64) {
        let count = self.counts.as_ref().and_then(|counts| counts.get(key as usize));
        count.map_or((0, 0), |count| (count.before, count.now))
    }

    /// Returns the first row of a key, as [`entry`](Side::entry) does.
    #[inline]
    pub fn first(&self, key: u32) -> Option<(u32, i64, u32)> {
        self.entry(self.first.get(key as usize).copied().unwrap_or(NONE))
    }

    /// Returns a row with its weight, which is 0 if it goes in this cycle, and the next row of its key.
    #[inline]
    pub fn entry(&self, row: u32) -> Option<(u32, i64, u32)> {
        let entry = self.entries.get(row as usize)?;
        Some((row, entry.weight, entry.next))
    }

    /// Returns the rows of a key that are there now, with their weights.
    pub fn chain(&self, key: u32) -> impl Iterator<Item = (u32, i64)> + '_ {
        std::iter::successors(self.first(key), |(_, _, next)| self.entry(*next))
            .filter(|(_, weight, _)| *weight != 0)
            .map(|(row, weight, _)| (row, weight))
    }

    /// Whether the partners of each row are counted.
    pub fn counts_partners(&self) -> bool {
        self.partners.is_some()
    }

    /// Adds to the number of partners of a row.
    pub fn add_partners(&mut self, row: u32, more: i64) -> Result<(), Cause> {
        let Some(partners) = self.partners.as_mut().map(|all| &mut all[row as usize]) else { return Ok(()) };
        if !std::mem::replace(&mut partners.is_touched, true) {
            partners.before = partners.now;
            self.touched_partners.push(row);
        }
        partners.now = add(partners.now, more)?;
        Ok(())
    }

    /// The number of partners of a row before the cycle and now; `None` if they are not counted for each row.
    pub fn partners(&self, row: u32) -> Option<(i64, i64)> {
        let partners = self.partners.as_ref()?.get(row as usize)?;
        Some((if partners.is_touched { partners.before } else { partners.now }, partners.now))
    }

    /// Ends the cycle: removes the rows that are gone.
    pub fn finish(&mut self) {
        for row in std::mem::take(&mut self.touched_partners) {
            if let Some(partners) = &mut self.partners {
                partners[row as usize].is_touched = false;
            }
        }
        for key in std::mem::take(&mut self.touched_keys) {
            if let Some(counts) = &mut self.counts {
                let count = &mut counts[key as usize];
                (count.before, count.is_touched) = (count.now, false);
            }
        }
        let mut gone = Vec::new();
        for Touched { row, .. } in std::mem::take(&mut self.touched) {
            self.entries[row as usize].touched = NONE;
            if self.entries[row as usize].weight == 0 {
                self.unlink(row);
                gone.push(row);
            }
        }
        self.rows.remove_all(&gone);
    }

    /// The number of keys that have rows.
    pub fn keys_used(&self) -> usize {
        self.keys_used
    }

    /// Marks the keys that have rows.
    pub fn mark_keys(&self, is_used: &mut [bool]) {
        for (first, is_used) in self.first.iter().zip(is_used) {
            *is_used |= *first != NONE;
        }
    }

    /// Gives the keys other numbers; those without rows have none.
    pub fn renumber_keys(&mut self, numbers: &[u32], count: usize) {
        let kept = || numbers.iter().enumerate().filter(|(_, number)| **number != NO_KEY);
        let first = std::mem::replace(&mut self.first, vec![NONE; count]);
        for (old, number) in kept() {
            self.first[*number as usize] = first.get(old).copied().unwrap_or(NONE);
        }
        if let Some(counts) = &mut self.counts {
            let old_counts = std::mem::replace(counts, vec![KeyCount::default(); count]);
            for (old, number) in kept() {
                counts[*number as usize] = old_counts.get(old).copied().unwrap_or_default();
            }
        }
        for row in self.rows.all() {
            let key = &mut self.entries[row as usize].key;
            if *key != NO_KEY {
                *key = numbers[*key as usize];
            }
        }
    }

    /// Returns all rows with their weights.
    pub fn contents(&self) -> Result<RecordBatch, Cause> {
        let all: Vec<u32> = self.rows.all().collect();
        let weight = |row| self.weight(row);
        weighted_batch(&self.schema, &self.codec, &self.rows, &all, weight)
    }

    /// Writes all rows.
    pub fn snapshot(&self, writer: &mut SnapshotWriter) {
        write_rows(writer, self.contents().ok());
        for row in self.partners.iter().flat_map(|_| self.rows.all()) {
            writer.i64(self.partners(row).map_or(0, |(_, now)| now));
        }
    }

    /// Reads what [`snapshot`](Side::snapshot) wrote.
    pub fn restore(&mut self, reader: &mut SnapshotReader<'_>, keys: &mut KeyTable) -> Result<(), Cause> {
        let rows = read_rows(reader, &changelog_schema(&self.schema))?;
        let changes = Changes::weighted(&self.schema, rows)?;
        let faults = FaultLog::default();
        self.apply(&changes, keys, 0, &faults)?;
        if self.rows.len() != changes.rows.num_rows() || faults.read().count > 0 {
            return Err(damaged("a row of a join occurs twice, or a negative number of times"));
        }
        if self.partners.is_some() {
            // The rows have the numbers 0, 1, 2 and so on, in the order of the snapshot.
            for row in 0..changes.rows.num_rows() as u32 {
                let more = reader.i64()?;
                self.add_partners(row, more)?;
            }
        }
        self.finish();
        Ok(())
    }
}
