//! Any process but the first: runs its workers as process 0 says, and ends with it.

use std::collections::BTreeMap;
use std::io;
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::Thread;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, unbounded};
use parking_lot::Mutex;
use tidemill_core::error::Cause;
use tidemill_core::sink::Arrivals;
use tidemill_core::snapshot::{Snapshot, StateSource};
use tidemill_core::{MemoryBudget, SystemClock};
use tidemill_plan::{Limits, Plan};

use super::control::{self, ControlSender};
use super::describe::describe;
use super::message::{CycleNotice, Start, ToLeader, ToMember};
use super::report::Reporter;
use super::{PROCESS_VARIABLE, PROCESSES_MAX};
use crate::error::Failure;
use crate::error::FlowError;
use crate::intake::cycle::{Cycle, SourceBatches};
use crate::run_state::RunState;
use crate::run_state::uplink::Uplink;
use crate::threads::spawn;
use crate::topology::{Layout, Topology};
use crate::transport::acceptor::Acceptor;
use crate::transport::bulk_channels::BulkChannels;
use crate::transport::handshake::{Bootstrap, ConnectionKind};
use crate::workers::launch::{Network, launch};
use crate::workers::worker::WorkerParts;

/// How long workers have to end once the run has failed, before the process leaves without them.
const STOP_TIME: Duration = Duration::from_millis(500);
/// How long the others have to connect.
const CALL_TIME: Duration = Duration::from_secs(60);
/// The shortest time between two reports.
const REPORT_EVERY: Duration = Duration::from_millis(5);

/// This process, if it belongs to a run that another one has started.
pub struct WorkerProcess {
    bootstrap: Bootstrap,
    parent: Arc<Parent>,
    memory: MemoryBudget,
}

/// Whether the process that started this one is still alive.
#[derive(Default)]
struct Parent {
    gone: AtomicBool,
    /// The recipient.
    run_state: Mutex<Option<Arc<RunState>>>,
}

impl WorkerProcess {
    /// Whether [`WorkerProcesses`](super::WorkerProcesses) started this process as part of a run; `None`: it did not. Call this
    /// before anything reads standard input, which then belongs to the run.
    ///
    /// ```
    /// assert!(tidemill_flow::WorkerProcess::from_environment()?.is_none());
    /// # Ok::<(), tidemill_flow::FlowError>(())
    /// ```
    ///
    /// # Errors
    /// If it was started so, but does not know by whom.
    pub fn from_environment() -> Result<Option<WorkerProcess>, FlowError> {
        let Some(index) = std::env::var_os(PROCESS_VARIABLE) else { return Ok(None) };
        let bootstrap = Bootstrap::read(&mut io::stdin().lock());
        let of_run = |bootstrap: &Bootstrap| {
            let (index, count) = (bootstrap.credentials.index, bootstrap.credentials.count);
            (1..count).contains(&index) && count <= PROCESSES_MAX
        };
        let Some(bootstrap) = bootstrap.ok().flatten().filter(of_run) else {
            return Err(FlowError::Settings(format!(
                "{PROCESS_VARIABLE} is set to {index:?}, but no query has started this process; unset it, \
                 because only queries over several processes set it"
            )));
        };
        let parent = Arc::new(Parent::default());
        let watcher = Arc::clone(&parent);
        spawn("parent".into(), move || watcher.watch())?;
        Ok(Some(WorkerProcess { bootstrap, parent, memory: MemoryBudget::unlimited() }))
    }

    /// Its number in the run, from 1.
    pub fn index(&self) -> usize {
        self.bootstrap.credentials.index
    }

    /// The bytes that process 0 passed to [`WorkerProcesses::instructions`](super::WorkerProcesses::instructions).
    pub fn instructions(&self) -> &[u8] {
        &self.bootstrap.instructions
    }

    /// The memory that the state of the query's operators in this process counts against.
    #[must_use]
    pub fn memory(mut self, memory: MemoryBudget) -> Self {
        self.memory = memory;
        self
    }

    /// Runs this process's part of the query until the query ends. The plan must be the same as that of process 0. It
    /// needs no sources and no sinks.
    ///
    /// # Errors
    /// If the query fails, here or elsewhere; process 0 reports why. It then returns within a second, even if an
    /// operator hangs, so that the process can end.
    pub fn run(self, plan: Plan) -> Result<(), FlowError> {
        let WorkerProcess { bootstrap, parent, memory } = self;
        let Bootstrap { credentials, port, .. } = bootstrap;
        let mut acceptor = Acceptor::open(credentials.clone()).map_err(here)?;
        let mut control =
            credentials.call(ConnectionKind::Control, 0, port).map_err(|error| peer(0, error))?;
        let sender = ControlSender::new(&control).map_err(here)?;
        let join = ToLeader::Join { port: acceptor.port().map_err(here)?, plan: describe(&plan) };
        sender.send(&join.to_bytes()).map_err(|error| peer(0, error))?;
        let (start, state) = receive_start(&mut control).ok_or_else(leader_is_gone)?;
        let layout = Layout {
            workers: start.workers,
            processes: credentials.count as u32,
            process: credentials.index as u32,
        };
        let topology = Arc::new(Topology::new(plan, layout)?);
        let mut sockets = Vec::new();
        for (process, port) in start.ports.iter().enumerate().take(credentials.index) {
            let socket = credentials
                .call(ConnectionKind::Data, process, *port)
                .map_err(|error| peer(process, error))?;
            sockets.push(Some(socket));
        }
        sockets.push(None);
        let later: Vec<usize> = (credentials.index + 1..credentials.count).collect();
        let check = || {
            if parent.gone.load(Ordering::SeqCst) {
                Err((0, Cause::operation("it has ended")))
            } else {
                Ok(())
            }
        };
        let called = acceptor.receive(ConnectionKind::Data, &later, Instant::now() + CALL_TIME, &check);
        let called = called.map_err(|(process, cause)| failed(process, cause))?;
        sockets.extend(called.into_iter().map(Some));
        drop(acceptor);
        let limits = Limits { memory, ..Limits::default() };
        run_workers(&topology, (&start, &limits), state, sockets, (control, sender), &parent)
    }
}

/// What process 0 sends before the start; `None` if it is gone.
fn receive_start(control: &mut TcpStream) -> Option<(Start, Snapshot)> {
    let ToMember::Start(start) = ToMember::from_bytes(&control::receive(control)?)? else { return None };
    let mut state = Snapshot::default();
    loop {
        match ToMember::from_bytes(&control::receive(control)?)? {
            ToMember::State { operator, partition, bytes } => {
                state.operators.entry(operator).or_default().insert(partition, bytes);
            }
            ToMember::Watermark { operator, watermark } => {
                state.watermarks.insert(operator, watermark);
            }
            ToMember::Go => return Some((start, state)),
            ToMember::Start(_) | ToMember::Cycle(_) => return None,
        }
    }
}

/// Events that may end the wait of the process's first thread.
enum Event {
    Stopped,
    WorkersEnded,
}

fn run_workers(
    topology: &Arc<Topology>,
    (start, limits): (&Start, &Limits),
    state: Snapshot,
    sockets: Vec<Option<TcpStream>>,
    (control, sender): (TcpStream, ControlSender),
    parent: &Parent,
) -> Result<(), FlowError> {
    let workers = start.workers as usize;
    let clock = Arc::new(SystemClock::new());
    let run_state = Arc::new(RunState::new(clock, limits, workers, topology, start.first_cycle, Vec::new()));
    let leader = Arc::new(LeaderConnection::new(sender));
    let uplink: Arc<dyn Uplink> = Arc::clone(&leader) as _;
    run_state.set_uplink(uplink);
    let bulk = BulkChannels::of_run(&run_state);
    let (events, happened) = unbounded();
    let stopped = events.clone();
    run_state.add_stopper(Box::new(move || drop(stopped.send(Event::Stopped))));
    parent.tell(&run_state);

    let (mailboxes, receivers): (Vec<_>, Vec<_>) = (0..workers).map(|_| unbounded()).unzip();
    let state: Arc<dyn StateSource> = Arc::new(state);
    let parts = receivers.into_iter().map(|mailbox| WorkerParts {
        topology: Arc::clone(topology),
        run_state: Arc::clone(&run_state),
        bulk: Arc::clone(&bulk),
        state: Some(Arc::clone(&state)),
        mailbox,
        sinks: topology.plan.sinks.iter().map(|_| None).collect(),
        spin: Duration::from_nanos(start.spin_ns),
        cutter: None,
    });
    let guards = launch(parts.collect(), &run_state, Some(Network { sockets, bulk }))?;
    drop(state);
    let (reader, reporter) = (Arc::clone(&run_state), Arc::clone(&run_state));
    spawn("control".into(), move || receive_cycles(control, &reader, &mailboxes))?;
    let reports = Arc::clone(&leader);
    spawn("reports".into(), move || reports.send_reports(&reporter))?;
    spawn("workers".into(), move || {
        guards.join();
        let _ = events.send(Event::WorkersEnded);
    })?;
    if run_state.wait_until_ready(workers) {
        leader.send(&ToLeader::Ready);
    }
    wait(&run_state, &leader, &happened)
}

/// Waits for the end, and reports it to process 0.
fn wait(
    run_state: &RunState,
    leader: &LeaderConnection,
    happened: &Receiver<Event>,
) -> Result<(), FlowError> {
    let first = happened.recv();
    let Some(failure) = run_state.failure() else {
        leader.report(run_state);
        leader.send(&ToLeader::Ended);
        return Ok(());
    };
    leader.report(run_state);
    leader.send(&ToLeader::Failed(failure.clone()));
    if matches!(first, Ok(Event::Stopped)) {
        // Those that hang in a user's code end with the process.
        let deadline = Instant::now() + STOP_TIME;
        while let Ok(Event::Stopped) = happened.recv_deadline(deadline) {}
    }
    Err(failure.into())
}

/// Receives cycles from process 0 until it ends.
fn receive_cycles(mut control: TcpStream, run_state: &Arc<RunState>, mailboxes: &[Sender<Arc<Cycle>>]) {
    while let Some(message) = control::receive(&mut control) {
        let Some(ToMember::Cycle(post)) = ToMember::from_bytes(&message) else { break };
        let cycle = cycle_of(post, run_state);
        for mailbox in mailboxes {
            // A worker that is gone has failed, and the failure is reported.
            let _ = mailbox.send(Arc::clone(&cycle));
        }
        run_state.wake_ups.wake_all();
    }
    run_state.fail(leader_failure());
}

fn cycle_of(post: CycleNotice, run_state: &RunState) -> Arc<Cycle> {
    run_state.progress.set_committed(post.committed);
    // What was measured of the previous plans is kept, unlike in process 0: it goes there as differences.
    let (splits, _) = run_state.splits.at_cut(post.cut.cycle, &post.cut.splits, run_state.topology());
    // In several processes, partitions stay where they are.
    let placements = run_state.topology().placements.clone().into();
    Arc::new(Cycle {
        cut: Arc::new(post.cut),
        arrivals: Arc::new(Arrivals { chunks: Vec::new(), events: post.events }),
        splits,
        placements,
        streams: vec![SourceBatches::new(); run_state.topology().plan.sources.len()],
    })
}

impl Parent {
    /// Until the pipe from the parent ends, which happens when the parent ends for any reason.
    fn watch(&self) {
        let _ = io::copy(&mut io::stdin().lock(), &mut io::sink());
        self.gone.store(true, Ordering::SeqCst);
        if let Some(run_state) = &*self.run_state.lock() {
            run_state.fail(leader_failure());
        }
    }

    fn tell(&self, run_state: &Arc<RunState>) {
        *self.run_state.lock() = Some(Arc::clone(run_state));
        if self.gone.load(Ordering::SeqCst) {
            run_state.fail(leader_failure());
        }
    }
}

impl Uplink for LeaderConnection {
    fn worker_stepped(&self) {
        if !self.due.swap(true, Ordering::AcqRel)
            && let Some(thread) = self.thread.get()
        {
            thread.unpark();
        }
    }

    fn contribute(&self, cycle: u64, operator: &str, watermark: i64, partitions: BTreeMap<u32, Vec<u8>>) {
        self.send(&ToLeader::Contribution { cycle, operator: operator.to_string(), watermark, partitions });
    }
}

/// The connection to process 0.
pub(crate) struct LeaderConnection {
    control: ControlSender,
    reporter: Mutex<Reporter>,
    /// The sender of reports, and whether there may be one to send.
    thread: OnceLock<Thread>,
    due: AtomicBool,
}

impl LeaderConnection {
    fn new(control: ControlSender) -> LeaderConnection {
        let (thread, due) = (OnceLock::new(), AtomicBool::new(false));
        LeaderConnection { control, reporter: Mutex::default(), thread, due }
    }

    fn send(&self, message: &ToLeader) {
        // If process 0 is gone, the receiving thread knows.
        let _ = self.control.send(&message.to_bytes());
    }

    fn report(&self, run_state: &RunState) {
        // Held during the sending, so that nothing is sent after the last one.
        let mut reporter = self.reporter.lock();
        if let Some(report) = reporter.next(run_state) {
            self.send(&ToLeader::Report(report));
        }
    }

    /// Sends what workers have done, soon after they did it, but not after each cycle.
    fn send_reports(&self, run_state: &RunState) {
        let _ = self.thread.set(std::thread::current());
        while !run_state.is_stopped() {
            if self.due.swap(false, Ordering::AcqRel) {
                self.report(run_state);
                std::thread::sleep(REPORT_EVERY);
            } else {
                std::thread::park();
            }
        }
    }
}

fn here(error: io::Error) -> FlowError {
    let text = format!("this process cannot join the query: {error}");
    FlowError::NotStarted(Cause::operation(text).with_source(error))
}

fn peer(process: usize, error: io::Error) -> FlowError {
    failed(process, Cause::operation(format!("it cannot be reached: {error}")).with_source(error))
}

fn failed(process: usize, cause: Cause) -> FlowError {
    Failure::Engine { part: format!("process {process}"), cause }.into()
}

fn leader_failure() -> Failure {
    let cause = Cause::operation("it has stopped the query or ended");
    Failure::Engine { part: "process 0".into(), cause }
}

fn leader_is_gone() -> FlowError {
    leader_failure().into()
}
