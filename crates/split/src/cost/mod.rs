//! What splitting a stream costs, as formulas: for one splitter, a tree of splitters, and a lattice.
//!
//! Costs are in nanoseconds of one core. A cost "per event" is divided by the events of the *input* of the whole split,
//! so that the costs of different stages can be compared. A stage whose cost is 20 ns keeps one core busy at 50 million
//! events per second ([`rate_max`]), no matter what share of the events it sees.
//!
//! The documentation of each field names its symbol in the papers (Zeitler, Papers IV and V).

mod lattice;
mod proportions;
mod tree;

pub use lattice::{
    LatticeCosts, RouterCosts, StreamProcessCosts, efficiency, splitters_for_rate, splitters_heuristic,
    window_rows,
};
pub use proportions::{Proportions, ProportionsError};
pub use tree::{SplitterCosts, exptree, maxtree, nodes_of_level, output_at_level};

/// The rate, in events per second, at which a cost of `cost_ns` per event keeps one core busy.
///
/// ```
/// assert_eq!(tidemill_split::cost::rate_max(20.0), 50_000_000.0);
/// assert_eq!(tidemill_split::cost::rate_max(0.0), f64::INFINITY);
/// ```
pub fn rate_max(cost_ns: f64) -> f64 {
    1e9 / cost_ns
}

/// How many cores a cost of `cost_ns` per event keeps busy at a rate in events per second.
///
/// ```
/// assert_eq!(tidemill_split::cost::load_cores(100.0, 25_000_000.0), 2.5);
/// ```
pub fn load_cores(cost_ns: f64, rate: f64) -> f64 {
    cost_ns * rate / 1e9
}
