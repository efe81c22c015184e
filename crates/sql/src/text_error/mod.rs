//! Errors that show their place in the text.

mod datafusion;
mod parser;
mod places;
mod render;
mod wording;

use std::fmt;
use std::sync::Arc;

use tidemill_engine::Cause;

pub use self::datafusion::Names;
pub(crate) use self::parser::query_hint;
pub(crate) use self::wording::{plain_sentence, plain_values, sql_types};
use crate::statement::{Script, Span};

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
    pub(crate) script: Arc<Script>,
}

impl TextError {
    /// An error at a piece of a script.
    #[must_use]
    pub fn new(script: &Arc<Script>, span: Span, message: impl Into<String>) -> TextError {
        TextError { message: message.into(), span, hint: None, script: Arc::clone(script) }
    }

    /// The same error with this hint instead of its own.
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> TextError {
        self.hint = Some(hint.into());
        self
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
