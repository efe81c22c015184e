//! The segments of all expressways: how many cars are in each, how fast they go, and which conditions apply there.

use super::random::Random;
use crate::event::SEGMENTS;

/// Segments of both directions of an expressway.
pub(super) const SEGMENTS_PER_EXPRESSWAY: usize = 2 * SEGMENTS;

/// Speed on an empty road, mph.
const FREE_SPEED_MPH: f32 = 68.0;
/// Cars in a segment of average capacity at which the speed has halved.
const HALF_SPEED_CARS: f32 = 260.0;

/// The next car that reports from a travel lane here stops, and waits to be hit.
pub(super) const ACCIDENT_DUE: u8 = 1;
/// A stopped car waits here, or one segment upstream, for the next car to hit it.
pub(super) const COLLISION_AHEAD: u8 = 2;
/// An accident is here or in one of the four segments downstream: some drivers leave.
pub(super) const ACCIDENT_ZONE: u8 = 4;
/// The next car that reports from a travel lane here breaks down.
pub(super) const BREAKDOWN_DUE: u8 = 8;

/// One segment in one direction of one expressway.
#[derive(Clone, Copy, Debug)]
pub(super) struct Segment {
    /// Cars whose last report is from here.
    pub(super) cars: u32,
    /// What one car adds to the denominator of the speed.
    load_per_car: f32,
    /// Speed without other cars, mph: lower at an accident.
    free_speed_mph: f32,
    /// Conditions that concern few segments, so that one comparison skips all others.
    pub(super) conditions: u8,
}

impl Segment {
    /// The mean speed of an average driver now, mph.
    #[inline]
    pub(super) fn speed_mph(&self) -> f32 {
        self.free_speed_mph / (1.0 + self.cars as f32 * self.load_per_car)
    }
}

/// All segments.
#[derive(Clone, Debug)]
pub(super) struct Road {
    segments: Vec<Segment>,
    cars: Vec<u32>,
}

/// The index of a segment among those of its expressway.
#[inline]
pub(super) fn place(dir: u8, seg: u8) -> usize {
    usize::from(dir) * SEGMENTS + usize::from(seg)
}

impl Road {
    /// An empty road whose segments differ in capacity by up to a factor of two.
    pub(super) fn new(expressways: u16, random: &mut Random) -> Self {
        let segments = (0..usize::from(expressways) * SEGMENTS_PER_EXPRESSWAY)
            .map(|_| {
                let capacity = 0.7 + 0.7 * random.fraction();
                Segment {
                    cars: 0,
                    load_per_car: 1.0 / (HALF_SPEED_CARS * capacity),
                    free_speed_mph: FREE_SPEED_MPH,
                    conditions: 0,
                }
            })
            .collect();
        Road { segments, cars: vec![0; usize::from(expressways)] }
    }

    #[inline]
    pub(super) fn segment(&self, xway: u16, dir: u8, seg: u8) -> &Segment {
        &self.segments[usize::from(xway) * SEGMENTS_PER_EXPRESSWAY + place(dir, seg)]
    }

    #[inline]
    fn segment_mut(&mut self, xway: u16, dir: u8, seg: u8) -> &mut Segment {
        &mut self.segments[usize::from(xway) * SEGMENTS_PER_EXPRESSWAY + place(dir, seg)]
    }

    /// Cars on an expressway.
    pub(super) fn cars(&self, xway: u16) -> u32 {
        self.cars[usize::from(xway)]
    }

    pub(super) fn enter(&mut self, xway: u16, dir: u8, seg: u8) {
        self.cars[usize::from(xway)] += 1;
        self.segment_mut(xway, dir, seg).cars += 1;
    }

    pub(super) fn leave(&mut self, xway: u16, dir: u8, seg: u8) {
        self.cars[usize::from(xway)] -= 1;
        self.segment_mut(xway, dir, seg).cars -= 1;
    }

    #[inline]
    pub(super) fn cross(&mut self, xway: u16, dir: u8, seg_from: u8, seg_to: u8) {
        self.segment_mut(xway, dir, seg_from).cars -= 1;
        self.segment_mut(xway, dir, seg_to).cars += 1;
    }

    /// Whether drivers avoid the ramp of this segment: it is 1.5 times more crowded than the mean.
    pub(super) fn is_crowded(&self, xway: u16, dir: u8, seg: u8) -> bool {
        let mean = f64::from(self.cars(xway)) / SEGMENTS_PER_EXPRESSWAY as f64;
        // On a nearly empty road, one car more or less means nothing.
        f64::from(self.segment(xway, dir, seg).cars) > 1.5 * mean + 1.0
    }

    /// Removes all conditions from an expressway.
    pub(super) fn clear_conditions(&mut self, xway: u16) {
        let first = usize::from(xway) * SEGMENTS_PER_EXPRESSWAY;
        for segment in &mut self.segments[first..first + SEGMENTS_PER_EXPRESSWAY] {
            segment.conditions = 0;
            segment.free_speed_mph = FREE_SPEED_MPH;
        }
    }

    /// Adds a condition to the segment `ahead` segments downstream (negative: upstream), if it exists.
    pub(super) fn add_condition(&mut self, xway: u16, dir: u8, seg: u8, ahead: i16, condition: u8) {
        if let Some(seg) = neighbour(dir, seg, ahead) {
            self.segment_mut(xway, dir, seg).conditions |= condition;
        }
    }

    /// Slows the traffic of the segment `ahead` segments downstream, if it exists; the slowest counts.
    pub(super) fn slow_down(&mut self, xway: u16, dir: u8, seg: u8, ahead: i16, speed_part: f32) {
        if let Some(seg) = neighbour(dir, seg, ahead) {
            let segment = self.segment_mut(xway, dir, seg);
            segment.free_speed_mph = segment.free_speed_mph.min(FREE_SPEED_MPH * speed_part);
        }
    }
}

/// The segment `ahead` segments downstream of `seg`, within the road.
fn neighbour(dir: u8, seg: u8, ahead: i16) -> Option<u8> {
    let moved = if dir == 0 { i16::from(seg) + ahead } else { i16::from(seg) - ahead };
    u8::try_from(moved).ok().filter(|&seg| usize::from(seg) < SEGMENTS)
}
