//! `tidemill run pipeline.sql`

use std::path::PathBuf;

use tidemill_engine::Member;
use tidemill_sql::{Session, StatementKind};

use super::execute::{Executor, Manner};
use super::rows::RowFormat;
use super::script::ScriptText;
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
        let session = self.options.session_of(&self.script);
        match Member::from_environment()? {
            Some(member) => Ok(super::run_member(session, member)),
            None => RunScript { script: script::read(&self.script)?, session, format: self.format }.run(),
        }
    }
}

/// A script with the session that it is run in.
pub(crate) struct RunScript {
    pub script: ScriptText,
    pub session: Session,
    pub format: RowFormat,
}

impl RunScript {
    /// Runs its statements, then its sinks.
    pub(crate) fn run(self) -> anyhow::Result<Exit> {
        let RunScript { script, session, format } = self;
        let statements = script.statements()?;
        let interrupt = Interrupt::of_command()?;
        let mut executor = Executor { session, format, interrupt, manner: Manner::Script, background: None };
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
