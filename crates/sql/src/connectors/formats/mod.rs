//! Formats by name: which there are, their options, and what a connector gets of them.

mod built_in;
mod chosen;
mod input;
mod output;
mod own_format;

pub(crate) use built_in::{BUILT_IN, TIMESTAMP_UNIT};
pub(crate) use chosen::{Chosen, choose_input, choose_output};
pub use input::InputFormat;
pub use output::OutputFormat;
pub(crate) use own_format::OwnFormats;
pub use own_format::RowFormat;

use crate::statement::declared::{OptionDefault, OptionDefinition, OptionKind};

/// The formats that a connector takes. Formats that a program has registered are taken wherever there are any.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Formats {
    /// The names of built-in formats.
    pub names: &'static [&'static str],
    /// What holds if the option `format` is not given.
    pub default: OptionDefault,
    /// Those of the formats that are taken with their usual options only.
    pub without_options: &'static [&'static str],
}

impl Formats {
    /// None: there is no option `format`.
    pub const NONE: Formats =
        Formats { names: &[], default: OptionDefault::Nothing(""), without_options: &[] };

    /// Lines of text, in a format that must be named.
    pub const TEXT: Formats = Formats {
        names: &["csv", "json", "lines", "line_protocol"],
        default: OptionDefault::Required,
        without_options: &[],
    };

    /// Whether the connector has no formats.
    #[must_use]
    pub fn is_none(&self) -> bool {
        self.names.is_empty()
    }

    /// The option `format`.
    pub(crate) fn option(&self) -> OptionDefinition {
        let default = match self.default {
            // The names that are missing are worth their own message.
            OptionDefault::Required => OptionDefault::Nothing("required"),
            default => default,
        };
        OptionDefinition::new("format", OptionKind::Text, default, "how the rows are written")
    }
}
