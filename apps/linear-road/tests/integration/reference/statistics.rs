//! Section 3: segment statistics per minute.

use std::collections::BTreeMap;

use tidemill_linear_road::event::Report;

use super::ratio::Ratio;
use super::{Minute, Segment, minute};

/// The speeds that each car reported from one segment in one minute.
type SpeedsByCar = BTreeMap<u32, Vec<Ratio>>;

/// `Cars` and `Avgs` of every minute and segment with a report.
pub struct Statistics {
    cars: BTreeMap<(Minute, Segment), u64>,
    avgs: BTreeMap<(Minute, Segment), Ratio>,
}

impl Statistics {
    /// Groups all reports, of all lanes, by minute and segment.
    pub fn new(reports: &[Report]) -> Statistics {
        let mut speeds: BTreeMap<(Minute, Segment), SpeedsByCar> = BTreeMap::new();
        for report in reports {
            let of_segment = speeds.entry((minute(report.time), Segment::of(report))).or_default();
            of_segment.entry(report.vid).or_default().push(Ratio::new(report.speed.into(), 1));
        }
        Statistics {
            cars: speeds.iter().map(|(at, by_car)| (*at, by_car.len() as u64)).collect(),
            avgs: speeds.iter().map(|(at, by_car)| (*at, average(by_car))).collect(),
        }
    }

    /// `Cars(m,s)`: "number of *distinct* VIDs".
    pub fn cars(&self, minute: Minute, segment: Segment) -> u64 {
        self.cars.get(&(minute, segment)).copied().unwrap_or(0)
    }

    /// `Lav(m,s)`: "floor of the mean of the existing values among Avgs(m-1,s) .. Avgs(m-5,s); -1 if all five
    /// are empty".
    pub fn lav(&self, minute: Minute, segment: Segment) -> i64 {
        let existing: Vec<Ratio> =
            (minute - 5..minute).filter_map(|earlier| self.avgs.get(&(earlier, segment)).copied()).collect();
        Ratio::mean(&existing).map_or(-1, |mean| mean.floor() as i64)
    }
}

/// `Avgs(m,s)`: "mean over those cars of Avgsv (each car weighs the same)", where `Avgsv(v,m,s)` is the "mean Spd of
/// the reports of car v".
fn average(speeds: &SpeedsByCar) -> Ratio {
    let of_each_car: Vec<Ratio> = speeds.values().filter_map(|speeds| Ratio::mean(speeds)).collect();
    Ratio::mean(&of_each_car).expect("only minutes with a report are grouped")
}
