//! What stands in for the world around a pipeline that is tested: rows for those of its sources, and a clock.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use datafusion::arrow::datatypes::SchemaRef;
use tidemill_connect::formats::RecordDecoder;
use tidemill_engine::{AdmissionClock, Cause, Clock};

use crate::relations::source_definition::{OpenSource, SourceDefinition};

/// What a name in an option is read as that the environment does not have: what it is for is never opened.
pub(crate) const NOT_NEEDED: &str = "1";

/// Begins to read records; fails if their format is not text.
pub type OpenDecoder = dyn Fn() -> Result<Box<dyn RecordDecoder>, Cause> + Send + Sync;

/// Gives the rows of sources in a test. A source keeps its definition (types, event time, lateness, computed columns); only its
/// connector is never opened.
pub trait StandInSources: Send + Sync {
    /// Returns what opens the rows that stand in for those of this source.
    fn stand_in(&self, source: ReplacedSource) -> Arc<OpenSource>;
}

/// A source whose rows are given by somebody else.
#[derive(Clone)]
pub struct ReplacedSource {
    /// Its name.
    pub name: String,
    /// Its connector's own columns.
    pub columns: SchemaRef,
    /// Reads records as its connector does.
    pub decoder: Arc<OpenDecoder>,
    /// After how long without rows it counts as idle. The engine does not know: who gives the rows says when it is
    /// ([`Polled::Idle`](tidemill_engine::Polled::Idle)).
    pub idle_after: Option<Duration>,
    /// Whether it is read once, before the streams.
    pub is_table: bool,
    /// Whether it ends by itself.
    pub is_finite: bool,
    /// Whether opening it again gives the same rows.
    pub is_repeatable: bool,
}

/// See the module. With these, [cycles](crate::RunningQuery::close_cycle) close only when the caller says so, sinks keep no journal,
/// and a name in an option that the environment does not have (`${PASSWORD}`) is read as `1`.
#[derive(Clone)]
pub struct StandIns {
    /// The rows.
    pub sources: Arc<dyn StandInSources>,
    /// The time at which cycles close.
    pub clock: Arc<dyn Clock>,
    /// Whether event times are held against the clock (`max_ahead`).
    pub holds_against_clock: bool,
}

impl StandIns {
    /// Puts the rows that stand in into the place of a connector.
    pub(crate) fn replace(
        &self,
        definition: SourceDefinition,
        decoder: Arc<OpenDecoder>,
    ) -> SourceDefinition {
        let replaced = ReplacedSource {
            name: definition.name.clone(),
            columns: Arc::clone(&definition.raw),
            decoder,
            idle_after: definition.idle_after,
            is_table: definition.is_table,
            is_finite: definition.is_finite,
            is_repeatable: definition.is_repeatable,
        };
        SourceDefinition {
            idle_after: None,
            max_ahead: definition.max_ahead.filter(|_| self.holds_against_clock),
            clock: AdmissionClock::new(Arc::clone(&self.clock)),
            durable: None,
            gateway: None,
            push: None,
            open: self.sources.stand_in(replaced),
            ..definition
        }
    }
}

impl fmt::Debug for StandIns {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("StandIns").finish_non_exhaustive()
    }
}

impl PartialEq for StandIns {
    fn eq(&self, other: &StandIns) -> bool {
        Arc::ptr_eq(&self.sources, &other.sources) && Arc::ptr_eq(&self.clock, &other.clock)
    }
}

impl Eq for StandIns {}
