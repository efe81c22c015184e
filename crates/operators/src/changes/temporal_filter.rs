//! Conditions on the time that passes: rows come in and leave at moments that are known when they come.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::TimestampNanosecondType;
use arrow_array::{Array, ArrayRef, BooleanArray, RecordBatch, TimestampNanosecondArray, UInt32Array};
use arrow_schema::{DataType, Field, Schema, SchemaRef, TimeUnit};
use arrow_select::take::take_record_batch;
use tidemill_core::error::Cause;
use tidemill_core::{Cut, Expression, FaultLog, Operator, Output, Rows};
use tidemill_core::{SnapshotReader, SnapshotWriter, StateRows};

use super::changelog_schema;
use super::input::{Changes, Input, multiply};
use super::output::{Half, no_columns, write_changes};
use super::partitions::Partitions;
use crate::encoded_rows::RowCodec;
use crate::state_rows::batch;
use crate::stored_rows::check_limit;
use crate::top::OrderBy;

const VERSION: u8 = 1;
/// The name of the column with the next moment of a row that is kept.
const MOMENT: &str = "$moment";
/// All rows are of one group.
const ALL: u32 = 0;

/// Which rows pass, and when that changes.
#[derive(Clone, Debug)]
pub struct TemporalFilterSpec {
    /// The columns of the rows, without the weight.
    pub schema: SchemaRef,
    /// Whether the input has weights.
    pub changes: bool,
    /// The condition: a row passes while it is true. It reads the closing time of the cycle.
    pub condition: Arc<dyn Expression>,
    /// The moments at which the condition may change for a row, as timestamps in nanoseconds; NULL: at none. Between two of them
    /// it is constant.
    pub moments: Vec<Arc<dyn Expression>>,
    /// The largest number of different rows that a partition holds.
    pub rows_max: usize,
}

/// Lets rows pass while a condition on the closing time of the cycle is true. It keeps the rows for which that may still
/// change, in the order of the moments at which it may: what has left for good, or stays for good, is not kept. Time does not go
/// back, even if the clock does.
///
/// ```
/// use std::sync::Arc;
/// use tidemill_core::arrow::array::{ArrayRef, BooleanArray, Int64Array, RecordBatch, TimestampNanosecondArray};
/// use tidemill_core::arrow::schema::{DataType, TimeUnit};
/// use tidemill_core::{Batch, Cause, Cut, Expression, Operator, Output};
/// use tidemill_operators::changes::{TemporalFilter, TemporalFilterSpec};
///
/// /// until > now()
/// #[derive(Debug)]
/// struct Passes;
/// /// until
/// #[derive(Debug)]
/// struct Until;
///
/// fn untils(rows: &RecordBatch) -> &Int64Array {
///     rows.column(0).as_any().downcast_ref().unwrap()
/// }
/// impl Expression for Passes {
///     fn data_type(&self) -> DataType {
///         DataType::Boolean
///     }
///     fn evaluate(&self, rows: &RecordBatch, cut: &Cut) -> Result<ArrayRef, Cause> {
///         let now = cut.closed_at_ns as i64;
///         Ok(Arc::new(BooleanArray::from_iter(untils(rows).iter().map(|until| until.map(|until| until > now)))))
///     }
/// }
/// impl Expression for Until {
///     fn data_type(&self) -> DataType {
///         DataType::Timestamp(TimeUnit::Nanosecond, None)
///     }
///     fn evaluate(&self, rows: &RecordBatch, _: &Cut) -> Result<ArrayRef, Cause> {
///         Ok(Arc::new(TimestampNanosecondArray::from(untils(rows).values().to_vec())))
///     }
/// }
///
/// let rows = |untils: Vec<i64>| {
///     let rows = RecordBatch::try_from_iter([("until", Arc::new(Int64Array::from(untils)) as ArrayRef)]).unwrap();
///     let positions = (0..rows.num_rows() as u32).collect();
///     Batch::from_source(rows, positions)
/// };
/// let spec = TemporalFilterSpec {
///     schema: rows(vec![]).rows.schema(),
///     changes: false,
///     condition: Arc::new(Passes),
///     moments: vec![Arc::new(Until)],
///     rows_max: 1000,
/// };
/// let mut output = Output::new(&[TemporalFilter::output_schema(&spec)]);
/// let mut filter = TemporalFilter::new(spec).unwrap();
/// filter.rows(0, rows(vec![5, 20, 30]).as_rows(), &mut output).unwrap();
/// filter.end_of_cycle(&Cut { closed_at_ns: 10, ..Cut::first() }, &mut output).unwrap();
/// assert_eq!(output.finish(0).unwrap().rows.column(0).as_ref(), &Int64Array::from(vec![20, 30]));
/// assert_eq!(filter.next_clock_timer(), Some(20));
/// filter.end_of_cycle(&Cut { closed_at_ns: 25, ..Cut::first() }, &mut output).unwrap();
/// let gone = output.finish(0).unwrap().rows;
/// assert_eq!(gone.column(0).as_ref(), &Int64Array::from(vec![20]));
/// assert_eq!(gone.column(1).as_ref(), &Int64Array::from(vec![-1]));
/// ```
#[derive(Debug)]
pub struct TemporalFilter {
    spec: TemporalFilterSpec,
    input: Input,
    faults: FaultLog,
    /// The rows whose next moment is to come, in the order of these moments.
    kept: Partitions,
    codec: RowCodec,
    nothing: RowCodec,
    /// The latest closing time.
    reached_ns: i64,
    /// The next moment of all kept rows.
    next_ns: Option<i64>,
}

/// Rows, with what they add to the output.
struct Passed {
    changes: Changes,
    /// How many more times each row passes.
    passes: Vec<i64>,
}

impl TemporalFilter {
    /// Makes an instance without rows.
    ///
    /// # Errors
    /// If values of a column cannot be compared.
    pub fn new(spec: TemporalFilterSpec) -> Result<Self, Cause> {
        let moment = Field::new(MOMENT, moment_type(), false);
        let kept: Vec<_> = spec.schema.fields().iter().cloned().chain([Arc::new(moment)]).collect();
        let kept = Arc::new(Schema::new(kept));
        let by = OrderBy { column: spec.schema.fields().len(), descending: false, nulls_first: false };
        Ok(TemporalFilter {
            input: Input::new(&spec.schema, spec.changes),
            faults: FaultLog::default(),
            kept: Partitions::new(&kept, &[], &[by])?,
            codec: RowCodec::new(&spec.schema)?,
            nothing: RowCodec::ordered(Vec::new())?,
            reached_ns: i64::MIN,
            next_ns: None,
            spec,
        })
    }

    /// Reports rows that go more often than they came to this log.
    pub fn faults(mut self, log: FaultLog) -> Self {
        self.faults = log;
        self
    }

    /// The columns of its output: those of the rows, and the weight.
    pub fn output_schema(spec: &TemporalFilterSpec) -> SchemaRef {
        changelog_schema(&spec.schema)
    }

    /// Which rows pass at a time.
    fn passing(&self, rows: &RecordBatch, cut: &Cut, now_ns: i64) -> Result<BooleanArray, Cause> {
        let closed_at_ns = u64::try_from(now_ns).unwrap_or(0);
        let passing = self.spec.condition.evaluate(rows, &Cut { closed_at_ns, ..cut.clone() })?;
        passing.as_boolean_opt().cloned().ok_or_else(|| Cause::bug("a condition is not true or false"))
    }

    /// Keeps the rows whose next moment is to come.
    fn keep(&mut self, changes: &Changes, cut: &Cut) -> Result<(), Cause> {
        let rows = &changes.rows;
        let mut next: Vec<Option<i64>> = vec![None; rows.num_rows()];
        for moments in &self.spec.moments {
            let moments = moments.evaluate(rows, cut)?;
            let moments = moments.as_primitive_opt::<TimestampNanosecondType>();
            let moments = moments.ok_or_else(|| Cause::bug("a moment is not a timestamp in nanoseconds"))?;
            for (next, moment) in next.iter_mut().zip(moments) {
                if let Some(moment) = moment.filter(|moment| *moment > self.reached_ns) {
                    *next = Some(next.map_or(moment, |next| next.min(moment)));
                }
            }
        }
        let places = next.iter().enumerate().filter(|(_, moment)| moment.is_some());
        let places = UInt32Array::from_iter_values(places.map(|(row, _)| row as u32));
        if places.is_empty() {
            return Ok(());
        }
        let rows = take_record_batch(rows, &places)
            .map_err(|error| Cause::bug(error.to_string()).with_source(error))?;
        let weights = places.values().iter().map(|row| changes.weight(*row as usize)).collect();
        let moments = TimestampNanosecondArray::from_iter_values(next.into_iter().flatten());
        let columns = rows.columns().iter().cloned().chain([Arc::new(moments) as ArrayRef]).collect();
        let rows = batch(&self.kept.schema, columns, places.len())?;
        let placed = self.kept.place(&Changes { rows, weights: Some(weights) }, |_| false)?;
        self.kept.apply(&placed, cut.cycle, &self.faults);
        Ok(())
    }

    /// Takes out the rows whose next moment has come.
    fn due(&mut self, now_ns: i64) -> Result<Changes, Cause> {
        let now: ArrayRef = Arc::new(TimestampNanosecondArray::from_iter_values([now_ns]));
        let (mut columns, weights) = self.kept.take_up_to(ALL, &[now])?;
        columns.pop();
        let rows = batch(&self.spec.schema, columns, weights.len())?;
        Ok(Changes { rows, weights: Some(weights.into()) })
    }

    fn note_next(&mut self) -> Result<(), Cause> {
        let first = self.kept.first_order(ALL)?;
        let moments = first.as_ref().and_then(|first| first.first());
        let moments = moments.and_then(|moments| moments.as_primitive_opt::<TimestampNanosecondType>());
        self.next_ns = moments.map(|moments| moments.value(0));
        Ok(())
    }
}

fn moment_type() -> DataType {
    DataType::Timestamp(TimeUnit::Nanosecond, None)
}

impl Operator for TemporalFilter {
    fn rows(&mut self, _input: usize, rows: Rows<'_>, _output: &mut Output) -> Result<(), Cause> {
        self.input.push(&rows);
        Ok(())
    }

    fn end_of_cycle(&mut self, cut: &Cut, output: &mut Output) -> Result<(), Cause> {
        let before_ns = self.reached_ns;
        let now_ns = before_ns.max(i64::try_from(cut.closed_at_ns).unwrap_or(i64::MAX));
        self.reached_ns = now_ns;
        let mut all = Vec::new();
        if self.next_ns.is_some_and(|next_ns| next_ns <= now_ns) {
            let changes = self.due(now_ns)?;
            let before = self.passing(&changes.rows, cut, before_ns)?;
            let now = self.passing(&changes.rows, cut, now_ns)?;
            let passes = (0..changes.rows.num_rows()).map(|row| {
                let change = i64::from(is_true(&now, row)) - i64::from(is_true(&before, row));
                multiply(changes.weight(row), change)
            });
            let passes = passes.collect::<Result<_, Cause>>()?;
            self.keep(&changes, cut)?;
            all.push(Passed { changes, passes });
        }
        if let Some(changes) = self.input.take()? {
            let now = self.passing(&changes.rows, cut, now_ns)?;
            let passes = (0..changes.rows.num_rows())
                .map(|row| if is_true(&now, row) { changes.weight(row) } else { 0 });
            let passes = passes.collect();
            self.keep(&changes, cut)?;
            all.push(Passed { changes, passes });
        }
        if all.is_empty() {
            return Ok(());
        }
        let encoded = all.iter().map(|passed| self.codec.encode(passed.changes.rows.columns()));
        let encoded = encoded.collect::<Result<Vec<_>, Cause>>()?;
        let mut changes: Vec<((u32, u32), i64)> = Vec::new();
        for (of, passed) in all.iter().enumerate() {
            let passes = passed.passes.iter().enumerate().filter(|(_, passes)| **passes != 0);
            changes.extend(passes.map(|(row, passes)| ((of as u32, row as u32), *passes)));
        }
        let row = |(of, row): (u32, u32)| encoded[of as usize].row(row as usize);
        let head = Half { codec: &self.codec, row };
        write_changes(&changes, head, no_columns(&self.nothing), output)?;
        self.note_next()?;
        check_limit("a condition on now()", self.kept.len(), self.spec.rows_max)
    }

    fn next_clock_timer(&self) -> Option<u64> {
        self.next_ns.map(|next_ns| u64::try_from(next_ns).unwrap_or(0))
    }

    fn state_bytes(&self) -> usize {
        self.kept.memory()
    }

    fn snapshot(&self, writer: &mut SnapshotWriter) {
        writer.u8(VERSION);
        writer.i64(self.reached_ns);
        self.kept.snapshot(writer);
    }

    fn restore(&mut self, reader: &mut SnapshotReader<'_>) -> Result<(), Cause> {
        reader.version(VERSION)?;
        self.reached_ns = reader.i64()?;
        self.kept.restore(reader)?;
        self.note_next()
    }

    /// The rows that will come in or leave, each with the next moment at which it may.
    fn state_rows(&self) -> Result<Option<Vec<StateRows>>, Cause> {
        Ok(Some(vec![StateRows { kind: "rows", rows: self.kept.contents()? }]))
    }
}

fn is_true(values: &BooleanArray, row: usize) -> bool {
    values.is_valid(row) && values.value(row)
}
