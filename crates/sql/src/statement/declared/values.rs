//! Checked options.

use std::time::Duration;

use super::definition::{OptionDefault, OptionDefinition};
use super::error::OptionError;
use super::kind::TypedValue;
use crate::statement::{OptionValue, Options};
use crate::text_error::TextError;

/// The options of a statement, checked against their declarations, with the defaults of those that are not given.
///
/// The methods that return values panic if no option of that name and kind is declared, since that is a mistake in the
/// connector, which its first use reveals.
#[derive(Clone, Debug)]
pub struct OptionValues<'a> {
    given: &'a Options,
    values: Vec<(&'static str, Option<TypedValue>)>,
}

impl<'a> OptionValues<'a> {
    /// Checks the options that a statement gives: their names, their values, and whether required ones are there.
    ///
    /// # Errors
    /// At the first option that is unknown or has a wrong value, or that is missing.
    pub fn read<'d>(
        given: &'a Options,
        definitions: impl IntoIterator<Item = &'d OptionDefinition>,
    ) -> Result<OptionValues<'a>, TextError> {
        let definitions: Vec<&OptionDefinition> = definitions.into_iter().collect();
        let names: Vec<&str> = definitions.iter().map(|definition| definition.name).collect();
        given.finish(&names)?;
        let values =
            definitions.into_iter().map(|definition| Ok((definition.name, value(given, definition)?)));
        Ok(OptionValues { given, values: values.collect::<Result<_, TextError>>()? })
    }

    /// The options as written.
    #[must_use]
    pub fn given(&self) -> &'a Options {
        self.given
    }

    /// Whether the statement gives this option.
    #[must_use]
    pub fn is_given(&self, name: &str) -> bool {
        self.given.get(name).is_some()
    }

    /// A text, or the word that was chosen.
    ///
    /// # Panics
    /// If it is not declared.
    #[must_use]
    pub fn text(&self, name: &str) -> Option<&str> {
        match self.value(name) {
            Some(TypedValue::Text(text)) => Some(text),
            None | Some(TypedValue::Duration(_)) => None,
            Some(other) => undeclared(name, "text", other),
        }
    }

    /// A text of an option that is required or has a default.
    ///
    /// # Panics
    /// If it is not declared so.
    #[must_use]
    pub fn required_text(&self, name: &str) -> &str {
        self.text(name).unwrap_or_else(|| panic!("the option '{name}' may be missing, and has no default"))
    }

    /// A Boolean; false if it is not given and has no default.
    ///
    /// # Panics
    /// If it is not declared.
    #[must_use]
    pub fn boolean(&self, name: &str) -> bool {
        self.optional_boolean(name).unwrap_or(false)
    }

    /// A Boolean, if it is given or has a default.
    ///
    /// # Panics
    /// If it is not declared.
    #[must_use]
    pub fn optional_boolean(&self, name: &str) -> Option<bool> {
        self.value(name).map(|value| match value {
            TypedValue::Boolean(value) => *value,
            other => undeclared(name, "Boolean", other),
        })
    }

    /// A whole number.
    ///
    /// # Panics
    /// If it is not declared.
    #[must_use]
    pub fn integer(&self, name: &str) -> Option<i64> {
        self.value(name).map(|value| match value {
            TypedValue::Integer(value) => *value,
            other => undeclared(name, "integer", other),
        })
    }

    /// A whole number, as what a setting needs.
    pub(crate) fn set_integer<T: TryFrom<i64>>(&self, name: &str, setting: &mut T) {
        if let Some(value) = self.integer(name).and_then(|value| T::try_from(value).ok()) {
            *setting = value;
        }
    }

    /// A duration. `None` also where a word stands in its place.
    ///
    /// # Panics
    /// If it is not declared.
    #[must_use]
    pub fn duration(&self, name: &str) -> Option<Duration> {
        match self.value(name) {
            Some(TypedValue::Duration(value)) => Some(*value),
            None | Some(TypedValue::Text(_)) => None,
            Some(other) => undeclared(name, "duration", other),
        }
    }

    /// A size in bytes.
    ///
    /// # Panics
    /// If it is not declared.
    #[must_use]
    pub fn bytes(&self, name: &str) -> Option<u64> {
        self.value(name).map(|value| match value {
            TypedValue::Bytes(value) => *value,
            other => undeclared(name, "size", other),
        })
    }

    /// A character.
    ///
    /// # Panics
    /// If it is not declared.
    #[must_use]
    pub fn character(&self, name: &str) -> Option<u8> {
        self.value(name).map(|value| match value {
            TypedValue::Character(value) => *value,
            other => undeclared(name, "character", other),
        })
    }

    /// Names.
    ///
    /// # Panics
    /// If it is not declared.
    #[must_use]
    pub fn names(&self, name: &str) -> Option<&[String]> {
        self.value(name).map(|value| match value {
            TypedValue::Names(names) => names.as_slice(),
            other => undeclared(name, "names", other),
        })
    }

    /// Some of the options as a text, which is equal if they are.
    pub(crate) fn described<'n>(&self, names: impl Iterator<Item = &'n str>) -> String {
        let one = |name| format!("{name} = {:?}", self.value(name));
        names.map(one).collect::<Vec<_>>().join(", ")
    }

    /// An error with its place in the statement.
    pub(crate) fn placed(&self, error: OptionError) -> TextError {
        let name = error.option.as_deref().unwrap_or("connector");
        self.given.error(name, error.message).with_optional_hint(error.hint)
    }

    fn value(&self, name: &str) -> Option<&TypedValue> {
        match self.values.iter().find(|(declared, _)| *declared == name) {
            Some((_, value)) => value.as_ref(),
            None => panic!("the option '{name}' is not declared"),
        }
    }
}

fn undeclared(name: &str, wanted: &str, found: &TypedValue) -> ! {
    panic!("the option '{name}' is read as {wanted}, but holds {found:?}")
}

/// The value of one option; its default if it is not given.
fn value(given: &Options, definition: &OptionDefinition) -> Result<Option<TypedValue>, TextError> {
    let name = definition.name;
    if let Some(entry) = given.get(name) {
        if let Some(other) = definition.only_with.filter(|other| !is_on(given, other)) {
            let error = given.error(name, format!("`{name}` has a meaning only together with `{other}`"));
            return Err(error.with_hint(format!("add {other}, or leave {name} out")));
        }
        let typed = definition.kind.typed(name, &entry.value);
        return typed
            .map(Some)
            .map_err(|(message, hint)| given.error(name, message).with_optional_hint(hint));
    }
    match definition.default {
        OptionDefault::Required => {
            let error = given.error(name, format!("option `{name}` is missing"));
            Err(error.with_hint(format!("add {name} = '...'")))
        }
        OptionDefault::Nothing(_) => Ok(None),
        OptionDefault::Value(text) => {
            let typed = definition.kind.typed(name, &OptionValue::Text(text.to_owned()));
            typed.map(Some).map_err(|(message, _)| {
                given.error(name, format!("the default of `{name}` is wrong, which is a bug: {message}"))
            })
        }
    }
}

/// Whether an option is given and not false.
fn is_on(given: &Options, name: &str) -> bool {
    given.get(name).is_some_and(|entry| !entry.value.boolean(name).is_ok_and(|value| !value))
}
