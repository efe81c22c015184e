//! What other processes report to the first.

use std::collections::BTreeMap;

/// The connection to process 0, as the workers of another process see it.
pub(crate) trait Uplink: Send + Sync {
    /// A worker has done something that process 0 may need to know.
    fn worker_stepped(&self);

    /// One operator's partitions on one worker, for a snapshot.
    fn contribute(&self, cycle: u64, operator: &str, watermark: i64, partitions: BTreeMap<u32, Vec<u8>>);
}
