//! A catalogue, and the queries that run under it, by name.

pub(super) mod batch_queue;
pub(super) mod cancellation;
pub(super) mod dataflow;
pub(super) mod entry;
pub(super) mod execution;
pub(super) mod gateway_changes;
pub(super) mod outputs;
pub(super) mod own_tables;
pub(super) mod past_query;
pub(super) mod plan_report;
pub(super) mod planned_query;
pub(super) mod query;
pub(super) mod query_at_gateways;
pub(super) mod query_folder;
pub(super) mod query_state;
pub(super) mod reader_priority;
pub(super) mod reader_threads;
pub(super) mod readers;
pub(super) mod report;
pub(super) mod row_stream;
pub(super) mod subscription;
pub(super) mod unread;
pub(super) mod users;
pub(super) mod view_notices;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::{Duration, Instant};

use parking_lot::{Mutex, MutexGuard};
use tidemill_engine::{Cause, DatabaseClock, Recovered, set_aside};
use tidemill_sql::{Catalog, Explained, GatewayPlace, Planner, QueryStatus, Settings, ViewHandle, closest};

use self::cancellation::Cancellation;
use self::entry::Entry;
use self::execution::Execution;
use self::plan_report::PlanReport;
use self::query::NamedQuery;
use self::query_at_gateways::QueryAtGateways;
use self::query_state::QueryState;
use self::readers::Readers;
use self::report::{Observed, QueryReport};
use self::unread::UnreadBytes;
use crate::catalog::catalog_store::CatalogStore;
use crate::catalog::change::Changes;
use crate::catalog::log::{CatalogLog, MemoryCatalogLog};
use crate::catalog::user::Users;
use crate::gateways::Gateways;
use crate::query_watcher::QueryWatcher;
use crate::tables::Tables;

/// A catalogue, and the queries that run under it, by name. Clones refer to the same one, and any thread may use them; when
/// the last one and all sessions are dropped, the queries end at once.
///
/// With a log that outlives the process ([`FileCatalogLog`](crate::FileCatalogLog)), [`Runtime::open`] brings back the
/// definitions and starts the queries that ran.
///
/// See the [crate](crate).
#[derive(Clone)]
pub struct Runtime {
    shared: Arc<RuntimeState>,
}

struct RuntimeState {
    catalog: CatalogStore,
    /// The settings with which sessions begin.
    defaults: Settings,
    queries: Mutex<BTreeMap<String, Entry>>,
    /// Closes the cycles of the queries that run by name.
    clock: DatabaseClock,
    /// Notices when queries that run by name have ended.
    watcher: QueryWatcher,
    /// Queries that somebody waits for, and that are reported nevertheless.
    observed: Mutex<Vec<Weak<Observed>>>,
    /// Whether nothing may be started any more.
    is_closing: AtomicBool,
    /// Whether only its definitions are wanted.
    is_idle: AtomicBool,
    /// Where relative paths of its definitions are, if they outlive the process.
    paths_in: OnceLock<PathBuf>,
    /// The queries that sessions are changing.
    changes: Changes,
    /// The queries over tables and views that sessions wait for.
    readers: Readers,
    /// What the clients of its sessions have not read.
    unread: UnreadBytes,
    /// Why the queries of some definitions were not started.
    not_started: Mutex<BTreeMap<String, String>>,
    /// The queries that run at gateways, in the order in which they were started.
    at_gateways: Mutex<Vec<QueryAtGateways>>,
    gateways: OnceLock<Gateways>,
    /// Who changes which table.
    tables: Arc<Tables>,
}

impl Runtime {
    /// A runtime that begins with the catalogue of a planner: with its functions, operators and definitions. A
    /// [`Session`](crate::Session) begins with its settings.
    pub fn new(planner: Planner) -> Runtime {
        Runtime::with(planner, Box::new(MemoryCatalogLog), Users::new(), DatabaseClock::default())
    }

    pub(crate) fn with(
        planner: Planner,
        log: Box<dyn CatalogLog>,
        users: Users,
        clock: DatabaseClock,
    ) -> Runtime {
        let defaults = planner.settings().clone();
        let readers = Readers::new(defaults.readers_niceness);
        let has_gateways = defaults.gateways == GatewayPlace::Elsewhere;
        let catalog = CatalogStore::new(planner.into_catalog(), log, users, has_gateways);
        Runtime {
            shared: Arc::new(RuntimeState {
                catalog,
                defaults,
                queries: Mutex::default(),
                clock,
                watcher: QueryWatcher::default(),
                observed: Mutex::default(),
                is_closing: AtomicBool::new(false),
                is_idle: AtomicBool::new(false),
                paths_in: OnceLock::new(),
                changes: Changes::default(),
                readers,
                unread: UnreadBytes::default(),
                not_started: Mutex::default(),
                at_gateways: Mutex::default(),
                gateways: OnceLock::new(),
                tables: Arc::default(),
            }),
        }
    }

    /// The newest version of the catalogue. Queries that name a materialized view which runs read its rows.
    pub fn catalog(&self) -> Catalog {
        self.shared.catalog.readable()
    }

    /// The newest version of the catalogue, as its definitions give it: what is planned against it means the same
    /// whatever runs.
    pub fn defined_catalog(&self) -> Catalog {
        self.shared.catalog.defined()
    }

    /// The clock of its queries that run by name.
    pub fn clock(&self) -> &DatabaseClock {
        &self.shared.clock
    }

    pub(crate) fn watcher(&self) -> &QueryWatcher {
        &self.shared.watcher
    }

    pub(crate) fn catalog_store(&self) -> &CatalogStore {
        &self.shared.catalog
    }

    pub(crate) fn tables(&self) -> &Arc<Tables> {
        &self.shared.tables
    }

    pub(crate) fn readers(&self) -> &Readers {
        &self.shared.readers
    }

    /// The bytes of rows that clients have not read: rows that wait for them, or are being sent. They count against the memory
    /// of the process.
    pub fn unread_bytes(&self) -> u64 {
        self.shared.unread.get()
    }

    pub(crate) fn unread(&self) -> UnreadBytes {
        self.shared.unread.clone()
    }

    pub(crate) fn defaults(&self) -> &Settings {
        &self.shared.defaults
    }

    /// What the names of queries stand for.
    pub(crate) fn entries(&self) -> MutexGuard<'_, BTreeMap<String, Entry>> {
        self.shared.queries.lock()
    }

    /// Whether nothing may be started any more. It changes while the entries are locked.
    pub(crate) fn is_closing(&self) -> bool {
        self.shared.is_closing.load(Ordering::SeqCst)
    }

    /// Returns whether a session is cancelled from here on, or the database closed.
    pub(crate) fn is_cancelled_from_here(&self, cancellation: &Cancellation) -> impl Fn() -> bool + use<> {
        let (runtime, cancellation) = (self.clone(), cancellation.of_statement());
        move || cancellation.is_cancelled() || runtime.is_closing()
    }

    /// Its definitions outlive the process: relative paths in those that come are in a folder.
    pub(crate) fn set_paths_in(&self, folder: PathBuf) {
        // It is set once, before there are sessions.
        let _ = self.shared.paths_in.set(folder);
    }

    pub(crate) fn paths_in(&self) -> Option<&Path> {
        self.shared.paths_in.get().map(PathBuf::as_path)
    }

    /// Only its definitions are wanted, and no query is started or stopped.
    pub(crate) fn set_idle(&self) {
        self.shared.is_idle.store(true, Ordering::SeqCst);
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.shared.is_idle.load(Ordering::SeqCst)
    }

    pub(crate) fn gateways(&self) -> Option<&Gateways> {
        self.shared.gateways.get()
    }

    pub(crate) fn set_gateways(&self, gateways: Gateways) {
        // It is set once, when the server starts.
        let _ = self.shared.gateways.set(gateways);
    }

    pub(crate) fn at_gateways(&self) -> MutexGuard<'_, Vec<QueryAtGateways>> {
        self.shared.at_gateways.lock()
    }

    /// The sinks and materialized views of a server whose queries were not started, each with the reason. Elsewhere, definitions
    /// need not run.
    pub(crate) fn not_started(&self) -> Vec<(String, String)> {
        if self.defaults().gateways != GatewayPlace::Elsewhere || self.is_idle() {
            return Vec::new();
        }
        let catalog = self.defined_catalog();
        let written: BTreeSet<String> =
            self.entries().values().flat_map(|entry| entry.outputs().to_vec()).collect();
        let is_known = |output: &&str| {
            written.contains(*output) || !catalog.has_output(output) || self.is_at_gateways(output)
        };
        let reasons = self.shared.not_started.lock();
        let unknown = catalog.output_names().filter(|output| !is_known(output));
        let why = |output: &str| {
            reasons.get(output).map_or("when it was defined, it could not be started", |why| why)
        };
        unknown.map(|output| (output.to_owned(), format!("it was not started: {}", why(output)))).collect()
    }

    /// Why queries that the log says not to start could not be started when they were defined.
    pub(crate) fn note_not_started(&self, reasons: BTreeMap<String, String>) {
        self.shared.not_started.lock().extend(reasons);
    }

    pub(crate) fn changes(&self) -> &Changes {
        &self.shared.changes
    }

    /// The runtime, as long as somebody else has it.
    pub(crate) fn downgrade(&self) -> impl Fn() -> Option<Runtime> + Send + 'static {
        let shared = Arc::downgrade(&self.shared);
        move || Some(Runtime { shared: shared.upgrade()? })
    }

    /// Sets the folder of a query aside, unless there is a query of this name.
    pub(crate) fn set_aside(&self, query: &str, folder: &Path) -> Result<Option<PathBuf>, Cause> {
        // Meanwhile, none is started.
        let queries = self.shared.queries.lock();
        if queries.contains_key(query) { Ok(None) } else { set_aside::set_aside(folder) }
    }

    /// Closes the database: starts no query any more, tells all queries to stop, and waits up to a time until they have
    /// ended. What they have taken in is answered, sinks commit it, and durable queries take a snapshot. The log still says
    /// that they run, so the next [`open`](Runtime::open) starts them again.
    ///
    /// Returns the names of the queries that have not ended by then. Call it again to wait longer; dropping the runtime ends
    /// them at once.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tidemill_service::{FileCatalogLog, QueryState, Runtime, Session};
    /// use tidemill_sql::{Planner, parse};
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let path = folder.path().join("catalogue");
    /// let open = || Runtime::open(Planner::new(), Box::new(FileCatalogLog::open(&path).unwrap())).unwrap();
    /// let runtime = open();
    /// let mut session = Session::new(&runtime);
    /// let view = "CREATE MATERIALIZED VIEW n AS SELECT count(*) AS n FROM sequence(rate => 100)";
    /// session.execute(&parse(view, "example").unwrap()[0]).unwrap();
    /// let pipeline = session.pipeline_of(&["n"]).unwrap();
    /// runtime.start("n", pipeline, false).unwrap();
    /// assert!(runtime.close(Duration::from_secs(60)).is_empty());
    /// assert_eq!(runtime.state("n"), Ok(QueryState::Ended));
    /// drop((session, runtime));
    ///
    /// assert_eq!(open().state("n"), Ok(QueryState::Running));
    /// ```
    pub fn close(&self, time: Duration) -> Vec<String> {
        let until = Instant::now() + time;
        let queries: Vec<(String, Option<Arc<NamedQuery>>)> = {
            let queries = self.shared.queries.lock();
            self.shared.is_closing.store(true, Ordering::SeqCst);
            queries.iter().map(|(name, entry)| (name.clone(), entry.started())).collect()
        };
        // All are told before one is waited for: they end beside each other.
        self.gateways().inspect(|gateways| gateways.close());
        queries.iter().filter_map(|(_, query)| query.as_ref()).for_each(|query| query.close());
        let has_ended = |query: &Arc<NamedQuery>| {
            query.wait_for(until.saturating_duration_since(Instant::now())).is_some()
        };
        let queries = queries.into_iter().filter(|(_, query)| !query.as_ref().is_some_and(has_ended));
        let mut running: Vec<String> = queries.map(|(name, _)| name).collect();
        running.extend(self.gateways().map_or_else(Vec::new, |gateways| gateways.not_ended(until)));
        running
    }

    pub(crate) fn query(&self, name: &str) -> Result<Arc<NamedQuery>, Cause> {
        let queries = self.shared.queries.lock();
        match queries.get(name) {
            Some(Entry::Started(query)) => Ok(Arc::clone(query)),
            Some(Entry::Starting(_)) => Err(is_starting(name)),
            None => {
                let hint = closest(name, queries.keys().map(String::as_str));
                let hint = hint.map_or(String::new(), |meant| format!("; did you mean '{meant}'?"));
                Err(Cause::user(format!("there is no query '{name}'{hint}")))
            }
        }
    }

    /// The queries that were started and not forgotten.
    pub(crate) fn running(&self) -> Vec<Arc<NamedQuery>> {
        self.shared.queries.lock().values().filter_map(Entry::started).collect()
    }

    /// The names of the queries that were started and not forgotten, each with how far it is.
    pub fn queries(&self) -> Vec<(String, QueryState)> {
        let queries = self.shared.queries.lock();
        let states = queries.iter().filter_map(|(name, entry)| match entry {
            Entry::Started(query) => Some((name.clone(), query.state())),
            Entry::Starting(_) => None,
        });
        states.collect()
    }

    /// What is known about the queries: those that run by name, those that are being opened, and those that are
    /// [observed](Runtime::observe).
    pub fn reports(&self) -> Vec<QueryReport> {
        // A report takes time, and is made without the lock.
        let (mut reports, mut started) = (Vec::new(), Vec::new());
        for (name, entry) in self.shared.queries.lock().iter() {
            match entry {
                Entry::Started(query) => started.push((name.clone(), Arc::clone(query))),
                Entry::Starting(outputs) => reports.push(QueryReport::starting(name, outputs)),
            }
        }
        reports.extend(started.iter().map(|(name, query)| match query.state() {
            QueryState::Stopped => self.report_stopped(query, query.report(name)),
            _ => query.report(name),
        }));
        reports.extend(self.not_started().into_iter().map(|(name, why)| QueryReport::not_started(name, why)));
        reports.sort_by(|one, other| one.name.cmp(&other.name));
        let mut observed = self.shared.observed.lock();
        observed.retain(|observed| observed.strong_count() > 0);
        reports.extend(observed.iter().filter_map(Weak::upgrade).map(|observed| observed.report()));
        reports
    }

    /// The plan of a query that is [reported](Runtime::reports), with what was measured; `None`: there is none of this name, it
    /// is being opened, or it could not be started.
    pub fn plan(&self, name: &str) -> Option<PlanReport> {
        let started = self.shared.queries.lock().get(name).and_then(Entry::started);
        let plan = started.and_then(|query| query.plan());
        plan.or_else(|| {
            let observed: Vec<_> = self.shared.observed.lock().iter().filter_map(Weak::upgrade).collect();
            observed.iter().find(|observed| observed.name() == name).map(|observed| observed.plan())
        })
    }

    /// Reports a query that somebody waits for under a name, with its plan, as long as the result is kept.
    pub fn observe(&self, name: &str, explained: Explained, execution: &Execution) -> Arc<Observed> {
        let observed = Arc::new(Observed::new(name, explained, execution));
        self.shared.observed.lock().push(Arc::downgrade(&observed));
        observed
    }

    /// The query that writes to this sink or view; `Some(None)`: it is being opened.
    pub(crate) fn query_of_output(&self, output: &str) -> Option<Option<Arc<NamedQuery>>> {
        let queries = self.shared.queries.lock();
        let writer = queries.values().find(|entry| entry.outputs().iter().any(|other| other == output))?;
        Some(writer.started())
    }

    /// How far a query is.
    ///
    /// # Errors
    /// If there is none of this name.
    pub fn state(&self, name: &str) -> Result<QueryState, Cause> {
        Ok(self.query(name)?.state())
    }

    /// The progress of a query, or its last one if it has ended; `None` if it has failed.
    ///
    /// # Errors
    /// If there is none of this name.
    pub fn status(&self, name: &str) -> Result<Option<QueryStatus>, Cause> {
        Ok(self.query(name)?.status())
    }

    /// What a durable query found from earlier runs.
    ///
    /// # Errors
    /// If there is none of this name.
    pub fn recovered(&self, name: &str) -> Result<Option<Recovered>, Cause> {
        Ok(self.query(name)?.recovered.clone())
    }

    /// The cycle of the [clock](Runtime::clock) after which a query begins; `None`: it has all cycles, or a clock of its own.
    ///
    /// # Errors
    /// If there is none of this name.
    pub fn begins_after(&self, name: &str) -> Result<Option<u64>, Cause> {
        Ok(self.query(name)?.begins_after)
    }

    /// The materialized views of a query. Their rows stay when it has ended.
    ///
    /// # Errors
    /// If there is none of this name.
    pub fn views(&self, name: &str) -> Result<Vec<ViewHandle>, Cause> {
        Ok(self.query(name)?.views.clone())
    }

    /// Tells the sources of a query to stop, and returns as soon as the catalogue's log says so: the query does not start
    /// again by itself. What was taken in is answered; [`wait`](Runtime::wait) waits for that.
    ///
    /// # Errors
    /// If there is none of this name, or if the log cannot keep it; the query stops nevertheless.
    pub fn stop(&self, name: &str) -> Result<(), Cause> {
        let query = self.query(name)?;
        let kept = self.shared.catalog.forgotten(name);
        query.stop();
        kept
    }

    /// Ends a query at once. What it has not answered is lost, unless it is durable and runs again. It does not start again
    /// by itself.
    ///
    /// # Errors
    /// As [`stop`](Runtime::stop).
    pub fn abandon(&self, name: &str) -> Result<(), Cause> {
        let query = self.query(name)?;
        let kept = self.shared.catalog.forgotten(name);
        query.abandon();
        kept
    }

    /// Waits for the end of a query; returns its last status.
    ///
    /// # Errors
    /// If there is none of this name, or why it has failed.
    pub fn wait(&self, name: &str) -> Result<QueryStatus, Cause> {
        let query = self.query(name)?;
        loop {
            if let Some(outcome) = query.wait_for(Duration::from_secs(1)) {
                return outcome;
            }
        }
    }

    /// As [`wait`](Runtime::wait), up to a time; `None` if the query has not ended by then.
    ///
    /// # Errors
    /// As `wait`.
    pub fn wait_for(&self, name: &str, time: Duration) -> Result<Option<QueryStatus>, Cause> {
        self.query(name)?.wait_for(time).transpose()
    }

    /// Makes known that a query which was [announced](crate::Session::set_runs_definitions) has not been started and why, and is not
    /// to be started with the database. If none of this name was announced, only the reason is kept.
    ///
    /// # Errors
    /// If the log cannot keep that.
    pub fn withdraw(&self, name: &str, why: &str) -> Result<(), Cause> {
        self.shared.not_started.lock().insert(name.to_owned(), why.to_owned());
        self.shared.catalog.withdraw(name, why)
    }

    /// Forgets a query that has ended, with its outcome. It does not start again by itself. The rows of its views stay
    /// readable until the views are dropped.
    ///
    /// # Errors
    /// If there is none of this name, it still runs, or the log cannot keep that.
    pub fn forget(&self, name: &str) -> Result<(), Cause> {
        if matches!(self.query(name)?.state(), QueryState::Running | QueryState::Ending) {
            return Err(Cause::user(format!("query '{name}' is running; stop it first")));
        }
        self.shared.catalog.forgotten(name)?;
        if let Some(Entry::Started(query)) = self.shared.queries.lock().remove(name) {
            self.clock().forget(query.clock_name());
        }
        Ok(())
    }
}

pub(crate) fn is_starting(name: &str) -> Cause {
    Cause::operation(format!("query '{name}' is being started; try again"))
}

impl Drop for RuntimeState {
    fn drop(&mut self) {
        for entry in self.queries.lock().values() {
            if let Entry::Started(query) = entry {
                query.abandon();
            }
        }
    }
}
