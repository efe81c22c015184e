//! The operators of the query.

mod group_trips;
mod partition;

pub use group_trips::GroupTrips;
pub use partition::Partition;
