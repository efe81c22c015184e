//! The server's side of the sink: transactions, which are repeated if they are lost, and divided if a row is refused.

use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use tidemill_core::{Cause, Outage, SinkOutage};
use tokio::runtime::Runtime;
use tokio_postgres::Error;
use tokio_postgres::types::Type;
use tracing::warn;

use super::database::Database;
use super::failure::{Failure, open_failure, refused};
use super::prepared::{EncodedRow, PreparedRows, halves, messages_of};
use super::server_operation::ServerOperation;
use super::session::{RecordedCommit, Session};
use super::settings::PostgresSinkSettings;
use super::statements::Statements;
use super::stop::PostgresStop;
use crate::dead_letter::DeadLetter;

/// How often a waiting call checks whether it should stop.
const LOOK_INTERVAL: Duration = Duration::from_millis(50);
/// An answer may take this long before it is told.
const SILENCE_PATIENCE: Duration = Duration::from_secs(5);
const RETRY_FIRST: Duration = Duration::from_millis(100);
const RETRY_LONGEST: Duration = Duration::from_secs(5);

/// Everything on the server's side.
pub(super) struct Writer {
    /// `None` only while it is being dropped.
    pub runtime: Option<Runtime>,
    pub database: Database,
    pub settings: PostgresSinkSettings,
    pub statements: Statements,
    pub session: Option<Session>,
    pub run: i64,
    pub cycle: Option<i64>,
    pub stop: PostgresStop,
    pub outage: SinkOutage,
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.session = None;
        if let Some(runtime) = self.runtime.take() {
            // There is no wait for a name that is being looked up.
            runtime.shutdown_background();
        }
    }
}

impl Writer {
    /// Commits, with as many attempts as necessary; returns the rows that were refused and are now dead letters.
    pub fn write(&mut self, rows: &PreparedRows, cycle: u64) -> Result<Vec<DeadLetter>, Cause> {
        let number =
            i64::try_from(cycle).map_err(|_| Cause::bug(format!("cycle {cycle} is not to be reached")))?;
        let mut letters = Vec::new();
        self.with_retries(ServerOperation::Commit { cycle }, |writer| {
            writer.attempt(rows, number, &mut letters)
        })?;
        self.cycle = Some(number);
        Ok(letters)
    }

    /// Repeats what fails because the server is away, until it works or the time for it is over.
    pub fn with_retries<T>(
        &mut self,
        operation: ServerOperation,
        mut attempt: impl FnMut(&mut Writer) -> Result<T, Failure>,
    ) -> Result<T, Cause> {
        let (since, mut wait) = (Instant::now(), RETRY_FIRST);
        let mut outage = Outage::default();
        loop {
            let reason = match attempt(self) {
                Ok(done) => {
                    self.outage.over();
                    if let Some(report) = outage.over(Instant::now()) {
                        operation.log_recovery(&self.settings.sink, &self.database.server, report);
                    }
                    return Ok(done);
                }
                Err(Failure::Lost(reason)) => reason,
                Err(failure) => return Err(failure.into_cause(&self.database.server)),
            };
            self.session = None;
            self.outage.failed(&format!("PostgreSQL at {}: {reason}", self.database.server));
            if let Some(report) = outage.failed(Instant::now()) {
                let place = (self.settings.sink.as_str(), self.database.server.as_str());
                operation.log_failure(place, report, &reason, self.settings.retry_for);
            }
            if since.elapsed() + wait >= self.settings.retry_for {
                let cause = Cause::operation(format!(
                    "PostgreSQL at {}: {reason}; gave up after {} s (retry_for)",
                    self.database.server,
                    since.elapsed().as_secs()
                ));
                return Err(reason.explains(cause));
            }
            self.sleep(wait).map_err(|failure| failure.into_cause(&self.database.server))?;
            wait = (wait * 2).min(RETRY_LONGEST);
        }
    }

    fn sleep(&self, wait: Duration) -> Result<(), Failure> {
        let start = Instant::now();
        while start.elapsed() < wait {
            if self.stop.is_stopped() {
                return Err(self.stopped());
            }
            std::thread::sleep(LOOK_INTERVAL.min(wait));
        }
        Ok(())
    }

    fn stopped(&self) -> Failure {
        let text = format!(
            "PostgreSQL at {}: the query was stopped before the database answered",
            self.database.server
        );
        Failure::Final(Cause::operation(text))
    }

    /// `letters` receives the refused rows; it stays unchanged if an earlier attempt had gone through.
    fn attempt(
        &mut self,
        rows: &PreparedRows,
        cycle: i64,
        letters: &mut Vec<DeadLetter>,
    ) -> Result<(), Failure> {
        if self.session.is_none() {
            let (session, found) = self.reconnect()?;
            self.session = Some(session);
            if found == Some(RecordedCommit { run: self.run, cycle: Some(cycle) }) {
                // The commit had gone through, only the answer was lost.
                return Ok(());
            }
            if found != Some(RecordedCommit { run: self.run, cycle: self.cycle }) {
                return Err(Failure::Final(self.fenced()));
            }
        }
        let Some(session) = &self.session else {
            return Err(Failure::Lost("not connected".to_owned().into()));
        };
        self.transaction(session, rows, cycle, letters)
    }

    /// A new connection, and what the database has recorded about this sink.
    fn reconnect(&self) -> Result<(Session, Option<RecordedCommit>), Failure> {
        self.wait_for(self.settings.answer_wait, async {
            let mut session = Session::connect(&self.database).await?;
            // Waits for the transaction of the lost connection, if it still exists.
            let found = session.noted(&self.statements.look()).await?;
            session.prepare(&self.statements).await?;
            Ok((session, found))
        })
    }

    fn transaction(
        &self,
        session: &Session,
        rows: &PreparedRows,
        cycle: i64,
        letters: &mut Vec<DeadLetter>,
    ) -> Result<(), Failure> {
        *letters = rows.refused();
        if !letters.is_empty() {
            self.make_room_for_letters(session)?;
        }
        self.begin(session, cycle)?;
        let put = self.put(session, &rows.messages());
        match put.and_then(|()| self.end(session, letters)) {
            Err(Failure::Refused(_)) => {}
            done => return done,
        }
        self.execute(session, "ROLLBACK")?;
        self.make_room_for_letters(session)?;
        self.begin(session, cycle)?;
        // A check at the end only would not say which row it concerns.
        self.execute(session, "SET CONSTRAINTS ALL IMMEDIATE")?;
        self.put_in_parts(session, &rows.rows(), letters)?;
        letters.sort_by_key(|letter| (letter.cycle, letter.position));
        self.end(session, letters)
    }

    fn begin(&self, session: &Session, cycle: i64) -> Result<(), Failure> {
        let begin = self.statements.begin(self.run, self.cycle, cycle);
        if self.wait_for(self.settings.answer_wait, session.begin(&begin))? {
            Ok(())
        } else {
            Err(Failure::Final(self.fenced()))
        }
    }

    fn end(&self, session: &Session, letters: &[DeadLetter]) -> Result<(), Failure> {
        if let (false, Some(insert)) = (letters.is_empty(), self.statements.insert_dead_letters()) {
            self.wait_for(self.settings.answer_wait, session.insert_letters(&insert, letters))?;
        }
        self.execute(session, "COMMIT")
    }

    fn put(&self, session: &Session, messages: &[Bytes]) -> Result<(), Failure> {
        if messages.is_empty() {
            return Ok(());
        }
        self.copy(session, messages)?;
        match self.statements.upsert() {
            Some(upsert) => self.execute(session, &upsert),
            None => Ok(()),
        }
    }

    /// Writes the rows that the server accepts, in order; the others go to `letters`. If there is no table for them,
    /// it fails with the first one. They are found by bisection, so that each costs about as many statements as the
    /// number of rows has binary digits.
    fn put_in_parts(
        &self,
        session: &Session,
        rows: &[EncodedRow<'_>],
        letters: &mut Vec<DeadLetter>,
    ) -> Result<(), Failure> {
        let savepoint = match self.statements.upsert() {
            None => "SAVEPOINT tidemill_part",
            // What an earlier part gathered is in the table already.
            Some(_) => "SAVEPOINT tidemill_part; TRUNCATE pg_temp.tidemill_rows",
        };
        let all = 0..rows.len();
        let mut left = vec![all];
        while let Some(range) = left.pop() {
            self.execute(session, savepoint)?;
            let reason = match self.put(session, &messages_of(&rows[range.clone()])) {
                Ok(()) => {
                    self.execute(session, "RELEASE SAVEPOINT tidemill_part")?;
                    continue;
                }
                Err(Failure::Refused(reason)) => reason,
                Err(other) => return Err(other),
            };
            self.execute(session, "ROLLBACK TO SAVEPOINT tidemill_part; RELEASE SAVEPOINT tidemill_part")?;
            match range.len() {
                0 | 1 if self.statements.dead_letters.is_none() => {
                    let row = rows[range].first().map(|row| row.refused(&reason.to_string()).refused_row());
                    return Err(Failure::Final(refused(reason, row)));
                }
                0 | 1 => letters.extend(rows[range].iter().map(|row| row.refused(&reason.to_string()))),
                _ => left.extend(halves(&range)),
            }
        }
        Ok(())
    }

    /// Creates the table for refused rows if it does not exist. This happens outside of a transaction, because two
    /// sinks may do it at once.
    fn make_room_for_letters(&self, session: &Session) -> Result<(), Failure> {
        let Some((table, create)) =
            self.statements.dead_letters.as_ref().zip(self.statements.create_dead_letters())
        else {
            return Ok(());
        };
        let exists = self.statements.exists(table);
        let made = async { Ok(session.create_absent(&exists, &create).await?) };
        self.wait_for(self.settings.answer_wait, made).map_err(|failure| match failure {
            Failure::Lost(reason) => Failure::Lost(reason),
            other => {
                let cause = other.into_cause(&self.database.server);
                let text = format!(
                    "a row was refused, and the table {table} for such rows does not exist and cannot be \
                     created ({cause}); create it with: {create}"
                );
                Failure::Final(Cause::user(text).with_source(cause))
            }
        })
    }

    fn execute(&self, session: &Session, statement: &str) -> Result<(), Failure> {
        self.wait_for(self.settings.answer_wait, session.execute(statement))
    }

    /// Sends the rows; the time limit for an answer restarts with each message.
    fn copy(&self, session: &Session, rows: &[Bytes]) -> Result<(), Failure> {
        let steps = AtomicU64::new(0);
        let copy = session.copy(rows, || {
            steps.fetch_add(1, Ordering::Relaxed);
        });
        self.wait_while(self.settings.answer_wait, &steps, copy)
    }

    fn fenced(&self) -> Cause {
        Cause::user(format!(
            "another run is writing to this sink: '{}' in tidemill_commits of PostgreSQL at {} was taken over \
             or changed; end one of the runs, or give each sink its own name",
            self.settings.sink, self.database.server
        ))
    }

    fn wait_for<T>(
        &self,
        limit: Duration,
        step: impl Future<Output = Result<T, Failure>>,
    ) -> Result<T, Failure> {
        self.wait_while(limit, &AtomicU64::new(0), step)
    }

    /// Waits for a step, until it has made no progress for `limit`, or the sink is told to stop.
    fn wait_while<T>(
        &self,
        limit: Duration,
        progress: &AtomicU64,
        step: impl Future<Output = Result<T, Failure>>,
    ) -> Result<T, Failure> {
        let Some(runtime) = &self.runtime else { return Err(Failure::Lost("closed".to_owned().into())) };
        runtime.block_on(async {
            let mut step = pin!(step);
            let (mut since, mut seen) = (Instant::now(), 0);
            let mut silence = Outage::longer_than(SILENCE_PATIENCE);
            loop {
                if let Ok(done) = tokio::time::timeout(LOOK_INTERVAL, &mut step).await {
                    if let (Some(told), Ok(_)) = (silence.over(Instant::now()), &done) {
                        let (sink, server) = (&self.settings.sink, &self.database.server);
                        warn!(sink, server, after = ?told.lasted, "PostgreSQL has answered");
                    }
                    return done;
                }
                if let Some(told) = silence.failed(Instant::now()) {
                    self.outage.failed(&format!(
                        "PostgreSQL at {} does not answer (is the table locked?)",
                        self.database.server
                    ));
                    warn!(
                        sink = self.settings.sink, server = self.database.server, lasted = ?told.lasted,
                        "PostgreSQL does not answer; the sink waits (is the table locked?)"
                    );
                }
                let now = progress.load(Ordering::Relaxed);
                if now != seen {
                    (since, seen) = (Instant::now(), now);
                    silence = Outage::longer_than(SILENCE_PATIENCE);
                }
                if self.stop.is_stopped() {
                    return Err(self.stopped());
                }
                if since.elapsed() >= limit {
                    return Err(Failure::Lost(format!("no answer for {} s", limit.as_secs_f64()).into()));
                }
            }
        })
    }

    /// Opens the first session: creates missing tables, and takes over the sink's name from an earlier run, once the
    /// table's columns have passed the `check`.
    pub fn open<T>(
        &mut self,
        check: impl FnOnce(&[(String, Type)]) -> Result<T, Cause>,
    ) -> Result<T, Failure> {
        let mut session = self.open_step(Session::connect(&self.database))?;
        let table = self.open_step(session.tables(&self.statements, self.settings.create))?;
        let checked = check(&table).map_err(Failure::Final)?;
        if self.settings.must_be_empty && self.open_step(session.is_true(&self.statements.has_rows()))? {
            return Err(Failure::Final(has_rows(&self.settings.table)));
        }
        self.open_step(session.prepare(&self.statements))?;
        let take_over = self.statements.take_over(self.settings.resume);
        let RecordedCommit { run, cycle } = self.open_step(session.noted(&take_over))?.unwrap_or_default();
        (self.session, self.run, self.cycle) = (Some(session), run, cycle);
        Ok(checked)
    }

    /// Waits for one of the steps that open the sink.
    pub fn open_step<T>(&self, step: impl Future<Output = Result<T, Error>>) -> Result<T, Failure> {
        let step = async { step.await.map_err(|error| open_failure(error, &self.database.server)) };
        self.wait_for(self.settings.answer_wait, step)
    }
}

fn has_rows(table: &str) -> Cause {
    Cause::user(format!(
        "table '{table}' has rows, and the rows of another query are not mixed with them; name a table that is empty \
         or does not exist yet"
    ))
}
