//! A session, and what its client sends.

use std::io;
use std::net::Shutdown;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tidemill_service::Cancellation;

use crate::postgres::conversation::{Conversation, Idle, RequestArrival, SessionInbox};
use crate::postgres::wire::{Framing, RequestError, Writer};
use crate::sessions::client_reader::{ReadClient, Reading};
use crate::sessions::client_stream::ClientStream;
use crate::sessions::connections::end_at_once;
use crate::sessions::server_state::ServerState;
use crate::sessions::workers::WorkerSlot;

/// How long a client may send nothing before its session keeps only what it needs to continue.
const REST_AFTER: Duration = Duration::from_secs(1);
/// How often a client is read before it is another one's turn.
const READS_IN_TURN: usize = 4;

/// A session. What its client sends is read by the thread that reads for all, and answered on another thread, one of those that answer
/// all sessions, unless the session is in the middle of something.
pub(crate) struct ActiveSession {
    process: i32,
    stream: Arc<ClientStream>,
    /// A message that has come in part.
    framing: Mutex<Framing>,
    inbox: SessionInbox,
    cancellation: Cancellation,
    shared: Arc<ServerState>,
}

impl ActiveSession {
    /// From now on, what the client sends is answered.
    ///
    /// # Errors
    /// If the system cannot wait for it.
    pub fn begin(stream: Arc<ClientStream>, idle: Idle, shared: Arc<ServerState>) -> io::Result<()> {
        let (process, cancellation) = (idle.process, idle.session.cancellation());
        let bytes_max = shared.options.message_bytes_max;
        let reader = shared.reader.clone();
        let inbox = SessionInbox::new(bytes_max, Box::new(move || reader.continue_with(process)));
        inbox.park(Box::new(idle));
        let framing = Mutex::new(Framing::new(bytes_max));
        let reader = shared.reader.clone();
        reader.add(
            process,
            Arc::new(ActiveSession { process, stream, framing, inbox, cancellation, shared }),
        )?;
        // What was decrypted together with the end of the login does not come again.
        reader.continue_with(process);
        Ok(())
    }

    /// Takes in what has come, as long as there is room for it.
    ///
    /// # Errors
    /// If it is not a message, or the connection breaks. `None`: it has ended.
    fn take_in(self: &Arc<Self>, buffer: &mut [u8]) -> Result<Option<Reading>, RequestError> {
        let mut framing = self.framing.lock();
        for _ in 0..READS_IN_TURN {
            if !self.inbox.has_room() {
                return Ok(Some(Reading::Later));
            }
            let count = match self.stream.read_ready(buffer) {
                Ok(0) if framing.is_between() => return Ok(None),
                Ok(0) => return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into()),
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(Some(Reading::Later)),
                Err(error) => return Err(error.into()),
            };
            let mut bytes = &buffer[..count];
            while let Some(message) = framing.next(&mut bytes)? {
                self.inbox.push(message);
            }
            // What has come together is answered together.
            self.wake();
        }
        Ok(Some(Reading::AtOnce))
    }

    /// Nothing more comes. What the session waits for ends.
    fn end(self: &Arc<Self>, error: Option<RequestError>) {
        self.inbox.end(error);
        end_at_once(&self.cancellation);
        self.wake();
    }

    /// The session continues, if it is parked and something has come.
    fn wake(self: &Arc<Self>) {
        if let Some(parked) = self.inbox.wake() {
            self.submit(parked);
        }
    }

    fn submit(self: &Arc<Self>, parked: Box<Idle>) {
        let asked = RequestArrival { since: Instant::now(), cancelled_before: self.cancellation.requests() };
        let session = Arc::clone(self);
        self.shared.workers.submit(Box::new(move |slot| session.answer(parked, asked, slot)));
    }

    /// A session that does nothing forgets what it can find again.
    fn rest(self: &Arc<Self>, mut parked: Box<Idle>) {
        parked.session.rest();
        if let Some(parked) = self.inbox.park(parked) {
            self.submit(parked);
        }
    }

    /// Answers until the session is parked again, or ends.
    fn answer(&self, mut parked: Box<Idle>, asked: RequestArrival, slot: &Arc<WorkerSlot>) {
        let closing = Closing(self);
        let mut asked = Some(asked);
        loop {
            let writer = Writer::new(&*self.stream);
            let conversation =
                Conversation::new(*parked, asked.take(), slot, &self.shared, &self.inbox, writer);
            match conversation.run() {
                Ok(Some(idle)) => match self.inbox.park(Box::new(idle)) {
                    None => return std::mem::forget(closing),
                    Some(idle) => parked = idle,
                },
                Ok(None) => return,
                Err(error) => {
                    tracing::debug!(%error, process = self.process, "a connection broke");
                    return;
                }
            }
        }
    }
}

impl ReadClient for ActiveSession {
    fn stream(&self) -> &ClientStream {
        &self.stream
    }

    fn is_awaited_once(&self) -> bool {
        false
    }

    fn read(self: Arc<Self>, buffer: &mut [u8]) -> Reading {
        let end = match self.take_in(buffer) {
            Ok(Some(reading)) => return reading,
            Ok(None) => None,
            Err(error) => Some(error),
        };
        self.end(end);
        Reading::Never
    }

    fn quiet_at(&self, since: Instant) -> Instant {
        since + REST_AFTER
    }

    fn quiet(self: Arc<Self>) {
        if let Some(parked) = self.inbox.rest() {
            let session = Arc::clone(&self);
            self.shared.workers.submit(Box::new(move |_| session.rest(parked)));
        }
    }
}

/// Closes the connection of a session, also if the answer ends with a panic.
struct Closing<'a>(&'a ActiveSession);

impl Drop for Closing<'_> {
    fn drop(&mut self) {
        let ActiveSession { process, stream, inbox, shared, .. } = self.0;
        shared.reader.forget(*process);
        inbox.leave();
        let _ = stream.socket().shutdown(Shutdown::Read);
        stream.close();
        shared.connections.remove(*process);
    }
}
