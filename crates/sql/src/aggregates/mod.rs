//! Our aggregate functions, known to DataFusion's planner, and run by it over input that has ended.

pub(crate) mod loaded_aggregate;
pub(crate) mod native_aggregate;
pub(crate) mod of_distinct;
pub(crate) mod ordered_sets;
pub(crate) mod own_accumulator;
pub(crate) mod own_aggregate;
