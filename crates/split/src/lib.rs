//! Splitting: which partition each row of a batch goes to, and gathering the rows by partition and worker.
//!
//! All functions are pure and work on batches, without input or output. A split looks at a whole batch at once: one
//! pass computes the destinations ([`route`]), two find the place of each row among those of its destination
//! ([`group`]), and one pass for each two columns moves the rows there ([`scatter`]). The way back, from many
//! partitions to one ordered stream, is [`merge`].

pub mod choose;
pub mod cost;
pub mod group;
pub mod hash;
pub mod merge;
pub mod order;
pub mod placement;
pub mod predict;
pub mod profile;
mod profile_bytes;
mod profile_fit;
pub mod rebalance;
pub mod route;
pub mod scatter;
pub mod spatial;
pub mod split;
pub mod split_plan;
pub mod splitters;
pub mod window_search;

pub use hash::route_by_hash;
pub use merge::{merge_by_partition, merge_by_position};
pub use placement::Placement;
pub use route::{BROADCAST, OMIT, Route, RouteError, route_by_key, route_by_value, route_or_broadcast};
pub use split::{Share, Splitter};
pub use split_plan::{Shape, SplitPlan, SplitPlanError};
pub use splitters::{LatticeRule, SplittersBy};
