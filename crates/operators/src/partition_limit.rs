//! A limit of all partitions of an operator together, for each of them.

/// Below this, a partition may hold all that the operator may: so few keys are rarely spread evenly.
const SHARED_MIN: usize = 1024;

/// The limit of each partition, given that of all together. Keys are spread unevenly, so a partition may hold twice its
/// share.
///
/// ```
/// use tidemill_operators::partition_limit;
/// assert_eq!(partition_limit(1_000_000, 1), 1_000_000);
/// assert_eq!(partition_limit(1_000_000, 16), 125_000);
/// assert_eq!(partition_limit(100, 16), 100);
/// ```
pub fn partition_limit(limit: usize, partitions: u32) -> usize {
    match partitions {
        0 | 1 => limit,
        partitions => (limit / partitions as usize).saturating_mul(2).max(limit.min(SHARED_MIN)),
    }
}
