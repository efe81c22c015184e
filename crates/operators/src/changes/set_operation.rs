//! `INTERSECT` and `EXCEPT` of two relations that may change.

use arrow_schema::SchemaRef;
use tidemill_core::error::Cause;
use tidemill_core::{Cut, FaultLog, Operator, Output, Rows};
use tidemill_core::{SnapshotReader, SnapshotWriter, StateRows};

use super::input::{Changes, Input, add, report_missing};
use super::output::{Half, no_columns, write_changes};
use super::{changelog_schema, weighted_batch};
use crate::encoded_rows::{Interned, RowCodec, RowTable};
use crate::state::damaged;
use crate::stored_rows::{check_limit, read_rows, write_rows};

const VERSION: u8 = 1;

/// Which rows of two relations stay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetOperationKind {
    /// Rows of both, once.
    Intersect,
    /// Rows of both, as often as in the one that has fewer.
    IntersectAll,
    /// Rows of the first that the second does not have, once.
    Except,
    /// Rows of the first as often as it has more than the second.
    ExceptAll,
}

/// What to compute: input 0 brings the changes of the first relation, input 1 those of the second.
#[derive(Clone, Debug)]
pub struct SetOperationSpec {
    /// The columns of both relations, without weights. The first one's names count.
    pub schema: SchemaRef,
    /// Which rows stay.
    pub kind: SetOperationKind,
    /// Whether the first input has weights.
    pub left_changes: bool,
    /// Whether the second input has weights.
    pub right_changes: bool,
    /// The largest number of different rows that a partition holds.
    pub rows_max: usize,
}

/// Counts the rows of two relations, and writes what changes of their intersection or difference.
///
/// ```
/// use std::sync::Arc;
/// use tidemill_core::arrow::array::{ArrayRef, Int64Array, RecordBatch};
/// use tidemill_core::{Batch, Cut, Operator, Output};
/// use tidemill_operators::changes::{SetOperation, SetOperationKind, SetOperationSpec};
///
/// let rows = |values: Vec<i64>| {
///     let rows = RecordBatch::try_from_iter([("a", Arc::new(Int64Array::from(values)) as ArrayRef)]).unwrap();
///     let positions = (0..rows.num_rows() as u32).collect();
///     Batch::from_source(rows, positions)
/// };
/// let spec = SetOperationSpec {
///     schema: rows(vec![]).rows.schema(),
///     kind: SetOperationKind::ExceptAll,
///     left_changes: false,
///     right_changes: false,
///     rows_max: 1000,
/// };
/// let mut output = Output::new(&[SetOperation::output_schema(&spec)]);
/// let mut except = SetOperation::new(spec).unwrap();
/// except.rows(0, rows(vec![1, 2, 2, 2]).as_rows(), &mut output).unwrap();
/// except.rows(1, rows(vec![1, 2]).as_rows(), &mut output).unwrap();
/// except.end_of_cycle(&Cut::first(), &mut output).unwrap();
/// let left = output.finish(0).unwrap().rows; // 2, twice
/// assert_eq!(left.column(0).as_ref(), &Int64Array::from(vec![2]));
/// assert_eq!(left.column(1).as_ref(), &Int64Array::from(vec![2]));
/// ```
#[derive(Debug)]
pub struct SetOperation {
    spec: SetOperationSpec,
    codec: RowCodec,
    nothing: RowCodec,
    inputs: [Input; 2],
    faults: FaultLog,
    rows: RowTable,
    /// For each row, how many times each relation has it.
    counts: Vec<[i64; 2]>,
    is_touched: Vec<bool>,
    /// For each row that is touched, whether it came in this cycle.
    is_new: Vec<bool>,
}

impl SetOperation {
    /// Makes an instance without rows.
    ///
    /// # Errors
    /// If values of a column cannot be compared.
    pub fn new(spec: SetOperationSpec) -> Result<Self, Cause> {
        let inputs = [spec.left_changes, spec.right_changes].map(|changes| Input::new(&spec.schema, changes));
        Ok(SetOperation {
            codec: RowCodec::new(&spec.schema)?,
            nothing: RowCodec::ordered(Vec::new())?,
            inputs,
            faults: FaultLog::default(),
            rows: RowTable::indexed(),
            counts: Vec::new(),
            is_touched: Vec::new(),
            is_new: Vec::new(),
            spec,
        })
    }

    /// Reports rows that go more often than they came to this log.
    pub fn faults(mut self, log: FaultLog) -> Self {
        self.faults = log;
        self
    }

    /// The columns of its output: those of the relations, and the weight.
    pub fn output_schema(spec: &SetOperationSpec) -> SchemaRef {
        changelog_schema(&spec.schema)
    }

    fn result(&self, [left, right]: [i64; 2]) -> i64 {
        match self.spec.kind {
            SetOperationKind::Intersect => left.min(right).min(1),
            SetOperationKind::IntersectAll => left.min(right),
            SetOperationKind::Except => i64::from(left > 0 && right == 0),
            SetOperationKind::ExceptAll => (left - right).max(0),
        }
    }

    /// Adds changes of an input, and notes the rows that were not touched before with their counts.
    fn apply(
        &mut self,
        input: usize,
        changes: &Changes,
        touched: &mut Vec<(u32, [i64; 2])>,
    ) -> Result<(), Cause> {
        let encoded = self.codec.encode(changes.rows.columns())?;
        let interned = self.rows.intern_all(&encoded, changes.rows.num_rows());
        self.counts.resize(self.rows.numbers(), [0, 0]);
        self.is_touched.resize(self.rows.numbers(), false);
        self.is_new.resize(self.rows.numbers(), false);
        for (row, Interned { number, is_new }) in interned.into_iter().enumerate() {
            let index = number as usize;
            if is_new {
                self.counts[index] = [0, 0];
            }
            if !std::mem::replace(&mut self.is_touched[index], true) {
                touched.push((number, self.counts[index]));
                self.is_new[index] = is_new;
            } else if self.is_new[index] {
                self.rows.respell(number, encoded.row(row));
            }
            self.counts[index][input] = add(self.counts[index][input], changes.weight(row))?;
        }
        Ok(())
    }
}

impl Operator for SetOperation {
    fn rows(&mut self, input: usize, rows: Rows<'_>, _output: &mut Output) -> Result<(), Cause> {
        self.inputs[input.min(1)].push(&rows);
        Ok(())
    }

    fn end_of_cycle(&mut self, cut: &Cut, output: &mut Output) -> Result<(), Cause> {
        let mut touched = Vec::new();
        for input in 0..2 {
            if let Some(changes) = self.inputs[input].take()? {
                self.apply(input, &changes, &mut touched)?;
            }
        }
        let mut changes = Vec::new();
        for (number, before) in &touched {
            let index = *number as usize;
            self.is_touched[index] = false;
            if self.counts[index].iter().any(|count| *count < 0) {
                self.counts[index] = self.counts[index].map(|count| count.max(0));
                let row = self.rows.row(*number);
                report_missing(&self.faults, &self.codec, &self.spec.schema, row, cut.cycle);
            }
            let change = self.result(self.counts[index]) - self.result(*before);
            if change != 0 {
                changes.push((*number, change));
            }
        }
        let rows = &self.rows;
        let head = Half { codec: &self.codec, row: |number| rows.row(number) };
        write_changes(&changes, head, no_columns(&self.nothing), output)?;
        let is_gone = |number: &u32| self.counts[*number as usize] == [0, 0];
        let gone: Vec<u32> = touched.iter().map(|(number, _)| *number).filter(is_gone).collect();
        self.rows.remove_all(&gone);
        check_limit("INTERSECT or EXCEPT", self.rows.len(), self.spec.rows_max)
    }

    fn state_bytes(&self) -> usize {
        self.rows.memory() + (size_of::<[i64; 2]>() + 2) * self.counts.capacity()
    }

    fn snapshot(&self, writer: &mut SnapshotWriter) {
        writer.u8(VERSION);
        let all: Vec<u32> = self.rows.all().collect();
        let left = |number: u32| self.counts[number as usize][0];
        write_rows(writer, weighted_batch(&self.spec.schema, &self.codec, &self.rows, &all, left).ok());
        all.iter().for_each(|number| writer.i64(self.counts[*number as usize][1]));
    }

    fn restore(&mut self, reader: &mut SnapshotReader<'_>) -> Result<(), Cause> {
        reader.version(VERSION)?;
        let rows = read_rows(reader, &changelog_schema(&self.spec.schema))?;
        let changes = Changes::weighted(&self.spec.schema, rows)?;
        self.apply(0, &changes, &mut Vec::new())?;
        if self.counts.len() != changes.rows.num_rows() {
            return Err(damaged("a row occurs twice"));
        }
        for counts in &mut self.counts {
            counts[1] = reader.i64()?;
        }
        self.is_touched.fill(false);
        Ok(())
    }

    /// The rows of each relation with how many times it has them.
    fn state_rows(&self) -> Result<Option<Vec<StateRows>>, Cause> {
        let rows = |kind: &'static str, side: usize| -> Result<StateRows, Cause> {
            let count = |number: u32| self.counts[number as usize][side];
            let all: Vec<u32> = self.rows.all().filter(|number| count(*number) > 0).collect();
            let rows = weighted_batch(&self.spec.schema, &self.codec, &self.rows, &all, count)?;
            Ok(StateRows { kind, rows })
        };
        Ok(Some(vec![rows("left", 0)?, rows("right", 1)?]))
    }
}
