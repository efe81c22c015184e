//! The rows of a table in the order of arrival, numbered.

use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use arrow_select::concat::concat_batches;
use arrow_select::interleave::interleave_record_batch;
use tidemill_core::Cause;
use tidemill_core::memory::bytes_of_rows;

/// Smaller neighbours are merged up to this many rows.
const SEGMENT_ROWS: usize = 1 << 16;

/// Rows by number, in segments. Clones share them.
#[derive(Clone, Default)]
pub(crate) struct TableLog {
    segments: Vec<Segment>,
    end: u64,
    bytes: u64,
}

#[derive(Clone)]
struct Segment {
    first: u64,
    rows: Arc<RecordBatch>,
}

impl TableLog {
    /// The number that the next row gets; the first row has 0.
    pub fn end(&self) -> u64 {
        self.end
    }

    #[cfg(test)]
    pub fn segment_count(&self) -> usize {
        self.segments.len()
    }

    /// Bytes of memory held.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Appends rows. Like in a binary counter, a segment is merged with its neighbour until that has at least twice its
    /// size. So each row is copied at most some 16 times, and there are few segments to search.
    pub fn push(&mut self, rows: RecordBatch) -> Result<(), Cause> {
        let mut last = Segment { first: self.end, rows: Arc::new(rows) };
        self.end += last.rows.num_rows() as u64;
        self.bytes += bytes_of_rows(&last.rows) as u64;
        while let Some(before) = self.segments.last() {
            let (length_before, length) = (before.rows.num_rows(), last.rows.num_rows());
            if length_before >= 2 * length || length_before + length > SEGMENT_ROWS {
                break;
            }
            let together = [before.rows.as_ref(), last.rows.as_ref()];
            let rows = concat_batches(last.rows.schema_ref(), together).map_err(|error| too_large(&error))?;
            last = Segment { first: before.first, rows: Arc::new(rows) };
            self.segments.pop();
        }
        self.segments.push(last);
        Ok(())
    }

    /// The rows with these numbers, in this order.
    pub fn gather(&self, schema: &SchemaRef, numbers: &[u64]) -> Result<RecordBatch, Cause> {
        if numbers.is_empty() {
            return Ok(RecordBatch::new_empty(schema.clone()));
        }
        let mut places = Vec::with_capacity(numbers.len());
        let mut segment = 0;
        for number in numbers {
            if !self.segments[segment].has(*number) {
                segment = self.segments.partition_point(|segment| segment.first <= *number) - 1;
            }
            places.push((segment, (number - self.segments[segment].first) as usize));
        }
        let segments: Vec<&RecordBatch> = self.segments.iter().map(|segment| segment.rows.as_ref()).collect();
        interleave_record_batch(&segments, &places).map_err(|error| too_large(&error))
    }
}

impl Segment {
    fn has(&self, number: u64) -> bool {
        (self.first..self.first + self.rows.num_rows() as u64).contains(&number)
    }
}

fn too_large(error: &arrow_schema::ArrowError) -> Cause {
    Cause::resource(format!("the table does not fit into one batch: {error}; keep fewer or shorter values"))
}
