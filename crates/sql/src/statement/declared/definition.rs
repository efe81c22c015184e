//! The declaration of an option.

use super::kind::{OptionKind, TypedValue};
use crate::statement::OptionValue;

/// An option as a connector, a format or a setting declares it.
///
/// ```
/// use tidemill_sql::{OptionDefault, OptionDefinition, OptionKind};
///
/// const RATE: OptionDefinition = OptionDefinition::new(
///     "rate",
///     OptionKind::Integer { least: 1, most: 1_000_000 },
///     OptionDefault::Value("1000"),
///     "rows per second",
/// );
/// assert_eq!(RATE.default_text(), "1000");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OptionDefinition {
    /// Its name in SQL.
    pub name: &'static str,
    /// What it holds.
    pub kind: OptionKind,
    /// What holds if it is not given.
    pub default: OptionDefault,
    /// What it means, in a line of Markdown without a full stop.
    pub doc: &'static str,
    /// Another option without which this one has no meaning.
    pub only_with: Option<&'static str>,
}

/// What holds if an option is not given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OptionDefault {
    /// It must be given.
    Required,
    /// This value, as it would be given.
    Value(&'static str),
    /// It has no value; the text says what happens then, such as `detected`. Empty: nothing worth saying.
    Nothing(&'static str),
}

impl OptionDefinition {
    /// An option that has a meaning by itself.
    #[must_use]
    pub const fn new(
        name: &'static str,
        kind: OptionKind,
        default: OptionDefault,
        doc: &'static str,
    ) -> OptionDefinition {
        OptionDefinition { name, kind, default, doc, only_with: None }
    }

    /// The same option, with a meaning only if another one is given too.
    #[must_use]
    pub const fn only_with(self, other: &'static str) -> OptionDefinition {
        OptionDefinition { only_with: Some(other), ..self }
    }

    /// The value that holds if it is not given; the error says why the default is not of its kind.
    pub(crate) fn typed_default(&self) -> Result<Option<TypedValue>, String> {
        let OptionDefault::Value(text) = self.default else { return Ok(None) };
        let typed = self.kind.typed(self.name, &OptionValue::Text(text.to_owned()));
        typed.map(Some).map_err(|(message, _)| {
            format!("the default of `{}` is invalid; this is a bug: {message}", self.name)
        })
    }

    /// The default as a text for people.
    #[must_use]
    pub fn default_text(&self) -> &'static str {
        match self.default {
            OptionDefault::Required => "required",
            OptionDefault::Value(text) | OptionDefault::Nothing(text) => text,
        }
    }
}
