//! Sockets: rows of text that other programs send while the query runs, over TCP ([`tcp`]) or a Unix socket
//! ([`unix`]). Both can listen for many senders, or connect to one server and read from it.
//!
//! Each connection is read and decoded on a thread of its own. Decoded rows wait in one short queue. While the query
//! does not take them, the threads wait, the sockets are not read, and the operating system holds back the senders. UDP
//! ([`udp`]) has no way to do so: what does not fit is dropped and counted. Rows of one connection stay in order; those
//! of several mix as they come. Nothing is acknowledged, and data in transit when either side ends is lost, so a stream
//! from a socket is volatile.

mod client;
mod connection;
mod intake;
mod listening;
mod room;
mod socket_source;
mod stamping;
pub mod tcp;
pub mod udp;
pub mod unix;

use std::time::Duration;

use tidemill_core::error::Cause;

use socket_source::{Peers, SocketSource};
use stamping::Stamping;
pub use tcp::TcpLines;
pub use udp::{UdpLines, UdpSettings};
pub use unix::UnixLines;

use crate::formats::line_protocol::{LineProtocolDecoder, LineProtocolSettings};
use crate::formats::{DecoderSettings, Format, RecordDecoder, text_decoder};

/// The usual size of a TCP connection's buffer.
const RECEIVE_BYTES: usize = 128 * 1024;

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
    /// When listening: the most connections at a time; a further one is closed at once and counted as a fault. Each
    /// takes a thread, a buffer of 32 to 128 KiB, the results of two reads, and the record that is not yet complete.
    pub connections_max: usize,
    /// A connection that sends nothing for this long is closed; `None`: never.
    pub idle_timeout: Option<Duration>,
    /// When connecting: how many attempts may fail in a row before the query stops.
    pub attempts_max: u32,
    /// Whether the source ends when its last connection has closed (and there was one), instead of waiting
    /// for the next.
    pub end_with_last_connection: bool,
    /// TCP: the size of the system's buffer for a connection, whose content is lost if the process dies. A larger
    /// buffer allows more data in transit, which a fast sender far away needs.
    pub receive_bytes: usize,
}

impl SocketSettings {
    /// The defaults: at most 256 connections without an idle timeout, 10 attempts to connect, no end, buffers of 128
    /// KiB.
    pub fn new(format: Format, decoder: DecoderSettings) -> Self {
        SocketSettings {
            format,
            decoder,
            line_protocol: LineProtocolSettings::default(),
            connections_max: 256,
            idle_timeout: None,
            attempts_max: 10,
            end_with_last_connection: false,
            receive_bytes: RECEIVE_BYTES,
        }
    }

    /// Adds times to points without one; other formats have no such points.
    fn stamping(&self) -> Option<Stamping> {
        (self.format == Format::LineProtocol).then(|| Stamping::new(&self.line_protocol.time_column))
    }

    fn check(&self) -> Result<(), Cause> {
        if self.connections_max == 0 {
            return Err(Cause::user("connections_max = 0: take at least 1"));
        }
        if self.attempts_max == 0 {
            return Err(Cause::user("attempts_max = 0: take at least 1"));
        }
        if !(4096..=64 << 20).contains(&self.receive_bytes) {
            return Err(Cause::user(format!(
                "a receive buffer of {} bytes: take 4 KiB to 64 MiB",
                self.receive_bytes
            )));
        }
        if self.idle_timeout == Some(Duration::ZERO) {
            return Err(Cause::user("idle timeout = 0: take a longer time, or none"));
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
        Ok(decoder)
    }
}
