//! The operators of the query.

mod group_trips;
mod partition;
mod partition_trips;
mod request_bytes;
mod share_rides;

pub use group_trips::GroupTrips;
pub use partition::Partition;
pub use partition_trips::PartitionTrips;
pub use share_rides::ShareRides;
