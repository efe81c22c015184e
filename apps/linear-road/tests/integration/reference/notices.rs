//! Section 7: accident notification (output type 1).

use tidemill_linear_road::event::{EXIT_LANE, Report};

use super::{Road, Segment, minute};

/// An accident notification.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct AccidentNotice {
    pub time: u16,
    pub vid: u32,
    /// The nearest segment with an accident, of the one entered and the 4 downstream.
    pub seg: u8,
}

/// "For every report that enters a segment s with Lane != 4, in minute m = M(t), if Acc(m-1, d) holds for some d
/// among s and the 4 segments downstream of s."
pub fn notifications(road: &Road) -> Vec<AccidentNotice> {
    let mut notices: Vec<AccidentNotice> = road
        .entries
        .iter()
        .filter(|entry| entry.report.lane != EXIT_LANE)
        .filter_map(|entry| {
            let seg = nearest_accident(road, &entry.report)?.seg;
            Some(AccidentNotice { time: entry.report.time, vid: entry.report.vid, seg })
        })
        .collect();
    notices.sort();
    notices
}

/// "Seg in the output is the nearest such d."
fn nearest_accident(road: &Road, entering: &Report) -> Option<Segment> {
    Segment::of(entering).in_reach().find(|ahead| road.accidents.acc(minute(entering.time) - 1, *ahead))
}
