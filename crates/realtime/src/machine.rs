//! What a machine says of itself.

use std::time::Duration;

use crate::threads;

/// The processor time of a thread of this process, read from any of its threads.
///
/// ```
/// use std::time::Duration;
/// use tidemill_realtime::ThreadClock;
///
/// let mut clock = ThreadClock::of_this_thread();
/// let before = clock.read();
/// let sum: u64 = (0..100_000).map(std::hint::black_box).sum();
/// assert!(sum > 0 && clock.read() >= before);
/// ```
#[derive(Debug)]
pub struct ThreadClock {
    thread: i32,
    last: Duration,
}

impl ThreadClock {
    /// The clock of the calling thread.
    pub fn of_this_thread() -> Self {
        ThreadClock { thread: threads::thread_id(), last: Duration::ZERO }
    }

    /// How long the thread has run; when it has ended, what was read last.
    pub fn read(&mut self) -> Duration {
        if let Ok(time_ns) = threads::cpu_time_ns(self.thread) {
            // The number of a thread that has ended may be that of another one, which has run for less.
            self.last = self.last.max(Duration::from_nanos(time_ns));
        }
        self.last
    }
}

/// How long the host of a virtual machine has taken these cores away since the machine started, in hundredths of a second; of
/// all cores if none is named. `None` if the system does not say.
///
/// ```
/// let before = tidemill_realtime::stolen(&[]).unwrap_or_default();
/// assert!(tidemill_realtime::stolen(&[]).unwrap_or_default() >= before);
/// ```
pub fn stolen(cores: &[usize]) -> Option<Duration> {
    threads::stolen_ns(cores).map(Duration::from_nanos)
}
