//! `tidemill journal replay DIR pipeline.sql`

use std::path::PathBuf;

use crate::exit::Exit;
use crate::sql::{RowOptions, SessionOptions, run_script};

/// Run a script with its durable sources read from their journals, from the beginning to the end
#[derive(Debug, clap::Args)]
#[command(after_help = exit_codes!())]
pub(crate) struct Replay {
    /// The journal's folder
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    /// The script; - reads standard input. Its sinks are written, so use other sinks than the running pipeline
    #[arg(value_name = "FILE")]
    script: PathBuf,
    #[command(flatten)]
    rows: RowOptions,
    #[command(flatten)]
    options: SessionOptions,
}

impl Replay {
    pub(crate) fn run(&self) -> anyhow::Result<Exit> {
        let mut planner = self.options.planner();
        planner.settings_mut().replay = Some(self.folder.clone());
        run_script(&self.script, planner, self.rows)
    }
}
