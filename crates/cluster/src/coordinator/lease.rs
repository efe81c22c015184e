//! Leases without a common clock.

use std::time::Duration;

use super::Revision;

/// Says whether whoever holds a record still renews it.
///
/// A holder renews its record by writing it again well before `ttl` is over. An observer takes a lease as expired once the
/// record has had the same revision for `ttl` *by the observer's own clock*, so clocks are never compared. An expired lease
/// gives a right to try, nothing more: whoever takes the record does so by compare-and-set, and fences its predecessor.
///
/// ```
/// use std::time::Duration;
/// use tidemill_cluster::coordinator::{LeaseObserver, Revision};
///
/// let seconds = Duration::from_secs;
/// let mut lease = LeaseObserver::new(seconds(10));
/// assert!(!lease.is_expired(Revision(7), seconds(100)));
/// assert!(!lease.is_expired(Revision(7), seconds(109)));
/// assert!(lease.is_expired(Revision(7), seconds(110)));
/// // Renewed.
/// assert!(!lease.is_expired(Revision(9), seconds(111)));
/// ```
#[derive(Clone, Copy, Debug)]
pub struct LeaseObserver {
    ttl: Duration,
    last: Option<(Revision, Duration)>,
}

impl LeaseObserver {
    /// Observes a lease that is to be renewed within `ttl`.
    pub fn new(ttl: Duration) -> LeaseObserver {
        LeaseObserver { ttl, last: None }
    }

    /// Returns whether the lease has expired, given the revision that its record has now.
    pub fn is_expired(&mut self, revision: Revision, now: Duration) -> bool {
        match self.last {
            Some((last, since)) if last == revision => now.saturating_sub(since) >= self.ttl,
            _ => {
                self.last = Some((revision, now));
                false
            }
        }
    }
}
