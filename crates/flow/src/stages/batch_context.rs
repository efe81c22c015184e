//! What accompanies a batch on its way to the edges.

use tidemill_core::Cut;

use crate::placement::placements::CyclePlacements;
use crate::run_state::splits::CycleSplitPlans;

/// The cycle of a batch, and its rank in it.
pub(crate) struct BatchContext<'a> {
    pub cut: &'a Cut,
    /// How each edge is split.
    pub splits: &'a CycleSplitPlans,
    /// Where the partitions of each operator are.
    pub placements: &'a CyclePlacements,
    /// The number added to its positions.
    pub base: u32,
    /// Its rank among the batches of the producer's cycle.
    pub chunk: u32,
}
