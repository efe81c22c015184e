//! What sentences of the planner are taken apart with, and what they become.

/// An error in plain language.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Wording {
    /// What is wrong.
    pub(crate) message: String,
    /// What to do.
    pub(crate) hint: Option<String>,
    /// A word of the statement at which the error is.
    pub(crate) at: Option<String>,
}

/// The text between two pieces of a text.
pub(crate) fn between<'a>(text: &'a str, before: &str, after: &str) -> Option<&'a str> {
    let start = text.find(before)? + before.len();
    let length = text[start..].find(after)?;
    Some(&text[start..start + length])
}
