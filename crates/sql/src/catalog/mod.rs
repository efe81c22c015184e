//! The catalogue of a database: its definitions in order, and what they give.

mod definition;
mod instructions;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use datafusion::logical_expr::LogicalPlan;
use tidemill_engine::PlaceGroup;

pub use self::definition::Definition;
pub(crate) use self::instructions::Instructions;
use crate::connectors::{self, ConnectorTable, SinkDefinition};
use crate::extension::Registry;
use crate::logical::Functions;
use crate::named_relations::{NamedRelations, Relation, ViewDefinition};
use crate::view::ViewHandle;

/// A defined sink, and its input.
#[derive(Clone)]
pub(crate) struct SinkEntry {
    pub definition: SinkDefinition,
    pub max_latency: Option<Duration>,
    pub inputs: Vec<LogicalPlan>,
}

/// One version of a catalogue: its definitions in order, and what they give. Versions are values: a clone does not change
/// when the original does.
///
/// A catalogue also knows what the program has registered: functions, aggregates, operators, generators and connectors. These are no
/// definitions, so a program registers them each time it starts.
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
    definitions: Vec<Arc<Definition>>,
    pub(crate) relations: NamedRelations,
    pub(crate) sinks: BTreeMap<String, SinkEntry>,
    pub(crate) places: BTreeMap<String, PlaceGroup>,
    pub(crate) functions: Arc<Functions>,
    pub(crate) registry: Arc<Registry>,
    pub(crate) connectors: Arc<ConnectorTable>,
    has_attached_views: bool,
}

impl Catalog {
    /// Version 0: no definitions, the built-in generators and functions.
    pub(crate) fn empty() -> Catalog {
        let mut registry = Registry::default();
        connectors::register(&mut registry);
        Catalog {
            definitions: Vec::new(),
            relations: NamedRelations::default(),
            sinks: BTreeMap::new(),
            places: BTreeMap::new(),
            functions: Arc::default(),
            registry: Arc::new(registry),
            connectors: Arc::new(connectors::built_in()),
            has_attached_views: false,
        }
    }

    /// Its version: the number of its definitions.
    pub fn version(&self) -> u64 {
        self.definitions.len() as u64
    }

    /// Its definitions, in order.
    pub fn definitions(&self) -> &[Arc<Definition>] {
        &self.definitions
    }

    /// Adds a definition whose effect is in the catalogue.
    pub(crate) fn note(&mut self, statement: &str, idle_after: Duration) {
        let (version, statement) = (self.version() + 1, statement.to_owned());
        self.definitions.push(Arc::new(Definition { version, statement, idle_after }));
    }

    /// From now on, queries that name this view read its rows as they are at that moment instead of computing it again.
    /// Nothing happens if another view has taken the name since.
    pub fn attach_view(&mut self, view: &ViewHandle) {
        let rows = Arc::new(view.definition());
        let attached = match self.relations.get(view.name()) {
            Some(Relation::View(known)) => {
                if !view.is_of(known) {
                    return;
                }
                let known = known.as_ref().clone();
                Relation::View(Arc::new(ViewDefinition { rows: Some(rows), ..known }))
            }
            Some(_) => return,
            // It was defined in another catalogue: here it is a table.
            None => Relation::Source(rows),
        };
        self.relations.add(view.name(), attached);
        self.has_attached_views = true;
    }

    /// Whether queries may read rows that only this process has.
    pub(crate) fn has_attached_views(&self) -> bool {
        self.has_attached_views
    }

    /// Whether a sink writes to standard output.
    pub fn writes_to_standard_output(&self) -> bool {
        self.sinks.values().any(|sink| sink.definition.connector == "stdout")
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
        relations.chain(sinks).chain(functions).chain(registered).collect()
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
