//! Options that belong together, for people.

use super::definition::{OptionDefault, OptionDefinition};
use super::kind::OptionKind;

/// What options belong to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum OptionOwner {
    /// All sources.
    Sources,
    /// Sources with a journal.
    DurableSources,
    /// A connector for sources.
    Source,
    /// A generator: its arguments in a call, or the further options of the connector `generator`.
    Generator,
    /// A format where it is read.
    Read,
    /// All sinks.
    Sinks,
    /// A connector for sinks.
    Sink,
    /// A format where it is written.
    Written,
    /// `SET`.
    Settings,
}

impl OptionOwner {
    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            OptionOwner::Sources => "sources",
            OptionOwner::DurableSources => "durable sources",
            OptionOwner::Source => "source",
            OptionOwner::Generator => "generator",
            OptionOwner::Read => "format read",
            OptionOwner::Sinks => "sinks",
            OptionOwner::Sink => "sink",
            OptionOwner::Written => "format written",
            OptionOwner::Settings => "settings",
        }
    }
}

/// The options of one connector or format, or of all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OptionGroup {
    /// What they belong to.
    pub owner: OptionOwner,
    /// The name of the connector or format; empty where they belong to all.
    pub name: String,
    /// What that is.
    pub doc: String,
    /// The options.
    pub options: Vec<ListedOption>,
}

/// An option as tables show it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedOption {
    /// Its name.
    pub name: &'static str,
    /// What it holds.
    pub kind: OptionKind,
    /// What holds if it is not given, in Markdown.
    pub default: String,
    /// What it means, in Markdown.
    pub doc: &'static str,
}

impl From<&OptionDefinition> for ListedOption {
    fn from(definition: &OptionDefinition) -> ListedOption {
        let default = match definition.default {
            OptionDefault::Required => "required".to_owned(),
            OptionDefault::Nothing(text) => text.to_owned(),
            OptionDefault::Value(text) if definition.kind.is_bare() => format!("`{text}`"),
            OptionDefault::Value(text) => format!("`'{text}'`"),
        };
        ListedOption { name: definition.name, kind: definition.kind, default, doc: definition.doc }
    }
}
