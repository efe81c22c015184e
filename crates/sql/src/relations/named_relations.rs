//! What can be named in FROM, by name.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use datafusion::logical_expr::{Expr, LogicalPlan};
use tidemill_engine::Beginning;
use tidemill_store::StoreConfig;

use crate::relations::source_definition::SourceDefinition;
use crate::relations::stream_process::StreamProcessSet;

/// A view: a named query.
#[derive(Clone, Debug)]
pub(crate) struct ViewDefinition {
    /// Its columns as queries see them.
    pub plan: LogicalPlan,
    /// How its rows are kept in memory, to be read while it runs, if they are.
    pub materialized: Option<Materialized>,
    /// If it is running: its rows, which are read instead.
    pub rows: Option<Arc<SourceDefinition>>,
}

impl ViewDefinition {
    /// The gateways that have a part of it.
    pub fn gateways(&self) -> &[String] {
        let gateways = self.materialized.as_ref().and_then(|materialized| materialized.gateways.as_ref());
        gateways.map_or(&[], |gateways| &gateways.names)
    }

    /// The columns with each row's coordinates.
    pub fn point(&self) -> Option<[usize; 2]> {
        self.materialized.as_ref()?.retained.point
    }

    /// The expression that divides its rows among fragments.
    pub fn divided_by(&self) -> Option<&DividedBy> {
        self.materialized.as_ref()?.retained.fragments.as_ref()?.by.as_ref()
    }
}

/// Which rows a materialized view keeps, and how they are found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Retained {
    /// How long, in units of the time column.
    pub time: Option<i64>,
    pub bytes_max: Option<usize>,
    pub versions_max: Option<usize>,
    /// The columns by which rows of a stream are found.
    pub key: Option<Vec<usize>>,
    pub time_column: Option<usize>,
    pub point: Option<[usize; 2]>,
    /// How the rows are divided; `None`: they are not.
    pub fragments: Option<Fragments>,
}

/// How the rows of a materialized view are divided among fragments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fragments {
    pub count: u32,
    /// What divides them; `None`: the key.
    pub by: Option<DividedBy>,
}

/// The expression that divides the rows of a view.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DividedBy {
    /// As it was written.
    pub text: String,
    pub expression: Expr,
}

/// The gateways that have parts of a view.
#[derive(Clone, Debug)]
pub(crate) struct ViewGateways {
    /// Their names, in the order of the parts.
    pub names: Vec<String>,
    /// What the store of each part holds.
    pub config: Arc<StoreConfig>,
}

/// How a materialized view is kept.
#[derive(Clone, Debug)]
pub(crate) struct Materialized {
    /// The query whose rows are kept.
    pub stored: LogicalPlan,
    /// The columns that identify a row, if its rows change.
    pub key: Option<Vec<usize>>,
    pub retained: Retained,
    /// Where its parts are; `None`: it is computed in one process.
    pub gateways: Option<ViewGateways>,
    /// The bound on the time from arrival to result.
    pub max_latency: Option<Duration>,
    /// Where it is to begin over durable sources.
    pub beginning: Option<Beginning>,
}

/// Anything that can be named in FROM.
#[derive(Clone, Debug)]
pub(crate) enum Relation {
    Source(Arc<SourceDefinition>),
    View(Arc<ViewDefinition>),
    Process(Arc<StreamProcessSet>),
}

/// Relations by name. Each session has a version of them: clones share them until one of them changes.
#[derive(Clone, Debug, Default)]
pub(crate) struct NamedRelations {
    relations: Arc<BTreeMap<String, Relation>>,
}

impl NamedRelations {
    pub fn get(&self, name: &str) -> Option<&Relation> {
        self.relations.get(name)
    }

    pub fn add(&mut self, name: &str, relation: Relation) {
        Arc::make_mut(&mut self.relations).insert(name.to_string(), relation);
    }

    pub fn remove(&mut self, name: &str) -> Option<Relation> {
        Arc::make_mut(&mut self.relations).remove(name)
    }

    pub fn iter(&self) -> impl Iterator<Item = (&str, &Relation)> {
        self.relations.iter().map(|(name, relation)| (name.as_str(), relation))
    }
}
