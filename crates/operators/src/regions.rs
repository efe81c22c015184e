//! Regions that follow the points: each row is assigned the region of space that contains its point, and the regions
//! are recomputed from the recent past.

use std::sync::Arc;

use arrow_array::builder::Int64Builder;
use arrow_array::cast::AsArray;
use arrow_array::types::Float64Type;
use arrow_array::{Array, Float64Array, RecordBatch};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use tidemill_core::error::Cause;
use tidemill_core::{Cut, Operator, Output, Rows, SnapshotReader, SnapshotWriter, StateRows};
use tidemill_split::spatial::{AdaptiveRegions, Method};

use crate::event_order::{EventOrder, OrderedRows};
use crate::stored_rows::check_limit;
use crate::watermark::{LateRows, Watermark, WatermarkSpec};

const VERSION: u8 = 1;

/// Which regions to compute, and from what.
#[derive(Clone, Debug)]
pub struct RegionsSpec {
    /// The columns of the input.
    pub schema: SchemaRef,
    /// The column of the event time.
    pub event_time: usize,
    /// The columns of a point's coordinates, 64-bit floats.
    pub coordinates: Vec<usize>,
    /// How many columns of the input are emitted, starting with the first.
    pub columns: usize,
    /// How regions are computed.
    pub method: Method,
    /// How far back points are kept, in nanoseconds of event time.
    pub history_ns: i64,
    /// How often regions are recomputed, in nanoseconds of event time.
    pub every_ns: i64,
    /// The most points that are kept.
    pub points_max: usize,
    /// Which watermark counts.
    pub watermark: WatermarkSpec,
    /// The largest number of rows that are held until the watermark has passed them.
    pub rows_max: usize,
    /// Counts the rows left out because they came after the watermark or have no event time.
    pub late: LateRows,
}

/// The columns of the output: those of the input that are emitted, and the region, which is NULL if the point lacks a
/// coordinate.
pub fn output_schema(spec: &RegionsSpec) -> SchemaRef {
    let given = spec.schema.fields().iter().take(spec.columns).cloned();
    let region = Arc::new(Field::new("region", DataType::Int64, true));
    Arc::new(Schema::new(given.chain([region]).collect::<Vec<_>>()))
}

/// Emits rows in the order of event time, once the watermark has passed them, each with its region.
///
/// ```
/// use std::sync::Arc;
/// use tidemill_core::arrow::array::{ArrayRef, Float64Array, RecordBatch, TimestampNanosecondArray};
/// use tidemill_core::arrow::array::{cast::AsArray, types::Int64Type};
/// use tidemill_core::{Batch, Cut, Operator, Output};
/// use tidemill_operators::regions::{Regions, RegionsSpec, output_schema};
/// use tidemill_split::spatial::Method;
///
/// let times = Arc::new(TimestampNanosecondArray::from(vec![0, 1, 600, 601])) as ArrayRef;
/// let xs = Arc::new(Float64Array::from(vec![1.0, 3.0, 4.0, 2.0])) as ArrayRef;
/// let rows = RecordBatch::try_from_iter([("at", times), ("x", xs)]).unwrap();
/// let spec = RegionsSpec {
///     schema: rows.schema(),
///     event_time: 0,
///     coordinates: vec![1],
///     columns: 2,
///     method: Method::PointQuad,
///     history_ns: 600,
///     every_ns: 600,
///     points_max: 1000,
///     watermark: vec![0].into(),
///     rows_max: 1000,
///     late: Default::default(),
/// };
/// let mut output = Output::new(&[output_schema(&spec)]);
/// let mut operator = Regions::new(spec);
/// operator.rows(0, Batch::from_source(rows, vec![0, 1, 2, 3].into()).as_rows(), &mut output).unwrap();
/// operator.end_of_cycle(&Cut { watermarks: vec![i64::MAX], ..Cut::first() }, &mut output).unwrap();
/// let given = output.finish(0).unwrap();
/// // After ten minutes, which are 600 here, the median of what came is 3.
/// assert_eq!(given.rows.column(2).as_primitive::<Int64Type>().values(), &[0, 0, 1, 0]);
/// ```
pub struct Regions {
    output: SchemaRef,
    coordinates: Vec<usize>,
    columns: usize,
    buffer: EventOrder,
    regions: AdaptiveRegions,
    watermark: Watermark,
    rows_max: usize,
    late: LateRows,
}

impl Regions {
    /// An instance that has not seen any points.
    pub fn new(spec: RegionsSpec) -> Self {
        Regions {
            output: output_schema(&spec),
            coordinates: spec.coordinates,
            columns: spec.columns,
            buffer: EventOrder::new(spec.schema, spec.event_time),
            regions: AdaptiveRegions::new(spec.method, spec.history_ns, spec.every_ns, spec.points_max),
            watermark: Watermark::new(spec.watermark),
            rows_max: spec.rows_max,
            late: spec.late,
        }
    }

    /// The rows with their regions.
    fn located(&mut self, ordered: &OrderedRows) -> Result<RecordBatch, Cause> {
        let rows = &ordered.rows;
        let columns =
            self.coordinates.iter().map(|column| rows.column(*column).as_primitive::<Float64Type>());
        let columns: Vec<&Float64Array> = columns.collect();
        let mut located = Int64Builder::with_capacity(rows.num_rows());
        let mut point = vec![0.0; columns.len()];
        for (row, time) in ordered.times.iter().enumerate() {
            if columns.iter().any(|column| column.is_null(row)) {
                located.append_null();
                continue;
            }
            for (coordinate, column) in point.iter_mut().zip(&columns) {
                *coordinate = column.value(row);
            }
            located.append_value(i64::from(self.regions.region(*time, &point)));
        }
        let mut given = rows.columns()[..self.columns].to_vec();
        given.push(Arc::new(located.finish()));
        RecordBatch::try_new(Arc::clone(&self.output), given)
            .map_err(|error| Cause::bug(error.to_string()).with_source(error))
    }
}

impl Operator for Regions {
    fn rows(&mut self, input: usize, rows: Rows<'_>, _output: &mut Output) -> Result<(), Cause> {
        self.late.add(self.buffer.push(input, rows.to_batch(), self.watermark.reached())?);
        check_limit("adaptive_regions", self.buffer.len(), self.rows_max)
    }

    fn end_of_cycle(&mut self, cut: &Cut, output: &mut Output) -> Result<(), Cause> {
        let Some(ordered) = self.buffer.release(self.watermark.advance(cut))? else { return Ok(()) };
        let positions = vec![output.end_position(); ordered.rows.num_rows()];
        let located = self.located(&ordered)?;
        output.port(0).push_batch(located, &positions)
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
        self.regions.snapshot(writer);
    }

    fn restore(&mut self, reader: &mut SnapshotReader<'_>) -> Result<(), Cause> {
        reader.version(VERSION)?;
        self.watermark.restore(reader)?;
        self.buffer.restore(reader)?;
        self.regions.restore(reader)
    }

    /// The rows that wait for the watermark, but not the regions.
    fn state_rows(&self) -> Result<Option<Vec<StateRows>>, Cause> {
        Ok(Some(vec![self.buffer.state_rows()?]))
    }
}
