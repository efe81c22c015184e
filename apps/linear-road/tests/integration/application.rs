//! The application against the reference: random scenarios at the rules' edges, and generated traffic.
//!
//! Whole runs of three hours on demand: `cargo test --release -p tidemill-linear-road --test integration application -- --ignored`.

use crate::reference;
use crate::scenarios;

use std::collections::HashMap;

use crate::application_run::{Collected, run};
use proptest::prelude::*;
use tidemill_linear_road::event::{Event, HistoryRow};
use tidemill_linear_road::generator::{Generator, GeneratorConfig};
use tidemill_linear_road::query::Partitions;

/// Checks a run's answers against all that the reference permits.
fn assert_right(found: &Collected, events: &[Event], history: &[HistoryRow]) {
    let expected = reference::answers(events, history);
    let found = found.clone().sorted();
    let mut tolls: Vec<_> =
        expected.type0.iter().map(|toll| (toll.time, toll.vid, toll.lav as i8, toll.toll)).collect();
    tolls.sort();
    assert_eq!(found.tolls, tolls, "toll notifications");
    let mut accidents: Vec<_> =
        expected.type1.iter().map(|notice| (notice.time, notice.vid, notice.seg)).collect();
    accidents.sort();
    assert_eq!(found.accidents, accidents, "accident notifications");
    let mut expenditures: Vec<_> =
        expected.type3.iter().map(|answer| (answer.qid, answer.time, answer.bal)).collect();
    expenditures.sort();
    assert_eq!(found.expenditures, expenditures, "expenditures");

    assert_eq!(found.balances.len(), expected.type2.len(), "number of balances");
    let permitted: HashMap<u64, _> = expected.type2.iter().map(|answer| (answer.qid, answer)).collect();
    for (qid, time, balance) in found.balances {
        let answer = permitted[&qid];
        assert_eq!(answer.time, time);
        let step = (i64::from(time), balance);
        assert!(
            answer.permitted.iter().any(|(at, bal)| (*at, *bal) == step),
            "{step:?} is not in {answer:?}"
        );
    }
}

fn few_partitions() -> Partitions {
    Partitions { expressways: 3, vehicles: 4 }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn scenarios_are_answered_as_the_reference_does(
        events in scenarios::scenario(),
        cycle_events in prop_oneof![Just(1u32), 2u32..50, Just(100_000)],
    ) {
        let history = scenarios::history(&events);
        let one = run(&events, &history, 1, cycle_events, few_partitions());
        assert_right(&one, &events, &history);
        let two = run(&events, &history, 2, cycle_events, few_partitions());
        prop_assert_eq!(&one, &two);
        let five = run(&events, &history, 5, cycle_events, few_partitions());
        prop_assert_eq!(&one, &five);
        // Results are in the order of the input, so the cycles and partitions do not show in them either.
        let other = run(&events, &history, 2, cycle_events.saturating_mul(3), Partitions::default());
        prop_assert_eq!(&one, &other);
    }

    #[test]
    fn gaps_between_reports_are_answered_as_the_reference_does(events in scenarios::scenario_with_gaps()) {
        let history = scenarios::history(&events);
        let found = run(&events, &history, 2, 77, few_partitions());
        assert_right(&found, &events, &history);
    }
}

#[test]
fn traffic_on_five_expressways_with_returning_cars_is_right() {
    let config = GeneratorConfig {
        expressways: 5,
        minutes: 12,
        seed: 11,
        peak_reports_per_second: 120,
        ..GeneratorConfig::default()
    };
    let mut generator = Generator::new(config).unwrap();
    let mut events = Vec::new();
    while generator.next_second(&mut events) {}
    let history = generator.history();
    let one = run(&events, history, 1, 10_000, Partitions::default());
    assert_right(&one, &events, history);
    for (workers, cycle_events) in [(2, 10_000), (5, 10_000), (5, 500), (2, 1_000_000)] {
        let other = run(&events, history, workers, cycle_events, few_partitions());
        assert_eq!(one, other, "{workers} workers, cycles of {cycle_events}");
    }
}

#[test]
#[ignore = "for release builds: the 24 million events of three hours on two expressways"]
fn a_whole_run_of_two_expressways_is_right() {
    let mut generator =
        Generator::new(GeneratorConfig { expressways: 2, ..GeneratorConfig::default() }).unwrap();
    let mut events = Vec::new();
    while generator.next_second(&mut events) {}
    let found = run(&events, generator.history(), 2, 10_000, Partitions::default());
    println!(
        "{} events, {} toll notifications, {} balances",
        events.len(),
        found.tolls.len(),
        found.balances.len()
    );
    assert!(events.len() > 20_000_000 && found.balances.len() > 100_000);
    assert_right(&found, &events, generator.history());
}
