//! `tidemill linear-road check`.

use std::path::PathBuf;

use clap::Args;
use tidemill_linear_road::check::{CheckOptions, check};

use crate::exit::Exit;
use crate::terminal;

/// Compare the answers of a run with the expected ones
///
/// Reports for each type which answers are missing, extra, duplicate, wrong, late or malformed. Both folders have
/// type0.csv to type3.csv, plain or as .csv.zst, with lines in any order; type2_allowed.csv may replace type2.csv.
#[derive(Debug, Args)]
#[command(after_help = concat!(
    "Example:\n  tidemill linear-road check --answers answers/ --expected expected/\n\n", exit_codes!()
))]
pub(crate) struct Check {
    /// Folder with the answers of a run
    #[arg(long, value_name = "DIR")]
    answers: PathBuf,
    /// Folder with the expected answers
    #[arg(long, value_name = "DIR")]
    expected: PathBuf,
    /// How many examples to show of each kind of difference
    #[arg(long, value_name = "N", default_value_t = 5)]
    examples: usize,
    /// Do not compare Emit with the limits of 5 s (types 0 to 2) and 10 s (type 3)
    #[arg(long)]
    ignore_delays: bool,
}

impl Check {
    pub(crate) fn run(self) -> anyhow::Result<Exit> {
        let limits_s = if self.ignore_delays { None } else { CheckOptions::default().limits_s };
        let options = CheckOptions { examples: self.examples, limits_s };
        let report = check(&self.answers, &self.expected, &options)?;
        terminal::show(&report.to_string())?;
        Ok(if report.is_exact() { Exit::Done } else { Exit::Differences })
    }
}
