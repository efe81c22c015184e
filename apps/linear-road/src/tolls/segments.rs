//! The segments of one expressway: statistics by minute, and the notices for cars that enter.
//!
//! A segment advances to a new minute when it is first touched in it, and computes its notice when the first car
//! enters. So the work at the beginning of a minute is spread over its first seconds. What a segment needs for it is in the
//! cache line that every report prefetches: with the minutes before elsewhere, the first report of each minute waited for
//! memory.

use tidemill_engine::{Cause, SnapshotReader, SnapshotWriter, prefetch};

use super::SEGMENTS_BOTH_WAYS;
use super::statistics::{self, MINUTES_BACK, SegmentMinute};

/// No toll with at most this many cars.
const FREE_CARS: u32 = 50;
/// No toll at or above this latest average velocity, in miles per hour.
const FREE_VELOCITY: i8 = 40;
/// The notice of the minute has not been computed yet.
const UNKNOWN_LAV: i8 = i8::MIN;
const NO_ACCIDENT: u8 = u8::MAX;

/// The notice for a car that enters a segment during a minute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Notice {
    /// Latest average velocity, -1 if there is none.
    pub lav: i8,
    /// The toll is twice the square of this.
    pub toll_root: u32,
    /// The nearest segment downstream with an accident.
    pub accident: Option<u8>,
}

#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
struct Segment {
    current: SegmentMinute,
    toll_root: u32,
    /// The minute to which `current` and the notice belong.
    minute: u16,
    lav: i8,
    accident: u8,
    /// The previous complete minutes; minute `m` is in slot `m % MINUTES_BACK`.
    past: [SegmentMinute; MINUTES_BACK],
}

const NEW_SEGMENT: Segment = Segment {
    current: SegmentMinute::NONE,
    toll_root: 0,
    minute: 1,
    lav: UNKNOWN_LAV,
    accident: NO_ACCIDENT,
    past: [SegmentMinute::NONE; MINUTES_BACK],
};

/// All segments of an expressway, both directions.
#[derive(Debug)]
pub struct Segments {
    segments: Box<[Segment; SEGMENTS_BOTH_WAYS]>,
}

impl Default for Segments {
    fn default() -> Self {
        Segments { segments: Box::new([NEW_SEGMENT; SEGMENTS_BOTH_WAYS]) }
    }
}

impl Segments {
    /// Prefetches the memory of a segment.
    #[inline]
    pub fn prefetch(&self, index: usize) {
        prefetch::read(&self.segments[index]);
    }

    /// The statistics of a segment in the current minute.
    #[inline]
    pub fn current(&mut self, index: usize, minute: u16) -> &mut SegmentMinute {
        self.move_on(index, minute);
        &mut self.segments[index].current
    }

    /// The notice for a car that enters the segment in this minute (sections 6 and 7); `accident` finds the nearest
    /// segment downstream with an accident in the previous minute.
    #[inline]
    pub fn notice(&mut self, index: usize, minute: u16, accident: impl FnOnce() -> Option<u8>) -> Notice {
        self.move_on(index, minute);
        if self.segments[index].lav == UNKNOWN_LAV {
            self.compute_notice(index, accident());
        }
        let Segment { lav, toll_root, accident, .. } = self.segments[index];
        Notice { lav, toll_root, accident: (accident != NO_ACCIDENT).then_some(accident) }
    }

    #[inline]
    fn move_on(&mut self, index: usize, minute: u16) {
        if self.segments[index].minute != minute {
            self.begin_minute(index, minute);
        }
    }

    #[cold]
    fn begin_minute(&mut self, index: usize, minute: u16) {
        let segment = &mut self.segments[index];
        let past = &mut segment.past;
        past[segment.minute as usize % MINUTES_BACK] = segment.current;
        for skipped in (segment.minute + 1..minute).rev().take(MINUTES_BACK) {
            past[skipped as usize % MINUTES_BACK] = SegmentMinute::NONE;
        }
        *segment = Segment { minute, past: segment.past, ..NEW_SEGMENT };
    }

    #[cold]
    fn compute_notice(&mut self, index: usize, accident: Option<u8>) {
        let segment = &mut self.segments[index];
        let past = &segment.past;
        segment.lav = statistics::latest_average_velocity(past.iter().copied());
        segment.accident = accident.unwrap_or(NO_ACCIDENT);
        let cars = past[(segment.minute - 1) as usize % MINUTES_BACK].cars();
        let is_free = segment.lav >= FREE_VELOCITY || cars <= FREE_CARS || accident.is_some();
        segment.toll_root = if is_free { 0 } else { cars - FREE_CARS };
    }

    /// Writes the statistics. Notices are recomputed later.
    pub(super) fn snapshot(&self, writer: &mut SnapshotWriter) {
        for segment in self.segments.iter() {
            writer.u16(segment.minute);
            writer.u64(segment.current.to_word());
            segment.past.iter().for_each(|minute| writer.u64(minute.to_word()));
        }
    }

    pub(super) fn restore(reader: &mut SnapshotReader<'_>) -> Result<Self, Cause> {
        let mut segments = Segments::default();
        for segment in segments.segments.iter_mut() {
            segment.minute = reader.u16()?;
            segment.current = SegmentMinute::from_word(reader.u64()?);
            for minute in &mut segment.past {
                *minute = SegmentMinute::from_word(reader.u64()?);
            }
        }
        Ok(segments)
    }
}
