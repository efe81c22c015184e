//! When to tell about something that keeps failing: at its beginning, at growing intervals, and at its end.

use std::time::{Duration, Instant};

/// How long after the beginning it is told again; each further time takes twice as long.
const AGAIN_AFTER: Duration = Duration::from_secs(10);
/// The longest interval.
const AGAIN_AFTER_MAX: Duration = Duration::from_secs(600);

/// Something that fails, or is waited for, again and again. It only decides; whoever asks writes the line.
///
/// ```
/// use std::time::{Duration, Instant};
/// use tidemill_core::Outage;
///
/// let (mut outage, start) = (Outage::default(), Instant::now());
/// let at = |seconds| start + Duration::from_secs(seconds);
/// assert_eq!(outage.failed(at(0)).map(|told| told.attempts), Some(1));
/// assert_eq!(outage.failed(at(1)), None);
/// let told = outage.failed(at(11)).expect("it is told again after 10 s");
/// assert_eq!((told.attempts, told.lasted), (3, Duration::from_secs(11)));
/// assert_eq!(outage.over(at(12)).map(|told| told.attempts), Some(3));
/// assert_eq!(outage.over(at(13)), None);
/// ```
#[derive(Clone, Debug, Default)]
pub struct Outage {
    /// What lasts no longer than this is not told.
    patience: Duration,
    begun: Option<Instant>,
    attempts: u64,
    /// When it was told for the last time, and how long to wait before the next.
    told: Option<(Instant, Duration)>,
}

/// How bad it is by now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutageReport {
    /// How often it has failed.
    pub attempts: u64,
    /// Since it failed for the first time.
    pub lasted: Duration,
}

impl Outage {
    /// One that is told only if it lasts longer than this.
    pub fn longer_than(patience: Duration) -> Outage {
        Outage { patience, ..Outage::default() }
    }

    /// It has failed, or is still waited for. Returns what to tell now, if anything.
    pub fn failed(&mut self, now: Instant) -> Option<OutageReport> {
        let begun = *self.begun.get_or_insert(now);
        self.attempts += 1;
        let lasted = now.saturating_duration_since(begun);
        let (is_due, next) = match self.told {
            None => (lasted >= self.patience, AGAIN_AFTER),
            Some((at, wait)) => (now.saturating_duration_since(at) >= wait, (wait * 2).min(AGAIN_AFTER_MAX)),
        };
        is_due.then(|| {
            self.told = Some((now, next));
            OutageReport { attempts: self.attempts, lasted }
        })
    }

    /// It works again. Returns what to tell, if its failure was told.
    pub fn over(&mut self, now: Instant) -> Option<OutageReport> {
        let Outage { patience, begun, attempts, told } = std::mem::take(self);
        self.patience = patience;
        let lasted = now.saturating_duration_since(begun?);
        told.map(|_| OutageReport { attempts, lasted })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The seconds at which something that fails every second is told.
    fn told(mut outage: Outage, seconds: u64) -> Vec<u64> {
        let start = Instant::now();
        let is_told = |second: &u64| outage.failed(start + Duration::from_secs(*second)).is_some();
        (0..=seconds).filter(is_told).collect()
    }

    #[test]
    fn the_intervals_grow() {
        assert_eq!(told(Outage::default(), 2600), [0, 10, 30, 70, 150, 310, 630, 1230, 1830, 2430]);
    }

    #[test]
    fn what_is_short_is_not_told() {
        assert_eq!(told(Outage::longer_than(Duration::from_secs(5)), 40), [5, 15, 35]);
        let (mut outage, start) = (Outage::longer_than(Duration::from_secs(5)), Instant::now());
        assert_eq!(outage.failed(start), None);
        assert_eq!(outage.over(start + Duration::from_secs(1)), None);
        assert_eq!(outage.failed(start + Duration::from_secs(6)), None, "it is another one");
    }
}
