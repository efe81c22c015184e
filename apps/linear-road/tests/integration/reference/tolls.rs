//! Section 6: tolls, toll notification (output type 0) and toll assessment.

use tidemill_linear_road::event::{EXIT_LANE, Report};

use super::{Minute, Road, Segment, minute};

/// A toll notification.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Toll {
    pub time: u16,
    pub vid: u32,
    /// Latest average velocity, -1 without data.
    pub lav: i64,
    pub toll: u64,
}

/// A toll charged to a car's account, and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Charge {
    pub time: u16,
    pub vid: u32,
    pub toll: u64,
}

/// `Toll(m,s)`: "2 * (Cars(m-1,s) - 50)^2 if Lav(m,s) < 40 and Cars(m-1,s) > 50 and not Acc(m-1, d) for d = s and
/// the 4 segments downstream of s", else 0.
pub fn toll(road: &Road, minute: Minute, segment: Segment) -> u64 {
    let cars = road.statistics.cars(minute - 1, segment);
    let slow = road.statistics.lav(minute, segment) < 40;
    let crowded = cars > 50;
    let accident_ahead = segment.in_reach().any(|ahead| road.accidents.acc(minute - 1, ahead));
    if slow && crowded && !accident_ahead { 2 * (cars - 50) * (cars - 50) } else { 0 }
}

/// "For every report that enters a segment with Lane != 4, also when the toll is 0. It carries Lav(M(t),s) and
/// Toll(M(t),s)."
pub fn notifications(road: &Road) -> Vec<Toll> {
    let mut tolls: Vec<Toll> =
        road.entries.iter().filter_map(|entry| notification(road, &entry.report)).collect();
    tolls.sort();
    tolls
}

/// What a report that enters a segment is told; nothing in lane 4.
fn notification(road: &Road, entering: &Report) -> Option<Toll> {
    let (minute, segment) = (minute(entering.time), Segment::of(entering));
    (entering.lane != EXIT_LANE).then(|| Toll {
        time: entering.time,
        vid: entering.vid,
        lav: road.statistics.lav(minute, segment),
        toll: toll(road, minute, segment),
    })
}

/// "When a report enters a segment and does not open a new trip, the toll told in the previous notification (that
/// of the segment just left) is charged to the car's account, at the Time of that report. [...] A new trip drops
/// a toll that was told but not charged." Charges of 0 change nothing and are left out.
pub fn charges(road: &Road) -> Vec<Charge> {
    let mut charges: Vec<Charge> = road
        .entries
        .windows(2)
        .filter(|pair| !pair[1].opens_new_trip)
        .filter_map(|pair| {
            let told = notification(road, &pair[0].report)?;
            Some(Charge { time: pair[1].report.time, vid: told.vid, toll: told.toll })
        })
        .filter(|charge| charge.toll > 0)
        .collect();
    charges.sort();
    charges
}
