//! Who has given wrong passwords lately, so that nobody can try many.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use parking_lot::{Mutex, MutexGuard};

/// Addresses that are remembered; then the one whose last failure is the longest ago is forgotten.
const ADDRESSES_MAX: usize = 1024;
/// Failures are forgotten after this time without another one.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(60);
/// How long the first failure is answered late; each further one twice as long.
const DELAY: Duration = Duration::from_millis(100);
const DELAY_MAX: Duration = Duration::from_secs(3);
/// Failures of an address for one user whose answers may be late at the same time; meanwhile nothing else is tried for that user.
const LATE_MAX: usize = 8;
/// The same for all users together.
const LATE_OF_ADDRESS_MAX: usize = 64;

/// Who has given wrong passwords lately. The answer to a wrong password comes late, the later the more there were.
#[derive(Default)]
pub(crate) struct LoginAttempts {
    addresses: Mutex<BTreeMap<IpAddr, Failures>>,
}

struct Failures {
    count: u32,
    last: Instant,
    /// Until when the answers to the newest ones are late, and for which users.
    late: Vec<(Instant, String)>,
}

impl LoginAttempts {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<IpAddr, Failures>> {
        self.addresses.lock()
    }

    /// Returns whether a password from this address is looked at now. If not, its turn comes when one of the late answers has been
    /// given: somebody else at the address may be guessing.
    pub fn admits(&self, address: IpAddr, user: &str, now: Instant) -> bool {
        let addresses = self.lock();
        let Some(failures) = addresses.get(&address) else { return true };
        let late = failures.late.iter().filter(|(until, _)| *until > now);
        let of_user = late.clone().filter(|(_, name)| name == user).count();
        of_user < LATE_MAX && late.count() < LATE_OF_ADDRESS_MAX
    }

    /// Notes a wrong password; returns how late to answer.
    pub fn failed(&self, address: IpAddr, user: &str, now: Instant) -> Duration {
        let mut addresses = self.lock();
        if addresses.len() >= ADDRESSES_MAX && !addresses.contains_key(&address) {
            let oldest =
                addresses.iter().min_by_key(|(_, failures)| failures.last).map(|(address, _)| *address);
            oldest.and_then(|oldest| addresses.remove(&oldest));
        }
        let failures = addresses.entry(address).or_insert(Failures { count: 0, last: now, late: Vec::new() });
        if now.saturating_duration_since(failures.last) > FORGOTTEN_AFTER {
            failures.count = 0;
        }
        let delay = DELAY.saturating_mul(1 << failures.count.min(10)).min(DELAY_MAX);
        failures.count += 1;
        failures.last = now;
        failures.late.retain(|(until, _)| *until > now);
        failures.late.push((now + delay, user.to_owned()));
        delay
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_come_later_and_later_until_nothing_fails_for_a_while() {
        let (attempts, start) = (LoginAttempts::default(), Instant::now());
        let address = |last: u8| IpAddr::from([192, 0, 2, last]);
        let delays: Vec<_> = (0..7).map(|_| attempts.failed(address(1), "me", start).as_millis()).collect();
        assert_eq!(delays, [100, 200, 400, 800, 1600, 3000, 3000]);
        assert_eq!(attempts.failed(address(2), "me", start), DELAY);
        let later = start + FORGOTTEN_AFTER + Duration::from_secs(1);
        assert_eq!(attempts.failed(address(1), "me", later), DELAY);
    }

    #[test]
    fn while_many_answers_are_late_nothing_else_is_tried_for_that_user() {
        let (attempts, start) = (LoginAttempts::default(), Instant::now());
        let (address, other) = (IpAddr::from([192, 0, 2, 1]), IpAddr::from([192, 0, 2, 2]));
        for _ in 0..LATE_MAX {
            assert!(attempts.admits(address, "me", start));
            attempts.failed(address, "me", start);
        }
        assert!(!attempts.admits(address, "me", start));
        assert!(attempts.admits(address, "you", start));
        assert!(attempts.admits(other, "me", start));
        assert!(attempts.admits(address, "me", start + DELAY_MAX + DELAY));
        for number in 0..LATE_OF_ADDRESS_MAX {
            attempts.failed(address, &number.to_string(), start);
        }
        assert!(!attempts.admits(address, "you", start));
    }

    #[test]
    fn a_bounded_number_of_addresses_is_remembered() {
        let (attempts, start) = (LoginAttempts::default(), Instant::now());
        for number in 0..3000_u32 {
            attempts.failed(
                IpAddr::from(number.to_be_bytes()),
                "me",
                start + Duration::from_millis(number.into()),
            );
        }
        assert_eq!(attempts.lock().len(), ADDRESSES_MAX);
    }
}
