//! Crashes: one to four cars that stop at the very same place, and leave it.

use proptest::collection::vec;
use proptest::prelude::*;
use tidemill_linear_road::event::{ENTRY_LANE, EXIT_LANE};

use super::traffic::{Car, Point, Spot, Step, Trip, feet, moment, moved, step};

/// Some cars that stop at one place.
#[derive(Clone, Debug)]
pub struct Crash {
    /// Index of the spot that the place is near.
    pub spot: usize,
    pub segments_on: i32,
    pub feet_in: u32,
    pub lane: u8,
    /// The first car's first report from the place, at the earliest.
    pub begin_s: u16,
    /// All cars send the first one's number of reports.
    pub together: bool,
    pub cars: Vec<Stop>,
}

/// What one of the cars does.
#[derive(Clone, Debug)]
pub struct Stop {
    pub phase_s: u16,
    /// Steps on the way to the place, the last first.
    pub approach: Vec<u32>,
    /// How many reports come from the place.
    pub reports: usize,
    /// This one of them comes from another lane.
    pub twitch: Option<usize>,
    /// Steps from the place on; one of 0 feet is a mere change of lane.
    pub onward: Vec<Step>,
    pub exit_feet: u32,
}

impl Crash {
    /// The cars, each with one trip.
    pub fn cars(&self, spot: Spot) -> Vec<Car> {
        let reports = self.cars.first().map_or(0, |first| first.reports);
        let reports = |stop: &Stop| if self.together { reports } else { stop.reports };
        self.cars.iter().map(|stop| self.car(spot, stop, reports(stop))).collect()
    }

    fn car(&self, spot: Spot, stop: &Stop, reports: usize) -> Car {
        let place = spot.position(self.segments_on, self.feet_in);
        let mut points = self.approach(spot, place, stop);
        let wait_s = self.begin_s + 90 - 30 * points.len() as u16 + stop.phase_s;
        points.extend((0..reports).map(|report| Point {
            pos: place,
            lane: if stop.twitch == Some(report) { self.other_lane() } else { self.lane },
            speed: 0,
        }));
        // Only the first report of a trip may have to be on the ramp.
        points[0].lane = ENTRY_LANE;
        let mut pos = place;
        for (i, step) in stop.onward.iter().enumerate() {
            pos = moved(pos, spot.dir, step.feet.into());
            points.push(Point {
                pos,
                lane: if i == 0 { self.other_lane() } else { step.lane },
                speed: step.speed,
            });
        }
        points.push(Point { pos: moved(pos, spot.dir, stop.exit_feet.into()), lane: EXIT_LANE, speed: 10 });
        Car { trips: vec![Trip { wait_s, xway: spot.xway, dir: spot.dir, points }] }
    }

    /// The points before the place. A place off the ramp takes at least one, on the ramp.
    fn approach(&self, spot: Spot, place: u32, stop: &Stop) -> Vec<Point> {
        let mut points = Vec::new();
        let mut pos = place;
        let direct = stop.approach.is_empty() && self.lane != ENTRY_LANE;
        for feet in stop.approach.iter().copied().chain(direct.then_some(0)) {
            pos = moved(pos, spot.dir, -i64::from(feet));
            points.push(Point { pos, lane: self.other_lane(), speed: 50 });
        }
        points.reverse();
        points
    }

    /// A travel lane that is not the place's.
    fn other_lane(&self) -> u8 {
        self.lane % 3 + 1
    }
}

/// Two or three cars mostly, within a minute.
pub fn crash() -> impl Strategy<Value = Crash> {
    let cars =
        prop_oneof![1 => vec(stop(), 1), 5 => vec(stop(), 2), 3 => vec(stop(), 3), 1 => vec(stop(), 4)];
    let lane = prop_oneof![1 => Just(ENTRY_LANE), 4 => 1..=3_u8];
    let place = (any::<usize>(), -2..=2_i32, 0..5280_u32, lane);
    (place, moment(0..=3), any::<bool>(), cars).prop_map(
        |((spot, segments_on, feet_in, lane), begin_s, together, cars)| Crash {
            spot,
            segments_on,
            feet_in,
            lane,
            begin_s,
            together,
            cars,
        },
    )
}

fn stop() -> impl Strategy<Value = Stop> {
    let phase_s = prop_oneof![4 => Just(0_u16), 2 => 1..=29_u16, 1 => 30..=70_u16];
    let reports = prop_oneof![1 => Just(3_usize), 2 => Just(4_usize), 6 => 5..=10_usize];
    let twitch = prop_oneof![7 => Just(None), 1 => (1..=6_usize).prop_map(Some)];
    let stay = (phase_s, vec(feet(), 0..=3), reports, twitch);
    (stay, vec(step(), 0..=4), feet()).prop_map(
        |((phase_s, approach, reports, twitch), onward, exit_feet)| Stop {
            phase_s,
            approach,
            reports,
            twitch,
            onward,
            exit_feet,
        },
    )
}
