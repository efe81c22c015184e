//! The interface of running functions: a column for each batch of rows, and state by key.

use std::fmt::Debug;

use arrow_array::{ArrayRef, RecordBatch, UInt32Array};
use arrow_schema::{DataType, Field, Schema};
use arrow_select::take::take;
use tidemill_core::error::Cause;
use tidemill_core::{SnapshotReader, SnapshotWriter};

use super::dense_rank::DenseRank;
use super::lag::Lag;
use super::last_value::LastValue;
use super::nth_value::NthValue;
use super::rank::Rank;
use super::row_number::RowNumber;
use super::spec::{Frame, Function, FunctionSpec, RunningAggregate};
use super::{avg, count, extreme, sum};
use crate::failed_results::FailedResults;
use crate::stored_rows::kernel_error;

/// A function with its state.
pub(super) trait RunningFunction: Send + Debug {
    /// Its results for these rows, which follow those of earlier calls.
    fn append(&mut self, step: &Step<'_>) -> Result<ArrayRef, Cause>;

    /// The number of rows that it holds, besides one state for each key.
    fn rows_held(&self) -> usize {
        0
    }

    /// Writes its state.
    fn snapshot(&self, writer: &mut SnapshotWriter);

    /// Reads its state into a fresh function.
    fn restore(&mut self, reader: &mut SnapshotReader<'_>) -> Result<(), Cause>;
}

/// Rows in event-time order.
pub(super) struct Step<'a> {
    pub rows: &'a RecordBatch,
    /// The number of each row's key.
    pub keys: &'a [u32],
    /// The number of keys so far.
    pub key_count: usize,
    pub times: &'a [i64],
    /// What happens to results that cannot be represented.
    pub failed: &'a FailedResults,
    pub cycle: u64,
    /// For each row the last one with the same key and event time; only if some function needs it.
    peer_last: UInt32Array,
}

impl<'a> Step<'a> {
    pub fn new(
        rows: &'a RecordBatch,
        keys: &'a [u32],
        key_count: usize,
        times: &'a [i64],
        failed: &'a FailedResults,
        cycle: u64,
    ) -> Self {
        Step { rows, keys, key_count, times, failed, cycle, peer_last: Vec::<u32>::new().into() }
    }

    /// Adds what `RANGE` needs to know about rows with equal event time.
    pub fn with_peers(mut self) -> Self {
        self.peer_last = peer_last(self.keys, self.times).into();
        self
    }

    /// For each row the row that ends its frame: for `RANGE`, the last one with equal event time.
    pub fn frame_ends(&self) -> impl Iterator<Item = usize> {
        self.peer_last.values().iter().map(|row| *row as usize)
    }

    /// The column at the end of the frame: for `RANGE` the last row with equal event time, so that all of these have
    /// the same result.
    pub fn at_frame_end(&self, column: ArrayRef, frame: Frame) -> Result<ArrayRef, Cause> {
        match frame {
            Frame::Rows { .. } => Ok(column),
            Frame::Range { .. } => take(&column, &self.peer_last, None).map_err(kernel_error),
        }
    }
}

fn peer_last(keys: &[u32], times: &[i64]) -> Vec<u32> {
    let mut last: Vec<u32> = (0..keys.len() as u32).collect();
    let mut peers = Vec::new();
    let mut start = 0;
    for of_time in times.chunk_by(|a, b| a == b) {
        let end = start + of_time.len();
        if of_time.len() > 1 {
            peers.clear();
            peers.extend((start..end).map(|row| (keys[row], row as u32)));
            peers.sort_unstable();
            for of_key in peers.chunk_by(|a, b| a.0 == b.0) {
                of_key.iter().for_each(|(_, row)| last[*row as usize] = of_key[of_key.len() - 1].1);
            }
        }
        start = end;
    }
    last
}

/// The output column of a function.
pub(super) fn result_field(spec: &FunctionSpec, schema: &Schema) -> Result<Field, Cause> {
    let of = |column: usize| schema.field(column).data_type().clone();
    let (data_type, nullable) = match &spec.function {
        Function::RowNumber | Function::Rank | Function::DenseRank => (DataType::UInt64, false),
        Function::Lag { column, .. }
        | Function::FirstValue { column, .. }
        | Function::LastValue { column, .. }
        | Function::NthValue { column, .. } => (of(*column), true),
        Function::Aggregate { aggregate, column, .. } => {
            let argument = column.map(of);
            match aggregate {
                RunningAggregate::Count => (DataType::Int64, false),
                RunningAggregate::Sum => (sum::result_type(&wanted(argument)?)?, true),
                RunningAggregate::Avg => (avg::result_type(&wanted(argument)?)?, true),
                RunningAggregate::Min | RunningAggregate::Max => (wanted(argument)?, true),
            }
        }
    };
    Ok(Field::new(&spec.name, data_type, nullable))
}

/// A fresh function.
pub(super) fn make(function: &Function, schema: &Schema) -> Result<Box<dyn RunningFunction>, Cause> {
    let of = |column: usize| schema.field(column).data_type().clone();
    Ok(match function {
        Function::RowNumber => Box::new(RowNumber::default()),
        Function::Rank => Box::new(Rank::default()),
        Function::DenseRank => Box::new(DenseRank::default()),
        Function::Lag { column, rows, default } => {
            Box::new(Lag::new(*column, &of(*column), *rows, default.clone())?)
        }
        Function::FirstValue { column, frame } => Box::new(NthValue::new(*column, &of(*column), 1, *frame)?),
        Function::NthValue { column, n, frame } => {
            Box::new(NthValue::new(*column, &of(*column), *n, *frame)?)
        }
        Function::LastValue { column, frame } => Box::new(LastValue::new(*column, *frame)),
        Function::Aggregate { aggregate, column, filter, frame } => {
            let argument = column.map(of);
            let input = Input { column: *column, filter: *filter, frame: *frame };
            match aggregate {
                RunningAggregate::Count => count::make(input),
                RunningAggregate::Sum => sum::make(input, &wanted(argument)?)?,
                RunningAggregate::Avg => avg::make(input, &wanted(argument)?)?,
                RunningAggregate::Min => extreme::make(input, &wanted(argument)?, false)?,
                RunningAggregate::Max => extreme::make(input, &wanted(argument)?, true)?,
            }
        }
    })
}

fn wanted(argument: Option<DataType>) -> Result<DataType, Cause> {
    argument.ok_or_else(|| Cause::Bug("only COUNT has no argument".into()))
}

/// The column, filter and frame of an aggregate.
#[derive(Clone, Copy, Debug)]
pub(super) struct Input {
    pub column: Option<usize>,
    pub filter: Option<usize>,
    pub frame: Frame,
}
