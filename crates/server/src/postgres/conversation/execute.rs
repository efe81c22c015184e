//! Executes statements.

use tidemill_engine::arrow::array::RecordBatch;
use tidemill_service::Reply;
use tidemill_sql::{Parameter, Planner, Reply as Planned, Statement, StatementKind};

use super::answer::{Answer, Rows};
use super::client_statement::ClientStatement;
use super::own_statement::OwnStatement;
use super::savepoints::SavepointStatement;
use super::{Conversation, Result, Stop};
use crate::postgres::pg_catalog;
use crate::postgres::values::write_value;
use crate::postgres::wire::TransactionStatus;
use crate::report::{
    ACTIVE_TRANSACTION, IN_FAILED_TRANSACTION, INVALID_STATEMENT_NAME, NO_ACTIVE_TRANSACTION, NOT_SUPPORTED,
    QUERY_CANCELED, Report, SUCCESSFUL, UNDEFINED_SETTING,
};
use crate::running;
use crate::sessions::activity::Ending;
use crate::text_rows::{plan_rows, text_table};

impl Conversation<'_> {
    pub(super) fn execute(&mut self, wanted: &ClientStatement) -> Result<Answer> {
        let ends_transaction = matches!(
            wanted,
            ClientStatement::Own(
                OwnStatement::Commit
                    | OwnStatement::Rollback
                    | OwnStatement::Savepoint(SavepointStatement::RollbackTo(_))
            )
        );
        if self.transaction == TransactionStatus::Failed && !ends_transaction {
            let message =
                "a statement of this transaction has failed; end the transaction before the next statement";
            return Err(Report::error(IN_FAILED_TRANSACTION, message).with_hint("ROLLBACK").into());
        }
        self.identity.check(self.role, wanted.needed_role(&self.identity))?;
        if !wanted.is_answered_at_once() {
            self.slot.leave();
        }
        if let Some(text) = wanted.shown() {
            self.shared.connections.note(self.process, |activity| activity.execute(&text));
        }
        match wanted {
            ClientStatement::Own(own) => self.execute_own(own),
            ClientStatement::Statement(statement) => match statement.kind {
                StatementKind::Set { .. } => self.set_in_language(statement, false),
                _ => {
                    self.set_by_calls(statement)?;
                    self.execute_statement(statement)
                }
            },
            ClientStatement::Prepared(query, values) => self.execute_prepared_query(query, values),
            ClientStatement::Prepare(statement) => self.execute_prepare_statement(statement),
            ClientStatement::SetLocal(statement) => self.set_in_language(statement, true),
            ClientStatement::Copy(copy) => self.copy(copy),
            ClientStatement::Table(statement) => self.execute_table_statement(statement),
            ClientStatement::Insert(insert) => self.insert(insert),
            ClientStatement::Change(change) => self.change(change),
            ClientStatement::Cursor(cursor) => self.execute_cursor_statement(cursor),
        }
    }

    pub(super) fn execute_statement(&mut self, statement: &Statement) -> Result<Answer> {
        let is_definition = statement.kind.is_definition();
        if is_definition && self.transaction == TransactionStatus::Open {
            let message = "a definition takes effect at once, and ROLLBACK could not undo it";
            let report = Report::error(ACTIVE_TRANSACTION, message);
            return Err(report.with_hint("execute it outside of BEGIN and COMMIT (autocommit)").into());
        }
        self.execute_checked(statement)
    }

    /// Executes a statement that may be executed now.
    pub(super) fn execute_checked(&mut self, statement: &Statement) -> Result<Answer> {
        if let Some(mut planner) = self.catalogue_planner(statement, true) {
            return match planner.execute(statement).map_err(Report::from)? {
                Planned::Rows(rows) => Ok(Answer::Rows(Rows::ready(rows, "SELECT", &self.session)?)),
                _ => {
                    let message = "a query over PostgreSQL's catalogue cannot read a stream at the same time";
                    Err(Report::error(NOT_SUPPORTED, message).into())
                }
            };
        }
        if let Some(replaced) = running::replace(&mut self.session, statement) {
            self.writer.report(&replaced?)?;
            return Ok(Answer::Done(tag(&statement.kind)));
        }
        self.tell_of_stopped_views(statement)?;
        let reply = self.session.execute(statement).map_err(Report::from)?;
        self.answer_of(reply, statement)
    }

    /// Executes a query that may have been planned before.
    fn execute_prepared_query(&mut self, query: &Statement, values: &[Parameter]) -> Result<Answer> {
        self.tell_of_stopped_views(query)?;
        let reply = self.session.execute_with(query, values).map_err(Report::from)?;
        self.answer_of(reply, query)
    }

    fn tell_of_stopped_views(&mut self, statement: &Statement) -> Result<()> {
        for stopped in self.session.stopped_views(statement).map_err(Report::from)? {
            self.writer.report(&Report::notice(SUCCESSFUL, stopped))?;
        }
        Ok(())
    }

    /// The answer to a statement.
    fn answer_of(&mut self, reply: Reply, statement: &Statement) -> Result<Answer> {
        match reply {
            Reply::Done(done) if running::is_told(&statement.kind) => {
                self.writer.report(&Report::notice(SUCCESSFUL, done))?;
                Ok(Answer::Done(tag(&statement.kind)))
            }
            Reply::Done(text) => {
                if statement.kind.is_definition() {
                    if self.session.has_defined() {
                        self.session.follow(statement).map_err(Report::from)?;
                    }
                    if !self.session.has_defined() || running::takes_others_along(&statement.kind) {
                        // What exists already continues as it is.
                        self.writer.report(&Report::notice(SUCCESSFUL, text))?;
                    }
                }
                Ok(Answer::Done(tag(&statement.kind)))
            }
            Reply::Rows(rows) => {
                let word = if let StatementKind::Query(..) = statement.kind { "SELECT" } else { "SHOW" };
                Ok(Answer::Rows(Rows::ready(rows, word, &self.session)?))
            }
            Reply::Batches(batches) => Ok(Answer::Rows(Rows::computed(batches, &self.session))),
            Reply::Text(text) => {
                let rows = plan_rows(&text, statement.kind.is_explained_in_json());
                Ok(Answer::Rows(Rows::ready(rows, "EXPLAIN", &self.session)?))
            }
            Reply::Analyze(query) => self.analyze(query, statement.kind.is_explained_in_json()),
            Reply::Changes(changes) => Ok(Answer::Rows(Rows::changes(*changes, &self.session))),
            Reply::Query(query) => {
                if query.outputs().iter().any(|output| output.table_key.is_some()) {
                    return Err(Report::of_changing_answer().into());
                }
                self.slot.leave();
                if let Some(notice) = query.notice() {
                    self.writer.report(&Report::notice(SUCCESSFUL, notice.to_owned()))?;
                }
                let mut rows = Rows::coming(|| query.stream().map_err(Report::from), &self.session)?;
                // Who goes from here on cancels the query; who went before did not know of it.
                if self.inbox.has_ended() {
                    rows.abandon();
                    return Err(Stop::Gone);
                }
                // The query follows the requests to cancel it that come once it runs. One that came while it was planned counts, too.
                if self.session.cancellation().requests() > self.cancelled_before {
                    rows.abandon();
                    return Err(Report::error(QUERY_CANCELED, "the query was cancelled").into());
                }
                Ok(Answer::Rows(rows))
            }
        }
    }

    /// What plans a statement that names something of PostgreSQL's catalogue; `None` if it does not. `acts`: it is executed.
    pub(super) fn catalogue_planner(&mut self, statement: &Statement, acts: bool) -> Option<Planner> {
        match statement.kind {
            StatementKind::Query(..) => {
                if !pg_catalog::is_named_in(statement) {
                    return None;
                }
                let (sessions, open) = (self.sessions(acts), self.open_statements());
                pg_catalog::planner(&mut self.session, &self.settings, &sessions, &open, statement)
            }
            _ => None,
        }
    }

    fn execute_own(&mut self, own: &OwnStatement) -> Result<Answer> {
        let done = |tag: &str| Ok(Answer::Done(tag.to_owned()));
        match own {
            OwnStatement::Begin(tag) => {
                if self.transaction == TransactionStatus::Open {
                    self.warn(ACTIVE_TRANSACTION, "a transaction is already in progress")?;
                }
                if self.transaction == TransactionStatus::None {
                    self.session.begin_transaction();
                    self.begin_settings();
                }
                self.transaction = TransactionStatus::Open;
                done(tag)
            }
            OwnStatement::Commit | OwnStatement::Rollback => {
                if self.transaction == TransactionStatus::None {
                    self.warn(NO_ACTIVE_TRANSACTION, "no transaction is in progress")?;
                }
                let has_failed = self.transaction == TransactionStatus::Failed;
                self.transaction = TransactionStatus::None;
                let wants_commit = *own == OwnStatement::Commit && !has_failed;
                let committed =
                    if wants_commit { self.session.commit_changes().map_err(Report::from) } else { Ok(()) };
                self.session.end_transaction();
                let is_commit = wants_commit && committed.is_ok();
                self.end_settings(is_commit)?;
                if is_commit {
                    self.created_tables.clear();
                    self.take_in_inserted()?
                } else {
                    self.inserted.truncate(0);
                    self.drop_created_tables(0)?
                }
                committed?;
                done(if is_commit { "COMMIT" } else { "ROLLBACK" })
            }
            OwnStatement::Set { name, value, is_local } => {
                self.change_setting(name, value.as_deref(), *is_local)?;
                done(if value.is_some() { "SET" } else { "RESET" })
            }
            OwnStatement::ResetAll => {
                self.reset_settings()?;
                done("RESET")
            }
            OwnStatement::Show(name) => {
                let value = self.settings.get(name).unwrap_or_default().to_owned();
                self.shown(own, vec![vec![value]])
            }
            OwnStatement::ShowAll => {
                let (names, values): (Vec<String>, _) =
                    self.settings.all().map(|(name, value)| (name.to_owned(), value.to_owned())).unzip();
                let descriptions = vec![String::new(); names.len()];
                self.shown(own, vec![names, values, descriptions])
            }
            OwnStatement::ShowCreate(name) => match self.session.catalog().definition_of(name) {
                Some(text) => self.shown(own, vec![vec![name.clone()], vec![text]]),
                None => {
                    let report = Report::error("42P01", format!("there is no '{name}'"));
                    Err(report.with_hint("SHOW SOURCES, SHOW VIEWS and SHOW SINKS list what there is").into())
                }
            },
            OwnStatement::ShowQueries => self.shown_rows(own, self.shared.runtime.status_tables().queries),
            OwnStatement::ShowFragments => {
                self.shown_rows(own, self.shared.runtime.status_tables().fragments)
            }
            OwnStatement::ShowGateways => self.shown_rows(own, self.shared.runtime.status_tables().gateways),
            OwnStatement::ShowUsers => {
                let users = self.shared.runtime.users().into_iter();
                let (names, roles) = users.map(|user| (user.name, user.role.to_string())).unzip();
                self.shown(own, vec![names, roles])
            }
            OwnStatement::Savepoint(statement) => {
                self.execute_savepoint_statement(statement)?;
                done(statement.tag())
            }
            OwnStatement::User(statement) => {
                self.execute_user_statement(statement)?;
                done(statement.tag())
            }
            OwnStatement::Deallocate(Some(name)) => match self.statements.remove(name) {
                Some(_) => done("DEALLOCATE"),
                None => {
                    let message = format!("there is no prepared statement '{name}'");
                    Err(Report::error(INVALID_STATEMENT_NAME, message).into())
                }
            },
            OwnStatement::Deallocate(None) => {
                self.statements.clear();
                done("DEALLOCATE ALL")
            }
            OwnStatement::DiscardAll => {
                if self.transaction != TransactionStatus::None {
                    return Err(Report::error(
                        ACTIVE_TRANSACTION,
                        "DISCARD ALL cannot run inside a transaction",
                    )
                    .into());
                }
                self.statements.clear();
                self.portals.clear();
                self.cursors.clear();
                self.reset_settings()?;
                done("DISCARD ALL")
            }
            OwnStatement::ShowSessions => self.show_sessions(own),
            OwnStatement::Cancel(session) => self.cancel(*session),
            OwnStatement::Maintain(tag, relations) => {
                let known = self.session.names();
                match relations.iter().find(|relation| !known.contains(relation)) {
                    Some(unknown) => {
                        let message = format!("there is no source, table or view '{unknown}'");
                        Err(Report::error("42P01", message).into())
                    }
                    None => done(tag),
                }
            }
            OwnStatement::Nothing(tag) => done(tag),
        }
    }

    pub(super) fn warn(&mut self, code: &'static str, message: &str) -> Result<()> {
        Ok(self.writer.report(&Report::warning(code, message))?)
    }

    fn shown(&self, own: &OwnStatement, columns: Vec<Vec<String>>) -> Result<Answer> {
        let table = text_table(&own.columns().unwrap_or_default(), columns);
        Ok(Answer::Rows(Rows::ready(table, "SHOW", &self.session)?))
    }

    /// Rows of texts.
    fn shown_rows(&self, own: &OwnStatement, rows: Vec<Vec<String>>) -> Result<Answer> {
        let mut columns = vec![Vec::new(); own.columns().map_or(0, |columns| columns.len())];
        for row in rows {
            columns.iter_mut().zip(row).for_each(|(column, value)| column.push(value));
        }
        self.shown(own, columns)
    }

    /// Cancels what a session waits for.
    fn cancel(&self, session: i32) -> Result<Answer> {
        let ended = self.sessions(true).end(session.into(), Ending::Statement);
        if ended.map_err(tidemill_service::Error::from).map_err(Report::from)? {
            Ok(Answer::Done("CANCEL".to_owned()))
        } else {
            let report = Report::error(UNDEFINED_SETTING, format!("there is no session {session}"));
            Err(report.with_hint("SHOW SESSIONS").into())
        }
    }

    /// The sessions, and what they are doing.
    fn show_sessions(&self, own: &OwnStatement) -> Result<Answer> {
        let mut columns: [Vec<String>; 7] = Default::default();
        let sessions = self.sessions(false);
        for activity in self.shared.connections.activities() {
            let seconds = activity.since.elapsed().unwrap_or_default().as_secs_f64();
            let row = [
                activity.process.to_string(),
                activity.user.clone(),
                activity.application.clone(),
                activity.client(),
                activity.state().to_owned(),
                format!("{seconds:.3}"),
                sessions.statement_of(&activity),
            ];
            columns.iter_mut().zip(row).for_each(|(column, value)| column.push(value));
        }
        self.shown(own, columns.into())
    }

    /// Sends rows, at most `rows_max`; 0: all of them.
    pub(super) fn write_rows(&mut self, rows: &mut Rows, rows_max: usize) -> Result<()> {
        self.take_rows(rows, rows_max, Self::write_batch)
    }

    /// Takes rows, at most `rows_max`; 0: all of them. What is written is sent before anything is waited for.
    pub(super) fn take_rows(
        &mut self,
        rows: &mut Rows,
        rows_max: usize,
        mut use_batch: impl FnMut(&mut Self, &mut Rows, &RecordBatch) -> Result<()>,
    ) -> Result<()> {
        let mut left = rows_max;
        loop {
            while let Some(batch) = rows.take(left) {
                use_batch(self, rows, &batch)?;
                if rows_max > 0 {
                    left -= batch.num_rows();
                    if left == 0 {
                        return Ok(());
                    }
                }
            }
            // Who asks for some changes does not wait until there are as many.
            let is_enough = rows.is_subscription() && left < rows_max;
            if rows.is_over() || is_enough {
                return self.tell_of_missing_rows(rows);
            }
            self.look_at_client(rows)?;
            rows.advance()?;
        }
    }

    /// Says of how many rows the answer knows nothing, at its end.
    pub(super) fn tell_of_missing_rows(&mut self, rows: &mut Rows) -> Result<()> {
        match rows.take_notice() {
            Some(notice) => Ok(self.writer.report(&notice)?),
            None => Ok(()),
        }
    }

    /// Sends what is written before rows are waited for, and ends their query if the client has gone.
    pub(super) fn look_at_client(&mut self, rows: &mut Rows) -> Result<()> {
        // Many rows may wait long for a client that does not read, or come when they come.
        self.slot.leave();
        self.writer.flush()?;
        if self.inbox.has_ended() {
            rows.abandon();
            return Err(Stop::Gone);
        }
        Ok(())
    }

    fn write_batch(&mut self, rows: &mut Rows, batch: &RecordBatch) -> Result<()> {
        let columns = rows.columns(&[])?;
        let arrays = batch.columns();
        let fits = columns.len() == arrays.len()
            && columns.iter().zip(arrays).all(|(column, array)| column.kind.holds(array.data_type()));
        if !fits {
            return Err(
                Report::bug("the rows do not have the columns that were announced to the client").into()
            );
        }
        for row in 0..batch.num_rows() {
            self.writer.row(columns.len(), |index, bytes| {
                write_value(&columns[index], &arrays[index], row, bytes)
            })?;
        }
        Ok(())
    }
}

/// How a definition is answered.
fn tag(kind: &StatementKind) -> String {
    match kind {
        StatementKind::CreateSource(_) => "CREATE SOURCE",
        StatementKind::CreateTable(_) => "CREATE TABLE",
        StatementKind::CreateView(_) => "CREATE VIEW",
        StatementKind::CreateMaterializedView(_) => "CREATE MATERIALIZED VIEW",
        StatementKind::CreateProcess(_) => "CREATE PROCESS",
        StatementKind::CreatePlaces(_) => "CREATE PLACES",
        StatementKind::CreatePool(_) => "CREATE POOL",
        StatementKind::CreateSink(_) => "CREATE SINK",
        StatementKind::CreateFunction(_) => "CREATE FUNCTION",
        // With the numbers that clients expect: no row is in it yet.
        StatementKind::InsertInto { .. } => "INSERT 0 0",
        StatementKind::Stop(_) => "STOP",
        StatementKind::Start(_) => "START",
        StatementKind::Alter(alter) => return format!("ALTER {}", alter.kind.keyword()),
        StatementKind::AddColumns(_) => "ALTER SOURCE",
        StatementKind::Drop { kind, .. } => return format!("DROP {}", kind.keyword()),
        StatementKind::Set { .. } => "SET",
        StatementKind::Query(..) => "SELECT 0",
        StatementKind::Show(_) | StatementKind::Describe(_) => "SHOW",
        StatementKind::Subscribe(_) => "SUBSCRIBE 0",
        StatementKind::Explain { .. } | StatementKind::ExplainOutput(_) | StatementKind::ExplainWhy(_) => {
            "EXPLAIN"
        }
    }
    .to_owned()
}
