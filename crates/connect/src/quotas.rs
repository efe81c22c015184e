//! How much one client may send: rows and bytes per second, for each address or each name of a token.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// The most clients that are remembered. One whose quota is full again is forgotten. If all have something to wait for,
/// further ones share [`OTHERS`].
const CLIENTS_MAX: usize = 16_384;
/// How often a client that is held back checks whether it is of any use.
const LOOK_INTERVAL: Duration = Duration::from_millis(50);
/// The quota of those who are not remembered.
const OTHERS: QuotaHolder = QuotaHolder::Address(IpAddr::V4(Ipv4Addr::UNSPECIFIED));

/// Whose quota it is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum QuotaHolder {
    /// Whoever sends from this address.
    Address(IpAddr),
    /// Whoever sends a token of this name, from anywhere.
    Name(String),
}

impl QuotaHolder {
    /// The name, if there is one; otherwise the address.
    pub(crate) fn of(name: &str, address: IpAddr) -> QuotaHolder {
        if name.is_empty() {
            QuotaHolder::Address(subscriber(address))
        } else {
            QuotaHolder::Name(name.to_owned())
        }
    }
}

/// What a client may send in a second, on average; `None`: any number.
///
/// A client may save up one second, and is then held back until it has a quota again. A request that is larger is
/// accepted, and the time for it comes after it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Quotas {
    /// Rows, counted as lines.
    pub rows_per_second: Option<u64>,
    /// Bytes of text, after decompression.
    pub bytes_per_second: Option<u64>,
}

/// The clients of a source.
#[derive(Debug)]
pub(crate) struct ClientQuotas {
    quotas: Quotas,
    clients: Mutex<HashMap<QuotaHolder, Client>>,
}

/// What a client has left, as times: how long ago it began to save up. A time to come is a debt.
#[derive(Clone, Copy, Debug)]
struct Client {
    rows_from: Instant,
    bytes_from: Instant,
}

impl ClientQuotas {
    /// `None` if there is nothing to limit.
    pub(crate) fn new(quotas: Quotas) -> Option<ClientQuotas> {
        (quotas != Quotas::default()).then(|| ClientQuotas { quotas, clients: Mutex::default() })
    }

    /// How long this client has to wait before it may send; zero if it may.
    pub(crate) fn wait(&self, holder: &QuotaHolder, now: Instant) -> Duration {
        let clients = self.clients.lock();
        let others = || clients.get(&OTHERS).filter(|_| clients.len() >= CLIENTS_MAX);
        let Some(client) = clients.get(holder).or_else(others) else { return Duration::ZERO };
        client.rows_from.max(client.bytes_from).saturating_duration_since(now)
    }

    /// Counts what a client has sent.
    pub(crate) fn spend(&self, holder: &QuotaHolder, rows: u64, bytes: u64, now: Instant) {
        let mut clients = self.clients.lock();
        if clients.len() >= CLIENTS_MAX {
            clients.retain(|_, client| client.rows_from.max(client.bytes_from) > saved_up(now));
        }
        let is_full = clients.len() >= CLIENTS_MAX;
        let own = Some(holder).filter(|holder| !is_full || clients.contains_key(holder));
        let full = Client { rows_from: saved_up(now), bytes_from: saved_up(now) };
        let client = clients.entry(own.cloned().unwrap_or(OTHERS)).or_insert(full);
        client.rows_from = spent(client.rows_from, rows, self.quotas.rows_per_second, now);
        client.bytes_from = spent(client.bytes_from, bytes, self.quotas.bytes_per_second, now);
    }
}

/// The quota of one client.
#[derive(Clone, Debug)]
pub(crate) struct ClientQuota {
    pub(crate) quotas: Arc<ClientQuotas>,
    pub(crate) holder: QuotaHolder,
}

impl ClientQuota {
    /// Counts what has come, and holds the client back as long as it has used up its quota, or `is_over`.
    pub(crate) fn spend_and_wait(&self, text: &[u8], is_over: impl Fn() -> bool) {
        let lines = memchr::memchr_iter(b'\n', text).count() as u64;
        self.quotas.spend(&self.holder, lines, text.len() as u64, Instant::now());
        while !is_over() {
            match self.quotas.wait(&self.holder, Instant::now()) {
                Duration::ZERO => return,
                wait => thread::sleep(wait.min(LOOK_INTERVAL)),
            }
        }
    }
}

/// The beginning of the longest time that can be saved up.
fn saved_up(now: Instant) -> Instant {
    now.checked_sub(Duration::from_secs(1)).unwrap_or(now)
}

fn spent(from: Instant, count: u64, per_second: Option<u64>, now: Instant) -> Instant {
    let Some(per_second) = per_second else { return from };
    let time = Duration::from_secs_f64(count as f64 / per_second.max(1) as f64);
    from.max(saved_up(now)).checked_add(time).unwrap_or(from)
}

/// Who has one address of version 6 has all with the same first half.
fn subscriber(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(_) => address,
        IpAddr::V6(address) => match address.to_ipv4_mapped() {
            Some(address) => IpAddr::V4(address),
            None => IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & !u128::from(u64::MAX))),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLIENT: &QuotaHolder = &QuotaHolder::Address(IpAddr::V4(std::net::Ipv4Addr::LOCALHOST));

    fn quotas(rows_per_second: Option<u64>, bytes_per_second: Option<u64>) -> ClientQuotas {
        ClientQuotas::new(Quotas { rows_per_second, bytes_per_second }).expect("limited")
    }

    #[test]
    fn a_client_waits_for_what_it_sent_beyond_its_quota() {
        let (quotas, start) = (quotas(Some(100), None), Instant::now());
        assert_eq!(quotas.wait(CLIENT, start), Duration::ZERO);
        quotas.spend(CLIENT, 100, 1 << 30, start);
        assert_eq!(quotas.wait(CLIENT, start), Duration::ZERO, "a second's worth was saved up");
        quotas.spend(CLIENT, 250, 0, start);
        assert_eq!(quotas.wait(CLIENT, start), Duration::from_millis(2500));
        assert_eq!(quotas.wait(CLIENT, start + Duration::from_millis(2400)), Duration::from_millis(100));
        assert_eq!(
            quotas.wait(&QuotaHolder::of("", [10, 0, 0, 7].into()), start),
            Duration::ZERO,
            "others do not wait"
        );
    }

    #[test]
    fn no_more_than_a_second_is_saved_up() {
        let (quotas, start) = (quotas(None, Some(1000)), Instant::now());
        quotas.spend(CLIENT, 0, 1000, start);
        let later = start + Duration::from_secs(100);
        quotas.spend(CLIENT, 0, 3000, later);
        assert_eq!(quotas.wait(CLIENT, later), Duration::from_secs(2));
    }

    #[test]
    fn addresses_of_one_network_are_one_client() {
        let (quotas, start) = (quotas(Some(1), None), Instant::now());
        let address = |text: &str| QuotaHolder::of("", text.parse().expect("an address"));
        quotas.spend(&address("2001:db8::1"), 10, 0, start);
        assert!(quotas.wait(&address("2001:db8::2"), start) > Duration::ZERO);
        assert_eq!(quotas.wait(&address("2001:db8:0:1::2"), start), Duration::ZERO);
        quotas.spend(&address("10.0.0.7"), 10, 0, start);
        assert!(quotas.wait(&address("::ffff:10.0.0.7"), start) > Duration::ZERO);
    }

    #[test]
    fn a_name_has_one_quota_wherever_it_sends_from() {
        let (quotas, start) = (quotas(Some(1), None), Instant::now());
        let at = |name: &str, last: u8| QuotaHolder::of(name, [10, 0, 0, last].into());
        quotas.spend(&at("ada", 1), 10, 0, start);
        assert!(quotas.wait(&at("ada", 2), start) > Duration::ZERO);
        assert_eq!(quotas.wait(&at("bob", 1), start), Duration::ZERO);
        assert_eq!(quotas.wait(&at("", 1), start), Duration::ZERO);
    }

    #[test]
    fn only_clients_that_have_something_to_wait_for_are_remembered() {
        let (quotas, start) = (quotas(Some(1000), None), Instant::now());
        for address in 1..CLIENTS_MAX as u32 {
            quotas.spend(&QuotaHolder::of("", address.to_be_bytes().into()), 1, 0, start);
        }
        quotas.spend(CLIENT, 5000, 0, start);
        let later = start + Duration::from_secs(2);
        quotas.spend(&QuotaHolder::of("", [200, 0, 0, 1].into()), 1, 0, later);
        assert_eq!(quotas.clients.lock().len(), 2);
        assert!(quotas.wait(CLIENT, later) > Duration::ZERO);
    }
}
