//! A worker thread: builds its part of the dataflow, introduces cycles, lets Timely step, and parks when idle.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender};
use tidemill_core::interruption::interruptible;
use tidemill_core::snapshot::StateSource;
use tidemill_realtime::Role;
use timely::worker::Worker;

use crate::error::Failure;
use crate::intake::cutter::{Cutter, Decision};
use crate::intake::cycle::Cycle;
use crate::intake::given::CycleTaker;
use crate::run_state::RunState;
use crate::run_state::rest::Rest;
use crate::stages::cycles_in_flight::CyclesInFlight;
use crate::stages::sink_stage::SinkHandover;
use crate::stages::source::Source;
use crate::stages::{StageContext, operator_stage, sink_stage};
use crate::topology::Topology;
use crate::transport::bulk_channels::BulkChannels;

/// What a worker thread receives.
pub(crate) struct WorkerParts {
    pub topology: Arc<Topology>,
    pub run_state: Arc<RunState>,
    /// The bulk channels from and to other processes.
    pub bulk: Arc<BulkChannels>,
    pub state: Option<Arc<dyn StateSource>>,
    pub mailbox: Receiver<Arc<Cycle>>,
    /// For each sink, the connection to it, on the worker that feeds it.
    pub sinks: Vec<Option<SinkHandover>>,
    /// How long to spin before parking.
    pub spin: Duration,
    /// Only on worker 0.
    pub cutter: Option<CycleSource>,
}

/// What another thread of this process does with a closed cycle.
pub(crate) type PostCycle = Box<dyn Fn(&Cycle) + Send>;

/// Who says which cycle comes next.
pub(crate) enum Closing {
    /// The query closes its own cycles.
    Own(Box<Cutter>),
    /// Cycles are closed outside of it.
    Given(CycleTaker),
}

impl Closing {
    fn poll(&mut self) -> Result<Decision, Failure> {
        match self {
            Closing::Own(cutter) => {
                cutter.poll().map_err(|cause| Failure::Engine { part: "cut log".into(), cause })
            }
            Closing::Given(taker) => taker.poll(),
        }
    }
}

/// Where cycles come from, with the mailboxes of all workers.
pub(crate) struct CycleSource {
    pub cutter: Closing,
    pub mailboxes: Vec<Sender<Arc<Cycle>>>,
    /// Announces a cycle to the other processes, if there are any.
    pub post: Option<PostCycle>,
}

impl CycleSource {
    /// Closes a cycle if one is due. Returns how long to wait before asking again, if not for ever.
    fn advance(&mut self, run_state: &RunState) -> Result<Step, Failure> {
        match self.cutter.poll()? {
            Decision::Closed(cycle) => {
                if let Some(post) = &self.post {
                    post(&cycle);
                }
                for mailbox in &self.mailboxes {
                    // A worker that is gone has failed, and the failure is reported.
                    let _ = mailbox.send(Arc::clone(&cycle));
                }
                run_state.wake_ups.wake_all();
                Ok(Step::Again)
            }
            Decision::Wait(wait_ns) => Ok(Step::Wait(wait_ns.map(Duration::from_nanos))),
            Decision::Ended => Ok(Step::Ended),
        }
    }
}

/// Keeps a worker awake for a while after its last work, because waking it takes longer than most cycles.
struct SpinWait {
    spin: Duration,
    until: Option<Instant>,
    asked: u32,
}

/// How often a worker polls for work before it yields its core, which takes about as long.
const ASKED_PER_YIELD: u32 = 16;

impl SpinWait {
    fn something_happened(&mut self) {
        if !self.spin.is_zero() {
            self.until = Some(Instant::now() + self.spin);
        }
    }

    /// How long to park: not at all while it spins.
    fn park(&mut self, wait: Option<Duration>) -> Option<Duration> {
        match self.until {
            Some(until) if Instant::now() < until => {
                self.asked = self.asked.wrapping_add(1);
                // Another thread that wants the core may have it.
                match self.asked % ASKED_PER_YIELD {
                    0 => std::thread::yield_now(),
                    _ => std::hint::spin_loop(),
                }
                Some(Duration::ZERO)
            }
            _ => {
                self.until = None;
                wait
            }
        }
    }
}

enum Step {
    Again,
    Wait(Option<Duration>),
    Ended,
}

/// Runs a worker until the query has ended or failed.
pub(crate) fn run(worker: &mut Worker, mut parts: WorkerParts) {
    parts.run_state.wake_ups.register(worker.index());
    let of_run = Arc::clone(&parts.run_state);
    let _until = interruptible(move || of_run.is_stopped());
    if let Err(failure) = run_dataflow(worker, &mut parts) {
        parts.run_state.fail(failure);
    }
    if parts.run_state.is_stopped() {
        drop_dataflows(worker);
    }
}

/// Drops everything in flight on this worker.
pub(crate) fn drop_dataflows(worker: &mut Worker) {
    for dataflow in worker.installed_dataflows() {
        worker.drop_dataflow(dataflow);
    }
}

fn run_dataflow(worker: &mut Worker, parts: &mut WorkerParts) -> Result<(), Failure> {
    let mut source = Some(build(worker, parts)?);
    // Promoted last: building need not go before other threads.
    let mut member = parts.run_state.join_pool(Role::Worker(worker.index()))?;
    parts.run_state.costs.add_this_thread();
    parts.run_state.wake_ups.are_ready(1);
    let mut spin_wait = SpinWait { spin: parts.spin, until: None, asked: 0 };
    // At real-time priority, the next rows must not wait for new memory.
    let mut rest = Rest::new(&parts.run_state.memory, member.is_none());
    while worker.has_dataflows() && !parts.run_state.is_stopped() {
        let mut park = None;
        if let Some(member) = &mut member {
            member.between_activations(|| parts.run_state.is_stopped());
        }
        if let Some(cycles) = &mut parts.cutter {
            match cycles.advance(&parts.run_state)? {
                Step::Again => {
                    park = Some(Duration::ZERO);
                    spin_wait.something_happened();
                }
                Step::Wait(wait) => park = wait,
                Step::Ended => parts.cutter = None,
            }
        }
        if let Ok(cycle) = parts.mailbox.try_recv() {
            park = Some(Duration::ZERO);
            spin_wait.something_happened();
            if let Some(source) = &mut source {
                source.introduce(&cycle)?;
            }
            if cycle.cut.last {
                source = None;
            }
        }
        if park == Some(Duration::ZERO) {
            rest.something_happened();
        }
        let wait = rest.wait(spin_wait.park(park), &parts.run_state.memory);
        worker.step_or_park(wait);
        parts.run_state.worker_stepped();
    }
    Ok(())
}

fn build(worker: &mut Worker, parts: &mut WorkerParts) -> Result<Source, Failure> {
    let index = worker.index();
    let topology = Arc::clone(&parts.topology);
    let run_state = &parts.run_state;
    let cycles = CyclesInFlight::default();
    worker.dataflow::<u64, _, _>(|scope| {
        let mut streams: Vec<_> = topology.edges.iter().map(|_| None).collect();
        let source =
            Source::new(index, &topology, cycles.clone(), Arc::clone(run_state), scope, &mut streams)?;
        let context =
            StageContext { topology: &topology, worker: index, cycles, run_state, bulk: &parts.bulk };
        for operator in 0..topology.plan.operators.len() {
            operator_stage::build(scope, &context, operator, parts.state.as_deref(), &mut streams)?;
        }
        for (sink, thread) in parts.sinks.drain(..).enumerate() {
            sink_stage::build(scope, &context, sink, thread, &mut streams);
        }
        // The state was read; its source need not stay in memory.
        parts.state = None;
        Ok(source)
    })
}
