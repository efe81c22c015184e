//! `connector = 'tcp'`, `'unix'`, `'udp'`: lines of text received over sockets.

use std::sync::Arc;
use std::time::Duration;

use datafusion::arrow::datatypes::SchemaRef;
use tidemill_connect::formats::line_protocol::LineProtocolSettings;
use tidemill_connect::formats::{BATCH_ROWS, DecoderSettings, Format};
use tidemill_connect::socket::{SocketSettings, TcpLines, UdpLines, UdpSettings, UnixLines};
use tidemill_engine::Source;

use super::line_protocol;
use super::sources::{Opened, csv, declared_or, known, text_format};
use crate::definition::Open;
use crate::statement::Options;
use crate::text_error::TextError;

const STREAM: &[&str] = &[
    "listen",
    "connect",
    "allow_remote",
    "connections_max",
    "idle_timeout",
    "end_with_last_connection",
    "attempts_max",
    "receive_buffer",
];
const DATAGRAM: &[&str] = &["listen", "allow_remote"];

/// Where to listen, or which server to connect to.
struct Ends {
    listen: Option<String>,
    connect: Option<String>,
}

/// Lines over TCP.
pub(super) fn tcp(options: &Options, declared: Option<SchemaRef>) -> Result<Opened, TextError> {
    let (raw, settings, ends) = stream(options, declared, "tcp")?;
    let allow_remote = options.boolean("allow_remote")?.unwrap_or(false);
    let is_finite = settings.end_with_last_connection;
    let open: Arc<Open> = Arc::new(move |columns| {
        let mut source = match (&ends.listen, &ends.connect) {
            (Some(address), _) => TcpLines::listen(address, allow_remote, settings.clone())?,
            (None, address) => TcpLines::connect(address.as_deref().unwrap_or_default(), settings.clone())?,
        };
        if let Some(columns) = columns {
            source.set_projection(columns)?;
        }
        Ok(Box::new(source) as Box<dyn Source>)
    });
    Ok(Opened { raw, is_finite, open })
}

/// Lines over a socket in the file system.
pub(super) fn unix(options: &Options, declared: Option<SchemaRef>) -> Result<Opened, TextError> {
    let (raw, settings, ends) = stream(options, declared, "unix")?;
    if options.get("allow_remote").is_some() {
        return Err(options.error("allow_remote", "no other machine can reach a Unix socket"));
    }
    if options.get("receive_buffer").is_some() {
        return Err(options.error("receive_buffer", "a Unix socket has the buffer of its sender"));
    }
    let is_finite = settings.end_with_last_connection;
    let open: Arc<Open> = Arc::new(move |columns| {
        let mut source = match (&ends.listen, &ends.connect) {
            (Some(path), _) => UnixLines::listen(path, settings.clone())?,
            (None, path) => UnixLines::connect(path.as_deref().unwrap_or_default(), settings.clone())?,
        };
        if let Some(columns) = columns {
            source.set_projection(columns)?;
        }
        Ok(Box::new(source) as Box<dyn Source>)
    });
    Ok(Opened { raw, is_finite, open })
}

/// Datagrams of lines.
pub(super) fn udp(options: &Options, declared: Option<SchemaRef>) -> Result<Opened, TextError> {
    known(options, DATAGRAM)?;
    let raw = declared_or(options, declared, "a socket")?;
    let (format, line_protocol) = lines(options)?;
    let mut settings = UdpSettings::new(format, decoder(options, &raw)?);
    settings.line_protocol = line_protocol;
    let address = without_scheme(options.required_text("listen")?, "udp");
    let allow_remote = options.boolean("allow_remote")?.unwrap_or(false);
    let open: Arc<Open> = Arc::new(move |columns| {
        let mut source = UdpLines::listen(&address, allow_remote, settings.clone())?;
        if let Some(columns) = columns {
            source.set_projection(columns)?;
        }
        Ok(Box::new(source) as Box<dyn Source>)
    });
    Ok(Opened { raw, is_finite: false, open })
}

/// Shared by TCP and Unix sockets.
fn stream(
    options: &Options,
    declared: Option<SchemaRef>,
    scheme: &str,
) -> Result<(SchemaRef, SocketSettings, Ends), TextError> {
    known(options, STREAM)?;
    let raw = declared_or(options, declared, "a socket")?;
    let (format, line_protocol) = lines(options)?;
    let mut settings = SocketSettings::new(format, decoder(options, &raw)?);
    settings.line_protocol = line_protocol;
    if let Some(most) = options.integer("connections_max", 1..=65_536)? {
        settings.connections_max = most as usize;
    }
    if let Some(limit) = options.duration("idle_timeout")? {
        settings.idle_timeout = Some(limit.max(Duration::from_nanos(1)));
    }
    if let Some(most) = options.integer("attempts_max", 1..=i64::from(u32::MAX))? {
        settings.attempts_max = most as u32;
    }
    if let Some(bytes) = options.bytes("receive_buffer")? {
        settings.receive_bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
    }
    settings.end_with_last_connection = options.boolean("end_with_last_connection")?.unwrap_or(false);
    Ok((raw, settings, ends(options, scheme)?))
}

/// The format of the lines; the connector line_protocol implies it.
fn lines(options: &Options) -> Result<(Format, LineProtocolSettings), TextError> {
    let format = match options.text("connector")? {
        Some("line_protocol") => Format::LineProtocol,
        _ => text_format(options)?,
    };
    match format {
        Format::LineProtocol => Ok((format, line_protocol::settings(options)?)),
        _ => line_protocol::refuse_options(options).map(|()| (format, LineProtocolSettings::default())),
    }
}

fn decoder(options: &Options, raw: &SchemaRef) -> Result<DecoderSettings, TextError> {
    Ok(DecoderSettings { schema: Arc::clone(raw), csv: csv(options)?, batch_rows: BATCH_ROWS })
}

fn ends(options: &Options, scheme: &str) -> Result<Ends, TextError> {
    let address = |name| options.text(name).map(|text| text.map(|text| without_scheme(text, scheme)));
    let (listen, connect) = (address("listen")?, address("connect")?);
    match listen.is_some() ^ connect.is_some() {
        true => Ok(Ends { listen, connect }),
        false => Err(options
            .error("listen", "say either where to listen or whom to connect to: listen = '127.0.0.1:9000'")),
    }
}

/// An address without the scheme that names its protocol.
pub(super) fn without_scheme(address: &str, scheme: &str) -> String {
    address.strip_prefix(scheme).and_then(|rest| rest.strip_prefix("://")).unwrap_or(address).to_owned()
}
