//! A socket that connects to a reader and sends it rows.

use std::io::{self, ErrorKind, Read, Write};
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use arrow_schema::SchemaRef;
use tidemill_core::{Cause, CycleOutput, Fault, Sink};
use tracing::{info, warn};

use super::address::{SocketAddress, Stream, refuse_table};
use crate::formats::encode::TextFormat;
use crate::pending::PendingText;
use crate::tls::{TlsClientSettings, failure};

/// How rows are sent to a reader that listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SocketClientSettings {
    /// CSV (with the header first on each connection) or NDJSON.
    pub format: TextFormat,
    /// Whether the reader may be on another machine.
    pub allow_remote: bool,
    /// How long to try to connect, initially and after the connection broke, before the query fails.
    pub connect_wait: Duration,
    /// How long the reader has at the end to read everything and close the connection.
    pub linger: Duration,
    /// TCP: whom to trust as the reader; `None`: no TLS.
    pub tls: Option<TlsClientSettings>,
}

impl SocketClientSettings {
    /// A reader on this machine; 30 s to connect, 5 s at the end.
    pub fn new(format: TextFormat) -> Self {
        SocketClientSettings {
            format,
            allow_remote: false,
            connect_wait: Duration::from_secs(30),
            linger: Duration::from_secs(5),
            tls: None,
        }
    }
}

/// Connects to a reader, over TCP or a Unix socket, and sends it rows as lines.
///
/// A commit returns when the operating system has accepted all of its text; a slow reader holds up the query. If the
/// connection breaks, it is re-established, with growing pauses, and the whole range of the commit is sent again: the
/// reader may get lines twice, and an incomplete last line on the old connection. **What may be lost**: text of earlier
/// commits that the operating system had accepted and the reader had not read when the connection broke. A reader that
/// must have every row exactly once should read a file. A reader that closes its own sending side counts as gone; what
/// it sends is ignored. Without TLS, data is not encrypted, so other machines must be explicitly allowed.
///
/// ```
/// use std::io::Read;
/// use tidemill_connect::formats::encode::TextFormat;
/// use tidemill_connect::socket::{SocketAddress, SocketClientSettings, SocketClientSink};
/// use tidemill_core::arrow::schema::{DataType, Field, Schema};
/// use tidemill_core::Sink;
///
/// let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
/// let address = SocketAddress::Tcp(listener.local_addr()?.to_string());
/// let reader = std::thread::spawn(move || {
///     let mut text = String::new();
///     listener.accept()?.0.read_to_string(&mut text).map(|_| text)
/// });
/// let schema = Schema::new(vec![Field::new("vid", DataType::Int64, false)]).into();
/// let settings = SocketClientSettings::new(TextFormat::csv());
/// let mut sink = SocketClientSink::connect(&address, &schema, &settings)?;
/// sink.finish()?;
/// assert_eq!(reader.join().unwrap()?, "vid\n");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct SocketClientSink {
    pending: PendingText,
    connection: Connection,
    /// Why the first attempt to connect failed, as long as the reader has not come.
    away: Option<Cause>,
}

/// What has happened on a connection, and a way to stop waiting for its reader. Cloning is cheap.
#[derive(Clone, Default)]
pub struct SocketClientStatus(Arc<ClientState>);

#[derive(Default)]
struct ClientState {
    is_stopped: AtomicBool,
    connections: AtomicU64,
}

impl SocketClientStatus {
    /// How many connections were made. More than one means that lines may have been duplicated or lost.
    pub fn connections(&self) -> u64 {
        self.0.connections.load(Ordering::Relaxed)
    }

    /// Ends the wait for a reader that does not read or does not exist: the commit then fails within a second.
    pub fn stop(&self) {
        self.0.is_stopped.store(true, Ordering::Release);
    }
}

struct Connection {
    address: SocketAddress,
    settings: SocketClientSettings,
    header: Vec<u8>,
    stream: Option<Stream>,
    status: SocketClientStatus,
}

/// How often a wait checks whether it should stop.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// The pauses between attempts to connect grow from the first value to the second.
const PAUSES: (Duration, Duration) = (Duration::from_millis(10), Duration::from_secs(1));

impl SocketClientSink {
    /// Connects to the reader; waits for it if it does not exist yet.
    ///
    /// # Errors
    /// [`Cause::user`] if the address is invalid or on another machine; [`Cause::operation`] if no one listens there
    /// for [`connect_wait`](SocketClientSettings::connect_wait).
    pub fn connect(
        address: &SocketAddress,
        schema: &SchemaRef,
        settings: &SocketClientSettings,
    ) -> Result<SocketClientSink, Cause> {
        let mut sink = SocketClientSink::unconnected(address, schema, settings)?;
        sink.connection.send(&[])?;
        Ok(sink)
    }

    /// As [`connect`](SocketClientSink::connect), but does not wait for a reader: if there is none, the sink is
    /// [`away`](Sink::away), and waits for it when it [arrives](Sink::arrive).
    ///
    /// # Errors
    /// [`Cause::user`] as for `connect`.
    pub fn open(
        address: &SocketAddress,
        schema: &SchemaRef,
        settings: &SocketClientSettings,
    ) -> Result<SocketClientSink, Cause> {
        let mut sink = SocketClientSink::unconnected(address, schema, settings)?;
        match sink.connection.try_send(&[]) {
            Err(cause) if cause.fault == Fault::Operation => {
                sink.connection.stream = None;
                sink.away = Some(cause);
            }
            connected => connected?,
        }
        Ok(sink)
    }

    fn unconnected(
        address: &SocketAddress,
        schema: &SchemaRef,
        settings: &SocketClientSettings,
    ) -> Result<SocketClientSink, Cause> {
        refuse_table(&settings.format)?;
        address.check(settings.allow_remote)?;
        let pending = PendingText::new(schema, settings.format.encoder(schema)?);
        let connection = Connection {
            address: address.clone(),
            settings: settings.clone(),
            header: pending.header(),
            stream: None,
            status: SocketClientStatus::default(),
        };
        Ok(SocketClientSink { pending, connection, away: None })
    }

    /// What has happened so far, and a way to stop.
    pub fn status(&self) -> SocketClientStatus {
        self.connection.status.clone()
    }
}

impl Sink for SocketClientSink {
    fn prepare(&mut self, output: CycleOutput) -> Result<(), Cause> {
        self.pending.push(output)
    }

    fn commit(&mut self, cycles: RangeInclusive<u64>) -> Result<(), Cause> {
        let connection = &mut self.connection;
        self.pending
            .take(*cycles.end(), |text, _| if text.is_empty() { Ok(()) } else { connection.send(text) })
    }

    fn away(&self) -> Option<Cause> {
        self.away.clone()
    }

    fn arrive(&mut self) -> Result<(), Cause> {
        self.connection.send(&[])?;
        self.away = None;
        Ok(())
    }

    fn stopper(&self) -> Option<Box<dyn Fn() + Send + Sync>> {
        let status = self.status();
        Some(Box::new(move || status.stop()))
    }

    fn finish(&mut self) -> Result<(), Cause> {
        self.connection.finish()
    }
}

impl Connection {
    /// Sends a text on this connection or, if it breaks, completely on the next.
    fn send(&mut self, text: &[u8]) -> Result<(), Cause> {
        if self.stream.as_mut().is_some_and(has_gone) {
            self.stream = None;
        }
        let mut until = None;
        let mut pause = PAUSES.0;
        loop {
            let Err(cause) = self.try_send(text) else { return Ok(()) };
            self.stream = None;
            warn!(reader = %self.address, %cause, retry_in = ?pause, "rows cannot be sent");
            let until = *until.get_or_insert_with(|| Instant::now() + self.settings.connect_wait);
            if cause.fault != Fault::Operation || self.is_stopped() || Instant::now() + pause > until {
                return Err(cause);
            }
            thread::sleep(pause);
            pause = (2 * pause).min(PAUSES.1);
        }
    }

    fn try_send(&mut self, text: &[u8]) -> Result<(), Cause> {
        if self.stream.is_none() {
            let stream = self.connect()?;
            stream.set_timeout(LOOK_EVERY)?;
            let before = self.status.0.connections.fetch_add(1, Ordering::Relaxed);
            info!(reader = %self.address, connections = before + 1, "connected; rows are sent");
            self.stream = Some(stream);
            self.write_header()?;
        }
        self.write_text(text)
    }

    fn connect(&self) -> Result<Stream, Cause> {
        let stream = self.address.connect(self.settings.allow_remote, PAUSES.1)?;
        let Some(tls) = &self.settings.tls else { return Ok(stream) };
        stream.connect_tls(tls.load()?, self.address.server_name()?).map_err(|error| match failure(&error) {
            // It stays so until someone changes something: no need to wait.
            Some(reason) => Cause::user(format!("the reader at '{}': {reason}", self.address)),
            None => Cause::operation(format!("no TLS with the reader at '{}': {error}", self.address)),
        })
    }

    fn write_header(&mut self) -> Result<(), Cause> {
        let header = std::mem::take(&mut self.header);
        let written = self.write_text(&header);
        self.header = header;
        written
    }

    fn write_text(&mut self, mut text: &[u8]) -> Result<(), Cause> {
        let is_stopped = &self.status.0.is_stopped;
        let address = &self.address;
        let Some(stream) = &mut self.stream else { return Ok(()) };
        loop {
            // What is encrypted is not yet sent.
            let written =
                if text.is_empty() { stream.flush().map(|()| None) } else { stream.write(text).map(Some) };
            match written {
                Ok(None) => return Ok(()),
                Ok(Some(0)) => {
                    return Err(Cause::operation(format!("the reader at '{address}' has disconnected")));
                }
                Ok(Some(length)) => text = &text[length..],
                Err(error) if is_wait(&error) && is_stopped.load(Ordering::Acquire) => {
                    return Err(Cause::operation(format!(
                        "the query was stopped while the reader at '{address}' was not reading"
                    )));
                }
                Err(error) if is_wait(&error) => {}
                Err(error) => {
                    let reason = failure(&error).unwrap_or_else(|| error.to_string());
                    return Err(Cause::operation(format!(
                        "the connection to '{address}' was lost: {reason}"
                    ))
                    .with_source(error));
                }
            }
        }
    }

    fn is_stopped(&self) -> bool {
        self.status.0.is_stopped.load(Ordering::Acquire)
    }

    /// Closes the sending side, and waits until the reader closes its own, which means that it has read everything.
    fn finish(&mut self) -> Result<(), Cause> {
        let until = Instant::now() + self.settings.linger;
        let Some(mut stream) = self.stream.take() else { return Ok(()) };
        if stream.end().is_err() {
            return Ok(());
        }
        let mut ignored = [0; 4096];
        while Instant::now() < until && !self.is_stopped() {
            match stream.read(&mut ignored) {
                Ok(0) => break,
                Err(error) if !is_wait(&error) => break,
                Ok(_) | Err(_) => {}
            }
        }
        Ok(())
    }
}

/// Whether the reader has closed the connection; checks without waiting. Without this check, the operating system would
/// accept the first text after the reader has gone, and it would be lost.
fn has_gone(stream: &mut Stream) -> bool {
    if stream.set_nonblocking(true).is_err() {
        return true;
    }
    let mut ignored = [0; 4096];
    let gone = loop {
        match stream.read(&mut ignored) {
            Ok(0) => break true,
            Ok(_) => {}
            Err(error) => break !is_wait(&error),
        }
    };
    stream.set_nonblocking(false).is_err() || gone
}

/// Whether an operation can be continued later.
fn is_wait(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted)
}
