//! A session whose client sends something now and then.

use std::cell::Cell;
use std::io::{self, BufReader, Read};
use std::net::Shutdown;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use tidemill_service::Cancellation;

use crate::client_stream::ClientStream;
use crate::connections::end_at_once;
use crate::conversation::{Asked, Conversation, Idle, SessionInbox};
use crate::server_state::ServerState;
use crate::wire::{Writer, read_message};
use crate::workers::WorkerSlot;

/// A session with a thread that reads what its client sends. What it asks is answered on another thread, one of those that answer all
/// sessions, unless the session is in the middle of something.
pub(crate) struct ActiveSession {
    process: i32,
    stream: Arc<ClientStream>,
    inbox: SessionInbox,
    cancellation: Cancellation,
    shared: Arc<ServerState>,
}

impl ActiveSession {
    pub fn new(stream: Arc<ClientStream>, idle: Idle, shared: Arc<ServerState>) -> Arc<ActiveSession> {
        shared.active_sessions.fetch_add(1, Ordering::Relaxed);
        let (process, cancellation) = (idle.process, idle.session.cancellation());
        let inbox = SessionInbox::new(shared.options.message_bytes_max);
        inbox.park(Box::new(idle));
        Arc::new(ActiveSession { process, stream, inbox, cancellation, shared })
    }

    /// Reads until nothing more comes, and then ends what the session waits for; or until the client has sent nothing for some time: the session
    /// then.
    pub fn read(self: &Arc<Self>) -> Option<Box<Idle>> {
        let (is_between, rested) = (Cell::new(true), Cell::new(None));
        let waking = WakingRead { session: self, is_between: &is_between, rested: &rested };
        let mut stream = BufReader::new(waking);
        let end = loop {
            is_between.set(stream.buffer().is_empty());
            match read_message(&mut stream, self.shared.options.message_bytes_max) {
                Ok(Some(message)) => {
                    if !self.inbox.push(message, |parked| self.submit(parked)) {
                        return None;
                    }
                }
                Ok(None) => break None,
                Err(error) => match rested.take() {
                    Some(idle) => return Some(idle),
                    None => break Some(error),
                },
            }
        };
        self.inbox.end(end);
        end_at_once(&self.cancellation);
        self.wake();
        None
    }

    /// The session continues, if it is parked and something has come.
    fn wake(self: &Arc<Self>) {
        if let Some(parked) = self.inbox.wake() {
            self.submit(parked);
        }
    }

    fn submit(self: &Arc<Self>, parked: Box<Idle>) {
        let asked = Asked { since: Instant::now(), cancelled_before: self.cancellation.requests() };
        let session = Arc::clone(self);
        self.shared.workers.submit(Box::new(move |slot| session.answer(parked, asked, slot)));
    }

    /// Answers until the session is parked again, or ends.
    fn answer(&self, mut parked: Box<Idle>, asked: Asked, slot: &Arc<WorkerSlot>) {
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

impl Drop for ActiveSession {
    fn drop(&mut self) {
        self.shared.active_sessions.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Closes the connection of a session, also if the answer ends with a panic.
struct Closing<'a>(&'a ActiveSession);

impl Drop for Closing<'_> {
    fn drop(&mut self) {
        let ActiveSession { process, stream, inbox, shared, .. } = self.0;
        inbox.leave();
        let _ = stream.socket().shutdown(Shutdown::Read);
        stream.close();
        shared.connections.remove(*process);
    }
}

/// A client's connection. Before it waits for more, the session continues with what is there. Reading ends when the client sends nothing for some
/// time and its session waits for it.
struct WakingRead<'a> {
    session: &'a Arc<ActiveSession>,
    /// Whether no part of the next message has come.
    is_between: &'a Cell<bool>,
    rested: &'a Cell<Option<Box<Idle>>>,
}

impl Read for WakingRead<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.session.wake();
        loop {
            match (&mut &*self.session.stream).read(buffer) {
                Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
                    if self.is_between.get()
                        && let Some(idle) = self.session.inbox.rest()
                    {
                        self.rested.set(Some(idle));
                        return Err(error);
                    }
                }
                read => {
                    self.is_between.set(false);
                    return read;
                }
            }
        }
    }
}
