//! One expressway: its cars, statistics, accidents and tolls (specification, sections 3 to 7).

use tidemill_engine::{Cause, SnapshotReader, SnapshotWriter};

use super::accidents::{Accidents, STOPPED_REPORTS, StopLocation};
use super::car_table::{Car, CarFields, CarSlot, CarTable, TRIP_GAP_MAX_S};
use super::segments::{Notice, Segments};
use super::statistics::REPORTS_MAX;
use crate::event::{EXIT_LANE, Report, SEGMENTS};

/// The toll, from its root.
pub fn toll(root: u32) -> u64 {
    2 * u64::from(root) * u64::from(root)
}

/// What a report causes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Effect {
    /// The car enters a segment and is notified.
    pub notice: Option<Notice>,
    /// The toll that is charged for the segment just left; 0: none.
    pub charge: u64,
}

/// The state of one expressway.
#[derive(Debug)]
pub struct Expressway {
    minute: u16,
    segments: Segments,
    accidents: Accidents,
    cars: CarTable,
}

impl Default for Expressway {
    fn default() -> Self {
        Expressway {
            minute: 1,
            segments: Segments::default(),
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
    /// Prefetches the memory of a car and of its segment.
    #[inline]
    pub fn prefetch(&self, vid: u32, dir: u8, seg: u8) {
        self.cars.prefetch(vid);
        self.segments.prefetch(index_of(dir, seg));
    }

    /// Applies a report; reports come in the order of time.
    #[inline]
    pub fn report(&mut self, report: &Report) -> Effect {
        let minute = minute_of(report.time);
        if minute != self.minute {
            self.begin_minute(minute, report.time);
        }
        let (place, before) = self.cars.find_or_insert(report.vid, report.time);
        let before = before.map(Car::fields);
        let on_trip = before.filter(|car| {
            car.lane != EXIT_LANE && report.time - car.time <= TRIP_GAP_MAX_S && car.dir == report.dir
        });
        let (speed_count, speed_sum) = self.count(before, report, minute);
        let same_place = self.stop_or_go(before, on_trip, report);
        self.cars.set(
            place,
            Car::new(CarFields {
                time: report.time,
                lane: report.lane,
                dir: report.dir,
                seg: report.seg,
                pos: report.pos,
                same_place,
                speed_sum,
                speed_count,
            }),
        );
        match on_trip {
            Some(car) if car.seg == report.seg => Effect::default(),
            _ => self.enter(place, on_trip.is_some(), report),
        }
    }

    /// The car enters a segment (sections 4 and 6).
    fn enter(&mut self, place: CarSlot, on_trip: bool, report: &Report) -> Effect {
        let Report { dir, seg, .. } = *report;
        let accident = || self.accidents.nearest_downstream(dir, seg);
        let notice = (report.lane != EXIT_LANE)
            .then(|| self.segments.notice(index_of(dir, seg), self.minute, accident));
        let left = self.cars.replace_toll_root(place, notice.map_or(0, |notice| notice.toll_root));
        Effect { notice, charge: if on_trip { toll(left) } else { 0 } }
    }

    /// The segment's statistics of the current minute (section 3); the car's part of them.
    #[inline]
    fn count(&mut self, before: Option<CarFields>, report: &Report, minute: u16) -> (u8, u16) {
        let statistics = self.segments.current(index_of(report.dir, report.seg), minute);
        let counted = before
            .filter(|car| car.seg == report.seg && car.dir == report.dir && minute_of(car.time) == minute);
        match counted {
            None => {
                statistics.add_car(report.speed);
                (1, report.speed.into())
            }
            Some(car) if car.speed_count < REPORTS_MAX => {
                statistics.add_report(car.speed_count, car.speed_sum, report.speed);
                (car.speed_count + 1, car.speed_sum + u16::from(report.speed))
            }
            Some(car) => (car.speed_count, car.speed_sum),
        }
    }

    /// Whether the car is stopped (section 5), and how many reports have come from its place.
    #[inline]
    fn stop_or_go(&mut self, before: Option<CarFields>, on_trip: Option<CarFields>, report: &Report) -> u8 {
        let same_place = match on_trip {
            Some(car) if car.pos == report.pos && car.lane == report.lane => {
                (car.same_place + 1).min(STOPPED_REPORTS)
            }
            _ => 1,
        };
        if same_place == STOPPED_REPORTS {
            let standing = StopLocation { dir: report.dir, lane: report.lane, pos: report.pos };
            self.accidents.stands(report.vid, standing, report.seg, report.time);
        } else if before.is_some_and(|car| car.same_place == STOPPED_REPORTS) {
            self.accidents.moves(report.vid, report.time);
        }
        same_place
    }

    #[cold]
    fn begin_minute(&mut self, minute: u16, time: u16) {
        self.accidents.next_minute(minute - self.minute, time);
        self.minute = minute;
    }

    /// Cars that are on the road, or were a minute ago.
    pub fn car_count(&self) -> usize {
        self.cars.cars((self.minute - 1) * 60).count()
    }

    /// Bytes of the table of cars.
    pub fn car_bytes(&self) -> usize {
        self.cars.bytes()
    }

    /// Writes the state, with `vid_shift` added to all vehicle ids. Notices are recomputed later.
    pub(super) fn snapshot(&self, writer: &mut SnapshotWriter, vid_shift: u32) {
        writer.u16(self.minute);
        self.segments.snapshot(writer);
        self.accidents.snapshot(writer, vid_shift);
        let now = (self.minute - 1) * 60;
        writer.u32(self.cars.cars(now).count() as u32);
        for (vid, toll_root, car) in self.cars.cars(now) {
            writer.u32(vid + vid_shift);
            writer.u32(toll_root);
            writer.u64(car.to_word());
        }
    }

    pub(super) fn restore(reader: &mut SnapshotReader<'_>) -> Result<Self, Cause> {
        let mut expressway = Expressway { minute: reader.u16()?, ..Expressway::default() };
        expressway.segments = Segments::restore(reader)?;
        expressway.accidents = Accidents::restore(reader)?;
        let cars = reader.u32()?;
        for index in 0..cars {
            let (vid, toll_root) = (reader.u32()?, reader.u32()?);
            if index == 0 {
                expressway.cars = CarTable::with_capacity(cars as usize, vid);
            }
            expressway.cars.insert(vid, toll_root, Car::from_word(reader.u64()?));
        }
        Ok(expressway)
    }
}
