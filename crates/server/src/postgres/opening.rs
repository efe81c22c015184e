//! A connection whose session has not begun yet.

use std::io::{self, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Instant, SystemTime};

use tidemill_service::{Role, Session};

use crate::postgres::active_session::ActiveSession;
use crate::postgres::conversation::Idle;
use crate::postgres::login::{NoLogin, log_in};
use crate::postgres::refusal::{not_waited_for, tell};
use crate::postgres::session_settings::SessionSettings;
use crate::postgres::wire::{RequestError, Startup, TransactionStatus, Writer, read_startup};
use crate::report::{ADMIN_SHUTDOWN, INVALID_AUTHORIZATION, NOT_SUPPORTED, Report, TOO_MANY_CONNECTIONS};
use crate::sessions::activity::Activity;
use crate::sessions::client_reader::{ReadClient, Reading};
use crate::sessions::client_stream::ClientStream;
use crate::sessions::connections::ConnectionKey;
use crate::sessions::identity::Identity;
use crate::sessions::server_state::ServerState;
use crate::sessions::workers::WorkerSlot;

/// How often a client may ask for encryption before it begins.
const ENCRYPTION_WISHES_MAX: usize = 2;

/// A connection whose client is to say what it wants. As long as it says nothing, it has no thread.
pub(crate) struct Opening {
    stream: Arc<ClientStream>,
    key: ConnectionKey,
    deadline: Instant,
    /// How often the client has asked for encryption.
    wishes: AtomicUsize,
    shared: Arc<ServerState>,
}

/// What a client wants with its next message.
enum Step {
    /// Something that takes one more message.
    Waits,
    Begins(Box<Idle>),
    /// Nothing more, or what it cannot have.
    Ends,
}

impl Opening {
    /// Waits until the client says what it wants.
    pub fn begin(stream: Arc<ClientStream>, key: ConnectionKey, shared: Arc<ServerState>) {
        let deadline = Instant::now() + shared.options.startup_timeout;
        Arc::new(Opening { stream, key, deadline, wishes: AtomicUsize::new(0), shared }).wait();
    }

    fn wait(self: Arc<Self>) {
        let process = self.key.process;
        if let Err(error) = self.shared.reader.add(process, Arc::clone(&self) as Arc<dyn ReadClient>) {
            self.end_unwatched(&error);
        }
    }

    /// Reads the next message on one of the threads that answer.
    fn submit(self: Arc<Self>) {
        let opening = Arc::clone(&self);
        self.shared.workers.submit(Box::new(move |slot| opening.take_step(slot)));
    }

    fn take_step(self: Arc<Self>, slot: &WorkerSlot) {
        let closing = Closing(&self);
        let step = next_step(&self, slot).unwrap_or_else(|error| {
            tracing::debug!(%error, process = self.key.process, "a connection ended before it became a session");
            let _ = tell(&self.stream, &Report::from(&error));
            Step::Ends
        });
        match step {
            Step::Ends => {}
            Step::Waits => {
                std::mem::forget(closing);
                self.wait();
            }
            Step::Begins(idle) => {
                std::mem::forget(closing);
                let session = ActiveSession::begin(Arc::clone(&self.stream), *idle, Arc::clone(&self.shared));
                session.unwrap_or_else(|error| self.end_unwatched(&error));
            }
        }
    }

    fn end_unwatched(&self, error: &io::Error) {
        tracing::warn!(%error, "cannot wait for a client");
        let _ = tell(&self.stream, &not_waited_for(error));
        drop(Closing(self));
    }
}

/// Closes the connection, also if what is done for it ends with a panic.
struct Closing<'a>(&'a Opening);

impl Drop for Closing<'_> {
    fn drop(&mut self) {
        self.0.stream.close();
        self.0.shared.connections.remove(self.0.key.process);
    }
}

impl ReadClient for Opening {
    fn stream(&self) -> &ClientStream {
        &self.stream
    }

    fn is_awaited_once(&self) -> bool {
        true
    }

    fn read(self: Arc<Self>, _: &mut [u8]) -> Reading {
        self.submit();
        // By now the session may have begun, and be read under the same number.
        Reading::Later
    }

    fn quiet_at(&self, _: Instant) -> Instant {
        self.deadline
    }

    /// The deadline has passed, so the next read fails and the client learns why.
    fn quiet(self: Arc<Self>) {
        self.submit();
    }
}

/// Reads with a deadline for all of it, so that a client cannot stay by sending a byte now and then.
struct Until<'a> {
    stream: &'a ClientStream,
    deadline: Instant,
    /// It is left before a client is waited for.
    slot: &'a WorkerSlot,
}

impl Read for Until<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let late =
            || io::Error::new(io::ErrorKind::TimedOut, "the client took too long to begin its session");
        match self.stream.read_ready(buffer) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            read => return read,
        }
        let left = self.deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(late());
        }
        self.slot.leave();
        self.stream.set_read_timeout(left)?;
        let read = (&mut &*self.stream).read(buffer);
        read.map_err(|error| match error.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => late(),
            _ => error,
        })
    }
}

/// Reads the next message of a client that has no session yet.
fn next_step(opening: &Opening, slot: &WorkerSlot) -> Result<Step, RequestError> {
    let Opening { stream, deadline, wishes, shared, .. } = opening;
    let mut until = Until { stream, deadline: *deadline, slot };
    match read_startup(&mut until)? {
        None => Ok(Step::Ends),
        Some(Startup::Encryption { is_tls }) => {
            if stream.is_encrypted() || wishes.fetch_add(1, Ordering::Relaxed) >= ENCRYPTION_WISHES_MAX {
                return Ok(Step::Ends);
            }
            let mut writer = Writer::new(&**stream);
            match shared.options.tls.as_ref().filter(|_| is_tls) {
                Some(tls) => {
                    writer.encryption(true)?;
                    stream.encrypt(tls.config())?;
                }
                None => writer.encryption(false)?,
            }
            Ok(Step::Waits)
        }
        Some(Startup::Cancel { process, secret }) => {
            shared.connections.cancel(process, secret);
            Ok(Step::Ends)
        }
        Some(Startup::Session { minor, parameters }) => {
            let idle = begin(opening, until, minor, &parameters)?;
            Ok(idle.map_or(Step::Ends, |idle| Step::Begins(Box::new(idle))))
        }
    }
}

/// Begins a session; `None` if the client cannot have one.
fn begin(
    opening: &Opening,
    mut until: Until<'_>,
    minor: u16,
    parameters: &[(String, String)],
) -> Result<Option<Idle>, RequestError> {
    let Opening { stream, key, shared, .. } = opening;
    let mut writer = Writer::new(&**stream);
    if let Some(report) = unencrypted(stream, shared)? {
        tell(stream, &report)?;
        return Ok(None);
    }
    if parameters
        .iter()
        .any(|(name, value)| name == "replication" && !matches!(&**value, "false" | "off" | "0"))
    {
        let report = Report::fatal(NOT_SUPPORTED, "this server does not offer replication");
        tell(stream, &report.with_hint("connect without the option replication"))?;
        return Ok(None);
    }
    let Some(identity) = identify(&mut until, &mut writer, parameters, shared)? else { return Ok(None) };
    let role = match identity.role(&shared.runtime) {
        Ok(role) => role,
        Err(report) => {
            tell(stream, &report)?;
            return Ok(None);
        }
    };
    stream.set_write_timeout(shared.options.unread_max)?;
    let session = Session::new(&shared.runtime);
    let activity = activity(stream, key, parameters)?;
    if !shared.connections.begin(session.cancellation(), activity) {
        let report = if shared.connections.is_stopping() {
            Report::fatal(ADMIN_SHUTDOWN, "the server is shutting down")
        } else {
            Report::fatal(
                TOO_MANY_CONNECTIONS,
                format!("the server already has {} sessions", shared.options.connections_max),
            )
            .with_hint("close one of them, or start the server with a larger --connections")
        };
        tell(stream, &report)?;
        return Ok(None);
    }
    let options: Vec<&str> =
        parameters.iter().map(|(name, _)| &**name).filter(|name| name.starts_with("_pq_.")).collect();
    if minor > 0 || !options.is_empty() {
        writer.negotiate(&options)?;
    }
    let settings = SessionSettings::new(parameters, role == Role::Owner);
    writer.authentication_ok()?;
    for (name, value) in settings.reported() {
        writer.parameter(name, value)?;
    }
    writer.cancel_key(key.process, key.secret)?;
    writer.ready(TransactionStatus::None)?;
    Ok(Some(Idle::new(session, key.process, identity, settings)))
}

/// What others see of a session that begins.
fn activity(
    stream: &ClientStream,
    key: &ConnectionKey,
    parameters: &[(String, String)],
) -> io::Result<Activity> {
    let parameter = |wanted: &str| {
        let found = parameters.iter().find(|(name, _)| name == wanted);
        found.map_or(String::new(), |(_, value)| value.clone())
    };
    let now = SystemTime::now();
    Ok(Activity {
        process: key.process,
        user: parameter("user"),
        application: parameter("application_name"),
        client_address: stream.socket().peer_addr()?,
        server_address: stream.socket().local_addr()?,
        is_encrypted: stream.is_encrypted(),
        began: now,
        statement: String::new(),
        since: now,
        is_active: false,
    })
}

/// Why a client must not continue without encryption.
fn unencrypted(stream: &ClientStream, shared: &ServerState) -> io::Result<Option<Report>> {
    let Some(tls) = shared.options.tls.as_ref().filter(|_| !stream.is_encrypted()) else { return Ok(None) };
    let is_local = stream.socket().peer_addr()?.ip().to_canonical().is_loopback();
    if !tls.asks_for_certificates() && (is_local || shared.options.is_insecure) {
        return Ok(None);
    }
    let report = Report::fatal(INVALID_AUTHORIZATION, "this connection must be encrypted");
    Ok(Some(report.with_hint("connect with sslmode=require, or better verify-full")))
}

/// Finds out who the client is; `None` if it may not have a session, which it was told.
fn identify(
    until: &mut Until<'_>,
    writer: &mut Writer<&ClientStream>,
    parameters: &[(String, String)],
    shared: &ServerState,
) -> Result<Option<Identity>, RequestError> {
    let name = parameters.iter().find(|(name, _)| name == "user").map_or("", |(_, value)| value);
    let address = until.stream.socket().peer_addr()?.ip();
    // A login may wait for others at this address.
    until.slot.leave();
    match log_in(until, writer, name, address, shared) {
        Ok(identity) => Ok(Some(identity)),
        Err(NoLogin::Gone) => Ok(None),
        Err(NoLogin::Request(error)) => Err(error),
        Err(NoLogin::Refused(report)) => {
            writer.report(&report)?;
            writer.flush()?;
            Ok(None)
        }
    }
}
