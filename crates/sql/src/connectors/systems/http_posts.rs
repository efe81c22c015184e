//! `connector = 'http', url = 'https://...'`: rows are posted, as to a webhook.

use std::sync::Arc;

use tidemill_connect::dead_letter::DeadLetterFile;
use tidemill_connect::http::{HttpSink, HttpSinkSettings, PostBody};

use super::dead_letters::{self, DEAD_LETTERS};
use super::socket::ALLOW_REMOTE;
use super::tls::{TLS_CA, TLS_CERT, TLS_KEY, tls_client_settings};
use crate::connectors::sink_connector::{OpenSink, SinkConnector, SinkRequest};
use crate::statement::declared::{OptionDefault, OptionDefinition, OptionError, OptionKind};

const OPTIONS: &[OptionDefinition] = &[
    OptionDefinition::new(
        "url",
        OptionKind::Text,
        OptionDefault::Required,
        "`'https://host/path'` or `'http://host:port/path'`; messages show it without its path",
    ),
    OptionDefinition::new(
        "body",
        OptionKind::Choice(&["lines", "array", "row"]),
        OptionDefault::Value("lines"),
        "what a request holds: JSON lines, a JSON array, or a single row as an object",
    ),
    OptionDefinition::new(
        "rows_max",
        OptionKind::Integer { least: 1, most: 100_000 },
        OptionDefault::Value("1000"),
        "the most rows of a request; a cycle with more becomes several",
    ),
    OptionDefinition::new(
        "headers",
        OptionKind::Text,
        OptionDefault::Nothing("none"),
        "headers of each request, one per line: `'Authorization: Bearer ${TOKEN}'`",
    ),
    OptionDefinition::new(
        "timeout",
        OptionKind::Duration,
        OptionDefault::Value("30 s"),
        "how long a request may take before it is sent again",
    ),
    OptionDefinition::new(
        "retry_for",
        OptionKind::Duration,
        OptionDefault::Value("10 minutes"),
        "how long to retry a request that is not answered, or answered with 408, 429 or 5xx",
    ),
    ALLOW_REMOTE,
    OptionDefinition { only_with: None, ..TLS_CA },
    OptionDefinition { only_with: None, ..TLS_CERT },
    OptionDefinition { only_with: None, ..TLS_KEY },
    DEAD_LETTERS,
];

/// Rows to a receiver of requests.
pub(super) struct HttpPosts;

impl SinkConnector for HttpPosts {
    fn doc(&self) -> &str {
        "rows that are posted as JSON, as to a webhook"
    }

    fn options(&self) -> &[OptionDefinition] {
        OPTIONS
    }

    fn define(&self, request: &SinkRequest<'_>) -> Result<Arc<OpenSink>, OptionError> {
        let options = request.options;
        let mut settings = HttpSinkSettings::new(options.required_text("url"), "");
        settings.body = match options.required_text("body") {
            "array" => PostBody::Array,
            "row" => PostBody::Row,
            _ => PostBody::Lines,
        };
        options.set_integer("rows_max", &mut settings.rows_max);
        settings.headers = headers(options.text("headers").unwrap_or_default())?;
        settings.allow_remote = options.boolean("allow_remote");
        settings.tls = tls_client_settings(options)?;
        settings.timeout = options.duration("timeout").unwrap_or(settings.timeout);
        settings.retry_for = options.duration("retry_for").unwrap_or(settings.retry_for);
        let letters = dead_letters::path(options)?;
        Ok(Arc::new(move |of| {
            let mut settings = settings.clone();
            (settings.sink, settings.identity) = (of.name.to_owned(), of.identity);
            let sink = HttpSink::new(of.schema, settings)?;
            Ok(match &letters {
                Some(path) => {
                    Box::new(sink.with_dead_letters(DeadLetterFile::open(path, of.name, of.resume)?))
                }
                None => Box::new(sink),
            })
        }))
    }
}

/// Headers, one per line. The error does not show the line, which may be secret.
pub(super) fn headers(text: &str) -> Result<Vec<(String, String)>, OptionError> {
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty()).enumerate();
    let header = |(index, line): (usize, &str)| match line.split_once(':') {
        Some((name, value)) => Ok((name.trim().to_owned(), value.trim().to_owned())),
        None => Err(OptionError::new(
            "headers",
            format!("header {} has no colon; write 'Name: value'", index + 1),
        )),
    };
    lines.map(header).collect()
}
