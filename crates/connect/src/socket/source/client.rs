//! Reads from one server, and reconnects when the connection ends.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, TryRecvError, channel};
use std::time::{Duration, Instant};

use arrow_schema::SchemaRef;
use parking_lot::Mutex;
use tidemill_core::SourceThreads;
use tidemill_core::error::Cause;
use tidemill_core::source::{Faults, Polled};
use tracing::{info, warn};

use super::connection::{Socket, spawn};
use super::connection_queue::ConnectionQueue;
use super::connection_reader::{Connection, End, EndNotifier};
use super::decoding_threads::DecodingThreads;
use super::queue_room::QueueRoom;
use super::read_permits::ReadPermits;
use super::{Decoding, SocketSettings};
use crate::tls::failure;

/// The pause after the first failed attempt; each further failure doubles it.
const PAUSE_MIN: Duration = Duration::from_millis(100);
/// The longest pause.
const PAUSE_MAX: Duration = Duration::from_secs(10);
/// The number of the client's only thread.
const THREAD: u64 = 0;

/// Makes a connection.
pub(super) type Connect = Box<dyn Fn() -> io::Result<Socket> + Send>;

/// The connection to a server.
pub(super) struct Client {
    intake: ConnectionQueue,
    room: Arc<QueueRoom>,
    threads: SourceThreads,
    decoding_threads: DecodingThreads,
    settings: SocketSettings,
    /// The server, for messages.
    place: String,
    state: State,
    /// The socket that is being read, so that it can be closed.
    socket: Arc<Mutex<Option<Arc<Socket>>>>,
}

enum State {
    /// The thread starts with the first poll; until then, columns can be selected.
    Waiting(Connect),
    /// Dropping this ends the thread.
    Running {
        _stop: Sender<()>,
    },
    Ended,
}

impl Client {
    pub(super) fn new(connect: Connect, place: String, settings: SocketSettings) -> Client {
        let (intake, socket) = (ConnectionQueue::new(settings.stamping()), Arc::new(Mutex::new(None)));
        let (room, threads) = (QueueRoom::new(settings.queue_bytes), SourceThreads::default());
        let decoding_threads = DecodingThreads::new(Arc::clone(&room), threads.clone());
        let state = State::Waiting(connect);
        Client { intake, room, threads, decoding_threads, settings, place, state, socket }
    }

    pub(super) fn poll(
        &mut self,
        decoding: &Decoding,
        schema: &SchemaRef,
        wait: Duration,
    ) -> Result<Polled, Cause> {
        let until = Instant::now() + wait;
        self.start(decoding)?;
        if let Some(rows) = self.intake.take(schema, until)? {
            return Ok(Polled::Rows(rows));
        }
        if !self.intake.take_done().is_empty() {
            self.state = State::Ended;
        }
        match self.state {
            State::Ended => Ok(Polled::Ended),
            State::Waiting(_) | State::Running { .. } => Ok(Polled::Nothing),
        }
    }

    fn start(&mut self, decoding: &Decoding) -> Result<(), Cause> {
        if !matches!(self.state, State::Waiting(_)) {
            return Ok(());
        }
        let (stop, stopped) = channel();
        let State::Waiting(connect) = std::mem::replace(&mut self.state, State::Running { _stop: stop })
        else {
            return Err(Cause::bug("a socket's thread was started twice"));
        };
        let sessions = Sessions {
            connect,
            stopped,
            place: self.place.clone(),
            settings: self.settings.clone(),
            socket: Arc::clone(&self.socket),
        };
        let (_, decoder) = self.decoding_threads.assign(decoding, &self.intake.sender())?;
        // Not joined at the end: it may wait for a server that does not answer, and ends by itself after
        // that.
        let run = move || sessions.run(&EndNotifier { number: THREAD, decoder });
        spawn(&self.threads, THREAD, run).map(|_| ())?;
        Ok(())
    }

    pub(super) fn threads(&self) -> SourceThreads {
        self.threads.clone()
    }

    pub(super) fn faults(&mut self) -> Faults {
        self.intake.take_faults()
    }

    pub(super) fn rows(&self) -> u64 {
        self.intake.rows()
    }

    pub(super) fn held_bytes(&self) -> usize {
        self.room.held_bytes()
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.intake.shut();
        self.state = State::Ended;
        if let Some(socket) = self.socket.lock().as_ref() {
            socket.close();
        }
    }
}

impl std::fmt::Debug for Client {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Client").field("place", &self.place).finish_non_exhaustive()
    }
}

/// One connection after the other.
struct Sessions {
    connect: Connect,
    stopped: Receiver<()>,
    place: String,
    settings: SocketSettings,
    socket: Arc<Mutex<Option<Arc<Socket>>>>,
}

impl Sessions {
    fn run(&self, done: &EndNotifier) {
        let mut failed = 0;
        let mut pause = PAUSE_MIN;
        loop {
            match (self.connect)() {
                Ok(socket) => {
                    info!(server = self.place, failed, "connected; rows are read");
                    failed = 0;
                    match self.read(socket, done) {
                        Ok((End::Closed, received)) if !self.settings.end_with_last_connection => {
                            warn!(server = self.place, retry_in = ?pause, "the server has closed the connection");
                            // A server that hangs up at once is not asked again and again without a pause.
                            pause = if received { PAUSE_MIN } else { pause };
                        }
                        Ok(_) => return,
                        Err(cause) => return done.fail(cause),
                    }
                }
                Err(error) => {
                    failed += 1;
                    let reason = failure(&error);
                    let error = reason.as_deref().map_or_else(|| error.to_string(), str::to_owned);
                    warn!(server = self.place, failed, error, retry_in = ?pause, "no connection");
                    if failed >= self.settings.attempts_max {
                        return done.fail(self.gives_up(failed, &error, reason.is_some()));
                    }
                }
            }
            if self.stopped.recv_timeout(pause) != Err(RecvTimeoutError::Timeout) {
                return;
            }
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }

    /// Reads a connection to its end; also returns whether anything came.
    fn read(&self, socket: Socket, done: &EndNotifier) -> Result<(End, bool), Cause> {
        socket.prepare(self.settings.idle_timeout)?;
        let handle = Arc::new(socket.try_clone()?);
        self.remember(Some(Arc::clone(&handle)));
        // The thread that drops the source closes the remembered socket; this one came too late for that.
        if self.stopped.try_recv() == Err(TryRecvError::Disconnected) {
            return Ok((End::NobodyListens, false));
        }
        let mut received = false;
        let permits = ReadPermits::new();
        let connection = Connection { socket, handle, name: &self.place, done, permits, quota: None };
        let end = connection.read(|_| received = true);
        self.remember(None);
        Ok((end, received))
    }

    fn remember(&self, socket: Option<Arc<Socket>>) {
        *self.socket.lock() = socket;
    }

    /// Whoever reads why TLS failed also reads what to do.
    fn gives_up(&self, attempts: u32, error: &str, is_about_tls: bool) -> Cause {
        let remedy = if is_about_tls { "" } else { "; start the server first" };
        Cause::operation(format!("{}: no connection after {attempts} attempts: {error}{remedy}", self.place))
    }
}
