//! Cycles that a clock outside of the query closes. The query works through them at its own pace.

use std::sync::Arc;

use tidemill_core::Cut;
use tidemill_core::counters::Counter;
use tidemill_core::sink::Arrivals;

use crate::error::Failure;
use crate::intake::cutter::Decision;
use crate::intake::cycle::{Cycle, SourceBatches, add_chunk};
use crate::intake::gateway::Chunk;
use crate::run_state::RunState;

/// A cycle that was closed outside of the query.
#[derive(Clone, Debug)]
pub struct GivenCycle {
    /// Its cut. Its number is greater than that of the cycle before; numbers may be left out.
    pub cut: Cut,
    /// For each gateway, in the plan's order, its rows in the cycle.
    pub chunks: Vec<Vec<Chunk>>,
}

/// What is given when the query asks for its next cycle.
#[derive(Clone, Debug)]
pub enum Given {
    /// The next cycle.
    Cycle(GivenCycle),
    /// There is none yet; ask again after this many nanoseconds, or when woken.
    Wait(Option<u64>),
}

/// Wakes a query, so that it asks for its next cycle.
pub type Waker = Arc<dyn Fn() + Send + Sync>;

/// Where a query gets its cycles if it does not close them itself ([`Settings::cycles_from`](crate::Settings)).
pub trait GivenCycles: Send {
    /// Called once, before anything else: how the query is woken when there is a cycle for it.
    fn wake_by(&mut self, waker: Waker);

    /// The next cycle. The query asks only if it has credit for one more. It `is_idle` if nothing of it is in flight, and
    /// `wants_cycle` if it waits for one even if that has no rows: for a snapshot, or because an operator waits for this time.
    ///
    /// # Errors
    /// Why no cycle comes any more.
    fn next(&mut self, is_idle: bool, wants_cycle: bool) -> Result<Given, Failure>;
}

/// Takes given cycles, in the place of a [`Cutter`](crate::intake::cutter::Cutter).
pub(crate) struct CycleTaker {
    given: Box<dyn GivenCycles>,
    /// For each gateway, its number of streams.
    streams: Vec<usize>,
    run_state: Arc<RunState>,
    next_cycle: u64,
    events: u64,
    /// When the last cycle was closed.
    closed_at_ns: Option<u64>,
    is_stalled: bool,
    has_ended: bool,
}

impl CycleTaker {
    pub fn new(mut given: Box<dyn GivenCycles>, run_state: Arc<RunState>) -> CycleTaker {
        let woken = Arc::downgrade(&run_state);
        given.wake_by(Arc::new(move || {
            if let Some(run_state) = woken.upgrade() {
                run_state.wake_ups.wake(0);
            }
        }));
        let streams = run_state.topology().plan.sources.iter().map(|source| source.streams.len()).collect();
        let next_cycle = run_state.first_cycle;
        CycleTaker {
            given,
            streams,
            run_state,
            next_cycle,
            events: 0,
            closed_at_ns: None,
            is_stalled: false,
            has_ended: false,
        }
    }

    /// Takes the next cycle, if there is credit for it.
    pub fn poll(&mut self) -> Result<Decision, Failure> {
        if self.has_ended {
            return Ok(Decision::Ended);
        }
        let has_credit = self.run_state.has_credit();
        if !has_credit && !self.is_stalled {
            self.run_state.counters.add(Counter::Stalls, 1);
        }
        self.is_stalled = !has_credit;
        if !has_credit {
            return Ok(Decision::Wait(None));
        }
        let is_idle = self.run_state.progress.is_handed(self.next_cycle);
        let (timer_ns, now_ns) =
            (self.run_state.clock_timer_behind(self.closed_at_ns), self.run_state.clock.now_ns());
        let is_timer_due = timer_ns.is_some_and(|timer_ns| timer_ns <= now_ns);
        let wants_cycle = is_timer_due || self.run_state.snapshots.is_due(self.events);
        match self.given.next(is_idle, wants_cycle)? {
            Given::Wait(wait_ns) => {
                let until_timer_ns = timer_ns.map(|timer_ns| timer_ns.saturating_sub(now_ns));
                Ok(Decision::Wait(wait_ns.into_iter().chain(until_timer_ns).min()))
            }
            Given::Cycle(cycle) => Ok(Decision::Closed(Arc::new(self.introduce(cycle)))),
        }
    }

    fn introduce(&mut self, given: GivenCycle) -> Cycle {
        let GivenCycle { mut cut, chunks } = given;
        let mut arrivals = Arrivals::default();
        let take = |(chunks, streams): (Vec<Chunk>, &usize)| {
            let mut batches: SourceBatches = vec![Vec::new(); *streams];
            chunks.into_iter().for_each(|chunk| add_chunk(chunk, &mut batches, &mut arrivals));
            batches
        };
        let streams = chunks.into_iter().zip(&self.streams).map(take).collect();
        self.events += u64::from(arrivals.events);
        self.run_state.counters.add(Counter::EventsIn, u64::from(arrivals.events));
        self.run_state.counters.add(Counter::CyclesCut, 1);
        let snapshots = &self.run_state.snapshots;
        cut.snapshot = snapshots.take_request(self.events) || (cut.last && snapshots.keeps_end());
        cut.splits = self.run_state.proposed_splits();
        (self.next_cycle, self.has_ended) = (cut.cycle + 1, cut.last);
        self.closed_at_ns = Some(cut.closed_at_ns);
        Cycle::begin(cut, arrivals, streams, &self.run_state)
    }
}
