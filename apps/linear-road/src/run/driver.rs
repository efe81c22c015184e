//! Starts a run, watches it, and ends it.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use tidemill_engine::{Cause, Counter, Engine, Pool, Running, Sink, Status, WorkerProcess, WorkerProcesses};

use super::control::Control;
use super::error::RunError;
use super::feeder::Feeder;
use super::history_read::history;
use super::intake_thread::IntakeThread;
use super::options::{Input, RunOptions};
use super::reader::Reader;
use crate::answers::KINDS;
use crate::answers::files::{AnswerFiles, path_of};
use crate::answers::tally::{Counts, Tally};
use crate::bad_lines::BadLines;

/// How often to check for the end of a run.
const LOOK: Duration = Duration::from_millis(2);

/// A run that continues by itself until its input ends or it is told to stop. Dropping it aborts it.
pub struct Run {
    running: Running,
    intake: IntakeThread,
    control: Arc<Control>,
    tally: Tally,
    input: Input,
    history_rows: u64,
    history_bad_lines: u64,
}

/// The state of a run at one moment.
#[derive(Clone, Debug)]
pub struct Progress {
    /// The engine's counters and response times.
    pub status: Status,
    /// The answers so far.
    pub answers: Counts,
    /// Bad lines so far, including those of the history.
    pub bad_lines: u64,
    /// The second of the run from which events were last taken in.
    pub simulated_s: Option<u32>,
}

/// A run at its end.
#[derive(Clone, Debug)]
pub struct RunSummary {
    /// The engine's counters and response times.
    pub status: Status,
    /// All answers.
    pub answers: Counts,
    /// All bad lines, including those of the history.
    pub bad_lines: BadLines,
    /// The second of the last events that were taken in.
    pub simulated_s: Option<u32>,
    /// Rows of the history.
    pub history_rows: u64,
    /// Whether the caller stopped the run before its input ended.
    pub stopped: bool,
}

/// A run that ended early, and how far it came. If the answers could not be written, the last ones in its summary are
/// not in the files.
#[derive(Debug, thiserror::Error)]
#[error("{error}")]
pub struct FailedRun {
    /// Why.
    pub error: RunError,
    /// What was done before.
    pub summary: RunSummary,
}

impl Run {
    /// Loads the history and starts to answer. Once `stop` is set, nothing more is taken in, and the run ends as soon
    /// as everything taken in is answered.
    ///
    /// The input is opened and its beginning read before the files of an earlier run are replaced.
    ///
    /// # Errors
    /// If the input or the history cannot be read, the answer files cannot be created, the system refuses the priority,
    /// or the settings are invalid; in a strict run also at a bad line of the history.
    pub fn start(options: RunOptions, stop: Arc<AtomicBool>) -> Result<Run, RunError> {
        check_not_replaced(&options)?;
        let folder = options.out.clone();
        let files = |tally| Ok(Box::new(AnswerFiles::create(&folder, tally)?) as Box<dyn Sink>);
        Run::start_into(options, stop, files)
    }

    /// As [`start`](Run::start), with a sink of the caller instead of files: it gets the answers of each kind as a stream and
    /// counts them with [`Tally::count`]. An example is at [`AnswerDigest`](crate::answers::digest::AnswerDigest).
    ///
    /// # Errors
    /// As [`start`](Run::start), and those of `sink`.
    pub fn start_into(
        options: RunOptions,
        stop: Arc<AtomicBool>,
        sink: impl FnOnce(Tally) -> Result<Box<dyn Sink>, Cause>,
    ) -> Result<Run, RunError> {
        options.pace.check()?;
        let control = Arc::new(Control::new(stop, options.strict));
        let reader = Reader::start(&options.input)?;
        let history = Arc::new(history(&options, &control)?);
        let history_rows = history.len() as u64;
        let history_bad_lines = control.bad_lines().total();
        let first = reader.next(&control)?;
        let pool = options.pool().map(Pool::start).transpose()?;

        let tally = Tally::default();
        let answers = sink(tally.clone()).map_err(RunError::Answers)?;
        let plan = options.plan(history);
        let processes = WorkerProcesses::new(options.processes);
        let engine = Engine::new().workers(options.workers).processes(processes).cycles(options.cycles);
        let engine = match &pool {
            Some(pool) => engine.pool(pool),
            None => engine,
        };
        let engine = match options.deadline {
            Some(deadline) => engine.deadline(deadline),
            None => engine,
        };
        let mut running = engine.run(plan, vec![answers])?;
        let gateway = running.gateway(0).expect("the plan has one source, and its gateway was not taken yet");
        let pool_entry = gateway.pool_entry();
        let paced = (options.pace, options.ticks_per_second);
        let feeder = Feeder::new(gateway, paced, Arc::clone(&control));
        let intake = IntakeThread::start(reader, first, feeder, &control, pool_entry)?;
        Ok(Run { running, intake, control, tally, input: options.input, history_rows, history_bad_lines })
    }

    /// Runs this process's part of a query that a run with these options has started.
    ///
    /// # Errors
    /// If the history cannot be read, or the run fails, here or elsewhere; process 0 reports why.
    pub fn run_member(options: &RunOptions, member: WorkerProcess) -> Result<(), RunError> {
        let control = Control::new(Arc::default(), options.strict);
        let history = Arc::new(history(options, &control)?);
        Ok(member.run(options.plan(history))?)
    }

    /// Rows of the history.
    pub fn history_rows(&self) -> u64 {
        self.history_rows
    }

    /// How far the run is.
    pub fn progress(&self) -> Progress {
        Progress {
            status: self.running.status(),
            answers: self.tally.counts(),
            bad_lines: self.control.bad_lines().total(),
            simulated_s: self.control.simulated_s(),
        }
    }

    /// Whether everything that will be taken in is answered, or the run has failed: [`join`](Run::join) then returns at
    /// once.
    pub fn is_done(&self) -> bool {
        self.running.has_failed() || (self.intake.is_finished() && self.has_answered_all())
    }

    fn has_answered_all(&self) -> bool {
        let status = self.running.status();
        status.get(Counter::EventsCommitted) >= status.get(Counter::EventsIn)
    }

    /// Waits for the end.
    ///
    /// # Errors
    /// If the run failed: the first reason, and what was done before.
    pub fn join(self) -> Result<RunSummary, Box<FailedRun>> {
        while !self.is_done() {
            std::thread::sleep(LOOK);
        }
        let Run { running, intake, control, tally, input, history_rows, history_bad_lines } = self;
        if running.has_failed() {
            control.abandon();
        }
        let before = running.status();
        let taken = intake.join();
        let (status, error) = match running.join() {
            Ok(status) => (status, taken.err()),
            Err(error) => (before, Some(error.into())),
        };
        let bad_lines = control.bad_lines().clone();
        let summary = RunSummary {
            status,
            answers: tally.counts(),
            bad_lines,
            simulated_s: control.simulated_s(),
            history_rows,
            stopped: control.is_stopped(),
        };
        match error.or_else(|| without_valid_line(&input, &summary, history_bad_lines)) {
            None => Ok(summary),
            Some(error) => Err(Box::new(FailedRun { error, summary })),
        }
    }
}

/// Answers must not be written to a file that is read.
fn check_not_replaced(options: &RunOptions) -> Result<(), RunError> {
    let inputs: &[PathBuf] = match &options.input {
        Input::Files(files) => files,
        Input::Generated(_) => &[],
    };
    let answers: Vec<PathBuf> =
        (0..KINDS).filter_map(|kind| path_of(&options.out, kind).canonicalize().ok()).collect();
    let is_answer = |path: &&PathBuf| path.canonicalize().is_ok_and(|path| answers.contains(&path));
    match inputs.iter().chain(&options.history).find(is_answer) {
        Some(path) => Err(RunError::WouldReplace { path: path.display().to_string() }),
        None => Ok(()),
    }
}

/// An input without a single valid line does not count as one.
fn without_valid_line(input: &Input, summary: &RunSummary, history_bad_lines: u64) -> Option<RunError> {
    let Input::Files(paths) = input else { return None };
    if summary.stopped || summary.status.get(Counter::EventsIn) > 0 {
        return None;
    }
    let paths: Vec<String> = paths.iter().map(|path| path.display().to_string()).collect();
    let bad_lines = summary.bad_lines.total() - history_bad_lines;
    Some(RunError::NoValidLine { paths: paths.join(", "), bad_lines })
}
