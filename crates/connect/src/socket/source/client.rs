//! Reads from one server, and reconnects when the connection ends.

use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, TryRecvError, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use arrow_schema::SchemaRef;
use tidemill_core::error::Cause;
use tidemill_core::source::{Faults, Polled};

use super::connection::{Connection, Delivery, Done, End, Socket, spawn};
use super::intake::Intake;
use super::room::Room;
use super::{Decoding, SocketSettings};

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
    intake: Intake,
    settings: SocketSettings,
    /// The server, for messages.
    place: String,
    state: State,
    /// The socket that is being read, so that it can be closed.
    socket: Arc<Mutex<Option<Socket>>>,
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
        let (intake, socket) = (Intake::new(settings.stamping()), Arc::new(Mutex::new(None)));
        Client { intake, settings, place, state: State::Waiting(connect), socket }
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
            decoding: decoding.clone(),
            socket: Arc::clone(&self.socket),
        };
        let deliveries = self.intake.sender();
        // Not joined at the end: it may wait for a server that does not answer, and ends by itself after
        // that.
        spawn(THREAD, move || sessions.run(&Done { number: THREAD, deliveries })).map(|_| ())?;
        Ok(())
    }

    pub(super) fn faults(&mut self) -> Faults {
        self.intake.take_faults()
    }

    pub(super) fn rows(&self) -> u64 {
        self.intake.rows()
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.intake.shut();
        self.state = State::Ended;
        if let Some(socket) = self.socket.lock().unwrap_or_else(PoisonError::into_inner).as_ref() {
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
    decoding: Decoding,
    socket: Arc<Mutex<Option<Socket>>>,
}

impl Sessions {
    fn run(&self, done: &Done) {
        let mut failed = 0;
        let mut pause = PAUSE_MIN;
        loop {
            match (self.connect)() {
                Ok(socket) => {
                    failed = 0;
                    match self.read(socket, done) {
                        Ok((End::Closed, received)) if !self.settings.end_with_last_connection => {
                            // A server that hangs up at once is not asked again and again without a pause.
                            pause = if received { PAUSE_MIN } else { pause };
                        }
                        Ok(_) => return,
                        Err(cause) => return done.send(Delivery::Failed(cause)),
                    }
                }
                Err(error) => {
                    failed += 1;
                    if failed >= self.settings.attempts_max {
                        return done.send(Delivery::Failed(self.gives_up(failed, &error)));
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
    fn read(&self, socket: Socket, done: &Done) -> Result<(End, bool), Cause> {
        socket.prepare(self.settings.idle_timeout)?;
        self.remember(Some(socket.try_clone()?));
        // The thread that drops the source closes the remembered socket; this one came too late for that.
        if self.stopped.try_recv() == Err(TryRecvError::Disconnected) {
            return Ok((End::NobodyListens, false));
        }
        let decoder = self.decoding.decoder()?;
        let mut received = false;
        let room = Room::new();
        let connection = Connection { socket, name: &self.place, decoder, done, room };
        let end = connection.read(|_| received = true);
        self.remember(None);
        Ok((end, received))
    }

    fn remember(&self, socket: Option<Socket>) {
        *self.socket.lock().unwrap_or_else(PoisonError::into_inner) = socket;
    }

    fn gives_up(&self, attempts: u32, error: &io::Error) -> Cause {
        Cause::operation(format!(
            "{}: no connection after {attempts} attempts: {error}; start the server first",
            self.place
        ))
    }
}
