//! Bounds how much may be in flight at once.

use std::sync::atomic::{AtomicI64, Ordering};

use tidemill_plan::Limits;

/// Bounds the cycles and the bytes in flight.
pub(crate) struct Credit {
    cycles_in_flight_max: u64,
    uncommitted_bytes_max: u64,
    /// Bytes of rows that were copied to several partitions, or sent to other processes, and are not processed yet.
    /// Negative if rows are processed here that other processes have counted.
    held_bytes: AtomicI64,
}

impl Credit {
    pub fn new(limits: &Limits) -> Credit {
        Credit {
            cycles_in_flight_max: limits.cycles_in_flight_max,
            uncommitted_bytes_max: limits.uncommitted_bytes_max,
            held_bytes: AtomicI64::new(0),
        }
    }

    /// Whether one more cycle may be closed while this many cycles, and this many bytes of results, are not committed.
    pub fn allows(&self, cycles_in_flight: u64, uncommitted_bytes: u64) -> bool {
        cycles_in_flight < self.cycles_in_flight_max
            && uncommitted_bytes.saturating_add_signed(self.held_bytes()) < self.uncommitted_bytes_max
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
