//! The text of a script, and errors that show their place in it.

mod coercions;
pub(crate) mod duration;
mod masked;
mod render;
mod script;
mod sentences;
mod types;
pub(crate) mod wording;

use std::fmt;
use std::sync::Arc;

use tidemill_engine::Cause;

pub use self::masked::masked;
pub use self::script::{MAX_SCRIPT_BYTES, Script, ScriptLocation, Span};

/// The kind of an error, for programs: clients of a server have a code for each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Problem {
    /// No more is known than what the message says.
    #[default]
    Other,
    /// There is no relation of this name.
    UnknownRelation,
    /// There is no column of this name.
    UnknownColumn,
    /// A name of a column could mean several.
    AmbiguousColumn,
    /// There is no function of this name, or not with these arguments.
    UnknownFunction,
    /// It is not a sentence of the language.
    Syntax,
    /// No key of a table says what a statement takes for one.
    NoConstraint,
    /// The name is taken.
    Exists,
    /// The source has a column of this name.
    ColumnExists,
    /// Something else reads it.
    StillRead,
    /// Not part of the language, or not possible over a stream.
    NotSupported,
    /// The rows of an earlier cycle or time are not kept any more.
    PastGone,
    /// The rows of a cycle or time have not come yet.
    NotYet,
    /// A limit was reached.
    Resource,
    /// A bug of ours.
    Bug,
}

/// An error in a script: what is wrong, where, and what to do about it.
///
/// Displayed with the line of the script and a mark below the place:
///
/// ```
/// let error = tidemill_sql::parse("SELECT user\nFORM clicks WHERE", "clicks.sql").unwrap_err();
/// let shown = error.to_string();
/// assert!(shown.contains("--> clicks.sql:2:"), "{shown}");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TextError {
    /// What is wrong, in one sentence without a full stop.
    pub message: String,
    /// Where.
    pub span: Span,
    /// What to do about it.
    pub hint: Option<String>,
    /// Its kind.
    pub problem: Problem,
    pub(crate) script: Arc<Script>,
}

impl TextError {
    /// An error at a piece of a script.
    #[must_use]
    pub fn new(script: &Arc<Script>, span: Span, message: impl Into<String>) -> TextError {
        let (message, script) = (message.into(), Arc::clone(script));
        TextError { message, span, hint: None, problem: Problem::Other, script }
    }

    /// The same error with this hint instead of its own.
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> TextError {
        self.hint = Some(hint.into());
        self
    }

    /// The same error, of this kind.
    #[must_use]
    pub fn of(self, problem: Problem) -> TextError {
        TextError { problem, ..self }
    }

    /// Where it is, as the number of the character in the script, from 1.
    #[must_use]
    pub fn character(&self) -> usize {
        let before = self.script.text().get(..self.span.start.byte as usize);
        before.map_or(0, |before| before.chars().count()) + 1
    }

    /// The same error with this hint, if there is one.
    #[must_use]
    pub(crate) fn with_optional_hint(mut self, hint: Option<String>) -> TextError {
        self.hint = hint.or(self.hint);
        self
    }

    /// The name of the script's file.
    #[must_use]
    pub fn file(&self) -> &str {
        self.script.file()
    }
}

impl fmt::Display for TextError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        render::render(formatter, self, &self.script)
    }
}

impl std::error::Error for TextError {}

impl From<TextError> for Cause {
    fn from(error: TextError) -> Self {
        Cause::user(error.to_string()).with_source(error)
    }
}
