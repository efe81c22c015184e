//! A plan becomes events.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use tidemill_linear_road::event::{Event, Report, SEGMENT_FEET, VID_MAX};

use super::Plan;
use super::questions::{Question, When, Who};
use super::traffic::Car;

/// Which numbers the cars have.
#[derive(Clone, Copy, Debug)]
pub struct Numbering {
    /// Distance from one car's number to the next one's.
    pub stride: u32,
    /// Counts down from the largest number instead of up from 0.
    pub from_above: bool,
}

impl Numbering {
    fn vid(self, car: usize) -> u32 {
        let distance = car as u32 * self.stride;
        if self.from_above { VID_MAX - distance } else { distance }
    }
}

/// A longer time before one of a car's reports.
#[derive(Clone, Copy, Debug)]
pub struct Gap {
    /// The car, by index.
    pub car: usize,
    /// Which of its reports comes later, with all that follow.
    pub report: usize,
    pub more_s: u16,
}

/// The events of a plan, ordered by time; within a second in an order that `plan.order` fixes, but a query after
/// the report of its car.
pub fn events(plan: &Plan) -> Vec<Event> {
    let mut reports_by_car: Vec<Vec<Report>> = Vec::new();
    for (index, car) in plan.cars().iter().enumerate() {
        let gaps: Vec<Gap> =
            plan.gaps.iter().filter(|gap| gap.car % GAP_CARS == index % GAP_CARS).copied().collect();
        let mut reports = reports(car, plan.numbering.vid(index), &gaps);
        reports.retain(|report| report.time < plan.end_s);
        reports_by_car.push(reports);
    }
    let queries = queries(plan, &reports_by_car);
    in_order(reports_by_car.into_iter().flatten().map(Event::Report).chain(queries).collect(), plan.order)
}

/// Every n-th car has a gap.
const GAP_CARS: usize = 7;

fn reports(car: &Car, vid: u32, gaps: &[Gap]) -> Vec<Report> {
    let mut reports: Vec<Report> = Vec::new();
    for trip in &car.trips {
        for (i, point) in trip.points.iter().enumerate() {
            let previous_s = reports.last().map_or(0, |report| report.time);
            let more_s: u16 =
                gaps.iter().filter(|gap| i > 0 && gap.report == reports.len()).map(|gap| gap.more_s).sum();
            reports.push(Report {
                time: previous_s + if i == 0 { trip.wait_s } else { 30 + more_s },
                vid,
                speed: point.speed,
                xway: trip.xway,
                lane: point.lane,
                dir: trip.dir,
                seg: (point.pos / SEGMENT_FEET) as u8,
                pos: point.pos,
            });
        }
    }
    reports
}

fn queries(plan: &Plan, reports_by_car: &[Vec<Report>]) -> Vec<Event> {
    let known: BTreeSet<u32> = reports_by_car.iter().flatten().map(|report| report.vid).collect();
    let audits = (0..reports_by_car.len()).filter(|_| plan.audit).map(Question::audit);
    plan.questions
        .iter()
        .cloned()
        .chain(audits)
        .enumerate()
        .filter_map(|(qid, question)| {
            let car = match question.who {
                Who::Car(index) => reports_by_car.get(index % reports_by_car.len().max(1)),
                Who::Unknown(_) => None,
            };
            let reports = car.map_or(&[][..], Vec::as_slice);
            let vid = match question.who {
                Who::Car(_) => reports.first()?.vid,
                Who::Unknown(from) => (from.min(VID_MAX / 2)..).find(|vid| !known.contains(vid))?,
            };
            let time = match question.when {
                When::WithReport(index) => reports.get(index % reports.len().max(1))?.time,
                When::Last => reports.last()?.time,
                When::At(second) => second % plan.end_s,
            };
            Some(question.what.event(time, vid, qid as u64, plan.xways))
        })
        .collect()
}

fn in_order(events: Vec<Event>, order: u64) -> Vec<Event> {
    let draw = |index: usize| mixed(order.wrapping_add(index as u64));
    let drawn_of_report: BTreeMap<(u16, u32), u64> = events
        .iter()
        .enumerate()
        .filter_map(|(index, event)| match event {
            Event::Report(report) => Some(((report.time, report.vid), draw(index))),
            _ => None,
        })
        .collect();
    let mut keyed: Vec<((u16, u64, bool), Event)> = events
        .into_iter()
        .enumerate()
        .map(|(index, event)| {
            let after = match asker(&event) {
                Some(vid) => drawn_of_report.get(&(event.time(), vid)).copied().unwrap_or(0),
                None => 0,
            };
            ((event.time(), draw(index).max(after), asker(&event).is_some()), event)
        })
        .collect();
    keyed.sort_by_key(|(key, _)| *key);
    keyed.into_iter().map(|(_, event)| event).collect()
}

/// The car that a query is about; `None` of a report.
pub fn asker(event: &Event) -> Option<u32> {
    match event {
        Event::Report(_) => None,
        Event::Balance(query) => Some(query.vid),
        Event::Expenditure(query) => Some(query.vid),
        Event::TravelTime(query) => Some(query.vid),
    }
}

/// SplitMix64's output function: neighbours become unlike.
fn mixed(index: u64) -> u64 {
    let z = index.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// Small numbers, sparse ones, and the largest.
pub fn numbering() -> impl Strategy<Value = Numbering> {
    (prop_oneof![Just(1_u32), Just(3), Just(4096), Just(9_999_991)], any::<bool>())
        .prop_map(|(stride, from_above)| Numbering { stride, from_above })
}

/// A gap of 31 s to 121 s in all, mostly around 60.
pub fn gap() -> impl Strategy<Value = Gap> {
    (0..GAP_CARS, 1..=8_usize, prop_oneof![2 => 28..=33_u16, 1 => 1..=91_u16])
        .prop_map(|(car, report, more_s)| Gap { car, report, more_s })
}
