//! Process 0: starts the others, sends them cycles, and receives their reports and their end.

use std::net::TcpStream;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, unbounded};
use tidemill_core::OperatorError;
use tidemill_core::error::Cause;
use tidemill_core::snapshot::StateSource;

use super::WorkerProcesses;
use super::children::ChildProcesses;
use super::control::{self, ControlSender};
use super::describe::{describe, difference};
use super::message::{CycleNotice, Start, ToLeader, ToMember};
use crate::error::Failure;
use crate::error::FlowError;
use crate::intake::cycle::Cycle;
use crate::run_state::RunState;
use crate::threads::spawn;
use crate::transport::acceptor::Acceptor;
use crate::transport::handshake::{ConnectionKind, Credentials};
use crate::transport::secret::Secret;

/// How long the others have to end normally once the run has failed.
const STOP_TIME: Duration = Duration::from_millis(700);
/// How long they have to end once they have reported to be done.
const END_TIME: Duration = Duration::from_secs(5);
/// How long to wait for the end of a process that has hung up.
const REASON_TIME: Duration = Duration::from_millis(500);

/// The other processes, as seen by the first one's threads.
pub(crate) struct Leader {
    members: Arc<Members>,
    end: Sender<End>,
    receivers: Vec<JoinHandle<()>>,
    closer: Option<JoinHandle<()>>,
}

/// Why the others should end.
enum End {
    Failed,
    Done,
}

/// The other processes, starting with process 1.
pub(crate) struct Members {
    run_state: Arc<RunState>,
    children: ChildProcesses,
    controls: Vec<ControlSender>,
}

impl Leader {
    /// Starts the others and waits until all are connected. Returns the connections for rows, by process.
    pub fn gather(
        processes: &WorkerProcesses,
        run_state: &Arc<RunState>,
        state: Option<&dyn StateSource>,
        spin: Duration,
    ) -> Result<(Leader, Vec<Option<TcpStream>>), FlowError> {
        let gathered = gather(processes, run_state, state, spin);
        let (children, controls, sockets) = gathered.map_err(|(index, cause)| failed(index, cause))?;
        let senders = controls.iter().map(ControlSender::new).collect::<Result<_, _>>();
        let controls_to = senders.map_err(|error| failed(0, error.into()))?;
        let run_state = Arc::clone(run_state);
        let members = Arc::new(Members { run_state, children, controls: controls_to });
        Ok((Leader::watch(members, controls)?, sockets))
    }

    fn watch(members: Arc<Members>, controls: Vec<TcpStream>) -> Result<Leader, FlowError> {
        let (end, ends) = unbounded();
        let stop = end.clone();
        members.run_state.add_stopper(Box::new(move || drop(stop.send(End::Failed))));
        let closer = Arc::clone(&members);
        let closer = spawn("processes".into(), move || closer.close(&ends))?;
        let mut receivers = Vec::new();
        for (index, control) in (1..).zip(controls) {
            let members = Arc::clone(&members);
            receivers
                .push(spawn(format!("process-{index}"), move || members.receive_messages(index, control))?);
        }
        Ok(Leader { members, end, receivers, closer: Some(closer) })
    }

    pub fn members(&self) -> Arc<Members> {
        Arc::clone(&self.members)
    }

    /// Waits for the others to end by themselves.
    pub fn finish(mut self) {
        // Until they have reported that they are done, however long that takes, or have died.
        for receiver in self.receivers.drain(..) {
            let _ = receiver.join();
        }
        let _ = self.end.send(End::Done);
        if let Some(closer) = self.closer.take() {
            let _ = closer.join();
        }
    }
}

impl Drop for Leader {
    fn drop(&mut self) {
        // Only for a run that did not begin: if it has ended, no one listens any more.
        let _ = self.end.send(End::Failed);
    }
}

type Gathered = (ChildProcesses, Vec<TcpStream>, Vec<Option<TcpStream>>);

/// Starts, checks, instructs and connects all processes. An error names the process that caused it.
fn gather(
    processes: &WorkerProcesses,
    run_state: &RunState,
    state: Option<&dyn StateSource>,
    spin: Duration,
) -> Result<Gathered, (usize, Cause)> {
    let here = |error: std::io::Error| (0, Cause::from(error));
    let (call, answer) = (Secret::random().map_err(here)?, Secret::random().map_err(here)?);
    let (generation, count) = (processes.generation, processes.count);
    let credentials = Credentials { generation, index: 0, count, call, answer };
    let mut acceptor = Acceptor::open(credentials.clone()).map_err(here)?;
    let port = acceptor.port().map_err(here)?;
    let children = ChildProcesses::start(processes, &credentials, port)?;
    let deadline = Instant::now() + processes.join_time;
    let (expected, check) = ((1..count).collect::<Vec<_>>(), || children.check());
    let mut controls = acceptor.receive(ConnectionKind::Control, &expected, deadline, &check)?;
    let mut ports = vec![port];
    let plan = describe(&run_state.topology().plan);
    for (index, control) in (1..).zip(&mut controls) {
        let joined = receive_join(control, &plan, deadline).map_err(|cause| (index, cause))?;
        ports.push(joined.ok_or_else(|| (index, children.reason(index, REASON_TIME)))?);
    }
    for (index, control) in (1..).zip(&controls) {
        tell(control, index, run_state, state, spin, &ports).map_err(|error| (index, error.into()))?;
    }
    let data = acceptor.receive(ConnectionKind::Data, &expected, deadline, &check)?;
    let sockets = std::iter::once(None).chain(data.into_iter().map(Some)).collect();
    Ok((children, controls, sockets))
}

/// The port of a process, if its plan is the same as ours; `None`: it is gone.
fn receive_join(control: &mut TcpStream, plan: &str, deadline: Instant) -> Result<Option<u16>, Cause> {
    let left = deadline.saturating_duration_since(Instant::now()).max(Duration::from_secs(1));
    control.set_read_timeout(Some(left))?;
    let message = control::receive(control);
    control.set_read_timeout(None)?;
    let Some(message) = message else { return Ok(None) };
    let Some(ToLeader::Join { port, plan: other }) = ToLeader::from_bytes(&message) else {
        return Err(no_message());
    };
    match difference(plan, &other) {
        None => Ok(Some(port)),
        Some((own, other)) => Err(Cause::user(format!(
            "its plan differs from the plan of process 0: '{other}' instead of '{own}'; all processes must \
             make the same plan"
        ))),
    }
}

/// Sends a process the layout of the run and the state of its partitions.
fn tell(
    control: &TcpStream,
    index: usize,
    run_state: &RunState,
    state: Option<&dyn StateSource>,
    spin: Duration,
    ports: &[u16],
) -> std::io::Result<()> {
    let (topology, control) = (run_state.topology(), ControlSender::new(control)?);
    let start = Start {
        workers: topology.layout.workers,
        spin_ns: u64::try_from(spin.as_nanos()).unwrap_or(u64::MAX),
        first_cycle: run_state.first_cycle,
        ports: ports.to_vec(),
    };
    control.send(&ToMember::Start(start).to_bytes())?;
    for (plan, placement) in topology.plan.operators.iter().zip(&topology.placements) {
        let (Some(state), operator) = (state, &plan.name) else { break };
        if let Some(watermark) = plan.find(|name| state.watermark(name)) {
            control.send(&ToMember::Watermark { operator: operator.clone(), watermark }.to_bytes())?;
        }
        for partition in topology.layout.workers_of(index).flat_map(|worker| placement.partitions_of(worker))
        {
            if let Some(bytes) = plan.find(|name| state.partition(name, *partition)) {
                let (operator, partition) = (operator.clone(), *partition);
                control.send(&ToMember::State { operator, partition, bytes }.to_bytes())?;
            }
        }
    }
    control.send(&ToMember::Go.to_bytes())
}

impl Members {
    /// Announces a closed cycle to all, before any worker of this process knows of it.
    pub fn post(&self, cycle: &Cycle) {
        let post = CycleNotice {
            cut: (*cycle.cut).clone(),
            events: cycle.arrivals.events,
            committed: self.run_state.progress.committed_cycles(),
        };
        let message = ToMember::Cycle(post).to_bytes();
        for control in &self.controls {
            // The thread that receives from a lost process notices it.
            let _ = control.send(&message);
        }
    }

    /// Receives the messages of a process until it ends.
    fn receive_messages(&self, index: usize, mut control: TcpStream) {
        while let Some(message) = control::receive(&mut control) {
            let makes_sense = match ToLeader::from_bytes(&message) {
                Some(ToLeader::Ended) => return,
                Some(message) => self.take(index, message),
                None => false,
            };
            if !makes_sense {
                return self.fail(index, no_message());
            }
        }
        if !self.run_state.is_stopped() {
            self.fail(index, self.children.reason(index, REASON_TIME));
        }
    }

    /// Whether the message was valid.
    fn take(&self, index: usize, message: ToLeader) -> bool {
        match message {
            ToLeader::Ready => {
                self.run_state.wake_ups.are_ready(self.run_state.topology().layout.workers as usize)
            }
            ToLeader::Report(report) => {
                let fits = report.add_to(&self.run_state, index);
                if report.held_bytes < 0 || !report.clock_timers.is_empty() {
                    self.run_state.wake_ups.wake(0);
                }
                return fits;
            }
            ToLeader::Contribution { cycle, operator, watermark, partitions } => {
                self.run_state.snapshots.contribute(cycle, &operator, watermark, partitions);
            }
            ToLeader::Failed(failure) => self.run_state.fail(named(index, failure)),
            ToLeader::Join { .. } | ToLeader::Ended => return false,
        }
        true
    }

    fn fail(&self, index: usize, cause: Cause) {
        self.run_state.fail(Failure::Engine { part: format!("process {index}"), cause });
    }

    /// Waits for the end of the run, then for the end of the processes.
    fn close(&self, ends: &Receiver<End>) {
        let wait = match ends.recv() {
            Ok(End::Done) => END_TIME,
            Ok(End::Failed) | Err(_) => {
                // They take it as the end.
                self.controls.iter().for_each(ControlSender::close);
                STOP_TIME
            }
        };
        self.children.end(wait);
    }
}

/// A failure with the process in which it happened.
fn named(index: usize, failure: Failure) -> Failure {
    match failure {
        Failure::Operator(error) => {
            let cause = in_process(index, error.cause);
            Failure::Operator(OperatorError { cause, ..error })
        }
        Failure::Engine { part, cause } if !part.starts_with("process ") => {
            Failure::Engine { part: format!("process {index}, {part}"), cause }
        }
        Failure::Engine { .. } | Failure::Sink(_) => failure,
        Failure::Aborted => {
            let cause = Cause::operation("it was asked to stop");
            Failure::Engine { part: format!("process {index}"), cause }
        }
    }
}

fn in_process(index: usize, cause: Cause) -> Cause {
    cause.map_message(|reason| format!("in process {index}: {reason}"))
}

fn failed(index: usize, cause: Cause) -> FlowError {
    Failure::Engine { part: format!("process {index}"), cause }.into()
}

fn no_message() -> Cause {
    Cause::bug("it sent a message that no process of this version sends")
}
