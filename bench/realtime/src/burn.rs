//! Work of a known cost.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// The processor time of the calling thread.
pub fn thread_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Uses this much processor time of the calling thread.
pub fn burn(cost: Duration) {
    let end = thread_time() + cost;
    while thread_time() < end {
        std::hint::spin_loop();
    }
}

/// Sleeps until a moment. What the sleep is too long for is part of what is measured.
pub fn sleep_until(moment: std::time::Instant) {
    std::thread::sleep(moment.saturating_duration_since(std::time::Instant::now()));
}
