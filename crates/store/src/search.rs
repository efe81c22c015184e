//! Finds the rows of a version that meet conditions.

use arrow_array::{ArrayRef, RecordBatch};
use tidemill_core::Cause;

use crate::chunk::too_large;
use crate::config::Contents;
use crate::fragment_version::FragmentVersion;
use crate::gather::found;
use crate::keys::KeyEquality;
use crate::scan::no_key;
use crate::selection::{SelectedRows, Selection, Work};
use crate::version::{Pause, StoredRow, Version};

impl Version {
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
        self.select_with_pauses(selection, &mut |_| Ok(()))
    }

    /// As [`select`](Version::select). It calls `pause` after each chunk that it has looked into, which may wait, so that
    /// others compute meanwhile, or end the search with an error, if it holds too much for example.
    ///
    /// ```
    /// # use tidemill_core::{Cause, arrow::array::{Int64Array, RecordBatch}};
    /// # use tidemill_store::{Selection, StoreConfig, StoreWriter};
    /// let rows = RecordBatch::try_from_iter([("vid", std::sync::Arc::new(Int64Array::from(vec![7])) as _)])?;
    /// let (mut writer, reader) = StoreWriter::new(StoreConfig::new(&rows.schema()))?;
    /// writer.append(0, &[rows])?;
    /// let cancelled = &mut |_| Err(Cause::operation("it was cancelled"));
    /// assert!(reader.latest().select_with_pauses(&Selection::default(), cancelled).is_err());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As for [`select`](Version::select), and those of `pause`.
    pub fn select_with_pauses(
        &self,
        selection: &Selection,
        pause: &mut Pause<'_>,
    ) -> Result<SelectedRows, Cause> {
        let asked = self.asked(selection);
        let mut work = self.work(asked);
        let contents = self.config().contents;
        if let [only] = asked
            && contents == Contents::AllRows
        {
            let Some(stored) = only.indexed_rows(selection, &mut work, pause)? else {
                return self.scan_stream(only, selection, work, pause);
            };
            pause(self.bytes_of(&stored, selection))?;
            let batches = self.gather_in_order(&stored, selection)?;
            return Ok(found(batches, work));
        }
        let mut stored = Vec::new();
        for fragment in asked {
            stored.extend(fragment.rows(selection, &mut work, pause)?);
        }
        let batches = match contents {
            Contents::AllRows | Contents::Changes => self.gather_in_batches(stored, selection, pause)?,
            Contents::LastOfKey => {
                pause(self.bytes_of(&stored, selection))?;
                Vec::from_iter(self.gather(stored, selection)?)
            }
        };
        Ok(found(batches, work))
    }

    /// All rows as one batch.
    ///
    /// # Errors
    /// [`Cause::resource`] if they are too many for one batch.
    pub fn read(&self) -> Result<RecordBatch, Cause> {
        let rows = self.select(&Selection::default())?.batches;
        arrow_select::concat::concat_batches(&self.config().schema, &rows).map_err(|error| too_large(&error))
    }

    /// The newest row with this key that meets the conditions; its columns have one value each.
    ///
    /// # Errors
    /// As for [`select`](Version::select).
    pub fn newest(&self, key: &[ArrayRef], selection: &Selection) -> Result<SelectedRows, Cause> {
        let selection = Selection { key: Some(key.to_vec()), ..selection.clone() };
        let asked = self.asked(&selection);
        let mut work = Work { by_key: true, ..self.work(asked) };
        let mut newest: Option<StoredRow<'_>> = None;
        for fragment in asked {
            let found = fragment.newest_of_key(key, &selection, &mut work)?;
            newest = newest.into_iter().chain(found).max_by_key(StoredRow::order);
        }
        let batches = self.gather(newest.into_iter().collect(), &selection)?;
        Ok(found(batches, work))
    }
}

impl FragmentVersion {
    /// The rows that meet these conditions, in the order of their numbers.
    fn rows(
        &self,
        selection: &Selection,
        work: &mut Work,
        pause: &mut Pause<'_>,
    ) -> Result<Vec<StoredRow<'_>>, Cause> {
        if let Some(stored) = self.indexed_rows(selection, work, pause)? {
            return Ok(stored);
        }
        let mut stored = Vec::new();
        self.visit(selection, work, pause, |row| stored.push(row))?;
        Ok(stored)
    }

    /// The rows that meet these conditions, if they have a key and the index knows all of its rows.
    fn indexed_rows(
        &self,
        selection: &Selection,
        work: &mut Work,
        pause: &mut Pause<'_>,
    ) -> Result<Option<Vec<StoredRow<'_>>>, Cause> {
        let Some(key) = &selection.key else { return Ok(None) };
        let stored = self.rows_of_key(key, selection, false, work, pause)?;
        work.by_key |= stored.is_some();
        Ok(stored)
    }

    /// The newest row with this key that meets the conditions, of which the key is one.
    fn newest_of_key(
        &self,
        key: &[ArrayRef],
        selection: &Selection,
        work: &mut Work,
    ) -> Result<Option<StoredRow<'_>>, Cause> {
        let pause: &mut Pause<'_> = &mut |_| Ok(());
        if let Some(stored) = self.rows_of_key(key, selection, true, work, pause)? {
            return Ok(stored.into_iter().max_by_key(StoredRow::order));
        }
        work.by_key = false;
        let mut newest: Option<StoredRow<'_>> = None;
        self.visit(selection, work, pause, |row| {
            newest = newest.into_iter().chain([row]).max_by_key(StoredRow::order);
        })?;
        Ok(newest)
    }

    /// The rows of a key that meet the other conditions, or at least the newest of them, in the order of their numbers.
    /// `None`: the index does not know all of them any more.
    fn rows_of_key(
        &self,
        key: &[ArrayRef],
        selection: &Selection,
        only_newest: bool,
        work: &mut Work,
        pause: &mut Pause<'_>,
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
                pause(stored.len() * size_of::<StoredRow<'_>>())?;
            }
            work.rows_examined += 1;
            let is_wanted = self.shows(chunk, row)
                && chunk.is_in_time(row, selection.time)
                && chunk.is_in_area(row, selection.area.as_ref());
            if is_wanted && last_chunk.as_ref().is_some_and(|(_, equality)| equality.is_equal(row, 0)) {
                stored.push(StoredRow { chunk, row });
                let is_last = match self.shared.config.contents {
                    Contents::AllRows => only_newest,
                    Contents::LastOfKey => true,
                    // A row that came earlier may have been stored again.
                    Contents::Changes => false,
                };
                if is_last {
                    break;
                }
            }
            next = chunk.before(number);
        }
        // The writer passes rows by that only versions which are gone show.
        if self.shared.config.contents == Contents::Changes && self.is_gone() {
            return Ok(None);
        }
        stored.reverse();
        Ok(Some(stored))
    }

    /// The number of the newest row of this version with this hash. `None`: the index does not know.
    fn number_of_newest(&self, hash: u64) -> Option<Option<u64>> {
        let mut next = self.published.index.as_ref()?.newest(hash);
        let mut is_ahead = false;
        // The index may be ahead: rows are in it before they are published, and after this version was.
        while let Some(number) = next.filter(|number| *number >= self.end) {
            let staged = self.shared.staged.load();
            next = staged.find(number)?.before(number);
            is_ahead = true;
        }
        // When that row came, nothing led to the rows of a version any more that was gone by then.
        if is_ahead && next.is_none() && self.is_gone() {
            return None;
        }
        Some(next)
    }

    /// Whether the writer no longer keeps all rows of this version.
    fn is_gone(&self) -> bool {
        let current = self.shared.current.load();
        let is_before_first = self.published.newest_cycle.is_none() && current.newest_cycle.is_some();
        current.marks.oldest().map_or(current.first, |mark| mark.first) > self.first
            || self.shared.config.contents == Contents::Changes
                && (is_before_first || current.marks.oldest().is_some_and(|mark| mark.cycle > self.cycle))
    }
}
