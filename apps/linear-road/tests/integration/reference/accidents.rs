//! Section 5: stopped cars and accidents, found by looking at every second of every place.

use std::collections::{BTreeMap, BTreeSet};

use tidemill_linear_road::event::Report;

use super::trips::trips;
use super::{Cars, Minute, Second, Segment, minute};

/// Where a car can stop: "same expressway, direction, lane and position".
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    pub xway: u16,
    pub dir: u8,
    pub lane: u8,
    pub pos: u32,
    /// The segment of the position.
    pub seg: u8,
}

impl Place {
    /// The place that a report was sent from.
    pub fn of(report: &Report) -> Place {
        Place { xway: report.xway, dir: report.dir, lane: report.lane, pos: report.pos, seg: report.seg }
    }
}

/// One accident, from the first to the last second that found at least two cars stopped.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Accident {
    pub place: Place,
    /// The second of the later car's 4th identical report.
    pub begin: Second,
    /// The first second at which fewer than two cars were stopped.
    pub end: Second,
    /// All cars that were stopped there at some time of it.
    pub vids: BTreeSet<u32>,
}

/// The cars stopped at every place and second, and the minutes and segments with an accident.
pub struct Accidents {
    stopped: BTreeMap<(Place, Second), BTreeSet<u32>>,
    minutes: BTreeSet<(Minute, Segment)>,
}

impl Accidents {
    /// Looks at all reports; `cars` are the same by car.
    pub fn new(reports: &[Report], cars: &Cars) -> Accidents {
        let stopped = stopped(cars);
        let minutes = reports
            .iter()
            .filter(|report| finds_accident(&stopped, report))
            .map(|report| (minute(report.time), Segment::of(report)))
            .collect();
        Accidents { stopped, minutes }
    }

    /// `Acc(m,s)`.
    pub fn acc(&self, minute: Minute, segment: Segment) -> bool {
        self.minutes.contains(&(minute, segment))
    }

    /// "An *accident* exists at a place at time t if at least two different cars are stopped there at t": the
    /// unbroken runs of such seconds.
    pub fn list(&self) -> Vec<Accident> {
        let mut accidents: Vec<Accident> = Vec::new();
        for ((place, second), vids) in self.stopped.iter().filter(|(_, vids)| vids.len() >= 2) {
            match accidents.last_mut().filter(|last| last.place == *place && last.end == *second) {
                Some(last) => {
                    last.end = second + 1;
                    last.vids.extend(vids);
                }
                None => accidents.push(Accident {
                    place: *place,
                    begin: *second,
                    end: second + 1,
                    vids: vids.clone(),
                }),
            }
        }
        accidents
    }
}

/// "A car is *stopped* at (XWay, Dir, Lane, Pos) as of time t if the latest four reports of its trip up to t are
/// all from exactly that place, and the latest of them is less than 30 s old." Spd is not looked at.
fn stopped(cars: &Cars) -> BTreeMap<(Place, Second), BTreeSet<u32>> {
    let mut stopped: BTreeMap<(Place, Second), BTreeSet<u32>> = BTreeMap::new();
    for (vid, reports) in cars {
        for trip in trips(reports) {
            for latest in 3..trip.len() {
                let place = Place::of(&trip[latest]);
                if trip[latest - 3..latest].iter().all(|earlier| Place::of(earlier) == place) {
                    for second in seconds_as_latest(&trip[latest], reports) {
                        stopped.entry((place, second)).or_default().insert(*vid);
                    }
                }
            }
        }
    }
    stopped
}

/// The seconds at which a report is its car's latest and less than 30 s old.
fn seconds_as_latest(report: &Report, of_its_car: &[Report]) -> std::ops::Range<Second> {
    let time = Second::from(report.time);
    let next = of_its_car.iter().map(|other| Second::from(other.time)).find(|other| *other > time);
    time..next.map_or(time + 30, |next| next.min(time + 30))
}

/// The report was "sent by a stopped car while another car was stopped at the same place". Reports of one second
/// are simultaneous: `stopped` has taken all of them in.
fn finds_accident(stopped: &BTreeMap<(Place, Second), BTreeSet<u32>>, report: &Report) -> bool {
    stopped
        .get(&(Place::of(report), Second::from(report.time)))
        .is_some_and(|vids| vids.contains(&report.vid) && vids.len() >= 2)
}
