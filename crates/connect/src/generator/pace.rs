//! Pace: how many events of a generator are due by now, and the event time of each.
//!
//! The two are separate on purpose. When an event is emitted depends on the clock. Its event time depends only on its
//! number, so results do not change with the machine's speed.

use std::time::{Duration, Instant};

use arrow_array::RecordBatch;
use tidemill_core::error::Cause;
use tidemill_core::source::{Polled, Progress};

use super::BATCH_ROWS;

/// The events per second of event time if no rate is set: one event per microsecond.
pub const ASSUMED_RATE: u64 = 1_000_000;
/// The highest rate: one event per nanosecond.
pub const RATE_MAX: u64 = NANOSECONDS;
const NANOSECONDS: u64 = 1_000_000_000;

/// Emits events at a rate: event `n` is due `n / rate` seconds after the first call.
///
/// There is no drift: events delayed by a busy receiver or a late timer are due at the next call. At a low rate events
/// come one by one, each within the operating system's timer precision (about 60 us) of its due time.
///
/// ```
/// use std::time::Duration;
/// use tidemill_connect::generator::Pace;
///
/// let mut pace = Pace::new(Some(1000))?;
/// assert_eq!(pace.take(8192, Duration::ZERO), 1, "event 0 is due at once, event 1 in a millisecond");
/// let mut as_fast_as_possible = Pace::new(None)?;
/// assert_eq!(as_fast_as_possible.take(8192, Duration::ZERO), 8192);
/// # Ok::<(), tidemill_core::Cause>(())
/// ```
#[derive(Clone, Debug)]
pub struct Pace {
    rate: Option<u64>,
    start: Option<Instant>,
    given: u64,
}

impl Pace {
    /// `rate` events per second, 1 to [`RATE_MAX`]; `None`: as fast as they are taken.
    ///
    /// # Errors
    /// [`Cause::user`] if the rate is 0 or too high.
    pub fn new(rate: Option<u64>) -> Result<Pace, Cause> {
        check_rate(rate)?;
        Ok(Pace { rate, start: None, given: 0 })
    }

    /// Takes the events that are due, at most `limit` (at least 1). If none is due, waits for the next one, no longer
    /// than `wait`; returns 0 if it is still not due then.
    pub fn take(&mut self, limit: usize, wait: Duration) -> usize {
        let Some(rate) = self.rate else {
            self.given += limit as u64;
            return limit;
        };
        let asked = Instant::now();
        let start = *self.start.get_or_insert(asked);
        if due_by(asked - start, rate) <= self.given {
            let until = start + due_after(self.given, rate);
            std::thread::sleep(until.saturating_duration_since(asked).min(wait));
        }
        let due = due_by(start.elapsed(), rate).saturating_sub(self.given);
        let count = due.min(limit as u64);
        self.given += count;
        count as usize
    }

    /// Takes the events of the next poll of a generator that emits `total` events, or endlessly many.
    pub(super) fn next(&mut self, total: Option<u64>, wait: Duration) -> NextEvents {
        let first = self.given;
        let left = total.map_or(u64::MAX, |total| total - first);
        if left == 0 {
            return NextEvents::Ended;
        }
        match self.take(left.min(BATCH_ROWS as u64) as usize, wait) {
            0 => NextEvents::NotDue,
            count => NextEvents::Due { first, count },
        }
    }

    /// How far such a generator is.
    pub(super) fn progress(&self, total: Option<u64>) -> Progress {
        Progress { done: self.given, total }
    }

    /// How many events have been taken.
    pub fn given(&self) -> u64 {
        self.given
    }

    /// When an event is or was due; `None` without a rate or before the first call of [`Pace::take`].
    pub fn due_at(&self, event: u64) -> Option<Instant> {
        self.start?.checked_add(due_after(event, self.rate?))
    }
}

/// The events that a generator emits when it is polled.
pub(super) enum NextEvents {
    /// This many, from this number on.
    Due { first: u64, count: usize },
    /// None is due yet.
    NotDue,
    /// All have been emitted.
    Ended,
}

impl NextEvents {
    /// The outcome of the poll; `rows` makes the events.
    pub(super) fn polled(
        self,
        rows: impl FnOnce(u64, usize) -> Result<RecordBatch, Cause>,
    ) -> Result<Polled, Cause> {
        match self {
            NextEvents::Due { first, count } => rows(first, count).map(Polled::Rows),
            NextEvents::NotDue => Ok(Polled::Nothing),
            NextEvents::Ended => Ok(Polled::Ended),
        }
    }
}

pub(crate) fn check_rate(rate: Option<u64>) -> Result<(), Cause> {
    match rate {
        Some(given) if given == 0 || given > RATE_MAX => Err(Cause::user(format!(
            "rate = {given}: choose 1 to {RATE_MAX} events per second, or remove the rate to generate as many \
             as possible"
        ))),
        _ => Ok(()),
    }
}

/// How many events are due once `elapsed` has passed; the first is due at once.
fn due_by(elapsed: Duration, rate: u64) -> u64 {
    let whole = elapsed.as_secs().saturating_mul(rate);
    let part = u64::from(elapsed.subsec_nanos()) * rate / NANOSECONDS;
    whole.saturating_add(part).saturating_add(1)
}

/// How long after the start an event is due, rounded up so that it is not reported as due too early.
fn due_after(event: u64, rate: u64) -> Duration {
    let part = (event % rate * NANOSECONDS).div_ceil(rate);
    Duration::from_secs(event / rate) + Duration::from_nanos(part)
}

/// The event times of a generator: event `n` has `start + n / rate` seconds, rounded down to nanoseconds.
///
/// ```
/// use tidemill_connect::generator::EventTimes;
///
/// let times = EventTimes::new(1_000, Some(3))?;
/// let mut column = Vec::new();
/// times.append(2, 3, &mut column)?;
/// assert_eq!(column, [666_667_666, 1_000_001_000, 1_333_334_333]);
/// # Ok::<(), tidemill_core::Cause>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventTimes {
    start_ns: i64,
    rate: u64,
}

impl EventTimes {
    /// Times starting at `start_ns` (nanoseconds since 1970); without a rate as for [`ASSUMED_RATE`].
    ///
    /// # Errors
    /// [`Cause::user`] if the rate is 0 or too high.
    pub fn new(start_ns: i64, rate: Option<u64>) -> Result<EventTimes, Cause> {
        check_rate(rate)?;
        Ok(EventTimes { start_ns, rate: rate.unwrap_or(ASSUMED_RATE) })
    }

    /// The time of one event in nanoseconds; `None` beyond the last time that fits into 64 bits (in the year 2262).
    pub fn of(&self, event: u64) -> Option<i64> {
        let passed_ns = u128::from(event) * u128::from(NANOSECONDS) / u128::from(self.rate);
        i64::try_from(i128::from(self.start_ns) + i128::try_from(passed_ns).ok()?).ok()
    }

    /// Appends the times of `count` events from number `first` on.
    ///
    /// # Errors
    /// [`Cause::user`] if they exceed the last time that fits into 64 bits.
    pub fn append(&self, first: u64, count: usize, times: &mut Vec<i64>) -> Result<(), Cause> {
        let Some(last) = first.checked_add((count as u64).saturating_sub(1)) else {
            return Err(self.too_late());
        };
        let (Some(mut time), Some(_)) = (self.of(first), self.of(last)) else { return Err(self.too_late()) };
        // The fraction of a nanosecond is carried along, in parts of 1 / rate: no division per event.
        let (step_ns, step_parts) = ((NANOSECONDS / self.rate) as i64, NANOSECONDS % self.rate);
        if step_parts == 0 {
            times.extend((0..count as i64).map(|index| time + index * step_ns));
            return Ok(());
        }
        let mut parts = (u128::from(first) * u128::from(NANOSECONDS) % u128::from(self.rate)) as u64;
        times.extend((0..count).map(|_| {
            let now = time;
            parts += step_parts;
            let carry = parts >= self.rate;
            parts -= if carry { self.rate } else { 0 };
            // The one after the last event may be too late for 64 bits, but it is never returned.
            time = time.wrapping_add(step_ns + i64::from(carry));
            now
        }));
        Ok(())
    }

    fn too_late(&self) -> Cause {
        Cause::user(format!(
            "the event times end in the year 2262: {} events per second from {} ns since 1970 go beyond it; \
             use an earlier start time or a smaller count",
            self.rate, self.start_ns
        ))
    }
}

#[cfg(test)]
mod tests {
    use tidemill_core::error::Fault;

    use super::*;

    #[test]
    fn events_are_due_by_their_number_alone() {
        for rate in [1, 3, 7, 22_000, 154_000, 999_999_937, RATE_MAX] {
            for event in [0, 1, 2, 3, 1_000, 86_400 * rate + 1] {
                let due = due_after(event, rate);
                assert!(due_by(due, rate) > event, "event {event} at rate {rate} is due when it is due");
                if let Some(before) = due.checked_sub(Duration::from_nanos(1)) {
                    assert!(due_by(before, rate) <= event, "event {event} at rate {rate} is not due before");
                }
            }
        }
    }

    #[test]
    fn a_bounded_wait_ends_before_a_distant_event() {
        let mut pace = Pace::new(Some(1)).unwrap();
        assert_eq!(pace.take(10, Duration::ZERO), 1);
        assert_eq!(pace.take(10, Duration::from_millis(1)), 0);
        assert_eq!(pace.given(), 1);
    }

    #[test]
    fn what_was_held_up_is_due_at_once_and_no_more_than_asked_for() {
        let mut pace = Pace::new(Some(1_000)).unwrap();
        pace.take(1, Duration::ZERO);
        std::thread::sleep(Duration::from_millis(20));
        assert_eq!(pace.take(5, Duration::ZERO), 5);
        assert!(pace.take(1_000, Duration::ZERO) >= 15);
    }

    #[test]
    fn appended_times_are_those_of_the_single_events() {
        for rate in [Some(1), Some(3), Some(154_000), Some(999_999_937), None] {
            let times = EventTimes::new(-5, rate).unwrap();
            for first in [0, 1, 1_234_567_890] {
                let mut appended = Vec::new();
                times.append(first, 1000, &mut appended).unwrap();
                let single: Vec<_> = (first..first + 1000).map(|event| times.of(event).unwrap()).collect();
                assert_eq!(appended, single, "rate {rate:?} from {first}");
            }
        }
    }

    #[test]
    fn times_beyond_64_bits_are_refused() {
        let times = EventTimes::new(i64::MAX - 1, Some(RATE_MAX)).unwrap();
        assert!(times.append(0, 2, &mut Vec::new()).is_ok());
        assert!(matches!(times.append(0, 3, &mut Vec::new()), Err(Cause { fault: Fault::User, .. })));
        assert!(times.append(u64::MAX, 2, &mut Vec::new()).is_err());
    }

    #[test]
    fn rates_out_of_range_are_refused() {
        assert!(matches!(Pace::new(Some(0)), Err(Cause { fault: Fault::User, .. })));
        assert!(matches!(Pace::new(Some(RATE_MAX + 1)), Err(Cause { fault: Fault::User, .. })));
    }
}
