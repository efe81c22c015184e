//! `dead_letters = 'FILE'` of sinks: where a sink keeps rows that its target refuses.

use std::path::PathBuf;
use std::sync::Arc;

use tidemill_connect::dead_letter::{DeadLetterFile, DeadLetterSink};

use crate::connectors::sink_connector::{OpenSink, SinkRequest};
use crate::statement::declared::{OptionDefault, OptionDefinition, OptionError, OptionKind, OptionValues};

pub(super) const DEAD_LETTERS: OptionDefinition = OptionDefinition::new(
    "dead_letters",
    OptionKind::Text,
    OptionDefault::Nothing("none: such a row stops the query"),
    "a file for rows that are refused",
);

/// The file, if there is one.
pub(super) fn path(options: &OptionValues<'_>) -> Result<Option<PathBuf>, OptionError> {
    match options.text("dead_letters") {
        Some("") => Err(OptionError::new("dead_letters", "'dead_letters' must be the path of a file")),
        path => Ok(path.map(PathBuf::from)),
    }
}

/// A sink of text, which refuses rows that have none.
pub(super) fn sifted(request: &SinkRequest<'_>, sink: Arc<OpenSink>) -> Result<Arc<OpenSink>, OptionError> {
    let path = path(request.options)?;
    Ok(Arc::new(move |of| {
        let open = |path: &PathBuf| DeadLetterFile::open(path, of.name, of.resume);
        let letters = path.as_ref().map(open).transpose()?;
        Ok(Box::new(DeadLetterSink::new(sink(of)?, of.schema, letters)))
    }))
}

/// The same for a sink of files, some of whose formats can hold every value.
pub(super) fn sifted_if_text(
    request: &SinkRequest<'_>,
    is_text: bool,
    sink: Arc<OpenSink>,
) -> Result<Arc<OpenSink>, OptionError> {
    match (is_text, path(request.options)?) {
        (true, _) => sifted(request, sink),
        (false, None) => Ok(sink),
        (false, Some(_)) => {
            let message = "'dead_letters' has no effect here, because this format can represent every value; \
                remove it";
            Err(OptionError::new("dead_letters", message))
        }
    }
}
