//! The other processes of a run, from their parent's view: starts, watches and ends them.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tidemill_core::error::Cause;
use tracing::error;

use super::own_program::own_program;
use super::{PROCESS_VARIABLE, WorkerProcesses};
use crate::transport::handshake::{Bootstrap, Credentials};

/// The children of process 0, starting with process 1. Dropping them kills those that are still alive.
pub(crate) struct ChildProcesses(Vec<Mutex<ChildProcess>>);

struct ChildProcess {
    child: Child,
    /// Closed when this process ends for any reason; then the child ends too.
    bootstrap_pipe: Option<ChildStdin>,
}

impl ChildProcesses {
    /// Starts all of them and sends each, through its standard input, what it must know.
    pub fn start(
        processes: &WorkerProcesses,
        credentials: &Credentials,
        port: u16,
    ) -> Result<ChildProcesses, (usize, Cause)> {
        let mut children = ChildProcesses(Vec::new());
        for index in 1..processes.count {
            let process = start_one(processes, index).map_err(|cause| (index, cause))?;
            children.0.push(Mutex::new(process));
        }
        for (index, process) in (1..).zip(&children.0) {
            let instructions = Arc::clone(&processes.instructions);
            let bootstrap =
                Bootstrap { credentials: Credentials { index, ..credentials.clone() }, port, instructions };
            process.lock().post(&bootstrap).map_err(|error| (index, error.into()))?;
        }
        Ok(children)
    }

    /// Whether all are alive; otherwise which one is not, and why.
    pub fn check(&self) -> Result<(), (usize, Cause)> {
        for index in 1..=self.0.len() {
            if let Some(status) = self.status_of(index) {
                error!(process = index, %status, "a worker process ended before its query");
                return Err((index, ended_early(status)));
            }
        }
        Ok(())
    }

    fn status_of(&self, index: usize) -> Option<ExitStatus> {
        self.0[index - 1].lock().child.try_wait().ok().flatten()
    }

    /// Why a process has hung up: waits a moment for its end.
    pub fn reason(&self, index: usize, wait: Duration) -> Cause {
        let deadline = Instant::now() + wait;
        loop {
            match self.status_of(index) {
                Some(status) => {
                    error!(process = index, %status, "a worker process ended before its query");
                    return ended_early(status);
                }
                None if Instant::now() < deadline => thread::sleep(Duration::from_millis(5)),
                None => return Cause::operation("it closed its connection before the end of the query"),
            }
        }
    }

    /// Waits until all have ended; those that take longer are killed.
    pub fn end(&self, wait: Duration) {
        let deadline = Instant::now() + wait;
        let lives = |index: &usize| self.status_of(*index).is_none();
        while Instant::now() < deadline && (1..=self.0.len()).any(|index| lives(&index)) {
            thread::sleep(Duration::from_millis(2));
        }
        for process in &self.0 {
            let mut process = process.lock();
            // Both have no effect on a process that has ended and was waited for.
            let _ = process.child.kill();
            let _ = process.child.wait();
        }
    }
}

impl ChildProcess {
    /// Writes the bootstrap message on its own thread: a long message does not fit into the pipe, and the child may not
    /// read it.
    fn post(&self, bootstrap: &Bootstrap) -> io::Result<()> {
        let Some(bootstrap_pipe) = &self.bootstrap_pipe else { return Ok(()) };
        let (mut pipe, bytes) =
            (File::from(bootstrap_pipe.as_fd().try_clone_to_owned()?), bootstrap.to_bytes());
        // A child that is gone is found by `check`; one that does not read is killed, which ends this.
        let write = move || drop(pipe.write_all(&bytes));
        thread::Builder::new().name("bootstrap".into()).spawn(write).map(drop)
    }
}

impl Drop for ChildProcesses {
    fn drop(&mut self) {
        self.end(Duration::ZERO);
    }
}

fn start_one(processes: &WorkerProcesses, index: usize) -> Result<ChildProcess, Cause> {
    let program = match &processes.program {
        Some(program) => program.clone(),
        None => own_program().map_err(|error| {
            Cause::operation(format!(
                "the executable of this program cannot be found, so no worker process can be started: {error}"
            ))
            .with_source(error)
        })?,
    };
    let arguments = processes.arguments.clone().unwrap_or_else(|| std::env::args_os().skip(1).collect());
    let mut command = Command::new(&program);
    command.args(arguments).envs(processes.variables.iter().map(|(name, value)| (name, value)));
    command.env(PROCESS_VARIABLE, index.to_string());
    // Its output is not the query's. An interrupt at the terminal is for process 0 to answer.
    command.stdin(Stdio::piped()).stdout(Stdio::null()).process_group(0);
    let started = command.spawn();
    let mut child = started.map_err(|error| {
        Cause::operation(format!("'{}' could not be started: {error}", program.display())).with_source(error)
    })?;
    let bootstrap_pipe = child.stdin.take();
    Ok(ChildProcess { child, bootstrap_pipe })
}

fn ended_early(status: ExitStatus) -> Cause {
    Cause::operation(match status.signal() {
        Some(signal) => {
            format!("it was killed by signal {signal} before the end of the query; start the query again")
        }
        None => format!("it ended before the query ({status}); its standard error says why"),
    })
}
