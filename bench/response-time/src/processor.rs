//! Processor time, and how precisely the sender's sleeps end.

use std::fs;

use rustix::time::{ClockId, Timespec, clock_gettime};

/// Processor time used so far.
#[derive(Clone, Copy)]
pub struct ProcessorTime {
    /// By all threads of this process, in nanoseconds.
    pub process_ns: u64,
    /// By the calling thread, in nanoseconds.
    pub thread_ns: u64,
}

impl ProcessorTime {
    /// The time used until now.
    pub fn now() -> Self {
        ProcessorTime {
            process_ns: nanoseconds(clock_gettime(ClockId::ProcessCPUTime)),
            thread_ns: nanoseconds(clock_gettime(ClockId::ThreadCPUTime)),
        }
    }

    /// The time used since an earlier reading.
    pub fn since(self, earlier: ProcessorTime) -> Self {
        ProcessorTime {
            process_ns: self.process_ns - earlier.process_ns,
            thread_ns: self.thread_ns - earlier.thread_ns,
        }
    }
}

fn nanoseconds(time: Timespec) -> u64 {
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Lets sleeps of the main thread end when they should. By default Linux lets each last up to 50 us longer, which is
/// more than what is measured here. Threads started before keep their slack, so the engine's are as in any program.
///
/// # Errors
/// If the kernel does not allow it; the sender is late by more then.
pub fn sleep_precisely() -> std::io::Result<()> {
    // The file of the process is the main thread's.
    fs::write("/proc/self/timerslack_ns", "1")
}
