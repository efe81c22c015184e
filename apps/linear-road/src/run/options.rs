//! What to run, and how.

use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use tidemill_engine::{CyclePolicy, Plan, Policy, PoolSettings};

use crate::InputSplit;
use crate::expenditures::history::History;
use crate::generator::GeneratorConfig;
use crate::query::{self, Partitions};

/// Where the events of a run come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    /// Files, read one after another as a single input; `-` is standard input.
    Files(Vec<PathBuf>),
    /// Generated during the run.
    Generated(GeneratorConfig),
}

/// How fast events are taken in.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pace {
    /// As fast as they are answered.
    Max,
    /// This many times faster than real time, 0.001 to 1,000,000: all lines of second `t` come in `t` divided by this
    /// many seconds after those of the input's first second. If the run is late, that counts as response time.
    Times(f64),
}

impl Pace {
    /// Real time, as the benchmark requires: a second per second.
    pub const REAL: Pace = Pace::Times(1.0);

    pub(super) fn check(self) -> Result<(), PaceError> {
        match self {
            Pace::Times(times) if !(0.001..=1e6).contains(&times) => Err(PaceError(times.to_string())),
            _ => Ok(()),
        }
    }
}

/// An invalid pace.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "pace '{0}': give max, real, or how many times faster than real time (0.001 to 1000000), such as 10 or 0.5"
)]
pub struct PaceError(String);

/// `max`, `real`, or a number from 0.001 to 1,000,000.
///
/// ```
/// use tidemill_linear_road::run::Pace;
/// assert_eq!("max".parse(), Ok(Pace::Max));
/// assert_eq!("real".parse(), Ok(Pace::Times(1.0)));
/// assert_eq!("2.5".parse(), Ok(Pace::Times(2.5)));
/// assert!("0".parse::<Pace>().is_err());
/// // So slow that its first second would never end.
/// assert!("1e-300".parse::<Pace>().is_err());
/// ```
impl FromStr for Pace {
    type Err = PaceError;

    fn from_str(text: &str) -> Result<Pace, PaceError> {
        let pace = match text {
            "max" => Pace::Max,
            "real" => Pace::REAL,
            number => Pace::Times(number.parse().map_err(|_| PaceError(number.to_owned()))?),
        };
        pace.check().map(|()| pace)
    }
}

/// A run's settings.
#[derive(Clone, Debug, PartialEq)]
pub struct RunOptions {
    /// Where the events come from.
    pub input: Input,
    /// The file of tolls paid earlier. `None`: generated traffic brings its own, and otherwise queries of type 3 have
    /// no answers.
    pub history: Option<PathBuf>,
    /// The folder that the answers are written to.
    pub out: PathBuf,
    /// Worker threads.
    pub workers: usize,
    /// Processes of this machine, including this one.
    pub processes: usize,
    /// How fast events are taken in.
    pub pace: Pace,
    /// In a paced run, in how many parts the events of a second come, evenly spread over it; 0 counts as 1: all at its beginning.
    pub ticks_per_second: u32,
    /// Whether the first bad line ends the run.
    pub strict: bool,
    /// When cycles close.
    pub cycles: CyclePolicy,
    /// Logical partitions.
    pub partitions: Partitions,
    /// How the inputs of the operators are split.
    pub split: InputSplit,
    /// The real-time priority of the workers, the intake and the writing of answers, 1 to 99. `None`: they are ordinary threads.
    pub priority: Option<u32>,
    /// Within which time events are to be answered. Those that are answered later are counted.
    pub deadline: Option<Duration>,
}

impl RunOptions {
    /// One worker, maximum pace, bad lines counted, the engine's cycles.
    pub fn new(input: Input, out: impl Into<PathBuf>) -> RunOptions {
        RunOptions {
            input,
            history: None,
            out: out.into(),
            workers: 1,
            processes: 1,
            pace: Pace::Max,
            ticks_per_second: 1,
            strict: false,
            cycles: CyclePolicy::default(),
            partitions: Partitions::default(),
            split: InputSplit::default(),
            priority: None,
            deadline: None,
        }
    }

    /// The query of the run.
    pub(super) fn plan(&self, history: Arc<History>) -> Plan {
        let mut plan = query::plan(self.partitions, history);
        self.split.set_in(&mut plan);
        plan
    }

    /// The pool that the run asks for.
    pub(super) fn pool(&self) -> Option<PoolSettings> {
        let policy = Policy::Fifo { priority: self.priority? };
        Some(PoolSettings { workers: self.workers, policy, ..PoolSettings::new("linear-road") })
    }
}
