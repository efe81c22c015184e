//! Stores what a cycle changes in a relation: rows that come, and rows that are taken back.

use std::iter::repeat_n;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use arrow_array::{Array, ArrayRef, RecordBatch, UInt32Array};
use arrow_cast::display::array_value_to_string;
use arrow_schema::FieldRef;
use arrow_select::take::take_record_batch;
use tidemill_core::{Cause, prefetch};

use crate::changes::{ChangedRow, Changes, RowEquality, RowIndex, consolidated};
use crate::chunk::{bytes_of, too_large};
use crate::chunk_list::ChunkList;
use crate::marks::Mark;
use crate::stored_again::StoredAgain;
use crate::weights::without_weights;
use crate::writer::{AHEAD, CHUNK_ROWS, StoreWriter};

/// Rows as they are stored, with the hash of each.
#[derive(Default)]
struct NewRows {
    batches: Vec<RecordBatch>,
    hashes: Vec<u64>,
}

/// A row that is taken back.
#[derive(Clone, Copy)]
struct Taken {
    hash: u64,
    number: u64,
}

impl StoreWriter {
    /// Stores the changes of a cycle: first the rows that are taken back end, then others come.
    pub(crate) fn store_changes(&mut self, cycle: u64, batches: &[RecordBatch]) -> Result<(), Cause> {
        let shared = self.shared.clone();
        let Some(equality) = &shared.rows else { return Err(Cause::bug("a store has no changelog")) };
        let changes = consolidated(equality, batches)?;
        self.check_changes(batches, &changes)?;
        let taken = self.find_taken(equality, batches, &changes.taken)?;
        self.end_rows(cycle, &taken);
        self.pass_by();
        let again = self.rows_to_store_again();
        let mut new = NewRows::default();
        for stored in &again {
            let batch = stored.batch()?;
            new.hashes.extend(equality.hashes(&batch)?);
            new.batches.push(batch);
        }
        let came = self.next + new.hashes.len() as u64;
        self.add_rows(batches, &changes.added, &mut new)?;
        let added_from = self.chunks.open.len();
        for rows in &new.batches {
            self.add_pieces(rows)?;
        }
        self.order_rows(added_from, &again);
        again.iter().for_each(|stored| stored.end(cycle));
        self.index_rows(&again, &new.hashes);
        // The index of keys may lead readers to the new rows before they are published.
        self.shared.staged.store(Arc::new(self.chunks.clone()));
        let keys: Vec<u64> = self.hashes(&new.batches)?.into_iter().flatten().collect();
        self.link_changes(&keys);
        self.keys += self.next - came;
        let taken: Vec<u64> = taken.into_iter().map(|taken| taken.number).collect();
        let taken = (!taken.is_empty()).then(|| taken.into());
        self.add_version(Mark { cycle, came, taken, ..Mark::default() })
    }

    /// Checks that what comes may be held.
    fn check_changes(&self, batches: &[RecordBatch], changes: &Changes) -> Result<(), Cause> {
        let count = |rows: &[ChangedRow]| {
            rows.iter().fold(0_u64, |count, changed| count.saturating_add(changed.count))
        };
        let mut bytes = 0_u128;
        for of_batch in changes.added.chunk_by(|one, other| one.batch == other.batch) {
            let rows = &batches[of_batch[0].batch as usize];
            let of_all: usize = rows.columns().iter().map(bytes_of).sum();
            bytes += of_all as u128 * u128::from(count(of_batch)) / rows.num_rows() as u128;
        }
        let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
        let rows = self.keys.saturating_add(count(&changes.added)).saturating_sub(count(&changes.taken));
        // The index tells rows by the lower half of their numbers.
        if (self.next - self.cleaned).saturating_add(count(&changes.added)) > u64::from(u32::MAX) {
            return Err(Cause::resource(format!(
                "{rows} rows that change are more than one store can tell apart; divide it into fragments"
            )));
        }
        self.check_limits(bytes, rows)?;
        self.shared.memory.grow(bytes)
    }

    /// Finds the rows that are taken back: of copies those that came last.
    fn find_taken(
        &self,
        equality: &RowEquality,
        batches: &[RecordBatch],
        taken: &[ChangedRow],
    ) -> Result<Vec<Taken>, Cause> {
        let Some(index) = &self.rows else { return Ok(Vec::new()) };
        let mut found = Vec::with_capacity(taken.len());
        for (at, changed) in taken.iter().enumerate() {
            if let Some(ahead) = taken.get(at + AHEAD) {
                index.prefetch(ahead.hash);
            }
            // Whoever takes a row back has added it. So the only row with its hash is this one, and need not be compared.
            if let Some(number) = index.only(changed.hash).filter(|_| changed.count == 1) {
                self.fetch(number);
                found.push(Taken { hash: changed.hash, number });
                continue;
            }
            let (batch, row) = (&batches[changed.batch as usize], changed.row as usize);
            let mut left = changed.count;
            for number in index.all(changed.hash) {
                let Some(chunk) = self.chunks.find(number) else { continue };
                if equality.is_equal((&chunk.rows, (number - chunk.first) as usize), (batch, row))? {
                    found.push(Taken { hash: changed.hash, number });
                    left -= 1;
                }
                if left == 0 {
                    break;
                }
            }
            if left > 0 {
                return Err(self.missing(batch, row));
            }
        }
        Ok(found)
    }

    /// Fetches the memory that says what has ended a row.
    fn fetch(&self, number: u64) {
        let chunk = self.chunks.find(number);
        if let Some((chunk, table)) = chunk.and_then(|chunk| Some((chunk, chunk.table.as_ref()?))) {
            prefetch::read(&table.ended[(number - chunk.first) as usize]);
        }
    }

    fn missing(&self, batch: &RecordBatch, row: usize) -> Cause {
        let shown = self.shared.config.shown();
        let value = |(field, column): (&FieldRef, &ArrayRef)| {
            let value = array_value_to_string(column, row).unwrap_or_default();
            format!("{} = {}", field.name(), if column.is_null(row) { "NULL" } else { &value })
        };
        let values: Vec<String> = shown.iter().zip(batch.columns()).map(value).collect();
        Cause::bug(format!("a changelog takes back a row that is not there: {}", values.join(", ")))
    }

    fn end_rows(&mut self, cycle: u64, taken: &[Taken]) {
        let Some(index) = &mut self.rows else { return };
        for Taken { hash, number } in taken {
            index.remove(*hash, *number);
            let chunk = self.chunks.find(*number);
            if let Some((chunk, table)) = chunk.and_then(|chunk| Some((chunk, chunk.table.as_ref()?))) {
                table.ended[(number - chunk.first) as usize].store(cycle, Ordering::Relaxed);
            }
        }
        self.keys -= taken.len() as u64;
    }

    /// Adds the rows that come, as many copies as there are of each.
    fn add_rows(&self, batches: &[RecordBatch], added: &[ChangedRow], to: &mut NewRows) -> Result<(), Cause> {
        for of_batch in added.chunk_by(|one, other| one.batch == other.batch) {
            let rows = without_weights(&batches[of_batch[0].batch as usize], &self.shared.config.schema)?;
            if of_batch.len() == rows.num_rows() && of_batch.iter().all(|changed| changed.count == 1) {
                to.hashes.extend(of_batch.iter().map(|changed| changed.hash));
                to.batches.push(rows);
                continue;
            }
            let mut copies = of_batch.iter().flat_map(|changed| repeat_n(changed, changed.count as usize));
            loop {
                let block = copies.by_ref().take(CHUNK_ROWS);
                let (hashes, places): (Vec<u64>, Vec<u32>) =
                    block.map(|changed| (changed.hash, changed.row)).unzip();
                if places.is_empty() {
                    break;
                }
                to.hashes.extend(hashes);
                let taken = take_record_batch(&rows, &UInt32Array::from(places));
                to.batches.push(taken.map_err(|error| too_large(&error))?);
            }
        }
        Ok(())
    }

    /// Gives each new row its place in the order of the store. Those that were stored again come first, and keep theirs.
    fn order_rows(&mut self, added_from: usize, again: &[StoredAgain]) {
        let mut kept = again.iter().flat_map(StoredAgain::orders);
        for chunk in &self.chunks.open[added_from..] {
            let Some(table) = &chunk.table else { continue };
            for (row, ordinal) in table.ordinals.iter().enumerate() {
                let place = match (kept.next(), &chunk.numbers) {
                    (Some(kept), _) => kept,
                    (None, Some(numbers)) => numbers[row],
                    (None, None) => {
                        self.came += 1;
                        self.came - 1
                    }
                };
                ordinal.store(place, Ordering::Relaxed);
            }
        }
    }

    /// Leads from the hash of each new row to its number.
    fn index_rows(&mut self, again: &[StoredAgain], hashes: &[u64]) {
        let (Some(index), chunks) = (&mut self.rows, &self.chunks) else { return };
        let mut old = again.iter().flat_map(StoredAgain::numbers);
        for (number, (at, hash)) in (self.next - hashes.len() as u64..).zip(hashes.iter().enumerate()) {
            if let Some(ahead) = hashes.get(at + AHEAD) {
                index.prefetch(*ahead);
            }
            match old.next() {
                Some(old) => index.moved(*hash, (old, number), |row| chunks.order(row)),
                None => index.add(*hash, number),
            }
        }
    }

    /// Leads from the hashes of the rows that are shown to their numbers, after all were read from a snapshot.
    pub(crate) fn index_restored_rows(&mut self) -> Result<(), Cause> {
        let (Some(equality), chunks) = (&self.shared.rows, &self.chunks) else { return Ok(()) };
        let mut rows = RowIndex::new();
        for stored in chunks.iter().filter_map(StoredAgain::of) {
            let hashes = equality.hashes(&stored.batch()?)?;
            stored.numbers().zip(hashes).for_each(|(number, hash)| rows.add(hash, number));
        }
        rows.sort(|row| chunks.order(row));
        self.rows = Some(rows);
        Ok(())
    }
}

impl StoreWriter {
    /// Leads from each of these new rows, the last ones of the store, to the one before with the same key, and back.
    fn link_changes(&mut self, keys: &[u64]) {
        let (held, oldest) = (self.held_from(), self.oldest_cycle());
        let (Some(index), chunks) = (&mut self.index, &self.chunks) else { return };
        for (number, (at, key)) in (self.next - keys.len() as u64..).zip(keys.iter().enumerate()) {
            if let Some(ahead) = keys.get(at + AHEAD) {
                index.prefetch(*ahead);
            }
            let sooner = keys.get(at + AHEAD / 2).and_then(|sooner| index.newest(*sooner));
            sooner.inspect(|sooner| chunks.fetch_links(*sooner));
            index.set(*key, number, held, |before| chunks.link(number, before, oldest));
        }
    }

    /// Leads past the rows that only versions show which were gone before the newest was published: however often the rows of a key
    /// change, few of them are looked at to find those that a version shows.
    fn pass_by(&mut self) {
        let chunks = &self.chunks;
        let passed_by = std::mem::take(&mut self.passed_by).concat();
        for (at, number) in passed_by.iter().copied().enumerate() {
            passed_by.get(at + AHEAD).inspect(|ahead| chunks.fetch_links(**ahead));
            // What lies before a chunk that is gone is gone too.
            let Some(chunk) = chunks.find(number).filter(|chunk| !chunk.ahead.is_empty()) else { continue };
            // The last row of its key is passed by when another comes.
            let Some(after) = chunk.after(number) else { continue };
            let before = chunk.before(number);
            if let Some(chunk) = chunks.find(after) {
                chunk.set_before((after - chunk.first) as usize, before);
            }
            if let Some((before, chunk)) = before.and_then(|before| Some((before, chunks.find(before)?))) {
                chunk.set_after(before, after);
            }
        }
    }
}

impl ChunkList {
    /// Fetches the memory that says where a row of a changelog leads.
    fn fetch_links(&self, number: u64) {
        if let Some(chunk) = self.find(number).filter(|chunk| !chunk.ahead.is_empty()) {
            let row = (number - chunk.first) as usize;
            prefetch::read(&chunk.back[row]);
            prefetch::read(&chunk.ahead[row]);
        }
    }

    /// Leads from a row of a changelog to the one before with the same key, and back. Rows that ended by the cycle `oldest` are left
    /// out.
    pub(crate) fn link(&self, number: u64, before: Option<u64>, oldest: u64) {
        let mut before = before.and_then(|before| Some((before, self.find(before)?)));
        while let Some((earlier, chunk)) = before
            && !chunk.is_shown((earlier - chunk.first) as usize, oldest)
        {
            before = chunk.before(earlier).and_then(|before| Some((before, self.find(before)?)));
        }
        let Some(chunk) = self.find(number) else { return };
        chunk.set_before((number - chunk.first) as usize, before.map(|(before, _)| before));
        if let Some((before, chunk)) = before {
            chunk.set_after(before, number);
        }
    }

    /// The place of a row in the order of the store.
    fn order(&self, number: u64) -> u64 {
        self.find(number).map_or(0, |chunk| chunk.order((number - chunk.first) as usize))
    }
}
