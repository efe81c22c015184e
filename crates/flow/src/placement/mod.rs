//! Which worker holds which partition, and how partitions move while a query runs.
//!
//! Costs of partitions are measured, a balancer decides now and then that moves pay, and they take effect at a cut: from its
//! cycle on, rows go to the new worker. There, the cycle waits until the old worker has handed over the partition's state,
//! which it does as soon as it is done with all earlier cycles.

pub(crate) mod balancer;
pub(crate) mod handover;
pub(crate) mod partition_costs;
pub(crate) mod placements;
pub(crate) mod rebalancing;
pub(crate) mod timers;
