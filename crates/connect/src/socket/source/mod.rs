//! Sockets: rows of text that other programs send while the query runs, over TCP ([`tcp`]) or a Unix socket
//! ([`unix`]). Both can listen for many senders, or connect to one server and read from it.
//!
//! Each connection is read on its own thread; a few threads decode for all of them. Decoded rows wait in one queue,
//! whose room in bytes all connections share ([`SocketSettings::queue_bytes`]). While the query does not take them,
//! the threads wait, the sockets are not read, and the operating system holds back the senders. UDP ([`udp`]) has no
//! way to do so: what does not fit is dropped and counted. Rows of one connection stay in order; those of several mix
//! as they come. Nothing is acknowledged, and data in transit when either side ends is lost, so a stream from a
//! socket is volatile.

mod client;
mod client_token;
mod connection;
mod connection_queue;
mod connection_reader;
mod decoding_threads;
mod listening;
mod queue_room;
mod read_permits;
mod row_size;
mod socket_source;
mod stamping;
pub mod tcp;
pub mod udp;
pub mod unix;

use std::path::PathBuf;
use std::time::Duration;

use tidemill_core::error::Cause;

use socket_source::{Peers, SocketSource};
use stamping::Stamping;
pub use tcp::TcpLines;
pub use udp::{UdpLines, UdpSettings};
pub use unix::UnixLines;

use crate::formats::line_protocol::{LineProtocolDecoder, LineProtocolSettings};
use crate::formats::{DecoderSettings, Format, RecordDecoder, text_decoder};
use crate::quotas::Quotas;
use crate::tls::{TlsClientSettings, TlsServerSettings};

/// The usual size of a TCP connection's buffer.
const RECEIVE_BYTES: usize = 128 * 1024;
/// The usual room for what was read and not taken.
const QUEUE_BYTES: usize = 64 << 20;
/// With less, a single sender of records of 1 MiB would wait for ever.
const QUEUE_BYTES_MIN: usize = 4 << 20;

/// How connections are read.
#[derive(Clone, Debug)]
pub struct SocketSettings {
    /// The format of the records, which must be a text format. A CSV with a header has it at the beginning of each
    /// connection.
    pub format: Format,
    /// The columns, and how a CSV is written.
    pub decoder: DecoderSettings,
    /// How line protocol is read; other formats ignore it.
    pub line_protocol: LineProtocolSettings,
    /// When listening: the most connections at a time; for a further one, the idlest is closed, if it has sent nothing for
    /// [`idle_for_another`](SocketSettings::idle_for_another), or nothing ever and is there for a second; otherwise the further one is, and is counted as a fault. Each
    /// takes a thread with a buffer of 64 KiB.
    pub connections_max: usize,
    /// A connection that sends nothing for this long is closed; `None`: never.
    pub idle_timeout: Option<Duration>,
    /// A connection that has sent nothing for this long may be closed in favour of another; see `connections_max`.
    pub idle_for_another: Duration,
    /// When connecting: how many attempts may fail in a row before the query stops.
    pub attempts_max: u32,
    /// Whether the source ends when its last connection has closed (and there was one), instead of waiting
    /// for the next.
    pub end_with_last_connection: bool,
    /// TCP: the size of the system's buffer for a connection, whose content is lost if the process dies. A larger
    /// buffer allows more data in transit, which a fast sender far away needs.
    pub receive_bytes: usize,
    /// TCP, when listening: the certificate that senders are shown, and whose certificates they must show; `None`: no
    /// TLS. A sender that does not speak it is cut off, and counted as a fault.
    pub tls_server: Option<TlsServerSettings>,
    /// TCP, when connecting: whom to trust as the server; `None`: no TLS.
    pub tls_client: Option<TlsClientSettings>,
    /// TCP, when listening: the token that must be the first line of each connection; `None`: none, or those of a file.
    pub token: Option<String>,
    /// TCP, when listening: a file with a name and a token on each line, and the sources to which its owner may write,
    /// in place of a single one. It is read again when it changes; connections whose token is gone are closed.
    pub token_file: Option<PathBuf>,
    /// The source's name, to which tokens of a file may be limited.
    pub source: String,
    /// Whether other machines are let in although they need neither a token nor a certificate.
    pub insecure: bool,
    /// The most bytes that all connections together hold of what they have sent and the query has not taken: rows, and
    /// records whose end has not come. At the limit they are not read. If incomplete records take more than half, the
    /// connection with the longest one is closed.
    pub queue_bytes: usize,
    /// TCP: the most connections of one client, which is an address; a further one is closed and counted as a fault.
    pub connections_per_client: usize,
    /// TCP: what each client may send. Its connections are not read as long as it has used that up.
    pub quotas: Quotas,
}

impl SocketSettings {
    /// The defaults: at most 256 connections without an idle timeout, 10 attempts to connect, no end, buffers of 128
    /// KiB, a queue of 64 MiB.
    pub fn new(format: Format, decoder: DecoderSettings) -> Self {
        SocketSettings {
            format,
            decoder,
            line_protocol: LineProtocolSettings::default(),
            connections_max: 256,
            idle_timeout: None,
            idle_for_another: Duration::from_secs(60),
            attempts_max: 10,
            end_with_last_connection: false,
            receive_bytes: RECEIVE_BYTES,
            tls_server: None,
            tls_client: None,
            token: None,
            token_file: None,
            source: String::new(),
            insecure: false,
            queue_bytes: QUEUE_BYTES,
            connections_per_client: usize::MAX,
            quotas: Quotas::default(),
        }
    }

    /// Adds times to points without one; other formats have no such points.
    fn stamping(&self) -> Option<Stamping> {
        (self.format == Format::LineProtocol).then(|| Stamping::new(&self.line_protocol.time_column))
    }

    fn check(&self) -> Result<(), Cause> {
        if self.connections_max == 0 || self.connections_per_client == 0 {
            return Err(Cause::user("connections_max or connections_per_client = 0: choose at least 1"));
        }
        if self.attempts_max == 0 {
            return Err(Cause::user("attempts_max = 0: choose at least 1"));
        }
        if !(4096..=64 << 20).contains(&self.receive_bytes) {
            return Err(Cause::user(format!(
                "a receive buffer of {} bytes: choose 4 KiB to 64 MiB",
                self.receive_bytes
            )));
        }
        if !(QUEUE_BYTES_MIN..=16 << 30).contains(&self.queue_bytes) {
            return Err(Cause::user(format!(
                "a queue of {} bytes: choose 4 MiB to 16 GiB",
                self.queue_bytes
            )));
        }
        if self.idle_timeout == Some(Duration::ZERO) {
            return Err(Cause::user("idle timeout = 0: choose a longer time, or none"));
        }
        Ok(())
    }
}

/// Creates the decoders of the connections.
#[derive(Clone, Debug)]
struct Decoding {
    format: Format,
    settings: DecoderSettings,
    line_protocol: LineProtocolSettings,
    /// Whether points without a time get one later, where the connections come together.
    leaves_times_open: bool,
    projection: Option<Vec<usize>>,
    keeps_bad_records: bool,
}

impl Decoding {
    fn decoder(&self) -> Result<Box<dyn RecordDecoder>, Cause> {
        let mut decoder: Box<dyn RecordDecoder> = match &self.format {
            Format::LineProtocol => {
                let mut decoder =
                    LineProtocolDecoder::new(self.settings.clone(), self.line_protocol.clone())?;
                if self.leaves_times_open {
                    decoder.leave_times_open();
                }
                Box::new(decoder)
            }
            format => text_decoder(format.clone(), self.settings.clone())?,
        };
        if let Some(columns) = &self.projection {
            decoder.set_projection(columns)?;
        }
        if self.keeps_bad_records {
            decoder.keep_bad_records();
        }
        Ok(decoder)
    }
}
