//! An engine: the settings with which plans are run.

use std::sync::Arc;
use std::time::Duration;

use tidemill_core::clock::{Clock, SystemClock};
use tidemill_core::snapshot::StateSource;
use tidemill_core::{CommitGuard, CutLog, MemoryBudget, Sink};
use tidemill_flow::{
    CostMeasurement, FlowError, GivenCycles, Rebalancing, Resume, Running, Settings, WorkerProcesses,
};
use tidemill_plan::{CyclePolicy, Limits, Plan};
use tidemill_realtime::Pool;
use tidemill_realtime::analysis::CostModel;

/// Settings under which a plan runs. Several engines can run in one process independently.
///
/// See the [crate's example](crate).
#[derive(Default)]
pub struct Engine {
    settings: Settings,
    /// Whether the clock was chosen by the caller.
    has_clock: bool,
}

impl Engine {
    /// One worker, adaptive cycles, cuts logged in memory.
    pub fn new() -> Self {
        Engine::default()
    }

    /// The number of worker threads, in each process. The results do not depend on it.
    #[must_use]
    pub fn workers(mut self, workers: usize) -> Self {
        self.settings.workers = workers;
        self
    }

    /// The processes over which the query runs, each with its own workers. The results do not depend on it.
    ///
    /// See `docs/guide/processes.md`.
    #[must_use]
    pub fn processes(mut self, processes: WorkerProcesses) -> Self {
        self.settings.processes = Some(processes);
        self
    }

    /// How long a worker without work spins before it parks; zero by default. Spinning saves waking the worker, 5 to 15
    /// us of a response. It costs up to this much processor time whenever work pauses, and if a worker has no core to
    /// itself it makes responses later, not sooner. An engine that is idle for longer parks as usual.
    #[must_use]
    pub fn spin(mut self, spin: Duration) -> Self {
        self.settings.spin = spin;
        self
    }

    /// Runs the query's threads in a pool: as many workers as it has, with its policy, cores and budget. Its workers never
    /// spin. The results do not depend on it.
    ///
    /// ```
    /// use tidemill_engine::{Engine, Policy, Pool, PoolSettings};
    ///
    /// let pool = Pool::start(PoolSettings { workers: 2, policy: Policy::Other, ..PoolSettings::new("control") })?;
    /// let engine = Engine::new().pool(&pool);
    /// # Ok::<(), tidemill_engine::PoolError>(())
    /// ```
    #[must_use]
    pub fn pool(mut self, pool: &Arc<Pool>) -> Self {
        self.settings.workers = pool.settings().workers;
        self.settings.pool = Some(Arc::clone(pool));
        self
    }

    /// Counts answers that come later than this after the arrival of their event
    /// ([`DeadlineMisses`](crate::Counter::DeadlineMisses)).
    #[must_use]
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.settings.deadline = Some(deadline);
        self
    }

    /// Measures the processor time that each cycle takes of workers and threads of sinks, and of each part of the
    /// plan, and compares it with what a cycle may cost ([`CostsExceeded`](crate::Counter::CostsExceeded)). Only
    /// cycles count that are in flight alone.
    #[must_use]
    pub fn measure_costs(mut self, stated: Option<CostModel>) -> Self {
        self.settings.costs = Some(CostMeasurement { stated });
        self
    }

    /// When cycles close.
    #[must_use]
    pub fn cycles(mut self, policy: CyclePolicy) -> Self {
        self.settings.cycles = policy;
        self
    }

    /// Closes cycles that wait at multiples of the longest wait since the start of the run, as a periodic timer does,
    /// not when their oldest event has waited for so long. A cycle without events is not closed. Under the clock of a
    /// database, cycles close as that says.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tidemill_engine::{CyclePolicy, Engine};
    /// let cycles = CyclePolicy { wait_max: Some(Duration::from_millis(10)), close_when_idle: false, ..CyclePolicy::default() };
    /// let engine = Engine::new().cycles(cycles).periodic();
    /// # drop(engine);
    /// ```
    #[must_use]
    pub fn periodic(mut self) -> Self {
        self.settings.is_periodic = true;
        self
    }

    /// The bounds while the query runs.
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Self {
        // A budget that was set before stays, unless these limits have one.
        let memory = if limits.memory == MemoryBudget::unlimited() {
            self.settings.limits.memory
        } else {
            limits.memory.clone()
        };
        self.settings.limits = Limits { memory, ..limits };
        self
    }

    /// The memory that the state of the query's operators counts against; without one it is only counted.
    ///
    /// ```
    /// use tidemill_engine::{Engine, MemoryBudget};
    /// let process = MemoryBudget::new(8 << 30);
    /// let engine = Engine::new().memory(process.query(Some(1 << 30)));
    /// # drop(engine);
    /// ```
    #[must_use]
    pub fn memory(mut self, memory: MemoryBudget) -> Self {
        self.settings.limits.memory = memory;
        self
    }

    /// Where cycles come from, if the query does not close its own.
    #[must_use]
    pub(crate) fn cycles_from(mut self, cycles: Box<dyn GivenCycles>) -> Self {
        self.settings.cycles_from = Some(cycles);
        self
    }

    pub(crate) fn cycle_policy(&self) -> CyclePolicy {
        self.settings.cycles.clone()
    }

    /// Where cuts are logged.
    #[must_use]
    pub fn cut_log(mut self, log: impl CutLog + 'static) -> Self {
        self.settings.cut_log = Box::new(log);
        self
    }

    /// The clock of arrivals, cuts and response times. Without one, the clock of a durable query starts at the time of day,
    /// because its runs must agree on when a row has arrived; that of any other query starts at 0.
    #[must_use]
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.settings.clock = clock;
        self.has_clock = true;
        self
    }

    /// With a clock on which all runs of a query agree, unless the caller has chosen one.
    #[must_use]
    pub(crate) fn clock_of_all_runs(self) -> Self {
        if self.has_clock { self } else { self.clock(Arc::new(SystemClock::since_1970())) }
    }

    /// Where operators find their state, such as a [`Snapshot`](crate::Snapshot).
    #[must_use]
    pub fn state(mut self, state: Arc<dyn StateSource>) -> Self {
        self.settings.state = Some(state);
        self
    }

    /// Where an earlier run stopped: its logged cuts are replayed before any new one. Give the gateways the events from
    /// there on.
    #[must_use]
    pub fn resume(mut self, resume: Resume) -> Self {
        self.settings.resume = Some(resume);
        self
    }

    /// Asked before a sink commits. Sinks then run on their own threads, because the guard may block.
    #[must_use]
    pub fn commit_guard(mut self, guard: Arc<dyn CommitGuard>) -> Self {
        self.settings.guard = Some(guard);
        self
    }

    /// Snapshots the state at the end of the last cycle, for [`Snapshots::of_end`](tidemill_flow::Snapshots::of_end).
    #[must_use]
    pub(crate) fn snapshot_at_end(mut self) -> Self {
        self.settings.snapshot_at_end = true;
        self
    }

    /// Profiles the cost of splits with a given plan once, so that [`Status::splits`](crate::Status::splits) shows
    /// predicted next to measured costs. This takes some milliseconds of a separate thread. If the engine chooses the
    /// plan, it profiles anyway.
    #[must_use]
    pub fn profile_splits(mut self) -> Self {
        self.settings.profile_splits = true;
        self
    }

    /// How partitions of operators move between workers while the query runs: by default away from workers that have more to do
    /// than others. The results do not depend on it. In a pool, and over several processes, they stay.
    ///
    /// ```
    /// use tidemill_engine::{Engine, Rebalancing};
    /// let engine = Engine::new().workers(4).rebalancing(Rebalancing::Off);
    /// # drop(engine);
    /// ```
    #[must_use]
    pub fn rebalancing(mut self, rebalancing: Rebalancing) -> Self {
        self.settings.rebalancing = rebalancing;
        self
    }

    pub(crate) fn clock_of(&self) -> Arc<dyn Clock> {
        Arc::clone(&self.settings.clock)
    }

    /// Starts a query that was written with another crate's interface.
    ///
    /// # Errors
    /// If the query or the settings cannot run.
    pub fn start<Q: Launch>(self, query: Q) -> Result<Q::Run, Q::Error> {
        query.launch(self)
    }

    /// Starts a plan with its sinks, in the plan's order.
    ///
    /// # Errors
    /// If the plan or the settings cannot run.
    pub fn run(self, plan: Plan, sinks: Vec<Box<dyn Sink>>) -> Result<Running, FlowError> {
        tidemill_flow::start(plan, sinks, self.settings)
    }
}

/// A query that an engine can [start](Engine::start): whatever becomes a plan with its sources and sinks.
///
/// ```
/// use tidemill_engine::{CycleOutput, Cause, Engine, FlowError, Launch, Plan, Running, Sink};
/// # use std::ops::RangeInclusive;
/// # struct Ignored;
/// # impl Sink for Ignored {
/// #     fn prepare(&mut self, _: CycleOutput) -> Result<(), Cause> { Ok(()) }
/// #     fn commit(&mut self, _: RangeInclusive<u64>) -> Result<(), Cause> { Ok(()) }
/// # }
/// # use tidemill_engine::arrow::schema::{DataType, Field, Schema};
/// /// Counts nothing, and ends at once.
/// struct Idle;
///
/// impl Launch for Idle {
///     type Run = Running;
///     type Error = FlowError;
///
///     fn launch(self, engine: Engine) -> Result<Running, FlowError> {
///         let mut plan = Plan::new("idle");
///         let schema = Schema::new(vec![Field::new("value", DataType::Int64, false)]);
///         let rows = plan.source("rows", [schema.into()]);
///         plan.sink("ignored", rows);
///         engine.run(plan, vec![Box::new(Ignored)])
///     }
/// }
/// Engine::new().start(Idle)?.join()?;
/// # Ok::<(), FlowError>(())
/// ```
pub trait Launch {
    /// The handle of the running query.
    type Run;
    /// Why it cannot run.
    type Error;

    /// Starts it on this engine.
    ///
    /// # Errors
    /// If the query or the engine's settings cannot run.
    fn launch(self, engine: Engine) -> Result<Self::Run, Self::Error>;
}
