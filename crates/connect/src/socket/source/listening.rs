//! Listens, accepts connections, and reads each on a thread of its own.

use std::collections::BTreeMap;
use std::io;
use std::net::TcpListener;
use std::os::unix::net::UnixListener;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use arrow_schema::SchemaRef;
use tidemill_core::Heard;
use tidemill_core::error::Cause;
use tidemill_core::source::{Faults, Polled};

use super::connection::{Connection, Done, Socket, spawn};
use super::intake::Intake;
use super::room::Room;
use super::{Decoding, SocketSettings};

/// How often it checks for new connections while no rows come.
const ACCEPT_INTERVAL: Duration = Duration::from_millis(10);
/// The most connections that are accepted before checking for rows.
const ACCEPTED_AT_ONCE: usize = 256;
/// How often it checks for connections that have fallen silent.
const SILENCE_INTERVAL: Duration = Duration::from_millis(100);
/// How long to pause after accepting a connection has failed.
const ACCEPT_PAUSE: Duration = Duration::from_secs(1);

/// A listening socket that does not block.
#[derive(Debug)]
pub(super) enum Listener {
    Tcp(TcpListener),
    Unix(UnixListener),
}

impl Listener {
    fn accept(&self) -> io::Result<(Socket, Option<String>)> {
        match self {
            Listener::Tcp(listener) => listener
                .accept()
                .map(|(stream, peer)| (Socket::Tcp(stream), Some(format!("tcp peer {peer}")))),
            Listener::Unix(listener) => listener.accept().map(|(stream, _)| (Socket::Unix(stream), None)),
        }
    }
}

/// An accepted connection and the thread that reads it.
#[derive(Debug)]
struct Reader {
    socket: Socket,
    thread: JoinHandle<()>,
    room: Arc<Room>,
    /// When it became known to be silent.
    silent_since: Option<Instant>,
}

/// A listening socket and its connections.
#[derive(Debug)]
pub(super) struct Listening {
    listener: Listener,
    /// The address or path, for messages.
    place: String,
    settings: SocketSettings,
    intake: Intake,
    readers: BTreeMap<u64, Reader>,
    accepted: u64,
    accept_from: Instant,
    /// A connection over which nothing has come for this long counts as silent.
    silent_after: Option<Duration>,
    silence_looked_for: Instant,
}

impl Listening {
    pub(super) fn new(listener: Listener, place: String, settings: SocketSettings) -> Listening {
        Listening {
            listener,
            place,
            intake: Intake::new(settings.stamping()),
            settings,
            readers: BTreeMap::new(),
            accepted: 0,
            accept_from: Instant::now(),
            silent_after: None,
            silence_looked_for: Instant::now(),
        }
    }

    pub(super) fn poll(
        &mut self,
        decoding: &Decoding,
        schema: &SchemaRef,
        wait: Duration,
    ) -> Result<Polled, Cause> {
        let until = Instant::now() + wait;
        loop {
            self.accept(decoding)?;
            let tick = until.min(Instant::now() + ACCEPT_INTERVAL);
            let rows = self.intake.take(schema, tick)?;
            self.join_done();
            self.look_for_silence();
            if let Some(rows) = rows {
                return Ok(Polled::Rows(rows));
            }
            let may_end = self.settings.end_with_last_connection && !self.intake.holds_rows();
            if may_end && self.accepted > 0 && self.readers.is_empty() {
                // Someone may have connected meanwhile.
                self.accept(decoding)?;
                if self.readers.is_empty() {
                    return Ok(Polled::Ended);
                }
            }
            if Instant::now() >= until {
                return Ok(Polled::Nothing);
            }
        }
    }

    /// Accepts all waiting connections.
    fn accept(&mut self, decoding: &Decoding) -> Result<(), Cause> {
        for _ in 0..ACCEPTED_AT_ONCE {
            if Instant::now() < self.accept_from {
                break;
            }
            match self.listener.accept() {
                Ok((socket, peer)) => self.add(socket, peer, decoding)?,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error)
                    if matches!(
                        error.kind(),
                        io::ErrorKind::Interrupted | io::ErrorKind::ConnectionAborted
                    ) => {}
                Err(error) => {
                    // Mostly: no more file descriptors. Those who wait are accepted later.
                    self.accept_from = Instant::now() + ACCEPT_PAUSE;
                    self.intake.add_fault(format!(
                        "{}: no connection is accepted for a second: {error}; close connections or raise the \
                         limit (ulimit -n)",
                        self.place
                    ));
                }
            }
        }
        Ok(())
    }

    fn add(&mut self, socket: Socket, peer: Option<String>, decoding: &Decoding) -> Result<(), Cause> {
        let number = self.accepted + 1;
        let name = peer.unwrap_or_else(|| format!("{}, connection {number}", self.place));
        if self.readers.len() >= self.settings.connections_max {
            socket.close();
            self.intake.add_fault(format!(
                "{name}: refused, for {} connections are open; close some",
                self.settings.connections_max
            ));
            return Ok(());
        }
        let decoder = decoding.decoder()?;
        let deliveries = self.intake.sender();
        let label = name.clone();
        let room = Room::new();
        let of_thread = Arc::clone(&room);
        let started = socket.prepare(self.settings.idle_timeout).and_then(|()| {
            let own = socket.try_clone()?;
            let thread = spawn(number, move || {
                // Created here, on the new thread: the polling thread must not wait for itself.
                let done = Done { number, deliveries };
                Connection { socket, name: &label, decoder, done: &done, room: of_thread }.read(|_| ());
            })?;
            Ok(Reader { socket: own, thread, room, silent_since: None })
        });
        match started {
            Ok(reader) => {
                self.accepted = number;
                self.readers.insert(number, reader);
                self.intake.hear(Heard::Opened(number));
            }
            Err(error) => self.intake.add_fault(format!("{name}: closed, it could not be read: {error}")),
        }
        Ok(())
    }

    fn join_done(&mut self) {
        for number in self.intake.take_done() {
            if let Some(reader) = self.readers.remove(&number) {
                // It has reported that it is done, so this does not wait.
                let _ = reader.thread.join();
            }
        }
    }

    /// Reports connections over which nothing has come for long enough, once per silence.
    fn look_for_silence(&mut self) {
        let Some(silent_after) = self.silent_after else { return };
        if self.silence_looked_for.elapsed() < SILENCE_INTERVAL.min(silent_after) {
            return;
        }
        self.silence_looked_for = Instant::now();
        for (number, reader) in &mut self.readers {
            let since = reader.room.silent_since().filter(|since| since.elapsed() >= silent_after);
            if since.is_some() && since != reader.silent_since {
                self.intake.hear(Heard::Silent(*number));
            }
            reader.silent_since = since;
        }
    }

    pub(super) fn watch_connections(&mut self, silent_after: Option<Duration>) {
        self.silent_after = silent_after;
        self.intake.listen();
    }

    pub(super) fn connections(&mut self) -> Vec<Heard> {
        self.intake.take_heard()
    }

    pub(super) fn faults(&mut self) -> Faults {
        self.intake.take_faults()
    }

    pub(super) fn rows(&self) -> u64 {
        self.intake.rows()
    }

    pub(super) fn listener(&self) -> &Listener {
        &self.listener
    }
}

impl Drop for Listening {
    /// Closes all connections and waits for their threads.
    fn drop(&mut self) {
        self.intake.shut();
        for reader in self.readers.values() {
            reader.socket.close();
        }
        for (_, reader) in std::mem::take(&mut self.readers) {
            let _ = reader.thread.join();
        }
    }
}
