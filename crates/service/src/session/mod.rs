//! One connection: its settings, its transaction, its cancellation.

mod adding_columns;
mod changing_tables;
mod dispatch;
mod following;
mod live_sources;
mod plans;
mod pushing;
mod subscribing;
mod table_transaction;
mod why;

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use tidemill_engine::Cause;
use tidemill_engine::arrow::array::RecordBatch;
use tidemill_engine::arrow::schema::SchemaRef;
use tidemill_sql::{
    Catalog, ClientTable, Opened, OptionGroup, ParameterType, Pipeline, Planner, PushTarget, Settings,
    ShowKind, Statement, StatementKind, TableChange, Turns,
};

pub use self::changing_tables::Changed;
use self::changing_tables::TableChanger;
pub use self::pushing::chosen_columns;
use self::pushing::{push_target, wait_for_pushed};
pub use self::table_transaction::TableSavepoint;
use self::table_transaction::TableTransaction;
use crate::catalog::transaction::Transaction;
use crate::lifecycle::gateway_lifecycle::GatewayLifecycle;
use crate::lifecycle::query_lifecycle::QueryLifecycle;
use crate::lifecycle::replacement::{ReplacementOutcome, replaced_by};
use crate::runtime::execution::Execution;
use crate::runtime::planned_query::Query;
use crate::runtime::readers::{SessionTurns, planning};
use crate::runtime::subscription::Subscription;
use crate::runtime::unread::UnreadRows;
use crate::{Cancellation, Error, Refused, Runtime};

/// The result of a statement of a session.
pub type Reply = tidemill_sql::Reply<Query, Box<Subscription>>;

/// One connection to a [`Runtime`]: its settings, its transaction, its cancellation. Definitions are seen by all
/// sessions of the runtime, settings by this one only.
///
/// Dropping a session does not end what runs by name.
///
/// ```
/// use tidemill_service::{Reply, Runtime, Session};
/// use tidemill_sql::{Planner, parse};
///
/// let runtime = Runtime::new(Planner::new());
/// let (mut one, mut other) = (Session::new(&runtime), Session::new(&runtime));
/// let run = |session: &mut Session, text| {
///     parse(text, "example").unwrap().iter().map(|statement| session.execute(statement).unwrap()).last().unwrap()
/// };
/// run(&mut one, "SET partitions = 4; CREATE VIEW small AS SELECT value FROM sequence(count => 3)");
/// assert_eq!((one.settings().partitions, other.settings().partitions), (4, 16));
/// let Reply::Query(query) = run(&mut other, "SELECT * FROM small") else { panic!("it is a query") };
/// assert_eq!(query.stream().unwrap().map(|batch| batch.unwrap().num_rows()).sum::<usize>(), 3);
/// ```
pub struct Session {
    runtime: Runtime,
    /// Plans against the version of the catalogue that the last statement found.
    pub(crate) planner: Planner,
    cancellation: Cancellation,
    /// Its planner has the same.
    pub(crate) turns: Arc<SessionTurns>,
    /// Whether its queries stop at what cannot be done as it was asked for.
    is_strict: bool,
    opens_sources: bool,
    runs_definitions: bool,
    has_defined: bool,
    transaction: Transaction,
    /// The tables that it changes.
    tables: TableTransaction,
    /// The sources that it has given rows since it waited for them last.
    pushed: BTreeSet<String>,
}

impl Session {
    /// Opens a connection to a runtime.
    pub fn new(runtime: &Runtime) -> Session {
        let cancellation = Cancellation::default();
        let mut planner = Planner::at(runtime.catalog(), runtime.defaults().clone());
        let turns = runtime.turns(&cancellation);
        planner.set_turns(turns.clone());
        planner.set_paths_in(runtime.paths_in().map(Path::to_owned));
        Session {
            runtime: runtime.clone(),
            planner,
            cancellation,
            turns,
            is_strict: false,
            opens_sources: true,
            runs_definitions: false,
            has_defined: false,
            transaction: Transaction::default(),
            tables: TableTransaction::new(runtime.tables()),
            pushed: BTreeSet::new(),
        }
    }

    /// From here on, until [`end_transaction`](Session::end_transaction), all queries read the materialized views at one cycle:
    /// the newest that all views have when the first of them is planned. Definitions are not part of transactions.
    pub fn begin_transaction(&mut self) {
        self.transaction.begin();
    }

    /// Queries read the views as they are again. What was not [committed](Session::commit_changes) is undone.
    pub fn end_transaction(&mut self) {
        self.tables.roll_back();
        self.transaction.end();
    }

    /// Counts what the transaction holds of views that they have dropped or replaced since it began, without as much of it as its cursors
    /// have counted. To be called now and then while it has nothing to do.
    ///
    /// ```
    /// use tidemill_service::{Runtime, Session};
    /// use tidemill_sql::Planner;
    /// let mut session = Session::new(&Runtime::new(Planner::new()));
    /// session.begin_transaction();
    /// assert!(session.count_outlived_rows(0).is_ok(), "it has read nothing yet");
    /// ```
    ///
    /// # Errors
    /// If that is more than readers may hold.
    pub fn count_outlived_rows(&mut self, counted: u64) -> Result<(), Cause> {
        let readers = self.planner.settings().memory_of_readers();
        self.transaction.count_outlived_rows(counted, readers)
    }

    /// Its transaction has something to do again: its queries count what they hold.
    pub fn forget_outlived_rows(&mut self) {
        self.transaction.forget_outlived_rows();
    }

    /// The catalogue against which the next query is planned: the newest version, or that of the transaction.
    pub fn catalog(&mut self) -> Catalog {
        self.catalog_at().1
    }

    /// As `catalog`, with the number of times that it had changed by then.
    fn catalog_at(&mut self) -> (u64, Catalog) {
        let (changes, mut catalog) = self.transaction.catalog(self.runtime.catalog_store());
        // What cannot be attached is told by the next change.
        let _ = self.tables.attach(&mut catalog);
        (changes, catalog)
    }

    /// Whether it is in a transaction.
    pub(crate) fn is_in_transaction(&self) -> bool {
        self.transaction.is_begun()
    }

    /// From here on, the queries of its transaction read the views at the newest cycle.
    pub(crate) fn read_newest(&mut self) {
        if self.transaction.is_begun() {
            self.transaction.begin();
        }
    }

    /// How long it waits for a transaction that changes the same table; `None`: until that has ended.
    pub fn set_lock_timeout(&mut self, time_max: Option<std::time::Duration>) {
        self.tables.lock_time_max = time_max;
    }

    /// Returns the table of this name, if it is one whose rows clients change.
    pub fn client_table(&self, name: &str) -> Option<ClientTable> {
        ClientTable::of(&self.runtime.catalog(), name)
    }

    /// Executes a statement that changes a table: at once, or as part of the session's transaction. A statement that fails changes nothing.
    ///
    /// # Errors
    /// Why it cannot be executed.
    pub fn change(&mut self, change: &TableChange) -> Result<Changed, Error> {
        TableChanger(self).change(change)
    }

    /// Adds rows to a table: those of a `COPY`, which have these columns of the table.
    ///
    /// # Errors
    /// Why it cannot.
    pub fn add_to_table(
        &mut self,
        table: &ClientTable,
        batches: &[RecordBatch],
        places: &[usize],
    ) -> Result<usize, Error> {
        TableChanger(self).add(table, batches, places)
    }

    /// The columns of what a change gives back; `None` if it gives nothing back.
    ///
    /// # Errors
    /// If it cannot be executed.
    pub fn columns_of_change(&mut self, change: &TableChange) -> Result<Option<SchemaRef>, Error> {
        TableChanger(self).columns(change)
    }

    /// The types of a change's parameters: those that are given, otherwise those of the columns whose values they are, otherwise those
    /// that its queries imply, otherwise texts.
    pub fn parameters_of_change(
        &mut self,
        change: &TableChange,
        given: &[Option<ParameterType>],
    ) -> Vec<ParameterType> {
        TableChanger(self).parameters(change, given)
    }

    /// Waits until the views that a query reads have what this session has changed, and the rows that it has pushed.
    pub(crate) fn wait_for_own_changes(&mut self, statement: &Statement) -> Result<(), Error> {
        wait_for_pushed(self);
        TableChanger(self).wait(statement)
    }

    /// Commits what the session's transaction has changed.
    ///
    /// # Errors
    /// If it cannot; then nothing of it counts.
    pub fn commit_changes(&mut self) -> Result<(), Error> {
        let runtime = self.runtime().clone();
        self.tables.commit(&runtime)
    }

    /// Undoes what the session's transaction has changed.
    pub fn roll_back_changes(&mut self) {
        self.tables.roll_back();
    }

    /// The point where the session's transaction is.
    pub fn table_savepoint(&self) -> TableSavepoint {
        self.tables.savepoint()
    }

    /// Undoes what the session's transaction has changed since a point.
    ///
    /// # Errors
    /// If it cannot.
    pub fn return_to_table_savepoint(&mut self, point: &TableSavepoint) -> Result<(), Error> {
        self.tables.return_to(point)
    }

    /// Its runtime.
    pub fn runtime(&self) -> &Runtime {
        &self.runtime
    }

    /// Its settings.
    pub fn settings(&self) -> &Settings {
        self.planner.settings()
    }

    /// Its settings, for modification.
    pub fn settings_mut(&mut self) -> &mut Settings {
        self.planner.settings_mut()
    }

    /// Its settings become what they were when it began.
    pub fn reset_settings(&mut self) {
        *self.planner.settings_mut() = self.runtime.defaults().clone();
    }

    /// Whether its queries stop at the first row that cannot be used, result that does not fit, or row that a sink rejects.
    /// Otherwise these are counted, and the query continues.
    pub fn set_strict(&mut self, is_strict: bool) {
        self.is_strict = is_strict;
    }

    /// See [`set_strict`](Session::set_strict).
    pub fn is_strict(&self) -> bool {
        self.is_strict
    }

    /// Whether its queries may name files of this machine in place of relations; see
    /// [`Planner::set_opens_files`](tidemill_sql::Planner::set_opens_files).
    pub fn set_opens_files(&mut self, opens_files: bool) {
        self.planner.set_opens_files(opens_files);
    }

    /// See [`set_opens_files`](Session::set_opens_files).
    pub fn opens_files(&self) -> bool {
        self.planner.opens_files()
    }

    /// Whether its queries may open sources whose rows come once: others, which would have taken them, do not get these rows.
    /// Sources that queries of the database have open can be read in any case.
    pub fn set_opens_sources(&mut self, opens_sources: bool) {
        self.opens_sources = opens_sources;
    }

    /// See [`set_opens_sources`](Session::set_opens_sources).
    pub fn opens_sources(&self) -> bool {
        self.opens_sources
    }

    /// Whether large answers of views and tables are computed as they are taken; see
    /// [`Planner::set_answers_in_batches`](tidemill_sql::Planner::set_answers_in_batches).
    pub fn set_answers_in_batches(&mut self, answers_in_batches: bool) {
        self.planner.set_answers_in_batches(answers_in_batches);
    }

    /// Whether a definition is refused that breaks the deadline of a sink; see
    /// [`Planner::set_checks_deadlines`](tidemill_sql::Planner::set_checks_deadlines).
    pub fn set_checks_deadlines(&mut self, checks_deadlines: bool) {
        self.planner.set_checks_deadlines(checks_deadlines);
    }

    /// Whether a materialized view, or a sink with an input, is started under its own name as soon as it is defined. Its query is
    /// announced together with the definition: if the process is killed before it has started, it starts with the database. If it
    /// cannot be started, it is to be [withdrawn](Runtime::withdraw).
    pub fn set_runs_definitions(&mut self, runs_definitions: bool) {
        self.runs_definitions = runs_definitions;
    }

    /// Whether the last statement was a definition that counts. `CREATE ... IF NOT EXISTS` of a materialized view or a sink that exists
    /// does not.
    pub fn has_defined(&self) -> bool {
        self.has_defined
    }

    /// Cancels the query that it waits for, from any thread.
    pub fn cancellation(&self) -> Cancellation {
        self.cancellation.clone()
    }

    /// The turns of its queries that are answered at once, with those of all sessions; for a planner that works for it.
    pub fn turns(&self) -> Arc<dyn Turns> {
        self.runtime.turns(&self.cancellation)
    }

    /// From now on, its queries ignore the first `requests` requests to cancel, and no others: a statement that has waited for its thread is
    /// cancelled by what came meanwhile. Otherwise each query counts from its own beginning.
    ///
    /// ```
    /// use tidemill_service::{Runtime, Session};
    /// use tidemill_sql::Planner;
    /// let session = Session::new(&Runtime::new(Planner::new()));
    /// session.count_cancellations_after(session.cancellation().requests());
    /// ```
    pub fn count_cancellations_after(&self, requests: u32) {
        self.turns.count_cancellations_after(requests);
    }

    /// What is called, on the thread that computes, when a query of its is planned and computed for some milliseconds already; once for each
    /// query. Whoever answers many sessions on a few threads begins something else then.
    ///
    /// ```
    /// use tidemill_service::{Runtime, Session};
    /// use tidemill_sql::Planner;
    /// let mut session = Session::new(&Runtime::new(Planner::new()));
    /// session.set_when_long(Some(std::sync::Arc::new(|| println!("this takes long"))));
    /// ```
    pub fn set_when_long(&mut self, hook: Option<Arc<dyn Fn() + Send + Sync>>) {
        self.turns.set_when_long(hook);
    }

    /// Rows that its client has not read, none yet. Whoever sends rows says how much of them there is; what waits within a
    /// [`RowStream`] is counted there.
    pub fn unread_rows(&self) -> UnreadRows {
        UnreadRows::new(self.settings().memory_of_readers(), self.runtime.unread())
    }

    /// The session does nothing for some time, and keeps no version of the catalogue: the rows of views that are dropped meanwhile
    /// would stay in memory.
    pub fn rest(&mut self) {
        let nothing = self.planner.catalog().without_definitions();
        self.planner.set_catalog(nothing);
    }

    /// The types of a statement's parameters: those that are given, otherwise those that the statement implies, otherwise
    /// texts.
    pub fn parameter_types(
        &mut self,
        statement: &Statement,
        given: &[Option<ParameterType>],
    ) -> Vec<ParameterType> {
        self.refresh();
        self.planner.parameter_types(statement, given)
    }

    /// The columns of the rows that a statement gives, whose parameters have values; `None` if it gives no rows.
    ///
    /// # Errors
    /// The error, with its place.
    pub fn columns(&mut self, statement: &Statement) -> Result<Option<SchemaRef>, Error> {
        if let StatementKind::Subscribe(name) = &statement.kind {
            return Ok(Some(subscribing::columns(&self.runtime, name, statement)?));
        }
        let turns = Arc::clone(&self.turns);
        let _planning = planning(&turns, statement)?;
        self.refresh();
        Ok(self.planner.columns(statement)?)
    }

    /// Plans against the newest version of the catalogue from here on, or against that of the transaction. Returns how often the
    /// catalogue had changed by then.
    pub(crate) fn refresh(&mut self) -> u64 {
        let (changes, catalog) = self.catalog_at();
        self.planner.set_catalog(catalog);
        changes
    }

    /// Everything that the sinks and materialized views of the catalogue request, planned to run together with the settings
    /// of this session; `None` if there is nothing. [`Runtime::start`] runs it.
    ///
    /// # Errors
    /// If the queries cannot run together.
    pub fn pipeline(&mut self) -> Result<Option<Pipeline>, Error> {
        self.planner.set_catalog(self.runtime.defined_catalog());
        Ok(self.planner.pipeline()?)
    }

    /// As [`pipeline`](Session::pipeline), with these sinks and materialized views only.
    ///
    /// # Errors
    /// If there is no such sink or view, or the queries cannot run together.
    pub fn pipeline_of(&mut self, names: &[&str]) -> Result<Pipeline, Error> {
        self.planner.set_catalog(self.runtime.defined_catalog());
        Ok(self.planner.pipeline_of(names)?)
    }

    /// As [`pipeline_of`](Session::pipeline_of) for one sink or view, in a folder of its own in the journal of the database.
    ///
    /// # Errors
    /// As `pipeline_of`.
    pub fn pipeline_by_itself(&mut self, name: &str) -> Result<Pipeline, Error> {
        self.lifecycle().pipeline_by_itself(name)
    }

    /// Returns what starts, stops, replaces and alters queries with the settings of this session.
    pub(crate) fn lifecycle(&mut self) -> QueryLifecycle<'_> {
        let (runtime, cancellation) = (&self.runtime, &self.cancellation);
        QueryLifecycle { runtime, planner: &mut self.planner, cancellation, is_strict: self.is_strict }
    }

    /// The same for views with parts at gateways.
    fn lifecycle_at_gateways(&self) -> GatewayLifecycle<'_> {
        let (runtime, cancellation) = (&self.runtime, &self.cancellation);
        GatewayLifecycle { runtime, settings: self.settings(), cancellation, is_strict: self.is_strict }
    }

    /// Returns the view or sink that a statement replaces, if a query writes to it that was started for it alone.
    pub fn replaces<'a>(&self, statement: &'a Statement) -> Option<&'a str> {
        replaced_by(&self.runtime, statement)
    }

    /// Executes a statement that [replaces](Session::replaces) a view or sink, and lets a query with the new definition take the
    /// place of the one that runs. A view is read as it was until the new query has caught up; then its new rows are read, and
    /// the old query ends. If anything fails before that, or the session is cancelled, all stays as it was.
    ///
    /// # Errors
    /// The error, with its place; or why the new query cannot take the place.
    ///
    /// ```
    /// use tidemill_service::{ReplacementOutcome, Runtime, Session};
    /// use tidemill_sql::{Planner, parse};
    /// let runtime = Runtime::new(Planner::new());
    /// let mut session = Session::new(&runtime);
    /// let statement = |text: &str| parse(text, "example").unwrap().remove(0);
    /// session.execute(&statement("CREATE MATERIALIZED VIEW n AS SELECT value FROM sequence(rate => 100)")).unwrap();
    /// let pipeline = session.pipeline_of(&["n"]).unwrap();
    /// runtime.start("n", pipeline, false).unwrap();
    /// let again = statement("CREATE OR REPLACE MATERIALIZED VIEW n AS SELECT value + 1 AS m FROM sequence(rate => 100)");
    /// assert_eq!(session.replaces(&again), Some("n"));
    /// assert_eq!(session.replace(&again).unwrap(), ReplacementOutcome::Nothing);
    /// assert_eq!(runtime.views("n").unwrap()[0].read().unwrap().schema().field(0).name(), "m");
    /// ```
    pub fn replace(&mut self, statement: &Statement) -> Result<ReplacementOutcome, Error> {
        self.lifecycle().replace(statement)
    }

    /// Returns whether a statement replaces a view with parts at gateways.
    pub fn replaces_at_gateways(&self, statement: &Statement) -> bool {
        self.lifecycle_at_gateways().replaces(statement)
    }

    /// Executes a statement that [replaces](Session::replaces_at_gateways) a view, at all gateways that have parts of it or at none.
    /// Returns what becomes of its rows at each.
    ///
    /// # Errors
    /// The error, with its place; or why a gateway cannot replace its part.
    pub fn replace_at_gateways(&mut self, statement: &Statement) -> Result<String, Error> {
        self.lifecycle_at_gateways().replace(statement)
    }

    /// Runs a view at its gateways, with the settings of this session; see [`Runtime::is_at_gateways`].
    ///
    /// # Errors
    /// If a gateway does not begin, or cannot run its part: it tries again each time that it is started.
    pub fn start_at_gateways(&self, view: &str) -> Result<(), Cause> {
        self.lifecycle_at_gateways().start(view)
    }

    /// Returns what is to be said about the rows of a query's answer: which of the materialized views that it reads are stopped, or have
    /// failed.
    ///
    /// # Errors
    /// If the rows of one of them are not there.
    pub fn stopped_views(&self, statement: &Statement) -> Result<Vec<String>, Error> {
        Ok(self.runtime.notices_of_views(statement)?)
    }

    /// Starts a pipeline that this session waits for.
    ///
    /// # Errors
    /// If it cannot be started.
    pub fn run(&self, opened: Opened) -> Result<Execution, Error> {
        Ok(Execution::new(opened.start()?, self.cancellation(), self.is_strict))
    }

    /// Starts what the definition that was executed last has added, under its name, and ends what it has replaced or dropped.
    ///
    /// ```
    /// use tidemill_service::{Runtime, Session};
    /// use tidemill_sql::{Planner, parse};
    /// let runtime = Runtime::new(Planner::new());
    /// let mut session = Session::new(&runtime);
    /// let text = "CREATE MATERIALIZED VIEW small AS SELECT value FROM sequence(count => 3)";
    /// let statement = parse(text, "example").unwrap().remove(0);
    /// session.execute(&statement).unwrap();
    /// session.follow(&statement).unwrap();
    /// runtime.wait("small").unwrap();
    /// ```
    ///
    /// # Errors
    /// If its query cannot be started. The definition stays.
    pub fn follow(&mut self, statement: &Statement) -> Result<(), Error> {
        following::follow(self, statement)
    }

    /// Returns the source of a name, which a query reads. `done`: what the client wants to do with rows, in messages.
    ///
    /// ```
    /// use tidemill_service::{Runtime, Session};
    /// use tidemill_sql::Planner;
    /// let session = Session::new(&Runtime::new(Planner::new()));
    /// let Err(refused) = session.push_target("ticks", "pushed") else { panic!() };
    /// assert_eq!((refused.code, refused.message.as_str()), ("42P01", "there is no source 'ticks'"));
    /// ```
    ///
    /// # Errors
    /// If there is none, or no query reads it.
    pub fn push_target(&self, source: &str, done: &str) -> Result<PushTarget, Refused> {
        push_target(self, source, done)
    }

    /// Notes that the session has given rows to a source, and that they have been taken in. From here on, its queries wait until the views that they
    /// read have these rows.
    pub fn note_pushed(&mut self, source: &str) {
        self.pushed.insert(source.to_owned());
    }

    /// Names of relations and functions, for completion.
    pub fn names(&self) -> Vec<String> {
        self.runtime.catalog().names()
    }

    /// The columns of all sources and views, for completion.
    pub fn column_names(&self) -> Vec<String> {
        self.runtime.catalog().column_names()
    }

    /// The names of all settings, for completion.
    pub fn setting_names(&self) -> Vec<String> {
        self.planner.setting_names()
    }

    /// The options of all connectors, formats and settings, for completion.
    pub fn option_groups(&self) -> Vec<OptionGroup> {
        self.planner.option_groups()
    }

    /// Whether a sink writes to standard output.
    pub fn writes_to_standard_output(&self) -> bool {
        self.runtime.catalog().writes_to_standard_output()
    }

    /// Whether there are sinks or materialized views to run.
    pub fn has_pipeline(&self) -> bool {
        self.runtime.catalog().has_pipeline()
    }

    /// The result of `SHOW`: names, and further information about each.
    pub fn show(&self, kind: ShowKind) -> RecordBatch {
        Planner::at(self.runtime.catalog(), self.settings().clone()).show(kind)
    }
}
