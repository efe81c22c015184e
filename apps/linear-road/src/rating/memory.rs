//! How much memory a rating takes, and how much is available.

use super::base_group::BaseGroup;

/// The memory of a clone's state, computed from the tables themselves.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MemoryBudget {
    /// Bytes of the table of cars per car that is in it.
    pub bytes_per_car_on_road: f64,
    /// Bytes of the tables of cars per expressway.
    pub car_bytes_per_expressway: f64,
    /// Bytes per account, including vehicle ids without one.
    pub bytes_per_account: f64,
    /// Bytes of the whole state per expressway.
    pub bytes_per_expressway: f64,
}

/// Statistics and notices of an expressway's segments, and their containers.
const BYTES_OF_SEGMENTS: f64 = 14_600.0;
/// A row of the history: key and toll.
const BYTES_PER_HISTORY_ROW: f64 = 12.0;
/// Balances are 4 bytes for each vehicle id of a full page.
const BYTES_PER_VID: f64 = 4.0;

impl MemoryBudget {
    /// The budget of clones of a base group.
    pub fn of(base: &BaseGroup) -> Self {
        let expressways = f64::from(base.spans.expressways);
        let (mut cars, mut car_bytes) = (0, 0);
        for expressway in base.state.tolls.iter().flat_map(|tolls| tolls.expressways()) {
            cars += expressway.car_count();
            car_bytes += expressway.car_bytes();
        }
        let account_bytes = f64::from(base.spans.vids) * BYTES_PER_VID;
        let history_bytes = base.history.len() as f64 * BYTES_PER_HISTORY_ROW;
        MemoryBudget {
            bytes_per_car_on_road: car_bytes as f64 / cars.max(1) as f64,
            car_bytes_per_expressway: car_bytes as f64 / expressways,
            bytes_per_account: if base.accounts == 0 { 0.0 } else { account_bytes / base.accounts as f64 },
            bytes_per_expressway: (car_bytes as f64 + account_bytes + history_bytes) / expressways
                + BYTES_OF_SEGMENTS,
        }
    }
}

/// The largest resident set of this process so far, in bytes; 0 if the system does not report it.
pub fn peak_bytes() -> u64 {
    kilobytes_in("/proc/self/status", "VmHWM:") * 1024
}

/// Makes [`peak_bytes`] begin again with what is resident now; without effect where the system cannot.
pub fn forget_peak() {
    // What may fail here is only a measurement: the peak then stays that of the whole process.
    let _ = std::fs::write("/proc/self/clear_refs", "5");
}

/// Memory that is still available, in bytes; 0 if the system does not report it.
pub fn available_bytes() -> u64 {
    kilobytes_in("/proc/meminfo", "MemAvailable:") * 1024
}

fn kilobytes_in(file: &str, name: &str) -> u64 {
    let text = std::fs::read_to_string(file).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    line.and_then(|line| line.trim().trim_end_matches("kB").trim().parse().ok()).unwrap_or(0)
}
