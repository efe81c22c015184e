//! Stored rows of an operator, each with a number that gives their order of arrival.

use arrow_array::{Array, ArrayRef, RecordBatch, new_null_array};
use arrow_schema::SchemaRef;
use arrow_select::concat::concat_batches;
use arrow_select::interleave::interleave;
use tidemill_core::error::Cause;
use tidemill_core::memory::bytes_of_rows;

use crate::stored_rows::{kernel_error, with_schema};

/// Chunks of fewer rows than this are merged, so that there are few chunks even if rows come one by one.
const CHUNK_ROWS: usize = 8192;

/// Stands for no row in [`RowStore::gather`].
pub(crate) const NO_ROW: u64 = u64::MAX;

/// Rows by number.
#[derive(Debug)]
pub(crate) struct RowStore {
    schema: SchemaRef,
    chunks: Vec<RecordBatch>,
    /// The number of each chunk's first row.
    starts: Vec<u64>,
    next: u64,
    bytes: usize,
}

impl RowStore {
    /// Without rows.
    pub fn new(schema: SchemaRef) -> Self {
        RowStore { schema, chunks: Vec::new(), starts: Vec::new(), next: 0, bytes: 0 }
    }

    /// The number of rows kept.
    pub fn len(&self) -> usize {
        self.next as usize
    }

    /// Bytes of memory held.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Stores rows; returns the number of the first of them.
    pub fn append(&mut self, rows: RecordBatch) -> Result<u64, Cause> {
        let first = self.next;
        if rows.num_rows() > 0 {
            self.next += rows.num_rows() as u64;
            self.bytes += bytes_of_rows(&rows);
            self.chunks.push(with_schema(&self.schema, rows)?);
            self.starts.push(first);
            self.merge_small_chunks()?;
        }
        Ok(first)
    }

    fn merge_small_chunks(&mut self) -> Result<(), Cause> {
        while let [.., before, last] = self.chunks.as_slice() {
            let rows = before.num_rows() + last.num_rows();
            if before.num_rows() > 2 * last.num_rows() || rows > CHUNK_ROWS {
                break;
            }
            let merged = concat_batches(&self.schema, [before, last]).map_err(kernel_error)?;
            self.chunks.truncate(self.chunks.len() - 2);
            self.starts.pop();
            self.chunks.push(merged);
        }
        Ok(())
    }

    /// The columns of these rows; [`NO_ROW`] gives NULLs.
    pub fn gather(&self, numbers: &[u64]) -> Result<Vec<ArrayRef>, Cause> {
        let nowhere = (self.chunks.len(), 0);
        let mut chunk = 0;
        let locate = |number: &u64| match *number {
            NO_ROW => nowhere,
            number => {
                let is_here = |start: &u64| *start <= number;
                if !(is_here(&self.starts[chunk])
                    && self.starts.get(chunk + 1).is_none_or(|next| !is_here(next)))
                {
                    chunk = self.starts.partition_point(is_here) - 1;
                }
                (chunk, (number - self.starts[chunk]) as usize)
            }
        };
        let places: Vec<(usize, usize)> = numbers.iter().map(locate).collect();
        let with_null = numbers.contains(&NO_ROW);
        let columns = 0..self.schema.fields().len();
        columns.map(|column| self.gather_column(column, &places, with_null)).collect()
    }

    fn gather_column(
        &self,
        column: usize,
        places: &[(usize, usize)],
        with_null: bool,
    ) -> Result<ArrayRef, Cause> {
        let null = new_null_array(self.schema.field(column).data_type(), usize::from(with_null));
        let mut arrays: Vec<&dyn Array> =
            self.chunks.iter().map(|rows| rows.column(column).as_ref()).collect();
        if with_null || arrays.is_empty() {
            arrays.push(&null);
        }
        interleave(&arrays, places).map_err(kernel_error)
    }

    /// These rows, none of them [`NO_ROW`].
    pub fn rows(&self, numbers: &[u64]) -> Result<RecordBatch, Cause> {
        if numbers.is_empty() {
            return Ok(RecordBatch::new_empty(self.schema.clone()));
        }
        let options = arrow_array::RecordBatchOptions::new().with_row_count(Some(numbers.len()));
        RecordBatch::try_new_with_options(self.schema.clone(), self.gather(numbers)?, &options)
            .map_err(kernel_error)
    }

    /// Keeps only these rows, given in ascending order, and renumbers them from 0 in that order.
    pub fn keep(&mut self, numbers: &[u64]) -> Result<(), Cause> {
        let rows = self.rows(numbers)?;
        self.chunks.clear();
        self.starts.clear();
        self.next = 0;
        self.bytes = 0;
        self.append(rows).map(|_| ())
    }
}
