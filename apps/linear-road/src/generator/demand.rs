//! The demand for trips: entry ramps, trip lengths, cars that come back.

use super::random::Random;
use super::road::{Road, SEGMENTS_PER_EXPRESSWAY, place};
use crate::event::SEGMENTS;

/// The shortest trip planned, in segments.
const TRIP_SEGMENTS_MIN: u8 = 2;
/// `exp(-1/26)`: the probability that a trip of mean length `2 + Exp(26)` goes one segment further.
const TRIP_GOES_ON: f64 = 0.962_268_544_147_375_4;
/// How many ramps a driver examines before accepting a crowded one.
const RAMPS_TRIED: usize = 8;
/// Share of the leaving cars that come back, percent.
const RETURN_PERCENT: u32 = 10;
/// The shortest pause of a car that comes back, seconds; above the 60 s of section 2.
const PAUSE_MIN_S: u32 = 90;
/// The longest pause, seconds.
const PAUSE_MAX_S: u32 = 1090;
/// Seconds for which returns are planned: one more than the longest pause.
const PAUSES: usize = PAUSE_MAX_S as usize + 1;

/// A trip about to begin.
#[derive(Clone, Copy, Debug)]
pub(super) struct Trip {
    pub(super) dir: u8,
    pub(super) entry_seg: u8,
    pub(super) exit_seg: u8,
}

/// The demand of the drivers.
#[derive(Clone, Debug)]
pub(super) struct Demand {
    random: Random,
    /// Per expressway the running sums of the weights of its ramps, in the order of [`place`].
    ramps: Vec<[u32; SEGMENTS_PER_EXPRESSWAY]>,
    /// `trip_lengths[i]`: probability of a trip of at most [`TRIP_SEGMENTS_MIN`]` + i` segments, times 2^32.
    trip_lengths: [u64; SEGMENTS],
    /// Per second modulo [`PAUSES`] the vehicle ids that come back then.
    returns: Vec<Vec<u32>>,
}

impl Demand {
    pub(super) fn new(expressways: u16, mut random: Random) -> Self {
        let ramps = (0..expressways).map(|_| ramp_weights(&mut random)).collect();
        Demand { random, ramps, trip_lengths: trip_lengths(), returns: vec![Vec::new(); PAUSES] }
    }

    /// Plans a trip on an expressway.
    pub(super) fn trip(&mut self, road: &Road, xway: u16) -> Trip {
        let (mut dir, mut entry_seg) = self.ramp(xway);
        for _ in 1..RAMPS_TRIED {
            if !road.is_crowded(xway, dir, entry_seg) {
                break;
            }
            (dir, entry_seg) = self.ramp(xway);
        }
        let drawn = self.random.next() >> 32;
        let further = self.trip_lengths.partition_point(|&sum| sum <= drawn).min(SEGMENTS - 1) as u8;
        let length = TRIP_SEGMENTS_MIN + further;
        let exit_seg = if dir == 0 {
            (entry_seg + length).min(SEGMENTS as u8 - 1)
        } else {
            entry_seg.saturating_sub(length)
        };
        Trip { dir, entry_seg, exit_seg }
    }

    /// Direction and segment of a ramp, by weight.
    fn ramp(&mut self, xway: u16) -> (u8, u8) {
        let sums = &self.ramps[usize::from(xway)];
        let drawn = self.random.below(sums[SEGMENTS_PER_EXPRESSWAY - 1]);
        let ramp = sums.partition_point(|&sum| sum <= drawn);
        ((ramp / SEGMENTS) as u8, (ramp % SEGMENTS) as u8)
    }

    /// A random expressway.
    pub(super) fn expressway(&mut self) -> u16 {
        self.random.below(self.ramps.len() as u32) as u16
    }

    /// Rounds to one of the neighbouring integers so that the mean is preserved.
    pub(super) fn whole(&mut self, cars: f64) -> u32 {
        let floor = cars.max(0.0) as u32;
        floor + u32::from(f64::from(self.random.fraction()) < cars - f64::from(floor))
    }

    /// A car has left: perhaps it comes back later.
    pub(super) fn left(&mut self, vid: u32, time_s: u32) {
        if self.random.percent(RETURN_PERCENT) {
            let back_s = time_s + self.random.between(PAUSE_MIN_S, PAUSE_MAX_S);
            self.returns[back_s as usize % PAUSES].push(vid);
        }
    }

    /// The cars that come back in this second, taken out; hand the list back to [`Demand::recycle`].
    pub(super) fn take_returns(&mut self, time_s: u32) -> Vec<u32> {
        std::mem::take(&mut self.returns[time_s as usize % PAUSES])
    }

    /// Keeps the memory of a list from [`Demand::take_returns`] for later seconds.
    pub(super) fn recycle(&mut self, mut list: Vec<u32>, time_s: u32) {
        list.clear();
        self.returns[time_s as usize % PAUSES] = list;
    }
}

/// Running sums of the weights of an expressway's ramps: four times as high in the centre as at the ends, each
/// times a random factor; no ramp where the road ends within the shortest trip.
fn ramp_weights(random: &mut Random) -> [u32; SEGMENTS_PER_EXPRESSWAY] {
    let mut sums = [0; SEGMENTS_PER_EXPRESSWAY];
    let mut sum = 0;
    for dir in 0..2u8 {
        for seg in 0..SEGMENTS as u8 {
            let from_start = if dir == 0 { seg } else { SEGMENTS as u8 - 1 - seg };
            let centred = 1.0 + 3.0 * centrality(seg);
            let factor = 0.3 + 1.4 * random.fraction();
            if usize::from(from_start + TRIP_SEGMENTS_MIN) < SEGMENTS {
                sum += (1000.0 * centred * factor) as u32;
            }
            sums[place(dir, seg)] = sum;
        }
    }
    sums
}

/// 0 at the ends of the road, 1 in its middle.
fn centrality(seg: u8) -> f32 {
    let part = (f32::from(seg) + 0.5) / SEGMENTS as f32;
    4.0 * part * (1.0 - part)
}

fn trip_lengths() -> [u64; SEGMENTS] {
    let mut longer = 1.0;
    std::array::from_fn(|_| {
        longer *= TRIP_GOES_ON;
        ((1.0 - longer) * (1u64 << 32) as f64) as u64
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trips_stay_on_the_road_and_have_the_described_length() {
        let mut random = Random::new(1, 1);
        let road = Road::new(1, &mut random);
        let mut demand = Demand::new(1, random);
        let (mut segments, mut uncut) = (0u64, 0u64);
        for _ in 0..200_000 {
            let trip = demand.trip(&road, 0);
            let length =
                if trip.dir == 0 { trip.exit_seg - trip.entry_seg } else { trip.entry_seg - trip.exit_seg };
            assert!(length >= TRIP_SEGMENTS_MIN && usize::from(trip.exit_seg) < SEGMENTS, "{trip:?}");
            let room = if trip.dir == 0 { SEGMENTS as u8 - 1 - trip.entry_seg } else { trip.entry_seg };
            // Among the trips with room for 60 segments, the share shorter than 28 reveals the mean length.
            if room >= 60 {
                uncut += 1;
                segments += u64::from(length < TRIP_SEGMENTS_MIN + 26);
            }
        }
        let part = segments as f64 / uncut as f64;
        assert!((part - (1.0 - (-1.0f64).exp())).abs() < 0.01, "{part}");
    }
}
