//! Who counts the cycles of a view.

use std::sync::Arc;

use tidemill_engine::QueryPosition;
use tidemill_store::StoreReader;

/// Who counts the cycles of a view. Cycles of the same number are comparable between views of the same clock.
#[derive(Clone)]
pub(crate) enum ViewClock {
    /// The clock of a database.
    Database(QueryPosition),
    /// The query that fills the view, with its other views.
    Query(Arc<()>),
}

impl ViewClock {
    /// A clock of a query's own.
    pub fn of_query() -> ViewClock {
        ViewClock::Query(Arc::new(()))
    }

    /// Whether cycles of the same number are the same cycles.
    pub fn is_comparable(&self, other: &ViewClock) -> bool {
        match (self, other) {
            (ViewClock::Database(one), ViewClock::Database(other)) => one.is_comparable(other),
            (ViewClock::Query(one), ViewClock::Query(other)) => Arc::ptr_eq(one, other),
            _ => false,
        }
    }

    /// The first cycle that the view does not have: all that concern it before are in the store.
    pub fn reached(&self, reader: &StoreReader) -> u64 {
        let committed = reader.latest().cycle();
        match self {
            ViewClock::Database(position) => position.reached(committed),
            ViewClock::Query(_) => committed.map_or(0, |cycle| cycle + 1),
        }
    }
}
