//! `connector = 'http'`: rows are posted, in line protocol or as JSON.

use std::sync::Arc;
use std::time::Duration;

use tidemill_connect::http::{HttpSettings, HttpSource};
use tidemill_engine::Source;

use super::client_limits::{BYTES_PER_SECOND, CONNECTIONS_PER_CLIENT, ROWS_PER_SECOND, quotas};
use super::socket::{ALLOW_REMOTE, INSECURE, TOKEN_FILE, check_door, token_or_file, without_scheme};
use super::tls::{TLS, TLS_CA, TLS_CERT, TLS_KEY, tls_server};
use crate::connectors::formats::Formats;
use crate::connectors::source_connector::{DefinedSource, Liveness, SourceConnector, SourceRequest};
use crate::relations::source_definition::OpenSource;
use crate::statement::declared::{OptionDefault, OptionDefinition, OptionError, OptionKind};

const OPTIONS: &[OptionDefinition] = &[
    OptionDefinition::new("listen", OptionKind::Text, OptionDefault::Required, "`'127.0.0.1:8086'`"),
    ALLOW_REMOTE,
    INSECURE,
    OptionDefinition::new(
        "token",
        OptionKind::Text,
        OptionDefault::Nothing("none"),
        "clients must send it as `Authorization: Token ...`",
    ),
    TOKEN_FILE,
    OptionDefinition::new(
        "connections_max",
        OptionKind::Integer { least: 1, most: 65_536 },
        OptionDefault::Value("1024"),
        "the number of connections at a time; a further one takes the place of the one that has kept the server \
         waiting for the longest, or waits",
    ),
    CONNECTIONS_PER_CLIENT,
    ROWS_PER_SECOND,
    BYTES_PER_SECOND,
    OptionDefinition::new(
        "body_max",
        OptionKind::Bytes,
        OptionDefault::Value("16 MB"),
        "the largest body of a request, even after decompression",
    ),
    OptionDefinition::new(
        "lines_max",
        OptionKind::Integer { least: 1, most: 100_000_000 },
        OptionDefault::Value("100000"),
        "the maximum number of lines of a request",
    ),
    OptionDefinition::new(
        "queue",
        OptionKind::Bytes,
        OptionDefault::Value("64 MB"),
        "the size of the queue of bodies that wait for the query; when it is full, requests are answered with \
         503",
    ),
    OptionDefinition::new(
        "answer_timeout",
        OptionKind::Duration,
        OptionDefault::Value("60 s"),
        "how long a request may wait until its rows are safe",
    ),
    TLS,
    TLS_CERT,
    TLS_KEY,
    TLS_CA,
];

/// A source to which clients post. The requests of a durable source are answered when their rows are in its journal.
pub(super) struct HttpRows;

impl SourceConnector for HttpRows {
    fn doc(&self) -> &str {
        "rows that clients post over HTTP, as to InfluxDB"
    }

    fn options(&self) -> &[OptionDefinition] {
        OPTIONS
    }

    fn formats(&self) -> Formats {
        Formats {
            names: &["line_protocol", "json"],
            default: OptionDefault::Nothing("both"),
            without_options: &[],
        }
    }

    fn define(&self, request: &SourceRequest<'_>) -> Result<DefinedSource, OptionError> {
        let columns = request.declared_columns("HTTP")?;
        let (options, format) = (request.options, request.format);
        let listen = options.required_text("listen");
        if listen.starts_with("https://") && !options.boolean("tls") {
            let message = "HTTPS needs a certificate; add tls = true, tls_cert = 'server.pem' and \
                tls_key = 'server.key'";
            return Err(OptionError::new("listen", message));
        }
        let address = without_scheme(&without_scheme(listen, "https"), "http");
        let mut settings = HttpSettings::new(&address, format.decoder_settings(&columns));
        settings.formats = format.format.clone().map_or(settings.formats, |format| vec![format]);
        settings.line_protocol = format.line_protocol.clone();
        format.check(&settings.formats, &columns)?;
        settings.acknowledge = request.is_durable;
        settings.allow_remote = options.boolean("allow_remote");
        settings.tls = tls_server(options)?;
        (settings.token, settings.token_file) = token_or_file(options)?;
        settings.source = request.name.to_owned();
        settings.insecure = options.boolean("insecure");
        check_door(options, (true, settings.token.is_some() || settings.token_file.is_some()))?;
        let size = |name: &str, usual: usize| options.bytes(name).map_or(usual, |bytes| bytes as usize);
        options.set_integer("connections_max", &mut settings.connections_max);
        options.set_integer("connections_per_client", &mut settings.connections_per_client);
        settings.quotas = quotas(options);
        settings.body_bytes_max = size("body_max", settings.body_bytes_max);
        options.set_integer("lines_max", &mut settings.lines_max);
        settings.queue_bytes = size("queue", settings.queue_bytes);
        let limit = options.duration("answer_timeout").unwrap_or(settings.answer_timeout);
        settings.answer_timeout = limit.max(Duration::from_nanos(1));
        let open: Arc<OpenSource> = Arc::new(move |columns| {
            let mut source = HttpSource::listen(settings.clone())?;
            if let Some(columns) = columns {
                source.set_projection(columns)?;
            }
            Ok(Box::new(source) as Box<dyn Source>)
        });
        let (is_finite, is_repeatable, liveness) = (false, false, Liveness::Live);
        Ok(DefinedSource { is_finite, is_repeatable, liveness, ..DefinedSource::new(columns, open) })
    }
}
