//! `tidemill journal repair DIR pipeline.sql`

use std::path::{Path, PathBuf};

use tidemill_engine::Repair as Found;

use crate::exit::Exit;
use crate::sql::{SessionOptions, repair_script};
use crate::terminal;

/// Bring sinks that are behind every state of a journal up to the oldest state, and print what this loses
#[derive(Debug, clap::Args)]
#[command(after_help = exit_codes!())]
pub(crate) struct Repair {
    /// The journal's folder
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    /// The script of the pipeline, which must not be running; its sinks are asked how far they are
    #[arg(value_name = "FILE")]
    script: PathBuf,
    /// Only print what would be done
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    options: SessionOptions,
}

impl Repair {
    pub(crate) fn run(&self) -> anyhow::Result<Exit> {
        let Some(found) = repair_script(&self.script, self.options.planner(), &self.folder, !self.dry_run)?
        else {
            terminal::tell("the pipeline can go on as it is; there is nothing to repair");
            return Ok(Exit::Done);
        };
        tell(&found);
        match self.dry_run {
            true => {
                let (folder, script) = (self.folder.display(), self.script.display());
                terminal::tell(&format!(
                    "nothing was changed; `tidemill journal repair {folder} {script}` does it"
                ));
                Ok(Exit::Differences)
            }
            false => {
                terminal::tell("done: the next run goes on from there");
                Ok(Exit::Done)
            }
        }
    }
}

/// What is wrong, what is done about it, and what is lost by that.
fn tell(found: &Found) {
    terminal::tell(&format!("the pipeline cannot go on: {}", found.reason));
    let last = found.snapshot;
    terminal::tell(&format!(
        "the oldest state that is left is that after cycle {last}; to go on from there:"
    ));
    for (sink, has) in &found.behind {
        let (known, first) = match has {
            Some(cycle) => (format!("has noted cycle {cycle}"), cycle + 1),
            None => ("has noted no cycle".to_string(), 0),
        };
        terminal::tell(&format!(
            "  sink '{sink}' {known} and counts as having cycle {last}: rows that cycles {first} to {last} had for it \
             are lost, if it does not have them already"
        ));
    }
    terminal::tell("no row comes twice, and nothing else is lost");
}

/// The same as a check: whether the pipeline of a script could resume.
pub(super) fn check(folder: &Path, script: &Path, options: &SessionOptions) -> anyhow::Result<Exit> {
    let Some(found) = repair_script(script, options.planner(), folder, false)? else {
        terminal::tell("the pipeline can go on");
        return Ok(Exit::Done);
    };
    tell(&found);
    terminal::tell("`tidemill journal repair` does it");
    Ok(Exit::Differences)
}
