//! An engine: the settings with which plans are run.

use std::sync::Arc;
use std::time::Duration;

use tidemill_core::clock::Clock;
use tidemill_core::snapshot::StateSource;
use tidemill_core::{CommitGuard, CutLog, Sink};
use tidemill_flow::{FlowError, Resume, Running, Settings, WorkerProcesses};
use tidemill_plan::{CyclePolicy, Limits, Plan};

/// Settings under which a plan runs. Several engines can run in one process independently.
///
/// See the [crate's example](crate).
#[derive(Default)]
pub struct Engine {
    settings: Settings,
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

    /// When cycles close.
    #[must_use]
    pub fn cycles(mut self, policy: CyclePolicy) -> Self {
        self.settings.cycles = policy;
        self
    }

    /// The bounds while the query runs.
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Self {
        self.settings.limits = limits;
        self
    }

    /// Where cuts are logged.
    #[must_use]
    pub fn cut_log(mut self, log: impl CutLog + 'static) -> Self {
        self.settings.cut_log = Box::new(log);
        self
    }

    /// The clock of arrivals, cuts and response times.
    #[must_use]
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.settings.clock = clock;
        self
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

    /// Asked before a sink commits. Sinks then run on threads of their own, because the guard may block.
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
