//! What the threads of a run share besides the engine.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use parking_lot::{Mutex, MutexGuard};

use crate::bad_lines::BadLines;

const NOT_YET: u32 = u32::MAX;

pub(super) struct Control {
    /// Set by the caller to stop taking in events.
    stop: Arc<AtomicBool>,
    /// Set when the query has failed or was aborted.
    abandoned: AtomicBool,
    /// The second of the last events pushed.
    simulated_s: AtomicU32,
    bad_lines: Mutex<BadLines>,
}

impl Control {
    pub fn new(stop: Arc<AtomicBool>, strict: bool) -> Control {
        let bad_lines = if strict { BadLines::strict() } else { BadLines::new() };
        Control {
            stop,
            abandoned: AtomicBool::new(false),
            simulated_s: AtomicU32::new(NOT_YET),
            bad_lines: Mutex::new(bad_lines),
        }
    }

    /// Whether nothing more is to be taken in.
    pub fn is_ended(&self) -> bool {
        self.is_stopped() || self.abandoned.load(Ordering::Relaxed)
    }

    /// Whether the caller has ended the run.
    pub fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    pub fn abandon(&self) {
        self.abandoned.store(true, Ordering::Relaxed);
    }

    pub fn reach(&self, second: u16) {
        self.simulated_s.store(u32::from(second), Ordering::Relaxed);
    }

    /// The second that was reached, if any.
    pub fn simulated_s(&self) -> Option<u32> {
        Some(self.simulated_s.load(Ordering::Relaxed)).filter(|second| *second != NOT_YET)
    }

    /// The bad lines so far. Locked by the intake for bad lines only.
    pub fn bad_lines(&self) -> MutexGuard<'_, BadLines> {
        self.bad_lines.lock()
    }
}
