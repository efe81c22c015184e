//! `tidemill journal replay`: the rows of a journal through another script, or the logged cycles again.

use std::path::PathBuf;

use super::database;
use super::exact_replay::ExactReplay;
use super::step::step;
use crate::exit::Exit;
use crate::sql::{RowOptions, SessionOptions, run_script, user_error};

/// What replays there.
const INSTEAD: &str = "`tidemill journal replay --data FOLDER --query NAME` replays a query of it exactly. A view or \
                       sink that is created with start = 'earliest' begins with the first rows that it still has";

/// Replay the past: the logged cycles with the results that the sinks got (--script, --query), or another script over
/// the journaled rows (FILE)
#[derive(Debug, clap::Args)]
#[command(after_help = exit_codes!())]
pub(crate) struct Replay {
    /// The journal's folder
    #[arg(value_name = "DIR", required_unless_present = "data", conflicts_with = "data")]
    folder: Option<PathBuf>,
    /// Run this script with its durable sources read from the journal, from the beginning to the end; - reads standard
    /// input. Its sinks are written, so do not use those of the running pipeline
    #[arg(value_name = "FILE", required_unless_present_any = ["script", "data"])]
    file: Option<PathBuf>,
    #[command(flatten)]
    exact: ExactReplay,
    #[command(flatten)]
    rows: RowOptions,
    #[command(flatten)]
    options: SessionOptions,
}

impl Replay {
    pub(crate) fn run(&self) -> anyhow::Result<Exit> {
        if self.exact.is_asked_for() && self.exact.step {
            return step(&self.exact, self.folder.as_deref(), self.rows, &self.options);
        }
        if self.exact.is_asked_for() {
            return self.exact.run(self.folder.as_deref(), self.rows, &self.options);
        }
        let (Some(folder), Some(file)) = (&self.folder, &self.file) else {
            return Err(user_error("name the journal's folder and a script".to_owned()));
        };
        database::refuse(folder, INSTEAD)?;
        let mut planner = self.options.planner();
        planner.settings_mut().replay = Some(folder.clone());
        run_script(file, planner, self.rows)
    }
}
