//! Aggregates over sessions: events of a key that follow each other closely.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arrow_array::cast::AsArray;
use arrow_array::types::{Int64Type, TimestampNanosecondType};
use arrow_array::{Array, ArrayRef, Int64Array, TimestampNanosecondArray};
use arrow_schema::{DataType, SchemaRef};
use tidemill_core::{Cause, Cut, Operator, Output, Rows, SnapshotReader, SnapshotWriter, StateRows};

use crate::failed_results::{FailedResults, Results};
use crate::grouped::{self, Layout};
use crate::groups::too_many_groups;
use crate::state::{read_columns, write_columns};
use crate::state_rows::batch;
use crate::watermark::{Watermark, WatermarkSpec};
use crate::window_aggregate::write_rows;
use crate::window_spec::time_type;
use crate::{Accumulator, AggregateSpec, Groups, SessionSpec};

/// One row per session, once the watermark has passed its end: the last event's time plus the gap.
///
/// An event joins the sessions of its key that are at most the gap away, and merges two such sessions. The output has
/// the keys, start (the first event) and end of the session, and the results; sessions come in the order of their ends.
/// An event is dropped and counted if it joins no open session and its own session would already be closed, or if it
/// has no time.
///
/// ```
/// use std::sync::Arc;
/// use arrow_array::{ArrayRef, RecordBatch, TimestampNanosecondArray, cast::AsArray, types::Int64Type};
/// use tidemill_core::{Batch, Cut, Operator, Output};
/// use tidemill_operators::{AggregateCall, AggregateSpec, SessionAggregate, SessionSpec, aggregate::Count};
///
/// let times = Arc::new(TimestampNanosecondArray::from(vec![1, 4, 20])) as ArrayRef;
/// let rows = RecordBatch::try_from_iter([("time", times)]).unwrap();
/// let spec = AggregateSpec {
///     keys: vec![],
///     calls: vec![AggregateCall { function: Arc::new(Count::rows()), arguments: vec![], filter: None }],
///     names: vec!["start".into(), "end".into(), "events".into()],
///     input: rows.schema(),
///     partial_input: false,
///     groups_max: 1000,
/// };
/// let session = SessionSpec { time: 0, gap_ns: 5 };
/// let mut output = Output::new(&[SessionAggregate::output_schema(&spec, &session).unwrap()]);
/// let mut operator = SessionAggregate::new(&spec, &session, vec![0], Arc::default()).unwrap();
/// operator.rows(0, Batch::from_source(rows, vec![0, 1, 2].into()).as_rows(), &mut output).unwrap();
/// operator.end_of_cycle(&Cut { watermarks: vec![15], ..Cut::first() }, &mut output).unwrap();
/// let events = output.finish(0).unwrap().rows;
/// assert_eq!(events.column(2).as_primitive::<Int64Type>().values(), &[2]);
/// assert_eq!(operator.next_timer(), Some(26));
/// ```
pub struct SessionAggregate {
    spec: AggregateSpec,
    layout: Layout,
    results: Results,
    schema: SchemaRef,
    gap_ns: i64,
    watermark: Watermark,
    late: Arc<AtomicU64>,
    /// Sessions that end before this are closed: no event that is at most the gap away can come any more.
    closed: i64,
    /// The keys of sessions. Some keys without sessions remain until [`compact`](Self::compact).
    keys: Groups,
    /// For each key, one of its sessions, or [`NONE`].
    first_of_key: Vec<u32>,
    sessions: Vec<Session>,
    open: usize,
    /// The state of sessions, by their numbers.
    accumulators: Vec<Box<dyn Accumulator>>,
    widths: Vec<usize>,
    /// For each open session, one entry with an end that it once had, which is never later than its current end.
    due: BinaryHeap<Reverse<(i64, u32)>>,
    key_ids: Vec<u32>,
    session_ids: Vec<u32>,
}

#[derive(Clone, Copy, Debug)]
struct Session {
    key: u32,
    start: i64,
    /// The time of the last event.
    last: i64,
    /// Another session of the same key, or [`NONE`].
    next_of_key: u32,
    is_open: bool,
}

const NONE: u32 = u32::MAX;
/// Up to this many closed sessions do not matter.
const CLOSED_SESSIONS_MIN: usize = 1024;
const SNAPSHOT_VERSION: u8 = 1;

impl SessionAggregate {
    /// No sessions. Time follows the `watermark`, or the watermark of these gateways of the plan; dropped rows are
    /// added to `late`.
    ///
    /// # Errors
    /// If the specification names columns that do not exist, a type that cannot be a key, or combined input, which has
    /// lost its times.
    pub fn new(
        spec: &AggregateSpec,
        session: &SessionSpec,
        watermark: impl Into<WatermarkSpec>,
        late: Arc<AtomicU64>,
    ) -> Result<Self, Cause> {
        session.check(&spec.input)?;
        if spec.partial_input {
            return Err(Cause::bug("sessions cannot be built from combined rows"));
        }
        Ok(SessionAggregate {
            layout: Layout::new(spec, Some(session.time))?,
            results: Results::new(spec),
            schema: Self::output_schema(spec, session)?,
            gap_ns: session.gap_ns,
            watermark: Watermark::new(watermark.into()),
            late,
            closed: i64::MIN,
            keys: Groups::new(&spec.key_types(), usize::MAX)?,
            first_of_key: Vec::new(),
            sessions: Vec::new(),
            open: 0,
            accumulators: spec.accumulators(),
            widths: spec.calls.iter().map(|call| call.function.partial_types().len()).collect(),
            due: BinaryHeap::new(),
            key_ids: Vec::new(),
            session_ids: Vec::new(),
            spec: spec.clone(),
        })
    }

    /// Sets what happens to results that cannot be represented.
    pub fn failed_results(mut self, failed: FailedResults) -> Self {
        self.results.failed = failed;
        self
    }

    /// The columns of its output: keys, start and end of the session, results.
    ///
    /// # Errors
    /// If the number of names is wrong, or the event time is not a `Timestamp(Nanosecond, _)`.
    pub fn output_schema(spec: &AggregateSpec, session: &SessionSpec) -> Result<SchemaRef, Cause> {
        let time = time_type(&spec.input, session.time)?;
        spec.results_schema(&[time.clone(), time])
    }

    /// The session of an event of this key, and one that must be merged into it; `None` if the event is late.
    fn place(&mut self, key: u32, time: i64) -> Option<(u32, Option<u32>)> {
        let (mut kept, mut other) = (NONE, None);
        let mut next = self.first_of_key[key as usize];
        while next != NONE {
            let session = self.sessions[next as usize];
            if time <= session.last + self.gap_ns && session.start <= time + self.gap_ns {
                match kept {
                    NONE => kept = next,
                    // The older one is kept. There is no third: it would be more than the gap away.
                    first => (kept, other) = (first.min(next), Some(first.max(next))),
                }
            }
            next = session.next_of_key;
        }
        if kept != NONE {
            let session = &mut self.sessions[kept as usize];
            (session.start, session.last) = (session.start.min(time), session.last.max(time));
            return Some((kept, other));
        }
        (time + self.gap_ns >= self.closed).then(|| (self.begin(key, time, time), None))
    }

    fn begin(&mut self, key: u32, start: i64, last: i64) -> u32 {
        let number = self.sessions.len() as u32;
        let first = &mut self.first_of_key[key as usize];
        self.sessions.push(Session { key, start, last, next_of_key: *first, is_open: true });
        *first = number;
        self.open += 1;
        self.due.push(Reverse((last + self.gap_ns, number)));
        number
    }

    fn close(&mut self, number: u32) {
        let session = &mut self.sessions[number as usize];
        session.is_open = false;
        let (key, after) = (session.key, session.next_of_key);
        self.open -= 1;
        let first = self.first_of_key[key as usize];
        if first == number {
            self.first_of_key[key as usize] = after;
            return;
        }
        let mut before = first;
        while self.sessions[before as usize].next_of_key != number {
            before = self.sessions[before as usize].next_of_key;
        }
        self.sessions[before as usize].next_of_key = after;
    }

    fn merge(&mut self, kept: u32, other: u32) -> Result<(), Cause> {
        let Session { start, last, .. } = self.sessions[other as usize];
        let partials = grouped::partials(&self.accumulators, &[other])?;
        let sessions = self.sessions.len();
        grouped::merge(&mut self.accumulators, &self.widths, &partials, sessions, &[kept])?;
        let session = &mut self.sessions[kept as usize];
        (session.start, session.last) = (session.start.min(start), session.last.max(last));
        self.close(other);
        Ok(())
    }

    /// Adds some rows to their sessions, the last of [`session_ids`](Self::session_ids).
    fn add(&mut self, columns: &[ArrayRef], rows: Range<usize>) -> Result<(), Cause> {
        if rows.is_empty() {
            return Ok(());
        }
        let ids = &self.session_ids[rows.clone()];
        let sliced = if rows.len() == columns.first().map_or(0, |column| column.len()) {
            columns.to_vec()
        } else {
            self.layout.slice(columns, rows)
        };
        grouped::update(&mut self.accumulators, &self.layout, &sliced, self.sessions.len(), ids)
    }

    /// Removes closed sessions and keys without sessions, once they are the majority.
    fn compact(&mut self) -> Result<(), Cause> {
        if self.sessions.len() - self.open < self.open.max(CLOSED_SESSIONS_MIN) {
            return Ok(());
        }
        let (keys, sessions, partials) = self.open_sessions()?;
        self.keys.clear();
        self.first_of_key.clear();
        self.sessions.clear();
        self.due.clear();
        self.open = 0;
        self.accumulators.iter_mut().for_each(|accumulator| accumulator.clear());
        self.insert(&keys, &sessions, &partials)
    }

    /// Keys, start and last time, and partial results of all open sessions, in the order of their numbers.
    #[allow(clippy::type_complexity, reason = "three things in the order of the columns of a snapshot")]
    fn open_sessions(&self) -> Result<(Vec<ArrayRef>, Vec<(i64, i64)>, Vec<ArrayRef>), Cause> {
        let numbers =
            (0..self.sessions.len() as u32).filter(|number| self.sessions[*number as usize].is_open);
        let numbers = numbers.collect::<Vec<_>>();
        let sessions = numbers.iter().map(|number| self.sessions[*number as usize]);
        let keys = self.keys.keys(&sessions.clone().map(|session| session.key).collect::<Vec<_>>())?;
        let times = sessions.map(|session| (session.start, session.last)).collect();
        Ok((keys, times, grouped::partials(&self.accumulators, &numbers)?))
    }

    fn insert(
        &mut self,
        keys: &[ArrayRef],
        sessions: &[(i64, i64)],
        partials: &[ArrayRef],
    ) -> Result<(), Cause> {
        let mut key_ids = Vec::new();
        self.keys.intern(keys, sessions.len(), &mut key_ids)?;
        self.first_of_key.resize(self.keys.len(), NONE);
        let begun = key_ids.iter().zip(sessions).map(|(key, (start, last))| self.begin(*key, *start, *last));
        let numbers = begun.collect::<Vec<_>>();
        grouped::merge(&mut self.accumulators, &self.widths, partials, self.sessions.len(), &numbers)
    }

    /// Takes the sessions that end before the watermark, in the order of ends and numbers.
    fn take_due(&mut self, watermark: i64) -> Vec<(i64, u32)> {
        let mut taken = Vec::new();
        let is_over = |end: i64| end < watermark || watermark == i64::MAX;
        while let Some(Reverse((end, number))) = self.due.peek().copied().filter(|due| is_over(due.0.0)) {
            self.due.pop();
            let session = self.sessions[number as usize];
            let real_end = session.last + self.gap_ns;
            if !session.is_open {
            } else if real_end > end {
                self.due.push(Reverse((real_end, number)))
            } else {
                taken.push((end, number))
            }
        }
        taken
    }

    /// Sessions by their ends and numbers, as the columns of the output.
    fn columns_of(
        &self,
        taken: &[(i64, u32)],
        results: &Results,
        cycle: u64,
    ) -> Result<Vec<ArrayRef>, Cause> {
        let sessions = || taken.iter().map(|(_, number)| self.sessions[*number as usize]);
        let mut columns = self.keys.keys(&sessions().map(|session| session.key).collect::<Vec<_>>())?;
        let starts = TimestampNanosecondArray::from_iter_values(sessions().map(|session| session.start));
        let ends = TimestampNanosecondArray::from_iter_values(taken.iter().map(|(end, _)| *end));
        for times in [starts, ends] {
            let data_type = self.schema.field(columns.len()).data_type().clone();
            columns.push(Arc::new(times.with_data_type(data_type)));
        }
        let numbers = taken.iter().map(|(_, number)| *number).collect::<Vec<_>>();
        let results = results.evaluate(&self.accumulators, &numbers, &columns, cycle)?;
        columns.extend(results);
        Ok(columns)
    }
}

impl Operator for SessionAggregate {
    fn rows(&mut self, _input: usize, rows: Rows<'_>, _output: &mut Output) -> Result<(), Cause> {
        let batch = rows.to_batch();
        let columns = batch.columns();
        let mut key_ids = std::mem::take(&mut self.key_ids);
        self.keys.intern(&self.layout.keys(columns), rows.len(), &mut key_ids)?;
        self.first_of_key.resize(self.keys.len(), NONE);
        let times = self.layout.time(columns)?.as_primitive::<TimestampNanosecondType>();
        let latest = i64::MAX - self.gap_ns;
        let is_usable = |row: usize| times.is_valid(row) && (-latest..=latest).contains(&times.value(row));
        self.session_ids.clear();
        // Rows are added in pieces: up to a row that is dropped, or that merges two sessions.
        let mut added = 0;
        for (row, key) in key_ids.iter().enumerate() {
            let place = if is_usable(row) { self.place(*key, times.value(row)) } else { None };
            match place {
                Some((kept, None)) => self.session_ids.push(kept),
                Some((kept, Some(other))) => {
                    self.add(columns, added..row)?;
                    self.merge(kept, other)?;
                    self.session_ids.push(kept);
                    added = row;
                }
                None => {
                    self.late.fetch_add(1, Ordering::Relaxed);
                    self.add(columns, added..row)?;
                    self.session_ids.push(NONE);
                    added = row + 1;
                }
            }
        }
        self.add(columns, added..rows.len())?;
        self.key_ids = key_ids;
        if self.open <= self.spec.groups_max { Ok(()) } else { Err(too_many_groups(self.spec.groups_max)) }
    }

    fn end_of_cycle(&mut self, cut: &Cut, output: &mut Output) -> Result<(), Cause> {
        self.closed = self.watermark.advance(cut);
        let taken = self.take_due(self.closed);
        if taken.is_empty() {
            return Ok(());
        }
        let columns = self.columns_of(&taken, &self.results, cut.cycle)?;
        write_rows(columns, taken.len(), &self.schema, output)?;
        taken.iter().for_each(|(_, number)| self.close(*number));
        self.compact()
    }

    fn next_timer(&self) -> Option<i64> {
        // At its end a session can still grow: it is over one instant later.
        self.due.peek().map(|Reverse((end, _))| self.watermark.timer(end.saturating_add(1)))
    }

    fn state_bytes(&self) -> usize {
        let sessions = self.sessions.capacity() * size_of::<Session>() + 4 * self.first_of_key.capacity();
        sessions + 16 * self.due.capacity() + self.keys.bytes() + grouped::bytes(&self.accumulators)
    }

    fn snapshot(&self, writer: &mut SnapshotWriter) {
        writer.u8(SNAPSHOT_VERSION);
        self.watermark.snapshot(writer);
        let columns = self.open_sessions().map(|(mut columns, sessions, partials)| {
            let (starts, lasts): (Vec<_>, Vec<_>) = sessions.into_iter().unzip();
            columns.push(Arc::new(Int64Array::from(starts)));
            columns.push(Arc::new(Int64Array::from(lasts)));
            [columns, partials].concat()
        });
        write_columns(writer, self.open, columns);
    }

    fn restore(&mut self, reader: &mut SnapshotReader<'_>) -> Result<(), Cause> {
        reader.version(SNAPSHOT_VERSION)?;
        self.watermark.restore(reader)?;
        self.closed = self.watermark.reached();
        let times = vec![DataType::Int64; 2];
        let columns = self.spec.state_columns([self.spec.key_types(), times].concat());
        let (_, mut keys) = read_columns(reader, &columns)?;
        let mut times = keys.split_off(self.spec.keys.len());
        let partials = times.split_off(2);
        let (starts, lasts) = (times[0].as_primitive::<Int64Type>(), times[1].as_primitive::<Int64Type>());
        let sessions =
            starts.values().iter().copied().zip(lasts.values().iter().copied()).collect::<Vec<_>>();
        self.insert(&keys, &sessions, &partials)
    }

    /// The open sessions, as if each ended with its last event.
    fn state_rows(&self) -> Result<Option<Vec<StateRows>>, Cause> {
        let numbered = self.sessions.iter().zip(0..).filter(|(session, _)| session.is_open);
        let open: Vec<(i64, u32)> =
            numbered.map(|(session, number)| (session.last + self.gap_ns, number)).collect();
        let columns = self.columns_of(&open, &self.results.or_null(), 0)?;
        let rows = batch(&self.schema, columns, open.len())?;
        Ok(Some(vec![StateRows { kind: "sessions", rows }]))
    }
}
