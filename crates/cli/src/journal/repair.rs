//! `tidemill journal repair DIR pipeline.sql`

use std::path::{Path, PathBuf};

use tidemill_engine::Repair as RepairPlan;

use super::database;
use crate::exit::Exit;
use crate::sql::{SessionOptions, repair_script};
use crate::terminal;

/// What helps where no sink can be advanced.
const INSTEAD: &str = "A query that cannot resume says why in SHOW QUERIES, and does not hold up others: DROP it, and \
                       create it again with start = 'earliest' or 'now'";

/// Advance sinks that are behind every state in the journal to the oldest state, and show what is lost
#[derive(Debug, clap::Args)]
#[command(after_help = exit_codes!())]
pub(crate) struct Repair {
    /// The journal's folder
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    /// The script of the pipeline, which must not be running; its sinks report how far they are
    #[arg(value_name = "FILE")]
    script: PathBuf,
    /// Only show what would be done
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    options: SessionOptions,
}

impl Repair {
    pub(crate) fn run(&self) -> anyhow::Result<Exit> {
        database::refuse(&self.folder, INSTEAD)?;
        let Some(found) = repair_script(&self.script, self.options.planner(), &self.folder, !self.dry_run)?
        else {
            terminal::tell("the pipeline can resume as it is; there is nothing to repair");
            return Ok(Exit::Done);
        };
        tell(&found);
        if self.dry_run {
            let (folder, script) = (self.folder.display(), self.script.display());
            terminal::tell(&format!(
                "nothing was changed; run `tidemill journal repair {folder} {script}` to do this"
            ));
            Ok(Exit::Differences)
        } else {
            terminal::tell("done: the next run resumes from that state");
            Ok(Exit::Done)
        }
    }
}

/// What is wrong, what is done about it, and what is lost by that.
fn tell(found: &RepairPlan) {
    terminal::tell(&format!("the pipeline cannot resume: {}", found.reason));
    let last = found.snapshot;
    terminal::tell(&format!("the oldest remaining state is the one after cycle {last}; to resume from it:"));
    for (sink, has) in &found.behind {
        let (known, first) = match has {
            Some(cycle) => (format!("has recorded cycle {cycle}"), cycle + 1),
            None => ("has recorded no cycle".to_string(), 0),
        };
        terminal::tell(&format!(
            "  sink '{sink}' {known} and will be treated as if it had committed cycle {last}; its rows of \
             cycles {first} to {last} are lost, unless it already has them"
        ));
    }
    terminal::tell("no row is written twice, and nothing else is lost");
}

/// The same as a check: whether the pipeline of a script could resume.
pub(super) fn check(folder: &Path, script: &Path, options: &SessionOptions) -> anyhow::Result<Exit> {
    database::refuse(folder, INSTEAD)?;
    let Some(found) = repair_script(script, options.planner(), folder, false)? else {
        terminal::tell("the pipeline can resume");
        return Ok(Exit::Done);
    };
    tell(&found);
    terminal::tell("run `tidemill journal repair` to do this");
    Ok(Exit::Differences)
}
