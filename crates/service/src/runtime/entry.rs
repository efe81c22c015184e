//! What the name of a query stands for.

use std::sync::Arc;

use crate::runtime::query::NamedQuery;
use crate::runtime::query_state::QueryState;

/// What a name of a query stands for.
pub(crate) enum Entry {
    /// A query with these outputs is being opened under this name.
    Starting(Vec<String>),
    Started(Arc<NamedQuery>),
}

impl Entry {
    pub fn outputs(&self) -> &[String] {
        match self {
            Entry::Starting(outputs) => outputs,
            Entry::Started(query) => query.outputs(),
        }
    }

    /// The query, unless it is still being opened.
    pub fn started(&self) -> Option<Arc<NamedQuery>> {
        match self {
            Entry::Starting(_) => None,
            Entry::Started(query) => Some(Arc::clone(query)),
        }
    }

    pub fn is_over(&self) -> bool {
        match self {
            Entry::Starting(_) => false,
            Entry::Started(query) => {
                matches!(query.state(), QueryState::Ended | QueryState::Stopped | QueryState::Failed)
            }
        }
    }
}
