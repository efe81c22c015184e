//! A version of a store: its rows after some cycle. It does not change.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::SchemaRef;
use tidemill_core::Cause;

use crate::chunk::{Chunk, too_large};
use crate::chunk_list::ChunkList;
use crate::config::{Contents, StoreConfig};
use crate::gather::found;
use crate::keys::KeyEquality;
use crate::selection::{SelectedRows, Selection, Work};
use crate::store_state::{Published, StoreState};

/// The rows of a store after some cycle. It does not change, and the rows stay as long as it exists.
#[derive(Clone)]
pub struct Version {
    pub(crate) shared: Arc<StoreState>,
    pub(crate) published: Arc<Published>,
    pub(crate) cycle: u64,
    pub(crate) first: u64,
    pub(crate) end: u64,
}

/// A row of a chunk.
#[derive(Clone, Copy)]
pub(crate) struct StoredRow<'a> {
    pub chunk: &'a Arc<Chunk>,
    pub row: usize,
}

impl StoredRow<'_> {
    /// For a row of a table, how many keys came before its key.
    pub fn ordinal(&self) -> Option<u64> {
        self.chunk.table.as_ref().map(|table| table.ordinals[self.row].load(Ordering::Relaxed))
    }
}

impl Version {
    /// The cycle after which these were the rows; `None` before the first.
    pub fn cycle(&self) -> Option<u64> {
        self.published.newest_cycle.map(|newest| newest.min(self.cycle))
    }

    /// What the store holds.
    pub fn config(&self) -> &StoreConfig {
        &self.shared.config
    }

    /// The columns.
    pub fn schema(&self) -> SchemaRef {
        self.shared.config.schema.clone()
    }

    /// How many rows had been stored by then, also those that were dropped.
    pub fn end(&self) -> u64 {
        self.end
    }

    /// How many rows were stored for it; those of a table that were replaced since count as well.
    pub fn stored_rows(&self) -> u64 {
        self.end - self.first
    }

    pub(crate) fn chunks(&self) -> &ChunkList {
        &self.published.chunks
    }

    /// The rows that meet these conditions, in order: as they came; for a table as their keys first came.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use tidemill_core::arrow::array::{Int64Array, RecordBatch};
    /// # use tidemill_store::{Selection, StoreConfig, StoreWriter};
    /// let column = |values: Vec<i64>| Arc::new(Int64Array::from(values)) as _;
    /// let rows = RecordBatch::try_from_iter([("vid", column(vec![7, 8, 7])), ("at", column(vec![1, 2, 3]))])?;
    /// let config = StoreConfig { key: Some(vec![0]), time: Some(1), ..StoreConfig::new(&rows.schema()) };
    /// let (mut writer, reader) = StoreWriter::new(config)?;
    /// writer.append(0, &[rows])?;
    /// let of_seven = Selection { key: Some(vec![column(vec![7])]), time: Some((2, 9)), ..Selection::default() };
    /// let found = reader.latest().select(&of_seven)?;
    /// assert_eq!((found.work.rows_found, found.batches[0].num_rows()), (1, 1));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// If the key does not have the types of the store's; [`Cause::resource`] if the rows are too many for one batch.
    pub fn select(&self, selection: &Selection) -> Result<SelectedRows, Cause> {
        let mut work = self.work();
        if let Some(key) = &selection.key
            && let Some(stored) = self.rows_of_key(key, selection, false, &mut work)?
        {
            work.by_key = true;
            let batches = self.gather(stored, selection)?;
            return Ok(found(batches, work));
        }
        match self.shared.config.contents {
            Contents::AllRows => self.scan_stream(selection, work),
            Contents::LastOfKey => {
                let mut stored = Vec::new();
                self.visit(selection, &mut work, |row| stored.push(row))?;
                let batches = self.gather(stored, selection)?;
                Ok(found(batches, work))
            }
        }
    }

    /// All rows as one batch.
    ///
    /// # Errors
    /// [`Cause::resource`] if they are too many for one batch.
    pub fn read(&self) -> Result<RecordBatch, Cause> {
        let rows = self.select(&Selection::default())?.batches;
        arrow_select::concat::concat_batches(&self.shared.config.schema, &rows)
            .map_err(|error| too_large(&error))
    }

    /// The newest row with this key that meets the conditions; its columns have one value each.
    ///
    /// # Errors
    /// As for [`select`](Version::select).
    pub fn newest(&self, key: &[ArrayRef], selection: &Selection) -> Result<SelectedRows, Cause> {
        let mut work = self.work();
        work.by_key = true;
        let newest = match self.rows_of_key(key, selection, true, &mut work)? {
            Some(stored) => stored.last().copied(),
            None => {
                work.by_key = false;
                let selection = Selection { key: Some(key.to_vec()), ..selection.clone() };
                let mut last = None;
                self.visit(&selection, &mut work, |row| last = Some(row))?;
                last
            }
        };
        let batches = self.gather(newest.into_iter().collect(), selection)?;
        Ok(found(batches, work))
    }

    pub(crate) fn work(&self) -> Work {
        let chunks = self.chunks().count(self.first, self.end);
        Work { chunks, rows: self.stored_rows(), ..Work::default() }
    }

    pub(crate) fn check_key(&self, key: &[ArrayRef], columns: &[ArrayRef]) -> Result<(), Cause> {
        let fits = key.len() == columns.len()
            && key
                .iter()
                .zip(columns)
                .all(|(value, column)| value.len() == 1 && value.data_type() == column.data_type());
        match fits {
            true => Ok(()),
            false => {
                Err(Cause::bug(format!("a store was asked for the key {key:?}, which has other columns")))
            }
        }
    }

    /// The rows of a key that meet the other conditions, or only the newest of them, in the order of their numbers.
    /// `None`: the index does not know all of them any more.
    fn rows_of_key(
        &self,
        key: &[ArrayRef],
        selection: &Selection,
        only_newest: bool,
        work: &mut Work,
    ) -> Result<Option<Vec<StoredRow<'_>>>, Cause> {
        let Some(hasher) = &self.shared.hasher else { return Err(no_key()) };
        let hash = hasher.hashes(key, 1)?[0];
        let Some(mut next) = self.number_of_newest(hash) else { return Ok(None) };
        let mut stored = Vec::new();
        let mut last_chunk: Option<(u64, KeyEquality)> = None;
        while let Some(number) = next.filter(|number| *number >= self.first) {
            let Some(chunk) = self.chunks().find(number) else { return Ok(None) };
            if let (Some((from, _)), Some(times)) = (selection.time, &chunk.times)
                && times.latest < from
            {
                break;
            }
            let row = (number - chunk.first) as usize;
            if last_chunk.as_ref().is_none_or(|(first, _)| *first != chunk.first) {
                let columns = hasher.key_of(&chunk.rows);
                self.check_key(key, &columns)?;
                last_chunk = Some((chunk.first, KeyEquality::new(hasher, &columns, key)?));
                work.chunks_read += 1;
            }
            work.rows_examined += 1;
            let is_wanted = chunk.is_shown(row, self.cycle)
                && chunk.is_in_time(row, selection.time)
                && chunk.is_in_area(row, selection.area.as_ref());
            if is_wanted && last_chunk.as_ref().is_some_and(|(_, equality)| equality.is_equal(row, 0)) {
                stored.push(StoredRow { chunk, row });
                if only_newest || self.shared.config.contents == Contents::LastOfKey {
                    break;
                }
            }
            next = chunk.before(number);
        }
        stored.reverse();
        Ok(Some(stored))
    }

    /// The number of the newest row of this version with this hash. `None`: the index does not know.
    fn number_of_newest(&self, hash: u64) -> Option<Option<u64>> {
        let mut next = self.published.index.as_ref()?.newest(hash);
        // The index may be ahead: rows are in it before they are published, and after this version was.
        while let Some(number) = next.filter(|number| *number >= self.end) {
            let staged = self.shared.staged.load();
            next = staged.find(number)?.before(number);
        }
        Some(next)
    }
}

pub(crate) fn no_key() -> Cause {
    Cause::bug("a store without a key was asked for a key")
}
