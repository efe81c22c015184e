//! Moves a car from one report to the next.

use super::incidents::{Halt, Incidents, Passage};
use super::random::Random;
use super::road::{ACCIDENT_ZONE, Road};
use crate::event::{ENTRY_LANE, EXIT_LANE, Report, SEGMENT_FEET};

/// Feet that a car of 1 mph covers between two reports: 30 s of 5280 ft per 3600 s.
const FEET_PER_MPH: f32 = 44.0;
/// Bounds of a mean speed, so that a car neither skips a segment nor stays in one forever.
const MEAN_SPEED_MPH: (f32, f32) = (4.0, 90.0);
/// Speeds on an entry ramp, first and number of values.
const ENTRY_SPEEDS_MPH: (u32, u32) = (10, 30);
/// Speeds on an exit ramp.
const EXIT_SPEEDS_MPH: (u32, u32) = (8, 22);
/// The first report of a trip comes from the first 15 % of the segment.
const RAMP_FEET: u32 = SEGMENT_FEET * 15 / 100;
/// The number of cars in a segment from which on drivers avoid it.
const FULL_SEGMENT_CARS: u32 = 400;
/// No standstill.
const DRIVING: u32 = u32::MAX;

/// A car on the road. It lies in the bucket of the second (modulo 30) in which it reports.
#[derive(Clone, Copy, Debug)]
pub(super) struct Car {
    pub(super) vid: u32,
    pos: u32,
    /// Factor of the mean speed.
    driver: f32,
    /// What keeps the car standing, or [`DRIVING`].
    standstill: u32,
    pub(super) xway: u16,
    pub(super) seg: u8,
    lane: u8,
    pub(super) dir: u8,
    exit_seg: u8,
}

/// The random bits of one report, cut up: one number per report is enough.
#[derive(Clone, Copy, Debug)]
pub(super) struct RandomBits(pub(super) u64);

impl RandomBits {
    /// True for one in a hundred (bits 0 to 19): the report carries a query.
    #[inline]
    pub(super) fn asks(self) -> bool {
        (self.0 & 0xf_ffff) < (1 << 20) / 100
    }

    /// A number in `0..limit` (bits 20 to 35).
    #[inline]
    fn below(self, limit: u32) -> u32 {
        (((self.0 >> 20) as u32 & 0xffff) * limit) >> 16
    }

    /// A deviation of -5.0..5.0 mph (bits 20 to 35).
    #[inline]
    fn deviation_mph(self) -> f32 {
        ((self.0 >> 20) as u32 & 0xffff) as f32 * (10.0 / 65536.0) - 5.0
    }

    /// A travel lane (bits 36 to 43).
    #[inline]
    fn travel_lane(self) -> u8 {
        1 + ((((self.0 >> 36) & 0xff) * 3) >> 8) as u8
    }

    /// Whether to choose a new lane, one time in five (bits 44 to 51); a third of these change nothing.
    #[inline]
    fn chooses_lane(self) -> bool {
        (self.0 >> 44) & 0xff < 51
    }

    /// True `percent` times of a hundred (bits 52 to 62).
    #[inline]
    fn percent(self, percent: u64) -> bool {
        ((self.0 >> 52) & 0x7ff) * 100 < percent << 11
    }

    /// True every other time (bit 63).
    #[inline]
    fn coin(self) -> bool {
        self.0 >> 63 != 0
    }
}

impl Car {
    /// A car on the entry ramp of a segment.
    pub(super) fn enter(vid: u32, xway: u16, dir: u8, seg: u8, exit_seg: u8, random: &mut Random) -> Self {
        let feet = random.below(RAMP_FEET);
        let start = u32::from(seg) * SEGMENT_FEET;
        let pos = if dir == 0 { start + feet } else { start + SEGMENT_FEET - 1 - feet };
        let driver = 0.88 + 0.24 * random.fraction();
        Car { vid, pos, driver, standstill: DRIVING, xway, seg, lane: ENTRY_LANE, dir, exit_seg }
    }

    /// The speed of the first report of a trip.
    pub(super) fn entry_speed_mph(bits: RandomBits) -> u8 {
        (ENTRY_SPEEDS_MPH.0 + bits.below(ENTRY_SPEEDS_MPH.1)) as u8
    }

    /// Drives for 30 s; returns the speed to report, mph. The car has left the road if it [`is on an exit
    /// ramp`](Car::exits) then.
    #[inline]
    pub(super) fn advance(
        &mut self,
        time_s: u32,
        bits: RandomBits,
        road: &mut Road,
        incidents: &mut Incidents,
    ) -> u8 {
        if self.standstill != DRIVING {
            if incidents.stands(self.standstill, time_s) {
                return 0;
            }
            self.standstill = DRIVING;
        }
        if self.lane == ENTRY_LANE && bits.percent(15) && self.feet_left() > ramp_feet_max() {
            let speed_mph = ENTRY_SPEEDS_MPH.0 + bits.below(ENTRY_SPEEDS_MPH.1);
            self.pos = self.ahead(speed_mph * FEET_PER_MPH as u32);
            return speed_mph as u8;
        }
        if self.seg == self.exit_seg {
            return self.exit_later(bits);
        }
        self.drive(time_s, bits, road, incidents)
    }

    /// Whether the car's last report is from an exit ramp.
    #[inline]
    pub(super) fn exits(&self) -> bool {
        self.lane == EXIT_LANE
    }

    /// The car's report.
    #[inline]
    pub(super) fn report(&self, time_s: u32, speed_mph: u8) -> Report {
        Report {
            time: time_s as u16,
            vid: self.vid,
            speed: speed_mph,
            xway: self.xway,
            lane: self.lane,
            dir: self.dir,
            seg: self.seg,
            pos: self.pos,
        }
    }

    /// The normal case: driving in a travel lane, with whatever happens on the way.
    #[inline]
    fn drive(&mut self, time_s: u32, bits: RandomBits, road: &mut Road, incidents: &mut Incidents) -> u8 {
        let segment = road.segment(self.xway, self.dir, self.seg);
        let mean_mph = (segment.speed_mph() * self.driver).clamp(MEAN_SPEED_MPH.0, MEAN_SPEED_MPH.1);
        let (pos_from, seg_from) = (self.pos, self.seg);
        self.pos = self.ahead((mean_mph * FEET_PER_MPH) as u32);
        self.seg = (self.pos / SEGMENT_FEET) as u8;
        if self.lane == ENTRY_LANE || bits.chooses_lane() {
            self.lane = bits.travel_lane();
        }
        let (conditions, cars) = {
            let segment = road.segment(self.xway, self.dir, self.seg);
            (segment.conditions, segment.cars)
        };
        let mut halt = None;
        if conditions != 0 {
            let passage =
                Passage { xway: self.xway, dir: self.dir, lane: self.lane, pos_from, pos_to: self.pos };
            halt = incidents.stop(&passage, conditions, time_s, road);
        }
        if let Some(Halt { lane, pos, standstill }) = halt {
            (self.lane, self.pos, self.standstill) = (lane, pos, standstill);
            self.seg = (pos / SEGMENT_FEET) as u8;
        }
        if self.seg != seg_from {
            road.cross(self.xway, self.dir, seg_from, self.seg);
        }
        if halt.is_some() {
            return 0;
        }
        if self.seg != seg_from && self.wants_out(conditions, cars, bits) {
            self.exit_seg = self.seg;
        }
        // Half of the cars take the ramp before they report from a travel lane of its segment.
        if self.seg == self.exit_seg && bits.coin() {
            self.lane = EXIT_LANE;
            return exit_speed_mph(bits) as u8;
        }
        (mean_mph + bits.deviation_mph() + 0.5).max(1.0) as u8
    }

    /// Whether the driver has had enough on entering this segment.
    #[inline]
    fn wants_out(&self, conditions: u8, cars: u32, bits: RandomBits) -> bool {
        (cars > FULL_SEGMENT_CARS && bits.percent(20)) || (conditions & ACCIDENT_ZONE != 0 && bits.percent(8))
    }

    /// From a travel lane of the exit's segment to its ramp.
    ///
    /// The car entered the segment with its last movement, at most at 90 mph, and has not moved since: at no more than
    /// 29 mph in this one it does not reach the end of the segment.
    fn exit_later(&mut self, bits: RandomBits) -> u8 {
        let speed_mph = exit_speed_mph(bits);
        self.pos = self.ahead(speed_mph * FEET_PER_MPH as u32);
        self.lane = EXIT_LANE;
        debug_assert_eq!(u32::from(self.seg), self.pos / SEGMENT_FEET);
        speed_mph as u8
    }

    /// Feet to the end of the segment.
    #[inline]
    fn feet_left(&self) -> u32 {
        let start = u32::from(self.seg) * SEGMENT_FEET;
        if self.dir == 0 { start + SEGMENT_FEET - 1 - self.pos } else { self.pos - start }
    }

    /// The position `feet` further along.
    #[inline]
    fn ahead(&self, feet: u32) -> u32 {
        if self.dir == 0 { self.pos + feet } else { self.pos - feet }
    }
}

/// The longest distance on an entry ramp between two reports.
fn ramp_feet_max() -> u32 {
    (ENTRY_SPEEDS_MPH.0 + ENTRY_SPEEDS_MPH.1) * FEET_PER_MPH as u32
}

fn exit_speed_mph(bits: RandomBits) -> u32 {
    EXIT_SPEEDS_MPH.0 + bits.below(EXIT_SPEEDS_MPH.1)
}
