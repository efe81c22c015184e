//! A script that cannot be read: an error that the user can correct.

use std::fmt;

use tidemill_sql::TextError;

/// What is wrong with a script: every error with its place.
#[derive(Debug)]
pub(crate) struct WrongScript(pub Vec<TextError>);

impl fmt::Display for WrongScript {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let errors: Vec<String> = self.0.iter().map(ToString::to_string).collect();
        let text = errors.join("\n\n");
        // The caller prints "error: " in front.
        formatter.write_str(text.strip_prefix("error: ").unwrap_or(&text))
    }
}

impl std::error::Error for WrongScript {}

impl From<TextError> for WrongScript {
    fn from(error: TextError) -> Self {
        WrongScript(vec![error])
    }
}
