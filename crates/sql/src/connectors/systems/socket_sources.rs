//! `connector = 'tcp'`, `'unix'`, `'udp'`: lines of text received over sockets.

use std::sync::Arc;
use std::time::Duration;

use datafusion::arrow::datatypes::SchemaRef;
use tidemill_connect::socket::{SocketSettings, TcpLines, UdpLines, UdpSettings, UnixLines};
use tidemill_engine::Source;

use super::client_limits::{BYTES_PER_SECOND, CONNECTIONS_PER_CLIENT, ROWS_PER_SECOND, quotas};
use super::socket::{ALLOW_REMOTE, INSECURE, TOKEN, TOKEN_FILE, check_door, first_lines, without_scheme};
use super::tls::{TLS, TLS_CA, TLS_CERT, TLS_KEY, tls_client, tls_server};
use crate::connectors::formats::Formats;
use crate::connectors::source_connector::{DefinedSource, SourceConnector, SourceRequest};
use crate::relations::source_definition::OpenSource;
use crate::statement::declared::{OptionDefault, OptionDefinition, OptionError, OptionKind};

const LISTEN: OptionDefinition = OptionDefinition::new(
    "listen",
    OptionKind::Text,
    OptionDefault::Nothing(""),
    "the address, such as `'127.0.0.1:7000'`, or path to listen at; whoever connects may send",
);
const CONNECT: OptionDefinition = OptionDefinition::new(
    "connect",
    OptionKind::Text,
    OptionDefault::Nothing(""),
    "the address or path of a single server to read from; a broken connection is re-established, with pauses \
     of up to 10 s",
);
const CONNECTIONS_MAX: OptionDefinition = OptionDefinition::new(
    "connections_max",
    OptionKind::Integer { least: 1, most: 65_536 },
    OptionDefault::Value("256"),
    "the number of connections at a time; a further one takes the place of the idlest, if that has been \
     silent for a minute, or for a second without ever having sent anything; otherwise it is closed and counted",
);
const IDLE_TIMEOUT: OptionDefinition = OptionDefinition::new(
    "idle_timeout",
    OptionKind::Duration,
    OptionDefault::Nothing("never"),
    "closes a connection that has been silent for this long",
);
const END_WITH_LAST_CONNECTION: OptionDefinition = OptionDefinition::new(
    "end_with_last_connection",
    OptionKind::Boolean,
    OptionDefault::Value("false"),
    "the source ends when its last connection has closed",
);
const ATTEMPTS_MAX: OptionDefinition = OptionDefinition::new(
    "attempts_max",
    OptionKind::Integer { least: 1, most: u32::MAX as i64 },
    OptionDefault::Value("10"),
    "`connect`: how many attempts may fail in a row",
);
const RECEIVE_BUFFER: OptionDefinition = OptionDefinition::new(
    "receive_buffer",
    OptionKind::Bytes,
    OptionDefault::Value("128 KB"),
    "how much the operating system buffers for the query from each sender; increase it for fast senders far \
     away (128 KB allows some 2.5 MB/s at a round trip of 50 ms)",
);

const QUEUE: OptionDefinition = OptionDefinition::new(
    "queue",
    OptionKind::Bytes,
    OptionDefault::Value("64 MB"),
    "how much all connections together may hold that the query has not taken: rows, and lines that are not \
     complete; at the limit they are not read, and if incomplete lines take half of it, the longest is closed",
);

const TCP: &[OptionDefinition] = &[
    LISTEN,
    CONNECT,
    ALLOW_REMOTE,
    INSECURE,
    TOKEN,
    TOKEN_FILE,
    CONNECTIONS_MAX,
    CONNECTIONS_PER_CLIENT,
    IDLE_TIMEOUT,
    END_WITH_LAST_CONNECTION,
    ATTEMPTS_MAX,
    QUEUE,
    ROWS_PER_SECOND,
    BYTES_PER_SECOND,
    RECEIVE_BUFFER,
    TLS,
    TLS_CERT,
    TLS_KEY,
    TLS_CA,
];
const UNIX: &[OptionDefinition] =
    &[LISTEN, CONNECT, CONNECTIONS_MAX, IDLE_TIMEOUT, END_WITH_LAST_CONNECTION, ATTEMPTS_MAX, QUEUE];
const UDP: &[OptionDefinition] = &[
    OptionDefinition::new(
        "listen",
        OptionKind::Text,
        OptionDefault::Required,
        "the address to receive at, such as `'127.0.0.1:7000'`; anyone may send",
    ),
    ALLOW_REMOTE,
    INSECURE,
    TOKEN,
    TOKEN_FILE,
];

/// Lines over TCP.
pub(super) struct TcpRows;

impl SourceConnector for TcpRows {
    fn doc(&self) -> &str {
        "lines over TCP, from many senders or one server"
    }

    fn options(&self) -> &[OptionDefinition] {
        TCP
    }

    fn formats(&self) -> Formats {
        Formats::TEXT
    }

    fn define(&self, request: &SourceRequest<'_>) -> Result<DefinedSource, OptionError> {
        let (columns, mut settings, ends) = stream(request, "tcp")?;
        let bytes = request.options.bytes("receive_buffer");
        settings.receive_bytes = bytes.map_or(settings.receive_bytes, |bytes| bytes as usize);
        request.options.set_integer("connections_per_client", &mut settings.connections_per_client);
        settings.quotas = quotas(request.options);
        let allow_remote = request.options.boolean("allow_remote");
        (settings.token, settings.token_file) = first_lines(request.options)?;
        settings.source = request.name.to_owned();
        settings.insecure = request.options.boolean("insecure");
        check_door(request.options, (true, settings.token.is_some() || settings.token_file.is_some()))?;
        match &ends {
            Endpoint::Listen(_) => settings.tls_server = tls_server(request.options)?,
            Endpoint::Connect(_) => settings.tls_client = tls_client(request.options)?,
        }
        let is_finite = settings.end_with_last_connection;
        let open: Arc<OpenSource> = Arc::new(move |columns| {
            let mut source = match &ends {
                Endpoint::Listen(address) => TcpLines::listen(address, allow_remote, settings.clone())?,
                Endpoint::Connect(address) => TcpLines::connect(address, settings.clone())?,
            };
            if let Some(columns) = columns {
                source.set_projection(columns)?;
            }
            Ok(Box::new(source) as Box<dyn Source>)
        });
        Ok(live(columns, is_finite, open))
    }
}

/// Lines over a socket in the file system.
pub(super) struct UnixRows;

impl SourceConnector for UnixRows {
    fn doc(&self) -> &str {
        "lines over a Unix socket, from many senders or one server"
    }

    fn options(&self) -> &[OptionDefinition] {
        UNIX
    }

    fn formats(&self) -> Formats {
        Formats::TEXT
    }

    fn define(&self, request: &SourceRequest<'_>) -> Result<DefinedSource, OptionError> {
        let (columns, settings, ends) = stream(request, "unix")?;
        let is_finite = settings.end_with_last_connection;
        let open: Arc<OpenSource> = Arc::new(move |columns| {
            let mut source = match &ends {
                Endpoint::Listen(path) => UnixLines::listen(path, settings.clone())?,
                Endpoint::Connect(path) => UnixLines::connect(path, settings.clone())?,
            };
            if let Some(columns) = columns {
                source.set_projection(columns)?;
            }
            Ok(Box::new(source) as Box<dyn Source>)
        });
        Ok(live(columns, is_finite, open))
    }
}

/// Datagrams of lines.
pub(super) struct UdpRows;

impl SourceConnector for UdpRows {
    fn doc(&self) -> &str {
        "datagrams of whole lines over UDP"
    }

    fn options(&self) -> &[OptionDefinition] {
        UDP
    }

    fn formats(&self) -> Formats {
        Formats::TEXT
    }

    fn define(&self, request: &SourceRequest<'_>) -> Result<DefinedSource, OptionError> {
        let columns = request.declared_columns("a socket")?;
        let format = request.format;
        let mut settings = UdpSettings::new(format.text()?, format.decoder_settings(&columns));
        settings.line_protocol = format.line_protocol.clone();
        format.check(&[format.text()?], &columns)?;
        let address = without_scheme(request.options.required_text("listen"), "udp");
        let allow_remote = request.options.boolean("allow_remote");
        (settings.token, settings.token_file) = first_lines(request.options)?;
        settings.source = request.name.to_owned();
        settings.insecure = request.options.boolean("insecure");
        check_door(request.options, (true, settings.token.is_some() || settings.token_file.is_some()))?;
        let open: Arc<OpenSource> = Arc::new(move |columns| {
            let mut source = UdpLines::listen(&address, allow_remote, settings.clone())?;
            if let Some(columns) = columns {
                source.set_projection(columns)?;
            }
            Ok(Box::new(source) as Box<dyn Source>)
        });
        Ok(live(columns, false, open))
    }
}

/// Where to listen, or which server to connect to.
enum Endpoint {
    Listen(String),
    Connect(String),
}

/// What TCP and Unix sockets share.
fn stream(
    request: &SourceRequest<'_>,
    scheme: &str,
) -> Result<(SchemaRef, SocketSettings, Endpoint), OptionError> {
    let columns = request.declared_columns("a socket")?;
    let (options, format) = (request.options, request.format);
    let mut settings = SocketSettings::new(format.text()?, format.decoder_settings(&columns));
    settings.line_protocol = format.line_protocol.clone();
    format.check(&[format.text()?], &columns)?;
    options.set_integer("connections_max", &mut settings.connections_max);
    options.set_integer("attempts_max", &mut settings.attempts_max);
    settings.idle_timeout = options.duration("idle_timeout").map(|limit| limit.max(Duration::from_nanos(1)));
    settings.end_with_last_connection = options.boolean("end_with_last_connection");
    settings.queue_bytes = options.bytes("queue").map_or(settings.queue_bytes, |bytes| bytes as usize);
    let address = |name| options.text(name).map(|text| without_scheme(text, scheme));
    let ends = match (address("listen"), address("connect")) {
        (Some(listen), None) => Endpoint::Listen(listen),
        (None, Some(connect)) => Endpoint::Connect(connect),
        _ => {
            let message = "choose either an address to listen at or one to connect to: listen = \
                '127.0.0.1:9000'";
            return Err(OptionError::new("listen", message));
        }
    };
    Ok((columns, settings, ends))
}

fn live(columns: SchemaRef, is_finite: bool, open: Arc<OpenSource>) -> DefinedSource {
    DefinedSource { is_finite, ..DefinedSource::new(columns, open) }
}
