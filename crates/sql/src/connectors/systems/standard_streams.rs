//! `connector = 'stdin'` and `connector = 'stdout'`.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tidemill_connect::formats::encode::TextFormat;
use tidemill_connect::standard_streams::{StandardInput, StandardOutput, StreamSettings};
use tidemill_engine::{Cause, Source};

use super::dead_letters::{DEAD_LETTERS, sifted};
use crate::connectors::formats::Formats;
use crate::connectors::sink_connector::{OpenSink, SinkConnector, SinkRequest};
use crate::connectors::source_connector::{DefinedSource, Liveness, SourceConnector, SourceRequest};
use crate::relations::source_definition::OpenSource;
use crate::statement::declared::{OptionDefault, OptionDefinition, OptionError};

pub(super) struct StandardInputRows;

impl SourceConnector for StandardInputRows {
    fn doc(&self) -> &str {
        "lines of standard input"
    }

    fn formats(&self) -> Formats {
        Formats { without_options: &["line_protocol"], ..Formats::TEXT }
    }

    fn define(&self, request: &SourceRequest<'_>) -> Result<DefinedSource, OptionError> {
        let columns = request.declared_columns("standard input")?;
        let mut settings = StreamSettings::new(request.format.text()?);
        settings.csv = request.format.csv.clone();
        settings.schema = Some(Arc::clone(&columns));
        let taken = AtomicBool::new(false);
        let open: Arc<OpenSource> = Arc::new(move |columns| {
            if taken.swap(true, Ordering::SeqCst) {
                let text = "standard input was already read by an earlier query and cannot be read twice; run \
                    both queries in one pipeline, or write the input to a file first";
                return Err(Cause::user(text));
            }
            let mut source = StandardInput::open(settings.clone())?;
            if let Some(columns) = columns {
                source.set_projection(columns)?;
            }
            Ok(Box::new(source) as Box<dyn Source>)
        });
        // It ends when its writer closes it, but no one knows whether that will be, and what is at its other end.
        Ok(DefinedSource {
            is_finite: true,
            liveness: Liveness::Unknown,
            ..DefinedSource::new(columns, open)
        })
    }
}

pub(super) struct StandardOutputRows;

impl SinkConnector for StandardOutputRows {
    fn doc(&self) -> &str {
        "standard output"
    }

    fn options(&self) -> &[OptionDefinition] {
        &[DEAD_LETTERS]
    }

    fn formats(&self) -> Formats {
        Formats {
            names: &["table", "csv", "json"],
            default: OptionDefault::Value("table"),
            without_options: &[],
        }
    }

    fn define(&self, request: &SinkRequest<'_>) -> Result<Arc<OpenSink>, OptionError> {
        let format = request.format.text();
        // A table is for people, who can read that a value has no text.
        let is_sifted =
            !matches!(format, TextFormat::Table(_)) || request.options.text("dead_letters").is_some();
        let open: Arc<OpenSink> =
            Arc::new(move |of| Ok(Box::new(StandardOutput::of_process(of.schema, &format)?)));
        if is_sifted { sifted(request, open) } else { Ok(open) }
    }
}
