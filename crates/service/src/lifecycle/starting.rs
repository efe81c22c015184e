//! Starts queries that run by name.

use std::sync::Arc;

use tidemill_engine::{Beginning, Cause};
use tidemill_sql::{Pipeline, ViewHandle, query_span};

use crate::Runtime;
use crate::catalog::catalog_store::Start;
use crate::catalog::record::StartedQuery;
use crate::lifecycle::filling::{begin_filling, fill};
use crate::runtime::entry::Entry;
use crate::runtime::query::{AtEnd, Identity, NamedQuery};

/// A query that is to be started.
pub(crate) struct NewQuery {
    /// What the log is to say of it.
    pub kept: StartedQuery,
    /// The name that it gets in the journal of the database.
    pub clock_name: String,
    pub pipeline: Pipeline,
    /// Whether it begins, whatever an earlier query has left in its folder; otherwise it continues where that was, if it is
    /// durable.
    pub is_new: bool,
}

impl NewQuery {
    /// A query that has its own name in the journal of the database.
    pub fn new(kept: StartedQuery, pipeline: Pipeline, is_new: bool) -> NewQuery {
        NewQuery { clock_name: kept.name.clone(), kept, pipeline, is_new }
    }
}

impl Runtime {
    /// Opens and starts a pipeline under a name. From then on, queries of all sessions that name one of its materialized
    /// views read the rows that the view has. If it `is_strict`, it stops at the first row that cannot be used, result
    /// that does not fit, or row that a sink rejects.
    ///
    /// That it runs is in the catalogue's log when this returns.
    ///
    /// # Errors
    /// If a query of this name runs, if another one writes to one of its outputs, or if it cannot be opened or started.
    pub fn start(&self, name: &str, pipeline: Pipeline, is_strict: bool) -> Result<(), Cause> {
        let kept = self.to_be_kept(name, &pipeline, is_strict);
        let query = NewQuery::new(kept, pipeline, true);
        self.start_with(query, |kept, views| {
            let start = self.catalog_store().started(kept)?;
            self.catalog_store().attach(views);
            Ok(start)
        })
    }

    /// What the log is to say of a query that is started.
    pub(crate) fn to_be_kept(&self, name: &str, pipeline: &Pipeline, is_strict: bool) -> StartedQuery {
        StartedQuery {
            name: name.to_owned(),
            outputs: pipeline.outputs().iter().map(|output| output.name.clone()).collect(),
            settings: pipeline.settings().encode_beside(self.defaults()),
            is_strict,
        }
    }

    /// As [`start`](Runtime::start). `keep` sees to it that the log has the query, and that its views are read, once it runs.
    pub(crate) fn start_with(
        &self,
        query: NewQuery,
        keep: impl FnOnce(StartedQuery, &[ViewHandle]) -> Result<Start, Cause>,
    ) -> Result<(), Cause> {
        let StartedQuery { name, outputs, .. } = query.kept.clone();
        let before = self.reserve(&name, &outputs)?;
        let (is_new, clock_name) = (query.is_new, query.clock_name.clone());
        let mut kept = None;
        let started = self.run(query, |identity, views| {
            let start = keep(identity.kept.clone(), views)?;
            kept = Some(start);
            Ok(self.at_end_of(identity, views.is_empty(), start))
        });
        match started {
            Ok(query) => {
                self.enter(name, query);
                Ok(())
            }
            Err(cause) => {
                if let Some(start) = kept {
                    // What the log says to start again would not have started here.
                    let _ = self.catalog_store().ended(&name, start);
                }
                if is_new {
                    self.clock().forget(&clock_name);
                }
                self.release(&name, before);
                Err(cause)
            }
        }
    }

    /// Opens and starts a query. `keep` is called once it runs, and says what is done at its end.
    pub(crate) fn run(
        &self,
        query: NewQuery,
        keep: impl FnOnce(&Identity, &[ViewHandle]) -> Result<AtEnd, Cause>,
    ) -> Result<Arc<NamedQuery>, Cause> {
        let NewQuery { kept, clock_name, mut pipeline, is_new } = query;
        let filled = begin_filling(self, &pipeline, is_new)?;
        // What an interrupted start has left is not continued.
        let is_new = is_new || filled.is_some();
        if filled.is_some() {
            // What the tables have by now, it is given.
            pipeline.set_beginning(Beginning::Current);
        }
        let output = kept.outputs.first().cloned().unwrap_or_default();
        let (explained, computation) = (pipeline.explained(), pipeline.computation().to_owned());
        let (clock, name, span) = (self.clock().clone(), clock_name.clone(), query_span(&kept.name));
        let running = self.start_for_all(move || {
            span.in_scope(|| {
                let opened = pipeline.open_under(&clock, is_new)?;
                opened.start_under(Some((&clock, &name)))
            })
        })?;
        let identity = Identity { kept, clock_name, computation };
        let at_end = keep(&identity, running.views())?;
        if let Some(filled) = filled {
            fill(self, filled, &output, &running)?;
        }
        let watcher = self.watcher().clone();
        self.start_for_all(move || NamedQuery::start(identity, (explained, running), at_end, &watcher))
    }

    /// A name stands for a query that was started.
    pub(crate) fn enter(&self, name: String, query: Arc<NamedQuery>) -> Option<Entry> {
        let mut queries = self.entries();
        if self.is_closing() {
            query.close();
        }
        queries.insert(name, Entry::Started(query))
    }

    /// What is done when a query has ended by itself. One that only writes to sinks has done its work, and must not write
    /// the same rows again after a restart; views are filled again.
    fn at_end_of(&self, identity: &Identity, has_no_views: bool, start: Start) -> AtEnd {
        let (name, clock_name) = (identity.kept.name.clone(), identity.clock_name.clone());
        let runtime = self.downgrade();
        Box::new(move || {
            if let Some(runtime) = runtime().filter(|_| has_no_views) {
                // If the log has failed, the next definition says so.
                let _ = runtime.catalog_store().ended(&name, start);
                runtime.clock().forget(&clock_name);
            }
        })
    }

    /// Makes known that a query does not run, and why.
    pub(crate) fn note_failed(&self, identity: Identity, cause: Cause) {
        let name = identity.kept.name.clone();
        self.entries().insert(name, Entry::Started(NamedQuery::failed(identity, cause)));
    }

    /// Takes a name for a query that is to be opened; returns what it stood for.
    pub(crate) fn reserve(&self, name: &str, outputs: &[String]) -> Result<Option<Entry>, Cause> {
        let mut queries = self.entries();
        if self.is_closing() {
            return Err(Cause::operation(format!(
                "the database is being closed, so query '{name}' is not started; start it in the next run"
            )));
        }
        for (other, entry) in queries.iter().filter(|(_, entry)| !entry.is_over()) {
            if other == name {
                return Err(Cause::user(format!("query '{name}' is already running; stop it first")));
            }
            let theirs = entry.outputs();
            if let Some(output) = outputs.iter().find(|output| theirs.contains(output)) {
                return Err(Cause::user(format!(
                    "query '{other}' is running and writes to '{output}'; stop that query first"
                )));
            }
        }
        Ok(queries.insert(name.to_owned(), Entry::Starting(outputs.to_vec())))
    }

    /// A name stands again for what it stood for before.
    pub(crate) fn release(&self, name: &str, before: Option<Entry>) {
        let mut queries = self.entries();
        match before {
            Some(ended) => queries.insert(name.to_owned(), ended),
            None => queries.remove(name),
        };
    }
}
