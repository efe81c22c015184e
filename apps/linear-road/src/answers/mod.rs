//! The answers: their encoding as the specification's lines (section 9), and their targets.

pub mod digest;
pub mod encode;
pub mod files;
pub mod tally;

/// Output streams, in the order of the sink's inputs.
pub const KINDS: usize = 4;
/// Index of toll notifications.
pub const TOLLS: usize = 0;
/// Index of accident notifications.
pub const ACCIDENTS: usize = 1;
/// Index of balances.
pub const BALANCES: usize = 2;
/// Index of expenditures.
pub const EXPENDITURES: usize = 3;
/// The names of the streams in reports.
pub const KIND_NAMES: [&str; KINDS] = ["toll", "accident", "balance", "expenditure"];
/// Seconds within which an answer of each kind must be given.
pub const LIMITS_S: [u64; KINDS] = [5, 5, 5, 10];
