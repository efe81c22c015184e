//! The newest version of the catalogue, and the log behind it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use parking_lot::Mutex;
use tidemill_engine::Cause;
use tidemill_sql::{Catalog, Definition, GatewayRows, ViewHandle};
use tidemill_store::remote::Endpoint;

use crate::catalog::log::CatalogLog;
use crate::catalog::plan_cache::PlanCache;
use crate::catalog::record::{CatalogRecord, StartedQuery};
use crate::catalog::user::{User, Users};
use crate::error::Error;

/// How often a definition is planned beside those of other sessions, before the others wait for it.
const ATTEMPTS_MAX: usize = 8;

/// The newest version of the catalogue, and the log behind it.
///
/// Two locks, always taken in this order. `log` is held while records are added, so that they have one order; only those
/// wait for it that add records, too. `versions` is held for no longer than it takes to copy or to exchange a version.
pub(crate) struct CatalogStore {
    log: Mutex<Log>,
    versions: Mutex<Versions>,
    /// Taken as `versions` is.
    users: Mutex<Users>,
    /// Of queries against `readable`.
    plans: PlanCache,
}

struct Versions {
    /// What the definitions give. Statements that define, and queries that run by name, are planned against it, so that
    /// they mean the same after a restart.
    defined: Catalog,
    /// The same, with the rows of the views that run. Other queries are planned against it.
    readable: Catalog,
    /// How often `readable` has changed: by definitions, and by views that start.
    changes: u64,
    /// The views that were started, by name. They stay when their query has ended.
    views: BTreeMap<String, ViewHandle>,
    /// The gateways that views have parts at, by name, as readers know them; `None`: the sources enter in this process.
    gateways: Option<BTreeMap<String, Arc<Endpoint>>>,
}

struct Log {
    log: Box<dyn CatalogLog>,
    /// The queries that the log says to start again, each with a number of its own.
    started: BTreeMap<String, u64>,
    /// Those that it says to be stopped.
    stopped: BTreeSet<String>,
    starts: u64,
    /// Those that have begun: what they have kept is there.
    begun: BTreeSet<String>,
    /// Those of them that are still to be started for the first time.
    announced: BTreeMap<String, Start>,
}

/// One start of a query in the log. A later start of the same name has another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Start(u64);

impl Versions {
    /// Lets queries read the rows of the views. A view that was dropped or replaced is let go, with its rows. Returns how often
    /// `readable` has changed.
    fn attach(&mut self) -> u64 {
        self.views.retain(|_, view| self.defined.has_view(view));
        self.changes += 1;
        self.readable = self.defined.clone();
        self.views.values().for_each(|view| self.readable.attach_view(view));
        let Some(gateways) = &mut self.gateways else { return self.changes };
        for view in self.defined.views_at_gateways() {
            let endpoint = |name: &String| endpoint_of(gateways, name);
            let endpoints = self.defined.gateways_of(&view).iter().map(endpoint).collect();
            self.readable.attach_gateways(&view, endpoints);
        }
        self.changes
    }
}

fn endpoint_of(gateways: &mut BTreeMap<String, Arc<Endpoint>>, name: &str) -> Arc<Endpoint> {
    let new = || Arc::new(Endpoint::new(format!("gateway '{name}'")));
    Arc::clone(gateways.entry(name.to_owned()).or_insert_with(new))
}

impl CatalogStore {
    pub fn new(catalog: Catalog, log: Box<dyn CatalogLog>, users: Users, has_gateways: bool) -> CatalogStore {
        let gateways = has_gateways.then(BTreeMap::new);
        let (readable, views) = (catalog.clone(), BTreeMap::new());
        let mut versions = Versions { readable, defined: catalog, changes: 0, views, gateways };
        let plans = PlanCache::default();
        plans.begin(versions.attach());
        let log = Log {
            log,
            started: BTreeMap::new(),
            stopped: BTreeSet::new(),
            begun: BTreeSet::new(),
            starts: 0,
            announced: BTreeMap::new(),
        };
        let (log, versions, users) = (Mutex::new(log), Mutex::new(versions), Mutex::new(users));
        CatalogStore { log, versions, users, plans }
    }

    /// How readers know this gateway.
    pub fn endpoint(&self, gateway: &str) -> Arc<Endpoint> {
        endpoint_of(self.versions.lock().gateways.get_or_insert_with(BTreeMap::new), gateway)
    }

    /// Whether these are still the parts of a view: it was neither dropped nor replaced.
    pub fn has_parts(&self, view: &GatewayRows) -> bool {
        let versions = self.versions.lock();
        versions.readable.gateway_rows(view.name()).is_some_and(|newest| newest.is_same(view))
    }

    /// The newest version, without the rows of views that run.
    pub fn defined(&self) -> Catalog {
        self.versions.lock().defined.clone()
    }

    /// The newest version, with the rows of the views that run.
    pub fn readable(&self) -> Catalog {
        self.versions.lock().readable.clone()
    }

    /// As `readable`, with the number of times that it had changed by then.
    pub fn readable_at(&self) -> (u64, Catalog) {
        let versions = self.versions.lock();
        (versions.changes, versions.readable.clone())
    }

    /// The plans of queries against it.
    pub fn plans(&self) -> &PlanCache {
        &self.plans
    }

    /// The view of this name that was started last, unless it was dropped or replaced.
    pub fn view(&self, name: &str) -> Option<ViewHandle> {
        self.versions.lock().views.get(name).cloned()
    }

    /// All of them, in the order of their names.
    pub fn views(&self) -> Vec<ViewHandle> {
        self.versions.lock().views.values().cloned().collect()
    }

    /// Queries read the rows of these views from here on, until the views are dropped, replaced or started again.
    pub fn attach(&self, views: &[ViewHandle]) {
        let mut versions = self.versions.lock();
        versions.views.extend(views.iter().map(|view| (view.name().to_owned(), view.clone())));
        self.plans.begin(versions.attach());
    }

    /// Makes the next version out of the newest one. It counts once its definitions are in the log. `plan` is called again
    /// if another session was faster; `check` then says, before anything is kept, whether the next version may count, and
    /// with which queries that stop. What a dropped output had as its only query stops with the definition: the log says it once.
    ///
    /// The `announced` query starts again with the database from here on, even if the process is killed before it has started. It
    /// is left out if its output exists already.
    ///
    /// If it `keeps_views`, all views mean what they meant: their rows are read as before.
    pub fn define<T>(
        &self,
        (announced, keeps_views): (Option<StartedQuery>, bool),
        mut plan: impl FnMut(Catalog) -> Result<(T, Catalog), Error>,
        mut check: impl FnMut(&Catalog, &Catalog) -> Result<Vec<String>, Cause>,
    ) -> Result<(T, Vec<String>), Error> {
        for attempt in 1.. {
            let is_last = attempt == ATTEMPTS_MAX;
            let before = is_last.then(|| self.log.lock());
            let base = self.defined();
            let version = base.version();
            let announced = announced.as_ref().filter(|query| !base.has_output(&query.name));
            let (defined, next) = plan(base.clone())?;
            let mut log = before.unwrap_or_else(|| self.log.lock());
            if self.version() != version {
                continue;
            }
            let stopped = check(&base, &next)?;
            match (&next.definitions()[version as usize..], announced) {
                ([only], Some(query)) => {
                    log.log.append(&CatalogRecord::Replaced(Arc::clone(only), query.clone()))?;
                    let start = log.note_started(query.name.clone());
                    log.announced.insert(query.name.clone(), start);
                }
                (definitions, _) => {
                    for definition in definitions {
                        log.log.append(&CatalogRecord::Definition(Arc::clone(definition)))?;
                    }
                }
            }
            stopped.iter().for_each(|query| log.forget(query));
            let mut versions = self.versions.lock();
            if keeps_views {
                versions.views.values_mut().for_each(|view| *view = next.own_view(view));
            }
            versions.defined = next;
            self.plans.begin(versions.attach());
            return Ok((defined, stopped));
        }
        Err(Cause::bug("a definition was never planned").into())
    }

    fn version(&self) -> u64 {
        self.versions.lock().defined.version()
    }

    /// Records that a query has been started, if its outputs still exist.
    pub fn started(&self, query: StartedQuery) -> Result<Start, Cause> {
        let mut log = self.log.lock();
        let defined = self.defined();
        if let Some(gone) = query.outputs.iter().find(|output| !defined.has_output(output)) {
            return Err(Cause::user(format!(
                "'{gone}' was dropped while query '{}' was starting",
                query.name
            )));
        }
        log.log.append(&CatalogRecord::Started(query.clone()))?;
        log.begun.insert(query.name.clone());
        if let Some(start) = log.announced.remove(&query.name) {
            return Ok(start);
        }
        Ok(log.note_started(query.name))
    }

    /// Records that a query which was announced has not started, and does not start with the database.
    pub fn withdraw(&self, name: &str, why: &str) -> Result<(), Cause> {
        let mut log = self.log.lock();
        if log.announced.contains_key(name) {
            log.log.append(&CatalogRecord::NotStarted(name.to_owned(), why.to_owned()))?;
            log.forget(name);
        }
        Ok(())
    }

    /// Makes the next version, in which a definition is replaced, and a query that runs already takes the place of the one that
    /// writes to it. Both are one record, so a crash leaves the old query or the new one. From then on, queries read the views of
    /// the new one, which are defined as `plan` defines them.
    pub fn replace(
        &self,
        query: StartedQuery,
        views: &[ViewHandle],
        plan: impl FnOnce(Catalog) -> Result<Catalog, Error>,
    ) -> Result<Start, Error> {
        let mut log = self.log.lock();
        let (definition, next) = self.next(plan)?;
        log.log.append(&CatalogRecord::Replaced(definition, query.clone()))?;
        // It has begun, which the first record alone does not say.
        log.log.append(&CatalogRecord::Started(query.clone()))?;
        log.begun.insert(query.name.clone());
        let start = log.note_started(query.name);
        self.exchange(next, views);
        Ok(start)
    }

    /// Makes the next version, in which the definition of a query that is stopped is replaced. Its views are read as before.
    pub fn redefine(
        &self,
        views: &[ViewHandle],
        plan: impl FnOnce(Catalog) -> Result<Catalog, Error>,
    ) -> Result<(), Error> {
        let mut log = self.log.lock();
        let (definition, next) = self.next(plan)?;
        log.log.append(&CatalogRecord::Definition(definition))?;
        self.exchange(next, views);
        Ok(())
    }

    /// The next version, which has one more definition. The log is locked.
    fn next(
        &self,
        plan: impl FnOnce(Catalog) -> Result<Catalog, Error>,
    ) -> Result<(Arc<Definition>, Catalog), Error> {
        let base = self.defined();
        let version = base.version() as usize;
        let next = plan(base)?;
        let [definition] = &next.definitions()[version..] else {
            return Err(Cause::bug("what replaces a definition is not one definition").into());
        };
        Ok((Arc::clone(definition), next))
    }

    /// Nobody reads the rows of a view any more, until it is started again.
    pub fn detach(&self, view: &str) {
        let mut versions = self.versions.lock();
        if versions.views.remove(view).is_some() {
            self.plans.begin(versions.attach());
        }
    }

    /// The next version counts, and these are its views of their names.
    fn exchange(&self, next: Catalog, views: &[ViewHandle]) {
        let mut versions = self.versions.lock();
        versions.views.extend(views.iter().map(|view| (view.name().to_owned(), next.own_view(view))));
        versions.defined = next;
        self.plans.begin(versions.attach());
    }

    /// Notes that the log says to start a query again.
    pub fn note_started(&self, name: String) -> Start {
        self.log.lock().note_started(name)
    }

    /// Notes that the log says a query to have begun.
    pub fn note_begun(&self, name: &str) {
        self.log.lock().begun.insert(name.to_owned());
    }

    /// Records that a query has begun, unless the log says so already.
    pub fn has_begun(&self, query: &StartedQuery) -> Result<(), Cause> {
        let mut log = self.log.lock();
        if log.begun.insert(query.name.clone()) {
            log.log.append(&CatalogRecord::Started(query.clone()))?;
        }
        Ok(())
    }

    /// Whether a query has begun, and not been dropped since.
    pub fn is_begun(&self, name: &str) -> bool {
        self.log.lock().begun.contains(name)
    }

    /// Notes that the log says a query to be stopped.
    pub fn note_stopped(&self, name: String) {
        self.log.lock().stopped.insert(name);
    }

    /// Records that a query is stopped, until it is started.
    pub fn stopped(&self, name: &str) -> Result<(), Cause> {
        self.log.lock().stop(name)
    }

    /// As `stopped`, unless the log says so already.
    pub fn still_stopped(&self, name: &str) -> Result<(), Cause> {
        let mut log = self.log.lock();
        if log.stopped.contains(name) { Ok(()) } else { log.stop(name) }
    }

    /// Records that a query does not start again.
    pub fn forgotten(&self, name: &str) -> Result<(), Cause> {
        self.log.lock().end(name)
    }

    /// As `forgotten`, unless the query has been started again since.
    pub fn ended(&self, name: &str, start: Start) -> Result<(), Cause> {
        let mut log = self.log.lock();
        if log.started.get(name) == Some(&start.0) { log.end(name) } else { Ok(()) }
    }

    pub fn users(&self) -> Users {
        self.users.lock().clone()
    }

    pub fn user(&self, name: &str) -> Option<User> {
        self.users.lock().get(name).cloned()
    }

    pub fn has_users(&self) -> bool {
        !self.users.lock().is_empty()
    }

    /// Changes the user of a name to what `change` makes of the users; `None`: there is no such user any more.
    pub fn keep_user(
        &self,
        name: &str,
        change: impl FnOnce(&Users) -> Result<Option<User>, Cause>,
    ) -> Result<(), Cause> {
        let mut log = self.log.lock();
        let changed = change(&self.users.lock())?;
        let record = match &changed {
            Some(user) => CatalogRecord::User(user.clone()),
            None => CatalogRecord::UserDropped(name.to_owned()),
        };
        log.log.append(&record)?;
        let mut users = self.users.lock();
        match changed {
            Some(user) => users.insert(name.to_owned(), user),
            None => users.remove(name),
        };
        Ok(())
    }
}

impl Log {
    fn note_started(&mut self, name: String) -> Start {
        self.starts += 1;
        self.stopped.remove(&name);
        self.started.insert(name, self.starts);
        Start(self.starts)
    }

    fn stop(&mut self, name: &str) -> Result<(), Cause> {
        self.log.append(&CatalogRecord::Stopped(name.to_owned()))?;
        let is_begun = self.begun.contains(name);
        self.forget(name);
        self.stopped.insert(name.to_owned());
        self.begun.extend(is_begun.then(|| name.to_owned()));
        Ok(())
    }

    fn end(&mut self, name: &str) -> Result<(), Cause> {
        if self.started.contains_key(name) || self.stopped.contains(name) {
            self.log.append(&CatalogRecord::Ended(name.to_owned()))?;
            self.forget(name);
        }
        Ok(())
    }

    fn forget(&mut self, name: &str) {
        self.started.remove(name);
        self.stopped.remove(name);
        self.begun.remove(name);
        self.announced.remove(name);
    }
}
