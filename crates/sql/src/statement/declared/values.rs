//! Checked options.

use std::ops::Deref;

use super::declared_values::DeclaredValues;
use super::definition::{OptionDefault, OptionDefinition};
use super::error::OptionError;
use super::kind::TypedValue;
use crate::statement::Options;
use crate::text::TextError;

/// The options of a statement, checked against their declarations, with the defaults of those that are not given.
/// It dereferences to the values themselves.
#[derive(Clone, Debug)]
pub struct OptionValues<'a> {
    given: &'a Options,
    values: DeclaredValues,
}

impl Deref for OptionValues<'_> {
    type Target = DeclaredValues;

    fn deref(&self) -> &DeclaredValues {
        &self.values
    }
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
        Ok(OptionValues { given, values: DeclaredValues::new(values.collect::<Result<_, TextError>>()?) })
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

    /// An error with its place in the statement.
    pub(crate) fn placed(&self, error: OptionError) -> TextError {
        error.placed_in(self.given)
    }
}

/// The value of one option; its default if it is not given.
fn value(given: &Options, definition: &OptionDefinition) -> Result<Option<TypedValue>, TextError> {
    let name = definition.name;
    if let Some(entry) = given.get(name) {
        if let Some(other) = definition.only_with.filter(|other| !is_on(given, other)) {
            let error = given.error(name, format!("`{name}` is valid only together with `{other}`"));
            return Err(error.with_hint(format!("add {other}, or remove {name}")));
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
        OptionDefault::Value(_) => definition.typed_default().map_err(|message| given.error(name, message)),
    }
}

/// Whether an option is given and not false.
fn is_on(given: &Options, name: &str) -> bool {
    given.get(name).is_some_and(|entry| !entry.value.boolean(name).is_ok_and(|value| !value))
}
