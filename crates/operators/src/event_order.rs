//! A buffer that sorts rows by event time.

use std::sync::Arc;

use arrow_array::{BooleanArray, RecordBatch, UInt32Array};
use arrow_buffer::ScalarBuffer;
use arrow_schema::SchemaRef;
use arrow_select::concat::concat_batches;
use arrow_select::filter::filter_record_batch;
use arrow_select::interleave::interleave_record_batch;
use arrow_select::take::take_record_batch;
use tidemill_core::error::Cause;
use tidemill_core::memory::bytes_of_rows;
use tidemill_core::{SnapshotReader, SnapshotWriter, StateRows};

use crate::state_rows::state_rows;
use crate::stored_rows::{
    event_times, kernel_error, read_rows, read_rows_of_floats, with_schema, write_rows,
};

/// Holds rows until the watermark has passed their event time, and emits them in the order of (event time, input,
/// arrival).
///
/// Rows that come nearly in order are only sliced and concatenated.
///
/// ```
/// use std::sync::Arc;
/// use tidemill_core::arrow::array::{ArrayRef, RecordBatch, TimestampNanosecondArray};
/// use tidemill_operators::event_order::EventOrder;
///
/// let times = Arc::new(TimestampNanosecondArray::from(vec![30, 10, 20])) as ArrayRef;
/// let rows = RecordBatch::try_from_iter([("event_time", times)]).unwrap();
/// let mut buffer = EventOrder::new(rows.schema(), 0);
/// assert_eq!(buffer.push(0, rows, i64::MIN).unwrap(), 0);
/// let ordered = buffer.release(30).unwrap().unwrap();
/// assert_eq!(ordered.times.to_vec(), [10, 20]);
/// assert_eq!(buffer.len(), 1);
/// ```
#[derive(Debug)]
pub struct EventOrder {
    schema: SchemaRef,
    time_column: usize,
    /// By input, then by arrival.
    chunks: Vec<Chunk>,
    rows: usize,
    bytes: usize,
}

/// Rows in event-time order.
#[derive(Clone, Debug)]
pub struct OrderedRows {
    /// The rows.
    pub rows: RecordBatch,
    /// Their event times, ascending.
    pub times: ScalarBuffer<i64>,
}

/// Rows that came together, ordered by event time, and by arrival if the times are equal.
#[derive(Debug)]
struct Chunk {
    input: usize,
    rows: RecordBatch,
    times: ScalarBuffer<i64>,
}

impl EventOrder {
    /// An empty buffer of rows whose event time is in this column.
    pub fn new(schema: SchemaRef, time_column: usize) -> Self {
        EventOrder { schema, time_column, chunks: Vec::new(), rows: 0, bytes: 0 }
    }

    /// The number of rows held.
    pub fn len(&self) -> usize {
        self.rows
    }

    /// Bytes of memory held.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether no row is held.
    pub fn is_empty(&self) -> bool {
        self.rows == 0
    }

    /// The earliest event time held.
    pub fn first_time(&self) -> Option<i64> {
        self.chunks.iter().filter_map(|chunk| chunk.times.first().copied()).min()
    }

    /// Takes rows. Leaves out those before the watermark and those without an event time, and returns their number.
    ///
    /// # Errors
    /// If the time column is not a timestamp in nanoseconds, which is a bug of the planner.
    pub fn push(&mut self, input: usize, rows: RecordBatch, watermark: i64) -> Result<usize, Cause> {
        let rows = with_schema(&self.schema, rows)?;
        let came = rows.num_rows();
        let rows = self.on_time(rows, watermark)?;
        let kept = rows.num_rows();
        if kept > 0 {
            self.bytes += bytes_of_rows(&rows);
            let chunk = self.ordered_chunk(input, rows)?;
            let place = self.chunks.partition_point(|held| held.input <= input);
            self.chunks.insert(place, chunk);
            self.rows += kept;
        }
        Ok(came - kept)
    }

    fn on_time(&self, rows: RecordBatch, watermark: i64) -> Result<RecordBatch, Cause> {
        let (times, nulls) = event_times(&rows, self.time_column)?;
        if nulls.is_none() && times.iter().all(|time| *time >= watermark) {
            return Ok(rows);
        }
        let is_valid = |row| nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row));
        let keep = times.iter().enumerate().map(|(row, time)| *time >= watermark && is_valid(row));
        filter_record_batch(&rows, &keep.map(Some).collect::<BooleanArray>()).map_err(kernel_error)
    }

    fn ordered_chunk(&self, input: usize, rows: RecordBatch) -> Result<Chunk, Cause> {
        let (times, _) = event_times(&rows, self.time_column)?;
        if times.is_sorted() {
            return Ok(Chunk { input, rows, times });
        }
        let mut order: Vec<u32> = (0..times.len() as u32).collect();
        order.sort_by_key(|row| times[*row as usize]);
        let rows = take_record_batch(&rows, &UInt32Array::from(order)).map_err(kernel_error)?;
        let (times, _) = event_times(&rows, self.time_column)?;
        Ok(Chunk { input, rows, times })
    }

    /// Emits the rows before the watermark, or all of them if it is `i64::MAX`. `None` if there are none.
    ///
    /// # Errors
    /// Only if Arrow cannot concatenate the columns, which is a bug.
    pub fn release(&mut self, watermark: i64) -> Result<Option<OrderedRows>, Cause> {
        let mut due = Vec::new();
        for chunk in &mut self.chunks {
            let count = match watermark {
                i64::MAX => chunk.times.len(),
                _ => chunk.times.partition_point(|time| *time < watermark),
            };
            if count > 0 {
                due.push(chunk.split_front(count));
            }
        }
        self.chunks.retain(|chunk| !chunk.times.is_empty());
        let before = self.rows.max(1);
        self.rows -= due.iter().map(|chunk| chunk.times.len()).sum::<usize>();
        // As if all rows had the same length.
        self.bytes = (self.bytes as u128 * self.rows as u128 / before as u128) as usize;
        match due.len() {
            0 => Ok(None),
            1 => Ok(due.pop().map(|chunk| OrderedRows { rows: chunk.rows, times: chunk.times })),
            _ => merge(&self.schema, &due).map(Some),
        }
    }

    /// The rows held, as rows that wait for the watermark.
    pub(crate) fn state_rows(&self) -> Result<StateRows, Cause> {
        let chunks: Vec<RecordBatch> = self.chunks.iter().map(|chunk| chunk.rows.clone()).collect();
        state_rows("waiting", &self.schema, &chunks)
    }

    /// Writes the rows held.
    pub fn snapshot(&self, writer: &mut SnapshotWriter) {
        writer.u64(self.chunks.len() as u64);
        for chunk in &self.chunks {
            writer.u64(chunk.input as u64);
            write_rows(writer, Some(chunk.rows.clone()));
        }
    }

    /// Reads the rows held.
    ///
    /// # Errors
    /// If the bytes are damaged or have different columns.
    pub fn restore(&mut self, reader: &mut SnapshotReader<'_>) -> Result<(), Cause> {
        self.restore_with(reader, read_rows)
    }

    /// Reads rows in which floating-point numbers may stand for integers.
    ///
    /// # Errors
    /// If the bytes are damaged or have different columns.
    pub fn restore_older(&mut self, reader: &mut SnapshotReader<'_>) -> Result<(), Cause> {
        self.restore_with(reader, read_rows_of_floats)
    }

    fn restore_with(
        &mut self,
        reader: &mut SnapshotReader<'_>,
        read: fn(&mut SnapshotReader<'_>, &SchemaRef) -> Result<RecordBatch, Cause>,
    ) -> Result<(), Cause> {
        for _ in 0..reader.u64()? {
            let input = reader.u64()? as usize;
            let rows = read(reader, &self.schema)?;
            self.push(input, rows, i64::MIN)?;
        }
        Ok(())
    }
}

impl Chunk {
    fn split_front(&mut self, count: usize) -> Chunk {
        let rest = self.times.len() - count;
        let front =
            Chunk { input: self.input, rows: self.rows.slice(0, count), times: self.times.slice(0, count) };
        self.rows = self.rows.slice(count, rest);
        self.times = self.times.slice(count, rest);
        front
    }
}

fn merge(schema: &SchemaRef, chunks: &[Chunk]) -> Result<OrderedRows, Cause> {
    let follows = |pair: &[Chunk]| pair[0].times.last() <= pair[1].times.first();
    if chunks.windows(2).all(follows) {
        let rows = concat_batches(schema, chunks.iter().map(|chunk| &chunk.rows)).map_err(kernel_error)?;
        let times = chunks.iter().flat_map(|chunk| chunk.times.iter().copied()).collect();
        return Ok(OrderedRows { rows, times });
    }
    let of_chunk = |(index, chunk): (usize, &Chunk)| {
        let times = chunk.times.clone();
        (0..times.len()).map(move |row| (times[row], (index, row)))
    };
    let mut order: Vec<(i64, (usize, usize))> = chunks.iter().enumerate().flat_map(of_chunk).collect();
    // Stable, so that equal times stay in the order of input and arrival; quick on the ascending runs.
    order.sort_by_key(|(time, _)| *time);
    let indices: Vec<(usize, usize)> = order.iter().map(|(_, index)| *index).collect();
    let batches: Vec<&RecordBatch> = chunks.iter().map(|chunk| &chunk.rows).collect();
    let rows = interleave_record_batch(&batches, &indices).map_err(kernel_error)?;
    let rows = with_schema(&Arc::clone(schema), rows)?;
    Ok(OrderedRows { rows, times: order.iter().map(|(time, _)| *time).collect() })
}
