//! Running functions: `f(...) OVER (PARTITION BY keys ORDER BY event_time [frame])`.

mod avg;
mod count;
mod dense_rank;
mod extreme;
mod fold;
mod frame;
mod function;
mod kept_values;
mod lag;
mod last_value;
mod make;
mod nth_value;
mod rank;
mod row_number;
mod spec;
mod sum;

use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_buffer::ScalarBuffer;
use arrow_schema::{Field, Schema, SchemaRef};
use tidemill_core::error::Cause;
use tidemill_core::{Cut, Operator, Output, Rows, SnapshotReader, SnapshotWriter, StateRows};

use self::function::{RunningFunction, Step};
use self::make::{make, result_field};
pub use self::spec::{Frame, Function, FunctionSpec, OverSpec, RunningAggregate};
use crate::event_order::EventOrder;
use crate::failed_results::FailedResults;
use crate::keys::KeyTable;
use crate::stored_rows::{CycleRows, check_limit, event_times, kernel_error, with_schema};
use crate::watermark::Watermark;

const VERSION: u8 = 2;
/// Means of integers were means of floating-point numbers, into which rows were converted before.
const VERSION_OF_FLOATS: u8 = 1;

/// The columns of the output: those of the rows, then one for each function.
///
/// # Errors
/// If a function does not accept the type of its column.
pub fn output_schema(spec: &OverSpec) -> Result<SchemaRef, Cause> {
    let mut fields: Vec<Arc<Field>> = spec.schema.fields().iter().cloned().collect();
    for function in &spec.functions {
        fields.push(Arc::new(result_field(function, &spec.schema)?));
    }
    Ok(Arc::new(Schema::new(fields)))
}

/// Emits each row with the results of the functions for it.
///
/// Rows wait until the watermark has passed their event time, and are emitted in the order of (event time, input,
/// arrival) at the end of the cycle. If they are declared to be in order, and no frame includes later rows with equal
/// event time, each is emitted in its own cycle at its own position.
///
/// ```
/// use std::sync::Arc;
/// use tidemill_core::arrow::array::{ArrayRef, Int64Array, RecordBatch, TimestampNanosecondArray};
/// use tidemill_core::{Batch, Cut, Operator, Output};
/// use tidemill_operators::over::{Function, FunctionSpec, Over, OverSpec, output_schema};
///
/// let times = Arc::new(TimestampNanosecondArray::from(vec![20, 10, 30])) as ArrayRef;
/// let speeds = Arc::new(Int64Array::from(vec![2, 1, 3])) as ArrayRef;
/// let rows = RecordBatch::try_from_iter([("event_time", times), ("speed", speeds)]).unwrap();
/// let spec = OverSpec {
///     schema: rows.schema(),
///     keys: vec![],
///     event_time: 0,
///     functions: vec![FunctionSpec {
///         name: "before".into(),
///         function: Function::Lag { column: 1, rows: 1, default: None },
///     }],
///     ordered: false,
///     watermark: vec![0].into(),
///     rows_max: 1000,
///     late: Default::default(),
/// };
/// let mut output = Output::new(&[output_schema(&spec).unwrap()]);
/// let mut over = Over::new(spec).unwrap();
/// over.rows(0, Batch::from_source(rows, vec![0, 1, 2].into()).as_rows(), &mut output).unwrap();
/// over.end_of_cycle(&Cut { watermarks: vec![i64::MAX], ..Cut::first() }, &mut output).unwrap();
/// let before = output.finish(0).unwrap().rows.column(2).clone();
/// assert_eq!(before.as_ref(), &Int64Array::from(vec![None, Some(1), Some(2)]));
/// ```
#[derive(Debug)]
pub struct Over {
    spec: OverSpec,
    schema: SchemaRef,
    keys: KeyTable,
    functions: Vec<Box<dyn RunningFunction>>,
    /// Whether a function needs to know the last row with equal key and event time.
    with_peers: bool,
    /// Whether rows are processed as they come.
    at_once: bool,
    failed: FailedResults,
    arrived: CycleRows,
    buffer: EventOrder,
    watermark: Watermark,
}

impl Over {
    /// An empty instance.
    ///
    /// # Errors
    /// If a function does not accept the type of its column, or its keys cannot be compared.
    pub fn new(spec: OverSpec) -> Result<Self, Cause> {
        let functions = spec.functions.iter().map(|function| make(&function.function, &spec.schema));
        let with_peers = spec.functions.iter().any(|function| function.function.has_peers());
        Ok(Over {
            schema: output_schema(&spec)?,
            keys: KeyTable::new(&spec.schema, &spec.keys, true)?,
            functions: functions.collect::<Result<_, _>>()?,
            with_peers,
            at_once: spec.ordered && !with_peers,
            failed: FailedResults::default(),
            arrived: CycleRows::default(),
            buffer: EventOrder::new(spec.schema.clone(), spec.event_time),
            watermark: Watermark::new(spec.watermark.clone()),
            spec,
        })
    }

    /// Sets what happens to results that cannot be represented.
    pub fn failed_results(mut self, failed: FailedResults) -> Self {
        self.failed = failed;
        self
    }

    /// Computes the functions for rows in their order.
    fn compute(
        &mut self,
        rows: RecordBatch,
        times: &ScalarBuffer<i64>,
        positions: &[u32],
        cycle: u64,
        output: &mut Output,
    ) -> Result<(), Cause> {
        let keys = self.keys.intern(&rows, &self.spec.keys)?;
        let step = Step::new(&rows, &keys, self.keys.len(), times, &self.failed, cycle);
        let step = if self.with_peers { step.with_peers() } else { step };
        let mut columns = rows.columns().to_vec();
        for function in &mut self.functions {
            columns.push(function.append(&step)?);
        }
        let rows = RecordBatch::try_new(self.schema.clone(), columns).map_err(kernel_error)?;
        output.port(0).push_batch(rows, positions)
    }

    /// Processes rows that are already in order, at their own positions.
    fn compute_arrived(&mut self, cycle: u64, output: &mut Output) -> Result<(), Cause> {
        let Some((rows, positions)) = self.arrived.take(&self.spec.schema)? else { return Ok(()) };
        let (times, nulls) = event_times(&rows, self.spec.event_time)?;
        let Some(nulls) = nulls else { return self.compute(rows, &times, &positions, cycle, output) };
        self.spec.late.add(nulls.null_count());
        let positions: Vec<u32> = nulls.valid_indices().map(|row| positions[row]).collect();
        let is_valid = arrow_array::BooleanArray::new(nulls.into_inner(), None);
        let rows = arrow_select::filter::filter_record_batch(&rows, &is_valid).map_err(kernel_error)?;
        let (times, _) = event_times(&rows, self.spec.event_time)?;
        self.compute(rows, &times, &positions, cycle, output)
    }

    fn rows_held(&self) -> usize {
        let in_functions = self.functions.iter().map(|function| function.rows_held()).sum::<usize>();
        self.buffer.len() + self.keys.len() + in_functions
    }
}

impl Operator for Over {
    fn rows(&mut self, input: usize, rows: Rows<'_>, _output: &mut Output) -> Result<(), Cause> {
        if self.at_once {
            self.arrived.push(&rows);
            return Ok(());
        }
        let rows = with_schema(&self.spec.schema, rows.to_batch())?;
        self.spec.late.add(self.buffer.push(input, rows, self.watermark.reached())?);
        Ok(())
    }

    fn end_of_cycle(&mut self, cut: &Cut, output: &mut Output) -> Result<(), Cause> {
        let watermark = self.watermark.advance(cut);
        if self.at_once {
            self.compute_arrived(cut.cycle, output)?;
        } else if let Some(ordered) = self.buffer.release(watermark)? {
            let positions = vec![output.end_position(); ordered.rows.num_rows()];
            self.compute(ordered.rows, &ordered.times, &positions, cut.cycle, output)?;
        }
        check_limit("OVER", self.rows_held(), self.spec.rows_max)
    }

    fn next_timer(&self) -> Option<i64> {
        // A row is emitted once the watermark is past its time, not when it reaches it.
        self.buffer.first_time().map(|time| self.watermark.timer(time.saturating_add(1)))
    }

    fn state_bytes(&self) -> usize {
        let in_functions =
            self.functions.iter().map(|function| function.bytes(self.keys.len())).sum::<usize>();
        self.buffer.bytes() + self.keys.bytes() + in_functions
    }

    fn snapshot(&self, writer: &mut SnapshotWriter) {
        writer.u8(VERSION);
        self.watermark.snapshot(writer);
        self.keys.snapshot(writer);
        self.buffer.snapshot(writer);
        for function in &self.functions {
            function.snapshot(writer);
        }
    }

    fn restore(&mut self, reader: &mut SnapshotReader<'_>) -> Result<(), Cause> {
        let is_older = reader.version_of(&[VERSION_OF_FLOATS, VERSION])? == VERSION_OF_FLOATS;
        self.watermark.restore(reader)?;
        self.keys.restore(reader)?;
        if is_older {
            self.buffer.restore_older(reader)?
        } else {
            self.buffer.restore(reader)?
        }
        self.functions.iter_mut().try_for_each(|function| {
            if is_older { function.restore_older(reader) } else { function.restore(reader) }
        })
    }

    /// The rows that wait for the watermark, but not the running results.
    fn state_rows(&self) -> Result<Option<Vec<StateRows>>, Cause> {
        Ok(Some(vec![self.buffer.state_rows()?]))
    }
}
