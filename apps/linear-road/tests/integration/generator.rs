//! The generator against sections 2 and 13 of the specification: validity, proportions, determinism, copies.

use std::collections::BTreeSet;
use std::time::Instant;

use crate::generated::Run;
use tidemill_linear_road::event::{Event, HistoryRow};
use tidemill_linear_road::generator::{Generator, GeneratorConfig, GeneratorError};
use tidemill_linear_road::text_write::{write_event, write_history_row};

fn all_events(config: GeneratorConfig) -> Vec<Event> {
    let mut generator = Generator::new(config).expect("a valid configuration");
    let mut events = Vec::new();
    while generator.next_second(&mut events) {}
    events
}

/// Every row that a query asked for, and no other, exactly once.
fn check_history(run: &Run, history: &[HistoryRow]) {
    let rows: BTreeSet<_> = history.iter().map(|row| (row.vid, row.day, row.xway)).collect();
    assert_eq!(rows.len(), history.len(), "one row per vehicle, day and expressway");
    assert_eq!(rows, run.asked);
    assert!(history.iter().all(|row| (10..=99).contains(&row.toll)));
}

#[test]
fn one_expressway_is_valid() {
    let config = GeneratorConfig { minutes: 25, seed: 11, ..GeneratorConfig::default() };
    let (run, generator) = Run::of(config);
    assert!(run.events() > 1_500_000);
    assert!(run.accidents() > 0, "no accident");
    assert!(run.returns > 0 && run.returns_elsewhere == 0);
    check_history(&run, generator.history());
    assert_eq!(u64::from(generator.vehicle_count()), run.trips - run.returns);
    assert_eq!(generator.query_count(), run.by_type[2..].iter().sum::<u64>());
}

#[test]
fn five_expressways_are_valid() {
    let config = GeneratorConfig {
        expressways: 5,
        minutes: 20,
        seed: 12,
        peak_reports_per_second: 250,
        ..GeneratorConfig::default()
    };
    let (run, generator) = Run::of(config);
    assert!(run.returns > 0, "no car came back");
    let elsewhere = run.returns_elsewhere as f64 / run.returns as f64;
    assert!((0.7..0.9).contains(&elsewhere), "4 of 5 returns are to another expressway, not {elsewhere}");
    assert!(run.accidents() > 0, "no accident");
    let xways: BTreeSet<_> = generator.history().iter().map(|row| row.xway).collect();
    assert_eq!(xways.len(), 5, "expenditures of all expressways are asked for");
    check_history(&run, generator.history());
}

#[test]
fn a_nearly_empty_road_is_valid() {
    let config = GeneratorConfig { minutes: 180, peak_reports_per_second: 1, ..GeneratorConfig::default() };
    let (run, _) = Run::of(config);
    assert!((5_000..9_000).contains(&run.events()), "{}", run.events());
}

#[test]
fn a_jammed_road_is_valid() {
    let config =
        GeneratorConfig { minutes: 4, peak_reports_per_second: 20_000, ..GeneratorConfig::default() };
    let (run, _) = Run::of(config);
    assert!(run.events() > 2_000_000, "{}", run.events());
}

fn assert_near(what: &str, value: f64, expected: f64, tolerance: f64) {
    let near = (value - expected).abs() <= tolerance;
    assert!(near, "{what}: {value}, expected {expected} within {tolerance}");
}

/// The proportions measured in section 13 for one expressway and three hours.
#[test]
fn three_hours_have_the_measured_proportions() {
    let (run, _) = Run::of(GeneratorConfig::default());
    let reports = run.by_type[0] as f64;
    assert_near("events", run.events() as f64, 12_094_363.0, 250_000.0);
    for (kind, part) in [(2, 0.5), (3, 0.1), (4, 0.4)] {
        let queries = run.by_type[kind] as f64;
        assert_near("queries per hundred reports", 100.0 * queries / reports, part, 0.05 * part);
    }
    assert_near("trips", run.trips as f64, 267_030.0, 16_000.0);
    assert_near("cars", (run.trips - run.returns) as f64, 247_427.0, 15_000.0);
    // 10 % of those that left, less those whose pause reaches beyond the end.
    assert_near("returns, %", 100.0 * run.returns as f64 / run.exits as f64, 9.2, 0.5);
    assert_near("rate of the first minute", run.mean_rate(0..60), 89.0, 4.0);
    assert_near("rate of the first ten minutes", run.mean_rate(0..600), 245.0, 10.0);
    assert_near("rate of the last minute", run.mean_rate(10_740..10_800), 1_729.0, 50.0);
    let busiest = *run.seconds.iter().max().expect("10800 seconds");
    assert_near("rate of the busiest second", busiest as f64, 1_775.0, 90.0);
    for (lane, percent) in [2.6, 32.0, 32.0, 32.0, 1.8].into_iter().enumerate() {
        assert_near(&format!("lane {lane}, %"), 100.0 * run.lanes[lane] as f64 / reports, percent, 0.6);
    }
    for (tens, percent) in [(1, 5.0), (2, 29.0), (3, 31.0), (4, 21.0), (5, 11.0), (6, 3.0)] {
        let measured = 100.0 * run.speeds[tens] as f64 / reports;
        assert_near(&format!("speeds from {tens}0 mph, %"), measured, percent, 3.0);
    }
    assert_near("accidents", run.accidents() as f64, 8.0, 3.0);
}

#[test]
fn the_same_configuration_gives_the_same_run() {
    let config = GeneratorConfig { expressways: 2, minutes: 3, seed: 5, ..GeneratorConfig::default() };
    let events = all_events(config);
    assert!(events == all_events(config));
    assert!(events != all_events(GeneratorConfig { seed: 6, ..config }));
}

/// The FNV-1a hash of the text of a run. A change of the model changes it, and then this number; a change of
/// the compiler or the machine must not.
#[test]
fn a_run_is_the_same_on_every_machine() {
    let config = GeneratorConfig {
        expressways: 2,
        minutes: 30,
        seed: 3,
        peak_reports_per_second: 100,
        ..GeneratorConfig::default()
    };
    let mut generator = Generator::new(config).expect("a valid configuration");
    let (mut events, mut text) = (Vec::new(), Vec::new());
    while generator.next_second(&mut events) {}
    events.iter().for_each(|event| write_event(event, &mut text));
    generator.history().iter().for_each(|row| write_history_row(row, &mut text));
    let hash = text.iter().fold(0xcbf2_9ce4_8422_2325u64, |hash, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    assert_eq!(hash, 0x4d5f_5aa3_fd34_ec36, "{hash:#x}");
}

#[test]
fn a_longer_curve_gives_the_beginning_of_a_longer_run() {
    let whole = GeneratorConfig { minutes: 6, ..GeneratorConfig::default() };
    let beginning = GeneratorConfig { minutes: 2, curve_minutes: Some(6), ..whole };
    let (whole, beginning) = (all_events(whole), all_events(beginning));
    assert!(beginning.len() > 10_000 && beginning == whole[..beginning.len()]);
    assert_eq!(whole[beginning.len()].time(), 120);
}

#[test]
fn a_shorter_curve_keeps_its_peak() {
    let config = GeneratorConfig {
        minutes: 12,
        curve_minutes: Some(2),
        peak_reports_per_second: 300,
        ..GeneratorConfig::default()
    };
    let (run, _) = Run::of(config);
    for minute in 4..12 {
        let rate = run.mean_rate(60 * minute..60 * (minute + 1));
        assert_near(&format!("rate of minute {minute}"), rate, 300.0, 20.0);
    }
}

#[test]
fn wrong_configurations_are_refused() {
    let good = GeneratorConfig::default();
    let refused = |config| Generator::new(config).err();
    let wrong = GeneratorConfig { expressways: 0, ..good };
    assert_eq!(refused(wrong), Some(GeneratorError::Expressways { given: 0 }));
    for minutes in [0, 181] {
        let wrong = GeneratorConfig { minutes, ..good };
        assert_eq!(refused(wrong), Some(GeneratorError::Minutes { given: minutes }));
    }
    for peak in [0, 100_001] {
        let wrong = GeneratorConfig { peak_reports_per_second: peak, ..good };
        assert_eq!(refused(wrong), Some(GeneratorError::Peak { given: peak }));
    }
    let wrong = GeneratorConfig { curve_minutes: Some(0), ..good };
    assert_eq!(refused(wrong), Some(GeneratorError::CurveMinutes));
    let wrong = GeneratorConfig { expressways: 60_000, ..good };
    assert!(matches!(refused(wrong), Some(GeneratorError::TooManyCars { .. })));
}

#[test]
#[ignore = "a measurement; run it alone and in release"]
fn speed() {
    for (expressways, minutes) in [(1, 180), (8, 60), (64, 30)] {
        let config = GeneratorConfig { expressways, minutes, ..GeneratorConfig::default() };
        let mut generator = Generator::new(config).expect("a valid configuration");
        let (mut events, mut text) = (Vec::new(), Vec::new());
        let (mut count, mut bytes) = (0, 0);
        let (mut generating_s, mut writing_s) = (0.0, 0.0);
        loop {
            let start = Instant::now();
            let more = generator.next_second(&mut events);
            generating_s += start.elapsed().as_secs_f64();
            if !more {
                break;
            }
            let start = Instant::now();
            events.iter().for_each(|event| write_event(event, &mut text));
            writing_s += start.elapsed().as_secs_f64();
            count += events.len();
            bytes += text.len();
            events.clear();
            text.clear();
        }
        let millions = count as f64 / 1e6;
        println!(
            "{expressways} expressways, {minutes} min: {millions:.1} million events, generated {:.1} million/s, \
             written as text {:.1} million/s ({:.0} MB/s)",
            millions / generating_s,
            millions / writing_s,
            bytes as f64 / 1e6 / writing_s,
        );
    }
}
