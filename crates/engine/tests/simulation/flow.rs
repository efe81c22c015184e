//! The dataflow of the simulation: what threads do in production, one step at a time. Cycles are closed, processed, and
//! given to sinks; which ones come again after a crash, and which a sink has, the real decisions say.

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::Mutex;
use tidemill_core::arrow::array::cast::AsArray;
use tidemill_core::arrow::array::types::UInt64Type;
use tidemill_core::clock::Clock;
use tidemill_core::error::Cause;
use tidemill_core::snapshot::Snapshot;
use tidemill_core::{Batch, Cut, CutLog, ManualClock};
use tidemill_flow::{Chunk, Replay, Resume, SinkProgress, Stopped};
use tidemill_journal::CutJournal;

use super::oracle::{Out, State};
use crate::feed_entry::ChunkReceiver;
use tidemill_testing::random::Random;

/// A gateway: chunks that no cycle has.
#[derive(Clone)]
pub struct Gateway {
    pub chunks: Arc<Mutex<VecDeque<Chunk>>>,
    pub clock: Arc<ManualClock>,
}

impl ChunkReceiver for Gateway {
    fn push(&self, chunk: Chunk) -> Result<(), Stopped> {
        self.chunks.lock().push_back(chunk);
        Ok(())
    }

    fn now_ns(&self) -> u64 {
        self.clock.now_ns()
    }
}

/// An event of a cycle: its number, and whether it came late; `None`: it is left out.
type Event = Option<(u64, bool)>;

struct Intake {
    gateway: Gateway,
    position: u64,
    watermark: i64,
    is_idle: bool,
}

impl Intake {
    fn pending(&self) -> u64 {
        self.gateway.chunks.lock().iter().map(|chunk| u64::from(chunk.events)).sum()
    }

    /// The next `share` events. A chunk without events only moves time, and goes with what is before it.
    fn take(&mut self, share: u64) -> Vec<Event> {
        let (mut events, end) = (Vec::new(), self.position + share);
        let mut chunks = self.gateway.chunks.lock();
        while let Some(chunk) = chunks.pop_front() {
            let (chunk, rest) = chunk.split_at((end - self.position) as u32);
            if let Some(rest) = rest {
                chunks.push_front(rest);
            }
            let Some(chunk) = chunk else { break };
            self.position += u64::from(chunk.events);
            self.watermark = self.watermark.max(chunk.watermark);
            self.is_idle = chunk.idle;
            events.extend(events_of(chunk));
        }
        events
    }
}

fn events_of(chunk: Chunk) -> Vec<Event> {
    let mut events: Vec<Event> = vec![None; chunk.events as usize];
    for (stream, batch) in chunk.streams.into_iter().enumerate() {
        let Some(Batch { rows, positions, .. }) = batch else { continue };
        let ids = rows.column(0).as_primitive::<UInt64Type>().values();
        for (id, position) in ids.iter().zip(positions.iter()) {
            let before = events[*position as usize].replace((*id, stream == 1));
            assert_eq!(before, None, "an event is there twice");
        }
    }
    events
}

/// The end of the flow: a sink, and what it does next.
pub struct SinkFlow {
    pub progress: SinkProgress,
    /// Cycles that the sink was not given.
    waiting: VecDeque<(Cut, Vec<Out>)>,
    /// What it was given and has not committed, and the cut up to which that is.
    pub prepared: Vec<(u64, Vec<Out>)>,
    pub last: Option<Cut>,
    /// It has committed, and nobody knows yet.
    pub unnoted: Option<u64>,
}

impl SinkFlow {
    /// Gives the sink its next cycle, unless it has it; false if there is none.
    pub fn prepare(&mut self) -> bool {
        let Some((cut, outputs)) = self.waiting.pop_front() else { return false };
        if self.progress.takes(&cut) {
            self.prepared.push((cut.cycle, outputs));
        }
        self.last = Some(cut);
        true
    }

    fn is_done(&self) -> bool {
        self.waiting.is_empty() && self.last.is_none() && self.unnoted.is_none()
    }
}

pub struct Flow {
    intakes: Vec<Intake>,
    replay: Replay,
    next_cycle: u64,
    log: CutJournal,
    clock: Arc<ManualClock>,
    /// Cycles that are closed and not processed.
    closed: VecDeque<(Cut, Vec<Vec<Event>>)>,
    state: State,
    /// The first cycle of the run.
    first: u64,
    pub sinks: Vec<SinkFlow>,
    /// Whether the next cycle is to be snapshotted, and the result.
    pub wants_snapshot: bool,
    pub snapshot: Option<Snapshot>,
    pub has_ended: bool,
}

impl Flow {
    pub fn new(gateways: &[Gateway], resume: Resume, state: Option<&Snapshot>, log: CutJournal) -> Flow {
        assert_eq!(resume.fault(gateways.len(), resume.sinks.len()), None, "where a run goes on");
        let first = resume.first_cycle();
        let sink = |first_new: &u64| SinkFlow {
            progress: SinkProgress::new(first, *first_new),
            waiting: VecDeque::new(),
            prepared: Vec::new(),
            last: None,
            unnoted: None,
        };
        let sinks = resume.sinks.iter().map(sink).collect();
        let replay = Replay::new(resume);
        let chunks = |(index, gateway): (usize, &Gateway)| {
            let (position, watermark, is_idle) = replay.start_of(index);
            Intake { gateway: gateway.clone(), position, watermark, is_idle }
        };
        Flow {
            intakes: gateways.iter().enumerate().map(chunks).collect(),
            first,
            next_cycle: first,
            log,
            clock: Arc::clone(&gateways[0].clock),
            closed: VecDeque::new(),
            state: state.map_or(State::default(), State::of),
            sinks,
            wants_snapshot: false,
            snapshot: None,
            has_ended: false,
            replay,
        }
    }

    /// Makes the next logged cut again, once its events are here; returns whether there is one.
    pub fn replay(&mut self) -> bool {
        let Some(cut) = self.replay.next() else { return false };
        let shares = self.intakes.iter().zip(&cut.positions).map(|(chunks, end)| end - chunks.position);
        let shares: Vec<u64> = shares.collect();
        if self.intakes.iter().zip(&shares).all(|(chunks, share)| chunks.pending() >= *share) {
            let events = self.take(&shares);
            for (index, chunks) in self.intakes.iter_mut().enumerate() {
                (chunks.watermark, chunks.is_idle) = (cut.watermarks[index], cut.idle[index]);
            }
            self.replay.advance();
            let snapshot = std::mem::take(&mut self.wants_snapshot);
            self.introduce(Cut { snapshot, last: false, ..cut }, events);
        }
        true
    }

    /// Closes a new cycle over some of what waits, and logs its cut; over nothing only if `may_be_empty`.
    pub fn cut(&mut self, random: &mut Random, may_be_empty: bool) -> Result<Option<Cut>, Cause> {
        let share = |chunks: &Intake| match random.below(3) {
            0 => chunks.pending(),
            _ => random.below(chunks.pending() + 1),
        };
        let shares: Vec<u64> = self.intakes.iter().map(share).collect();
        let is_empty = shares.iter().sum::<u64>() == 0;
        if is_empty && !self.wants_snapshot && !(may_be_empty && random.is_once_in(8)) {
            return Ok(None);
        }
        self.close(&shares, false).map(Some)
    }

    /// Closes the last cycle, over all that waits. Time comes to its end only if the sources have.
    pub fn end(&mut self, is_stop: bool) -> Result<Cut, Cause> {
        let shares: Vec<u64> = self.intakes.iter().map(Intake::pending).collect();
        (self.has_ended, self.wants_snapshot) = (true, true);
        self.close(&shares, !is_stop)
    }

    fn close(&mut self, shares: &[u64], at_end_of_time: bool) -> Result<Cut, Cause> {
        let events = self.take(shares);
        let cut = Cut {
            cycle: self.next_cycle,
            positions: self.intakes.iter().map(|chunks| chunks.position).collect(),
            watermarks: self
                .intakes
                .iter()
                .map(|chunks| if at_end_of_time { i64::MAX } else { chunks.watermark })
                .collect(),
            idle: self.intakes.iter().map(|chunks| chunks.is_idle).collect(),
            closed_at_ns: self.clock.now_ns(),
            snapshot: std::mem::take(&mut self.wants_snapshot),
            last: self.has_ended,
            splits: Vec::new(),
            ended_at: Vec::new(),
            stands_still_when_idle: false,
        };
        self.log.append(&cut)?;
        self.introduce(cut.clone(), events);
        Ok(cut)
    }

    fn take(&mut self, shares: &[u64]) -> Vec<Vec<Event>> {
        self.intakes.iter_mut().zip(shares).map(|(chunks, share)| chunks.take(*share)).collect()
    }

    fn introduce(&mut self, cut: Cut, events: Vec<Vec<Event>>) {
        assert_eq!(cut.cycle, self.next_cycle, "the number of a cycle");
        self.next_cycle += 1;
        self.closed.push_back((cut, events));
    }

    /// Processes the oldest cycle; false if there is none.
    pub fn work(&mut self) -> bool {
        let Some((cut, events)) = self.closed.pop_front() else { return false };
        let mut outputs = Vec::new();
        for (source, events) in events.into_iter().enumerate() {
            outputs.extend(events.into_iter().flatten().map(|(id, late)| self.state.row(source, id, late)));
        }
        outputs.push(self.state.end_of_cycle(&cut));
        if cut.snapshot {
            self.snapshot = Some(self.state.snapshot(cut.cycle));
        }
        for sink in &mut self.sinks {
            sink.waiting.push_back((cut.clone(), outputs.clone()));
        }
        true
    }

    /// A sink that was away is there, and has the cycles before this one. Returns how many of those it has not to be given.
    pub fn arrived(&mut self, sink: usize, first_new: u64) -> u64 {
        self.sinks[sink].progress = SinkProgress::new(self.first, first_new);
        first_new.saturating_sub(self.first)
    }

    /// Whether everything that was closed is committed.
    pub fn is_done(&self) -> bool {
        self.has_ended && self.closed.is_empty() && self.sinks.iter().all(SinkFlow::is_done)
    }
}
