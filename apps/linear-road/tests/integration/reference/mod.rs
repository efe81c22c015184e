//! A slow, obvious Linear Road: what the specification says, over the whole input at once.
//!
//! The tests hold the application against this text, so it takes no short cut: every rule is one short
//! function that names its section of the specification, numbers are exact, and nothing is remembered from one
//! report to the next. It may be read beside the specification, section by section: [`statistics`] is 3,
//! [`trips`] 4, [`accidents`] 5, [`tolls`] 6, [`notices`] 7, [`queries`] 8.

// Each test program compiles this module for itself and uses its own part of it.
#![allow(dead_code)]

pub mod accidents;
pub mod notices;
pub mod queries;
pub mod ratio;
pub mod statistics;
pub mod tolls;
pub mod trips;

use std::collections::BTreeMap;

use tidemill_linear_road::event::{Event, HistoryRow, Report, SEGMENTS};

use accidents::{Accident, Accidents};
use notices::AccidentNotice;
use queries::{BalanceAnswer, ExpenditureAnswer};
use statistics::Statistics;
use tolls::{Charge, Toll};
use trips::Entry;

/// A second since the start of the run; signed, because a `ResultTime` may lie before it.
pub type Second = i64;
/// Minute number (section 3): seconds 0 to 59 are minute 1.
pub type Minute = i64;

/// A segment (section 1): always the triple of expressway, direction and number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Segment {
    pub xway: u16,
    pub dir: u8,
    pub seg: u8,
}

impl Segment {
    /// The segment that a report was sent from.
    pub fn of(report: &Report) -> Segment {
        Segment { xway: report.xway, dir: report.dir, seg: report.seg }
    }

    /// Section 1: `s+i` in direction 0, `s-i` in direction 1, nothing beyond 0..99.
    pub fn downstream(self, segments_on: u8) -> Option<Segment> {
        let seg = match self.dir {
            0 => self.seg.checked_add(segments_on).filter(|seg| usize::from(*seg) < SEGMENTS)?,
            _ => self.seg.checked_sub(segments_on)?,
        };
        Some(Segment { seg, ..self })
    }

    /// Sections 6 and 7: "s and the 4 segments downstream of s", nearest first.
    pub fn in_reach(self) -> impl Iterator<Item = Segment> {
        (0..=4).filter_map(move |segments_on| self.downstream(segments_on))
    }
}

/// Section 3: `M(t) = t/60 + 1`.
pub fn minute(time: u16) -> Minute {
    Minute::from(time) / 60 + 1
}

/// All that the specification says about one input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answers {
    /// Toll notifications, by time and car.
    pub type0: Vec<Toll>,
    /// Accident notifications, by time and car.
    pub type1: Vec<AccidentNotice>,
    /// Account balances, by query id.
    pub type2: Vec<BalanceAnswer>,
    /// Daily expenditures that have a row in the history, by query id.
    pub type3: Vec<ExpenditureAnswer>,
    /// What was charged (no output), without the charges of 0, by time and car.
    pub charges: Vec<Charge>,
    /// The accidents (no output), by place and begin.
    pub accidents: Vec<Accident>,
}

/// All reports, all entries and the two things that are looked up per minute and segment.
pub struct Road {
    pub entries: Vec<Entry>,
    pub statistics: Statistics,
    pub accidents: Accidents,
}

impl Road {
    /// Looks at all reports of an input.
    pub fn new(events: &[Event]) -> Road {
        let reports = reports(events);
        let cars = by_car(&reports);
        Road {
            entries: trips::entries(&cars),
            statistics: Statistics::new(&reports),
            accidents: Accidents::new(&reports, &cars),
        }
    }
}

/// The answers to an input, whose events may come in any order.
pub fn answers(events: &[Event], history: &[HistoryRow]) -> Answers {
    let road = Road::new(events);
    let charges = tolls::charges(&road);
    Answers {
        type0: tolls::notifications(&road),
        type1: notices::notifications(&road),
        type2: queries::balances(events, &charges),
        type3: queries::expenditures(events, history),
        charges,
        accidents: road.accidents.list(),
    }
}

/// Each car's reports, ordered by time.
pub type Cars = BTreeMap<u32, Vec<Report>>;

/// Section 2: "a query never counts as a position report".
fn reports(events: &[Event]) -> Vec<Report> {
    events
        .iter()
        .filter_map(|event| match event {
            Event::Report(report) => Some(*report),
            _ => None,
        })
        .collect()
}

/// Section 4: "order each car's position reports by Time".
fn by_car(reports: &[Report]) -> Cars {
    let mut cars = Cars::new();
    for report in reports {
        cars.entry(report.vid).or_default().push(*report);
    }
    for of_one_car in cars.values_mut() {
        of_one_car.sort_by_key(|report| report.time);
    }
    cars
}
