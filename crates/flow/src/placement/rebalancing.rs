//! Whether partitions move while a query runs.

use std::time::Duration;

/// How partitions move between the workers of a process while a query runs. No result depends on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rebalancing {
    /// They move only if the program says so ([`Running::move_partition`](crate::Running::move_partition)).
    Off,
    /// They leave workers that have more to do than others, by their measured costs.
    Measured {
        /// The shortest time between two decisions.
        every: Duration,
    },
    /// Some move at random. It is for tests of what must not depend on it.
    Random {
        /// The same seed moves the same partitions.
        seed: u64,
        /// From one move to the next.
        every_cycles: u64,
    },
}

impl Default for Rebalancing {
    /// As measured, at most once a second.
    fn default() -> Rebalancing {
        Rebalancing::Measured { every: Duration::from_secs(1) }
    }
}
