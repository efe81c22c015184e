//! `connector = 'tcp'`, `'unix'`: rows as text to readers.

use std::path::PathBuf;
use std::sync::Arc;

use tidemill_connect::socket::{
    SocketAddress, SocketClientSettings, SocketClientSink, SocketServerSettings, SocketServerSink,
};

use super::dead_letters::{DEAD_LETTERS, sifted};
use super::socket::{ALLOW_REMOTE, INSECURE, check_door};
use super::tls::{TLS, TLS_CA, TLS_CERT, TLS_KEY, tls_client, tls_server};
use crate::connectors::formats::Formats;
use crate::connectors::sink_connector::{OpenSink, SinkConnector, SinkRequest};
use crate::statement::declared::{OptionDefault, OptionDefinition, OptionError, OptionKind};

const OPTIONS: &[OptionDefinition] = &[
    OptionDefinition::new(
        "listen",
        OptionKind::Text,
        OptionDefault::Nothing(""),
        "the address or path to listen at; whoever connects receives the rows from then on, and a reader that \
         is too slow is disconnected",
    ),
    OptionDefinition::new(
        "connect",
        OptionKind::Text,
        OptionDefault::Nothing(""),
        "the address or path of a single reader to connect to; it may hold up the query",
    ),
    ALLOW_REMOTE,
    INSECURE,
    OptionDefinition::new(
        "readers_max",
        OptionKind::Integer { least: 1, most: 65_536 },
        OptionDefault::Value("64"),
        "the number of readers at a time",
    )
    .only_with("listen"),
    OptionDefinition::new(
        "buffer",
        OptionKind::Bytes,
        OptionDefault::Value("8 MB"),
        "the amount of text that may wait for each reader",
    )
    .only_with("listen"),
    OptionDefinition::new(
        "first_reader_wait",
        OptionKind::Duration,
        OptionDefault::Value("0 s"),
        "how long the first commit waits for a reader",
    )
    .only_with("listen"),
    OptionDefinition::new(
        "connect_wait",
        OptionKind::Duration,
        OptionDefault::Value("30 s"),
        "how long to wait for the reader, also after the connection broke",
    )
    .only_with("connect"),
    OptionDefinition::new(
        "linger",
        OptionKind::Duration,
        OptionDefault::Value("5 s"),
        "how long readers may take to receive the rest at the end",
    ),
    TLS,
    TLS_CERT,
    TLS_KEY,
    TLS_CA,
    DEAD_LETTERS,
];

/// Rows to readers over TCP.
pub(super) struct TcpReaders;

impl SinkConnector for TcpReaders {
    fn doc(&self) -> &str {
        "text over TCP, to many readers or one"
    }

    fn options(&self) -> &[OptionDefinition] {
        OPTIONS
    }

    fn formats(&self) -> Formats {
        MESSAGES
    }

    fn define(&self, request: &SinkRequest<'_>) -> Result<Arc<OpenSink>, OptionError> {
        socket(request, |text| SocketAddress::Tcp(text.to_owned()))
    }
}

/// Rows to readers over a socket in the file system.
pub(super) struct UnixReaders;

impl SinkConnector for UnixReaders {
    fn doc(&self) -> &str {
        "text over a Unix socket, to many readers or one"
    }

    fn options(&self) -> &[OptionDefinition] {
        OPTIONS
    }

    fn formats(&self) -> Formats {
        MESSAGES
    }

    fn define(&self, request: &SinkRequest<'_>) -> Result<Arc<OpenSink>, OptionError> {
        if request.options.boolean("tls") {
            return Err(OptionError::new(
                "tls",
                "a Unix socket does not leave this machine; use the connector tcp",
            ));
        }
        socket(request, |text| SocketAddress::Unix(PathBuf::from(text)))
    }
}

/// What programs on the other side can read.
pub(super) const MESSAGES: Formats =
    Formats { names: &["json", "csv"], default: OptionDefault::Value("json"), without_options: &[] };

fn socket(
    request: &SinkRequest<'_>,
    address: fn(&str) -> SocketAddress,
) -> Result<Arc<OpenSink>, OptionError> {
    let options = request.options;
    let format = request.format.text();
    let allow_remote = options.boolean("allow_remote");
    check_door(options, (false, false))?;
    let open: Arc<OpenSink> = match (options.text("listen"), options.text("connect")) {
        (Some(listen), None) => {
            let address = address(listen);
            let mut settings = SocketServerSettings::new(format);
            settings.allow_remote = allow_remote;
            options.set_integer("readers_max", &mut settings.readers_max);
            settings.buffer_bytes =
                options.bytes("buffer").map_or(settings.buffer_bytes, |bytes| bytes as usize);
            settings.first_reader_wait = options.duration("first_reader_wait").unwrap_or_default();
            settings.linger = options.duration("linger").unwrap_or(settings.linger);
            settings.tls = tls_server(options)?;
            Arc::new(move |of| Ok(Box::new(SocketServerSink::listen(&address, of.schema, &settings)?)))
        }
        (None, Some(connect)) => {
            let address = address(connect);
            let mut settings = SocketClientSettings::new(format);
            settings.allow_remote = allow_remote;
            settings.connect_wait = options.duration("connect_wait").unwrap_or(settings.connect_wait);
            settings.linger = options.duration("linger").unwrap_or(settings.linger);
            settings.tls = tls_client(options)?;
            Arc::new(move |of| Ok(Box::new(SocketClientSink::open(&address, of.schema, &settings)?)))
        }
        _ => {
            return Err(OptionError::new(
                "listen",
                "choose either an address to listen at or one to connect to",
            ));
        }
    };
    sifted(request, open)
}
