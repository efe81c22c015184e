//! The catalogue: what relations there are, by name.

use std::collections::BTreeMap;
use std::sync::Arc;

use datafusion::logical_expr::LogicalPlan;

use crate::definition::SourceDefinition;

/// A view: a query by name.
#[derive(Clone, Debug)]
pub(crate) struct ViewDefinition {
    pub plan: LogicalPlan,
    /// Whether its rows are kept in memory, to be read while it runs.
    pub is_materialized: bool,
}

/// Something that stands in FROM.
#[derive(Clone, Debug)]
pub(crate) enum Relation {
    Source(Arc<SourceDefinition>),
    View(Arc<ViewDefinition>),
}

/// Relations by name.
#[derive(Clone, Debug, Default)]
pub(crate) struct Catalog {
    relations: BTreeMap<String, Relation>,
}

impl Catalog {
    pub fn relation(&self, name: &str) -> Option<&Relation> {
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
