//! Functions over the ordered rows of each partition of a relation that may change.

use std::sync::Arc;

use arrow_array::{Array, new_empty_array};
use arrow_schema::{Field, Schema, SchemaRef, SortOptions};
use tidemill_core::error::Cause;
use tidemill_core::{Cut, FaultLog, Operator, Output, PartitionFunction, Rows};
use tidemill_core::{SnapshotReader, SnapshotWriter, StateRows};

use super::changelog_schema;
use super::input::Input;
use super::output::{Half, write_changes};
use super::partitions::Partitions;
use crate::encoded_rows::{Encoded, RowBytes, RowCodec};
use crate::state_rows::batch;
use crate::stored_rows::check_limit;
use crate::top::OrderBy;

const VERSION: u8 = 1;

/// What to compute.
#[derive(Clone, Debug)]
pub struct WindowedSpec {
    /// The columns of the rows, without the weight.
    pub schema: SchemaRef,
    /// Whether the input has weights.
    pub changes: bool,
    /// The columns of `PARTITION BY`; NULL is a value like any other.
    pub partition: Vec<usize>,
    /// The order within a partition. The rest of the row decides ties.
    pub order: Vec<OrderBy>,
    /// The functions, each of which adds a column. They see the rows of one partition in order, each as many times as it is
    /// there.
    pub functions: Vec<Arc<dyn PartitionFunction>>,
    /// The names of the functions' columns.
    pub names: Vec<String>,
    /// The largest number of different rows that a partition of the operator holds.
    pub rows_max: usize,
}

/// Keeps the rows of each partition in order, computes functions for the partitions that a cycle has changed, and writes
/// the rows whose results are others. A change costs its partition.
///
/// ```
/// use std::sync::Arc;
/// use tidemill_core::arrow::array::{ArrayRef, Int64Array, RecordBatch};
/// use tidemill_core::arrow::schema::DataType;
/// use tidemill_core::{Batch, Cause, Cut, Operator, Output, PartitionFunction};
/// use tidemill_operators::changes::{Windowed, WindowedSpec};
/// use tidemill_operators::top::OrderBy;
///
/// /// `count(*) OVER ()`.
/// #[derive(Debug)]
/// struct Rows;
///
/// impl PartitionFunction for Rows {
///     fn data_type(&self) -> DataType { DataType::Int64 }
///     fn evaluate(&self, partition: &RecordBatch) -> Result<ArrayRef, Cause> {
///         let rows = partition.num_rows();
///         Ok(Arc::new(Int64Array::from(vec![rows as i64; rows])))
///     }
/// }
///
/// let rows = |values: Vec<i64>| {
///     let rows = RecordBatch::try_from_iter([("a", Arc::new(Int64Array::from(values)) as ArrayRef)]).unwrap();
///     let positions = (0..rows.num_rows() as u32).collect();
///     Batch::from_source(rows, positions)
/// };
/// let spec = WindowedSpec {
///     schema: rows(vec![]).rows.schema(),
///     changes: false,
///     partition: vec![0],
///     order: vec![OrderBy { column: 0, descending: false, nulls_first: true }],
///     functions: vec![Arc::new(Rows)],
///     names: vec!["rows".into()],
///     rows_max: 1000,
/// };
/// let mut output = Output::new(&[Windowed::output_schema(&spec)]);
/// let mut windowed = Windowed::new(spec).unwrap();
/// let mut changes = |values| {
///     windowed.rows(0, rows(values).as_rows(), &mut output).unwrap();
///     windowed.end_of_cycle(&Cut::first(), &mut output).unwrap();
///     output.finish(0).unwrap().rows
/// };
/// assert_eq!(changes(vec![7, 8]).column(1).as_ref(), &Int64Array::from(vec![1, 1]));
/// let changed = changes(vec![7]); // (7, 1) goes, and (7, 2) comes twice
/// assert_eq!(changed.column(1).as_ref(), &Int64Array::from(vec![1, 2]));
/// assert_eq!(changed.column(2).as_ref(), &Int64Array::from(vec![-1, 2]));
/// ```
#[derive(Debug)]
pub struct Windowed {
    spec: WindowedSpec,
    input: Input,
    faults: FaultLog,
    partitions: Partitions,
    results: RowCodec,
}

/// The rows of a partition with their results.
struct Evaluated {
    /// The rows that are there, one after the other.
    bytes: Vec<u8>,
    rows: Vec<EvaluatedRow>,
    results: Encoded,
    /// For each copy of a row, the number of the row.
    copies: Vec<u32>,
}

struct EvaluatedRow {
    start: usize,
    middle: usize,
    end: usize,
}

impl Evaluated {
    fn row(&self, copy: usize) -> RowBytes<'_> {
        let row = &self.rows[self.copies[copy] as usize];
        let identity = &self.bytes[row.start..row.middle];
        let spelling = if row.middle == row.end { identity } else { &self.bytes[row.middle..row.end] };
        RowBytes { identity, spelling }
    }

    /// Whether a copy of a row and its results are those of another list.
    fn is_same(&self, copy: usize, other: &Evaluated, of_other: usize) -> bool {
        self.row(copy).identity == other.row(of_other).identity
            && self.results.row(copy).identity == other.results.row(of_other).identity
    }
}

impl Windowed {
    /// Makes an instance without rows.
    ///
    /// # Errors
    /// If values of a column cannot be compared, or a name is missing.
    pub fn new(spec: WindowedSpec) -> Result<Self, Cause> {
        if spec.names.len() != spec.functions.len() {
            let (functions, names) = (spec.functions.len(), spec.names.len());
            return Err(Cause::bug(format!("{functions} functions over partitions got {names} names")));
        }
        let types = spec.functions.iter().map(|function| (function.data_type(), SortOptions::default()));
        Ok(Windowed {
            input: Input::new(&spec.schema, spec.changes),
            faults: FaultLog::default(),
            partitions: Partitions::new(&spec.schema, &spec.partition, &spec.order)?,
            results: RowCodec::ordered(types.collect())?,
            spec,
        })
    }

    /// Reports rows that go more often than they came to this log.
    pub fn faults(mut self, log: FaultLog) -> Self {
        self.faults = log;
        self
    }

    /// The columns of its output: those of the rows, one per function, and the weight.
    pub fn output_schema(spec: &WindowedSpec) -> SchemaRef {
        let results = spec.functions.iter().zip(&spec.names);
        let results = results.map(|(function, name)| Arc::new(Field::new(name, function.data_type(), true)));
        let fields = spec.schema.fields().iter().cloned().chain(results).collect::<Vec<_>>();
        changelog_schema(&Arc::new(Schema::new(fields)))
    }

    fn evaluate(&self, group: u32) -> Result<Evaluated, Cause> {
        let (mut bytes, mut rows, mut copies) = (Vec::new(), Vec::new(), Vec::new());
        for (place, weight) in self.partitions.of(group) {
            let start = bytes.len();
            bytes.extend_from_slice(place.identity());
            let middle = bytes.len();
            let spelling = self.partitions.spelling(group, place);
            if spelling != place.identity() {
                bytes.extend_from_slice(spelling);
            }
            copies.extend(std::iter::repeat_n(rows.len() as u32, weight.unsigned_abs() as usize));
            rows.push(EvaluatedRow { start, middle, end: bytes.len() });
        }
        let row = |row: &u32| -> &[u8] {
            let row: &EvaluatedRow = &rows[*row as usize];
            if row.middle == row.end { &bytes[row.start..row.middle] } else { &bytes[row.middle..row.end] }
        };
        let count = copies.len();
        let columns = self.partitions.codec.decode(copies.iter().map(row))?;
        let partition = batch(&self.spec.schema, columns, count)?;
        let column = |function: &Arc<dyn PartitionFunction>| match count {
            0 => Ok(new_empty_array(&function.data_type())),
            _ => function.evaluate(&partition),
        };
        let columns = self.spec.functions.iter().map(column).collect::<Result<Vec<_>, Cause>>()?;
        if let Some(wrong) = columns.iter().find(|column| column.len() != count) {
            let values = wrong.len();
            return Err(Cause::bug(format!("a function of {count} rows returned {values} values")));
        }
        let results = self.results.encode(&columns)?;
        Ok(Evaluated { bytes, rows, results, copies })
    }
}

impl Operator for Windowed {
    fn rows(&mut self, _input: usize, rows: Rows<'_>, _output: &mut Output) -> Result<(), Cause> {
        self.input.push(&rows);
        Ok(())
    }

    fn end_of_cycle(&mut self, cut: &Cut, output: &mut Output) -> Result<(), Cause> {
        let Some(given) = self.input.take()? else { return Ok(()) };
        let placed = self.partitions.place(&given, |_| false)?;
        let groups = placed.groups();
        let evaluate = |group: &u32| self.evaluate(*group);
        let mut lists = groups.iter().map(evaluate).collect::<Result<Vec<_>, Cause>>()?;
        self.partitions.apply(&placed, cut.cycle, &self.faults);
        for group in &groups {
            lists.push(self.evaluate(*group)?);
        }
        let mut changes = Vec::new();
        for old in 0..groups.len() {
            differences(&lists, old, groups.len() + old, &mut changes);
        }
        let list = |(list, _): (u32, u32)| &lists[list as usize];
        let row = |change: (u32, u32)| list(change).row(change.1 as usize);
        let result = |change: (u32, u32)| list(change).results.row(change.1 as usize);
        let head = Half { codec: &self.partitions.codec, row };
        write_changes(&changes, head, Half { codec: &self.results, row: result }, output)?;
        self.partitions.release(&groups);
        check_limit("a window function", self.partitions.len(), self.spec.rows_max)
    }

    fn state_bytes(&self) -> usize {
        self.partitions.memory()
    }

    fn snapshot(&self, writer: &mut SnapshotWriter) {
        writer.u8(VERSION);
        self.partitions.snapshot(writer);
    }

    fn restore(&mut self, reader: &mut SnapshotReader<'_>) -> Result<(), Cause> {
        reader.version(VERSION)?;
        self.partitions.restore(reader)
    }

    /// All rows.
    fn state_rows(&self) -> Result<Option<Vec<StateRows>>, Cause> {
        Ok(Some(vec![StateRows { kind: "rows", rows: self.partitions.contents()? }]))
    }
}

/// Adds the rows of an old list that go and those of a new one that come, without those at the beginning and at the end that
/// stay. A change is a list and a row of it.
fn differences(lists: &[Evaluated], old: usize, new: usize, changes: &mut Vec<((u32, u32), i64)>) {
    let (before, now) = (&lists[old], &lists[new]);
    let shorter = before.copies.len().min(now.copies.len());
    let first = (0..shorter).take_while(|copy| before.is_same(*copy, now, *copy)).count();
    let (old_end, new_end) = (before.copies.len(), now.copies.len());
    let is_same = |back: &usize| before.is_same(old_end - 1 - back, now, new_end - 1 - back);
    let last = (0..shorter - first).take_while(is_same).count();
    changes.extend((first..old_end - last).map(|copy| ((old as u32, copy as u32), -1)));
    changes.extend((first..new_end - last).map(|copy| ((new as u32, copy as u32), 1)));
}
