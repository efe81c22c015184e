//! Copies rows that were found into batches.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, UInt32Array};
use arrow_schema::SchemaRef;
use arrow_select::interleave::interleave;
use arrow_select::take::take;
use tidemill_core::Cause;

use crate::chunk::{Chunk, batch_of, too_large};
use crate::fragment_version::FragmentVersion;
use crate::scan::Part;
use crate::selection::{SelectedRows, Selection, Work};
use crate::version::{Pause, StoredRow, Version};

/// Rows of several chunks become one batch up to this many rows, or bytes of their chunks.
const BATCH_ROWS: usize = 1 << 13;
const BATCH_BYTES: usize = 64 << 20;

impl Version {
    /// All rows that meet the conditions, chunk by chunk, without copying chunks of which all rows do.
    pub(crate) fn scan_stream(
        &self,
        fragment: &FragmentVersion,
        selection: &Selection,
        mut work: Work,
        pause: &mut Pause<'_>,
    ) -> Result<SelectedRows, Cause> {
        let mut batches = Vec::new();
        let (mut stored, mut bytes, mut copied) = (Vec::new(), 0, 0);
        for part in fragment.parts(selection) {
            let Part { chunk, start, end } = part;
            let area = selection.area.as_ref();
            let is_whole = selection.key.is_none() && chunk.is_all_in(selection.time, area);
            if !is_whole {
                let before = stored.len();
                fragment.visit_part(part, selection, area, &mut work, &mut |row| stored.push(row))?;
                bytes += (stored.len() - before) * (chunk.bytes() / chunk.len());
            }
            if is_whole || stored.len() >= BATCH_ROWS || bytes >= BATCH_BYTES {
                copied += self.bytes_of(&stored, selection);
                batches.extend(self.gather_in_order(&stored, selection)?);
                stored.clear();
                bytes = 0;
            }
            if is_whole {
                work.chunks_read += 1;
                batches.push(self.projected(&chunk.rows.slice(start, end - start), selection)?);
            }
            pause(copied + bytes)?;
        }
        batches.extend(self.gather_in_order(&stored, selection)?);
        Ok(found(batches, work))
    }

    /// About how many bytes a copy of these rows has.
    pub(crate) fn bytes_of(&self, stored: &[StoredRow<'_>], selection: &Selection) -> usize {
        let all = self.config().schema.fields().len().max(1);
        let wanted = selection.columns.as_ref().map_or(all, Vec::len);
        let of_row = |row: &StoredRow<'_>| row.chunk.bytes() / row.chunk.len() * wanted / all;
        stored.iter().map(|row| of_row(row) + size_of::<StoredRow<'_>>()).sum()
    }

    /// These rows in the order of the store, in batches that are not too large.
    pub(crate) fn gather_in_batches(
        &self,
        mut stored: Vec<StoredRow<'_>>,
        selection: &Selection,
        pause: &mut Pause<'_>,
    ) -> Result<Vec<RecordBatch>, Cause> {
        pause(self.bytes_of(&stored, selection))?;
        // Those of each fragment are in order already, which this sort makes use of.
        stored.sort_by_key(StoredRow::order);
        let (mut batches, mut from, mut bytes) = (Vec::new(), 0, 0);
        for (at, row) in stored.iter().enumerate() {
            bytes += row.chunk.bytes() / row.chunk.len();
            if at + 1 - from >= BATCH_ROWS || bytes >= BATCH_BYTES || at + 1 == stored.len() {
                batches.extend(self.gather_in_order(&stored[from..=at], selection)?);
                (from, bytes) = (at + 1, 0);
            }
        }
        Ok(batches)
    }

    /// These rows as a batch, if there are any, in the order of the store.
    pub(crate) fn gather(
        &self,
        mut stored: Vec<StoredRow<'_>>,
        selection: &Selection,
    ) -> Result<Option<RecordBatch>, Cause> {
        stored.sort_by_cached_key(StoredRow::order);
        self.gather_in_order(&stored, selection)
    }

    pub(crate) fn gather_in_order(
        &self,
        stored: &[StoredRow<'_>],
        selection: &Selection,
    ) -> Result<Option<RecordBatch>, Cause> {
        let Some(first) = stored.first() else { return Ok(None) };
        let mut chunks: Vec<&Arc<Chunk>> = vec![first.chunk];
        // Chunks of different fragments may begin with the same number.
        let address = |chunk: &Arc<Chunk>| Arc::as_ptr(chunk) as usize;
        let mut places = HashMap::from([(address(first.chunk), 0)]);
        let mut last = (address(first.chunk), 0);
        let mut indices = Vec::with_capacity(stored.len());
        for row in stored {
            if address(row.chunk) != last.0 {
                let place = *places.entry(address(row.chunk)).or_insert(chunks.len());
                if place == chunks.len() {
                    chunks.push(row.chunk);
                }
                last = (address(row.chunk), place);
            }
            indices.push((last.1, row.row));
        }
        let schema = schema_of(&self.config().schema, selection)?;
        let columns = match chunks.as_slice() {
            [only] => self.taken(only, stored, selection)?,
            _ => {
                let all: Vec<usize> = (0..self.config().schema.fields().len()).collect();
                let column = |index: &usize| {
                    let columns: Vec<_> =
                        chunks.iter().map(|chunk| chunk.rows.column(*index).as_ref()).collect();
                    interleave(&columns, &indices).map_err(|error| too_large(&error))
                };
                let wanted = selection.columns.as_ref().unwrap_or(&all);
                wanted.iter().map(column).collect::<Result<Vec<_>, Cause>>()?
            }
        };
        batch_of(&schema, columns, stored.len()).map(Some)
    }
}

pub(crate) fn found(batches: impl IntoIterator<Item = RecordBatch>, mut work: Work) -> SelectedRows {
    let batches: Vec<RecordBatch> = batches.into_iter().collect();
    work.rows_found = batches.iter().map(|rows| rows.num_rows() as u64).sum();
    SelectedRows { batches, work }
}

fn schema_of(schema: &SchemaRef, selection: &Selection) -> Result<SchemaRef, Cause> {
    let Some(columns) = &selection.columns else { return Ok(schema.clone()) };
    let projected = schema.project(columns);
    projected.map(Arc::new).map_err(|error| Cause::bug(error.to_string()).with_source(error))
}

impl Version {
    /// Rows of a chunk with the columns that are wanted.
    fn projected(&self, rows: &RecordBatch, selection: &Selection) -> Result<RecordBatch, Cause> {
        let shown = self.config().schema.fields().len();
        let projected = match &selection.columns {
            Some(columns) => rows.project(columns),
            None if rows.num_columns() == shown => return Ok(rows.clone()),
            // A fragment has the numbers of its rows behind the columns that are shown.
            None => rows.project(&(0..shown).collect::<Vec<_>>()),
        };
        projected.map_err(|error| Cause::bug(error.to_string()).with_source(error))
    }

    /// The columns of these rows of one chunk.
    fn taken(
        &self,
        chunk: &Chunk,
        stored: &[StoredRow<'_>],
        selection: &Selection,
    ) -> Result<Vec<ArrayRef>, Cause> {
        let of_chunk = self.projected(&chunk.rows, selection)?;
        let rows: UInt32Array = stored.iter().map(|row| row.row as u32).collect::<Vec<_>>().into();
        let take = |column: &ArrayRef| take(column, &rows, None).map_err(|error| too_large(&error));
        of_chunk.columns().iter().map(take).collect()
    }
}
