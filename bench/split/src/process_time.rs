//! Processor time of the whole process; that of one thread is [`tidemill_engine::ThreadTime`].

use rustix::time::{ClockId, clock_gettime};

/// Processor time of all threads of the process.
pub fn process_ns() -> u64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
