//! One connection, from its first message to its end.

use std::io::{self, Read};
use std::time::{Duration, Instant, SystemTime};

use tidemill_service::{Role, Session};

use crate::activity::Activity;
use crate::client_stream::ClientStream;
use crate::connections::ConnectionKey;
use crate::conversation::Idle;
use crate::identity::Identity;
use crate::login::{NoLogin, log_in};
use crate::report::{ADMIN_SHUTDOWN, INVALID_AUTHORIZATION, NOT_SUPPORTED, Report, TOO_MANY_CONNECTIONS};
use crate::server_state::ServerState;
use crate::session_settings::SessionSettings;
use crate::wire::{RequestError, Startup, TransactionStatus, Writer, read_startup};

/// How often a client may ask for encryption before it begins.
const ENCRYPTION_WISHES_MAX: usize = 2;

/// How long a refusal may take: it fits into an empty buffer of the network.
const REFUSAL_TIME: Duration = Duration::from_millis(100);

/// How long a client may send nothing before its session gives its thread back.
const REST_AFTER: Duration = Duration::from_secs(1);

/// Begins the session of a connection; `None`: the client wants none, or cannot have one.
pub(crate) fn begin_session(
    stream: &ClientStream,
    key: &ConnectionKey,
    shared: &ServerState,
) -> Option<Idle> {
    begin(stream, key, shared).unwrap_or_else(|error| {
        tracing::debug!(%error, process = key.process, "a connection ended before it became a session");
        let _ = tell(stream, &Report::from(&error));
        None
    })
}

/// Tells a client why it gets no session, and closes its connection. Waits for nobody who does not read.
pub(crate) fn refuse(stream: &ClientStream, report: &Report) {
    let _ = stream.set_write_timeout(REFUSAL_TIME);
    let _ = tell(stream, report);
    // What it has sent is read, because unread bytes would turn the end of the connection into a reset.
    let _ = stream.socket().set_nonblocking(true);
    let _ = stream.socket().read(&mut [0; 1024]);
    stream.close();
}

/// The error for a client for which no thread can be started.
pub(crate) fn without_thread(error: &io::Error) -> Report {
    let message = format!("the server cannot start a thread for this connection: {error}");
    let hint = "close other connections, or let the server have more threads (TasksMax, pids.max)";
    Report::fatal(TOO_MANY_CONNECTIONS, message).with_hint(hint)
}

fn tell(stream: &ClientStream, report: &Report) -> io::Result<()> {
    let mut writer = Writer::new(stream);
    writer.report(report)?;
    writer.flush()
}

/// Reads with a deadline for all of it, so that a client cannot stay by sending a byte now and then.
struct Until<'a> {
    stream: &'a ClientStream,
    deadline: Instant,
}

impl Read for Until<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left = self.deadline.saturating_duration_since(Instant::now());
        let late =
            || io::Error::new(io::ErrorKind::TimedOut, "the client took too long to begin its session");
        if left.is_zero() {
            return Err(late());
        }
        self.stream.set_read_timeout(Some(left))?;
        let read = (&mut &*self.stream).read(buffer);
        read.map_err(|error| match error.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => late(),
            _ => error,
        })
    }
}

/// Reads the first messages; `None` if the client wants no session, or cannot have one.
fn begin(
    stream: &ClientStream,
    key: &ConnectionKey,
    shared: &ServerState,
) -> Result<Option<Idle>, RequestError> {
    let mut until = Until { stream, deadline: Instant::now() + shared.options.startup_timeout };
    let mut writer = Writer::new(stream);
    let mut wishes = 0;
    let (minor, parameters) = loop {
        match read_startup(&mut until)? {
            None => return Ok(None),
            Some(Startup::Encryption { is_tls })
                if wishes < ENCRYPTION_WISHES_MAX && !stream.is_encrypted() =>
            {
                wishes += 1;
                match shared.options.tls.as_ref().filter(|_| is_tls) {
                    Some(tls) => {
                        writer.encryption(true)?;
                        stream.encrypt(tls.config())?;
                    }
                    None => writer.encryption(false)?,
                }
            }
            Some(Startup::Encryption { .. }) => return Ok(None),
            Some(Startup::Cancel { process, secret }) => {
                shared.connections.cancel(process, secret);
                return Ok(None);
            }
            Some(Startup::Session { minor, parameters }) => break (minor, parameters),
        }
    };
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
    let Some(identity) = identify(&mut until, &mut writer, &parameters, shared)? else { return Ok(None) };
    let role = match identity.role(&shared.runtime) {
        Ok(role) => role,
        Err(report) => {
            tell(stream, &report)?;
            return Ok(None);
        }
    };
    stream.set_read_timeout(Some(REST_AFTER))?;
    stream.set_write_timeout(shared.options.unread_max)?;
    let session = Session::new(&shared.runtime);
    let activity = activity(stream, key, &parameters)?;
    if !shared.connections.begin(session.cancellation(), activity) {
        let report = match shared.connections.is_stopping() {
            true => Report::fatal(ADMIN_SHUTDOWN, "the server is shutting down"),
            false => Report::fatal(
                TOO_MANY_CONNECTIONS,
                format!("the server already has {} sessions", shared.options.connections_max),
            )
            .with_hint("close one of them, or start the server with a larger --connections"),
        };
        tell(stream, &report)?;
        return Ok(None);
    }
    let options: Vec<&str> =
        parameters.iter().map(|(name, _)| &**name).filter(|name| name.starts_with("_pq_.")).collect();
    if minor > 0 || !options.is_empty() {
        writer.negotiate(&options)?;
    }
    let settings = SessionSettings::new(&parameters, role == Role::Owner);
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
        client: stream.socket().peer_addr()?.ip().to_canonical().to_string(),
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
