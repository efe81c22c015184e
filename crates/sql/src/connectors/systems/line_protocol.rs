//! `connector = 'line_protocol', listen = 'tcp://127.0.0.1:8094'`: line protocol by whatever `listen` names.

use crate::connectors::source_connector::{DefinedSource, SourceConnector, SourceRequest};
use crate::statement::Options;
use crate::statement::declared::{OptionDefault, OptionDefinition, OptionError, OptionKind};
use crate::text_error::TextError;

const OPTIONS: &[OptionDefinition] = &[OptionDefinition::new(
    "listen",
    OptionKind::Text,
    OptionDefault::Required,
    "`'http://...'`, `'tcp://...'`, `'udp://...'` or `'unix://...'`; the other options are those of that connector and \
     of line protocol",
)];

/// Stands in the table for the connector that `listen` names, which [`connector_of`] finds.
pub(super) struct ByScheme;

impl SourceConnector for ByScheme {
    fn doc(&self) -> &str {
        "line protocol, by the protocol that `listen` names"
    }

    fn options(&self) -> &[OptionDefinition] {
        OPTIONS
    }

    fn define(&self, _: &SourceRequest<'_>) -> Result<DefinedSource, OptionError> {
        Err(OptionError::new("listen", "the protocol was not looked at, which is a bug"))
    }
}

/// The connector that reads line protocol from what `listen` names.
pub(crate) fn connector_of(options: &Options) -> Result<&'static str, TextError> {
    if options.get("format").is_some() {
        return Err(options.error("format", "the connector line_protocol has its format already"));
    }
    let address = options.required_text("listen")?;
    let scheme = address.split_once("://").map(|(scheme, _)| scheme);
    let known = ["tcp", "udp", "http", "unix"].into_iter().find(|known| Some(*known) == scheme);
    known.ok_or_else(|| {
        let error = options.error("listen", format!("'{address}' does not say by which protocol to listen"));
        error.with_hint("write tcp://, udp://, http:// or unix:// before it: 'tcp://127.0.0.1:8094'")
    })
}
