//! `connector = 'generator', function = 'yahoo_events', rate = 1000`: what is called in FROM, as a source.

use crate::connectors::source_connector::{DefinedSource, SourceConnector, SourceRequest};
use crate::statement::declared::{OptionDefault, OptionDefinition, OptionError, OptionKind};

const OPTIONS: &[OptionDefinition] = &[OptionDefinition::new(
    "function",
    OptionKind::Text,
    OptionDefault::Required,
    "the generator; its arguments are given as further options",
)];

/// Stands in the table for the generators, whose arguments are the options.
pub(super) struct ByFunction;

impl SourceConnector for ByFunction {
    fn doc(&self) -> &str {
        "rows that a generator invents"
    }

    fn options(&self) -> &[OptionDefinition] {
        OPTIONS
    }

    fn define(&self, _: &SourceRequest<'_>) -> Result<DefinedSource, OptionError> {
        Err(OptionError::new("function", "the generator was not called, which is a bug"))
    }
}
