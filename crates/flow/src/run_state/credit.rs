//! Bounds how much may be in flight at once.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use tidemill_plan::Limits;

use crate::run_state::progress::InFlight;

/// While a sink is far behind, a cycle that is closed only because the workers are idle waits this long for more events.
/// Otherwise many small cycles would use up in seconds how far a sink may be behind.
const PAUSE_BEHIND: Duration = Duration::from_millis(10);
/// A sink is far behind if it has used up this share of what it may be behind.
const FAR_BEHIND: u64 = 64;

/// Bounds the cycles and the bytes in flight.
pub(crate) struct Credit {
    cycles_in_flight_max: u64,
    cycles_behind_max: u64,
    uncommitted_bytes_max: u64,
    /// Bytes of rows that were copied to several partitions, or sent to other processes, and are not processed yet.
    /// Negative if rows are processed here that other processes have counted.
    held_bytes: AtomicI64,
}

impl Credit {
    pub fn new(limits: &Limits) -> Credit {
        Credit {
            cycles_in_flight_max: limits.cycles_in_flight_max,
            // One sink alone may be as far behind as cycles may be in flight.
            cycles_behind_max: limits.cycles_behind_max.max(limits.cycles_in_flight_max),
            uncommitted_bytes_max: limits.uncommitted_bytes_max,
            held_bytes: AtomicI64::new(0),
        }
    }

    /// Whether one more cycle may be closed while these cycles, and this many bytes of results, are not committed.
    pub fn allows(&self, in_flight: InFlight, uncommitted_bytes: u64) -> bool {
        in_flight.of_first < self.cycles_in_flight_max
            && in_flight.of_last < self.cycles_behind_max
            && uncommitted_bytes.saturating_add_signed(self.held_bytes()) < self.uncommitted_bytes_max
    }

    /// How long an event waits for others although the workers are idle.
    pub fn idle_pause(&self, in_flight: InFlight) -> Duration {
        let is_far_behind = in_flight.of_last > self.cycles_in_flight_max
            && in_flight.of_last > self.cycles_behind_max / FAR_BEHIND;
        if is_far_behind { PAUSE_BEHIND } else { Duration::ZERO }
    }

    /// The bytes held for rows in transit; for other processes, the bytes they have reported.
    pub fn held_bytes(&self) -> i64 {
        self.held_bytes.load(Ordering::Relaxed)
    }

    /// Holds this many more bytes, or fewer if negative.
    pub fn hold(&self, bytes: i64) {
        self.held_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Held bytes were processed.
    pub fn release(&self, held_bytes: u64) {
        self.hold(-(held_bytes as i64));
    }
}
