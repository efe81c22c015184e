//! A closed cycle.

use std::sync::Arc;

use tidemill_core::sink::Arrivals;
use tidemill_core::{Batch, Cut};

use crate::run_state::splits::CycleSplitPlans;

/// For each stream of a source: batches with the position of their chunk in the cycle, ascending.
pub(crate) type SourceBatches = Vec<Vec<(u32, Batch)>>;

/// A closed cycle on its way to the workers.
pub(crate) struct Cycle {
    pub cut: Arc<Cut>,
    pub arrivals: Arc<Arrivals>,
    /// How each edge is split.
    pub splits: CycleSplitPlans,
    /// The streams of each source.
    pub streams: Vec<SourceBatches>,
}
