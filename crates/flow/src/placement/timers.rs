//! When a partition must be called even if it has no rows.

use tidemill_core::Operator;

/// The timers of a partition.
#[derive(Clone, Copy, Default)]
pub(crate) struct Timers {
    /// The watermark from which on.
    event_time: Option<i64>,
    /// The closing time of a cycle from which on.
    pub clock_ns: Option<u64>,
}

impl Timers {
    /// What an instance asks for.
    pub fn of(instance: &dyn Operator) -> Timers {
        Timers { event_time: instance.next_timer(), clock_ns: instance.next_clock_timer() }
    }

    /// Whether the instance is to be called in a cycle that was closed at this time, under this watermark.
    pub fn are_due(&self, watermark: i64, closed_at_ns: u64) -> bool {
        self.event_time.is_some_and(|due| due <= watermark)
            || self.clock_ns.is_some_and(|due_ns| due_ns <= closed_at_ns)
    }
}
