//! Divides the rows of a cycle among fragments.

use std::iter::repeat_n;
use std::sync::Arc;

use arrow_array::{Int64Array, RecordBatch, UInt32Array, UInt64Array};
use arrow_schema::SchemaRef;
use arrow_select::take::take_record_batch;
use tidemill_core::Cause;

use crate::changes::{ChangedRow, Changes, RowEquality, consolidated, normalised};
use crate::chunk::{batch_of, too_large};
use crate::columns;
use crate::config::{Contents, StoreConfig};
use crate::fragmentation::Fragmentation;
use crate::writer::CHUNK_ROWS;

/// Divides rows, and numbers them as they come.
pub(super) struct Splitter {
    pub fragmentation: Fragmentation,
    /// The columns of what a fragment is given.
    pub schema: SchemaRef,
    /// Compares the rows of a changelog.
    equality: Option<RowEquality>,
    /// The number of the next row.
    pub next: u64,
    /// The largest time of all rows.
    pub latest: i64,
}

impl Splitter {
    /// Divides the rows of a store by this. `numbers` are the number of the next row, and the largest time of all rows. A fragment
    /// is given rows with these columns.
    pub fn new(
        config: &StoreConfig,
        fragmentation: Fragmentation,
        schema: SchemaRef,
        (next, latest): (u64, i64),
    ) -> Result<Splitter, Cause> {
        let has_changes = config.contents == Contents::Changes;
        let equality = has_changes.then(|| RowEquality::new(config.schema.fields())).transpose()?;
        Ok(Splitter { fragmentation, schema, equality, next, latest })
    }

    /// The rows of each fragment, in order.
    pub fn split(
        &mut self,
        config: &StoreConfig,
        batches: &[RecordBatch],
    ) -> Result<Vec<Vec<RecordBatch>>, Cause> {
        let mut parts = vec![Vec::new(); self.fragmentation.count as usize];
        let consolidated = match &self.equality {
            None => None,
            Some(equality) => Some(consolidated_batches(equality, batches)?),
        };
        for rows in consolidated.as_deref().unwrap_or(batches).iter().filter(|rows| rows.num_rows() > 0) {
            self.latest = self.latest.max(latest_of(config, rows));
            let fragments = self.fragments_of(config, rows)?;
            let numbered = self.numbered(rows)?;
            let mut places: Vec<Vec<u32>> = vec![Vec::new(); parts.len()];
            for (row, fragment) in fragments.into_iter().enumerate() {
                places[fragment as usize].push(row as u32);
            }
            for (part, places) in parts.iter_mut().zip(places) {
                match places.len() {
                    0 => {}
                    all if all == numbered.num_rows() => part.push(numbered.clone()),
                    _ => {
                        let taken = take_record_batch(&numbered, &UInt32Array::from(places));
                        part.push(taken.map_err(|error| too_large(&error))?);
                    }
                }
            }
        }
        Ok(parts)
    }

    /// The fragment of each row. Equal rows of a changelog are in the same one.
    fn fragments_of(&self, config: &StoreConfig, rows: &RecordBatch) -> Result<Vec<u32>, Cause> {
        if self.equality.is_none() {
            return self.fragmentation.fragments_of(rows, config.key.as_deref());
        }
        let shown = rows.columns()[..config.schema.fields().len()].iter();
        let shown = shown.map(normalised).collect::<Result<_, _>>();
        let shown = shown.map_err(|error| Cause::bug(error.to_string()).with_source(error))?;
        let rows = batch_of(&config.schema, shown, rows.num_rows())?;
        self.fragmentation.fragments_of(&rows, config.key.as_deref())
    }

    /// The rows with their numbers behind the columns that are shown.
    fn numbered(&mut self, rows: &RecordBatch) -> Result<RecordBatch, Cause> {
        let end = self.next + rows.num_rows() as u64;
        let mut columns = rows.columns().to_vec();
        let numbers = Arc::new(UInt64Array::from_iter_values(self.next..end));
        columns.insert(columns.len() - usize::from(self.equality.is_some()), numbers);
        self.next = end;
        batch_of(&self.schema, columns, rows.num_rows())
    }
}

/// The changes of a cycle, added up: the rows that are taken back, and then each copy that comes as a row.
fn consolidated_batches(equality: &RowEquality, batches: &[RecordBatch]) -> Result<Vec<RecordBatch>, Cause> {
    let Changes { taken, added } = consolidated(equality, batches)?;
    let copies = added.iter().flat_map(|changed| repeat_n(changed, changed.count as usize));
    let taken = taken_batches(batches, taken.iter().map(|changed| (changed, -(changed.count as i64))))?;
    let added = taken_batches(batches, copies.map(|changed| (changed, 1)))?;
    Ok(taken.into_iter().chain(added).collect())
}

/// Rows of these batches, each with this weight.
fn taken_batches<'a>(
    batches: &[RecordBatch],
    changes: impl Iterator<Item = (&'a ChangedRow, i64)>,
) -> Result<Vec<RecordBatch>, Cause> {
    let mut changes = changes.peekable();
    let mut taken = Vec::new();
    while let Some((ChangedRow { batch, .. }, _)) = changes.peek() {
        let batch = *batch;
        let of_batch = || changes.next_if(|(changed, _)| changed.batch == batch);
        let (places, weights): (Vec<u32>, Vec<i64>) = std::iter::from_fn(of_batch)
            .take(CHUNK_ROWS)
            .map(|(changed, weight)| (changed.row, weight))
            .unzip();
        let rows = take_record_batch(&batches[batch as usize], &UInt32Array::from(places));
        let rows = rows.map_err(|error| too_large(&error))?;
        let mut columns = rows.columns().to_vec();
        if let Some(last) = columns.last_mut() {
            *last = Arc::new(Int64Array::from(weights));
        }
        taken.push(batch_of(&rows.schema(), columns, rows.num_rows())?);
    }
    Ok(taken)
}

/// The largest time of these rows.
fn latest_of(config: &StoreConfig, rows: &RecordBatch) -> i64 {
    let times = config.time.and_then(|column| columns::integers(rows.column(column)));
    let latest = match &times {
        Some((values, Some(nulls))) => nulls.valid_indices().map(|row| values[row]).max(),
        Some((values, None)) => values.iter().copied().max(),
        None => None,
    };
    latest.unwrap_or(i64::MIN)
}
