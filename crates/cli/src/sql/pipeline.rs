//! `tidemill run pipeline.sql`

use std::path::{Path, PathBuf};

use tidemill_engine::Member;
use tidemill_sql::{Session, StatementKind};

use super::execute::{Executor, Manner};
use super::rows::RowFormat;
use super::script::ScriptText;
use super::{Failed, SessionOptions, script, user_error};
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
    /// Processes of this machine that the sinks' and views' queries run over; --workers are those of each
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=64))]
    processes: u16,
    #[command(flatten)]
    options: SessionOptions,
}

impl RunPipeline {
    pub(crate) fn run(&self) -> anyhow::Result<Exit> {
        // Before anything reads standard input.
        let member = Member::from_environment()?;
        let mut session = self.options.session_of(&self.script);
        session.settings_mut().processes = self.processes.into();
        if self.processes > 1 && self.script == Path::new("-") {
            let text = "--processes: the other processes read the script, too; name a file instead of -";
            return Err(user_error(text.into()));
        }
        let script = script::read(&self.script)?;
        match member {
            None => RunScript { script, session, format: self.format }.run(),
            Some(member) => run_member(member, &script, session),
        }
    }
}

/// Does what process 0 gives this one to do.
fn run_member(member: Member, script: &ScriptText, mut session: Session) -> anyhow::Result<Exit> {
    for statement in script.statements()?.iter().filter(|statement| is_definition(&statement.kind)) {
        session.execute(statement).map_err(script::Wrong::from)?;
    }
    let Some(pipeline) = session.explained_pipeline().map_err(Failed)? else { return Ok(Exit::Done) };
    match pipeline.run_member(member) {
        Ok(()) => Ok(Exit::Done),
        // Process 0 says it.
        Err(_) => Ok(Exit::Failed),
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
