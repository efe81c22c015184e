//! Closes cycles. Only worker 0 asks the cutter, whenever it is awake.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crossbeam_channel::TryRecvError;
use tidemill_core::counters::Counter;
use tidemill_core::error::Cause;
use tidemill_core::sink::Arrivals;
use tidemill_core::{Cut, CutLog};
use tidemill_plan::CyclePolicy;
use tracing::debug;

use crate::intake::cycle::{Cycle, SourceBatches, add_chunk};
use crate::intake::gateway::{Chunk, GatewayQueue};
use crate::intake::resume::Replay;
use crate::panics::guard;
use crate::run_state::RunState;

/// What the cutter decided.
pub(crate) enum Decision {
    /// A cycle was closed.
    Closed(Arc<Cycle>),
    /// Nothing to close; ask again after this many nanoseconds, or when woken.
    Wait(Option<u64>),
    /// All gateways have ended and all cycles were closed.
    Ended,
}

/// Why a cycle is closed.
#[derive(Clone, Copy, Debug)]
enum Reason {
    Full,
    Waited,
    Idle,
    Order,
    /// An operator waits for this time.
    Timer,
}

struct GatewayBuffer {
    queue: GatewayQueue,
    pending: VecDeque<Chunk>,
    pending_events: u64,
    position: u64,
    watermark: i64,
    /// The event time that it had reached when it ended, if a log says that it has.
    ended_at: i64,
    idle: bool,
    streams: usize,
    ended: bool,
    /// Whether a cut says that it has ended.
    end_is_cut: bool,
}

/// Closes cycles from events that wait in the gateways.
pub(crate) struct Cutter {
    policy: CyclePolicy,
    /// From when on the longest wait is counted in whole multiples; `None`: from the oldest event.
    phase_ns: Option<u64>,
    buffers: Vec<GatewayBuffer>,
    log: Box<dyn CutLog>,
    run_state: Arc<RunState>,
    next_cycle: u64,
    events_cut: u64,
    /// The gateway that is first to use the room that others leave in the next cycle.
    first: usize,
    /// Cuts of an earlier run that are replayed before any new one.
    replay: Replay,
    /// When the last cycle was closed.
    closed_at_ns: Option<u64>,
    /// Whether credit was missing when a cycle was last due.
    stalled: bool,
    ended: bool,
}

impl Cutter {
    pub fn new(
        policy: CyclePolicy,
        queues: Vec<(GatewayQueue, usize)>,
        log: Box<dyn CutLog>,
        replay: Replay,
        run_state: Arc<RunState>,
    ) -> Self {
        let buffer = |(gateway, (queue, streams))| {
            let (position, watermark, idle) = replay.start_of(gateway);
            let ended_at = replay.ended_at(gateway);
            GatewayBuffer {
                queue,
                pending: VecDeque::new(),
                position,
                watermark,
                ended_at,
                idle,
                pending_events: 0,
                streams,
                ended: false,
                end_is_cut: watermark == i64::MAX,
            }
        };
        let buffers = queues.into_iter().enumerate().map(buffer).collect();
        Cutter {
            policy,
            phase_ns: None,
            buffers,
            log,
            next_cycle: run_state.first_cycle,
            replay,
            run_state,
            events_cut: 0,
            first: 0,
            closed_at_ns: None,
            stalled: false,
            ended: false,
        }
    }

    /// Cycles that wait close at multiples of the longest wait from now on, as a periodic timer would close them.
    pub fn periodic(self) -> Self {
        Cutter { phase_ns: Some(self.run_state.clock.now_ns()), ..self }
    }

    /// Closes a cycle if one is due.
    pub fn poll(&mut self) -> Result<Decision, Cause> {
        if self.ended {
            return Ok(Decision::Ended);
        }
        if let Some(cut) = self.replay.next() {
            return self.poll_replay(&cut);
        }
        if let Some(policy) = self.run_state.new_policy.take() {
            self.policy = policy;
        }
        self.take_in();
        let now_ns = self.run_state.clock.now_ns();
        let (reason, wait_ns) = self.reason(now_ns);
        let Some(reason) = reason else { return Ok(Decision::Wait(wait_ns)) };
        if !self.has_credit() {
            return Ok(Decision::Wait(None));
        }
        self.close(reason, now_ns).map(|cycle| Decision::Closed(Arc::new(cycle)))
    }

    fn has_credit(&mut self) -> bool {
        let stalled = !self.run_state.has_credit();
        if stalled && !self.stalled {
            self.run_state.counters.add(Counter::Stalls, 1);
        }
        self.stalled = stalled;
        !stalled
    }

    /// Replays a logged cut, once all of its events have arrived. A queue is read only while events are missing. So if a
    /// chunk without events is taken in here, events behind it belong to this cut, and their chunk says again how far
    /// time is. One that is behind all events of the logged cuts stays in the queue for the first new cut.
    fn poll_replay(&mut self, cut: &Cut) -> Result<Decision, Cause> {
        let mut shares = Vec::with_capacity(self.buffers.len());
        let full = self.full();
        for (buffer, end) in self.buffers.iter_mut().zip(&cut.positions) {
            let share = u32::try_from(end - buffer.position).map_err(|_| too_long(cut))?;
            while buffer.pending_events < u64::from(share) && buffer.receive(full) {}
            if buffer.pending_events < u64::from(share) {
                return if buffer.ended {
                    Err(ends_before(cut, buffer.position + buffer.pending_events))
                } else {
                    Ok(Decision::Wait(None))
                };
            }
            shares.push(share);
        }
        if !self.has_credit() {
            return Ok(Decision::Wait(None));
        }
        let (arrivals, streams) = self.take(&shares);
        for (gateway, buffer) in self.buffers.iter_mut().enumerate() {
            buffer.watermark = cut.watermarks[gateway];
            buffer.ended_at = cut.ended_at.get(gateway).copied().unwrap_or(i64::MIN);
            buffer.idle = cut.idle.get(gateway).copied().unwrap_or(false);
        }
        let snapshot = self.run_state.snapshots.take_request(self.events_cut);
        self.replay.advance();
        let cycle = self.introduce(Cut { snapshot, last: false, ..cut.clone() }, arrivals, streams);
        Ok(Decision::Closed(Arc::new(cycle)))
    }

    /// Takes over what waits in the queues of gateways that have less than a full cycle here. The rest stays and holds
    /// back the senders.
    fn take_in(&mut self) {
        let full = self.full();
        for buffer in self.buffers.iter_mut().filter(|buffer| buffer.pending_events < full) {
            buffer.receive_all(full);
        }
    }

    fn pending_events(&self) -> u64 {
        self.buffers.iter().map(|buffer| buffer.pending_events).sum()
    }

    /// The events of a full cycle.
    fn full(&self) -> u64 {
        u64::from(self.policy.events_max)
    }

    fn is_full(&self) -> bool {
        self.pending_events() >= self.full()
    }

    fn reason(&self, now_ns: u64) -> (Option<Reason>, Option<u64>) {
        if self.is_full() {
            return (Some(Reason::Full), None);
        }
        let all_ended = self.buffers.iter().all(|buffer| buffer.ended);
        if all_ended || self.run_state.snapshots.is_due(self.events_cut + self.pending_events()) {
            return (Some(Reason::Order), None);
        }
        let timer_ns = self.run_state.clock_timer_behind(self.closed_at_ns);
        if timer_ns.is_some_and(|timer_ns| timer_ns <= now_ns) {
            return (Some(Reason::Timer), None);
        }
        let until_timer_ns = timer_ns.map(|timer_ns| timer_ns - now_ns);
        let Some(oldest_ns) = self.oldest_arrival_ns() else {
            let reason = self.has_unknown_end().then_some(Reason::Order);
            return (reason, until_timer_ns);
        };
        let after =
            |wait: Duration| oldest_ns.saturating_add(u64::try_from(wait.as_nanos()).unwrap_or(u64::MAX));
        let is_idle = self.policy.close_when_idle && self.run_state.progress.is_handed(self.next_cycle);
        let idle_ns = is_idle.then(|| after(self.run_state.idle_pause()));
        let waited_ns = self.policy.wait_max.map(|wait| match self.phase_ns {
            Some(start_ns) => next_multiple(start_ns, wait, oldest_ns),
            None => after(wait),
        });
        match (idle_ns, waited_ns) {
            (Some(due_ns), _) if due_ns <= now_ns => (Some(Reason::Idle), None),
            (_, Some(due_ns)) if due_ns <= now_ns => (Some(Reason::Waited), None),
            (idle_ns, waited_ns) => {
                let due_ns = [idle_ns, waited_ns].into_iter().flatten().min();
                let until_due_ns = due_ns.map(|due_ns| due_ns - now_ns);
                (None, until_due_ns.into_iter().chain(until_timer_ns).min())
            }
        }
    }

    /// Whether a gateway has ended which no cut says to have. Nothing of it comes that would close a cycle, and what reads it alone, or
    /// beside gateways that are silent, waits for its end. A cycle of a fixed size must not depend on when that becomes known.
    fn has_unknown_end(&self) -> bool {
        let is_unknown = |buffer: &GatewayBuffer| buffer.watermark() == i64::MAX && !buffer.end_is_cut;
        self.policy.close_when_idle && self.buffers.iter().any(is_unknown)
    }

    fn oldest_arrival_ns(&self) -> Option<u64> {
        self.buffers.iter().filter_map(|buffer| buffer.pending.front()?.arrived_ns).min()
    }

    fn close(&mut self, reason: Reason, now_ns: u64) -> Result<Cycle, Cause> {
        let shares = self.shares();
        let (arrivals, streams) = self.take(&shares);
        let last = self.pending_events() == 0 && self.buffers.iter().all(|buffer| buffer.ended);
        let cut = Cut {
            cycle: self.next_cycle,
            positions: self.buffers.iter().map(|buffer| buffer.position).collect(),
            watermarks: self.buffers.iter().map(GatewayBuffer::watermark).collect(),
            idle: self.buffers.iter().map(GatewayBuffer::is_idle).collect(),
            ended_at: ended_at(&self.buffers),
            stands_still_when_idle: false,
            closed_at_ns: now_ns,
            snapshot: self.run_state.snapshots.take_request(self.events_cut)
                || (last && self.run_state.snapshots.keeps_end()),
            last,
            splits: self.run_state.proposed_splits(),
        };
        guard(|| self.log.append(&cut))?;
        for buffer in &mut self.buffers {
            buffer.end_is_cut = buffer.watermark() == i64::MAX;
        }
        self.count(reason);
        debug!(cycle = cut.cycle, events = arrivals.events, ?reason, snapshot = cut.snapshot, "cycle closed");
        Ok(self.introduce(cut, arrivals, streams))
    }

    /// Moves this many events of each gateway into a cycle.
    fn take(&mut self, shares: &[u32]) -> (Arrivals, Vec<SourceBatches>) {
        let mut arrivals = Arrivals::default();
        let is_full = shares.iter().map(|share| u64::from(*share)).sum::<u64>() >= self.full();
        let take = |(buffer, share): (&mut GatewayBuffer, &u32)| buffer.take(*share, is_full, &mut arrivals);
        let streams = self.buffers.iter_mut().zip(shares).map(take).collect();
        self.events_cut += u64::from(arrivals.events);
        (arrivals, streams)
    }

    fn introduce(&mut self, cut: Cut, arrivals: Arrivals, streams: Vec<SourceBatches>) -> Cycle {
        self.next_cycle += 1;
        self.ended = cut.last;
        self.closed_at_ns = Some(cut.closed_at_ns);
        Cycle::begin(cut, arrivals, streams, &self.run_state)
    }

    /// How many events of each gateway go into the next cycle: its share of the room, so that a busy gateway cannot
    /// delay the events of others; the room that others leave is given out in turns.
    fn shares(&mut self) -> Vec<u32> {
        let gateways = self.buffers.len();
        let mut room = self.policy.events_max;
        let part = room / gateways as u32;
        let pending = |buffer: &GatewayBuffer| u32::try_from(buffer.pending_events).unwrap_or(u32::MAX);
        let mut shares: Vec<u32> = self.buffers.iter().map(|buffer| pending(buffer).min(part)).collect();
        room -= shares.iter().sum::<u32>();
        for index in (self.first..gateways).chain(0..self.first) {
            let more = room.min(pending(&self.buffers[index]) - shares[index]);
            shares[index] += more;
            room -= more;
        }
        self.first = (self.first + 1) % gateways;
        shares
    }

    fn count(&self, reason: Reason) {
        self.run_state.counters.add(Counter::CyclesCut, 1);
        match reason {
            Reason::Full => self.run_state.counters.add(Counter::CutsBySize, 1),
            Reason::Waited => self.run_state.counters.add(Counter::CutsByWait, 1),
            Reason::Idle => self.run_state.counters.add(Counter::CutsByIdle, 1),
            Reason::Order | Reason::Timer => {}
        }
    }
}

impl GatewayBuffer {
    /// Takes over everything that waits. Taking one chunk would wake a sender for the room of one, and it would be
    /// blocked again at once; waking a thread can take longer than the work for a chunk. Whether the gateway has ended
    /// is checked only if the events here do not fill a cycle: cycles of fixed size must not depend on when that
    /// becomes known.
    fn receive_all(&mut self, full: u64) {
        for _ in 0..self.queue.receiver.len() {
            self.receive(full);
        }
        while self.pending_events < full && self.receive(full) {}
    }

    /// Takes over a chunk, if one waits.
    fn receive(&mut self, full: u64) -> bool {
        match self.queue.receiver.try_recv() {
            Ok(chunk) => self.append(chunk, full),
            Err(TryRecvError::Empty) => return false,
            Err(TryRecvError::Disconnected) => {
                self.ended = true;
                return false;
            }
        }
        true
    }

    /// A chunk without events only advances the watermark. It is merged with the previous chunk, so that such chunks do
    /// not pile up while no cycle is closed. It is not merged with a chunk that fills a cycle: if it came a little
    /// later, that cycle would be closed already, and this must make no difference.
    fn append(&mut self, chunk: Chunk, full: u64) {
        let ends_cycle = self.pending_events.is_multiple_of(full);
        self.pending_events += u64::from(chunk.events);
        match self.pending.back_mut() {
            Some(last) if chunk.events == 0 && (last.events == 0 || !ends_cycle) => {
                last.watermark = last.watermark.max(chunk.watermark);
                last.idle = chunk.idle;
            }
            _ => self.pending.push_back(chunk),
        }
    }

    /// The event time up to which the gateway is complete: the end of time, once the gateway has ended.
    fn watermark(&self) -> i64 {
        let at_end = self.ended && self.pending.is_empty() && !self.queue.left.load(Ordering::SeqCst);
        if at_end { i64::MAX } else { self.watermark }
    }

    /// The event time that the gateway had reached, once it has ended.
    fn ended_at(&self) -> i64 {
        if self.watermark() < i64::MAX {
            return i64::MIN;
        }
        // One that a log says to have ended has that time only.
        if self.watermark == i64::MAX { self.ended_at } else { self.watermark }
    }

    /// Whether the gateway counts as idle. A gateway that has ended does not: its watermark is the end of time.
    fn is_idle(&self) -> bool {
        self.idle && !(self.ended && self.pending.is_empty())
    }

    /// Moves up to `share` events into a cycle. If these fill the cycle, chunks behind them that only advance the
    /// watermark are left for the next one.
    fn take(&mut self, share: u32, is_full: bool, arrivals: &mut Arrivals) -> SourceBatches {
        let mut streams = vec![Vec::new(); self.streams];
        let end = arrivals.events + share;
        while let Some(chunk) = self.pending.pop_front() {
            let room = end - arrivals.events;
            if is_full && share > 0 && room == 0 {
                self.pending.push_front(chunk);
                break;
            }
            let (chunk, rest) = chunk.split_at(room);
            if let Some(rest) = rest {
                self.pending.push_front(rest);
            }
            let Some(chunk) = chunk else { break };
            self.pending_events -= u64::from(chunk.events);
            self.position += u64::from(chunk.events);
            self.watermark = self.watermark.max(chunk.watermark);
            self.idle = chunk.idle;
            add_chunk(chunk, &mut streams, arrivals);
        }
        streams
    }
}

/// The event times that gateways had reached when they ended; empty if none has.
fn ended_at(buffers: &[GatewayBuffer]) -> Vec<i64> {
    let times: Vec<i64> = buffers.iter().map(GatewayBuffer::ended_at).collect();
    if times.iter().all(|time| *time == i64::MIN) { Vec::new() } else { times }
}

/// The first multiple of a time behind a moment, counted from the start.
fn next_multiple(start_ns: u64, of: Duration, moment_ns: u64) -> u64 {
    let of_ns = u64::try_from(of.as_nanos()).unwrap_or(u64::MAX);
    match moment_ns.checked_sub(start_ns) {
        Some(since_ns) if of_ns > 0 => start_ns.saturating_add((since_ns / of_ns + 1).saturating_mul(of_ns)),
        // It came before the start, or need not wait.
        _ => moment_ns,
    }
}

fn too_long(cut: &Cut) -> Cause {
    Cause::operation(format!("the logged cut of cycle {} has more events than a cycle may have", cut.cycle))
}

fn ends_before(cut: &Cut, position: u64) -> Cause {
    let (cycle, positions) = (cut.cycle, &cut.positions);
    Cause::operation(format!(
        "a source ends at position {position}, before the logged cut of cycle {cycle} at {positions:?}: events \
         of logged cycles are missing"
    ))
}
