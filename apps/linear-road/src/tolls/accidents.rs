//! Stopped cars and accidents of one expressway (specification, section 5).

use tidemill_engine::{Cause, SnapshotReader, SnapshotWriter};

use crate::event::SEGMENTS;

/// From this report in a row from one place on, a car is stopped.
pub const STOPPED_REPORTS: u8 = 4;
/// A car is stopped only as long as its last report is younger than this, in seconds.
const REPORT_INTERVAL_S: u16 = 30;

/// The exact place where a car stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StopLocation {
    /// Direction.
    pub dir: u8,
    /// Lane.
    pub lane: u8,
    /// Feet from the west end.
    pub pos: u32,
}

#[derive(Clone, Copy, Debug)]
struct StoppedCar {
    vid: u32,
    standing: StopLocation,
    last_report: u16,
}

#[derive(Clone, Copy, Debug)]
struct StoppedReport {
    vid: u32,
    standing: StopLocation,
    seg: u8,
}

/// The stopped cars, and the segments with accidents by minute. There are only ever few cars in it.
#[derive(Debug, Default)]
pub struct Accidents {
    stopped: Vec<StoppedCar>,
    /// The second that `reports` belong to. They are examined only when it is over: reports of one second count as
    /// simultaneous.
    second: u16,
    reports: Vec<StoppedReport>,
    /// For each direction, a bit per segment: accidents found in the current and in the previous minute.
    current: [u128; 2],
    previous: [u128; 2],
}

impl Accidents {
    /// A stopped car reports again from its place, or for the fourth time.
    pub fn stands(&mut self, vid: u32, standing: StopLocation, seg: u8, time: u16) {
        self.finish_second(time);
        match self.stopped.iter_mut().find(|car| car.vid == vid) {
            Some(car) => *car = StoppedCar { vid, standing, last_report: time },
            None => self.stopped.push(StoppedCar { vid, standing, last_report: time }),
        }
        self.reports.push(StoppedReport { vid, standing, seg });
    }

    /// A stopped car reports from elsewhere.
    pub fn moves(&mut self, vid: u32, time: u16) {
        self.finish_second(time);
        self.stopped.retain(|car| car.vid != vid);
    }

    /// The current minute is over; the minute that is `minutes` later begins at `time`.
    pub fn next_minute(&mut self, minutes: u16, time: u16) {
        self.finish_second(time);
        let ended = std::mem::take(&mut self.current);
        self.previous = if minutes == 1 { ended } else { Default::default() };
    }

    /// The nearest segment with an accident in the previous minute, among `seg` and the four downstream.
    pub fn nearest_downstream(&self, dir: u8, seg: u8) -> Option<u8> {
        let accidents = self.previous[dir as usize];
        if accidents == 0 {
            return None;
        }
        let has_accident = |at: &i16| (0..SEGMENTS as i16).contains(at) && accidents >> *at & 1 == 1;
        let step = if dir == 0 { 1 } else { -1 };
        (0..5).map(|ahead| i16::from(seg) + step * ahead).find(has_accident).map(|at| at as u8)
    }

    /// All reports of earlier seconds are applied: now checks which of them found an accident.
    fn finish_second(&mut self, time: u16) {
        if time == self.second {
            return;
        }
        let second = self.second;
        for report in self.reports.drain(..) {
            let other_stands_there = self.stopped.iter().any(|car| {
                car.vid != report.vid
                    && car.standing == report.standing
                    && car.last_report + REPORT_INTERVAL_S > second
            });
            if other_stands_there {
                self.current[report.standing.dir as usize] |= 1 << report.seg;
            }
        }
        self.stopped.retain(|car| car.last_report + REPORT_INTERVAL_S > second);
        self.second = time;
    }

    pub(super) fn snapshot(&self, writer: &mut SnapshotWriter, vid_shift: u32) {
        writer.u16(self.second);
        writer.u32(self.stopped.len() as u32);
        for car in &self.stopped {
            writer.u32(car.vid + vid_shift);
            write_standing(writer, car.standing);
            writer.u16(car.last_report);
        }
        writer.u32(self.reports.len() as u32);
        for report in &self.reports {
            writer.u32(report.vid + vid_shift);
            write_standing(writer, report.standing);
            writer.u8(report.seg);
        }
        for accidents in [self.current, self.previous].as_flattened() {
            writer.u64(*accidents as u64);
            writer.u64((*accidents >> 64) as u64);
        }
    }

    pub(super) fn restore(reader: &mut SnapshotReader<'_>) -> Result<Self, Cause> {
        let mut accidents = Accidents { second: reader.u16()?, ..Accidents::default() };
        for _ in 0..reader.u32()? {
            let (vid, standing) = (reader.u32()?, read_standing(reader)?);
            accidents.stopped.push(StoppedCar { vid, standing, last_report: reader.u16()? });
        }
        for _ in 0..reader.u32()? {
            let (vid, standing) = (reader.u32()?, read_standing(reader)?);
            accidents.reports.push(StoppedReport { vid, standing, seg: reader.u8()? });
        }
        for side in accidents.current.iter_mut().chain(&mut accidents.previous) {
            *side = u128::from(reader.u64()?) | u128::from(reader.u64()?) << 64;
        }
        Ok(accidents)
    }
}

fn write_standing(writer: &mut SnapshotWriter, standing: StopLocation) {
    writer.u8(standing.dir);
    writer.u8(standing.lane);
    writer.u32(standing.pos);
}

fn read_standing(reader: &mut SnapshotReader<'_>) -> Result<StopLocation, Cause> {
    Ok(StopLocation { dir: reader.u8()?, lane: reader.u8()?, pos: reader.u32()? })
}
