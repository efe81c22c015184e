//! One connection: its settings, its prepared statements, its cancellation.

pub(super) mod live_sources;
pub(super) mod plans;
pub(super) mod subscribing;
pub(super) mod turns;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use tidemill_engine::Cause;
use tidemill_engine::arrow::array::RecordBatch;
use tidemill_engine::arrow::schema::SchemaRef;
use tidemill_sql::{
    Catalog, Opened, OptionGroup, ParameterType, Pipeline, Planner, Reply as Planned, RowBatches, Settings,
    ShowKind, Statement, StatementKind, closest,
};

use crate::catalog::transaction::Transaction;
use crate::lifecycle::announcement::{announced, stays};
use crate::runtime::execution::Execution;
use crate::runtime::planned_query::Query;
use crate::runtime::readers::{SessionTurns, planning};
use crate::runtime::subscription::Subscription;
use crate::runtime::unread::UnreadRows;
use crate::{Cancellation, Error, Runtime};

/// The most prepared statements of a session.
const PREPARED_MAX: usize = 1000;

/// The result of a statement.
pub enum Reply {
    /// Something was defined or changed; the text says what.
    Done(String),
    /// Rows that are available at once.
    Rows(RecordBatch),
    /// Rows that are computed as they are taken; see [`Session::set_answers_in_batches`].
    Batches(Box<RowBatches>),
    /// A text to be shown unchanged.
    Text(String),
    /// A query to be started.
    Query(Query),
    /// A query to be started, and then described with its measurements (`EXPLAIN ANALYZE`).
    Analyze(Query),
    /// The changes of a materialized view, as they come.
    Changes(Box<Subscription>),
}

/// One connection to a [`Runtime`]: its settings, its prepared statements, its cancellation. Definitions are seen by all
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
    prepared: BTreeMap<String, Statement>,
    cancellation: Cancellation,
    /// Its planner has the same.
    pub(crate) turns: Arc<SessionTurns>,
    /// Whether its queries stop at what cannot be done as it was asked for.
    is_strict: bool,
    opens_sources: bool,
    runs_definitions: bool,
    has_defined: bool,
    transaction: Transaction,
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
            prepared: BTreeMap::new(),
            cancellation,
            turns,
            is_strict: false,
            opens_sources: true,
            runs_definitions: false,
            has_defined: false,
            transaction: Transaction::default(),
        }
    }

    /// From here on, until [`end_transaction`](Session::end_transaction), all queries read the materialized views at one cycle:
    /// the newest that all views have when the first of them is planned. Definitions are not part of transactions.
    pub fn begin_transaction(&mut self) {
        self.transaction.begin();
    }

    /// Queries read the views as they are again.
    pub fn end_transaction(&mut self) {
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
        self.transaction.catalog(self.runtime.kept_catalog())
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

    /// Whether the session is cancelled from here on, or its database closed.
    pub(crate) fn is_cancelled_from_here(&self) -> impl Fn() -> bool + use<> {
        let (runtime, cancellation) = (self.runtime.clone(), self.cancellation.of_statement());
        move || cancellation.is_cancelled() || runtime.is_closing()
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

    /// Executes a statement. A definition is added to the catalogue of the runtime; a query is planned and can then be
    /// started.
    ///
    /// # Errors
    /// The error, with its place.
    pub fn execute(&mut self, statement: &Statement) -> Result<Reply, Error> {
        self.has_defined = false;
        self.check_gateways(statement)?;
        if let StatementKind::ExplainOutput(name) = &statement.kind
            && let Some(text) = self.runtime.explain_output(name.as_str())
        {
            return Ok(Reply::Text(text));
        }
        if let StatementKind::Subscribe(name) = &statement.kind {
            return Ok(Reply::Changes(Box::new(self.subscribe(name, statement)?)));
        }
        match &statement.kind {
            StatementKind::Stop(_) | StatementKind::Start(_) => {
                return Ok(Reply::Done(self.stop_or_start(statement)?));
            }
            StatementKind::Alter(alter) => return Ok(Reply::Done(self.alter(statement, alter)?)),
            StatementKind::AddColumns(add) => {
                let done = self.add_columns(statement, add)?;
                self.has_defined = true;
                return Ok(Reply::Done(done));
            }
            StatementKind::CreateSource(create) if create.or_replace => {
                self.planner.set_catalog(self.runtime.defined_catalog());
                if let Some(added) = self.planner.as_added_columns(statement) {
                    return self.execute(&added);
                }
            }
            StatementKind::Query(..) => drop(self.stopped_views(statement)?),
            _ => {}
        }
        if let Some((explained, alter)) = Session::explained_alter(statement) {
            return Ok(Reply::Text(self.explain_alter(explained, alter)?));
        }
        if let StatementKind::Explain { analyze: false, statement: explained, .. } = &statement.kind
            && self.replaces(explained).is_some()
        {
            let replacement = self.describe_replacement(explained)?;
            self.refresh();
            let Planned::Text(plan) = self.planner.execute(statement)? else {
                return Err(Cause::bug("a definition is explained by a text").into());
            };
            return Ok(Reply::Text(format!("{plan}\n{replacement}")));
        }
        let turns = Arc::clone(&self.turns);
        let planned = if !statement.kind.is_definition() {
            let _planning = planning(&turns, statement)?;
            self.refresh();
            self.planner.execute(statement)?
        } else {
            self.define(statement)?
        };
        self.reply(planned)
    }

    /// Adds a definition to the catalogue.
    pub(crate) fn define(&mut self, statement: &Statement) -> Result<Planned, Error> {
        let announced = if self.runs_definitions {
            announced(&statement.kind, &self.runtime, self.planner.settings(), self.is_strict)
        } else {
            None
        };
        let is_cancelled = self.is_cancelled_from_here();
        let (planner, has_defined) = (&mut self.planner, &mut self.has_defined);
        let planned = self.runtime.define(&statement.kind, announced, &is_cancelled, |catalog| {
            *has_defined = !stays(&statement.kind, &catalog);
            planner.set_catalog(catalog);
            let planned = planner.execute(statement)?;
            Ok((planned, planner.catalog().clone()))
        })?;
        self.runtime.keep_deadlines(&statement.kind);
        Ok(planned)
    }

    /// What was planned, with what is needed to start it.
    ///
    /// # Errors
    /// If it would open a source that the session may not open.
    pub(crate) fn reply(&self, planned: Planned) -> Result<Reply, Error> {
        Ok(match planned {
            Planned::Done(text) => Reply::Done(text),
            Planned::Rows(rows) => Reply::Rows(rows),
            Planned::Batches(batches) => Reply::Batches(batches),
            Planned::Text(text) => Reply::Text(text),
            Planned::Query(prepared) => Reply::Query(self.query(*prepared)?),
            Planned::Analyze(prepared) => Reply::Analyze(self.query(*prepared)?),
        })
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
            return Ok(Some(self.subscribed_columns(name, statement)?));
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

    /// Keeps a statement under a name, to be executed any number of times. It is planned each time, against the version of
    /// the catalogue of that moment.
    ///
    /// # Errors
    /// If there are too many.
    pub fn prepare(&mut self, name: &str, statement: Statement) -> Result<(), Error> {
        if self.prepared.len() >= PREPARED_MAX && !self.prepared.contains_key(name) {
            let message =
                format!("the session already has {PREPARED_MAX} prepared statements; deallocate some first");
            return Err(Cause::resource(message).into());
        }
        self.prepared.insert(name.to_owned(), statement);
        Ok(())
    }

    /// Executes a prepared statement.
    ///
    /// # Errors
    /// If there is none of this name, and as [`execute`](Session::execute).
    pub fn execute_prepared(&mut self, name: &str) -> Result<Reply, Error> {
        let Some(statement) = self.prepared.get(name).cloned() else {
            let hint = closest(name, self.prepared.keys().map(String::as_str));
            let hint = hint.map_or(String::new(), |meant| format!("; did you mean '{meant}'?"));
            return Err(Cause::user(format!("there is no prepared statement '{name}'{hint}")).into());
        };
        self.execute(&statement)
    }

    /// Forgets a prepared statement; whether there was one.
    pub fn deallocate(&mut self, name: &str) -> bool {
        self.prepared.remove(name).is_some()
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
        let base = self.settings().journal.clone();
        self.settings_mut().journal = self.runtime.query_folder(name).or_else(|| base.clone());
        let pipeline = self.pipeline_of(&[name]);
        self.settings_mut().journal = base;
        pipeline
    }

    /// What a statement defines in a version of the catalogue, planned to run with the settings of this session and a journal in a
    /// folder; and the next version.
    pub(crate) fn plan_replaced(
        &mut self,
        statement: &Statement,
        name: &str,
        folder: Option<&Path>,
        catalog: Catalog,
    ) -> Result<(Pipeline, Catalog), Error> {
        let planner = &mut self.planner;
        planner.set_catalog(catalog);
        planner.execute(statement)?;
        let before = planner.settings().journal.clone();
        planner.settings_mut().journal = folder.map(Path::to_owned).or_else(|| before.clone());
        let pipeline = planner.pipeline_of(&[name]);
        planner.settings_mut().journal = before;
        Ok((pipeline?, planner.catalog().clone()))
    }

    /// Starts a pipeline that this session waits for.
    ///
    /// # Errors
    /// If it cannot be started.
    pub fn run(&self, opened: Opened) -> Result<Execution, Error> {
        Ok(Execution::new(opened.start()?, self.cancellation(), self.is_strict))
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
