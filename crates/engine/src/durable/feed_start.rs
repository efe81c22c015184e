//! Where a feed begins.

use std::sync::Arc;
use std::time::Instant;

use tidemill_core::Clock;
use tidemill_journal::Positions;

/// What a feed begins with.
pub(crate) struct FeedStart {
    pub position: u64,
    pub watermark: i64,
    /// The position behind the cuts that are replayed.
    pub replay_end: u64,
    /// The watermark there.
    pub replay_watermark: i64,
    /// The positions that are skipped.
    pub skipped: Positions,
    pub now: Instant,
    pub clock: Arc<dyn Clock>,
}
