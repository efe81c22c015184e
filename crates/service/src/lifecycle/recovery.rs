//! Brings back what a catalogue's log says.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use tidemill_engine::{Cause, DatabaseClock, RING_BYTES_MAX, inspect};
use tidemill_sql::{Definition, GatewayPlace, Pipeline, Planner, Settings, StatementKind, parse};

use crate::catalog::catalog_store::Start;
use crate::catalog::log::CatalogLog;
use crate::catalog::record::{CatalogRecord, StartedQuery};
use crate::catalog::user::Users;
use crate::lifecycle::filling::needs_filling;
use crate::lifecycle::starting::NewQuery;
use crate::runtime::query::Identity;
use crate::runtime::query_at_gateways::QueryAtGateways;
use crate::runtime::query_folder::{folder_in, is_query_folder};
use crate::{QueryState, Runtime};

impl Runtime {
    /// A runtime that continues a log: it has the log's definitions, starts the queries that were running and had not
    /// been stopped, and records what follows. The planner has registered what the definitions call, and has no
    /// definitions of its own. See [`FileCatalogLog`](crate::FileCatalogLog).
    ///
    /// A query starts with the settings that it was started with, and with the definitions that there are now. A durable
    /// one continues where it was. Any other query begins from nothing: it fills its views from what its sources
    /// deliver from then on.
    ///
    /// A failure does not affect the rest. A definition that gives an error is among
    /// [`failed_definitions`](tidemill_sql::Catalog::failed_definitions), and a query that cannot be started is
    /// [`Failed`](crate::QueryState::Failed); both stay in the log until they are dropped, replaced or forgotten.
    ///
    /// # Errors
    /// If the log cannot be read, or its definitions do not follow each other.
    pub fn open(planner: Planner, log: Box<dyn CatalogLog>) -> Result<Runtime, Cause> {
        Runtime::open_under(planner, log, DatabaseClock::default())
    }

    /// As [`open`](Runtime::open), with the journal of the database in a folder: its durable sources are read once for all
    /// queries that run by name, a query may begin with rows of before, and each continues where it was. Without one, each
    /// durable query has a journal of its own.
    ///
    /// # Errors
    /// As `open`, and if another process has the journal, or it is damaged.
    pub fn open_journaled(
        planner: Planner,
        log: Box<dyn CatalogLog>,
        journal: &Path,
    ) -> Result<Runtime, Cause> {
        Runtime::open_under(planner, log, DatabaseClock::journaled(journal, RING_BYTES_MAX)?)
    }

    /// As `open`, under a clock.
    ///
    /// # Errors
    /// As `open`.
    pub fn open_under(
        planner: Planner,
        log: Box<dyn CatalogLog>,
        clock: DatabaseClock,
    ) -> Result<Runtime, Cause> {
        let (runtime, Started { running: queries, stopped, begun, ever }) =
            Runtime::with_definitions(planner, log, clock)?;
        begun.iter().for_each(|name| runtime.catalog_store().note_begun(name));
        let (queries, stopped) = runtime.without_those_at_gateways(queries, stopped);
        let all: Vec<StartedQuery> = queries.iter().chain(&stopped).cloned().collect();
        runtime.check_known(&ever)?;
        runtime.remove_garbage(&all);
        // Before a source is opened whose rows they need.
        stopped.into_iter().for_each(|query| runtime.bring_back_stopped(query));
        // Until each has said what it needs, the journal keeps everything.
        for query in &queries {
            let folder = runtime.settings_of(query).ok().and_then(|settings| settings.journal);
            if folder.is_some_and(|folder| folder.join("query").exists()) {
                runtime.clock().expect(&query.name);
            }
        }
        // All begin with the first row of the sources that they read together.
        let held = runtime.clock().hold();
        // Those that are to be given what tables have cannot begin before the sources of these are read.
        let (given, others): (Vec<_>, Vec<_>) =
            queries.into_iter().partition(|query| runtime.begins_over_tables(query));
        others.into_iter().for_each(|query| runtime.start_again(query));
        runtime.refuse_without_end();
        drop(held);
        given.into_iter().for_each(|query| runtime.start_again(query));
        Ok(runtime)
    }

    /// As [`open`](Runtime::open), but starts nothing: for a program that looks at definitions, and changes them. What
    /// would run is [`Failed`](crate::QueryState::Failed) with that reason, and the log still says to start it.
    ///
    /// # Errors
    /// As `open`.
    pub fn open_idle(planner: Planner, log: Box<dyn CatalogLog>) -> Result<Runtime, Cause> {
        let clock = DatabaseClock::default();
        let (runtime, Started { running, stopped, .. }) = Runtime::with_definitions(planner, log, clock)?;
        runtime.set_idle();
        for query in &stopped {
            runtime.catalog_store().note_stopped(query.name.clone());
        }
        for query in &running {
            runtime.catalog_store().note_started(query.name.clone());
        }
        for query in running.into_iter().chain(stopped) {
            let name = &query.name;
            let cause = format!("query '{name}' was not started, because only definitions were asked for");
            let clock_name = query.name.clone();
            let identity = Identity { kept: query, clock_name, computation: String::new() };
            runtime.note_failed(identity, Cause::operation(cause));
        }
        Ok(runtime)
    }

    /// A runtime with the definitions of a log, and the queries that are to be started, in order.
    fn with_definitions(
        mut planner: Planner,
        mut log: Box<dyn CatalogLog>,
        clock: DatabaseClock,
    ) -> Result<(Runtime, Started), Cause> {
        let (mut definitions, mut started, mut users) = (Vec::new(), Starts::default(), Users::new());
        let mut not_started = BTreeMap::new();
        for record in log.read()? {
            started.note(&record);
            match record {
                CatalogRecord::Definition(definition) | CatalogRecord::Replaced(definition, _) => {
                    definitions.push(definition);
                }
                CatalogRecord::Started(query) => drop(not_started.remove(&query.name)),
                CatalogRecord::NotStarted(name, why) => drop(not_started.insert(name, why)),
                CatalogRecord::Ended(_) | CatalogRecord::Stopped(_) => {}
                CatalogRecord::User(user) => drop(users.insert(user.name.clone(), user)),
                CatalogRecord::UserDropped(name) => drop(users.remove(&name)),
            }
        }
        planner.set_journaled_columns(clock.journaled_columns()?);
        planner.replay(&definitions)?;
        let runtime = Runtime::with(planner, log, users, clock);
        runtime.note_not_started(not_started);
        // Wherever the next process is started, they mean the same.
        if let Ok(folder) = std::env::current_dir() {
            runtime.set_paths_in(folder);
        }
        Ok((runtime, started.in_order()))
    }

    /// The queries that run in this process, and those that are stopped. Those at gateways are started with
    /// [`start_gateways`](Runtime::start_gateways).
    fn without_those_at_gateways(
        &self,
        queries: Vec<StartedQuery>,
        stopped: Vec<StartedQuery>,
    ) -> (Vec<StartedQuery>, Vec<StartedQuery>) {
        if self.defaults().gateways != GatewayPlace::Elsewhere {
            return (queries, stopped);
        }
        let catalog = self.defined_catalog();
        let is_at_gateways = |query: &StartedQuery| !catalog.gateways_of(&query.name).is_empty();
        let here = |queries: Vec<StartedQuery>, is_stopped: bool| {
            let (at_gateways, here): (Vec<_>, Vec<_>) = queries.into_iter().partition(is_at_gateways);
            for query in at_gateways {
                let name = query.name.clone();
                if is_stopped {
                    self.catalog_store().note_stopped(name);
                } else {
                    self.catalog_store().note_started(name);
                }
                self.at_gateways().push(QueryAtGateways { query, is_stopped });
            }
            here
        };
        (here(queries, false), here(stopped, true))
    }

    /// Whether a query reads tables and has not begun.
    fn begins_over_tables(&self, query: &StartedQuery) -> bool {
        let pipeline = self.pipeline_of(query);
        pipeline.is_ok_and(|pipeline| needs_filling(&pipeline, false).unwrap_or(false))
    }

    fn start_again(&self, query: StartedQuery) {
        let start = self.catalog_store().note_started(query.name.clone());
        let clock_name = query.name.clone();
        self.restart(query, clock_name, start);
    }

    /// Starts a query that the log says to start. If it cannot be started, it has failed.
    pub(crate) fn restart(&self, kept: StartedQuery, clock_name: String, start: Start) {
        let pipeline = self.pipeline_of(&kept);
        let computation =
            pipeline.as_ref().map_or(String::new(), |pipeline| pipeline.computation().to_owned());
        let identity = Identity { kept: kept.clone(), clock_name: clock_name.clone(), computation };
        let started = pipeline.and_then(|pipeline| {
            self.check_state(&kept, &pipeline)?;
            if !pipeline.is_under(self.clock()) {
                self.clock().forget(&clock_name);
            }
            let query = NewQuery { kept, clock_name, pipeline, is_new: false };
            self.start_with(query, |kept, views| {
                self.catalog_store().has_begun(&kept)?;
                self.catalog_store().attach(views);
                Ok(start)
            })
        });
        if let Err(cause) = started {
            self.note_failed(identity, cause);
        }
    }

    /// Refuses to continue a query that has begun, but whose state is not there: it would begin once more, with a part of its
    /// rows.
    pub(crate) fn check_state(&self, kept: &StartedQuery, pipeline: &Pipeline) -> Result<(), Cause> {
        let Some(folder) = pipeline.journal().filter(|_| self.catalog_store().is_begun(&kept.name)) else {
            return Ok(());
        };
        let is_there = folder.is_dir() && inspect::query(folder)?.is_some();
        if is_there { Ok(()) } else { Err(state_is_gone(folder)) }
    }

    /// Ends queries that lack rows which another one has committed: the end of a journal is lost.
    pub(crate) fn refuse_without_end(&self) {
        for query in self.running() {
            let is_over = !matches!(query.state(), QueryState::Running | QueryState::Ending);
            let Some(cause) = self.clock().check_end(query.clock_name()).err().filter(|_| !is_over) else {
                continue;
            };
            query.abandon();
            query.views.iter().for_each(|view| self.catalog_store().detach(view.name()));
            let Identity { kept, clock_name, computation } = &query.identity;
            let (kept, clock_name) = (kept.clone(), clock_name.clone());
            self.note_failed(Identity { kept, clock_name, computation: computation.clone() }, cause);
        }
    }

    /// The settings with which a query was started. If its folder is in the journal of the database, it is found there, wherever
    /// that is now.
    pub(crate) fn settings_of(&self, query: &StartedQuery) -> Result<Settings, Cause> {
        let mut settings = Settings::decode(&query.settings, self.defaults())?;
        if let (Some(journal), Some(folder)) = (self.clock().journal_folder(), &settings.journal) {
            settings.journal = Some(folder_in(journal, folder));
        }
        Ok(settings)
    }
}

/// The queries of a log that have not ended, in the order in which they were started.
struct Started {
    running: Vec<StartedQuery>,
    /// Those that are stopped.
    stopped: Vec<StartedQuery>,
    /// The names of those that have begun.
    begun: Vec<String>,
    /// The names of all that the log has ever had.
    ever: BTreeSet<String>,
}

/// The queries of a log that have not ended, by name.
#[derive(Default)]
struct Starts {
    queries: BTreeMap<String, LastStart>,
    turns: usize,
    ever: BTreeSet<String>,
}

struct LastStart {
    turn: usize,
    query: StartedQuery,
    is_stopped: bool,
    is_begun: bool,
}

/// Returns the queries of a database that have begun and have not ended, each with its folder.
///
/// # Errors
/// If there is no catalogue, or it is damaged.
///
/// ```
/// # use tidemill_service::begun_queries;
/// let folder = tempfile::tempdir()?;
/// let error = begun_queries(&folder.path().join("catalogue"), folder.path()).unwrap_err();
/// assert!(error.to_string().contains("has no catalogue"));
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn begun_queries(catalogue: &Path, journal: &Path) -> Result<Vec<(String, PathBuf)>, Cause> {
    let mut starts = Starts::default();
    for bytes in inspect::definitions(catalogue)? {
        CatalogRecord::decode(&bytes).iter().for_each(|record| starts.note(record));
    }
    let begun = starts.queries.into_values().filter(|start| start.is_begun).map(|start| {
        let settings = Settings::decode(&start.query.settings, &Settings::default())?;
        let folder = settings.journal.filter(|folder| is_query_folder(folder));
        let name = folder.as_deref().and_then(Path::file_name);
        Ok(name.map(|name| (start.query.name, journal.join(name))))
    });
    begun.filter_map(Result::transpose).collect()
}

impl Starts {
    /// What a record of the log says of a query.
    fn note(&mut self, record: &CatalogRecord) {
        match record {
            CatalogRecord::Definition(definition) => self.end_with(definition),
            CatalogRecord::Started(query) => self.add(query.clone(), true),
            CatalogRecord::Replaced(_, query) => self.add(query.clone(), false),
            CatalogRecord::NotStarted(name, _) | CatalogRecord::Ended(name) => {
                drop(self.queries.remove(name));
            }
            CatalogRecord::Stopped(name) => self.stop(name),
            CatalogRecord::User(_) | CatalogRecord::UserDropped(_) => {}
        }
    }

    fn add(&mut self, query: StartedQuery, is_begun: bool) {
        self.turns += 1;
        let name = query.name.clone();
        self.ever.insert(name.clone());
        self.queries.insert(name, LastStart { turn: self.turns, query, is_stopped: false, is_begun });
    }

    /// A definition that drops an output ends the query that writes to nothing else.
    fn end_with(&mut self, definition: &Definition) {
        let statements = parse(&definition.statement, "the log of the catalogue").unwrap_or_default();
        for statement in statements {
            if let StatementKind::Drop { name, .. } = statement.kind {
                self.queries.retain(|_, start| start.query.outputs != [name.as_str()]);
            }
        }
    }

    fn stop(&mut self, name: &str) {
        if let Some(start) = self.queries.get_mut(name) {
            start.is_stopped = true;
        }
    }

    fn in_order(self) -> Started {
        let mut queries: Vec<LastStart> = self.queries.into_values().collect();
        queries.sort_by_key(|start| start.turn);
        let begun =
            queries.iter().filter(|start| start.is_begun).map(|start| start.query.name.clone()).collect();
        let (stopped, running): (Vec<_>, Vec<_>) = queries.into_iter().partition(|start| start.is_stopped);
        let queries = |starts: Vec<LastStart>| starts.into_iter().map(|start| start.query).collect();
        Started { running: queries(running), stopped: queries(stopped), begun, ever: self.ever }
    }
}

fn state_is_gone(folder: &Path) -> Cause {
    Cause::operation(format!(
        "the query has begun, but '{}' does not have its state (the file 'query' is missing), so it would begin once \
         more with a part of its rows; restore the folder, or DROP the query and create it again",
        folder.display()
    ))
}
