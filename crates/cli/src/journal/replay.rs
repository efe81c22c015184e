//! `tidemill journal replay DIR pipeline.sql`

use std::path::PathBuf;

use super::database;
use crate::exit::Exit;
use crate::sql::{RowOptions, SessionOptions, run_script};

/// What replays there.
const INSTEAD: &str =
    "A view or sink that is created with start = 'earliest' begins with the first rows that it still has";

/// Run a script with its durable sources read from their journals, from the beginning to the end
#[derive(Debug, clap::Args)]
#[command(after_help = exit_codes!())]
pub(crate) struct Replay {
    /// The journal's folder
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    /// The script; - reads standard input. Its sinks are written, so do not use those of the running pipeline
    #[arg(value_name = "FILE")]
    script: PathBuf,
    #[command(flatten)]
    rows: RowOptions,
    #[command(flatten)]
    options: SessionOptions,
}

impl Replay {
    pub(crate) fn run(&self) -> anyhow::Result<Exit> {
        database::refuse(&self.folder, INSTEAD)?;
        let mut planner = self.options.planner();
        planner.settings_mut().replay = Some(self.folder.clone());
        run_script(&self.script, planner, self.rows)
    }
}
