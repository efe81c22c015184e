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

    /// The column that it means: the column of this name or, if the name is not quoted, the only one whose name differs
    /// from it in case.
    pub(crate) fn meant<'a>(&self, columns: impl Iterator<Item = &'a str> + Clone) -> Option<&'a str> {
        let same = columns.clone().find(|column| *column == self.value);
        same.or_else(|| self.quote.is_none().then(|| in_other_letters(&self.value, columns)).flatten())
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

/// The only name that differs from this one in nothing but case.
pub(crate) fn in_other_letters<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let mut names = known.filter(|known| *known != name && known.to_lowercase() == name.to_lowercase());
    let first = names.next()?;
    names.all(|name| name == first).then_some(first)
}
