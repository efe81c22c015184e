//! Sums and means that DataFusion computes, with the meaning that they have in streams.

pub(super) mod distinct_floats;
pub(super) mod duration_totals;
pub(super) mod exact_total;
pub(super) mod exact_totals;
pub(super) mod moving_floats;
pub(super) mod total_kind;
