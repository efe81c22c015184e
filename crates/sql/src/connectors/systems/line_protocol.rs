//! `connector = 'line_protocol', listen = 'tcp://127.0.0.1:8094'`: line protocol by whatever `listen` names.

use std::borrow::Cow;

use super::http::HttpRows;
use super::socket_sources::{TcpRows, UdpRows, UnixRows};
use crate::connectors::formats::Formats;
use crate::connectors::source_connector::{DefinedSource, SourceConnector, SourceRequest};
use crate::statement::Options;
use crate::statement::declared::{OptionDefault, OptionDefinition, OptionError, OptionKind};

const OPTIONS: &[OptionDefinition] = &[OptionDefinition::new(
    "listen",
    OptionKind::Text,
    OptionDefault::Required,
    "`'http://...'`, `'tcp://...'`, `'udp://...'` or `'unix://...'`; the other options are those of that connector and \
     of line protocol",
)];

/// Line protocol, read by the connector that `listen` names.
pub(super) struct ByScheme;

/// What it reads, by whatever protocol.
const LINE_PROTOCOL: Formats = Formats {
    names: &["line_protocol"],
    default: OptionDefault::Value("line_protocol"),
    without_options: &[],
};

impl SourceConnector for ByScheme {
    fn doc(&self) -> &str {
        "line protocol over the protocol that `listen` names"
    }

    fn options(&self) -> &[OptionDefinition] {
        OPTIONS
    }

    fn options_given(&self, given: &Options) -> Result<Cow<'_, [OptionDefinition]>, OptionError> {
        if given.get("format").is_some() {
            return Err(OptionError::new("format", "the connector line_protocol implies its format"));
        }
        match given.text("listen") {
            Ok(Some(address)) => Ok(by_scheme(address)?.options().to_vec().into()),
            // It is missing, or not a text; the declaration says so.
            _ => Ok(OPTIONS.into()),
        }
    }

    fn formats(&self) -> Formats {
        LINE_PROTOCOL
    }

    fn define(&self, request: &SourceRequest<'_>) -> Result<DefinedSource, OptionError> {
        by_scheme(request.options.required_text("listen"))?.define(request)
    }
}

/// The connector that reads from such an address.
fn by_scheme(address: &str) -> Result<&'static dyn SourceConnector, OptionError> {
    match address.split_once("://").map(|(scheme, _)| scheme) {
        Some("tcp") => Ok(&TcpRows),
        Some("udp") => Ok(&UdpRows),
        Some("http") => Ok(&HttpRows),
        Some("unix") => Ok(&UnixRows),
        _ => {
            let message = format!("'{address}' does not say by which protocol to listen");
            let hint = "write tcp://, udp://, http:// or unix:// before it: 'tcp://127.0.0.1:8094'";
            Err(OptionError::new("listen", message).with_hint(hint))
        }
    }
}
