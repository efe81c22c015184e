//! Checks the options of a statement against everything that may stand there: those of all connectors of its direction,
//! the connector's own, and the format's.

use super::formats::{Chosen, Formats};
use crate::statement::Options;
use crate::statement::declared::{OptionDefinition, OptionValues};
use crate::text::TextError;

/// Who knows the options of a statement.
pub(super) struct KnownOptions<'a> {
    /// The connector's name.
    pub connector: &'a str,
    /// What all connectors of this direction have.
    pub common: Vec<&'a OptionDefinition>,
    /// What the connector has.
    pub own: &'a [OptionDefinition],
    /// Its formats.
    pub formats: Formats,
    /// The chosen one.
    pub chosen: &'a Chosen<'a>,
    /// The connectors of this direction that have an option of that name.
    pub others_with: &'a dyn Fn(&str) -> Vec<&'a str>,
}

impl KnownOptions<'_> {
    /// The options, checked.
    ///
    /// # Errors
    /// At the first option that is unknown or has a wrong value.
    pub fn read<'o>(&self, options: &'o Options) -> Result<OptionValues<'o>, TextError> {
        let connector = OptionDefinition::new(
            "connector",
            crate::statement::declared::OptionKind::Text,
            crate::statement::declared::OptionDefault::Nothing("`file` if there is a `path`"),
            "the kind of source or sink",
        );
        let format = (!self.formats.is_none()).then(|| self.formats.option());
        let mut all: Vec<&OptionDefinition> = vec![&connector];
        all.extend(self.own);
        all.extend(&format);
        all.extend(self.chosen.definitions.iter().copied());
        all.extend(self.common.iter().copied());
        self.refuse_those_of_others(options, &all)?;
        OptionValues::read(options, all)
    }

    /// An option that is unknown here, but not elsewhere, was not misspelled: its place is wrong.
    fn refuse_those_of_others(&self, options: &Options, all: &[&OptionDefinition]) -> Result<(), TextError> {
        let is_known = |name: &str| all.iter().any(|definition| definition.name == name);
        let Some(entry) = options.iter().find(|entry| !is_known(entry.name.as_str())) else { return Ok(()) };
        let name = entry.name.as_str();
        let others = (self.others_with)(name);
        let reason = if others.is_empty() {
            match self.chosen.elsewhere(name) {
                Some(reason) => reason,
                None => return Ok(()),
            }
        } else {
            format!("`{name}` is an option of {}", others.join(", "))
        };
        let names: Vec<&str> = all.iter().map(|definition| definition.name).collect();
        let error = options
            .error_at_name(name, format!("the connector {} has no option `{name}` here", self.connector));
        Err(error.with_hint(format!("{reason}; options here are {}", names.join(", "))))
    }
}
