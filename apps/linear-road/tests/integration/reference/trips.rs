//! Section 4: trips and entering a segment.

use tidemill_linear_road::event::{EXIT_LANE, Report};

use super::Cars;

/// A report that enters a segment.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    pub report: Report,
    pub opens_new_trip: bool,
}

/// "A report r opens a *new trip* if it is the car's first, or its previous report p was in lane 4, or
/// `r.Time - p.Time > 60`, or XWay or Dir differ from p's."
pub fn opens_new_trip(previous: Option<&Report>, report: &Report) -> bool {
    previous.is_none_or(|previous| {
        previous.lane == EXIT_LANE
            || report.time - previous.time > 60
            || report.xway != previous.xway
            || report.dir != previous.dir
    })
}

/// "A report *enters a segment* if it opens a new trip or its Seg differs from the previous report's."
pub fn enters_segment(previous: Option<&Report>, report: &Report) -> bool {
    opens_new_trip(previous, report) || previous.is_some_and(|previous| previous.seg != report.seg)
}

/// Each report of a car with the one before it.
pub fn with_previous(reports: &[Report]) -> impl Iterator<Item = (Option<&Report>, &Report)> {
    reports.iter().enumerate().map(|(i, report)| (i.checked_sub(1).map(|before| &reports[before]), report))
}

/// One car's reports, cut where a trip begins.
pub fn trips(reports: &[Report]) -> Vec<Vec<Report>> {
    let mut trips: Vec<Vec<Report>> = Vec::new();
    for (previous, report) in with_previous(reports) {
        if opens_new_trip(previous, report) {
            trips.push(Vec::new());
        }
        trips.last_mut().expect("a car's first report opens a trip").push(*report);
    }
    trips
}

/// All reports that enter a segment, by car and time.
pub fn entries(cars: &Cars) -> Vec<Entry> {
    cars.values()
        .flat_map(|reports| with_previous(reports))
        .filter(|(previous, report)| enters_segment(*previous, report))
        .map(|(previous, report)| Entry { report: *report, opens_new_trip: opens_new_trip(previous, report) })
        .collect()
}
