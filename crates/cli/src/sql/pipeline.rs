//! `tidemill run pipeline.sql`

use std::path::{Path, PathBuf};

use tidemill_engine::{Positions, Repair, Skip, WorkerProcess, inspect};
use tidemill_sql::{Pipeline, Planner, StatementKind};

use super::execute::{Executor, Manner};
use super::{RowOptions, SessionOptions, script, user_error};
use crate::exit::Exit;
use crate::interrupt::Interrupt;

/// Run the sinks of a script until their input ends or Ctrl-C is pressed
#[derive(Debug, clap::Args)]
#[command(after_help = exit_codes!())]
pub(crate) struct RunPipeline {
    /// The script; - reads standard input
    #[arg(value_name = "FILE")]
    script: PathBuf,
    #[command(flatten)]
    rows: RowOptions,
    #[command(flatten)]
    options: SessionOptions,
}

impl RunPipeline {
    pub(crate) fn run(&self) -> anyhow::Result<Exit> {
        run_script(&self.script, self.options.planner_of(&self.script), self.rows)
    }
}

/// Whether the durable pipeline of a script can resume with the journal in a folder; if not, what a repair would do,
/// which is done if `is_to_be_done`.
pub(crate) fn repair_script(
    path: &Path,
    planner: Planner,
    folder: &Path,
    is_to_be_done: bool,
) -> anyhow::Result<Option<Repair>> {
    let opened = durable_pipeline(path, planner, folder)?.open()?;
    Ok(opened.repair(is_to_be_done)?)
}

/// What it takes to leave rows out of the durable pipeline of a script, which is done if `is_to_be_done`.
pub(crate) fn skip_script(
    path: &Path,
    planner: Planner,
    folder: &Path,
    (stream, positions): (Option<&str>, &Positions),
    is_to_be_done: bool,
) -> anyhow::Result<Skip> {
    let opened = durable_pipeline(path, planner, folder)?.open()?;
    Ok(opened.skip(stream, positions, is_to_be_done)?)
}

/// The pipeline of a script with the journal in a folder, which is there. What the script asks is not answered.
fn durable_pipeline(path: &Path, mut planner: Planner, folder: &Path) -> anyhow::Result<Pipeline> {
    // Reports a wrong name before a folder of that name is created.
    inspect::list(folder)?;
    let script = script::read(path)?;
    for statement in script.statements()?.iter().filter(|statement| is_definition(&statement.kind)) {
        planner.execute(statement).map_err(script::Wrong::from)?;
    }
    planner.settings_mut().journal = Some(folder.to_owned());
    let pipeline = planner.pipeline()?;
    pipeline.ok_or_else(|| user_error(format!("'{}' defines no sink", script.name)))
}

/// Runs the statements of a script, then its sinks; or this process's part of a query of another process.
pub(crate) fn run_script(path: &Path, planner: Planner, rows: RowOptions) -> anyhow::Result<Exit> {
    // Before anything reads standard input.
    if let Some(member) = WorkerProcess::from_environment()? {
        return Ok(super::run_member(planner, member));
    }
    let script = script::read(path)?;
    let statements = script.statements()?;
    let interrupt = Interrupt::of_command()?;
    let RowOptions { format, strict } = rows;
    let mut executor =
        Executor { session: super::session(planner, strict), format, interrupt, manner: Manner::Script };
    for statement in &statements {
        let exit = executor.statement(statement)?;
        if exit != Exit::Done {
            return Ok(exit);
        }
    }
    let answers = statements.iter().any(|statement| !is_definition(&statement.kind));
    match executor.pipeline()? {
        Some(exit) => Ok(exit),
        None if answers => Ok(Exit::Done),
        None => Err(user_error(format!(
            "'{}' defines no sink, no materialized view and asks nothing, so there is nothing to run; add CREATE \
             SINK ... FROM ..., or a SELECT",
            script.name
        ))),
    }
}

fn is_definition(kind: &StatementKind) -> bool {
    !matches!(
        kind,
        StatementKind::Query(..)
            | StatementKind::Show(_)
            | StatementKind::Describe(_)
            | StatementKind::Explain { .. }
    )
}
