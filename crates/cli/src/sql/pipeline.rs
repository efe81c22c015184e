//! `tidemill run pipeline.sql`

use std::path::PathBuf;

use tidemill_sql::StatementKind;

use super::execute::{Executor, Manner};
use super::rows::RowFormat;
use super::{SessionOptions, script, user_error};
use crate::exit::Exit;
use crate::interrupt::Interrupt;

/// Run a script: its sinks until their input ends or Ctrl-C
#[derive(Debug, clap::Args)]
#[command(after_help = exit_codes!())]
pub(crate) struct RunPipeline {
    /// The script; - reads standard input
    #[arg(value_name = "FILE")]
    script: PathBuf,
    /// How rows of a SELECT in the script are shown
    #[arg(long, value_enum, default_value_t)]
    format: RowFormat,
    #[command(flatten)]
    options: SessionOptions,
}

impl RunPipeline {
    pub(crate) fn run(&self) -> anyhow::Result<Exit> {
        let script = script::read(&self.script)?;
        let statements = script.statements()?;
        let session = self.options.session();
        let interrupt = Interrupt::of_command()?;
        let mut executor =
            Executor { session, format: self.format, interrupt, manner: Manner::Script, background: None };
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
