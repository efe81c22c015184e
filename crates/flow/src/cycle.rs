//! A closed cycle.

use std::sync::Arc;

use tidemill_core::sink::Arrivals;
use tidemill_core::{Batch, Cut};

/// A closed cycle on its way to the workers.
pub(crate) struct Cycle {
    pub cut: Arc<Cut>,
    pub arrivals: Arc<Arrivals>,
    /// `[source][stream]`: batches with the position of their chunk in the cycle, ascending.
    pub streams: Vec<Vec<Vec<(u32, Batch)>>>,
}
