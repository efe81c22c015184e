//! Joins of two relations that may both change.

mod kind;
mod side;

use std::sync::Arc;

use arrow_array::{ArrayRef, BooleanArray};
use arrow_schema::{DataType, SchemaRef, SortOptions};
use tidemill_core::error::Cause;
use tidemill_core::{Cut, Expression, FaultLog, Operator, Output, Rows};
use tidemill_core::{SnapshotReader, SnapshotWriter, StateRows};

use kind::{Alone, LEFT, RIGHT};
use side::{Counted, Side};

use super::input::multiply;
use super::output::{Half, write_changes};
use crate::encoded_rows::{Encoded, RowBytes, RowCodec};
use crate::join::{JoinKind, condition, joined_schema};
use crate::keys::{KeyTable, NO_KEY};
use crate::state_rows::batch;
use crate::stored_rows::check_limit;

pub use kind::ChangingJoinKind;

const VERSION: u8 = 1;

/// The most pairs for which the additional condition is evaluated at a time.
const PIECE_PAIRS: usize = 8192;

/// With fewer keys, releasing those without rows is not worthwhile.
const COMPACT_KEYS: usize = 4096;

/// What to join: input 0 brings the changes of the left side, input 1 those of the right one.
#[derive(Clone, Debug)]
pub struct ChangingJoinSpec {
    /// The columns of the left side, without the weight.
    pub left: SchemaRef,
    /// The columns of the right side, without the weight.
    pub right: SchemaRef,
    /// Whether the left input has weights.
    pub left_changes: bool,
    /// Whether the right input has weights.
    pub right_changes: bool,
    /// The left columns that must equal `right_keys`, pairwise and with equal types. Without keys, every pair may match.
    pub left_keys: Vec<usize>,
    /// The right columns of the key.
    pub right_keys: Vec<usize>,
    /// Whether NULL equals NULL in keys (`IS NOT DISTINCT FROM`); otherwise it equals nothing.
    pub null_equals_null: bool,
    /// What is written.
    pub kind: ChangingJoinKind,
    /// An additional condition: Boolean, over the left columns followed by the right ones. NULL is not a match. It is
    /// evaluated again when a pair goes, so it must not depend on the cut.
    pub residual: Option<Arc<dyn Expression>>,
    /// The largest number of rows that a partition holds of both sides together.
    pub rows_max: usize,
}

/// A row of the output: the numbers of its two parts.
type Pair = (u32, u32);

/// The number of the row of NULLs, or of no columns.
const ABSENT: u32 = u32::MAX;

/// Joins two relations, and writes at the end of each cycle what has changed of the result.
///
/// ```
/// use std::sync::Arc;
/// use tidemill_core::arrow::array::{ArrayRef, Int64Array, RecordBatch};
/// use tidemill_core::{Batch, Cut, Operator, Output};
/// use tidemill_operators::changes::{ChangingJoinKind, ChangingJoinSpec, Join};
///
/// let rows = |name, values: Vec<i64>| {
///     let values = Arc::new(Int64Array::from(values)) as ArrayRef;
///     let rows = RecordBatch::try_from_iter([(name, values)]).unwrap();
///     let positions = (0..rows.num_rows() as u32).collect();
///     Batch::from_source(rows, positions)
/// };
/// let spec = ChangingJoinSpec {
///     left: rows("a", vec![]).rows.schema(),
///     right: rows("b", vec![]).rows.schema(),
///     left_changes: false,
///     right_changes: false,
///     left_keys: vec![0],
///     right_keys: vec![0],
///     null_equals_null: false,
///     kind: ChangingJoinKind::Left,
///     residual: None,
///     rows_max: 1000,
/// };
/// let mut output = Output::new(&[Join::output_schema(&spec)]);
/// let mut join = Join::new(spec).unwrap();
/// join.rows(0, rows("a", vec![1]).as_rows(), &mut output).unwrap();
/// join.end_of_cycle(&Cut::first(), &mut output).unwrap();
/// assert_eq!(output.finish(0).unwrap().rows.column(1).null_count(), 1); // (1, NULL) comes
/// join.rows(1, rows("b", vec![1]).as_rows(), &mut output).unwrap();
/// join.end_of_cycle(&Cut::first(), &mut output).unwrap();
/// let changes = output.finish(0).unwrap().rows; // (1, NULL) goes, and (1, 1) comes
/// assert_eq!(changes.column(1).as_ref(), &Int64Array::from(vec![None, Some(1)]));
/// assert_eq!(changes.column(2).as_ref(), &Int64Array::from(vec![-1, 1]));
/// ```
#[derive(Debug)]
pub struct Join {
    spec: ChangingJoinSpec,
    /// The columns that the additional condition sees.
    pair_schema: SchemaRef,
    keys: KeyTable,
    sides: [Side; 2],
    /// The row of NULLs of each side.
    nulls: [Encoded; 2],
    marks: RowCodec,
    /// The row of false, and that of true.
    mark_rows: Encoded,
    nothing: RowCodec,
    faults: FaultLog,
    changes: Vec<(Pair, i64)>,
    candidates: Vec<Candidate>,
}

/// A row that changed, and a row of the other side with the same key.
#[derive(Clone, Copy, Debug)]
struct Candidate {
    changed: u32,
    other: u32,
    /// By how much the weight of the one has changed, and the weight of the other.
    change: i64,
    weight: i64,
    /// Whether the changed row came in this cycle.
    is_new: bool,
}

impl Join {
    /// Makes an instance without rows.
    ///
    /// # Errors
    /// If the types of the keys differ or cannot be compared.
    pub fn new(spec: ChangingJoinSpec) -> Result<Self, Cause> {
        let keys = KeyTable::new(&spec.left, &spec.left_keys, spec.null_equals_null)?;
        keys.check_types(&spec.right, &spec.right_keys)?;
        let is_asked = |side| spec.kind.alone(side) != Alone::Never;
        let counted = |side| Counted {
            keys: spec.residual.is_none() && is_asked(1 - side),
            partners: spec.residual.is_some() && is_asked(side),
        };
        let left = Side::new(&spec.left, &spec.left_keys, spec.left_changes, counted(LEFT))?;
        let right = Side::new(&spec.right, &spec.right_keys, spec.right_changes, counted(RIGHT))?;
        let marks = RowCodec::ordered(vec![(DataType::Boolean, SortOptions::default())])?;
        Ok(Join {
            pair_schema: joined_schema(&spec.left, &spec.right, JoinKind::Inner),
            keys,
            nulls: [left.codec.encode_nulls()?, right.codec.encode_nulls()?],
            sides: [left, right],
            mark_rows: marks.encode(&[Arc::new(BooleanArray::from(vec![false, true])) as ArrayRef])?,
            marks,
            nothing: RowCodec::ordered(Vec::new())?,
            faults: FaultLog::default(),
            changes: Vec::new(),
            candidates: Vec::new(),
            spec,
        })
    }

    /// Reports rows that go more often than they came to this log.
    pub fn faults(mut self, log: FaultLog) -> Self {
        self.faults = log;
        self
    }

    /// The columns of its output: those of the kind, and the weight.
    pub fn output_schema(spec: &ChangingJoinSpec) -> SchemaRef {
        kind::output_schema(spec)
    }

    /// Adds the changes of a side, and finds its partners among the other side's rows as they are now. The left side
    /// comes first: its changes meet the right rows before the cycle, then those of the right meet the new left rows.
    fn apply(&mut self, side: usize, cut: &Cut) -> Result<(), Cause> {
        if let Some(changes) = self.sides[side].input.take()? {
            self.sides[side].apply(&changes, &mut self.keys, cut.cycle, &self.faults)?;
        }
        if !self.spec.kind.writes_pairs() && self.spec.residual.is_none() {
            return Ok(());
        }
        for index in 0..self.sides[side].touched().len() {
            let touched = self.sides[side].touched()[index];
            let (key, weight) = (self.sides[side].key(touched.row), self.sides[side].weight(touched.row));
            let (change, is_new) = (weight - touched.before, touched.before == 0);
            // The partners of a row that stays are known.
            let matters = is_new || self.spec.kind.writes_pairs() || self.sides[1 - side].counts_partners();
            if change == 0 || key == NO_KEY || !matters {
                continue;
            }
            let mut next = self.sides[1 - side].first(key);
            while let Some((other, weight, after)) = next {
                if weight != 0 {
                    let changed = touched.row;
                    self.candidates.push(Candidate { changed, other, change, weight, is_new });
                    if self.candidates.len() == PIECE_PAIRS {
                        self.match_candidates(side, cut)?;
                    }
                }
                next = self.sides[1 - side].entry(after);
            }
        }
        self.match_candidates(side, cut)
    }

    /// Adds the candidates for which the additional condition holds to the pairs and to the numbers of partners.
    fn match_candidates(&mut self, side: usize, cut: &Cut) -> Result<(), Cause> {
        let mut candidates = std::mem::take(&mut self.candidates);
        if let Some(residual) = self.spec.residual.as_ref().filter(|_| !candidates.is_empty()) {
            let row = |candidate: &Candidate, of: usize| {
                let number = if of == side { candidate.changed } else { candidate.other };
                self.sides[of].rows.row(number).spelling
            };
            let left = candidates.iter().map(|candidate| row(candidate, LEFT));
            let mut columns = self.sides[LEFT].codec.decode(left)?;
            let right = candidates.iter().map(|candidate| row(candidate, RIGHT));
            columns.extend(self.sides[RIGHT].codec.decode(right)?);
            let pairs = batch(&self.pair_schema, columns, candidates.len())?;
            let holds = condition(residual.as_ref(), &pairs, cut)?;
            let mut holds = holds.values().iter();
            candidates.retain(|_| holds.next().unwrap_or(false));
        }
        for candidate in &candidates {
            let Candidate { changed, other, change, weight, is_new } = *candidate;
            if self.spec.kind.writes_pairs() {
                let pair = if side == LEFT { (changed, other) } else { (other, changed) };
                self.changes.push((pair, multiply(change, weight)?));
            }
            if self.spec.residual.is_some() {
                if is_new {
                    self.sides[side].add_partners(changed, weight)?;
                }
                self.sides[1 - side].add_partners(other, change)?;
            }
        }
        candidates.clear();
        self.candidates = candidates;
        Ok(())
    }

    /// Adds what changes of the single rows of a side.
    fn change_alone(&mut self, side: usize) {
        let alone = self.spec.kind.alone(side);
        if alone == Alone::Never {
            return;
        }
        let (own, other) = (&self.sides[side], &self.sides[1 - side]);
        let changes = &mut self.changes;
        // The other part of the row that is written, if one is.
        let part = |(weight, partners): (i64, i64)| match alone {
            _ if weight == 0 => None,
            Alone::WithoutPartner if partners == 0 => Some(ABSENT),
            Alone::WithPartner if partners != 0 => Some(ABSENT),
            Alone::Marked => Some(u32::from(partners != 0)),
            _ => None,
        };
        let pair = |row: u32, part: u32| if side == LEFT { (row, part) } else { (part, row) };
        let mut add = |row: u32, before: (i64, i64), now: (i64, i64)| {
            let (old, new) = (part(before), part(now));
            if let (Some(old), Some(_)) = (old, new.filter(|new| Some(*new) == old)) {
                if before.0 != now.0 {
                    changes.push((pair(row, old), now.0 - before.0));
                }
                return;
            }
            changes.extend(old.map(|old| (pair(row, old), -before.0)));
            changes.extend(new.map(|new| (pair(row, new), now.0)));
        };
        let partners = |row: u32| own.partners(row).unwrap_or_else(|| other.counts(own.key(row)));
        for touched in own.touched() {
            let (before, now) = partners(touched.row);
            add(touched.row, (touched.before, before), (own.weight(touched.row), now));
        }
        let mut add_untouched = |row: u32, weight: i64, (before, now): (i64, i64)| {
            if (before == 0) != (now == 0) && !own.is_touched(row) {
                add(row, (weight, before), (weight, now));
            }
        };
        if self.spec.residual.is_some() {
            for row in own.touched_partners() {
                add_untouched(*row, own.weight(*row), partners(*row));
            }
        } else {
            for (key, before, now) in other.touched_keys().filter(|(_, b, n)| (*b == 0) != (*n == 0)) {
                own.chain(key).for_each(|(row, weight)| add_untouched(row, weight, (before, now)));
            }
        }
    }

    fn write(&mut self, output: &mut Output) -> Result<(), Cause> {
        let changes = std::mem::take(&mut self.changes);
        let row = |side: usize, number: u32| -> RowBytes<'_> {
            if number == ABSENT { self.nulls[side].row(0) } else { self.sides[side].rows.row(number) }
        };
        let [left, right] = &self.sides;
        match self.spec.kind {
            kind if kind.writes_pairs() => {
                let head = Half { codec: &left.codec, row: |pair: Pair| row(LEFT, pair.0) };
                let tail = Half { codec: &right.codec, row: |pair: Pair| row(RIGHT, pair.1) };
                write_changes(&changes, head, tail, output)
            }
            ChangingJoinKind::RightSemi | ChangingJoinKind::RightAnti => {
                let head = Half { codec: &self.nothing, row: |_: Pair| RowBytes::EMPTY };
                let tail = Half { codec: &right.codec, row: |pair: Pair| row(RIGHT, pair.1) };
                write_changes(&changes, head, tail, output)
            }
            ChangingJoinKind::LeftMark => {
                let head = Half { codec: &left.codec, row: |pair: Pair| row(LEFT, pair.0) };
                let mark = |pair: Pair| self.mark_rows.row(pair.1 as usize);
                write_changes(&changes, head, Half { codec: &self.marks, row: mark }, output)
            }
            _ => {
                let head = Half { codec: &left.codec, row: |pair: Pair| row(LEFT, pair.0) };
                let tail = Half { codec: &self.nothing, row: |_: Pair| RowBytes::EMPTY };
                write_changes(&changes, head, tail, output)
            }
        }
    }

    /// Releases the keys without rows, once they are more than half.
    fn compact(&mut self) {
        let used: usize = self.sides.iter().map(Side::keys_used).sum();
        if self.keys.len() <= 2 * used + COMPACT_KEYS {
            return;
        }
        let mut is_used = vec![false; self.keys.len()];
        self.sides.iter().for_each(|side| side.mark_keys(&mut is_used));
        let numbers = self.keys.compact(&is_used);
        let count = self.keys.len();
        self.sides.iter_mut().for_each(|side| side.renumber_keys(&numbers, count));
    }
}

impl Operator for Join {
    fn rows(&mut self, input: usize, rows: Rows<'_>, _output: &mut Output) -> Result<(), Cause> {
        self.sides[input.min(RIGHT)].input.push(&rows);
        Ok(())
    }

    fn end_of_cycle(&mut self, cut: &Cut, output: &mut Output) -> Result<(), Cause> {
        self.apply(LEFT, cut)?;
        self.apply(RIGHT, cut)?;
        self.change_alone(LEFT);
        self.change_alone(RIGHT);
        self.write(output)?;
        self.sides.iter_mut().for_each(Side::finish);
        self.compact();
        let rows = self.sides.iter().map(|side| side.rows.len()).sum();
        check_limit("a join", rows, self.spec.rows_max)
    }

    fn state_bytes(&self) -> usize {
        self.keys.bytes() + self.sides.iter().map(Side::memory).sum::<usize>()
    }

    fn snapshot(&self, writer: &mut SnapshotWriter) {
        writer.u8(VERSION);
        self.sides.iter().for_each(|side| side.snapshot(writer));
    }

    fn restore(&mut self, reader: &mut SnapshotReader<'_>) -> Result<(), Cause> {
        reader.version(VERSION)?;
        for side in &mut self.sides {
            side.restore(reader, &mut self.keys)?;
        }
        Ok(())
    }

    /// The rows of both sides, with their weights.
    fn state_rows(&self) -> Result<Option<Vec<StateRows>>, Cause> {
        let [left, right] = &self.sides;
        Ok(Some(vec![
            StateRows { kind: "left", rows: left.contents()? },
            StateRows { kind: "right", rows: right.contents()? },
        ]))
    }
}
