//! One expressway: its cars, statistics, accidents and tolls (specification, sections 3 to 7).

use tidemill_engine::{Cause, SnapshotReader, SnapshotWriter};

use super::SEGMENTS_BOTH_WAYS;
use super::accidents::{Accidents, STOPPED_REPORTS, Standing};
use super::car_table::{Car, CarTable, Place, TRIP_GAP_MAX_S};
use super::statistics::{self, MINUTES_BACK, Minutes, SegmentMinute};
use crate::event::{EXIT_LANE, Report, SEGMENTS};

/// The most cars whose toll is computed; more are taken for this many.
const CARS_FOR_TOLL_MAX: u32 = (1 << 20) + 49;
/// No toll up to this many cars.
const FREE_CARS: u32 = 50;
/// No toll from this latest average velocity on, in miles per hour.
const FREE_VELOCITY: i8 = 40;

/// What a car that enters a segment during a minute is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Notice {
    /// Latest average velocity, -1 if there is none.
    pub lav: i8,
    /// Half the toll's square root.
    toll_root: u32,
    /// The nearest segment downstream with an accident.
    pub accident: Option<u8>,
}

impl Notice {
    /// The toll.
    pub fn toll(self) -> u64 {
        toll(self.toll_root)
    }
}

fn toll(root: u32) -> u64 {
    2 * u64::from(root) * u64::from(root)
}

/// What a report causes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Effect {
    /// The car enters a segment and is told.
    pub notice: Option<Notice>,
    /// The toll that is charged for the segment just left; 0: none.
    pub charge: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Segment {
    current: SegmentMinute,
    /// The notice of this minute, once it was asked for: computing it then spreads the work of a minute's
    /// beginning.
    notice: Option<Notice>,
}

/// The state of one expressway.
#[derive(Debug)]
pub struct Expressway {
    minute: u16,
    segments: Box<[Segment; SEGMENTS_BOTH_WAYS]>,
    /// Minute `m` is in slot `m % MINUTES_BACK`.
    past: Box<Minutes>,
    accidents: Accidents,
    cars: CarTable,
}

impl Default for Expressway {
    fn default() -> Self {
        Expressway {
            minute: 1,
            segments: Box::new([Segment::default(); SEGMENTS_BOTH_WAYS]),
            past: Box::new([[SegmentMinute::default(); SEGMENTS_BOTH_WAYS]; MINUTES_BACK]),
            accidents: Accidents::default(),
            cars: CarTable::default(),
        }
    }
}

/// Minutes are numbered from 1.
fn minute_of(time: u16) -> u16 {
    time / 60 + 1
}

fn index_of(dir: u8, seg: u8) -> usize {
    dir as usize * SEGMENTS + seg as usize
}

impl Expressway {
    /// Asks for the memory of a car.
    #[inline]
    pub fn prefetch(&self, vid: u32) {
        self.cars.prefetch(vid);
    }

    /// Applies a report; reports come in the order of time.
    #[inline]
    pub fn report(&mut self, report: &Report) -> Effect {
        let minute = minute_of(report.time);
        if minute != self.minute {
            self.begin_minute(minute, report.time);
        }
        let (place, before) = match self.cars.find_or_insert(report.vid, report.time) {
            Place::Found(place) => (place, Some(self.cars.get(place))),
            Place::New(place) => (place, None),
        };
        let on_trip = before.filter(|car| {
            car.lane() != EXIT_LANE && report.time - car.time() <= TRIP_GAP_MAX_S && car.dir() == report.dir
        });
        let mut car = before.unwrap_or(Car::new(report.vid));
        self.count(&mut car, before, report, minute);
        self.stop_or_go(&mut car, before, on_trip, report);

        let mut effect = Effect::default();
        if on_trip.is_none_or(|car| car.seg() != report.seg) {
            effect.charge = on_trip.map_or(0, |car| toll(car.toll_root()));
            effect.notice = (report.lane != EXIT_LANE).then(|| self.notice(report.dir, report.seg));
            car.set_toll_root(effect.notice.map_or(0, |notice| notice.toll_root));
        }
        car.set_time(report.time);
        car.set_lane(report.lane);
        car.set_dir(report.dir);
        car.set_seg(report.seg);
        car.set_pos(report.pos);
        self.cars.set(place, car);
        effect
    }

    /// The segment's statistics of the current minute (section 3).
    fn count(&mut self, car: &mut Car, before: Option<Car>, report: &Report, minute: u16) {
        let statistics = &mut self.segments[index_of(report.dir, report.seg)].current;
        let counted = before.filter(|car| {
            minute_of(car.time()) == minute && car.seg() == report.seg && car.dir() == report.dir
        });
        match counted {
            None => {
                statistics.add_car(report.speed);
                car.set_speed_sum(report.speed.into());
                car.set_speed_count(1);
            }
            Some(before) if before.speed_count() < statistics::REPORTS_MAX => {
                statistics.add_report(before.speed_count(), before.speed_sum(), report.speed);
                car.set_speed_sum(before.speed_sum() + u16::from(report.speed));
                car.set_speed_count(before.speed_count() + 1);
            }
            Some(_) => {}
        }
    }

    /// Whether the car is stopped (section 5).
    fn stop_or_go(&mut self, car: &mut Car, before: Option<Car>, on_trip: Option<Car>, report: &Report) {
        let stays = on_trip.is_some_and(|car| car.pos() == report.pos && car.lane() == report.lane);
        let was_stopped = before.is_some_and(|car| car.same_place() == STOPPED_REPORTS);
        let same_place = match on_trip {
            Some(before) if stays => (before.same_place() + 1).min(STOPPED_REPORTS),
            _ => 1,
        };
        car.set_same_place(same_place);
        if same_place == STOPPED_REPORTS {
            let standing = Standing { dir: report.dir, lane: report.lane, pos: report.pos };
            self.accidents.stands(report.vid, standing, report.seg, report.time);
        } else if was_stopped {
            self.accidents.moves(report.vid, report.time);
        }
    }

    /// What a car entering the segment in this minute is told (sections 6 and 7).
    fn notice(&mut self, dir: u8, seg: u8) -> Notice {
        let index = index_of(dir, seg);
        match self.segments[index].notice {
            Some(notice) => notice,
            None => self.compute_notice(dir, seg, index),
        }
    }

    fn compute_notice(&mut self, dir: u8, seg: u8, index: usize) -> Notice {
        let lav = statistics::latest_average_velocity(self.past.iter().map(|minute| minute[index]));
        let cars = self.past[(self.minute - 1) as usize % MINUTES_BACK][index].cars().min(CARS_FOR_TOLL_MAX);
        let accident = self.accidents.nearest_downstream(dir, seg);
        let is_free = lav >= FREE_VELOCITY || cars <= FREE_CARS || accident.is_some();
        let toll_root = if is_free { 0 } else { cars - FREE_CARS };
        let notice = Notice { lav, toll_root, accident };
        self.segments[index].notice = Some(notice);
        notice
    }

    fn begin_minute(&mut self, minute: u16, time: u16) {
        let minutes = minute - self.minute;
        self.accidents.next_minute(minutes, time);
        let slot = self.minute as usize % MINUTES_BACK;
        for (past, segment) in self.past[slot].iter_mut().zip(self.segments.iter_mut()) {
            *past = segment.current;
            *segment = Segment::default();
        }
        for skipped in (self.minute + 1..minute).rev().take(MINUTES_BACK) {
            self.past[skipped as usize % MINUTES_BACK] = [SegmentMinute::default(); SEGMENTS_BOTH_WAYS];
        }
        self.minute = minute;
    }

    /// Bytes of the table of cars.
    pub fn car_bytes(&self) -> usize {
        self.cars.bytes()
    }

    /// Writes the state, with `vid_shift` added to all vehicle ids. Notices are computed again.
    pub(super) fn snapshot(&self, writer: &mut SnapshotWriter, vid_shift: u32) {
        writer.u16(self.minute);
        self.segments.iter().for_each(|segment| writer.u64(segment.current.to_word()));
        self.past.as_flattened().iter().for_each(|minute| writer.u64(minute.to_word()));
        self.accidents.snapshot(writer, vid_shift);
        let now = (self.minute - 1) * 60;
        let cars: Vec<Car> = self.cars.cars(now).collect();
        writer.u32(cars.len() as u32);
        for mut car in cars {
            car.set_vid(car.vid() + vid_shift);
            car.to_words().iter().for_each(|word| writer.u64(*word));
        }
    }

    pub(super) fn restore(reader: &mut SnapshotReader<'_>) -> Result<Self, Cause> {
        let mut expressway = Expressway { minute: reader.u16()?, ..Expressway::default() };
        for segment in expressway.segments.iter_mut() {
            segment.current = SegmentMinute::from_word(reader.u64()?);
        }
        for minute in expressway.past.as_flattened_mut() {
            *minute = SegmentMinute::from_word(reader.u64()?);
        }
        expressway.accidents = Accidents::restore(reader)?;
        let cars = reader.u32()?;
        expressway.cars = CarTable::with_capacity(cars as usize);
        for _ in 0..cars {
            expressway.cars.insert(Car::from_words([reader.u64()?, reader.u64()?]));
        }
        Ok(expressway)
    }
}
