//! An error at an option.

use tidemill_engine::Cause;

use crate::statement::Options;
use crate::text::TextError;

/// What is wrong with an option. The statement adds the place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OptionError {
    /// The option; `None`: all of them together.
    pub option: Option<String>,
    /// What is wrong, in one sentence without a full stop.
    pub message: String,
    /// What to do about it.
    pub hint: Option<String>,
}

impl OptionError {
    /// An error at this option.
    #[must_use]
    pub fn new(option: &str, message: impl Into<String>) -> OptionError {
        OptionError { option: Some(option.to_owned()), message: message.into(), hint: None }
    }

    /// The error with its place among these options.
    pub(crate) fn placed_in(self, given: &Options) -> TextError {
        let name = self.option.as_deref().unwrap_or("connector");
        given.error(name, self.message).with_optional_hint(self.hint)
    }

    /// The same error with a hint.
    #[must_use]
    pub fn with_hint(self, hint: impl Into<String>) -> OptionError {
        OptionError { hint: Some(hint.into()), ..self }
    }
}

impl From<Cause> for OptionError {
    fn from(cause: Cause) -> OptionError {
        OptionError { option: None, message: cause.to_string(), hint: None }
    }
}
