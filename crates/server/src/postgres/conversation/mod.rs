//! What a client asks in its session, and the answers.

mod analyze;
mod answer;
mod change_statement;
mod client_statement;
mod copy;
mod cursor_statement;
mod cursors;
mod execute;
mod execute_prepared;
mod extended;
mod idleness;
mod insert;
mod insert_statement;
mod inserted_rows;
mod limits;
mod own_statement;
mod prepare_statement;
mod prepared;
mod savepoints;
mod table_columns;
mod table_statement;
mod transaction_settings;
mod type_query;
mod user_statement;
mod words;

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tidemill_service::{Role, Session};

use self::answer::Answer;
use self::client_statement::ClientStatement;
use self::cursors::Cursor;
use self::inserted_rows::InsertedRows;
use self::prepared::{Portal, PreparedStatement};
use self::savepoints::Savepoint;
use self::transaction_settings::SettingsAtEnd;
use crate::postgres::inbox::{Inbox, Next};
use crate::postgres::session_settings::SessionSettings;
use crate::postgres::wire::{Request, TransactionStatus, Writer};
use crate::report::{
    ADMIN_SHUTDOWN, INSUFFICIENT_RESOURCES, PROGRAM_LIMIT, PROTOCOL_VIOLATION, QUERY_CANCELED, Report,
    Severity,
};
use crate::sessions::activity::Activity;
use crate::sessions::client_stream::ClientStream;
use crate::sessions::deadlines::Deadline;
use crate::sessions::directory::Sessions;
use crate::sessions::identity::Identity;
use crate::sessions::server_state::ServerState;
use crate::sessions::workers::WorkerSlot;

/// Why an answer was not completed.
pub(crate) enum Stop {
    /// The client is told, and the conversation continues.
    Report(Box<Report>),
    /// The client cannot be reached.
    Connection(io::Error),
    /// Nothing more comes from the client: it has gone, or the server is shutting down.
    Gone,
}

impl From<Report> for Stop {
    fn from(report: Report) -> Stop {
        Stop::Report(Box::new(report))
    }
}

impl From<io::Error> for Stop {
    fn from(error: io::Error) -> Stop {
        Stop::Connection(error)
    }
}

type Result<T> = std::result::Result<T, Stop>;

/// A client's session, from its first request to its last.
pub(crate) struct Conversation<'a> {
    session: Session,
    /// Its number among the sessions of the server.
    process: i32,
    identity: Identity,
    /// What it may do, as it was when the newest request came.
    role: Role,
    settings: SessionSettings,
    shared: &'a ServerState,
    inbox: &'a SessionInbox,
    writer: Writer<&'a ClientStream>,
    transaction: TransactionStatus,
    /// In a transaction.
    settings_at_end: Option<SettingsAtEnd>,
    statements: PreparedStatements,
    portals: BTreeMap<String, Portal>,
    cursors: BTreeMap<String, Cursor>,
    /// Of the transaction, the newest one last.
    savepoints: Vec<Savepoint>,
    /// In the transaction.
    inserted: InsertedRows,
    /// By the transaction, the newest one last.
    created_tables: Vec<String>,
    /// How often the session had been cancelled before the newest request.
    cancelled_before: u32,
    /// Of the next request, if the session has been parked.
    asked: Option<RequestArrival>,
    /// Its slot among the sessions that are answered at once.
    slot: &'a Arc<WorkerSlot>,
}

/// When a request came that has waited for a thread.
pub(crate) struct RequestArrival {
    pub since: Instant,
    /// How often the session had been cancelled then.
    pub cancelled_before: u32,
}

/// What is kept of a session that waits for its next request.
pub(crate) struct Idle {
    pub session: Session,
    /// Its number among the sessions of the server.
    pub process: i32,
    pub identity: Identity,
    pub settings: SessionSettings,
    statements: PreparedStatements,
}

/// What a client has sent. Its session is parked there while it waits for its next request.
pub(crate) type SessionInbox = Inbox<Box<Idle>>;

/// The prepared statements of a session, by name.
type PreparedStatements = BTreeMap<String, Arc<PreparedStatement>>;

impl Idle {
    /// A session that begins.
    pub fn new(session: Session, process: i32, identity: Identity, settings: SessionSettings) -> Idle {
        Idle { session, process, identity, settings, statements: PreparedStatements::new() }
    }
}

impl<'a> Conversation<'a> {
    pub fn new(
        idle: Idle,
        asked: Option<RequestArrival>,
        slot: &'a Arc<WorkerSlot>,
        shared: &'a ServerState,
        inbox: &'a SessionInbox,
        writer: Writer<&'a ClientStream>,
    ) -> Self {
        let Idle { mut session, process, identity, settings, statements } = idle;
        let of_session = Arc::clone(slot);
        session.set_when_long(Some(Arc::new(move || of_session.leave())));
        Conversation {
            session,
            process,
            identity,
            role: Role::Reader,
            settings,
            shared,
            inbox,
            writer,
            transaction: TransactionStatus::None,
            settings_at_end: None,
            statements,
            portals: BTreeMap::new(),
            cursors: BTreeMap::new(),
            savepoints: Vec::new(),
            inserted: InsertedRows::default(),
            created_tables: Vec::new(),
            cancelled_before: 0,
            asked,
            slot,
        }
    }

    /// Answers until the client leaves, or the server is shutting down; or until there is nothing more to answer: what is kept of
    /// the session until there is.
    pub fn run(mut self) -> io::Result<Option<Idle>> {
        let ended = self.converse();
        // Who leaves in the middle of a transaction rolls it back.
        let _ = self.drop_created_tables(0);
        match ended {
            Ok(false) => Ok(None),
            Ok(true) => {
                self.session.set_when_long(None);
                let Conversation { session, process, identity, settings, statements, .. } = self;
                Ok(Some(Idle { session, process, identity, settings, statements }))
            }
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
                self.break_off().map(|()| None)
            }
            Err(error) => Err(error),
        }
    }

    /// Whether nothing would be lost but the prepared statements if the session had no thread: no transaction, no cursor.
    fn may_rest(&self) -> bool {
        self.transaction == TransactionStatus::None
            && self.settings_at_end.is_none()
            && self.portals.is_empty()
            && self.cursors.is_empty()
            && self.savepoints.is_empty()
    }

    /// Whether the client still waits for what it has asked.
    pub(super) fn goes_on(&self) -> impl Fn() -> bool + use<'a> {
        let cancellation = self.session.cancellation();
        let requests = cancellation.requests();
        let inbox = self.inbox;
        move || cancellation.requests() == requests && !inbox.has_ended()
    }

    /// The client has not read for some time. If it reads on soon, it learns why nothing more comes.
    fn break_off(mut self) -> io::Result<()> {
        let time = self.shared.options.unread_max;
        tracing::warn!(?time, "a client does not read its answer, and the rest of it is left out");
        self.portals.clear();
        self.cursors.clear();
        self.writer.stream().set_write_timeout(self.shared.options.farewell_max)?;
        let message = format!("the client has not read its answer for {time:?}; the rest is left out");
        let report = Report::fatal(PROGRAM_LIMIT, message);
        self.writer.report(&report.with_hint("read faster, or ask for less at a time, as with a cursor"))?;
        self.writer.flush()
    }

    /// Whether the session continues when the client sends something.
    fn converse(&mut self) -> io::Result<bool> {
        // After an error the client's requests are passed over until it asks whether everything is done.
        let mut is_passing_over = false;
        loop {
            let may_rest = !is_passing_over && self.may_rest();
            let request = match self.next_request(may_rest) {
                Ok(Next::Rest) => {
                    // What answers a part of a batch: the next part may be answered on another thread.
                    self.writer.flush()?;
                    return Ok(true);
                }
                Ok(Next::Request(Request::Terminate)) => return Ok(false),
                Ok(Next::Request(request)) => request,
                Ok(Next::End | Next::Nothing) => return self.leave(),
                Err(report) => return self.end_with(&report),
            };
            // The system may still hand over what was sent to a session that has been ended.
            if self.is_ending() {
                return self.leave();
            }
            if let Err(report) = self.look_at_role() {
                return self.end_with(&report);
            }
            let (answered, is_simple) = match request {
                Request::Query(text) => {
                    is_passing_over = false;
                    (self.simple(&text), true)
                }
                Request::Sync => {
                    is_passing_over = false;
                    self.end_of_batch();
                    self.rest()?;
                    self.asked = None;
                    continue;
                }
                _ if is_passing_over => continue,
                request => (self.extended(request), false),
            };
            self.asked = None;
            match answered {
                Ok(()) => {}
                Err(Stop::Connection(error)) => return Err(error),
                Err(Stop::Gone) => return self.leave(),
                // The server cancels what its sessions wait for when it ends.
                Err(Stop::Report(report)) if report.code == QUERY_CANCELED && self.is_ending() => {
                    return self.leave();
                }
                Err(Stop::Report(report)) => {
                    if report.severity == Severity::Fatal {
                        return self.end_with(&report);
                    }
                    // Who knows that it has failed must not find it active: a cancellation would find nothing, too.
                    self.shared.connections.note(self.process, Activity::rest);
                    self.writer.report(&report)?;
                    // A client may wait for it before it says that its requests have ended.
                    self.writer.flush()?;
                    if self.transaction == TransactionStatus::Open {
                        self.transaction = TransactionStatus::Failed;
                    }
                    is_passing_over = !is_simple;
                }
            }
            if is_simple {
                self.end_of_batch();
                self.rest()?;
            }
        }
    }

    /// The client's turn.
    fn rest(&mut self) -> io::Result<()> {
        self.shared.connections.note(self.process, Activity::rest);
        self.writer.ready(self.transaction)
    }

    /// What the user may do can change while the session lasts.
    fn look_at_role(&mut self) -> std::result::Result<(), Report> {
        self.role = self.identity.role(&self.shared.runtime)?;
        self.session.set_opens_files(self.role == Role::Owner);
        self.session.set_opens_sources(self.role == Role::Owner);
        self.session.set_answers_in_batches(true);
        // Each sink runs by itself.
        self.session.set_checks_deadlines(true);
        self.session.set_runs_definitions(true);
        Ok(())
    }

    /// Portals live as long as the transaction, and without one as long as the requests that belong together.
    fn end_of_batch(&mut self) {
        if self.transaction == TransactionStatus::None {
            self.portals.clear();
            self.close_cursors();
            self.savepoints.clear();
        }
    }

    /// Whether the session ends, but not because its client wants it.
    fn is_ending(&self) -> bool {
        let connections = &self.shared.connections;
        connections.is_stopping() || connections.is_ended(self.process)
    }

    /// The sessions of the server. `acts`: what a statement calls to end them counts.
    pub(crate) fn sessions(&self, acts: bool) -> Sessions {
        Sessions {
            connections: Arc::clone(&self.shared.connections),
            own: self.process,
            user: self.settings.get("session_authorization").unwrap_or_default().to_owned(),
            is_owner: self.role == Role::Owner,
            acts,
        }
    }

    /// Tells the client why its session ends.
    fn end_with(&mut self, report: &Report) -> io::Result<bool> {
        self.writer.report(report)?;
        self.writer.flush()?;
        Ok(false)
    }

    fn leave(&mut self) -> io::Result<bool> {
        let connections = &self.shared.connections;
        let why = match (connections.is_stopping(), connections.is_ended(self.process)) {
            (true, _) => "the server is shutting down",
            (false, true) => "another session has ended this one",
            (false, false) => return Ok(false),
        };
        self.end_with(&Report::fatal(ADMIN_SHUTDOWN, why))
    }

    /// Executes the statements of a text, up to the first error. All of them are read before the first one is executed.
    fn simple(&mut self, text: &str) -> Result<()> {
        let pieces = tidemill_sql::divide(text, "query").map_err(|error| Report::of_reading(&error))?;
        if pieces.is_empty() {
            return Ok(self.writer.empty_query()?);
        }
        let wanted = pieces.iter().map(ClientStatement::read).collect::<std::result::Result<Vec<_>, _>>()?;
        for wanted in &wanted {
            self.within_time(|own| own.execute_and_answer(wanted))?;
        }
        Ok(())
    }

    fn execute_and_answer(&mut self, wanted: &ClientStatement) -> Result<()> {
        match self.execute(wanted)? {
            Answer::Done(tag) => self.writer.complete(&tag)?,
            Answer::Fetch(fetch) => self.fetch(fetch, false)?,
            Answer::Rows(mut rows) => {
                self.writer.columns(rows.columns(&[])?)?;
                self.write_rows(&mut rows, 0)?;
                let tag = rows.tag();
                self.writer.complete(&tag)?;
            }
        }
        Ok(())
    }

    /// Answers within the time that a statement may take. What is cancelled meanwhile is told so, whatever it has noticed first.
    fn within_time(&mut self, answer: impl FnOnce(&mut Self) -> Result<()>) -> Result<()> {
        let cancellation = self.session.cancellation();
        // A client that has gone cancels only what is being answered: what it sent before is still executed.
        let asked = self.asked.take().filter(|_| !self.inbox.has_ended());
        let requests = asked.as_ref().map_or_else(|| cancellation.requests(), |asked| asked.cancelled_before);
        self.cancelled_before = requests;
        self.session.count_cancellations_after(requests);
        if cancellation.requests() > requests {
            return Err(Report::error(QUERY_CANCELED, "the query was cancelled before it began").into());
        }
        let deadline = self.settings.statement_timeout().map(|time| {
            let waited = asked.map_or(Duration::ZERO, |asked| asked.since.elapsed());
            let time = time.saturating_sub(waited);
            self.shared.deadlines.begin(time, cancellation.clone()).map_err(|error| {
                Report::error(
                    INSUFFICIENT_RESOURCES,
                    format!("cannot start a thread for the time limit: {error}"),
                )
            })
        });
        let deadline = deadline.transpose()?;
        match answer(self) {
            Err(Stop::Report(_)) if deadline.as_ref().is_some_and(Deadline::is_past) => {
                let time = self.settings.get("statement_timeout").unwrap_or_default();
                let message = format!("the statement took longer than {time} and was cancelled");
                let report = Report::error(QUERY_CANCELED, message);
                Err(report
                    .with_hint("give it more time: SET statement_timeout = '1min', or 0 for no limit")
                    .into())
            }
            // What ends the session says more: the cancellation may come from it.
            Err(Stop::Report(report))
                if cancellation.requests() > requests
                    && report.code != QUERY_CANCELED
                    && report.severity != Severity::Fatal =>
            {
                Err(Report::error(QUERY_CANCELED, "the query was cancelled").into())
            }
            other => other,
        }
    }

    fn extended(&mut self, request: Request) -> Result<()> {
        self.within_time(|own| own.step(request))
    }

    fn step(&mut self, request: Request) -> Result<()> {
        match request {
            Request::Parse { name, text, types } => self.parse(name, &text, &types),
            Request::Bind(bind) => self.bind(bind),
            Request::Describe(target) => self.describe(&target),
            Request::Execute { portal, rows_max } => self.execute_portal(&portal, rows_max),
            Request::Close(target) => self.close(&target),
            Request::Flush => Ok(self.writer.flush()?),
            // It was sent before the client knew that its copy had failed.
            Request::CopyData(_) | Request::CopyDone | Request::CopyFail(_) => Ok(()),
            Request::Unknown(kind) => {
                let message = format!("messages of kind {kind} are not supported");
                Err(Report::fatal(PROTOCOL_VIOLATION, message).into())
            }
            Request::Query(_) | Request::Sync | Request::Terminate => Ok(()),
        }
    }
}
