//! What the threads of a running query share: counters, credits, failure, response times. Touched per cycle,
//! never per event.

pub(crate) mod snapshots;
pub(crate) mod splits;
pub(crate) mod work;

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, OnceLock};
use std::thread::Thread;
use std::time::Duration;

use tidemill_core::clock::Clock;
use tidemill_core::counters::{Counter, Counters};
use tidemill_core::latency::ResponseTimes;
use tidemill_core::sink::Arrivals;
use tidemill_core::{Cut, SplitChange};
use tidemill_plan::Limits;

use crate::error::Failure;
use crate::intake::cycle::Cycle;
use crate::members::Outbox;
use crate::run_state::snapshots::SnapshotDesk;
use crate::run_state::splits::{SplitDesk, Splits};
use crate::run_state::work::WorkTable;
use crate::sync::lock;
use crate::topology::Topology;
use crate::transport::lanes::Lanes;
use crate::transport::parcel::Parcel;
use crate::transport::parcels::Parcels;

/// Ends the wait of a sink, or of another process.
pub(crate) type Stopper = Box<dyn Fn() + Send + Sync>;

pub(crate) struct Shared {
    pub clock: Arc<dyn Clock>,
    pub counters: Counters,
    pub snapshots: SnapshotDesk,
    pub work: WorkTable,
    pub splits: SplitDesk,
    /// Where long parcels come from other processes, and go to them.
    pub lanes: Lanes,
    topology: Arc<Topology>,
    /// Bytes of rows that were copied to several partitions, or sent to other processes, and are not yet processed.
    /// Less than zero where those are processed that others have counted.
    held_bytes: AtomicI64,
    /// In another process than the first, the way to that.
    outbox: OnceLock<Arc<Outbox>>,
    /// The first cycle of this run.
    pub first_cycle: u64,
    /// Response times are those of events that arrived from then on. What an earlier run took in, and this one answers,
    /// has waited for a start.
    pub counted_from_ns: u64,
    limits: Limits,
    stopped: AtomicBool,
    /// End the waits of sinks and other processes.
    stoppers: Mutex<Vec<Stopper>>,
    failure: Mutex<Option<Failure>>,
    workers: Vec<OnceLock<Thread>>,
    /// How many workers have built their part of the dataflow.
    workers_ready: Mutex<usize>,
    ready_changed: Condvar,
    /// For each sink, the first cycle that was not handed to it, and the first that it has not committed.
    handed: Vec<AtomicU64>,
    committed: Vec<AtomicU64>,
    completion: Mutex<Completion>,
}

/// Cycles on their way, and the response times of those that arrived.
struct Completion {
    pending: VecDeque<(u64, u64, Arc<Arrivals>)>,
    per_event: ResponseTimes,
    per_cycle: ResponseTimes,
}

impl Shared {
    pub fn new(
        clock: Arc<dyn Clock>,
        limits: Limits,
        workers: usize,
        topology: &Arc<Topology>,
        first_cycle: u64,
        stoppers: Vec<Stopper>,
    ) -> Self {
        let first = || (0..topology.plan.sinks.len()).map(|_| AtomicU64::new(first_cycle)).collect();
        Shared {
            clock,
            counters: Counters::default(),
            snapshots: SnapshotDesk::default(),
            work: WorkTable::new(topology),
            splits: SplitDesk::new(topology),
            lanes: Lanes::new(topology.layout),
            topology: Arc::clone(topology),
            held_bytes: AtomicI64::new(0),
            outbox: OnceLock::new(),
            first_cycle,
            counted_from_ns: 0,
            limits,
            stopped: AtomicBool::new(false),
            stoppers: Mutex::new(stoppers),
            failure: Mutex::new(None),
            workers: (0..workers).map(|_| OnceLock::new()).collect(),
            workers_ready: Mutex::new(0),
            ready_changed: Condvar::new(),
            handed: first(),
            committed: first(),
            completion: Mutex::new(Completion {
                pending: VecDeque::new(),
                per_event: ResponseTimes::default(),
                per_cycle: ResponseTimes::default(),
            }),
        }
    }

    // Waking.

    pub fn register_worker(&self, index: usize) {
        // A worker is registered once, by itself.
        let _ = self.workers[index - self.topology.layout.first_worker()].set(std::thread::current());
    }

    pub fn wake_worker(&self, index: usize) {
        if let Some(thread) = self.workers[index].get() {
            thread.unpark();
        }
    }

    pub fn wake_workers(&self) {
        self.workers.iter().filter_map(OnceLock::get).for_each(Thread::unpark);
    }

    pub fn workers_are_ready(&self, workers: usize) {
        *lock(&self.workers_ready) += workers;
        self.ready_changed.notify_all();
    }

    /// Waits for so many workers; false if the query stops before.
    pub fn wait_until_ready(&self, workers: usize) -> bool {
        let mut ready = lock(&self.workers_ready);
        while *ready < workers && !self.is_stopped() {
            let waited = self.ready_changed.wait_timeout(ready, Duration::from_millis(100));
            ready = waited.unwrap_or_else(|poisoned| poisoned.into_inner()).0;
        }
        !self.is_stopped()
    }

    // Failure.

    /// Stops the query; the first failure is the one that is reported.
    pub fn fail(&self, failure: Failure) {
        lock(&self.failure).get_or_insert(failure);
        self.stopped.store(true, Ordering::SeqCst);
        self.lanes.close();
        lock(&self.stoppers).iter().for_each(|stopper| stopper());
        self.wake_workers();
        self.snapshots.wake();
    }

    /// Has this called when the query stops, at once if it has.
    pub fn add_stopper(&self, stopper: Stopper) {
        let mut stoppers = lock(&self.stoppers);
        if self.is_stopped() {
            stopper();
        }
        stoppers.push(stopper);
    }

    pub fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::SeqCst)
    }

    pub fn failure(&self) -> Option<Failure> {
        lock(&self.failure).clone()
    }

    // Credits.

    /// Whether one more cycle may be closed after `next_cycle` ones.
    pub fn has_credit(&self, next_cycle: u64) -> bool {
        next_cycle - self.committed_cycles() < self.limits.cycles_in_flight_max
            && self.counters.get(Counter::UncommittedBytes).saturating_add_signed(self.held_bytes())
                < self.limits.uncommitted_bytes_max
    }

    /// What is held for rows on their way; of what other processes hold, what they have reported.
    pub fn held_bytes(&self) -> i64 {
        self.held_bytes.load(Ordering::Relaxed)
    }

    /// Holds so many bytes more, or less.
    pub fn hold(&self, bytes: i64) {
        self.held_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Counts a parcel that leaves this process until it is processed, if it is not counted yet.
    pub fn hold_sent(&self, parcel: &mut Parcel) {
        if parcel.held_bytes == 0 {
            parcel.held_bytes = parcel.rows.batch.bytes() as u64;
            self.hold(parcel.held_bytes as i64);
        }
    }

    /// Counts what is split into more rows than there were, until it is processed: what is broadcast must not
    /// pile up either.
    pub fn hold_copies(&self, mut parcels: Parcels, rows_before: u64) -> Parcels {
        if parcels.rows() > rows_before {
            for parcel in &mut parcels.0 {
                parcel.held_bytes = parcel.rows.batch.bytes() as u64;
            }
            let held_bytes: u64 = parcels.0.iter().map(|parcel| parcel.held_bytes).sum();
            self.hold(held_bytes as i64);
        }
        parcels
    }

    /// What was held was processed.
    pub fn release(&self, held_bytes: u64) {
        self.hold(-(held_bytes as i64));
    }

    // Other processes.

    /// In another process than the first: the way to that.
    pub fn set_outbox(&self, outbox: Arc<Outbox>) {
        // There is one for a run.
        let _ = self.outbox.set(outbox);
    }

    /// A worker has done something of which process 0 may want to know.
    pub fn touch_outbox(&self) {
        if let Some(outbox) = self.outbox.get() {
            outbox.touch();
        }
    }

    /// One operator's partitions on one worker, for a snapshot.
    pub fn contribute(&self, operator: &str, watermark: i64, partitions: BTreeMap<u32, Vec<u8>>) {
        match self.outbox.get() {
            Some(outbox) => outbox.contribute(operator, watermark, partitions),
            None => self.snapshots.contribute(operator, watermark, partitions),
        }
    }

    /// In another process than the first, which has the sinks: how far they are.
    pub fn set_committed(&self, cycle: u64) {
        self.committed.iter().for_each(|committed| committed.store(cycle, Ordering::Release));
    }

    // Split plans.

    pub fn topology(&self) -> &Arc<Topology> {
        &self.topology
    }

    /// What is to change at the next cut.
    pub fn proposed_splits(&self) -> Vec<SplitChange> {
        self.splits.take_proposals(&self.topology)
    }

    /// The split plans of a cycle that is being cut.
    pub fn splits_at_cut(&self, cut: &Cut) -> Splits {
        let (splits, changed) = self.splits.at_cut(cut.cycle, &cut.splits, &self.topology);
        // What was measured of another plan says nothing of this one.
        changed.into_iter().for_each(|edge| self.work.forget_splits(edge));
        splits
    }

    /// Whether the workers have nothing to do.
    pub fn is_idle(&self, next_cycle: u64) -> bool {
        least(&self.handed) == next_cycle
    }

    /// The first cycle that some sink has not committed.
    pub fn committed_cycles(&self) -> u64 {
        least(&self.committed)
    }

    // The way of a cycle.

    pub fn cycle_closed(&self, cycle: &Cycle) {
        let entry = (cycle.cut.cycle, cycle.cut.closed_at_ns, Arc::clone(&cycle.arrivals));
        lock(&self.completion).pending.push_back(entry);
    }

    pub fn cycle_handed(&self, sink: usize, cycle: u64) {
        self.handed[sink].store(cycle + 1, Ordering::Release);
        self.wake_worker(0);
    }

    pub fn cycles_committed(&self, sink: usize, last_cycle: u64) {
        self.committed[sink].store(last_cycle + 1, Ordering::Release);
        let now_ns = self.clock.now_ns();
        let mut completion = lock(&self.completion);
        // Read under the lock: of two sinks that commit at once, the second one sees both.
        let committed = self.committed_cycles();
        while completion.pending.front().is_some_and(|(cycle, ..)| *cycle < committed) {
            completion.complete_first(now_ns, self.counted_from_ns, &self.counters);
        }
        drop(completion);
        self.wake_worker(0);
    }

    /// The response times so far: per event and per cycle.
    pub fn response_times(&self) -> (ResponseTimes, ResponseTimes) {
        let completion = lock(&self.completion);
        (completion.per_event.clone(), completion.per_cycle.clone())
    }
}

impl Completion {
    fn complete_first(&mut self, now_ns: u64, counted_from_ns: u64, counters: &Counters) {
        let Some((_, closed_at_ns, arrivals)) = self.pending.pop_front() else { return };
        for (arrived_ns, events) in
            arrivals.weighted().filter(|(arrived_ns, _)| *arrived_ns >= counted_from_ns)
        {
            self.per_event.record(now_ns.saturating_sub(arrived_ns), events);
        }
        if arrivals.events > 0 && closed_at_ns >= counted_from_ns {
            self.per_cycle.record(now_ns.saturating_sub(closed_at_ns), 1);
        }
        counters.add(Counter::CyclesCommitted, 1);
        counters.add(Counter::EventsCommitted, u64::from(arrivals.events));
    }
}

fn least(counts: &[AtomicU64]) -> u64 {
    counts.iter().map(|count| count.load(Ordering::Acquire)).min().unwrap_or(0)
}

#[cfg(test)]
impl Shared {
    /// Of a query without operators, in one of several processes.
    pub fn idle(layout: crate::topology::Layout) -> Arc<Shared> {
        use arrow_schema::Schema;
        let mut plan = tidemill_plan::Plan::new("idle");
        let input = plan.source("input", [Arc::new(Schema::empty())]);
        plan.sink("output", input);
        let topology = Arc::new(Topology::new(plan, layout).expect("the plan is right"));
        let clock = Arc::new(tidemill_core::SystemClock::new());
        Arc::new(Shared::new(clock, Limits::default(), 1, &topology, 0, Vec::new()))
    }
}
