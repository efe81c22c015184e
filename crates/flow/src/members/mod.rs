//! One query over several processes of this machine (decision 0017), connected by Timely over sockets of our own.
//! Process 0 owns gateways, cuts, sinks and snapshots; workers of all processes hold partitions.

mod children;
mod control;
mod describe;
mod leader;
mod member;
mod message;
mod own_program;
mod report;

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::error::FlowError;

pub(crate) use leader::Leader;
pub use member::WorkerProcess;
pub use own_program::own_program;

/// Tells a process that it belongs to a run, and which one. Not a secret.
const PROCESS_VARIABLE: &str = "TIDEMILL_PROCESS";

/// Refuses to start a separate query in a process that was started as part of a run: it would do everything once more,
/// and start further processes that do the same.
pub(crate) fn check_is_no_member() -> Result<(), FlowError> {
    match std::env::var(PROCESS_VARIABLE) {
        Err(_) => Ok(()),
        Ok(index) => Err(FlowError::Settings(format!(
            "this process was started as process {index} of a query, so it must not start its own query; pass \
             its plan to WorkerProcess::run before anything else, or unset {PROCESS_VARIABLE} if no query has \
             started it"
        ))),
    }
}

/// The most processes of a run, because each is connected to each.
pub(crate) const PROCESSES_MAX: usize = 64;

/// The processes over which a query runs. The results do not depend on their number.
///
/// This process is number 0. It starts the others: the same program with the same arguments, in which
/// [`WorkerProcess::from_environment`] returns a member; they make the same plan and pass it to [`WorkerProcess::run`]. If the
/// arguments do not determine the plan, use instructions.
///
/// ```
/// use tidemill_flow::WorkerProcesses;
/// let processes = WorkerProcesses::new(3).generation(7).arguments(["worker"]).variable("LEVEL", "2").instructions("sums");
/// assert_eq!(processes.count(), 3);
/// ```
#[derive(Clone, Debug)]
pub struct WorkerProcesses {
    count: usize,
    generation: u64,
    program: Option<PathBuf>,
    arguments: Option<Vec<OsString>>,
    variables: Vec<(OsString, OsString)>,
    instructions: Arc<[u8]>,
    join_time: Duration,
}

impl WorkerProcesses {
    /// This many processes, including this one.
    pub fn new(count: usize) -> Self {
        WorkerProcesses {
            count,
            generation: 0,
            program: None,
            arguments: None,
            variables: Vec::new(),
            instructions: Arc::default(),
            join_time: Duration::from_secs(60),
        }
    }

    /// The number of processes.
    pub fn count(&self) -> usize {
        self.count
    }

    /// The generation of the processes, 0 by default. Processes of another generation are refused.
    #[must_use]
    pub fn generation(mut self, generation: u64) -> Self {
        self.generation = generation;
        self
    }

    /// Uses another program than this one; it must make the same plan.
    #[must_use]
    pub fn program(mut self, program: impl Into<PathBuf>) -> Self {
        self.program = Some(program.into());
        self
    }

    /// Uses other arguments than those of this process.
    #[must_use]
    pub fn arguments(mut self, arguments: impl IntoIterator<Item = impl Into<OsString>>) -> Self {
        self.arguments = Some(arguments.into_iter().map(Into::into).collect());
        self
    }

    /// Adds an environment variable.
    #[must_use]
    pub fn variable(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.variables.push((name.into(), value.into()));
        self
    }

    /// What the others need to know to make the plan, in the program's own format; they find it in
    /// [`WorkerProcess::instructions`]. At most 16 MiB.
    #[must_use]
    pub fn instructions(mut self, instructions: impl Into<Vec<u8>>) -> Self {
        self.instructions = instructions.into().into();
        self
    }

    pub(crate) fn instructions_bytes(&self) -> usize {
        self.instructions.len()
    }

    /// How long the others may take to start and make their plan; a minute by default.
    #[must_use]
    pub fn join_time(mut self, time: Duration) -> Self {
        self.join_time = time;
        self
    }
}
