//! Names.

use std::fmt;

use super::Span;

/// A name as written in a script. Two are equal if they name the same thing, wherever they are.
#[derive(Clone, Debug)]
pub struct Name {
    /// The name without quotes; in lower case if it was not quoted.
    pub value: String,
    /// The quote around it: `"` or `` ` `` for a name, `'` for a file.
    pub quote: Option<char>,
    /// Its place.
    pub span: Span,
}

impl Name {
    /// The name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.value
    }

    /// Whether it is in single quotes, like the path of a file.
    #[must_use]
    pub fn is_path(&self) -> bool {
        self.quote == Some('\'')
    }
}

impl PartialEq for Name {
    fn eq(&self, other: &Self) -> bool {
        self.value == other.value && self.is_path() == other.is_path()
    }
}

impl Eq for Name {}

impl fmt::Display for Name {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.value)
    }
}
