//! `connector = 'journal', path = 'metrics.journal', source = 'm'`: the journal of a durable source as a source, to read
//! the past again, without the rows that were skipped, or to follow another pipeline.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use datafusion::arrow::datatypes::SchemaRef;
use tidemill_connect::journal::{JournalSource, JournalSourceSettings, JournalStart};
use tidemill_engine::{Cause, Source};

use crate::connectors::source_connector::{DefinedSource, Liveness, SourceConnector, SourceRequest};
use crate::relations::source_definition::OpenSource;
use crate::statement::declared::{OptionDefault, OptionDefinition, OptionError, OptionKind};

const OPTIONS: &[OptionDefinition] = &[
    OptionDefinition::new("path", OptionKind::Text, OptionDefault::Required, "the journal's folder"),
    OptionDefinition::new(
        "source",
        OptionKind::Text,
        OptionDefault::Nothing("the name of this source"),
        "the name of the source in the journal",
    ),
    OptionDefinition::new(
        "follow",
        OptionKind::Boolean,
        OptionDefault::Value("false"),
        "reads on as the other pipeline takes rows in, and never ends",
    ),
    OptionDefinition::new(
        "start",
        OptionKind::Choice(&["first", "kept", "latest"]),
        OptionDefault::Value("first"),
        "the first row that was ever taken in, and an error if the journal has removed it; `kept`: the oldest that \
         it still has; `latest`, with `follow`: what is taken in from now on",
    ),
];

pub(super) struct Journal;

impl SourceConnector for Journal {
    fn doc(&self) -> &str {
        "the rows that a durable pipeline has taken in, from the oldest to the newest"
    }

    fn options(&self) -> &[OptionDefinition] {
        OPTIONS
    }

    fn define(&self, request: &SourceRequest<'_>) -> Result<DefinedSource, OptionError> {
        let path = PathBuf::from(request.options.required_text("path"));
        let stream = request.options.text("source").unwrap_or(request.name).to_owned();
        let follows = request.options.boolean("follow");
        let start = match request.options.text("start") {
            Some("kept") => JournalStart::Kept,
            Some("latest") if follows => JournalStart::Latest,
            Some("latest") => {
                let error =
                    OptionError::new("start", "a journal that is not followed has nothing after its end");
                return Err(error.with_hint("add follow = true, or remove start"));
            }
            _ => JournalStart::First,
        };
        let journal = JournalSourceSettings { path, stream, follows, start };
        defined(journal, request.columns.clone()).map_err(|cause| OptionError::new("path", cause.to_string()))
    }
}

/// The journal of a stream in a folder; it must have the declared columns.
pub(crate) fn opened(path: &Path, stream: &str, declared: Option<SchemaRef>) -> Result<DefinedSource, Cause> {
    let (path, stream) = (path.to_owned(), stream.to_owned());
    defined(JournalSourceSettings { path, stream, follows: false, start: JournalStart::First }, declared)
}

fn defined(settings: JournalSourceSettings, declared: Option<SchemaRef>) -> Result<DefinedSource, Cause> {
    let journaled = settings.schema(declared)?;
    let (raw, follows) = (Arc::clone(&journaled), settings.follows);
    let open: Arc<OpenSource> = Arc::new(move |columns| {
        let columns = columns.map_or_else(|| (0..raw.fields().len()).collect(), <[usize]>::to_vec);
        Ok(Box::new(JournalSource::new(settings.clone(), &raw, columns)?) as Box<dyn Source>)
    });
    let liveness = if follows { Liveness::Live } else { Liveness::Stored };
    let replayed = DefinedSource::new(journaled, open);
    Ok(DefinedSource { is_finite: !follows, starts_over: true, liveness, ..replayed })
}
