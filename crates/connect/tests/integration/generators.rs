//! Generators: the same rows however they are divided, values as described, paced as asked for.
#![cfg(feature = "tables")]

use std::collections::HashMap;
use std::time::{Duration, Instant};

use proptest::prelude::*;
use tidemill_connect::generator::{Sequence, SequenceConfig, YahooCampaigns, YahooConfig, YahooEvents};
use tidemill_core::arrow::array::RecordBatch;
use tidemill_core::arrow::array::cast::AsArray;
use tidemill_core::arrow::array::types::{Int8Type, Int64Type, TimestampNanosecondType};
use tidemill_core::source::{Polled, Source};
use tidemill_core::{Cause, Fault};

/// All batches of a finite source.
fn batches(source: &mut dyn Source) -> Vec<RecordBatch> {
    let mut batches = Vec::new();
    loop {
        match source.poll(Duration::from_secs(1)).unwrap() {
            Polled::Rows(rows) => batches.push(rows),
            Polled::Nothing | Polled::Idle => {}
            Polled::Request { .. } => panic!("these rows have no number"),
            Polled::Ended | Polled::Left => return batches,
        }
    }
}

fn integers(batches: &[RecordBatch], column: usize) -> Vec<i64> {
    batches
        .iter()
        .flat_map(|rows| rows.column(column).as_primitive::<Int64Type>().values().to_vec())
        .collect()
}

fn times(batches: &[RecordBatch], column: usize) -> Vec<i64> {
    let values =
        |rows: &RecordBatch| rows.column(column).as_primitive::<TimestampNanosecondType>().values().to_vec();
    batches.iter().flat_map(values).collect()
}

fn texts(rows: &RecordBatch, column: usize) -> Vec<String> {
    let dictionary = rows.column(column).as_dictionary::<Int8Type>();
    let values = dictionary.values().as_string::<i32>();
    dictionary.keys().values().iter().map(|key| values.value(*key as usize).to_owned()).collect()
}

#[test]
fn a_sequence_counts_in_steps_to_its_end() {
    let config = SequenceConfig { start: 10, count: Some(20_000), step: -3, ..SequenceConfig::default() };
    let mut sequence = Sequence::new(config).unwrap();
    assert!(sequence.is_finite());
    let batches = batches(&mut sequence);
    let expected: Vec<i64> = (0..20_000).map(|n| 10 - 3 * n).collect();
    assert_eq!(integers(&batches, 0), expected);
    let expected: Vec<i64> = (0..20_000).map(|n| 1000 * n).collect();
    assert_eq!(times(&batches, 1), expected, "a microsecond apart");
    assert_eq!(sequence.progress().done, 20_000);
    assert_eq!(sequence.progress().total, Some(20_000));
    assert!(matches!(sequence.poll(Duration::ZERO), Ok(Polled::Ended)), "it stays at its end");
}

#[test]
fn a_sequence_of_none_ends_at_once() {
    let config = SequenceConfig { count: Some(0), ..SequenceConfig::default() };
    assert!(batches(&mut Sequence::new(config).unwrap()).is_empty());
}

#[test]
fn a_sequence_does_not_go_beyond_its_type() {
    let beyond = SequenceConfig { start: i64::MAX - 1, count: Some(3), ..SequenceConfig::default() };
    assert!(matches!(Sequence::new(beyond), Err(Cause { fault: Fault::User, .. })));
    let within = SequenceConfig { count: Some(2), ..beyond };
    assert_eq!(integers(&batches(&mut Sequence::new(within).unwrap()), 0), [i64::MAX - 1, i64::MAX]);
    let mut endless = Sequence::new(SequenceConfig { count: None, ..beyond }).unwrap();
    assert!(!endless.is_finite());
    assert!(matches!(endless.poll(Duration::ZERO), Err(Cause { fault: Fault::User, .. })));
    let late = SequenceConfig { count: Some(u64::MAX), step: 0, rate: Some(1), ..SequenceConfig::default() };
    assert!(
        matches!(Sequence::new(late), Err(Cause { fault: Fault::User, .. })),
        "event times end in the year 2262"
    );
}

#[test]
fn a_paced_source_keeps_its_rate_on_average() {
    let config = SequenceConfig { rate: Some(2000), count: Some(2001), ..SequenceConfig::default() };
    let mut sequence = Sequence::new(config).unwrap();
    let start = Instant::now();
    let rows: usize = batches(&mut sequence).iter().map(RecordBatch::num_rows).sum();
    let taken = start.elapsed();
    assert_eq!(rows, 2001);
    assert!(taken >= Duration::from_millis(1000), "event 2000 is due after a second, not after {taken:?}");
    assert!(taken < Duration::from_secs(10), "{taken:?}");
}

#[test]
fn a_low_rate_gives_single_rows_and_returns_in_time() {
    let config = SequenceConfig { rate: Some(1), ..SequenceConfig::default() };
    let mut sequence = Sequence::new(config).unwrap();
    assert!(matches!(sequence.poll(Duration::ZERO), Ok(Polled::Rows(rows)) if rows.num_rows() == 1));
    assert!(matches!(sequence.poll(Duration::from_millis(5)), Ok(Polled::Nothing)));
}

#[test]
fn yahoo_events_have_the_described_values_evenly() {
    let config = YahooConfig { count: Some(300_000), ..YahooConfig::default() };
    let mut events = YahooEvents::new(config).unwrap();
    let batches = batches(&mut events);
    assert!(batches.iter().all(|rows| rows.num_rows() <= 8192));
    for (column, limit) in [(0, 100), (1, 100), (2, 1000)] {
        let mut counts = vec![0; limit];
        integers(&batches, column).iter().for_each(|value| counts[usize::try_from(*value).unwrap()] += 1);
        assert_even(&counts);
    }
    for (column, limit) in [(3, 5), (4, 3), (6, 1)] {
        let mut counts = HashMap::<String, u64>::new();
        let texts = batches.iter().flat_map(|rows| texts(rows, column));
        texts.for_each(|text| *counts.entry(text).or_default() += 1);
        assert_eq!(counts.len(), limit);
        assert_even(&counts.into_values().collect::<Vec<_>>());
    }
    let times = times(&batches, 5);
    assert!(times.iter().zip(0..).all(|(time, event)| *time == event * 1000));
}

/// As equal as random draws are: within five standard deviations.
fn assert_even(counts: &[u64]) {
    let mean = counts.iter().sum::<u64>() as f64 / counts.len() as f64;
    assert!(counts.iter().all(|count| (*count as f64 - mean).abs() <= 5.0 * mean.sqrt()), "{counts:?}");
}

#[test]
fn columns_of_an_event_do_not_depend_on_each_other() {
    let config =
        YahooConfig { count: Some(400_000), ads_per_campaign: 1, campaigns: 4, ..YahooConfig::default() };
    let events = YahooEvents::new(config).unwrap().range(0, 400_000).unwrap();
    let (ads, types) = (events.column(2).as_primitive::<Int64Type>(), texts(&events, 4));
    let (users, ad_types) = (events.column(0).as_primitive::<Int64Type>(), texts(&events, 3));
    let mut pairs = HashMap::<_, u64>::new();
    for row in 0..events.num_rows() {
        *pairs.entry((ads.value(row), types[row].as_str())).or_default() += 1;
        *pairs.entry((100 + users.value(row) % 4, ad_types[row].as_str())).or_default() += 1;
    }
    let (by_ad, by_user): (Vec<_>, Vec<_>) = pairs.into_iter().partition(|((number, _), _)| *number < 100);
    assert_eq!((by_ad.len(), by_user.len()), (12, 20));
    assert_even(&by_ad.into_iter().map(|(_, count)| count).collect::<Vec<_>>());
    assert_even(&by_user.into_iter().map(|(_, count)| count).collect::<Vec<_>>());
}

#[test]
fn event_times_are_out_of_order_by_no_more_than_asked_for() {
    let config =
        YahooConfig { out_of_order_ms: 50, rate: None, start_time_ns: 1 << 60, ..YahooConfig::default() };
    let ordered = YahooConfig { out_of_order_ms: 0, ..config };
    let events = YahooEvents::new(config).unwrap().range(0, 100_000).unwrap();
    let ordered = YahooEvents::new(ordered).unwrap().range(0, 100_000).unwrap();
    let (times, due) = (times(&[events], 5), times(&[ordered], 5));
    let back: Vec<i64> = due.iter().zip(&times).map(|(due, time)| due - time).collect();
    assert!(back.iter().all(|back| (0..=50_000_000).contains(back)));
    assert!(back.iter().any(|back| *back < 1_000_000) && back.iter().any(|back| *back > 49_000_000));
    assert!(times.windows(2).any(|pair| pair[1] < pair[0]));
}

#[test]
fn every_ad_has_its_campaign() {
    let mut campaigns = YahooCampaigns::new(1000, 20).unwrap();
    assert!(campaigns.is_finite());
    let batches = batches(&mut campaigns);
    assert_eq!(integers(&batches, 0), (0..20_000).collect::<Vec<_>>());
    assert_eq!(integers(&batches, 1), (0..20_000).map(|ad| ad / 20).collect::<Vec<_>>());
    assert!(matches!(YahooCampaigns::new(0, 10), Err(Cause { fault: Fault::User, .. })));
    assert!(matches!(YahooCampaigns::new(1 << 31, 2), Err(Cause { fault: Fault::User, .. })));
}

#[test]
fn settings_out_of_range_are_refused() {
    let normal = YahooConfig::default();
    for config in [
        YahooConfig { users: 0, ..normal },
        YahooConfig { pages: 0, ..normal },
        YahooConfig { ads_per_campaign: 0, ..normal },
        YahooConfig { rate: Some(0), ..normal },
        YahooConfig { count: Some(u64::MAX), ..normal },
        YahooConfig { start_time_ns: i64::MIN, out_of_order_ms: 1, ..normal },
    ] {
        assert!(matches!(YahooEvents::new(config), Err(Cause { fault: Fault::User, .. })), "{config:?}");
    }
    assert!(matches!(
        YahooEvents::new(normal).unwrap().set_projection(&[7]),
        Err(Cause { fault: Fault::Bug, .. })
    ));
}

#[test]
fn rows_can_be_counted_without_columns() {
    let mut events = YahooEvents::new(YahooConfig { count: Some(10_000), ..YahooConfig::default() }).unwrap();
    events.set_projection(&[]).unwrap();
    let batches = batches(&mut events);
    assert!(batches.iter().all(|rows| rows.num_columns() == 0));
    assert_eq!(batches.iter().map(RecordBatch::num_rows).sum::<usize>(), 10_000);
}

#[test]
fn another_seed_makes_another_stream() {
    let first = YahooEvents::new(YahooConfig { seed: 1, ..YahooConfig::default() }).unwrap();
    let second = YahooEvents::new(YahooConfig { seed: 2, ..YahooConfig::default() }).unwrap();
    let (first, second) = (first.range(0, 1000).unwrap(), second.range(0, 1000).unwrap());
    let (first, second) = (integers(&[first], 2), integers(&[second], 2));
    assert!(first.iter().zip(&second).filter(|(a, b)| a == b).count() < 20, "one in a thousand is the same");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_division_gives_the_same_rows(
        seed: u64,
        first in 0u64..1 << 40,
        cuts in prop::collection::vec(1usize..300, 1..20),
        columns in prop::sample::subsequence((0..7usize).collect::<Vec<_>>(), 0..=7).prop_shuffle(),
        out_of_order_ms in 0u32..2000,
        rate in prop::option::of(1_000u64..1_000_000_000),
    ) {
        let config = YahooConfig { seed, out_of_order_ms, rate, ..Default::default() };
        let mut events = YahooEvents::new(config).unwrap();
        let whole = events.range(first, cuts.iter().sum()).unwrap();
        events.set_projection(&columns).unwrap();
        let whole = whole.project(&columns).unwrap();
        let mut start = 0;
        for count in cuts {
            let part = events.range(first + start as u64, count).unwrap();
            prop_assert_eq!(&part, &whole.slice(start, count));
            start += count;
        }
    }
}
