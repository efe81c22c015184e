//! The toll operator: position reports in; toll notifications, accident notifications and charges out.
//!
//! Partitioned by expressway; a partition holds every expressway whose number leaves the same remainder. The operator
//! relies on the properties of valid data in the specification (section 2): reports are ordered by time, and a car
//! leaves an expressway through lane 4 before it reports from another. So a car's previous report on *this* expressway
//! alone decides whether a new trip begins.

pub mod accidents;
pub mod car_table;
pub mod expressway;
pub mod segments;
pub mod statistics;

use tidemill_engine::arrow::array::types::{UInt8Type, UInt16Type, UInt32Type};
use tidemill_engine::{Cause, Operator, Output, Rows, SnapshotReader, SnapshotWriter};

use crate::event::{Report, SEGMENTS};
use expressway::{Expressway, toll};

/// Segments of both directions of an expressway.
pub const SEGMENTS_BOTH_WAYS: usize = 2 * SEGMENTS;

/// The operator's input columns.
pub const COLUMNS: [&str; 8] = ["time", "vid", "speed", "xway", "lane", "dir", "seg", "pos"];
/// Output port of toll notifications.
pub const TOLL_PORT: usize = 0;
/// Output port of accident notifications.
pub const ACCIDENT_PORT: usize = 1;
/// Output port of charges.
pub const CHARGE_PORT: usize = 2;

const SNAPSHOT_VERSION: u8 = 1;
/// How many rows ahead a car's memory is prefetched.
const PREFETCH_ROWS: usize = 12;

/// One logical partition.
#[derive(Debug, Default)]
pub struct Tolls {
    partitions: u32,
    /// Expressway `partition + index * partitions`.
    expressways: Vec<Option<Expressway>>,
}

impl Tolls {
    /// A partition, given the number of partitions.
    pub fn new(partitions: u32) -> Self {
        Tolls { partitions, expressways: Vec::new() }
    }

    /// The expressways that have had reports.
    pub fn expressways(&self) -> impl Iterator<Item = &Expressway> {
        self.expressways.iter().flatten()
    }

    fn index_of(&self, xway: u16) -> usize {
        (u32::from(xway) / self.partitions) as usize
    }

    fn expressway(&mut self, index: usize) -> &mut Expressway {
        if self.expressways.len() <= index {
            self.expressways.resize_with(index + 1, || None);
        }
        self.expressways[index].get_or_insert_default()
    }

    /// Consecutive rows of one expressway.
    fn reports(&mut self, columns: &Columns<'_>, start: usize, end: usize, output: &mut Output) {
        let index = self.index_of(columns.xway[start]);
        let expressway = self.expressway(index);
        let [tolls, accidents, charges] = output.ports() else {
            unreachable!("the operator has three ports")
        };
        let mut tolls = tolls.writer::<(u32, u16, i8, u64)>();
        let mut accidents = accidents.writer::<(u16, u32, u8)>();
        let mut charges = charges.writer::<(u32, u64)>();
        for row in start..end {
            let ahead = row + PREFETCH_ROWS;
            if ahead < end {
                expressway.prefetch(columns.vid[ahead], columns.dir[ahead], columns.seg[ahead]);
            }
            let report = columns.report(row);
            let effect = expressway.report(&report);
            let position = columns.positions[row];
            let (vid, time) = (report.vid, report.time);
            if let Some(notice) = effect.notice {
                tolls.push(position, (vid, time, notice.lav, toll(notice.toll_root)));
                if let Some(seg) = notice.accident {
                    accidents.push(position, (time, vid, seg));
                }
            }
            if effect.charge > 0 {
                charges.push(position, (vid, effect.charge));
            }
        }
    }

    /// The same state as if all vehicle ids were larger by `vid_shift`, as snapshot bytes.
    pub fn snapshot_shifted(&self, vid_shift: u32) -> Vec<u8> {
        let mut writer = SnapshotWriter::default();
        self.write(&mut writer, vid_shift);
        writer.finish()
    }

    fn write(&self, writer: &mut SnapshotWriter, vid_shift: u32) {
        writer.u8(SNAPSHOT_VERSION);
        writer.u32(self.expressways.len() as u32);
        for expressway in &self.expressways {
            writer.u8(expressway.is_some().into());
            if let Some(expressway) = expressway {
                expressway.snapshot(writer, vid_shift);
            }
        }
    }
}

struct Columns<'a> {
    positions: &'a [u32],
    time: &'a [u16],
    vid: &'a [u32],
    speed: &'a [u8],
    xway: &'a [u16],
    lane: &'a [u8],
    dir: &'a [u8],
    seg: &'a [u8],
    pos: &'a [u32],
}

impl<'a> Columns<'a> {
    fn new(rows: Rows<'a>) -> Self {
        Columns {
            positions: rows.positions(),
            time: rows.column::<UInt16Type>(0),
            vid: rows.column::<UInt32Type>(1),
            speed: rows.column::<UInt8Type>(2),
            xway: rows.column::<UInt16Type>(3),
            lane: rows.column::<UInt8Type>(4),
            dir: rows.column::<UInt8Type>(5),
            seg: rows.column::<UInt8Type>(6),
            pos: rows.column::<UInt32Type>(7),
        }
    }

    #[inline]
    fn report(&self, row: usize) -> Report {
        Report {
            time: self.time[row],
            vid: self.vid[row],
            speed: self.speed[row],
            xway: self.xway[row],
            lane: self.lane[row],
            dir: self.dir[row],
            seg: self.seg[row],
            pos: self.pos[row],
        }
    }
}

impl Operator for Tolls {
    fn rows(&mut self, _input: usize, rows: Rows<'_>, output: &mut Output) -> Result<(), Cause> {
        let columns = Columns::new(rows);
        let mut start = 0;
        for run in columns.xway.chunk_by(|a, b| a == b) {
            self.reports(&columns, start, start + run.len(), output);
            start += run.len();
        }
        Ok(())
    }

    fn prefetch(&self, _input: usize, rows: Rows<'_>) {
        let columns = Columns::new(rows);
        for row in 0..rows.len().min(PREFETCH_ROWS) {
            if let Some(Some(expressway)) = self.expressways.get(self.index_of(columns.xway[row])) {
                expressway.prefetch(columns.vid[row], columns.dir[row], columns.seg[row]);
            }
        }
    }

    fn snapshot(&self, writer: &mut SnapshotWriter) {
        self.write(writer, 0);
    }

    fn restore(&mut self, reader: &mut SnapshotReader<'_>) -> Result<(), Cause> {
        reader.version(SNAPSHOT_VERSION)?;
        for index in 0..reader.u32()? {
            if reader.u8()? == 1 {
                *self.expressway(index as usize) = Expressway::restore(reader)?;
            }
        }
        Ok(())
    }
}
