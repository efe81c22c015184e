//! What can be named in FROM, by name.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use datafusion::logical_expr::LogicalPlan;

use crate::definition::SourceDefinition;
use crate::process::StreamProcessSet;

/// A view: a named query.
#[derive(Clone, Debug)]
pub(crate) struct ViewDefinition {
    pub plan: LogicalPlan,
    /// How its rows are kept in memory, to be read while it runs, if they are.
    pub materialized: Option<Materialized>,
    /// If it is running: its rows, which are read instead.
    pub rows: Option<Arc<SourceDefinition>>,
}

/// How a materialized view is kept.
#[derive(Clone, Debug, Default)]
pub(crate) struct Materialized {
    /// The bound on the time from arrival to result.
    pub max_latency: Option<Duration>,
}

/// Anything that can be named in FROM.
#[derive(Clone, Debug)]
pub(crate) enum Relation {
    Source(Arc<SourceDefinition>),
    View(Arc<ViewDefinition>),
    Process(Arc<StreamProcessSet>),
}

/// Relations by name.
#[derive(Clone, Debug, Default)]
pub(crate) struct NamedRelations {
    relations: BTreeMap<String, Relation>,
}

impl NamedRelations {
    pub fn get(&self, name: &str) -> Option<&Relation> {
        self.relations.get(name)
    }

    pub fn add(&mut self, name: &str, relation: Relation) {
        self.relations.insert(name.to_string(), relation);
    }

    pub fn remove(&mut self, name: &str) -> Option<Relation> {
        self.relations.remove(name)
    }

    pub fn iter(&self) -> impl Iterator<Item = (&str, &Relation)> {
        self.relations.iter().map(|(name, relation)| (name.as_str(), relation))
    }
}
