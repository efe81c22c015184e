//! `tidemill linear-road run`.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use clap::Args;
use tidemill_engine::{CyclePolicy, WorkerProcess};
use tidemill_linear_road::InputSplit;
use tidemill_linear_road::query::Partitions;
use tidemill_linear_road::run::{FailedRun, Input, Pace, Run, RunOptions, RunSummary};

use super::run_progress::RunProgress;
use super::summary;
use super::traffic::Traffic;
use crate::exit::Exit;
use crate::{interrupt, terminal};

/// Answer the events in files or generated traffic, and write type0.csv to type3.csv
///
/// Shows progress on standard error and a summary on standard output at the end. Bad lines are counted and shown, and
/// all good lines are answered. Files may be plain or compressed with zstd.
#[derive(Debug, Args)]
#[command(after_help = concat!(
    "Examples:\n  tidemill linear-road run\n  tidemill linear-road run --input traffic/input.csv --history \
     traffic/history.csv --out answers/\n\n",
    exit_codes!()
))]
pub(crate) struct RunArguments {
    /// File of events, ordered by time; `-` is standard input. Given several times, the files are read one after
    /// another as if they were one [default: generated traffic]
    #[arg(long, value_name = "FILE", conflicts_with_all = ["expressways", "minutes", "seed", "peak", "curve_minutes"])]
    input: Vec<PathBuf>,
    /// File of tolls paid earlier, for queries of type 3; generated traffic includes its own
    #[arg(long, value_name = "FILE")]
    history: Option<PathBuf>,
    /// Folder for the answers, created if it does not exist; answers of an earlier run are replaced
    #[arg(long, value_name = "DIR", default_value = "answers")]
    out: PathBuf,
    /// Worker threads [default: one per core]
    #[arg(long, value_name = "N", value_parser = super::parse_workers)]
    workers: Option<usize>,
    /// Processes on this machine; --workers counts the threads of each
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=64))]
    processes: u16,
    /// Speed: max, real (one second of input per second), or a multiple of real
    #[arg(long, value_name = "max|real|X", default_value = "max", allow_negative_numbers = true)]
    pace: Pace,
    /// In a paced run, in how many parts the events of a second come, evenly spread over it; with 1, all at its beginning
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    ticks_per_second: u32,
    /// Stop at the first bad line
    #[arg(long)]
    strict: bool,
    /// Maximum number of events in a cycle
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    cycle_events: Option<u32>,
    /// Close cycles only when they are full, so that every run has the same cycles
    #[arg(long, requires = "cycle_events")]
    fixed_cycles: bool,
    /// Number of logical partitions, for expressways and for vehicles alike [default: 256 and 64]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=65_536))]
    partitions: Option<u32>,
    /// How inputs are split: parasplit (on every worker), fsplit (one splitter), exptree (a tree of splitters), or auto (the engine
    /// chooses while it runs)
    #[arg(long, value_name = "PLAN", default_value_t)]
    split: InputSplit,
    /// Runs in threads of this real-time priority (SCHED_FIFO), which needs the privilege for it
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=99), conflicts_with = "processes")]
    priority: Option<u32>,
    /// Count and show the events that are answered later than this after their arrival, such as '20 ms' or '500 us'
    #[arg(long, value_name = "TIME", value_parser = super::deadline::parse)]
    deadline: Option<Duration>,
    #[command(flatten)]
    traffic: Traffic,
}

impl RunArguments {
    pub(crate) fn run(self) -> anyhow::Result<Exit> {
        let options = self.options();
        if let Some(member) = WorkerProcess::from_environment()? {
            // Process 0 reports what fails.
            return Ok(Run::run_member(&options, member).map_or(Exit::Failed, |()| Exit::Done));
        }
        let stop = interrupt::flag()?;
        terminal::tell(&self.describe(&options));
        if self.history.is_none() && self.is_long_traffic() {
            terminal::tell(
                "note: the history is generated first, which takes a while for traffic of this \
                length",
            );
        }
        let run = Run::start(options.clone(), stop.clone())?;
        if run.history_rows() == 0 && !self.input.is_empty() {
            terminal::tell(
                "note: the history is empty, so queries of type 3 get no answers; give it with --history FILE",
            );
        }
        match watch(run, &stop, self.end_s()) {
            Ok(summary) => {
                terminal::show(&summary::text(&summary, &options))?;
                Ok(if summary.stopped { Exit::Interrupted } else { Exit::Done })
            }
            Err(failed) => {
                terminal::show(&summary::of_failed(&failed, &options))?;
                Err((*failed).into())
            }
        }
    }

    fn options(&self) -> RunOptions {
        let input = if self.input.is_empty() {
            Input::Generated(self.traffic.config())
        } else {
            Input::Files(self.input.clone())
        };
        let available = || thread::available_parallelism().map_or(1, usize::from);
        let partitions = match self.partitions {
            Some(partitions) => Partitions { expressways: partitions, vehicles: partitions },
            None => Partitions::default(),
        };
        RunOptions {
            history: self.history.clone(),
            workers: self.workers.unwrap_or_else(available),
            processes: self.processes.into(),
            pace: self.pace,
            ticks_per_second: self.ticks_per_second,
            strict: self.strict,
            cycles: self.cycles(),
            partitions,
            split: self.split,
            priority: self.priority,
            deadline: self.deadline,
            ..RunOptions::new(input, &self.out)
        }
    }

    fn cycles(&self) -> CyclePolicy {
        let usual = CyclePolicy::default();
        match self.cycle_events {
            Some(events) if self.fixed_cycles => CyclePolicy::fixed(events),
            Some(events_max) => CyclePolicy { events_max, ..usual },
            None => usual,
        }
    }

    /// The run's length, if it is known in advance.
    fn end_s(&self) -> Option<u32> {
        self.input.is_empty().then(|| self.traffic.config().duration_s())
    }

    /// Whether generating the traffic takes seconds.
    fn is_long_traffic(&self) -> bool {
        let Traffic { expressways, minutes, .. } = self.traffic;
        self.input.is_empty() && u32::from(expressways) * u32::from(minutes) > 1000
    }

    fn describe(&self, options: &RunOptions) -> String {
        let input = match &options.input {
            Input::Generated(_) => format!("generated traffic ({})", self.traffic.describe()),
            Input::Files(paths) => {
                let paths: Vec<String> = paths.iter().map(|path| path.display().to_string()).collect();
                paths.join(", ")
            }
        };
        let pace = match options.pace {
            Pace::Max => "as fast as possible".to_owned(),
            Pace::REAL => "in real time".to_owned(),
            Pace::Times(times) => format!("{times} times real time"),
        };
        let workers = options.workers;
        let plural = if workers == 1 { "" } else { "s" };
        let processes = match options.processes {
            1 => String::new(),
            processes => format!(" in each of {processes} processes"),
        };
        format!(
            "Linear Road: {input}, {pace}, {workers} worker{plural}{processes}; answers go to {}",
            options.out.display()
        )
    }
}

/// Shows the run until its end.
fn watch(run: Run, stop: &AtomicBool, end_s: Option<u32>) -> Result<RunSummary, Box<FailedRun>> {
    let mut live = RunProgress::new(end_s);
    let mut told = false;
    while !run.is_done() {
        thread::sleep(RunProgress::LOOK);
        live.look(&run);
        if !told && stop.load(Ordering::Relaxed) {
            told = true;
            live.tell("interrupted: answering what was taken in; interrupt again to end at once");
        }
    }
    live.end();
    run.join()
}
