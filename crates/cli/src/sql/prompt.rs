//! `tidemill sql`: statements with -c or -f, from a pipe, or at a prompt.

use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};

use tidemill_engine::WorkerProcess;

use super::client_command::{ClientCommand, HELP};
use super::completion::CompletionWords;
use super::database::DatabaseOption;
use super::editor::{Editor, PromptInput};
use super::execute::{Executor, StatementOrigin};
use super::piped::{PipedInput, PipedStatements};
use super::rows::RowFormat;
use super::script::{self, ScriptText};
use super::{RowOptions, SessionOptions, listing, user_error};
use crate::exit::{self, Exit};
use crate::interrupt::{Interrupt, StopLimits};
use crate::terminal;

/// Run SQL: with -c, from a file, from a pipe, or at a prompt
#[derive(Debug, clap::Args)]
#[command(after_help = concat!(
    "Examples:\n  tidemill sql -c \"SELECT campaign, count(*) FROM 'clicks.csv' GROUP BY campaign\"\n  \
     tidemill sql -c \"SELECT value FROM sequence(rate => 10) LIMIT 5\"\n  tidemill sql daily.sql        the \
     statements of a file\n  tidemill sql                  an \
     interactive prompt; \\h shows help\n  tidemill sql --database shop  a prompt with definitions that stay\n  \
     tidemill sql < statements     run each as it arrives; continue after an error\n\n",
    exit_codes!()
))]
pub(crate) struct Prompt {
    /// Statements to execute, separated by ;
    #[arg(short = 'c', long, value_name = "SQL")]
    command: Option<String>,
    /// A file with statements to execute; - reads all of standard input first
    #[arg(short = 'f', long, value_name = "FILE", conflicts_with = "command")]
    file: Option<PathBuf>,
    /// The same as --file
    #[arg(value_name = "FILE", conflicts_with_all = ["command", "file"])]
    script: Option<PathBuf>,
    #[command(flatten)]
    rows: RowOptions,
    #[command(flatten)]
    database: DatabaseOption,
    #[command(flatten)]
    options: SessionOptions,
}

impl Prompt {
    pub(crate) fn run(&self) -> anyhow::Result<Exit> {
        // Before anything reads standard input.
        if let Some(member) = WorkerProcess::from_environment()? {
            return Ok(super::run_member(self.options.planner(), member));
        }
        let text = match (&self.command, self.file.as_ref().or(self.script.as_ref())) {
            (Some(text), _) => {
                Some(ScriptText { name: "query".into(), text: text.clone(), is_standard_input: false })
            }
            (None, Some(path)) => Some(script::read(path)?),
            (None, None) => None,
        };
        match text {
            Some(text) => all(&mut self.executor(StatementOrigin::Command)?, &text),
            None if io::stdin().is_terminal() => self.at_prompt(),
            None => self.read_pipe(),
        }
    }

    fn executor(&self, origin: StatementOrigin) -> anyhow::Result<Executor> {
        let interrupt = match origin {
            StatementOrigin::Prompt => Interrupt::of_prompt()?,
            _ => Interrupt::of_command(StopLimits::attended())?,
        };
        Ok(Executor {
            session: super::session(&self.database.runtime(self.options.planner())?, self.rows.strict),
            format: self.rows.format,
            interrupt,
            origin,
            database: self.database.database.clone(),
            shows_time: true,
            pages: true,
        })
    }

    /// Executes statements from a pipe; continues after an error, whose code becomes that of the end.
    fn read_pipe(&self) -> anyhow::Result<Exit> {
        let mut executor = self.executor(StatementOrigin::Command)?;
        let mut input = PipedStatements::open()?;
        let mut exit = Exit::Done;
        loop {
            let text = match input.next(|| executor.interrupt.is_asked())? {
                PipedInput::Text(text) => text,
                PipedInput::Ended => return leave(&mut executor).map(|ended| worse(exit, ended)),
                PipedInput::Interrupted => return Ok(Exit::Interrupted),
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
        let mut executor = self.executor(StatementOrigin::Prompt)?;
        let mut editor = Editor::new(io::stdout().is_terminal())?;
        let version = env!("CARGO_PKG_VERSION");
        terminal::tell(&format!("Tidemill {version}. A statement ends with ;  \\h shows help, \\q leaves."));
        loop {
            let words = CompletionWords::of(&executor.session);
            let typed = if executor.interrupt.must_leave() {
                Ok(PromptInput::Ended)
            } else {
                executor.interrupt.while_waiting(|| editor.read(words))
            };
            if executor.interrupt.must_leave() {
                // The flag's message to queries was delivered with it, and is not meant for the one that ends.
                executor.interrupt.is_asked();
                return leave(&mut executor).map(|_| Exit::Interrupted);
            }
            let text = match typed? {
                PromptInput::Text(text) => text,
                PromptInput::Cancelled => continue,
                PromptInput::Ended => return leave(&mut executor),
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
    if executor.has_background() { executor.stop() } else { Ok(Exit::Done) }
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
    if defines && executor.origin == StatementOrigin::Command {
        let way = match &executor.database {
            _ if text.is_standard_input => "\\start on its own line".to_owned(),
            Some(folder) => format!("tidemill run --database {}", folder.display()),
            None => "tidemill run FILE".to_owned(),
        };
        terminal::tell(&format!(
            "note: sinks and materialized views are defined, but not running yet; {way} runs them"
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
        ClientCommand::Help => executor.show(format!("{HELP}\n").as_bytes()).map(|()| Some(Exit::Done)),
        ClientCommand::Run => run(executor).map(Some),
        ClientCommand::Start => executor.start().map(Some),
        ClientCommand::Stop => executor.stop().map(Some),
        ClientCommand::Describe(None) => listing::all(executor).map(Some),
        ClientCommand::Describe(Some(name)) => {
            let text = format!("DESCRIBE {name}");
            all(executor, &ScriptText { name: "query".into(), text, is_standard_input: true }).map(Some)
        }
        ClientCommand::Include(path) => include(executor, &path).map(Some),
        ClientCommand::List(kind) => listing::of(executor, kind).map(Some),
        ClientCommand::Expanded(wanted) => {
            let is_on = wanted.unwrap_or(executor.format != RowFormat::Expanded);
            executor.format = if is_on { RowFormat::Expanded } else { RowFormat::Table };
            told(if is_on {
                "rows are shown with one line per value"
            } else {
                "rows are shown with one line per row"
            })
        }
        ClientCommand::Timing(wanted) => {
            executor.shows_time = wanted.unwrap_or(!executor.shows_time);
            told(if executor.shows_time { "times are shown" } else { "times are not shown" })
        }
        ClientCommand::Pager(wanted) => {
            executor.pages = wanted.unwrap_or(!executor.pages);
            told(if executor.pages { "long results are shown in a pager" } else { "no pager is used" })
        }
    })
}

fn told(text: &str) -> anyhow::Result<Option<Exit>> {
    terminal::tell(text);
    Ok(Some(Exit::Done))
}

fn run(executor: &mut Executor) -> anyhow::Result<Exit> {
    executor.check_background(true)?;
    match executor.pipeline()? {
        Some(exit) => Ok(exit),
        None => Err(user_error(
            "there is nothing to run; first define a sink (CREATE SINK name FROM view WITH (path = 'out.csv')) \
             or a materialized view"
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
