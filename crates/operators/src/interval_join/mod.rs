//! Stream-to-stream joins within a time bound.

mod probe;
mod side;

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

use arrow_array::{BooleanArray, RecordBatch, UInt32Array};
use arrow_schema::SchemaRef;
use arrow_select::filter::filter_record_batch;
use arrow_select::take::take_arrays;
use tidemill_core::error::Cause;
use tidemill_core::{Cut, Expression, Operator, Output, Rows, SnapshotReader, SnapshotWriter, StateRows};

use self::probe::{Candidate, OnTime, Probe};
use self::side::{Entry, Side, is_before};
use crate::join::{JoinKind, condition, joined_schema};
use crate::keys::{KeyTable, NO_KEY};
use crate::row_store::NO_ROW;
use crate::state_rows::with_column;
use crate::stored_rows::{CycleRows, check_limit, event_times, kernel_error, read_rows, write_rows};
use crate::watermark::{LateRows, Watermark, WatermarkSpec};

const VERSION: u8 = 1;

/// Pairs are processed in batches of about this many, so that keys with many rows do not fill the memory.
const CANDIDATES_AT_ONCE: usize = 65_536;

/// With fewer stored rows, a sweep is not worthwhile.
const SWEEP_ROWS: usize = 4096;

/// What to join: input 0 is the left stream, input 1 the right one.
#[derive(Clone, Debug)]
pub struct IntervalJoinSpec {
    /// The columns of the left stream.
    pub left: SchemaRef,
    /// The columns of the right stream.
    pub right: SchemaRef,
    /// The left columns that must equal `right_keys`, pairwise and with equal types; NULL equals nothing.
    pub left_keys: Vec<usize>,
    /// The right columns that must equal `left_keys`.
    pub right_keys: Vec<usize>,
    /// The left event time.
    pub left_time: usize,
    /// The right event time.
    pub right_time: usize,
    /// The smallest left time minus right time of a pair, in nanoseconds, inclusive.
    pub low_ns: i64,
    /// The largest left time minus right time of a pair, in nanoseconds, inclusive.
    pub high_ns: i64,
    /// What happens to left rows without a match.
    pub kind: JoinKind,
    /// An additional condition on a pair: Boolean, over the left columns followed by the right ones. NULL is not a
    /// match.
    pub residual: Option<Arc<dyn Expression>>,
    /// The watermark of both streams together.
    pub watermark: WatermarkSpec,
    /// The largest number of rows that a partition holds, both sides together.
    pub rows_max: usize,
    /// Counts rows left out because they came after the watermark.
    pub late: LateRows,
}

/// The columns of the output: the left ones, then the right ones.
pub fn output_schema(spec: &IntervalJoinSpec) -> SchemaRef {
    joined_schema(&spec.left, &spec.right, spec.kind)
}

/// Joins two streams on equal keys and a bound on the difference of their event times.
///
/// A pair is emitted when the second of its rows has come, at that row's position. In a left join, a left row without a
/// match is emitted with NULLs once the watermark has passed its last possible match. Output rows may be behind the
/// watermark by at most `-low_ns` in the left time and `high_ns` in the right time (0 if negative), and not at all in
/// the later of both times. An operator that orders the output by such a time states this in
/// [`WatermarkSpec::delay_ns`].
///
/// ```
/// use std::sync::Arc;
/// use tidemill_core::arrow::array::{ArrayRef, Int64Array, RecordBatch, TimestampNanosecondArray};
/// use tidemill_core::{Batch, Cut, Operator, Output};
/// use tidemill_operators::interval_join::{IntervalJoin, IntervalJoinSpec, output_schema};
/// use tidemill_operators::join::JoinKind;
///
/// let rows = |keys: Vec<i64>, times: Vec<i64>| {
///     let positions = (0..keys.len() as u32).collect::<Vec<_>>().into();
///     let keys = Arc::new(Int64Array::from(keys)) as ArrayRef;
///     let times = Arc::new(TimestampNanosecondArray::from(times)) as ArrayRef;
///     Batch::from_source(RecordBatch::try_from_iter([("key", keys), ("time", times)]).unwrap(), positions)
/// };
/// let (orders, payments) = (rows(vec![7, 8], vec![10, 20]), rows(vec![7, 7], vec![12, 99]));
/// let spec = IntervalJoinSpec {
///     left: orders.rows.schema(),
///     right: payments.rows.schema(),
///     left_keys: vec![0],
///     right_keys: vec![0],
///     left_time: 1,
///     right_time: 1,
///     low_ns: -50, // paid at most 50 ns after the order
///     high_ns: 0,
///     kind: JoinKind::Left,
///     residual: None,
///     watermark: vec![0, 1].into(),
///     rows_max: 1000,
///     late: Default::default(),
/// };
/// let mut output = Output::new(&[output_schema(&spec)]);
/// let mut join = IntervalJoin::new(spec).unwrap();
/// join.rows(0, orders.as_rows(), &mut output).unwrap();
/// join.rows(1, payments.as_rows(), &mut output).unwrap();
/// join.end_of_cycle(&Cut { watermarks: vec![i64::MAX; 2], ..Cut::first() }, &mut output).unwrap();
/// assert_eq!(output.finish(0).unwrap().len(), 2); // order 7 with its payment, order 8 with none
/// ```
#[derive(Debug)]
pub struct IntervalJoin {
    spec: IntervalJoinSpec,
    schema: SchemaRef,
    keys: KeyTable,
    sides: [Side; 2],
    watermark: Watermark,
    /// Left rows without a match so far: event time and key, earliest first.
    unmatched: BinaryHeap<Reverse<(i64, u32)>>,
    arrived: [CycleRows; 2],
    /// Rows stored after the last sweep.
    swept_rows: usize,
}

const LEFT: usize = 0;
const RIGHT: usize = 1;

impl IntervalJoin {
    /// An empty instance.
    ///
    /// # Errors
    /// If the types of the keys differ or cannot be compared.
    pub fn new(spec: IntervalJoinSpec) -> Result<Self, Cause> {
        let keys = KeyTable::new(&spec.left, &spec.left_keys, false)?;
        keys.check_types(&spec.right, &spec.right_keys)?;
        Ok(IntervalJoin {
            schema: output_schema(&spec),
            keys,
            sides: [Side::new(spec.left.clone()), Side::new(spec.right.clone())],
            watermark: Watermark::new(spec.watermark.clone()),
            unmatched: BinaryHeap::new(),
            arrived: Default::default(),
            swept_rows: 0,
            spec,
        })
    }

    /// Joins the rows of one input with the stored rows of the other, and stores them.
    fn join(&mut self, input: usize, cut: &Cut, output: &mut Output) -> Result<(), Cause> {
        let schema = [&self.spec.left, &self.spec.right][input];
        let Some((rows, positions)) = self.arrived[input].take(schema)? else { return Ok(()) };
        let time_column = [self.spec.left_time, self.spec.right_time][input];
        let columns = [&self.spec.left_keys, &self.spec.right_keys][input];
        let on_time = OnTime::new(rows, positions, time_column, self.watermark.reached())?;
        self.spec.late.add(on_time.late);
        let probe = on_time.into_probe(input, &mut self.keys, columns)?;
        let mut is_matched = vec![false; probe.times.len()];
        let mut candidates = Vec::new();
        for row in 0..probe.times.len() {
            self.find_candidates(&probe, row, &mut candidates);
            if candidates.len() >= CANDIDATES_AT_ONCE {
                self.emit_pairs(&probe, &mut candidates, &mut is_matched, cut, output)?;
            }
        }
        self.emit_pairs(&probe, &mut candidates, &mut is_matched, cut, output)?;
        self.hold(probe, &is_matched, output)
    }

    fn find_candidates(&self, probe: &Probe, row: usize, candidates: &mut Vec<Candidate>) {
        let (key, time) = (probe.keys[row], probe.times[row]);
        let Some(entries) = self.sides[1 - probe.input].entries(key) else { return };
        let (first, last) = match probe.input {
            LEFT => (time.saturating_sub(self.spec.high_ns), time.saturating_sub(self.spec.low_ns)),
            _ => (time.saturating_add(self.spec.low_ns), time.saturating_add(self.spec.high_ns)),
        };
        let start = entries.partition_point(|entry| entry.time < first);
        let matches = entries.range(start..).take_while(|entry| entry.time <= last);
        let candidate =
            |entry: &Entry| Candidate { probe: row as u32, key, time: entry.time, row: entry.row };
        candidates.extend(matches.map(candidate));
    }

    /// Emits the candidates for which the additional condition holds.
    fn emit_pairs(
        &mut self,
        probe: &Probe,
        candidates: &mut Vec<Candidate>,
        is_matched: &mut [bool],
        cut: &Cut,
        output: &mut Output,
    ) -> Result<(), Cause> {
        if candidates.is_empty() {
            return Ok(());
        }
        let probe_rows: UInt32Array = candidates.iter().map(|candidate| candidate.probe).collect();
        let held_rows: Vec<u64> = candidates.iter().map(|candidate| candidate.row).collect();
        let probed = take_arrays(probe.rows.columns(), &probe_rows, None).map_err(kernel_error)?;
        let held = self.sides[1 - probe.input].store.gather(&held_rows)?;
        let columns = match probe.input {
            LEFT => [probed, held].concat(),
            _ => [held, probed].concat(),
        };
        let mut pairs = RecordBatch::try_new(self.schema.clone(), columns).map_err(kernel_error)?;
        if let Some(residual) = &self.spec.residual {
            let holds = condition(residual.as_ref(), &pairs, cut)?;
            pairs = filter_record_batch(&pairs, &holds).map_err(kernel_error)?;
            let mut holds = holds.values().iter();
            candidates.retain(|_| holds.next().unwrap_or(false));
        }
        let positions: Vec<u32> =
            candidates.iter().map(|candidate| probe.positions[candidate.probe as usize]).collect();
        output.port(0).push_batch(pairs, &positions)?;
        for candidate in candidates.drain(..).filter(|_| self.spec.kind == JoinKind::Left) {
            match probe.input {
                LEFT => is_matched[candidate.probe as usize] = true,
                _ => self.sides[LEFT].set_matched(candidate.key, candidate.time, candidate.row),
            }
        }
        Ok(())
    }

    /// Stores the rows that may still have matches. In a left join, emits the others if they had none.
    fn hold(&mut self, probe: Probe, is_matched: &[bool], output: &mut Output) -> Result<(), Cause> {
        let wants_unmatched = probe.input == LEFT && self.spec.kind == JoinKind::Left;
        let expired_before = self.expired_before(probe.input);
        let first = self.sides[probe.input].store.append(probe.rows.clone())?;
        let mut given_up = Vec::new();
        for (row, (key, time)) in probe.keys.iter().zip(probe.times.iter()).enumerate() {
            let (number, is_matched) = (first + row as u64, is_matched[row]);
            if *key != NO_KEY && *time >= expired_before {
                self.sides[probe.input].insert(*key, Entry { time: *time, row: number, is_matched });
                if wants_unmatched && !is_matched {
                    self.unmatched.push(Reverse((*time, *key)));
                }
            } else if wants_unmatched && !is_matched {
                given_up.push(row);
            }
        }
        let positions: Vec<u32> = given_up.iter().map(|row| probe.positions[*row]).collect();
        let numbers: Vec<u64> = given_up.iter().map(|row| first + *row as u64).collect();
        self.emit_unmatched(&numbers, &positions, output)
    }

    /// The smallest event time of a row of this side that may still have a match, according to the watermark.
    fn expired_before(&self, input: usize) -> i64 {
        match (self.watermark.reached(), input) {
            (i64::MAX, _) => i64::MAX,
            (watermark, LEFT) => watermark.saturating_add(self.spec.low_ns),
            (watermark, _) => watermark.saturating_sub(self.spec.high_ns),
        }
    }

    fn emit_unmatched(&self, numbers: &[u64], positions: &[u32], output: &mut Output) -> Result<(), Cause> {
        if numbers.is_empty() {
            return Ok(());
        }
        let nulls = vec![NO_ROW; numbers.len()];
        let columns =
            [self.sides[LEFT].store.gather(numbers)?, self.sides[RIGHT].store.gather(&nulls)?].concat();
        let rows = RecordBatch::try_new(self.schema.clone(), columns).map_err(kernel_error)?;
        output.port(0).push_batch(rows, positions)
    }

    /// Emits the left rows that can no longer have a match.
    fn expire_unmatched(&mut self, output: &mut Output) -> Result<(), Cause> {
        let before = self.expired_before(LEFT);
        let mut expired = Vec::new();
        while let Some(Reverse((_, key))) = self.unmatched.peek().filter(|first| is_before(first.0.0, before))
        {
            self.sides[LEFT].expire(*key, before, &mut expired);
            self.unmatched.pop();
        }
        // By time, then by arrival: the same whatever the keys' numbers are.
        expired.sort_unstable();
        let numbers: Vec<u64> = expired.iter().map(|(_, row)| *row).collect();
        self.emit_unmatched(&numbers, &vec![output.end_position(); numbers.len()], output)
    }

    /// Drops rows that can no longer have a match. Must come after [`expire_unmatched`](Self::expire_unmatched).
    fn sweep(&mut self) -> Result<(), Cause> {
        for input in [LEFT, RIGHT] {
            let before = self.expired_before(input);
            self.sides[input].expire_all(before);
        }
        let keep: Vec<bool> =
            (0..self.keys.len() as u32).map(|key| self.sides.iter().any(|side| side.has_rows(key))).collect();
        let renumbered = self.keys.compact(&keep);
        for side in &mut self.sides {
            side.compact(&renumbered, self.keys.len())?;
        }
        let unmatched = std::mem::take(&mut self.unmatched).into_iter();
        let renumber = |Reverse((time, key)): Reverse<(i64, u32)>| Reverse((time, renumbered[key as usize]));
        self.unmatched = unmatched.map(renumber).filter(|entry| entry.0.1 != NO_KEY).collect();
        self.swept_rows = self.stored_rows();
        Ok(())
    }

    fn restore_side(&mut self, input: usize, reader: &mut SnapshotReader<'_>) -> Result<(), Cause> {
        let schema = [&self.spec.left, &self.spec.right][input];
        let columns = [&self.spec.left_keys, &self.spec.right_keys][input];
        let rows = read_rows(reader, schema)?;
        let (times, _) = event_times(&rows, [self.spec.left_time, self.spec.right_time][input])?;
        let keys = self.keys.intern(&rows, columns)?;
        let first = self.sides[input].store.append(rows)?;
        for (row, (key, time)) in keys.iter().zip(times.iter()).enumerate() {
            let is_matched = reader.u8()? != 0;
            self.sides[input].insert(*key, Entry { time: *time, row: first + row as u64, is_matched });
            if input == LEFT && self.spec.kind == JoinKind::Left && !is_matched {
                self.unmatched.push(Reverse((*time, *key)));
            }
        }
        Ok(())
    }

    fn stored_rows(&self) -> usize {
        self.sides.iter().map(|side| side.store.len()).sum()
    }

    fn held_rows(&self) -> usize {
        self.sides.iter().map(|side| side.rows).sum()
    }
}

impl Operator for IntervalJoin {
    fn rows(&mut self, input: usize, rows: Rows<'_>, _output: &mut Output) -> Result<(), Cause> {
        self.arrived[input].push(&rows);
        Ok(())
    }

    fn end_of_cycle(&mut self, cut: &Cut, output: &mut Output) -> Result<(), Cause> {
        self.join(LEFT, cut, output)?;
        self.join(RIGHT, cut, output)?;
        self.watermark.advance(cut);
        self.expire_unmatched(output)?;
        if self.stored_rows() > 2 * self.swept_rows + SWEEP_ROWS || self.held_rows() > self.spec.rows_max {
            self.sweep()?;
        }
        check_limit("a join within a time bound", self.held_rows(), self.spec.rows_max)
    }

    fn next_timer(&self) -> Option<i64> {
        // A left row expires when the watermark is past its time minus the lower bound.
        let Reverse((time, _)) = self.unmatched.peek()?;
        Some(self.watermark.timer(time.saturating_sub(self.spec.low_ns).saturating_add(1)))
    }

    fn state_bytes(&self) -> usize {
        let sides = self.sides.iter().map(Side::bytes).sum::<usize>();
        sides + self.keys.bytes() + 16 * self.unmatched.capacity()
    }

    fn snapshot(&self, writer: &mut SnapshotWriter) {
        writer.u8(VERSION);
        self.watermark.snapshot(writer);
        for side in &self.sides {
            let (rows, is_matched) = side.contents().unzip();
            write_rows(writer, rows);
            is_matched.into_iter().flatten().for_each(|is_matched| writer.u8(u8::from(is_matched)));
        }
    }

    fn restore(&mut self, reader: &mut SnapshotReader<'_>) -> Result<(), Cause> {
        reader.version(VERSION)?;
        self.watermark.restore(reader)?;
        for input in [LEFT, RIGHT] {
            self.restore_side(input, reader)?;
        }
        self.swept_rows = self.stored_rows();
        Ok(())
    }

    /// The rows of each side that may still have matches; in a left join, those of the left side also say whether they
    /// had one.
    fn state_rows(&self) -> Result<Option<Vec<StateRows>>, Cause> {
        let mut shown = Vec::new();
        for (input, kind) in [(LEFT, "left"), (RIGHT, "right")] {
            let (rows, is_matched) = self.sides[input]
                .contents()
                .ok_or_else(|| Cause::bug("rows that a join holds cannot be gathered"))?;
            let (times, _) = event_times(&rows, [self.spec.left_time, self.spec.right_time][input])?;
            let rows = if self.spec.kind == JoinKind::Left && input == LEFT {
                with_column(&rows, "matched", Arc::new(BooleanArray::from(is_matched)))?
            } else {
                rows
            };
            // Others are there until the next sweep.
            let before = self.expired_before(input);
            let is_of_use: BooleanArray = times.iter().map(|time| Some(!is_before(*time, before))).collect();
            let rows = filter_record_batch(&rows, &is_of_use).map_err(kernel_error)?;
            shown.push(StateRows { kind, rows });
        }
        Ok(Some(shown))
    }
}
