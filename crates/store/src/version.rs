//! A version of a store: its rows after some cycle. It does not change.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use arrow_array::{ArrayRef, RecordBatch, UInt32Array};
use arrow_schema::SchemaRef;
use arrow_select::interleave::interleave;
use arrow_select::take::take;
use tidemill_core::Cause;

use crate::chunk::{Chunk, batch_of, too_large};
use crate::chunk_list::ChunkList;
use crate::config::{Contents, StoreConfig};
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

    /// The chunks that have rows of this version, each with the range of them.
    pub(crate) fn parts(&self) -> impl DoubleEndedIterator<Item = (&Arc<Chunk>, usize, usize)> {
        let chunks = self.chunks().iter();
        let chunks = chunks.filter(|chunk| chunk.first < self.end && chunk.end() > self.first);
        chunks.map(|chunk| {
            let start = self.first.saturating_sub(chunk.first) as usize;
            (chunk, start, (self.end.min(chunk.end()) - chunk.first) as usize)
        })
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
        Work { chunks: self.parts().count(), rows: self.stored_rows(), ..Work::default() }
    }

    /// Gives each row that meets the conditions, without the index of keys.
    pub(crate) fn visit<'a>(
        &'a self,
        selection: &Selection,
        work: &mut Work,
        mut visit: impl FnMut(StoredRow<'a>),
    ) -> Result<(), Cause> {
        for part in self.parts() {
            self.visit_part(part, selection, work, &mut visit)?;
        }
        Ok(())
    }

    /// Gives each row of a part that meets the conditions.
    pub(crate) fn visit_part<'a>(
        &self,
        (chunk, start, end): (&'a Arc<Chunk>, usize, usize),
        selection: &Selection,
        work: &mut Work,
        visit: &mut impl FnMut(StoredRow<'a>),
    ) -> Result<(), Cause> {
        let area = selection.area.as_ref();
        if !chunk.may_be_in_time(selection.time) || !chunk.may_be_in_area(area) {
            return Ok(());
        }
        let is_key = match &selection.key {
            None => None,
            Some(key) => Some(self.equality(chunk, key)?),
        };
        work.chunks_read += 1;
        let mut examine = |row: usize| {
            work.rows_examined += 1;
            let is_wanted = chunk.is_shown(row, self.cycle)
                && chunk.is_in_time(row, selection.time)
                && chunk.is_in_area(row, area)
                && is_key.as_ref().is_none_or(|is_key| is_key(row));
            if is_wanted {
                visit(StoredRow { chunk, row });
            }
        };
        let grid = chunk.points.as_ref().and_then(|points| points.grid.as_ref());
        match (area, grid) {
            (Some(area), Some(grid)) => {
                let mut rows = Vec::new();
                grid.visit(area, |row| rows.push(row));
                rows.retain(|row| (start..end).contains(row));
                rows.sort_unstable();
                rows.into_iter().for_each(&mut examine);
            }
            _ => (start..end).for_each(&mut examine),
        }
        Ok(())
    }

    /// Whether rows of a chunk have this key.
    fn equality(
        &self,
        chunk: &Arc<Chunk>,
        key: &[ArrayRef],
    ) -> Result<impl Fn(usize) -> bool + use<>, Cause> {
        let Some(hasher) = &self.shared.hasher else { return Err(no_key()) };
        let keys = hasher.key_of(&chunk.rows);
        self.check_key(key, &keys)?;
        let hashes = hasher.hashes(&keys, chunk.len())?;
        let wanted = hasher.hashes(key, 1)?[0];
        let equality = KeyEquality::new(hasher, &keys, key)?;
        Ok(move |row: usize| hashes[row] == wanted && equality.is_equal(row, 0))
    }

    fn check_key(&self, key: &[ArrayRef], columns: &[ArrayRef]) -> Result<(), Cause> {
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

    /// All rows that meet the conditions, chunk by chunk, without copying chunks of which all rows do.
    fn scan_stream(&self, selection: &Selection, mut work: Work) -> Result<SelectedRows, Cause> {
        let mut batches = Vec::new();
        for part in self.parts() {
            let (chunk, start, end) = part;
            if selection.key.is_none() && chunk.is_all_in(selection.time, selection.area.as_ref()) {
                work.chunks_read += 1;
                batches.push(projected(&chunk.rows.slice(start, end - start), selection)?);
                continue;
            }
            let mut rows = Vec::new();
            self.visit_part(part, selection, &mut work, &mut |stored| rows.push(stored.row as u32))?;
            batches.extend(taken(chunk, rows, selection)?);
        }
        Ok(found(batches, work))
    }

    /// These rows as a batch, if there are any: those of a table in the order of their keys.
    pub(crate) fn gather(
        &self,
        mut stored: Vec<StoredRow<'_>>,
        selection: &Selection,
    ) -> Result<Vec<RecordBatch>, Cause> {
        if self.shared.config.contents == Contents::LastOfKey {
            stored.sort_by_cached_key(StoredRow::ordinal);
        }
        self.gather_in_order(&stored, selection)
    }

    pub(crate) fn gather_in_order(
        &self,
        stored: &[StoredRow<'_>],
        selection: &Selection,
    ) -> Result<Vec<RecordBatch>, Cause> {
        if stored.is_empty() {
            return Ok(Vec::new());
        }
        let used: BTreeSet<u64> = stored.iter().map(|row| row.chunk.first).collect();
        let firsts: Vec<u64> = used.into_iter().collect();
        let mut chunks: Vec<Option<&Arc<Chunk>>> = vec![None; firsts.len()];
        let mut indices = Vec::with_capacity(stored.len());
        for row in stored {
            let index = firsts.partition_point(|first| *first < row.chunk.first);
            chunks[index] = Some(row.chunk);
            indices.push((index, row.row));
        }
        let chunks: Vec<&Arc<Chunk>> = chunks.into_iter().flatten().collect();
        let schema = schema_of(&self.shared.config.schema, selection)?;
        let all: Vec<usize> = (0..self.shared.config.schema.fields().len()).collect();
        let wanted = selection.columns.as_ref().unwrap_or(&all);
        let column = |index: &usize| {
            let columns: Vec<_> = chunks.iter().map(|chunk| chunk.rows.column(*index).as_ref()).collect();
            interleave(&columns, &indices).map_err(|error| too_large(&error))
        };
        let columns = wanted.iter().map(column).collect::<Result<Vec<_>, Cause>>()?;
        Ok(vec![batch_of(&schema, columns, stored.len())?])
    }
}

fn found(batches: Vec<RecordBatch>, mut work: Work) -> SelectedRows {
    work.rows_found = batches.iter().map(|rows| rows.num_rows() as u64).sum();
    SelectedRows { batches, work }
}

pub(crate) fn schema_of(schema: &SchemaRef, selection: &Selection) -> Result<SchemaRef, Cause> {
    let Some(columns) = &selection.columns else { return Ok(schema.clone()) };
    let projected = schema.project(columns);
    projected.map(Arc::new).map_err(|error| Cause::bug(error.to_string()).with_source(error))
}

fn projected(rows: &RecordBatch, selection: &Selection) -> Result<RecordBatch, Cause> {
    let Some(columns) = &selection.columns else { return Ok(rows.clone()) };
    rows.project(columns).map_err(|error| Cause::bug(error.to_string()).with_source(error))
}

/// These rows of a chunk, if there are any.
fn taken(chunk: &Chunk, rows: Vec<u32>, selection: &Selection) -> Result<Option<RecordBatch>, Cause> {
    if rows.is_empty() {
        return Ok(None);
    }
    let of_chunk = projected(&chunk.rows, selection)?;
    let count = rows.len();
    let rows = UInt32Array::from(rows);
    let take = |column: &ArrayRef| take(column, &rows, None).map_err(|error| too_large(&error));
    let columns = of_chunk.columns().iter().map(take).collect::<Result<Vec<_>, Cause>>()?;
    batch_of(&of_chunk.schema(), columns, count).map(Some)
}

fn no_key() -> Cause {
    Cause::bug("a store without a key was asked for a key")
}
