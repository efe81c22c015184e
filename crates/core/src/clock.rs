//! Clocks. Only sources, intake, cuts and sinks read a clock. Operators never do, so that a replay gives the same
//! bytes.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use rustix::time::{ClockId, clock_gettime};

/// A monotonic clock in nanoseconds since some fixed moment.
pub trait Clock: Send + Sync {
    /// Nanoseconds since the clock's start.
    fn now_ns(&self) -> u64;
}

/// The machine's monotonic clock, counted from its creation or from 1970.
#[derive(Debug)]
pub struct SystemClock {
    start: Instant,
    start_ns: u64,
}

impl SystemClock {
    /// A clock that starts at 0 now.
    pub fn new() -> Self {
        SystemClock { start: Instant::now(), start_ns: 0 }
    }

    /// A clock that starts at the time of day, in nanoseconds since 1970 (UTC), but does not jump when the time of day
    /// does.
    ///
    /// ```
    /// use tidemill_core::{Clock, SystemClock};
    /// assert!(SystemClock::since_1970().now_ns() > 1_700_000_000_000_000_000);
    /// ```
    pub fn since_1970() -> Self {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        SystemClock { start: Instant::now(), start_ns: since.as_nanos() as u64 }
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        SystemClock::new()
    }
}

impl Clock for SystemClock {
    fn now_ns(&self) -> u64 {
        self.start_ns + self.start.elapsed().as_nanos() as u64
    }
}

/// The time of day, in nanoseconds since 1970 (UTC). It jumps when the machine's clock is set. Use it to compare with
/// times that others have written, and for nothing that must not go back.
///
/// ```
/// use tidemill_core::{Clock, TimeOfDay};
/// assert!(TimeOfDay.now_ns() > 1_700_000_000_000_000_000);
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct TimeOfDay;

impl Clock for TimeOfDay {
    fn now_ns(&self) -> u64 {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
    }
}

/// Processor time of the thread that reads it: the clock runs only while that thread does, so costs do not depend on what
/// else the machine does. Reading it is a system call; [`SystemClock`] is cheaper.
///
/// ```
/// use tidemill_core::{Clock, ThreadTime};
/// let before_ns = ThreadTime.now_ns();
/// std::thread::sleep(std::time::Duration::from_millis(20));
/// // It slept, and so it used next to nothing.
/// assert!(ThreadTime.now_ns() - before_ns < 20_000_000);
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct ThreadTime;

impl Clock for ThreadTime {
    fn now_ns(&self) -> u64 {
        let time = clock_gettime(ClockId::ThreadCPUTime);
        time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
    }
}

/// A clock that stands still until it is told to move, for tests.
///
/// ```
/// use tidemill_core::{Clock, ManualClock};
/// let clock = ManualClock::default();
/// clock.advance_ns(5);
/// assert_eq!(clock.now_ns(), 5);
/// ```
#[derive(Debug, Default)]
pub struct ManualClock {
    now_ns: AtomicU64,
}

impl ManualClock {
    /// Moves the clock forward.
    pub fn advance_ns(&self, by_ns: u64) {
        self.now_ns.fetch_add(by_ns, Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn now_ns(&self) -> u64 {
        self.now_ns.load(Ordering::SeqCst)
    }
}
