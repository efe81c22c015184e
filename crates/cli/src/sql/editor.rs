//! The line editor of the prompt: history, completion, and a mark before each further line of an unfinished statement.

use std::path::PathBuf;

use anyhow::Context as _;
use rustyline::completion::{Completer, FilenameCompleter, Pair};
use rustyline::config::{Behavior, CompletionType, Config};
use rustyline::error::ReadlineError;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::history::FileHistory;
use rustyline::validate::Validator;
use rustyline::{Context, Helper};
use tidemill_sql::is_complete;

use super::client_command::ClientCommand;
use super::completion::CompletionWords;
use super::{history, unfinished};
use crate::terminal;

const PROMPT: &str = "tidemill> ";
/// The number of entries kept in the history.
const HISTORY_MAX: usize = 10_000;

/// Input from the user.
pub(crate) enum PromptInput {
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
            .context("cannot apply the line editor's settings")?;
        let config = config.build();
        let mut editor = rustyline::Editor::with_history(config.clone(), FileHistory::with_config(&config))
            .context(
            "the terminal cannot be used for editing; pass statements with -c, with -f or through a pipe",
        )?;
        editor.set_helper(Some(Assistant::default()));
        let history = history::file();
        if let Some(path) = &history
            && path.exists()
            && editor.load_history(path).is_err()
        {
            // Even with a broken history there is a prompt.
            terminal::tell(&format!("note: the history in '{}' cannot be read", path.display()));
        }
        Ok(Editor { editor, history })
    }

    /// Waits until statements or a command have been typed.
    pub fn read(&mut self, words: CompletionWords) -> anyhow::Result<PromptInput> {
        if let Some(assistant) = self.editor.helper_mut() {
            assistant.words = words;
        }
        loop {
            let typed = match self.unfinished() {
                "" => self.editor.readline(PROMPT),
                text => {
                    let mark = unfinished::mark(text);
                    self.editor.readline(&format!("{mark:>width$} ", width = PROMPT.len() - 1))
                }
            };
            let line = match typed {
                Ok(line) => line,
                // The window was resized, or a signal came: what was typed before stays.
                Err(ReadlineError::Signal(_)) => return Ok(PromptInput::Cancelled),
                Err(ReadlineError::Interrupted) => {
                    self.take_unfinished();
                    return Ok(PromptInput::Cancelled);
                }
                Err(ReadlineError::Eof) => {
                    self.take_unfinished();
                    return Ok(PromptInput::Ended);
                }
                Err(error) => return Err(error).context("the terminal cannot be read"),
            };
            if let Some(text) = self.whole(&line) {
                self.remember(&text);
                return Ok(PromptInput::Text(text));
            }
        }
    }

    /// The text that this line completes, or the command that it is: a command may stand between the lines of a statement.
    fn whole(&mut self, line: &str) -> Option<String> {
        let before = self.unfinished();
        // `help` and `exit` may be names there.
        let may_be_command = before.is_empty() || line.trim_start().starts_with('\\');
        if may_be_command && !unfinished::is_in_quotes(before) && ClientCommand::read(line).is_some() {
            return Some(line.to_owned());
        }
        let text = if before.is_empty() {
            line.to_owned()
        } else {
            format!(
                "{before}
{line}"
            )
        };
        if text.trim().is_empty() || is_complete(&text) {
            self.take_unfinished();
            return Some(text);
        }
        if let Some(assistant) = self.editor.helper_mut() {
            assistant.unfinished = text;
        }
        None
    }

    /// The lines of the statement so far.
    fn unfinished(&self) -> &str {
        self.editor.helper().map_or("", |assistant| &assistant.unfinished)
    }

    fn take_unfinished(&mut self) {
        if let Some(assistant) = self.editor.helper_mut() {
            assistant.unfinished.clear();
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
    words: CompletionWords,
    /// The earlier lines of a statement.
    unfinished: String,
    files: FilenameCompleter,
}

impl Completer for Assistant {
    type Candidate = Pair;

    fn complete(&self, line: &str, cursor: usize, _: &Context<'_>) -> rustyline::Result<(usize, Vec<Pair>)> {
        let text = if self.unfinished.is_empty() { String::new() } else { format!("{}\n", self.unfinished) };
        let before = text.len();
        let text = text + &line[..cursor];
        if self.words.is_in_file_name(&text) {
            return self.files.complete_path(line, cursor);
        }
        let (start, words) = self.words.complete(&text, text.len());
        let pairs = words.into_iter().map(|word| Pair { display: word.clone(), replacement: word });
        Ok((start.saturating_sub(before), pairs.collect()))
    }
}

/// Each line is taken as it is: [`Editor::read`] asks for the next one.
impl Validator for Assistant {}

impl Hinter for Assistant {
    type Hint = String;
}

impl Highlighter for Assistant {}

impl Helper for Assistant {}
