//! `ORDER BY event_time` on a stream: its rows in event-time order.

use arrow_schema::SchemaRef;
use tidemill_core::error::Cause;
use tidemill_core::{Cut, Operator, Output, Rows, SnapshotReader, SnapshotWriter, StateRows};

use crate::event_order::EventOrder;
use crate::stored_rows::check_limit;
use crate::watermark::{LateRows, Watermark, WatermarkSpec};

const VERSION: u8 = 1;

/// What to sort.
#[derive(Clone, Debug)]
pub struct OrderingSpec {
    /// The columns of the rows of every input.
    pub schema: SchemaRef,
    /// The column of the event time.
    pub event_time: usize,
    /// Which watermark counts.
    pub watermark: WatermarkSpec,
    /// The largest number of rows that a partition holds.
    pub rows_max: usize,
    /// Counts the rows left out because they came after the watermark or have no event time.
    pub late: LateRows,
}

/// The columns of the output: those of the input.
pub fn output_schema(spec: &OrderingSpec) -> SchemaRef {
    spec.schema.clone()
}

/// Emits a stream's rows in the order of (event time, input, arrival), once the watermark has passed them.
///
/// ```
/// use std::sync::Arc;
/// use tidemill_core::arrow::array::{ArrayRef, RecordBatch, TimestampNanosecondArray};
/// use tidemill_core::{Batch, Cut, Operator, Output};
/// use tidemill_operators::sort::{Ordering, OrderingSpec};
///
/// let times = Arc::new(TimestampNanosecondArray::from(vec![20, 10, 30])) as ArrayRef;
/// let rows = RecordBatch::try_from_iter([("event_time", times)]).unwrap();
/// let mut operator = Ordering::new(OrderingSpec {
///     schema: rows.schema(),
///     event_time: 0,
///     watermark: vec![0].into(),
///     rows_max: 1000,
///     late: Default::default(),
/// });
/// let mut output = Output::new(&[rows.schema()]);
/// let batch = Batch::from_source(rows, vec![0, 1, 2].into());
/// operator.rows(0, batch.as_rows(), &mut output).unwrap();
/// operator.end_of_cycle(&Cut { watermarks: vec![25], ..Cut::first() }, &mut output).unwrap();
/// assert_eq!(output.finish(0).unwrap().len(), 2);
/// ```
#[derive(Debug)]
pub struct Ordering {
    buffer: EventOrder,
    watermark: Watermark,
    rows_max: usize,
    late: LateRows,
}

impl Ordering {
    /// An empty instance.
    pub fn new(spec: OrderingSpec) -> Self {
        Ordering {
            buffer: EventOrder::new(spec.schema, spec.event_time),
            watermark: Watermark::new(spec.watermark),
            rows_max: spec.rows_max,
            late: spec.late,
        }
    }
}

impl Operator for Ordering {
    fn rows(&mut self, input: usize, rows: Rows<'_>, _output: &mut Output) -> Result<(), Cause> {
        self.late.add(self.buffer.push(input, rows.to_batch(), self.watermark.reached())?);
        check_limit("ORDER BY event time", self.buffer.len(), self.rows_max)
    }

    fn end_of_cycle(&mut self, cut: &Cut, output: &mut Output) -> Result<(), Cause> {
        let Some(ordered) = self.buffer.release(self.watermark.advance(cut))? else { return Ok(()) };
        let positions = vec![output.end_position(); ordered.rows.num_rows()];
        output.port(0).push_batch(ordered.rows, &positions)
    }

    fn next_timer(&self) -> Option<i64> {
        // A row is emitted once the watermark is past its time, not when it reaches it.
        self.buffer.first_time().map(|time| self.watermark.timer(time.saturating_add(1)))
    }

    fn state_bytes(&self) -> usize {
        self.buffer.bytes()
    }

    fn snapshot(&self, writer: &mut SnapshotWriter) {
        writer.u8(VERSION);
        self.watermark.snapshot(writer);
        self.buffer.snapshot(writer);
    }

    fn restore(&mut self, reader: &mut SnapshotReader<'_>) -> Result<(), Cause> {
        reader.version(VERSION)?;
        self.watermark.restore(reader)?;
        self.buffer.restore(reader)
    }

    /// The rows that wait for the watermark.
    fn state_rows(&self) -> Result<Option<Vec<StateRows>>, Cause> {
        Ok(Some(vec![self.buffer.state_rows()?]))
    }
}
