//! Divides the rows of a cycle among fragments.

use std::sync::Arc;

use arrow_array::{RecordBatch, UInt32Array, UInt64Array};
use arrow_schema::SchemaRef;
use arrow_select::take::take_record_batch;
use tidemill_core::Cause;

use crate::chunk::{batch_of, too_large};
use crate::columns;
use crate::config::StoreConfig;
use crate::fragmentation::Fragmentation;

/// Divides rows, and numbers them as they come.
pub(super) struct Splitter {
    pub fragmentation: Fragmentation,
    /// The columns of a fragment.
    pub schema: SchemaRef,
    /// The number of the next row.
    pub next: u64,
    /// The largest time of all rows.
    pub latest: i64,
}

impl Splitter {
    /// The rows of each fragment, in order.
    pub fn split(
        &mut self,
        config: &StoreConfig,
        batches: &[RecordBatch],
    ) -> Result<Vec<Vec<RecordBatch>>, Cause> {
        let mut parts = vec![Vec::new(); self.fragmentation.count as usize];
        for rows in batches.iter().filter(|rows| rows.num_rows() > 0) {
            self.latest = self.latest.max(latest_of(config, rows));
            let fragments = self.fragmentation.fragments_of(rows, config.key.as_deref())?;
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

    /// The rows with their numbers behind their columns.
    fn numbered(&mut self, rows: &RecordBatch) -> Result<RecordBatch, Cause> {
        let end = self.next + rows.num_rows() as u64;
        let mut columns = rows.columns().to_vec();
        columns.push(Arc::new(UInt64Array::from_iter_values(self.next..end)));
        self.next = end;
        batch_of(&self.schema, columns, rows.num_rows())
    }
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
