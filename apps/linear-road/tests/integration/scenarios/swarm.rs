//! Swarms: about 50 cars and more that enter one segment together and crawl, so that tolls are due.

use proptest::prelude::*;

use super::traffic::{Car, Spot, Step, Trip, moment, points};
use tidemill_linear_road::event::SEGMENT_FEET;

/// Cars on one way, alike but for their times and speeds.
#[derive(Clone, Debug)]
pub struct Swarm {
    /// Index of the spot where they enter.
    pub spot: usize,
    pub segments_on: i32,
    pub cars: u16,
    /// The number of further cars, and how much later they follow: they pay.
    pub followers: u16,
    pub delay_s: u16,
    pub enter_s: u16,
    /// The number of seconds over which they enter.
    pub spread_s: u16,
    pub reports_per_segment: u32,
    pub reports: u32,
    /// The lowest speed of a car, and how many different speeds there are.
    pub speed: u8,
    pub speeds: u8,
    /// Every car with this remainder modulo 3 leaves two reports early.
    pub early: u16,
    /// Some cars come back.
    pub back: Option<SwarmBack>,
}

/// The second trip of every n-th car of a swarm, otherwise like its first.
#[derive(Clone, Copy, Debug)]
pub struct SwarmBack {
    /// Index of the spot where they enter again.
    pub spot: usize,
    /// Seconds since the exit, more than 60.
    pub wait_s: u16,
    pub every: u16,
}

impl Swarm {
    /// The cars of the swarm; `back` is the spot of the second trips.
    pub fn cars(&self, spot: Spot, back: Spot) -> Vec<Car> {
        (0..self.cars + self.followers).map(|car| self.car(spot, back, car)).collect()
    }

    fn car(&self, spot: Spot, back: Spot, car: u16) -> Car {
        // 17 is coprime to most spreads: neighbours in number are not neighbours in time.
        let delay_s = if car < self.cars { 0 } else { self.delay_s };
        let first = self.trip(spot, car, self.enter_s + delay_s + car * 17 % self.spread_s);
        let comes_back = self.back.filter(|second| car.is_multiple_of(second.every));
        let second = comes_back.map(|second| self.trip(back, car, second.wait_s));
        Car { trips: std::iter::once(first).chain(second).collect() }
    }

    fn trip(&self, spot: Spot, car: u16, wait_s: u16) -> Trip {
        let feet = (SEGMENT_FEET / self.reports_per_segment).min(4400);
        let speed = self.speed + (car % u16::from(self.speeds)) as u8;
        let step = Step { feet, lane: 1 + (car % 3) as u8, speed };
        let reports = if car % 3 == self.early { self.reports.saturating_sub(2) } else { self.reports };
        let start = spot.position(self.segments_on, 100 + u32::from(car));
        let mut points = points(start, spot.dir, &vec![step; reports as usize], feet);
        points[0].speed = speed;
        Trip { wait_s, xway: spot.xway, dir: spot.dir, points }
    }
}

/// A swarm around the limits of the toll rule: 50 cars, 40 miles per hour.
pub fn swarm() -> impl Strategy<Value = Swarm> {
    let cars = prop_oneof![1 => 49..=51_u16, 4 => 52..=64_u16];
    let followers = (0..=10_u16, prop_oneof![1 => Just(60_u16), 1 => 30..=90_u16]);
    let speed = prop_oneof![2 => (10..=37_u8, 1..=9_u8), 1 => (38..=40_u8, 1..=3_u8)];
    let when = (moment(0..=3), prop_oneof![2 => 1..=30_u16, 1 => 31..=90_u16]);
    let way = (any::<usize>(), -1..=1_i32, 1..=4_u32, 2..=7_u32, 0..=3_u16);
    let back = (any::<usize>(), 61..=150_u16, prop_oneof![Just(1_u16), Just(8)])
        .prop_map(|(spot, wait_s, every)| SwarmBack { spot, wait_s, every });
    let back = prop_oneof![1 => Just(None), 1 => back.prop_map(Some)];
    ((cars, followers), speed, when, way, back).prop_map(|(cars, speed, when, way, back)| {
        let (cars, (followers, delay_s)) = cars;
        let (speed, speeds) = speed;
        let (enter_s, spread_s) = when;
        let (spot, segments_on, reports_per_segment, reports, early) = way;
        Swarm {
            spot,
            segments_on,
            cars,
            followers,
            delay_s,
            enter_s,
            spread_s,
            reports_per_segment,
            reports,
            speed,
            speeds,
            early,
            back,
        }
    })
}
