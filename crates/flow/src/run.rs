//! Starts a plan, and provides the handle of the running query.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use crossbeam_channel::unbounded;
use parking_lot::Mutex;
use tidemill_core::clock::Clock;
use tidemill_core::snapshot::{Snapshot, StateSource};
use tidemill_core::{CommitGuard, CutLog, MemoryCutLog, Sink, SystemClock};
use tidemill_plan::{CyclePolicy, Limits, Plan};
use tidemill_realtime::analysis::CostModel;
use tidemill_realtime::{Pool, PoolQuery};
use tidemill_split::SplitPlan;
use timely::communication::WorkerGuards;
use tracing::info;

use crate::error::{Failure, FlowError};
use crate::intake::cutter::Cutter;
use crate::intake::cycle::Cycle;
use crate::intake::gateway::{Gateway, gateway};
use crate::intake::given::{CycleTaker, GivenCycles};
use crate::intake::resume::{Replay, Resume};
use crate::members::{Leader, PROCESSES_MAX, WorkerProcesses, check_is_no_member};
use crate::placement::rebalancing::Rebalancing;
use crate::run_state::RunState;
use crate::run_state::costs::CostMeasurement;
use crate::run_state::cycle_costs::CycleCosts;
use crate::run_state::splits;
use crate::snapshots::Snapshots;
use crate::split_optimizer::SplitOptimizer;
use crate::stages::committer::Committer;
use crate::stages::sink_stage::SinkHandover;
use crate::status::{Observer, Status, Summary};
use crate::threads::spawn;
use crate::topology::{EdgeKind, Layout, Topology};
use crate::transport::bulk_channels::BulkChannels;
use crate::transport::handshake::INSTRUCTIONS_BYTES_MAX;
use crate::workers::launch::{Network, launch};
use crate::workers::worker::{Closing, CycleSource, WorkerParts};

/// How a plan is run.
pub struct Settings {
    /// Worker threads, of each process.
    pub workers: usize,
    /// The processes; `None`: this one.
    pub processes: Option<WorkerProcesses>,
    /// How long a worker without work spins before it parks.
    pub spin: Duration,
    /// The pool in which its threads run; `None`: they are ordinary threads.
    pub pool: Option<Arc<Pool>>,
    /// Within what time of its arrival an event should have its answer. Later ones are counted.
    pub deadline: Option<Duration>,
    /// Whether the processor time of cycles is measured, and what it is compared with.
    pub costs: Option<CostMeasurement>,
    /// When cycles close.
    pub cycles: CyclePolicy,
    /// Whether the longest wait of a cycle counts from its oldest event, or ends at multiples of itself since the start.
    pub is_periodic: bool,
    /// The bounds.
    pub limits: Limits,
    /// Where the cycles come from; `None`: the query closes its own, and logs their cuts.
    pub cycles_from: Option<Box<dyn GivenCycles>>,
    /// Where cuts are logged.
    pub cut_log: Box<dyn CutLog>,
    /// The clock of arrivals, cuts and response times.
    pub clock: Arc<dyn Clock>,
    /// Where operators find their state; `None`: they start empty.
    pub state: Option<Arc<dyn StateSource>>,
    /// Where an earlier run stopped; `None`: the query starts from the beginning.
    pub resume: Option<Resume>,
    /// Asked before a sink commits; `None`: sinks commit as soon as they can.
    pub guard: Option<Arc<dyn CommitGuard>>,
    /// Whether splits with given plans are profiled, too.
    pub profile_splits: bool,
    /// How partitions move between workers. With a pool they stay: the bounds of its queries are computed for fixed places.
    pub rebalancing: Rebalancing,
    /// Whether the state at the end of the last cycle is snapshotted, see [`Snapshots::of_end`](crate::Snapshots::of_end).
    pub snapshot_at_end: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            workers: 1,
            processes: None,
            spin: Duration::ZERO,
            pool: None,
            deadline: None,
            costs: None,
            cycles: CyclePolicy::default(),
            is_periodic: false,
            limits: Limits::default(),
            cycles_from: None,
            cut_log: Box::new(MemoryCutLog::new(1024)),
            clock: Arc::new(SystemClock::new()),
            state: None,
            resume: None,
            guard: None,
            profile_splits: false,
            rebalancing: Rebalancing::default(),
            snapshot_at_end: false,
        }
    }
}

/// A running query.
pub struct Running {
    run_state: Arc<RunState>,
    /// Locked only so that several threads can watch and stop a query.
    workers: Mutex<Option<WorkerGuards<()>>>,
    sinks: Vec<JoinHandle<()>>,
    leader: Option<Leader>,
    split_optimizer: Option<JoinHandle<()>>,
    gateways: Vec<Option<Gateway>>,
    snapshot_parts: usize,
    started_ns: u64,
}

/// Starts a plan with its sinks, in the plan's order.
///
/// # Errors
/// If the plan or the settings cannot run.
pub fn start(plan: Plan, sinks: Vec<Box<dyn Sink>>, settings: Settings) -> Result<Running, FlowError> {
    check_is_no_member()?;
    let workers = settings.workers;
    let layout = check_layout(workers, settings.processes.as_ref())?;
    if sinks.len() != plan.sinks.len() {
        let (given, planned) = (sinks.len(), plan.sinks.len());
        return Err(FlowError::Settings(format!("got {given} sinks, but the plan has {planned}")));
    }
    check_limits(&settings.cycles, &settings.limits)?;
    check_pool(settings.pool.as_deref(), &layout)?;
    // At real-time priority, a worker that spins would keep everything else from its core.
    let spin = if settings.pool.is_some() { Duration::ZERO } else { settings.spin };
    let topology = Arc::new(Topology::new(plan, layout)?);
    let plan = &topology.plan;
    let is_resumed = settings.resume.is_some();
    let resume =
        settings.resume.unwrap_or_else(|| Resume { sinks: vec![0; plan.sinks.len()], ..Resume::default() });
    if let Some(fault) = resume.fault(plan.sources.len(), plan.sinks.len()) {
        return Err(FlowError::Settings(fault));
    }
    let first_cycle = resume.first_cycle();
    // Events that arrived before a resumed run began were answered late because nothing ran.
    let counted_from_ns = if is_resumed { settings.clock.now_ns() } else { 0 };
    let stoppers = sinks.iter().filter_map(|sink| sink.stopper()).collect();
    let mut run_state =
        RunState::new(settings.clock, &settings.limits, workers, &topology, first_cycle, stoppers);
    run_state.progress.counted_from_ns = counted_from_ns;
    run_state.progress.deadline_ns = settings.deadline.map(|deadline| deadline.as_nanos() as u64);
    let names: Vec<&str> = topology.plan.sinks.iter().map(|sink| sink.name.as_str()).collect();
    let of_query = |pool| PoolQuery::new(&pool, names.join(", "), settings.deadline);
    run_state.pool = settings.pool.map(of_query);
    run_state.costs.measure(settings.costs);
    if run_state.pool.is_none() {
        run_state.placements.follow(&settings.rebalancing, &topology);
    }
    let snapshot_parts = topology.plan.operators.len() * layout.all_workers() as usize;
    if settings.snapshot_at_end {
        run_state.snapshots.keep_end(snapshot_parts);
    }
    let run_state = Arc::new(run_state);
    let started_ns = run_state.clock.now_ns();
    let bulk = BulkChannels::of_run(&run_state);
    let (leader, network) = match settings.processes.filter(|processes| processes.count() > 1) {
        None => (None, None),
        Some(processes) => {
            let state = settings.state.as_deref();
            let (leader, sockets) = Leader::gather(&processes, &run_state, state, spin)?;
            (Some(leader), Some(Network { sockets, bulk: Arc::clone(&bulk) }))
        }
    };

    let (mut gateways, mut queues) = (Vec::new(), Vec::new());
    for source in &topology.plan.sources {
        let (sending, queue) = gateway(source, &run_state, settings.limits.gateway_batches_max);
        gateways.push(Some(sending));
        queues.push((queue, source.streams.len()));
    }
    let first_new = resume.sinks.clone();
    let replay = Replay::new(resume);
    let cutter = match settings.cycles_from {
        None => {
            let of_run = Arc::clone(&run_state);
            let cutter = Cutter::new(settings.cycles, queues, settings.cut_log, replay, of_run);
            Closing::Own(Box::new(if settings.is_periodic { cutter.periodic() } else { cutter }))
        }
        Some(given) => {
            // Its rows come with its cycles.
            gateways.clear();
            Closing::Given(CycleTaker::new(given, Arc::clone(&run_state)))
        }
    };

    let mut handovers = Vec::new();
    let mut sink_threads = Vec::new();
    for (index, sink) in sinks.into_iter().enumerate() {
        // The guard waits for disks, and a sink that is away for its target.
        let may_block = sink.may_block() || settings.guard.is_some() || sink.away().is_some();
        let name = topology.plan.sinks[index].name.clone();
        let committer = Committer::new(index, name, sink, Arc::clone(&run_state));
        let committer = committer.resumed(first_new[index], settings.guard.clone());
        if may_block {
            // Bounded by the credits.
            let (sender, results) = unbounded();
            handovers.push(Some(SinkHandover::Thread(sender)));
            let running = run_state.threads.begin();
            sink_threads.push(spawn(format!("sink-{index}"), move || {
                let _running = running;
                committer.run(&results);
            })?);
        } else {
            handovers.push(Some(SinkHandover::Direct(Box::new(committer))));
        }
    }

    let (mailboxes, receivers): (Vec<_>, Vec<_>) = (0..workers).map(|_| unbounded()).unzip();
    let post = leader.as_ref().map(|leader| {
        let members = leader.members();
        Box::new(move |cycle: &Cycle| members.post(cycle)) as _
    });
    let mut cycles = Some(CycleSource { cutter, mailboxes, post });
    let parts = receivers.into_iter().enumerate().map(|(index, mailbox)| {
        let feeds = |sink| layout.worker_of_sink(sink) as usize == index;
        WorkerParts {
            topology: Arc::clone(&topology),
            run_state: Arc::clone(&run_state),
            bulk: Arc::clone(&bulk),
            state: settings.state.clone(),
            mailbox,
            sinks: handovers
                .iter_mut()
                .enumerate()
                .map(|(sink, handover)| handover.take_if(|_| feeds(sink)))
                .collect(),
            spin,
            cutter: cycles.take(),
        }
    });
    let guards = launch(parts.collect(), &run_state, network)?;
    let split_optimizer = SplitOptimizer::start(&run_state, settings.profile_splits)?;
    Ok(Running {
        run_state,
        workers: Mutex::new(Some(guards)),
        sinks: sink_threads,
        leader,
        split_optimizer,
        gateways,
        snapshot_parts,
        started_ns,
    })
}

/// Refuses invalid numbers of workers and processes.
fn check_layout(workers: usize, processes: Option<&WorkerProcesses>) -> Result<Layout, FlowError> {
    if workers == 0 || workers > 1024 {
        return Err(FlowError::Settings(format!("{workers} workers; choose 1 to 1024")));
    }
    let instructions_bytes = processes.map_or(0, WorkerProcesses::instructions_bytes);
    if instructions_bytes > INSTRUCTIONS_BYTES_MAX {
        return Err(FlowError::Settings(format!(
            "{instructions_bytes} bytes of instructions for other processes, but at most \
             {INSTRUCTIONS_BYTES_MAX} are allowed; put long parts into a file, and pass its name"
        )));
    }
    let processes = processes.map_or(1, WorkerProcesses::count);
    if processes == 0 || processes > PROCESSES_MAX {
        return Err(FlowError::Settings(format!("{processes} processes; choose 1 to {PROCESSES_MAX}")));
    }
    Ok(Layout { workers: workers as u32, processes: processes as u32, process: 0 })
}

/// Refuses a pool that the query would not run in as a whole.
fn check_pool(pool: Option<&Pool>, layout: &Layout) -> Result<(), FlowError> {
    let Some(settings) = pool.map(Pool::settings) else { return Ok(()) };
    if layout.processes > 1 {
        let reason =
            format!("pool '{}': a query in a pool runs in one process, not in several", settings.name);
        return Err(FlowError::Settings(reason));
    }
    if settings.workers != layout.workers as usize {
        let (name, workers) = (&settings.name, settings.workers);
        return Err(FlowError::Settings(format!(
            "pool '{name}' has {workers} workers, not {}",
            layout.workers
        )));
    }
    Ok(())
}

/// Refuses limits with which nothing would move, or that are not limits.
fn check_limits(cycles: &CyclePolicy, limits: &Limits) -> Result<(), FlowError> {
    let ranges = [
        ("events in a cycle", u64::from(cycles.events_max), 1 << 30),
        ("cycles in flight", limits.cycles_in_flight_max, 1 << 16),
        ("cycles behind", limits.cycles_behind_max, 1 << 20),
        ("uncommitted bytes", limits.uncommitted_bytes_max, u64::MAX),
        ("batches in a gateway", limits.gateway_batches_max as u64, 1 << 20),
    ];
    match ranges.iter().find(|(_, value, most)| *value == 0 || value > most) {
        Some((what, value, most)) => {
            Err(FlowError::Settings(format!("the limit of {value} {what} is invalid; choose 1 to {most}")))
        }
        None => Ok(()),
    }
}

impl Running {
    /// The gateway of the source with this index; each can be taken once. The query ends when all gateways have been
    /// dropped, so [`join`](Running::join) drops those that were not taken.
    pub fn gateway(&mut self, source: usize) -> Option<Gateway> {
        self.gateways.get_mut(source)?.take()
    }

    /// Counters and response times so far.
    pub fn status(&self) -> Status {
        self.observer().status()
    }

    /// A handle to read the status from any thread, also while another one waits for the end.
    pub fn observer(&self) -> Observer {
        Observer { run_state: Arc::clone(&self.run_state), started_ns: self.started_ns }
    }

    /// Waits until every worker has built its operators and restored their state. Events may be pushed earlier; they
    /// wait.
    ///
    /// # Errors
    /// If the query stops before.
    pub fn wait_until_ready(&self) -> Result<(), FlowError> {
        let workers = self.run_state.topology().workers as usize;
        if self.run_state.wait_until_ready(workers) {
            Ok(())
        } else {
            Err(self.run_state.failure().unwrap_or(Failure::Aborted).into())
        }
    }

    /// Splits an operator input by another plan from the next cycle on. The results do not depend on it. The split of
    /// the input must be changeable: [`OperatorPlan::auto_split`](tidemill_plan::OperatorPlan::auto_split).
    ///
    /// # Errors
    /// If such an input does not exist, its split may not change, or the plan does not fit it.
    pub fn replan(&self, operator: &str, input: usize, plan: SplitPlan) -> Result<(), FlowError> {
        let topology = self.run_state.topology();
        let edge = topology.edge_named(operator, input);
        let refuse =
            |reason: String| FlowError::Settings(format!("operator '{operator}', input {input}: {reason}"));
        let Some((edge, EdgeKind::Split(split))) = edge.map(|edge| (edge, &topology.edges[edge].kind)) else {
            return Err(refuse("the plan has no such input".into()));
        };
        if split.auto.is_none() {
            return Err(refuse("its split is fixed; plan it with auto_split to change it".into()));
        }
        splits::check(&plan, split.plan.partitions, split.levels).map_err(refuse)?;
        self.run_state.splits.propose(edge, plan);
        Ok(())
    }

    /// Moves a partition of an operator to a worker, from the next cycle on. The results do not depend on it.
    ///
    /// # Errors
    /// If there is no such operator, partition or worker, if the operator belongs to a stream process with a place, or if the
    /// query runs over several processes.
    pub fn move_partition(&self, operator: &str, partition: u32, worker: u32) -> Result<(), FlowError> {
        let proposed =
            self.run_state.placements.propose(operator, partition, worker, self.run_state.topology());
        proposed.map_err(|reason| {
            FlowError::Settings(format!("operator '{operator}', partition {partition}: {reason}"))
        })
    }

    /// Closes cycles by another rule from the next one on, unless they are closed outside of the query. The results do not depend
    /// on it, for cuts are logged.
    ///
    /// # Errors
    /// If the rule cannot be followed.
    pub fn set_cycles(&self, policy: CyclePolicy) -> Result<(), FlowError> {
        check_limits(&policy, &Limits::default())?;
        self.run_state.new_policy.set(policy);
        self.run_state.wake_ups.wake(0);
        Ok(())
    }

    /// From the next cycle on, cycles that cost more than this are counted, if costs are measured.
    pub fn state_costs(&self, stated: CostModel) {
        self.run_state.costs.state(stated);
    }

    /// What cycles have cost so far, if that is measured.
    pub fn costs(&self) -> CycleCosts {
        self.run_state.costs.costs()
    }

    /// How many cycles were measured.
    pub fn cycles_measured(&self) -> u64 {
        self.run_state.costs.cycles()
    }

    /// Whether the query has failed; [`join`](Running::join) says why.
    pub fn has_failed(&self) -> bool {
        self.run_state.is_stopped()
    }

    /// Snapshots the state at the end of a cycle that includes all events pushed before this call, and waits for it.
    /// The stream continues.
    ///
    /// # Errors
    /// If the query has ended, or stops before the snapshot is complete.
    pub fn snapshot(&self) -> Result<Snapshot, FlowError> {
        self.snapshots().take()
    }

    /// A handle to request snapshots from another thread, while this one waits for the end.
    pub fn snapshots(&self) -> Snapshots {
        Snapshots::new(&self.run_state, self.snapshot_parts)
    }

    /// Waits until everything has ended and [`join`](Running::join) need not wait, at most for some time; returns whether it has. Other
    /// processes may still be on their way to their ends.
    pub fn wait_for_end(&self, time_max: Duration) -> bool {
        self.run_state.threads.wait_for_end(time_max)
    }

    /// Stops at once, without finishing what is in flight. Committed results stay.
    pub fn abort(&self) {
        self.run_state.fail(Failure::Aborted);
    }

    /// Waits for the end of the input, then of everything that it caused.
    ///
    /// # Errors
    /// The first failure, if there was one.
    pub fn join(mut self) -> Result<Summary, FlowError> {
        self.gateways.clear();
        self.wait();
        match self.run_state.failure() {
            Some(failure) => Err(failure.into()),
            None => {
                let status = self.status();
                info!("the query has ended, and all its output is committed");
                Ok(status)
            }
        }
    }

    fn wait(&mut self) {
        let workers = self.workers.get_mut();
        if let Some(workers) = workers.take() {
            // Panics were turned into failures on the worker itself.
            workers.join();
        }
        self.run_state.handover.clear();
        for sink in self.sinks.drain(..) {
            let _ = sink.join();
        }
        if let Some(leader) = self.leader.take() {
            leader.finish();
        }
        self.run_state.splits.end();
        if let Some(split_optimizer) = self.split_optimizer.take() {
            let _ = split_optimizer.join();
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // After a join, nothing is left that this could stop.
        self.abort();
        self.gateways.clear();
        self.wait();
    }
}
