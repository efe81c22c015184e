//! Reports of cars that drive in circles: all cars report in turn, over and over. Each report follows from its number.

use std::io::{self, Write};
use std::time::{Duration, SystemTime};

/// The length of an expressway, and of one of its segments, in feet.
pub const LENGTH: u64 = 528_000;
pub const SEGMENT: u64 = 5280;
pub const EXPRESSWAYS: u64 = 10;
pub const LANES: u64 = 4;
/// The days of which expenditures are kept.
pub const DAYS: u64 = 8;

/// A report. All numbers are whole, so that every system computes the same with them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Report {
    /// Its time, in microseconds, counts the reports.
    pub number: u64,
    pub vid: u64,
    pub x: u64,
    pub y: u64,
    pub speed: u64,
    pub lane: u64,
}

/// The report with this number.
pub fn report(cars: u64, number: u64) -> Report {
    let (turn, vid) = (number / cars, mixed(number % cars) % cars);
    let (speed, lane) = (20 + mixed(vid) % 80, vid % LANES);
    let x = (mixed(vid + 7) + turn * speed * 22 / 5) % LENGTH;
    Report { number, vid, x, y: vid % EXPRESSWAYS * 1000 + lane * 12, speed, lane }
}

impl Report {
    /// Writes it as a line of CSV: car, time, place, speed, lane.
    pub fn write(&self, text: &mut Vec<u8>) -> io::Result<()> {
        let Report { number, vid, x, y, speed, lane } = self;
        writeln!(text, "{vid},{number},{x},{y},{speed},{lane}")
    }
}

/// The time of the report with this number.
pub fn time_of(number: u64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_micros(number)
}

/// What a car has paid on a day.
pub fn paid_on(vid: u64, day: u64) -> u64 {
    mixed(vid * 64 + day) % 100
}

/// What a car has paid on all days.
pub fn balance_of(vid: u64) -> u64 {
    (0..DAYS).map(|day| paid_on(vid, day)).sum()
}

/// SplitMix64: the runs repeat. Values are below 2^40, so that sums of some of them fit everywhere.
pub fn mixed(value: u64) -> u64 {
    let value = value.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let value = (value ^ (value >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    (value ^ (value >> 31)) >> 24
}
