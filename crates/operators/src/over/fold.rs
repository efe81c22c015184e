//! Running aggregates that combine values pairwise: count, sum, avg.

use std::collections::VecDeque;
use std::fmt::Debug;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, BooleanArray, RecordBatch};
use arrow_buffer::NullBuffer;
use arrow_schema::DataType;
use tidemill_core::error::Cause;
use tidemill_core::{SnapshotReader, SnapshotWriter};

use super::frame::Coordinates;
use super::function::{Input, RunningFunction, Step};
use super::spec::Frame;
use crate::failed_results::described;

/// How values are combined.
pub(super) trait Fold: Send + Debug {
    /// A value, or several values combined.
    type State: Copy + Send + Debug;

    /// The state of each value; the states of NULLs are irrelevant.
    fn states(&self, column: Option<&ArrayRef>, rows: usize) -> Result<Vec<Self::State>, Cause>;

    /// Combines two states, the earlier one first.
    fn combine(&self, earlier: Self::State, later: Self::State) -> Result<Self::State, Cause>;

    /// The column of the results; `None` if the frame has no value.
    fn finish(&self, results: &[Option<Self::State>]) -> Result<ArrayRef, Cause>;

    fn write(&self, state: Self::State, writer: &mut SnapshotWriter);

    fn read(&self, reader: &mut SnapshotReader<'_>) -> Result<Self::State, Cause>;

    /// Reads what the first version of the snapshot's format has.
    fn read_older(&self, reader: &mut SnapshotReader<'_>) -> Result<Self::State, Cause> {
        self.read(reader)
    }
}

/// How the state of values is read.
type Read<'a, S> = &'a dyn Fn(&mut SnapshotReader<'_>) -> Result<S, Cause>;

/// What the coordinates of a frame take for each key.
const COORDINATE_BYTES: usize = size_of::<u64>();
/// For so many values room is taken at first.
const VALUES_AT_ONCE: usize = 4;

/// A running aggregate.
#[derive(Debug)]
pub(super) struct RunningFold<F: Fold> {
    fold: F,
    /// The type of its results.
    data_type: DataType,
    input: Input,
    coordinates: Coordinates,
    keys: Vec<Frontier<F::State>>,
    rows_held: usize,
}

/// The values of a key in its frame. Both ends only move forward, so the values are held as two stacks. The first has
/// the older values, each with the combination of all values up to the youngest of this stack. The second has the
/// younger values and their combination. Each value is combined at most three times, and no result is ever subtracted,
/// which floats do not allow.
#[derive(Debug)]
struct Frontier<S> {
    /// Coordinate, and this value combined with all before it in this vector; the oldest value is the last.
    older: Vec<(i64, S)>,
    younger: VecDeque<(i64, S)>,
    younger_together: Option<S>,
}

impl<F: Fold> RunningFold<F> {
    pub fn new(fold: F, data_type: DataType, input: Input) -> Self {
        RunningFold {
            fold,
            data_type,
            input,
            coordinates: Coordinates::new(input.frame),
            keys: Vec::new(),
            rows_held: 0,
        }
    }
}

impl<F: Fold> RunningFold<F> {
    /// Reads the state of all keys.
    fn frontiers(
        &mut self,
        reader: &mut SnapshotReader<'_>,
        read: impl Fn(&F, &mut SnapshotReader<'_>) -> Result<F::State, Cause>,
    ) -> Result<Vec<Frontier<F::State>>, Cause> {
        self.coordinates.restore(reader)?;
        let mut keys = Vec::new();
        for _ in 0..reader.u64()? {
            let frontier = Frontier::restore(&|reader| read(&self.fold, reader), reader)?;
            self.rows_held += frontier.len();
            keys.push(frontier);
        }
        Ok(keys)
    }
}

impl<F: Fold> RunningFunction for RunningFold<F> {
    fn append(&mut self, step: &Step<'_>) -> Result<ArrayRef, Cause> {
        let column = self.input.column.map(|column| step.rows.column(column));
        let states = self.fold.states(column, step.keys.len())?;
        let counts = counting(step.rows, self.input);
        self.keys.resize_with(step.key_count, Frontier::default);
        self.coordinates.resize(step.key_count);
        let is_bounded = self.coordinates.is_bounded();
        let mut results = Vec::with_capacity(states.len());
        for (row, (key, state)) in step.keys.iter().zip(states).enumerate() {
            let (coordinate, least) = self.coordinates.next(step, row);
            let frontier = &mut self.keys[*key as usize];
            let does_count = counts.as_ref().is_none_or(|counts| counts.is_valid(row));
            if is_bounded {
                let held = frontier.len();
                frontier.expire(least, &self.fold)?;
                if does_count {
                    frontier.younger.push_back((coordinate, state));
                }
                self.rows_held = self.rows_held + frontier.len() - held;
            }
            if does_count {
                frontier.younger_together = join(&self.fold, frontier.younger_together, Some(state))?;
            }
            let older = frontier.older.last().map(|(_, together)| *together);
            results.push(join(&self.fold, older, frontier.younger_together)?);
        }
        let results = match self.input.frame {
            Frame::Rows { .. } => results,
            Frame::Range { .. } => step.frame_ends().map(|row| results[row]).collect(),
        };
        step.failed.column(
            results.len(),
            &self.data_type,
            |rows| self.fold.finish(&results[rows]),
            |row, reason| {
                let schema = step.rows.schema();
                let names = schema.fields().iter().map(|field| field.name());
                let of = described(step.rows.columns().iter().zip(names), row);
                format!("a running result is NULL{of}, cycle {}: {reason}", step.cycle)
            },
        )
    }

    fn rows_held(&self) -> usize {
        self.rows_held
    }

    fn bytes(&self, _keys: usize) -> usize {
        let of_key = size_of::<Frontier<F::State>>() + COORDINATE_BYTES;
        let of_value = size_of::<(i64, F::State)>();
        // A frame that is bounded keeps values of each key, for which room is taken several at a time.
        let of_values = if self.coordinates.is_bounded() {
            self.keys.len() * VALUES_AT_ONCE * of_value + self.rows_held * of_value
        } else {
            0
        };
        self.keys.capacity() * of_key + of_values
    }

    fn snapshot(&self, writer: &mut SnapshotWriter) {
        self.coordinates.snapshot(writer);
        writer.u64(self.keys.len() as u64);
        for frontier in &self.keys {
            frontier.snapshot(&self.fold, writer);
        }
    }

    fn restore(&mut self, reader: &mut SnapshotReader<'_>) -> Result<(), Cause> {
        self.keys = self.frontiers(reader, |fold, reader| fold.read(reader))?;
        Ok(())
    }

    fn restore_older(&mut self, reader: &mut SnapshotReader<'_>) -> Result<(), Cause> {
        self.keys = self.frontiers(reader, |fold, reader| fold.read_older(reader))?;
        Ok(())
    }
}

/// Which rows count: those whose value is not NULL and whose filter is true; `None`: all.
pub(super) fn counting(rows: &RecordBatch, input: Input) -> Option<NullBuffer> {
    let values = input.column.and_then(|column| rows.column(column).logical_nulls());
    let passed = input.filter.map(|filter| is_true(rows.column(filter).as_boolean()));
    NullBuffer::union(values.as_ref(), passed.as_ref()).filter(|counts| counts.null_count() > 0)
}

fn is_true(filter: &BooleanArray) -> NullBuffer {
    let values = NullBuffer::new(filter.values().clone());
    NullBuffer::union(Some(&values), filter.nulls()).unwrap_or(values)
}

fn join<F: Fold>(
    fold: &F,
    earlier: Option<F::State>,
    later: Option<F::State>,
) -> Result<Option<F::State>, Cause> {
    match (earlier, later) {
        (Some(earlier), Some(later)) => fold.combine(earlier, later).map(Some),
        (one, other) => Ok(one.or(other)),
    }
}

impl<S> Default for Frontier<S> {
    fn default() -> Self {
        Frontier { older: Vec::new(), younger: VecDeque::new(), younger_together: None }
    }
}

impl<S: Copy> Frontier<S> {
    fn len(&self) -> usize {
        self.older.len() + self.younger.len()
    }

    /// Drops the values before a coordinate.
    fn expire<F: Fold<State = S>>(&mut self, least: i64, fold: &F) -> Result<(), Cause> {
        while self.older.last().is_some_and(|(coordinate, _)| *coordinate < least) {
            self.older.pop();
        }
        if self.older.is_empty() && self.younger.front().is_some_and(|(coordinate, _)| *coordinate < least) {
            while self.younger.front().is_some_and(|(coordinate, _)| *coordinate < least) {
                self.younger.pop_front();
            }
            let mut together = None;
            for (coordinate, state) in self.younger.drain(..).rev() {
                let joined = match together {
                    Some(later) => fold.combine(state, later)?,
                    None => state,
                };
                together = Some(joined);
                self.older.push((coordinate, joined));
            }
            self.younger_together = None;
        }
        Ok(())
    }

    fn snapshot<F: Fold<State = S>>(&self, fold: &F, writer: &mut SnapshotWriter) {
        writer.u64(self.older.len() as u64);
        writer.u64(self.younger.len() as u64);
        for (coordinate, state) in self.older.iter().chain(&self.younger) {
            writer.i64(*coordinate);
            fold.write(*state, writer);
        }
        writer.u8(u8::from(self.younger_together.is_some()));
        if let Some(together) = self.younger_together {
            fold.write(together, writer);
        }
    }

    fn restore(read: Read<'_, S>, reader: &mut SnapshotReader<'_>) -> Result<Self, Cause> {
        let mut frontier = Frontier::default();
        let (older, younger) = (reader.u64()?, reader.u64()?);
        for _ in 0..older {
            frontier.older.push((reader.i64()?, read(reader)?));
        }
        for _ in 0..younger {
            frontier.younger.push_back((reader.i64()?, read(reader)?));
        }
        if reader.u8()? != 0 {
            frontier.younger_together = Some(read(reader)?);
        }
        Ok(frontier)
    }
}
