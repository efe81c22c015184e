//! Wanderers: single cars that pass where the others are, leave in any way, and sometimes come back.

use proptest::collection::vec;
use proptest::prelude::*;

use super::traffic::{Car, Spot, Step, Trip, feet, moment, points, step};

/// A car with one trip, or with two.
#[derive(Clone, Debug)]
pub struct Wanderer {
    /// Index of the spot near which it enters.
    pub spot: usize,
    pub enter_s: u16,
    pub way: Way,
    pub back: Option<Back>,
}

/// A trip, seen from a spot.
#[derive(Clone, Debug)]
pub struct Way {
    pub segments_on: i32,
    pub feet_in: u32,
    pub steps: Vec<Step>,
    pub exit_feet: u32,
}

/// A second trip.
#[derive(Clone, Debug)]
pub struct Back {
    /// Index of the spot near which it enters.
    pub spot: usize,
    /// Seconds since the exit, more than 60.
    pub wait_s: u16,
    pub way: Way,
}

impl Wanderer {
    /// The car; `back` is the spot of its second trip, if it has one.
    pub fn car(&self, spot: Spot, back: Spot) -> Car {
        let first = self.way.trip(spot, self.enter_s);
        let second = self.back.as_ref().map(|second| second.way.trip(back, second.wait_s));
        Car { trips: std::iter::once(first).chain(second).collect() }
    }
}

impl Way {
    fn trip(&self, spot: Spot, wait_s: u16) -> Trip {
        let start = spot.position(self.segments_on, self.feet_in);
        let points = points(start, spot.dir, &self.steps, self.exit_feet);
        Trip { wait_s, xway: spot.xway, dir: spot.dir, points }
    }
}

/// A wanderer; about every third comes back.
pub fn wanderer() -> impl Strategy<Value = Wanderer> {
    let wait_s = prop_oneof![1 => 61..=63_u16, 2 => 61..=200_u16];
    let back = (any::<usize>(), wait_s, way()).prop_map(|(spot, wait_s, way)| Back { spot, wait_s, way });
    let back = prop_oneof![2 => Just(None), 1 => back.prop_map(Some)];
    (any::<usize>(), moment(0..=7), way(), back).prop_map(|(spot, enter_s, way, back)| Wanderer {
        spot,
        enter_s,
        way,
        back,
    })
}

fn way() -> impl Strategy<Value = Way> {
    (-5..=1_i32, 0..5280_u32, vec(step(), 0..=7), feet())
        .prop_map(|(segments_on, feet_in, steps, exit_feet)| Way { segments_on, feet_in, steps, exit_feet })
}
