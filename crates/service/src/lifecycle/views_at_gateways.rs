//! Views with parts at gateways: where they run, and when they end.

use std::collections::BTreeSet;
use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tidemill_engine::Cause;

use crate::Runtime;
use crate::catalog::record::{CatalogRecord, StartedQuery};
use crate::gateways::{Gateway, GatewaySettings, Gateways, SOCKET, StatusTables};
use crate::runtime::own_tables::own_tables;
use crate::runtime::query_at_gateways::QueryAtGateways;

/// How long a definition waits for a new gateway.
const BEGIN_TIME: Duration = Duration::from_secs(60);
/// How long one waits for the end of a gateway without views.
const END_TIME: Duration = Duration::from_secs(10);
/// How long gateways may take to say how they are.
const REPORT_TIME: Duration = Duration::from_secs(5);
/// The longest path of a Unix socket.
const SOCKET_PATH_MAX: usize = 107;

impl Runtime {
    /// Starts the gateways that the views of the catalogue need, and from here on those that new ones need. The planner of the
    /// runtime was opened with [`GatewayPlace::Elsewhere`](tidemill_sql::GatewayPlace::Elsewhere).
    ///
    /// One that cannot be started is away: the views that have parts there cannot be read.
    pub fn start_gateways(&self, settings: GatewaySettings) {
        self.set_gateways(Gateways::new(settings));
        for query in self.queries_at_gateways() {
            for name in self.defined_catalog().gateways_of(&query.query.name) {
                if let Err(cause) = self.gateway(name) {
                    tracing::error!(gateway = name, %cause, "a gateway cannot be started");
                    self.catalog_store().endpoint(name).is_away(cause.to_string());
                }
            }
        }
    }

    /// The names of its gateways.
    ///
    /// ```
    /// use tidemill_service::Runtime;
    /// use tidemill_sql::Planner;
    /// assert!(Runtime::new(Planner::new()).gateway_names().is_empty());
    /// ```
    pub fn gateway_names(&self) -> Vec<String> {
        let running = self.gateways().map_or_else(Vec::new, |gateways| gateways.running());
        running.into_iter().map(|(name, _)| name).collect()
    }

    fn has_gateways(&self) -> bool {
        self.gateways().is_some()
    }

    /// The queries that run at gateways.
    fn queries_at_gateways(&self) -> Vec<QueryAtGateways> {
        self.at_gateways().clone()
    }

    /// Forgets a query at gateways; whether there was one.
    fn forget_at_gateways(&self, name: &str) -> bool {
        let mut queries = self.at_gateways();
        let before = queries.len();
        queries.retain(|known| known.query.name != name);
        queries.len() < before
    }

    /// Whether this view has parts at gateways: it is started there, and not as a query of this process.
    pub fn is_at_gateways(&self, view: &str) -> bool {
        self.has_gateways() && !self.defined_catalog().gateways_of(view).is_empty()
    }

    /// How this query is at its gateways; `None`: it was not started there.
    pub(super) fn query_at_gateways(&self, name: &str) -> Option<QueryAtGateways> {
        self.at_gateways().iter().find(|known| known.query.name == name).cloned()
    }

    /// A query runs at its gateways, in place of what had its name.
    pub(super) fn note_at_gateways(&self, query: StartedQuery) {
        let mut queries = self.at_gateways();
        queries.retain(|known| known.query.name != query.name);
        queries.push(QueryAtGateways::running(query));
    }

    /// Whether a query is stopped at its gateways.
    pub(super) fn set_stopped_at_gateways(&self, name: &str, is_stopped: bool) {
        let mut queries = self.at_gateways();
        queries
            .iter_mut()
            .filter(|known| known.query.name == name)
            .for_each(|known| known.is_stopped = is_stopped);
    }

    /// The names of the queries that are stopped at their gateways.
    pub(crate) fn stopped_at_gateways(&self) -> Vec<String> {
        let queries = self.at_gateways();
        queries.iter().filter(|known| known.is_stopped).map(|known| known.query.name.clone()).collect()
    }

    /// The gateways of a view, in an order that is the same for all views.
    pub(super) fn gateways_of_view(&self, view: &str) -> Result<Vec<Arc<Gateway>>, Cause> {
        let mut names = self.defined_catalog().gateways_of(view).to_vec();
        names.sort_unstable();
        names.iter().map(|name| self.gateway(name)).collect()
    }

    /// Runs a view at its gateways. It runs again when they or the server are started again.
    pub(super) fn run_at_gateways(
        &self,
        query: StartedQuery,
        is_cancelled: &dyn Fn() -> bool,
    ) -> Result<(), Cause> {
        let view = query.name.clone();
        self.catalog_store().started(query.clone())?;
        self.note_at_gateways(query.clone());
        let names = self.defined_catalog().gateways_of(&view).to_vec();
        let gateways = names.iter().map(|name| self.gateway(name)).collect::<Result<Vec<_>, Cause>>()?;
        for gateway in gateways {
            gateway.wait_until_here(BEGIN_TIME, is_cancelled)?;
            gateway.apply(is_cancelled, |version| {
                self.records_for_gateway(version, [QueryAtGateways::running(query.clone())])
            })?;
        }
        Ok(())
    }

    /// Gateways that have views over a source follow its definition.
    /// If the statement is cancelled meanwhile, or one fails, that one follows with the next definition.
    pub(crate) fn apply_at_gateways(&self, source: &str, is_cancelled: &dyn Fn() -> bool) {
        let (Some(gateways), catalog) = (self.gateways(), self.defined_catalog()) else { return };
        let outputs = catalog.outputs_over(source);
        let names: BTreeSet<String> =
            outputs.iter().flat_map(|output| catalog.gateways_of(output).to_vec()).collect();
        for (name, gateway) in gateways.running().into_iter().filter(|(name, _)| names.contains(name)) {
            let applied = gateway.apply(is_cancelled, |version| self.records_for_gateway(version, []));
            if let Err(cause) = applied {
                tracing::warn!(gateway = name, %cause, "a gateway could not follow the catalogue yet");
            }
        }
    }

    /// The views at gateways that were dropped end there, and gateways without views end.
    /// If the statement is cancelled while one begins, that one follows with the next definition.
    pub(crate) fn follow_at_gateways(&self, dropped: &str, is_cancelled: &dyn Fn() -> bool) {
        let Some(gateways) = self.gateways() else { return };
        if !self.forget_at_gateways(dropped) {
            return;
        }
        let catalog = self.defined_catalog();
        let views = self.queries_at_gateways();
        let is_needed = |name: &str| {
            views
                .iter()
                .any(|view| catalog.gateways_of(&view.query.name).iter().any(|gateway| gateway == name))
        };
        for (name, gateway) in gateways.running() {
            // One that fails begins again with all definitions.
            let applied = gateway.apply(is_cancelled, |version| self.records_for_gateway(version, []));
            if let Err(cause) = applied {
                tracing::warn!(gateway = name, %cause, "a gateway could not follow the catalogue yet");
            }
            if !is_needed(&name) {
                gateway.close();
                // A later one of its name has the same journal.
                gateway.has_ended(Instant::now() + END_TIME);
                gateways.remove(&name);
            }
        }
    }

    /// What `SHOW QUERIES`, `SHOW FRAGMENTS` and `SHOW GATEWAYS` say: of this process and of its gateways.
    ///
    /// ```
    /// use tidemill_service::{Runtime, StatusTables};
    /// use tidemill_sql::Planner;
    /// assert_eq!(Runtime::new(Planner::new()).status_tables(), StatusTables::default());
    /// ```
    pub fn status_tables(&self) -> StatusTables {
        let mut tables = own_tables(self, "");
        let Some(gateways) = self.gateways() else { return tables };
        let running = gateways.running();
        let until = Instant::now() + REPORT_TIME;
        // All are asked before an answer is taken: they answer beside each other.
        let asked: Vec<_> =
            running.iter().map(|(name, gateway)| (name, gateway, gateway.ask(until))).collect();
        for (name, gateway, asked) in asked {
            let found = asked.and_then(|asked| asked.tables(until));
            let mut found = found.unwrap_or_else(|| away(gateway));
            for row in &mut found.queries {
                if let Some(query) = row.first_mut() {
                    *query = format!("{query} at {name}");
                }
            }
            tables.add(found);
        }
        tables
    }

    /// The gateway of this name, which is started if it does not run yet.
    fn gateway(&self, name: &str) -> Result<Arc<Gateway>, Cause> {
        let gateways = self.gateways().ok_or_else(|| Cause::bug("this runtime starts no gateways"))?;
        gateways.get_or_start(name, |settings| self.new_gateway(name, settings))
    }

    fn new_gateway(&self, name: &str, settings: &GatewaySettings) -> Result<Arc<Gateway>, Cause> {
        let folder = settings.folder.join(name);
        if folder.join(SOCKET).as_os_str().len() > SOCKET_PATH_MAX {
            let folder = folder.display();
            return Err(Cause::user(format!(
                "the path {folder} is too long for the socket of a gateway; keep the data in a folder with a \
                 shorter path"
            )));
        }
        DirBuilder::new().recursive(true).mode(0o700).create(&folder)?;
        let (own, command) = (name.to_owned(), Arc::clone(&settings.command));
        let (runtime, within) = (self.downgrade(), folder.clone());
        let named = own.clone();
        let beginning = Box::new(move || {
            let runtime = runtime()?;
            let catalog = runtime.defined_catalog();
            let is_there = |known: &QueryAtGateways| catalog.gateways_of(&known.query.name).contains(&named);
            let queries = runtime.queries_at_gateways().into_iter().filter(is_there);
            Some(runtime.records_for_gateway(0, queries))
        });
        let endpoint = self.catalog_store().endpoint(name);
        let command = move || command(&own, &within);
        let name = name.to_owned();
        self.start_for_all(move || Gateway::start(&name, folder, endpoint, command, beginning))
    }

    /// The definitions behind a version, with these queries, and the newest version.
    pub(super) fn records_for_gateway(
        &self,
        version: u64,
        queries: impl IntoIterator<Item = QueryAtGateways>,
    ) -> (Vec<CatalogRecord>, u64) {
        let catalog = self.defined_catalog();
        let definitions = catalog.definitions().iter().skip(version as usize).cloned();
        let queries = queries.into_iter().flat_map(|QueryAtGateways { query, is_stopped }| {
            let stopped = is_stopped.then(|| CatalogRecord::Stopped(query.name.clone()));
            std::iter::once(CatalogRecord::Started(query)).chain(stopped)
        });
        (definitions.map(CatalogRecord::Definition).chain(queries).collect(), catalog.version())
    }
}

fn away(gateway: &Gateway) -> StatusTables {
    let query = ["views", "away", "", "", "", &gateway.problem()].map(str::to_owned).to_vec();
    StatusTables { queries: vec![query], ..StatusTables::default() }
}
