//! A catalogue, and the queries that run under it, by name.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tidemill_engine::{Cause, Recovered};
use tidemill_sql::{Catalog, Opened, Pipeline, Planner, QueryStatus, Settings, ViewHandle, closest};

use crate::catalog_log::{CatalogLog, MemoryCatalogLog};
use crate::error::Error;
use crate::query::{NamedQuery, QueryState};

/// A catalogue, and the queries that run under it, by name. Clones refer to the same one; when the last one and all
/// sessions are dropped, the queries end at once.
///
/// See the [crate](crate).
#[derive(Clone)]
pub struct Runtime {
    shared: Arc<RuntimeState>,
}

struct RuntimeState {
    catalog: Mutex<KeptCatalog>,
    /// The settings with which sessions begin.
    defaults: Settings,
    queries: Mutex<BTreeMap<String, Entry>>,
}

/// The newest version of the catalogue, and what keeps its definitions.
struct KeptCatalog {
    catalog: Catalog,
    log: Box<dyn CatalogLog>,
}

/// What a name of a query stands for.
enum Entry {
    /// A query with these outputs is being opened under this name.
    Starting(Vec<String>),
    Started(Arc<NamedQuery>),
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Runtime {
    /// A runtime that begins with the catalogue of a planner: with its functions, operators and definitions. A
    /// [`Session`](crate::Session) begins with its settings.
    pub fn new(planner: Planner) -> Runtime {
        Runtime::with(planner, Box::new(MemoryCatalogLog))
    }

    /// A runtime that begins with the definitions of a log, which keeps those to come. The planner has registered what they
    /// call, and has no definitions of its own. See [`FileCatalogLog`](crate::FileCatalogLog).
    ///
    /// # Errors
    /// If the log cannot be read, or one of its definitions gives an error in this program.
    pub fn open(mut planner: Planner, mut log: Box<dyn CatalogLog>) -> Result<Runtime, Cause> {
        planner.replay(&log.read()?)?;
        Ok(Runtime::with(planner, log))
    }

    fn with(planner: Planner, log: Box<dyn CatalogLog>) -> Runtime {
        let defaults = planner.settings().clone();
        let catalog = Mutex::new(KeptCatalog { catalog: planner.into_catalog(), log });
        Runtime { shared: Arc::new(RuntimeState { catalog, defaults, queries: Mutex::default() }) }
    }

    /// The newest version of the catalogue.
    pub fn catalog(&self) -> Catalog {
        lock(&self.shared.catalog).catalog.clone()
    }

    pub(crate) fn defaults(&self) -> &Settings {
        &self.shared.defaults
    }

    /// Makes the next version of the catalogue out of the newest one; nobody else does meanwhile. It counts once its
    /// definitions are in the log.
    pub(crate) fn define<T>(
        &self,
        define: impl FnOnce(Catalog) -> Result<(T, Catalog), Error>,
    ) -> Result<T, Error> {
        let mut kept = lock(&self.shared.catalog);
        let (defined, next) = define(kept.catalog.clone())?;
        for definition in &next.definitions()[kept.catalog.definitions().len()..] {
            kept.log.append(definition)?;
        }
        kept.catalog = next;
        Ok(defined)
    }

    /// Opens and starts a pipeline under a name. From then on, queries of all sessions that name one of its materialized
    /// views read the rows that the view has. If it `is_strict`, it stops at the first row that cannot be used, result
    /// that does not fit, or row that a sink rejects.
    ///
    /// # Errors
    /// If a query of this name runs, if another one writes to one of its outputs, or if it cannot be opened or started.
    pub fn start(&self, name: &str, pipeline: Pipeline, is_strict: bool) -> Result<(), Cause> {
        let outputs: Vec<String> = pipeline.outputs().iter().map(|output| output.name.clone()).collect();
        let before = self.reserve(name, &outputs)?;
        let started = pipeline.open().and_then(Opened::start);
        let started = started.and_then(|running| NamedQuery::start(name, running, outputs, is_strict));
        let mut queries = lock(&self.shared.queries);
        match started {
            Ok(query) => {
                queries.insert(name.to_owned(), Entry::Started(Arc::clone(&query)));
                drop(queries);
                let catalog = &mut lock(&self.shared.catalog).catalog;
                query.views.iter().for_each(|view| catalog.attach_view(view));
                Ok(())
            }
            Err(cause) => {
                match before {
                    Some(ended) => queries.insert(name.to_owned(), ended),
                    None => queries.remove(name),
                };
                Err(cause)
            }
        }
    }

    /// Takes a name for a query that is to be opened; returns what it stood for.
    fn reserve(&self, name: &str, outputs: &[String]) -> Result<Option<Entry>, Cause> {
        let mut queries = lock(&self.shared.queries);
        for (other, entry) in queries.iter() {
            let is_over = match entry {
                Entry::Starting(_) => false,
                Entry::Started(query) => matches!(query.state(), QueryState::Ended | QueryState::Failed),
            };
            if is_over {
                continue;
            }
            if other == name {
                return Err(Cause::user(format!("query '{name}' runs already; stop it first")));
            }
            let theirs = match entry {
                Entry::Starting(outputs) => outputs,
                Entry::Started(query) => &query.outputs,
            };
            if let Some(output) = outputs.iter().find(|output| theirs.contains(output)) {
                return Err(Cause::user(format!(
                    "'{output}' is written by query '{other}', which runs; stop that one first"
                )));
            }
        }
        Ok(queries.insert(name.to_owned(), Entry::Starting(outputs.to_vec())))
    }

    fn query(&self, name: &str) -> Result<Arc<NamedQuery>, Cause> {
        let queries = lock(&self.shared.queries);
        match queries.get(name) {
            Some(Entry::Started(query)) => Ok(Arc::clone(query)),
            Some(Entry::Starting(_)) => {
                Err(Cause::operation(format!("query '{name}' is being started; try again")))
            }
            None => {
                let hint = closest(name, queries.keys().map(String::as_str));
                let hint = hint.map_or(String::new(), |meant| format!("; did you mean '{meant}'?"));
                Err(Cause::user(format!("there is no query '{name}'{hint}")))
            }
        }
    }

    /// The names of the queries that were started and not forgotten, each with how far it is.
    pub fn queries(&self) -> Vec<(String, QueryState)> {
        let queries = lock(&self.shared.queries);
        let states = queries.iter().filter_map(|(name, entry)| match entry {
            Entry::Started(query) => Some((name.clone(), query.state())),
            Entry::Starting(_) => None,
        });
        states.collect()
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

    /// The materialized views of a query. Their rows stay when it has ended.
    ///
    /// # Errors
    /// If there is none of this name.
    pub fn views(&self, name: &str) -> Result<Vec<ViewHandle>, Cause> {
        Ok(self.query(name)?.views.clone())
    }

    /// The bound on the time from arrival to result of a query.
    ///
    /// # Errors
    /// If there is none of this name.
    pub fn max_latency(&self, name: &str) -> Result<Option<Duration>, Cause> {
        Ok(self.query(name)?.max_latency)
    }

    /// Tells the sources of a query to stop, and returns at once. What was taken in is answered; [`wait`](Runtime::wait)
    /// waits for that.
    ///
    /// # Errors
    /// If there is none of this name.
    pub fn stop(&self, name: &str) -> Result<(), Cause> {
        self.query(name)?.stop();
        Ok(())
    }

    /// Ends a query at once. What it has not answered is lost, unless it is durable and runs again.
    ///
    /// # Errors
    /// If there is none of this name.
    pub fn abandon(&self, name: &str) -> Result<(), Cause> {
        self.query(name)?.abandon();
        Ok(())
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

    /// Forgets a query that has ended, with its outcome.
    ///
    /// # Errors
    /// If there is none of this name, or it still runs.
    pub fn forget(&self, name: &str) -> Result<(), Cause> {
        match self.query(name)?.state() {
            QueryState::Running | QueryState::Ending => {
                Err(Cause::user(format!("query '{name}' runs; stop it first")))
            }
            QueryState::Ended | QueryState::Failed => {
                lock(&self.shared.queries).remove(name);
                Ok(())
            }
        }
    }
}

impl Drop for RuntimeState {
    fn drop(&mut self) {
        for entry in lock(&self.queries).values() {
            if let Entry::Started(query) = entry {
                query.abandon();
            }
        }
    }
}
