//! The values of what was declared, whether they were given as options or as arguments.

use std::time::Duration;

use super::kind::TypedValue;

/// Checked values by name, with the defaults of those that are not given.
///
/// The methods that return values panic if no value of that name and kind is declared, since that is a mistake in the
/// connector or generator, which its first use reveals.
#[derive(Clone, Debug)]
pub struct DeclaredValues {
    values: Vec<(&'static str, Option<TypedValue>)>,
}

impl DeclaredValues {
    pub(crate) fn new(values: Vec<(&'static str, Option<TypedValue>)>) -> DeclaredValues {
        DeclaredValues { values }
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
        self.text(name).unwrap_or_else(|| panic!("the option '{name}' is optional, but has no default"))
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

    /// A duration. `None` also where a word is in its place.
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
