//! `tidemill sql`: statements with -c or -f, from a pipe, or at a prompt.

use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};

use tidemill_engine::WorkerProcess;
use tidemill_sql::ShowKind;

use super::client_command::{ClientCommand, HELP};
use super::completion::Words;
use super::editor::{Editor, Typed};
use super::execute::{Executor, Manner};
use super::piped::{Next, PipedStatements};
use super::rows::RowFormat;
use super::script::{self, ScriptText};
use super::{RowOptions, SessionOptions, user_error};
use crate::exit::{self, Exit};
use crate::interrupt::Interrupt;
use crate::terminal;

/// Run SQL: with -c, from a file, from a pipe, or at a prompt
#[derive(Debug, clap::Args)]
#[command(after_help = concat!(
    "Examples:\n  tidemill sql -c \"SELECT campaign, count(*) FROM 'clicks.csv' GROUP BY campaign\"\n  \
     tidemill sql -c \"SELECT value FROM sequence(rate => 10) LIMIT 5\"\n  \
     tidemill sql                  a prompt; \\h shows its help\n  \
     tidemill sql < statements     each as it comes; goes on after an error\n\n",
    exit_codes!()
))]
pub(crate) struct Prompt {
    /// Statements to execute, separated by ;
    #[arg(short = 'c', long, value_name = "SQL")]
    command: Option<String>,
    /// A file with statements to execute; - reads all of standard input first
    #[arg(short = 'f', long, value_name = "FILE", conflicts_with = "command")]
    file: Option<PathBuf>,
    #[command(flatten)]
    rows: RowOptions,
    #[command(flatten)]
    options: SessionOptions,
}

impl Prompt {
    pub(crate) fn run(&self) -> anyhow::Result<Exit> {
        // Before anything reads standard input.
        if let Some(member) = WorkerProcess::from_environment()? {
            return Ok(super::run_member(self.options.planner(), member));
        }
        let text = match (&self.command, &self.file) {
            (Some(text), _) => {
                Some(ScriptText { name: "query".into(), text: text.clone(), is_standard_input: false })
            }
            (None, Some(path)) => Some(script::read(path)?),
            (None, None) => None,
        };
        match text {
            Some(text) => all(&mut self.executor(Manner::Command)?, &text),
            None if io::stdin().is_terminal() => self.at_prompt(),
            None => self.read_pipe(),
        }
    }

    fn executor(&self, manner: Manner) -> anyhow::Result<Executor> {
        let interrupt = match manner {
            Manner::Prompt => Interrupt::of_prompt()?,
            _ => Interrupt::of_command()?,
        };
        Ok(Executor {
            session: super::session(self.options.planner(), self.rows.strict),
            format: self.rows.format,
            interrupt,
            manner,
        })
    }

    /// Executes statements from a pipe; continues after an error, whose code becomes that of the end.
    fn read_pipe(&self) -> anyhow::Result<Exit> {
        let mut executor = self.executor(Manner::Command)?;
        let mut input = PipedStatements::open()?;
        let mut exit = Exit::Done;
        loop {
            let text = match input.next(|| executor.interrupt.is_asked())? {
                Next::Text(text) => text,
                Next::Ended => return leave(&mut executor).map(|ended| worse(exit, ended)),
                Next::Interrupted => return Ok(Exit::Interrupted),
            };
            let ended = match command(&mut executor, &text.text) {
                Some(Ok(None)) => return leave(&mut executor).map(|ended| worse(exit, ended)),
                Some(Ok(Some(ended))) => Ok(ended),
                Some(Err(error)) => Err(error),
                None => all(&mut executor, &text),
            };
            match ended.unwrap_or_else(tell) {
                Exit::Interrupted => return Ok(Exit::Interrupted),
                ended if exit == Exit::Done => exit = ended,
                _ => {}
            }
        }
    }

    /// Executes what is typed at a terminal.
    fn at_prompt(&self) -> anyhow::Result<Exit> {
        let mut executor = self.executor(Manner::Prompt)?;
        let mut editor = Editor::new(io::stdout().is_terminal())?;
        let version = env!("CARGO_PKG_VERSION");
        terminal::tell(&format!("Tidemill {version}. A statement ends with ;  \\h shows help, \\q leaves."));
        loop {
            let words = Words::of(&executor.session);
            let typed = match executor.interrupt.must_leave() {
                true => Ok(Typed::Ended),
                false => executor.interrupt.while_waiting(|| editor.read(words)),
            };
            if executor.interrupt.must_leave() {
                // The flag's message to queries was delivered with it, and is not meant for the one that ends.
                executor.interrupt.is_asked();
                return leave(&mut executor).map(|_| Exit::Interrupted);
            }
            let text = match typed? {
                Typed::Text(text) => text,
                Typed::Cancelled => continue,
                Typed::Ended => return leave(&mut executor),
            };
            // A Ctrl-C that came before the statement is not meant for it.
            executor.interrupt.is_asked();
            if let Err(error) = executor.check_background(false) {
                tell(error);
            }
            let ended = match command(&mut executor, &text) {
                Some(Ok(None)) => return leave(&mut executor),
                Some(Ok(Some(ended))) => Ok(ended),
                Some(Err(error)) => Err(error),
                None => {
                    all(&mut executor, &ScriptText { name: "query".into(), text, is_standard_input: true })
                }
            };
            ended.unwrap_or_else(tell);
        }
    }
}

/// Ends the background pipeline, before the session ends.
fn leave(executor: &mut Executor) -> anyhow::Result<Exit> {
    match executor.has_background() {
        true => executor.stop(),
        false => Ok(Exit::Done),
    }
}

fn worse(before: Exit, now: Exit) -> Exit {
    if before == Exit::Done { now } else { before }
}

fn tell(error: anyhow::Error) -> Exit {
    exit::report(&error);
    Exit::of(&error)
}

/// Executes the statements of a text up to the first that fails.
fn all(executor: &mut Executor, text: &ScriptText) -> anyhow::Result<Exit> {
    let mut defines = false;
    for statement in text.statements()? {
        let had = executor.session.has_pipeline();
        let exit = executor.statement(&statement)?;
        if exit != Exit::Done {
            return Ok(exit);
        }
        defines |= !had && executor.session.has_pipeline();
    }
    if defines && executor.manner == Manner::Command {
        let way = if text.is_standard_input { "\\start on a line of its own" } else { "tidemill run FILE" };
        terminal::tell(&format!(
            "note: sinks and materialized views are defined but do not run yet; {way} runs them"
        ));
    }
    Ok(Exit::Done)
}

/// Executes a command: `None` if the text is not one; without an exit code if it says to leave.
fn command(executor: &mut Executor, text: &str) -> Option<anyhow::Result<Option<Exit>>> {
    let command = match ClientCommand::read(text)? {
        Ok(command) => command,
        Err(wrong) => return Some(Err(user_error(wrong))),
    };
    Some(match command {
        ClientCommand::Quit => Ok(None),
        ClientCommand::Help => terminal::show(HELP).map(|()| Some(Exit::Done)),
        ClientCommand::Run => run(executor).map(Some),
        ClientCommand::Start => executor.start().map(Some),
        ClientCommand::Stop => executor.stop().map(Some),
        ClientCommand::Describe(None) => relations(executor).map(Some),
        ClientCommand::Describe(Some(name)) => {
            let text = format!("DESCRIBE {name}");
            all(executor, &ScriptText { name: "query".into(), text, is_standard_input: true }).map(Some)
        }
        ClientCommand::Include(path) => include(executor, &path).map(Some),
        ClientCommand::Expanded => {
            executor.format = match executor.format {
                RowFormat::Expanded => RowFormat::Table,
                _ => RowFormat::Expanded,
            };
            let is_on = executor.format == RowFormat::Expanded;
            terminal::tell(if is_on { "a line for each value" } else { "a line for each row" });
            Ok(Some(Exit::Done))
        }
    })
}

fn run(executor: &mut Executor) -> anyhow::Result<Exit> {
    executor.check_background(true)?;
    match executor.pipeline()? {
        Some(exit) => Ok(exit),
        None => Err(user_error(
            "there is nothing to run: define a sink (CREATE SINK name FROM view WITH (path = 'out.csv')) or a \
             materialized view first"
                .into(),
        )),
    }
}

fn include(executor: &mut Executor, path: &Path) -> anyhow::Result<Exit> {
    if path == Path::new("-") {
        return Err(user_error("\\i needs the name of a file".into()));
    }
    // The commands come from there, whatever the file says.
    all(executor, &ScriptText { is_standard_input: true, ..script::read(path)? })
}

/// Shows all definitions, one table for each kind.
fn relations(executor: &Executor) -> anyhow::Result<Exit> {
    let kinds = [
        ("sources", ShowKind::Sources),
        ("tables", ShowKind::Tables),
        ("views", ShowKind::Views),
        ("processes", ShowKind::Processes),
        ("places", ShowKind::Places),
        ("sinks", ShowKind::Sinks),
    ];
    let mut is_empty = true;
    for (title, kind) in kinds {
        let rows = executor.session.show(kind);
        if rows.num_rows() > 0 {
            terminal::show(title)?;
            executor.format.show(&rows)?;
            is_empty = false;
        }
    }
    if is_empty {
        terminal::tell(
            "nothing is defined yet; files can be queried by name: SELECT * FROM 'clicks.csv' LIMIT 5;",
        );
    }
    Ok(Exit::Done)
}
