//! Cars and where and when they drive, before they have numbers.

use proptest::prelude::*;
use tidemill_linear_road::event::{ENTRY_LANE, EXIT_LANE, POSITION_MAX, SEGMENT_FEET};

/// A segment where things happen.
#[derive(Clone, Copy, Debug)]
pub struct Spot {
    pub xway: u16,
    pub dir: u8,
    pub seg: u8,
}

impl Spot {
    /// The position this many segments downstream (upstream if negative) and this many feet into that segment, seen in
    /// the direction of travel; never off the road.
    pub fn position(self, segments_on: i32, feet_in: u32) -> u32 {
        let feet = i64::from(segments_on) * i64::from(SEGMENT_FEET) + i64::from(feet_in);
        let start = match self.dir {
            0 => u32::from(self.seg) * SEGMENT_FEET,
            _ => u32::from(self.seg) * SEGMENT_FEET + SEGMENT_FEET - 1,
        };
        moved(start, self.dir, feet)
    }
}

/// A position this many feet downstream; it stops at the ends of the road.
pub fn moved(pos: u32, dir: u8, feet: i64) -> u32 {
    let moved = if dir == 0 { i64::from(pos) + feet } else { i64::from(pos) - feet };
    moved.clamp(0, i64::from(POSITION_MAX)) as u32
}

/// What one report says beside the car and the time.
#[derive(Clone, Copy, Debug)]
pub struct Point {
    pub pos: u32,
    pub lane: u8,
    pub speed: u8,
}

/// One trip: a point every 30 s, the first in lane 0, the last in lane 4.
#[derive(Clone, Debug)]
pub struct Trip {
    /// Seconds since the last report of the trip before, or since the start of the run.
    pub wait_s: u16,
    pub xway: u16,
    pub dir: u8,
    pub points: Vec<Point>,
}

/// A car and its trips in order.
#[derive(Clone, Debug)]
pub struct Car {
    pub trips: Vec<Trip>,
}

/// A step from one report to the next.
#[derive(Clone, Copy, Debug)]
pub struct Step {
    /// At most 4400: 100 miles per hour for 30 s.
    pub feet: u32,
    pub lane: u8,
    pub speed: u8,
}

/// The points of a trip that begins at a position, takes some steps and leaves with the last.
pub fn points(start: u32, dir: u8, steps: &[Step], exit_feet: u32) -> Vec<Point> {
    let mut points = vec![Point { pos: start, lane: ENTRY_LANE, speed: 20 }];
    let mut pos = start;
    for step in steps {
        pos = moved(pos, dir, step.feet.into());
        points.push(Point { pos, lane: step.lane, speed: step.speed });
    }
    points.push(Point { pos: moved(pos, dir, exit_feet.into()), lane: EXIT_LANE, speed: 10 });
    points
}

/// Both directions, mostly at the ends of the road.
pub fn spot() -> impl Strategy<Value = Spot> {
    let seg = prop_oneof![3 => 0..=5_u8, 3 => 94..=99_u8, 1 => 40..=50_u8];
    (0..6_u16, 0..=1_u8, seg).prop_map(|(xway, dir, seg)| Spot { xway, dir, seg })
}

/// A second, mostly within two of a minute's border or middle: reports come every half minute.
pub fn moment(minutes: std::ops::RangeInclusive<u16>) -> impl Strategy<Value = u16> {
    let second = prop_oneof![2 => 58..=62_u16, 2 => 28..=32_u16, 1 => 0..=59_u16];
    (minutes, second).prop_map(|(minute, second)| minute * 60 + second)
}

/// How far a car comes in 30 s: nothing, a little within a segment, or mostly into the next.
pub fn feet() -> impl Strategy<Value = u32> {
    prop_oneof![1 => Just(0), 1 => 1..=900_u32, 4 => 3900..=4400_u32]
}

/// A step of a car that drives.
pub fn step() -> impl Strategy<Value = Step> {
    (feet(), 1..=3_u8, 0..=100_u8).prop_map(|(feet, lane, speed)| Step { feet, lane, speed })
}
