//! The events of the benchmark's one input stream (specification, sections 1 and 2).
//!
//! Every field has the narrowest unsigned type that holds its range, so that a position report takes 16 bytes. `VID` is
//! limited to [`VID_MAX`], `XWay` to [`XWAY_MAX`]; a line with larger values is a bad line.

/// Feet per segment, and so the width of a mile in positions.
pub const SEGMENT_FEET: u32 = 5280;
/// Segments per direction of an expressway.
pub const SEGMENTS: usize = 100;
/// The lane of the entry ramp.
pub const ENTRY_LANE: u8 = 0;
/// The lane of the exit ramp.
pub const EXIT_LANE: u8 = 4;
/// The largest position of a car, in feet from the west end.
pub const POSITION_MAX: u32 = SEGMENT_FEET * SEGMENTS as u32 - 1;
/// The largest second of a run.
pub const TIME_MAX_S: u16 = 10_799;
/// The largest vehicle id; the next one marks an empty slot in the operators' tables.
pub const VID_MAX: u32 = u32::MAX - 1;
/// The largest expressway number.
pub const XWAY_MAX: u16 = u16::MAX - 1;

/// A car's position report (type 0).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Report {
    /// Second since the start of the run.
    pub time: u16,
    /// Vehicle id.
    pub vid: u32,
    /// Speed in miles per hour, 0 to 100.
    pub speed: u8,
    /// Expressway.
    pub xway: u16,
    /// Lane: 0 entry ramp, 1 to 3 travel, 4 exit ramp.
    pub lane: u8,
    /// Direction: 0 (positions grow) or 1 (positions fall).
    pub dir: u8,
    /// Segment, 0 to 99.
    pub seg: u8,
    /// Feet from the west end.
    pub pos: u32,
}

/// A request for a car's account balance (type 2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BalanceQuery {
    /// Second since the start of the run.
    pub time: u16,
    /// Vehicle id.
    pub vid: u32,
    /// Query id.
    pub qid: u64,
}

/// A request for what a car paid on one expressway on one day of the last ten weeks (type 3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExpenditureQuery {
    /// Second since the start of the run.
    pub time: u16,
    /// Vehicle id.
    pub vid: u32,
    /// Expressway.
    pub xway: u16,
    /// Query id.
    pub qid: u64,
    /// How many days ago: 1 is yesterday, 69 the oldest.
    pub day: u8,
}

/// A request for a predicted travel time (type 4): read, counted and ignored, as in all known implementations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TravelTimeQuery {
    /// Second since the start of the run.
    pub time: u16,
    /// Vehicle id.
    pub vid: u32,
    /// Expressway.
    pub xway: u16,
    /// Query id.
    pub qid: u64,
    /// First segment of the trip.
    pub seg_from: u8,
    /// Last segment of the trip.
    pub seg_to: u8,
    /// Day of the week, 1 to 7.
    pub day_of_week: u8,
    /// Minute of the day, 1 to 1440.
    pub minute_of_day: u16,
}

/// One line of the input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// Type 0.
    Report(Report),
    /// Type 2.
    Balance(BalanceQuery),
    /// Type 3.
    Expenditure(ExpenditureQuery),
    /// Type 4.
    TravelTime(TravelTimeQuery),
}

impl Event {
    /// The event's second since the start of the run.
    pub fn time(&self) -> u16 {
        match self {
            Event::Report(event) => event.time,
            Event::Balance(event) => event.time,
            Event::Expenditure(event) => event.time,
            Event::TravelTime(event) => event.time,
        }
    }
}

/// One line of the history, `VID,Day,XWay,Toll`: what a car paid on an expressway on one day.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct HistoryRow {
    /// Vehicle id.
    pub vid: u32,
    /// How many days ago, 1 to 69.
    pub day: u8,
    /// Expressway.
    pub xway: u16,
    /// The amount paid; 10 to 99 in the benchmark's own data.
    pub toll: u32,
}
