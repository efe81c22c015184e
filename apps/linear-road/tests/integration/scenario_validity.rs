//! The scenarios hold the properties of valid data (specification, section 2), so that an application may rely on
//! them there.

use crate::scenarios;

use std::collections::{BTreeMap, BTreeSet};

use crate::scenarios::play::asker;
use proptest::prelude::*;
use tidemill_linear_road::event::{
    ENTRY_LANE, EXIT_LANE, Event, POSITION_MAX, Report, SEGMENT_FEET, SEGMENTS, TIME_MAX_S,
};

/// A property test of hundreds of cases stays cheap below this.
const EVENTS_MAX: usize = 5000;

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn scenarios_are_valid(events in scenarios::scenario()) {
        assert_events(&events);
        for reports in by_car(&events).values() {
            assert_trips(reports);
        }
    }

    #[test]
    fn scenarios_with_gaps_are_valid_but_for_the_gaps(events in scenarios::scenario_with_gaps()) {
        assert_events(&events);
        for pair in by_car(&events).values().flat_map(|reports| reports.windows(2)) {
            assert!(pair[1].time - pair[0].time >= 30, "{pair:?}");
        }
    }

    #[test]
    fn histories_have_one_row_per_car_day_and_expressway(events in scenarios::scenario()) {
        let history = scenarios::history(&events);
        let keys: BTreeSet<_> = history.iter().map(|row| (row.vid, row.day, row.xway)).collect();
        assert_eq!(keys.len(), history.len());
        assert!(history.iter().all(|row| (1..=69).contains(&row.day) && (10..=99).contains(&row.toll)));
    }
}

fn by_car(events: &[Event]) -> BTreeMap<u32, Vec<Report>> {
    let mut cars: BTreeMap<u32, Vec<Report>> = BTreeMap::new();
    for event in events {
        if let Event::Report(report) = event {
            cars.entry(report.vid).or_default().push(*report);
        }
    }
    cars
}

/// What holds of every line and of their order.
fn assert_events(events: &[Event]) {
    assert!(events.len() < EVENTS_MAX, "{} events", events.len());
    assert!(events.is_sorted_by_key(Event::time), "ordered by time");
    let mut queries = BTreeSet::new();
    let mut asked = BTreeSet::new();
    for event in events {
        assert!(event.time() <= TIME_MAX_S);
        match event {
            Event::Report(report) => {
                assert!(report.speed <= 100 && report.lane <= EXIT_LANE && report.dir <= 1, "{report:?}");
                assert!(report.pos <= POSITION_MAX && usize::from(report.seg) < SEGMENTS, "{report:?}");
                assert_eq!(u32::from(report.seg), report.pos / SEGMENT_FEET, "{report:?}");
                assert!(!asked.contains(&(report.time, report.vid)), "a query before its report: {report:?}");
            }
            Event::Balance(query) => assert!(queries.insert(query.qid), "{query:?}"),
            Event::Expenditure(query) => assert!(queries.insert(query.qid), "{query:?}"),
            Event::TravelTime(query) => assert!(queries.insert(query.qid), "{query:?}"),
        }
        asked.extend(asker(event).map(|vid| (event.time(), vid)));
    }
}

/// What holds from one report of a car to the next, in valid data.
fn assert_trips(reports: &[Report]) {
    assert_eq!(reports[0].lane, ENTRY_LANE, "{:?}", reports[0]);
    for pair in reports.windows(2) {
        let (before, after) = (&pair[0], &pair[1]);
        let apart_s = after.time - before.time;
        if before.lane == EXIT_LANE {
            assert!(apart_s > 60 && after.lane == ENTRY_LANE, "{pair:?}");
        } else {
            assert_eq!(apart_s, 30, "{pair:?}");
            assert_eq!((before.xway, before.dir), (after.xway, after.dir), "{pair:?}");
            let feet = i64::from(after.pos) - i64::from(before.pos);
            let feet_downstream = if after.dir == 0 { feet } else { -feet };
            assert!((0..=4400).contains(&feet_downstream), "{pair:?}");
        }
    }
}
