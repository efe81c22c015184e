//! `connector = 'command', command = '...'`: a program reads the rows.

use std::sync::Arc;

use tidemill_connect::command::{CommandSink, CommandSinkSettings};

use super::dead_letters::{DEAD_LETTERS, sifted};
use super::socket_sinks::MESSAGES;
use crate::connectors::formats::Formats;
use crate::connectors::sink_connector::{OpenSink, SinkConnector, SinkRequest};
use crate::statement::declared::{OptionDefault, OptionDefinition, OptionError, OptionKind};

const OPTIONS: &[OptionDefinition] = &[
    OptionDefinition::new(
        "command",
        OptionKind::Text,
        OptionDefault::Required,
        "a command of the shell, which reads the rows of a cycle from its standard input and ends with status 0; it \
         has the rights of this process",
    ),
    OptionDefinition::new(
        "timeout",
        OptionKind::Duration,
        OptionDefault::Value("60 s"),
        "how long it may run before it is killed and started again",
    ),
    OptionDefinition::new(
        "retry_for",
        OptionKind::Duration,
        OptionDefault::Value("10 minutes"),
        "how long to start it again after it failed",
    ),
    DEAD_LETTERS,
];

/// Rows to a program.
pub(super) struct CommandInput;

impl SinkConnector for CommandInput {
    fn doc(&self) -> &str {
        "a program that is started for each cycle with rows, and reads them"
    }

    fn options(&self) -> &[OptionDefinition] {
        OPTIONS
    }

    fn formats(&self) -> Formats {
        MESSAGES
    }

    fn define(&self, request: &SinkRequest<'_>) -> Result<Arc<OpenSink>, OptionError> {
        let options = request.options;
        let mut settings = CommandSinkSettings::new(options.required_text("command"), "");
        settings.format = request.format.text();
        settings.timeout = options.duration("timeout").unwrap_or(settings.timeout);
        settings.retry_for = options.duration("retry_for").unwrap_or(settings.retry_for);
        sifted(
            request,
            Arc::new(move |of| {
                let mut settings = settings.clone();
                (settings.sink, settings.identity) = (of.name.to_owned(), of.identity);
                Ok(Box::new(CommandSink::new(of.schema, settings)?))
            }),
        )
    }
}
