//! A clock that advances only while the thread that reads it works, so that costs do not depend on what else the
//! machine does.

use rustix::time::{ClockId, Timespec, clock_gettime};
use tidemill_engine::Clock;

/// Processor time of the calling thread.
pub struct CpuClock;

impl Clock for CpuClock {
    fn now_ns(&self) -> u64 {
        nanoseconds(clock_gettime(ClockId::ThreadCPUTime))
    }
}

/// Processor time of all threads of the process.
pub fn process_ns() -> u64 {
    nanoseconds(clock_gettime(ClockId::ProcessCPUTime))
}

fn nanoseconds(time: Timespec) -> u64 {
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
