//! The catalogue of a database: its definitions in order, and what they give.

mod defined_uses;
mod definition;
pub(crate) mod exchanged;
mod failed;
mod gateways;
mod instructions;
mod journals;
mod listing;
mod tables;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::logical_expr::LogicalPlan;
use tidemill_connect::memory::PushTarget;
use tidemill_engine::{Beginning, PlaceGroup, PoolStatus};

use self::defined_uses::DefinedUses;
pub use self::definition::Definition;
pub(crate) use self::definition::with_columns;
pub use self::failed::FailedDefinition;
pub(crate) use self::failed::{adds_to, defined, is_insert};
pub(crate) use self::instructions::{Instructions, Requested};
pub use self::listing::{ListedFunction, ListedKey, ListedRelation};
pub use self::tables::{ClientTable, NewTable, NewTableColumn};
use crate::connectors::{self, ConnectorTable, SinkDefinition};
use crate::defined_functions::DefinedFunctions;
use crate::extension::Registry;
use crate::logical::Functions;
use crate::pool_definition::PoolDefinition;
use crate::query::time_contract::TimeContract;
use crate::query::view::ViewHandle;
use crate::relations::named_relations::{NamedRelations, Relation, ViewDefinition};
use crate::relations::source_definition::SourceDefinition;
use crate::relations::stored_rows::StoredRows;
use crate::statement::{RelationKind, Statement};

/// A defined sink, and its input.
#[derive(Clone)]
pub(crate) struct SinkEntry {
    pub definition: SinkDefinition,
    pub max_latency: Option<Duration>,
    pub contract: Option<TimeContract>,
    pub beginning: Option<Beginning>,
    pub inputs: Vec<LogicalPlan>,
    /// The gateway at which it runs, because the rows of its sources enter there; none: it runs in the process itself.
    pub gateways: Vec<String>,
}

/// One version of a catalogue: its definitions in order, and what they give. Versions are values: a clone does not change
/// when the original does.
///
/// A catalogue also knows what the program has registered: functions, aggregates, operators, generators and
/// connectors. They have no definitions, so a program registers them each time it starts.
///
/// A clone shares what it has with the original, until one of them changes.
///
/// ```
/// use tidemill_sql::{Planner, parse};
/// let mut planner = Planner::new();
/// let before = planner.catalog().clone();
/// let script = "CREATE VIEW small AS SELECT value FROM sequence(count => 3); SET workers = 2";
/// for statement in parse(script, "example").unwrap() {
///     planner.execute(&statement).unwrap();
/// }
/// let definitions = planner.catalog().definitions();
/// assert_eq!((before.version(), planner.catalog().version(), definitions.len()), (0, 1, 1));
/// assert_eq!(definitions[0].statement, "CREATE VIEW small AS SELECT value FROM sequence(count => 3)");
/// ```
#[derive(Clone)]
pub struct Catalog {
    definitions: Arc<Vec<Arc<Definition>>>,
    pub(crate) relations: NamedRelations,
    pub(crate) sinks: Arc<BTreeMap<String, SinkEntry>>,
    pub(crate) places: BTreeMap<String, PlaceGroup>,
    pub(crate) pools: BTreeMap<String, Arc<PoolDefinition>>,
    /// The functions that are defined in SQL.
    pub(crate) defined: DefinedFunctions,
    /// What each definition uses of these, and of the relations.
    uses: DefinedUses,
    failed: Vec<Arc<FailedDefinition>>,
    pub(crate) functions: Arc<Functions>,
    pub(crate) registry: Arc<Registry>,
    pub(crate) connectors: Arc<ConnectorTable>,
    has_attached_views: bool,
}

impl Catalog {
    /// Version 0: no definitions, the built-in generators and functions.
    pub(crate) fn empty() -> Catalog {
        let generators = connectors::built_in_generators();
        let registry = Arc::new(Registry { generators, ..Registry::default() });
        Catalog { registry, connectors: Arc::new(connectors::built_in()), ..Catalog::nothing() }
    }

    fn nothing() -> Catalog {
        Catalog {
            definitions: Arc::default(),
            relations: NamedRelations::default(),
            sinks: Arc::default(),
            places: BTreeMap::new(),
            pools: BTreeMap::new(),
            defined: DefinedFunctions::new(),
            uses: DefinedUses::default(),
            failed: Vec::new(),
            functions: Arc::default(),
            registry: Arc::default(),
            connectors: Arc::default(),
            has_attached_views: false,
        }
    }

    /// Without definitions, and without the rows of views: only what the program has registered.
    #[must_use]
    pub fn without_definitions(&self) -> Catalog {
        let (functions, registry) = (Arc::clone(&self.functions), Arc::clone(&self.registry));
        let connectors = Arc::clone(&self.connectors);
        Catalog { functions, registry, connectors, ..Catalog::nothing() }
    }

    /// Its version: the number of its definitions.
    pub fn version(&self) -> u64 {
        self.definitions.len() as u64
    }

    /// What each pool has done since it last started, by name; pools that no query has run in are left out.
    pub fn pools(&self) -> Vec<(String, PoolStatus)> {
        let pools = self.pools.iter();
        pools.filter_map(|(name, pool)| Some((name.clone(), pool.status()?))).collect()
    }

    /// Its definitions, in order.
    pub fn definitions(&self) -> &[Arc<Definition>] {
        &self.definitions
    }

    /// Adds a definition whose effect is in the catalogue.
    pub(crate) fn note(&mut self, statement: &Statement, idle_after: Duration) {
        let (version, text) = (self.version() + 1, statement.text.clone());
        // `IF NOT EXISTS` leaves a failed definition as it is.
        if let Some((kind, name)) = defined(statement)
            && self.has(kind, name)
        {
            self.forget_failed(kind, name);
        }
        Arc::make_mut(&mut self.definitions).push(Arc::new(Definition {
            version,
            statement: text,
            idle_after,
        }));
    }

    /// Adds a definition that has no effect, because it could not be executed again.
    pub(crate) fn note_failed(
        &mut self,
        failed: FailedDefinition,
        statement: Option<&Statement>,
        read: BTreeSet<String>,
    ) {
        let is_insert = statement.is_some_and(is_insert);
        match &failed.defines {
            // What it would have replaced does not exist either; but a sink stays if its query fails.
            Some((RelationKind::Places, name)) => drop(self.places.remove(name)),
            Some((RelationKind::Pool, name)) => drop(self.pools.remove(name)),
            Some((RelationKind::Function, name)) => drop(self.defined.remove(name)),
            Some((RelationKind::Sink, _)) if is_insert => {}
            Some((RelationKind::Sink, name)) => drop(Arc::make_mut(&mut self.sinks).remove(name)),
            Some((_, name)) => drop(self.relations.remove(name)),
            None => {}
        }
        // What it uses cannot be dropped: where the definition does not fail, it could not be dropped either.
        statement.inspect(|statement| self.note_uses(statement, read));
        Arc::make_mut(&mut self.definitions).push(Arc::clone(&failed.definition));
        self.failed.push(Arc::new(failed));
    }

    /// Whether there is something of this name. Places have names of their own; all other things share theirs.
    pub(super) fn has(&self, kind: RelationKind, name: &str) -> bool {
        match kind {
            RelationKind::Places => self.places.contains_key(name),
            RelationKind::Pool => self.pools.contains_key(name),
            RelationKind::Function => self.defined.contains_key(name),
            RelationKind::Sink => self.sinks.contains_key(name),
            _ => self.relations.get(name).is_some(),
        }
    }

    /// The definitions that could not be executed again, and were neither dropped nor replaced since.
    pub fn failed_definitions(&self) -> &[Arc<FailedDefinition>] {
        &self.failed
    }

    /// The definition of a name that has failed.
    pub(crate) fn failed(&self, kind: RelationKind, name: &str) -> Option<&FailedDefinition> {
        self.failed.iter().find(|failed| failed.takes(kind, name)).map(Arc::as_ref)
    }

    /// The names that queries may use and whose definitions have failed, with the reasons.
    pub(crate) fn failed_names(&self) -> BTreeMap<&str, &str> {
        let names = self.failed.iter().filter_map(|failed| {
            let (kind, name) = failed.defines.as_ref()?;
            let is_used = !matches!(kind, RelationKind::Places | RelationKind::Pool);
            is_used.then_some((name.as_str(), failed.reason.as_str()))
        });
        names.collect()
    }

    pub(crate) fn forget_failed(&mut self, kind: RelationKind, name: &str) {
        self.failed.retain(|failed| !failed.takes(kind, name));
    }

    /// From now on, queries that name this view read its rows as they are at that moment instead of computing it again.
    /// Nothing happens if another view has taken the name since.
    pub fn attach_view(&mut self, view: &ViewHandle) {
        let rows = view.definition();
        let attached = match self.relations.get(view.name()) {
            Some(Relation::View(known)) => {
                if !view.is_of(known) {
                    return;
                }
                let known = known.as_ref().clone();
                let rows = Some(Arc::new(rows.with_json_of(known.plan.schema().as_arrow())));
                Relation::View(Arc::new(ViewDefinition { rows, ..known }))
            }
            Some(_) => return,
            // It was defined in another catalogue: here it is a table.
            None => Relation::Source(Arc::new(rows)),
        };
        self.relations.add(view.name(), attached);
        self.has_attached_views = true;
    }

    /// Lets queries read rows under a name, in place of what had it before.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use tidemill_engine::arrow::array::{Int64Array, RecordBatch};
    /// use tidemill_sql::{Planner, Reply, parse};
    /// let rows = RecordBatch::try_from_iter([("n", Arc::new(Int64Array::from(vec![2, 3])) as _)]).unwrap();
    /// let mut planner = Planner::new();
    /// let mut catalog = planner.catalog().clone();
    /// catalog.attach_rows("numbers", rows);
    /// planner.set_catalog(catalog);
    /// let statement = parse("SELECT sum(n) FROM numbers", "example").unwrap().remove(0);
    /// assert!(matches!(planner.execute(&statement), Ok(Reply::Rows(_) | Reply::Query(_))));
    /// ```
    pub fn attach_rows(&mut self, name: &str, rows: RecordBatch) {
        let rows = Arc::new(SourceDefinition::of_rows(name, rows));
        let attached = match self.relations.get(name) {
            // What is defined over the view reads them, too.
            Some(Relation::View(known)) => {
                let known = known.as_ref().clone();
                self.has_attached_views = true;
                Relation::View(Arc::new(ViewDefinition { rows: Some(rows), ..known }))
            }
            _ => Relation::Source(rows),
        };
        self.relations.add(name, attached);
    }

    /// As [`attach_rows`](Catalog::attach_rows), with rows in several batches.
    pub fn attach_batches(&mut self, name: &str, schema: SchemaRef, batches: Vec<RecordBatch>) {
        let definition = SourceDefinition::of_batches(name, schema, batches);
        self.relations.add(name, Relation::Source(Arc::new(definition)));
    }

    /// The same version, in which the views that run stay as they are now: all of them after one cycle, the newest that they
    /// have in common. A view that is too far behind the others cannot be read in it.
    #[must_use]
    pub fn at_one_cycle(&self) -> Catalog {
        let stored = |(name, relation): (&str, &Relation)| {
            let rows = attached(relation)?;
            Some((name.to_owned(), Arc::clone(rows), rows.stored.clone()?))
        };
        let views: Vec<_> = self.relations.iter().filter_map(stored).collect();
        let stores: Vec<_> = views.iter().map(|(_, _, stored)| stored.clone()).collect();
        let mut pinned = self.clone();
        for ((name, rows, _), stored) in views.into_iter().zip(crate::store::pinned(&stores)) {
            let rows = Arc::new(SourceDefinition { stored: Some(stored), ..rows.as_ref().clone() });
            let relation = match self.relations.get(&name) {
                Some(Relation::View(view)) => {
                    Relation::View(Arc::new(ViewDefinition { rows: Some(rows), ..view.as_ref().clone() }))
                }
                _ => Relation::Source(rows),
            };
            pinned.relations.add(&name, relation);
        }
        pinned.at_part_versions();
        pinned
    }

    /// How much the versions that it was [put at](Catalog::at_one_cycle) hold which the views have dropped or
    /// replaced since, in bytes.
    pub fn outlived_bytes(&self) -> u64 {
        let chosen = |(_, relation): (&str, &Relation)| attached(relation)?.stored.as_ref()?.chosen()?.ok();
        self.relations.iter().filter_map(chosen).map(|version| version.outlived_bytes()).sum()
    }

    /// The rows of the view of this name, if they are in a store.
    pub(crate) fn stored_rows(&self, name: &str) -> Option<&StoredRows> {
        attached(self.relations.get(name)?)?.stored.as_ref()
    }

    /// Whether queries may read rows that only this process has.
    pub(crate) fn has_attached_views(&self) -> bool {
        self.has_attached_views
    }

    /// Whether a sink writes to standard output.
    pub fn writes_to_standard_output(&self) -> bool {
        self.sinks.values().any(|sink| sink.definition.connector == "stdout")
    }

    /// Where rows are put into a source that is given its rows (`connector = 'push'`); `None` if there is no such source.
    pub fn push_target(&self, name: &str) -> Option<&PushTarget> {
        match self.relations.get(name) {
            Some(Relation::Source(source)) => source.push.as_ref(),
            _ => None,
        }
    }

    /// Whether there is a sink with an input, or a materialized view, of this name.
    pub fn has_output(&self, name: &str) -> bool {
        let is_materialized = match self.relations.get(name) {
            Some(Relation::View(view)) => view.materialized.is_some(),
            _ => false,
        };
        is_materialized || self.sinks.get(name).is_some_and(|sink| !sink.inputs.is_empty())
    }

    /// The same rows, for the view that has this name here. It must be defined as the one that they were computed for.
    #[must_use]
    pub fn own_view(&self, view: &ViewHandle) -> ViewHandle {
        match self.relations.get(view.name()) {
            Some(Relation::View(own)) => view.of_view(Arc::clone(own)),
            _ => view.clone(),
        }
    }

    /// Whether this is a view of the catalogue: neither dropped nor replaced since it was started.
    pub fn has_view(&self, view: &ViewHandle) -> bool {
        matches!(self.relations.get(view.name()), Some(Relation::View(known)) if view.is_of(known))
    }

    /// Whether there are sinks or materialized views to run.
    pub fn has_pipeline(&self) -> bool {
        let materialized =
            |relation: &Relation| matches!(relation, Relation::View(view) if view.materialized.is_some());
        self.sinks.values().any(|sink| !sink.inputs.is_empty())
            || self.relations.iter().any(|(_, relation)| materialized(relation))
    }

    /// Names of relations and functions, for completion.
    pub fn names(&self) -> Vec<String> {
        let relations = self.relations.iter().map(|(name, _)| name.to_string());
        let sinks = self.sinks.keys().cloned();
        let functions = self.functions.scalar.keys().chain(self.functions.aggregate.keys()).cloned();
        let registered = self.registry.generators.keys().chain(self.registry.operators.keys()).cloned();
        let defined = self.defined.keys().cloned();
        relations.chain(sinks).chain(functions).chain(defined).chain(registered).collect()
    }

    /// The columns of all sources and views, for completion.
    pub fn column_names(&self) -> Vec<String> {
        let names_of = |plan: &LogicalPlan| {
            plan.schema().fields().iter().map(|field| field.name().clone()).collect::<Vec<_>>()
        };
        let columns = |relation: &Relation| -> Vec<String> {
            match relation {
                Relation::Source(source) => {
                    source.schema.fields().iter().map(|field| field.name().clone()).collect()
                }
                Relation::View(view) => names_of(&view.plan),
                Relation::Process(set) => names_of(&set.plan),
            }
        };
        self.relations.iter().flat_map(|(_, relation)| columns(relation)).collect()
    }
}

/// What is read of a relation as it is, and not computed.
fn attached(relation: &Relation) -> Option<&Arc<SourceDefinition>> {
    match relation {
        Relation::Source(rows) => Some(rows),
        Relation::View(view) => view.rows.as_ref(),
        Relation::Process(_) => None,
    }
}
