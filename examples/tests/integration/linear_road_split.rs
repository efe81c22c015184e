//! `linear_road_split.sql` gives all four kinds of answers that the application in Rust gives, and those that came with the
//! benchmark's data.

use crate::linear_road_data;
use crate::sql;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use crate::application_run::Collected;
use crate::linear_road_data::{Row, answers, benchmark_data, expected_answers, only_in, traffic};
use tidemill_linear_road::event::{Event, HistoryRow};
use tidemill_linear_road::generator::GeneratorConfig;
use tidemill_linear_road::query::Partitions;
use tidemill_linear_road::text_write::write_history_row;

/// The answers by their type, 0 to 3.
type Answers = [BTreeSet<Row>; 4];

/// Where Emit is in a line of each type.
const EMIT: [usize; 4] = [3, 2, 2, 2];

/// The script with its files elsewhere.
fn script(input: &Path, history: &Path, folder: &Path) -> String {
    let answers =
        ["type0", "type1", "type2", "type3"].map(|name| (name, folder.join(name).with_extension("csv")));
    let inputs = [("input", input.to_owned()), ("history", history.to_owned())];
    linear_road_data::script("linear_road_split.sql", inputs.into_iter().chain(answers))
}

/// What the script answers, in cycles of this many rows.
fn answered(input: &Path, history: &Path, workers: usize, cycle_events: u32) -> Answers {
    let folder = tempfile::tempdir().expect("a folder");
    let script = script(input, history, folder.path());
    let settings = format!("SET cycle_fixed = true; SET cycle_events = {cycle_events};");
    sql::run_sinks(&sql::planner(&format!("{settings}\n{script}"), workers));
    [0, 1, 2, 3].map(|kind| {
        let path = folder.path().join(format!("type{kind}.csv"));
        answers(&fs::read_to_string(path).expect("the file was written"), kind, without_emit)
    })
}

/// The numbers of a line, without its type and the time at which the answer was ready.
fn without_emit(line: &[i64]) -> Row {
    let mut numbers = line.to_vec();
    numbers.remove(EMIT[line[0] as usize]);
    numbers.remove(0);
    numbers
}

/// What the application answers.
fn of_application(events: &[Event], history: &[HistoryRow]) -> Answers {
    let Collected { tolls, accidents, balances, expenditures, .. } =
        crate::application_run::run(events, history, 2, 10_000, Partitions::default());
    let tolls = tolls
        .into_iter()
        .map(|(time, vid, lav, toll)| vec![vid.into(), time.into(), lav.into(), toll as i64]);
    let accidents = accidents.into_iter().map(|(time, vid, seg)| vec![time.into(), vid.into(), seg.into()]);
    let balances = balances.into_iter().map(|(qid, time, balance)| {
        let time = i64::from(time);
        vec![time, time, qid as i64, balance as i64]
    });
    let expenditures =
        expenditures.into_iter().map(|(qid, time, paid)| vec![time.into(), qid as i64, paid as i64]);
    [tolls.collect(), accidents.collect(), balances.collect(), expenditures.collect()]
}

#[test]
fn generated_traffic_gets_all_answers_of_the_application() {
    let folder = tempfile::tempdir().expect("a folder");
    let config = GeneratorConfig {
        expressways: 2,
        minutes: 10,
        seed: 6,
        peak_reports_per_second: 900,
        ..GeneratorConfig::default()
    };
    let (events, history, input) = traffic(folder.path(), config);
    let (history_file, mut history_text) = (folder.path().join("history.csv"), Vec::new());
    history.iter().for_each(|row| write_history_row(row, &mut history_text));
    fs::write(&history_file, history_text).expect("the file can be written");
    let expected = of_application(&events, &history);
    let [tolls, accidents, balances, expenditures] = &expected;
    assert!(tolls.iter().filter(|row| row[3] > 0).count() > 1000, "the traffic has tolls");
    assert!(accidents.len() > 100, "the traffic has {} accident notices", accidents.len());
    assert!(balances.iter().filter(|row| row[3] > 0).count() > 10, "the traffic has balances");
    assert!(expenditures.len() > 100, "the traffic has {} expenditures", expenditures.len());
    let found = answered(&input, &history_file, 2, 20_000);
    assert_same(&found, &expected, "generated traffic");
}

/// A car that pays on two expressways and in both directions, and asks in the second of a charge.
#[test]
fn balances_are_summed_over_sub_streams() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut lines = Vec::new();
    let mut report = |time: i64, vid: i64, (xway, dir): (i64, i64), lane: i64, seg: i64| {
        lines.push((
            time,
            format!("0,{time},{vid},30,{xway},{lane},{dir},{seg},{},-1,-1,-1,-1,-1,-1", seg * 5280),
        ));
    };
    // Crowds in segments 10 to 12, minute after minute: 60 cars on the first road, 70 on the second.
    let roads = [((0, 0), 60), ((1, 1), 70)];
    for (number, (road, cars)) in roads.into_iter().enumerate() {
        for minute in 0..8 {
            for car in 0..cars {
                for seg in 10..13 {
                    let vid = 1000 + number as i64 * 100_000 + minute * 10_000 + car * 10 + seg;
                    report(60 * minute, vid, road, 1, seg);
                }
            }
        }
    }
    // Car 7 drives on both: two tolls of 2 * 10 * 10, then, as a new trip, one of 2 * 20 * 20.
    for (time, road, lane, seg) in [
        (90, (0, 0), 0, 10),
        (120, (0, 0), 1, 11),
        (150, (0, 0), 1, 12),
        (180, (0, 0), 4, 12),
        (270, (1, 1), 0, 12),
        (300, (1, 1), 1, 11),
        (330, (1, 1), 4, 11),
    ] {
        report(time, 7, road, lane, seg);
    }
    // A query follows the report of its car.
    for (qid, time) in [(1, 90), (2, 120), (3, 149), (4, 150), (5, 299), (6, 300), (7, 400)] {
        lines.push((time, format!("2,{time},7,-1,-1,-1,-1,-1,-1,{qid},-1,-1,-1,-1,-1")));
    }
    lines.push((300, "2,300,8,-1,-1,-1,-1,-1,-1,8,-1,-1,-1,-1,-1".to_owned()));
    lines.sort_by_key(|(time, _)| *time);
    let text: String = lines.into_iter().map(|(_, line)| line + "\n").collect();
    let [input, history] = ["input.csv", "history.csv"].map(|name| folder.path().join(name));
    fs::write(&input, text).expect("the file can be written");
    fs::write(&history, "7,1,0,50\n").expect("the file can be written");

    let balance_at: BTreeMap<i64, i64> =
        [(1, 0), (2, 200), (3, 200), (4, 400), (5, 400), (6, 1200), (7, 1200), (8, 0)].into();
    for (workers, cycle_events) in [(1, 100_000), (2, 50), (5, 333)] {
        let [_, _, balances, expenditures] = answered(&input, &history, workers, cycle_events);
        let found: BTreeMap<i64, i64> = balances.iter().map(|row| (row[2], row[3])).collect();
        assert_eq!(found, balance_at, "{workers} workers, cycles of {cycle_events}");
        assert!(balances.iter().all(|row| row[0] == row[1]) && expenditures.is_empty());
    }
}

#[test]
fn the_benchmarks_own_data_gets_the_answers_that_came_with_it() {
    let Some(data) = benchmark_data() else { return };
    let expected = [0, 1, 2, 3].map(|kind| expected_answers(&data, kind, without_emit));
    assert!(expected.iter().all(|answers| answers.len() > 1000));
    let found = answered(&data.join("input.csv.zst"), &data.join("history.csv.zst"), 2, 100_000);
    assert_same(&found, &expected, "the benchmark's data");
}

fn assert_same(found: &Answers, expected: &Answers, input: &str) {
    for (kind, (found, expected)) in found.iter().zip(expected).enumerate() {
        let (unexpected, missing) = (only_in(found, expected), only_in(expected, found));
        assert!(found == expected, "{input}: type {kind}: not expected {unexpected}; missing {missing}");
    }
}
