//! How a query uses a source of a database.

use std::any::Any;
use std::sync::Arc;
use std::time::Duration;

use tidemill_core::Source;
use tidemill_core::arrow::schema::SchemaRef;
use tidemill_core::error::Cause;
use tidemill_journal::StreamSettings;

use crate::durable::SyncPolicy;
use crate::feed_settings::FeedSettings;

/// What stands for one source: two queries read it together if they name the same object.
#[derive(Clone)]
pub struct SourceKey(pub Arc<dyn Any + Send + Sync>);

impl SourceKey {
    pub(super) fn is(&self, other: &SourceKey) -> bool {
        std::ptr::addr_eq(Arc::as_ptr(&self.0), Arc::as_ptr(&other.0))
    }
}

/// Opens a source, and says how its rows come in.
pub type OpenSource = Box<dyn FnOnce() -> Result<(Box<dyn Source>, FeedSettings), Cause> + Send>;

/// How a query uses a source of a database.
pub struct SourceUse {
    /// Its name in messages.
    pub name: String,
    /// By which other queries find it, to read it together; `None`: the query reads it alone.
    pub key: Option<SourceKey>,
    /// How long it waits for room, once a query is so much slower than others that the ring is full: not at all if its rows come
    /// when they come, and [`Duration::MAX`] if they are there already. After that time, the slowest query is left behind.
    pub waits_max: Duration,
    /// Opens it, if no other query reads it.
    pub open: OpenSource,
    /// The columns with which it comes in, for all queries.
    pub schema: SchemaRef,
    /// Which of these the query reads, in the order of its plan.
    pub columns: Vec<usize>,
    /// How its rows are journaled, if they are.
    pub durable: Option<DurableUse>,
}

/// How the rows of a source are journaled under a clock.
#[derive(Clone, Debug)]
pub struct DurableUse {
    /// The name of its journal: a source that takes the name of another one has another journal.
    pub stream: String,
    /// The limits of its journal.
    pub settings: StreamSettings,
    /// When its journal is synced.
    pub sync: SyncPolicy,
    /// Whether its rows come in [transactions](crate::DatabaseClock::begin_transaction): rows of the journal that no cut has are those
    /// of a transaction that a crash has interrupted, and are removed.
    pub is_transactional: bool,
}
