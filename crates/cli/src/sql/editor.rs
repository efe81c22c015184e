//! The line editor of the prompt: several lines, history, completion.

use std::path::PathBuf;

use anyhow::Context as _;
use rustyline::completion::{Completer, FilenameCompleter, Pair};
use rustyline::config::{Behavior, CompletionType, Config};
use rustyline::error::ReadlineError;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::history::FileHistory;
use rustyline::validate::{ValidationContext, ValidationResult, Validator};
use rustyline::{Context, Helper};
use tidemill_sql::is_complete;

use super::client_command::ClientCommand;
use super::completion::Words;
use super::history;
use crate::terminal;

const PROMPT: &str = "tidemill> ";
/// The number of entries kept in the history.
const HISTORY_MAX: usize = 10_000;

/// Input from the user.
pub(crate) enum Typed {
    /// Whole statements, or a command.
    Text(String),
    /// Ctrl-C: the line is discarded.
    Cancelled,
    /// Ctrl-D, or the terminal is gone.
    Ended,
}

/// See the module.
pub(crate) struct Editor {
    editor: rustyline::Editor<Assistant, FileHistory>,
    history: Option<PathBuf>,
}

impl Editor {
    /// An editor on the terminal of the process, with the history of earlier sessions.
    pub fn new(output_is_terminal: bool) -> anyhow::Result<Editor> {
        // Rows that go elsewhere must not be mixed with the prompt.
        let behavior = if output_is_terminal { Behavior::Stdio } else { Behavior::PreferTerm };
        let config = Config::builder()
            .completion_type(CompletionType::List)
            .behavior(behavior)
            .max_history_size(HISTORY_MAX)
            .and_then(|config| config.history_ignore_dups(true))
            .context("the line editor's settings")?;
        let config = config.build();
        let mut editor = rustyline::Editor::with_history(config.clone(), FileHistory::with_config(&config))
            .context(
            "the terminal cannot be used for editing; give statements with -c, -f or through a pipe",
        )?;
        editor.set_helper(Some(Assistant::default()));
        let history = history::file();
        if let Some(path) = &history
            && path.exists()
            && editor.load_history(path).is_err()
        {
            // A broken history is no reason to have no prompt.
            terminal::tell(&format!("note: the history in '{}' cannot be read", path.display()));
        }
        Ok(Editor { editor, history })
    }

    /// Waits until statements or a command have been typed.
    pub fn read(&mut self, words: Words) -> anyhow::Result<Typed> {
        if let Some(assistant) = self.editor.helper_mut() {
            assistant.words = words;
        }
        match self.editor.readline(PROMPT) {
            Ok(text) => {
                self.remember(&text);
                Ok(Typed::Text(text))
            }
            Err(ReadlineError::Interrupted) => Ok(Typed::Cancelled),
            Err(ReadlineError::Eof) => Ok(Typed::Ended),
            // The window was resized, or a signal came: the line is unchanged.
            Err(ReadlineError::Signal(_)) => Ok(Typed::Cancelled),
            Err(error) => Err(error).context("the terminal cannot be read"),
        }
    }

    /// Written at once, so that nothing is lost if the process is ended.
    fn remember(&mut self, text: &str) {
        if text.trim().is_empty() || !self.editor.add_history_entry(text).unwrap_or(false) {
            return;
        }
        if let Some(path) = &self.history
            && self.editor.append_history(path).is_err()
        {
            self.history = None;
        }
    }
}

/// Helps while typing.
#[derive(Default)]
struct Assistant {
    words: Words,
    files: FilenameCompleter,
}

impl Completer for Assistant {
    type Candidate = Pair;

    fn complete(&self, line: &str, cursor: usize, _: &Context<'_>) -> rustyline::Result<(usize, Vec<Pair>)> {
        if self.words.is_in_file_name(&line[..cursor]) {
            return self.files.complete_path(line, cursor);
        }
        let (start, words) = self.words.complete(line, cursor);
        let pairs = words.into_iter().map(|word| Pair { display: word.clone(), replacement: word });
        Ok((start, pairs.collect()))
    }
}

impl Validator for Assistant {
    fn validate(&self, context: &mut ValidationContext<'_>) -> rustyline::Result<ValidationResult> {
        let text = context.input();
        let is_whole = text.trim().is_empty() || ClientCommand::read(text).is_some() || is_complete(text);
        Ok(if is_whole { ValidationResult::Valid(None) } else { ValidationResult::Incomplete })
    }
}

impl Hinter for Assistant {
    type Hint = String;
}

impl Highlighter for Assistant {}

impl Helper for Assistant {}
