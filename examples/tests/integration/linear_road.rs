//! `linear_road.sql` gives the answers of the native operator, and those that came with the benchmark's data.

use crate::linear_road_data;
use crate::sql;

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use crate::linear_road_data::{Row, answers, benchmark_data, expected_answers, only_in, traffic};
use tidemill_engine::arrow::array::cast::AsArray;
use tidemill_engine::arrow::array::{ArrayRef, types};
use tidemill_engine::arrow::schema::DataType;
use tidemill_linear_road::generator::GeneratorConfig;
use tidemill_sql::Planner;

/// What cars were told: (vid, time, lav, toll) and (time, vid, seg).
#[derive(Debug, PartialEq, Eq)]
struct Told {
    tolls: BTreeSet<Row>,
    accidents: BTreeSet<Row>,
}

/// The script with its three files elsewhere.
fn script(input: &Path, folder: &Path) -> String {
    let files = [
        ("input", input.to_owned()),
        ("tolls", folder.join("tolls.csv")),
        ("accidents", folder.join("accidents.csv")),
    ];
    linear_road_data::script("linear_road.sql", files)
}

/// What the script tells.
fn told_in_sql(input: &Path, workers: usize) -> Told {
    let folder = tempfile::tempdir().expect("a folder");
    sql::run_sinks(&sql::planner(&script(input, folder.path()), workers));
    let read = |name: &str| fs::read_to_string(folder.path().join(name)).expect("the file was written");
    Told {
        tolls: answers(&read("tolls.csv"), 0, toll),
        accidents: answers(&read("accidents.csv"), 1, accident),
    }
}

/// Of `0,VID,Time,Emit,Lav,Toll`.
fn toll(line: &[i64]) -> Row {
    [1, 2, 4, 5].map(|field| line[field]).to_vec()
}

/// Of `1,Time,Emit,VID,Seg`.
fn accident(line: &[i64]) -> Row {
    [1, 3, 4].map(|field| line[field]).to_vec()
}

/// All reports, divided by the operator's own key.
const REPORTS: &str = "TABLE(native_reports)";

/// What the native operator tells, called in SQL.
fn told_by_operator(input: &Path, workers: usize, reports: &str) -> Told {
    let mut planner = Planner::new();
    planner.register_operator("linear_road", Arc::new(crate::operator::LinearRoad));
    let folder = tempfile::tempdir().expect("a folder");
    sql::define(&mut planner, &script(input, folder.path()), workers);
    sql::define(
        &mut planner,
        "CREATE VIEW native_reports AS
         SELECT CAST(time AS SMALLINT UNSIGNED) AS time, CAST(vid AS INTEGER UNSIGNED) AS vid,
                CAST(speed AS TINYINT UNSIGNED) AS speed, CAST(xway AS SMALLINT UNSIGNED) AS xway,
                CAST(lane AS TINYINT UNSIGNED) AS lane, CAST(dir AS TINYINT UNSIGNED) AS dir,
                CAST(seg AS TINYINT UNSIGNED) AS seg, CAST(pos AS INTEGER UNSIGNED) AS pos
         FROM reports",
        workers,
    );
    let mut told = |query: &str| {
        let batches = sql::rows(&mut planner, query);
        let rows = batches.iter().flat_map(|batch| {
            let columns: Vec<Row> = batch.columns().iter().map(numbers).collect();
            (0..batch.num_rows()).map(move |row| columns.iter().map(|column| column[row]).collect::<Row>())
        });
        rows.collect::<BTreeSet<Row>>()
    };
    Told {
        tolls: told(&format!("SELECT vid, time, lav, toll FROM linear_road({reports}, answers => 'tolls')")),
        accidents: told(&format!(
            "SELECT time, vid, seg FROM linear_road({reports}, answers => 'accidents')"
        )),
    }
}

fn numbers(column: &ArrayRef) -> Row {
    match column.data_type() {
        DataType::Int8 => {
            column.as_primitive::<types::Int8Type>().values().iter().map(|n| i64::from(*n)).collect()
        }
        DataType::UInt8 => {
            column.as_primitive::<types::UInt8Type>().values().iter().map(|n| i64::from(*n)).collect()
        }
        DataType::UInt16 => {
            column.as_primitive::<types::UInt16Type>().values().iter().map(|n| i64::from(*n)).collect()
        }
        DataType::UInt32 => {
            column.as_primitive::<types::UInt32Type>().values().iter().map(|n| i64::from(*n)).collect()
        }
        DataType::UInt64 => {
            column.as_primitive::<types::UInt64Type>().values().iter().map(|n| *n as i64).collect()
        }
        other => panic!("a column of {other}"),
    }
}

#[test]
fn sub_streams_of_expressways_give_the_answers_of_the_whole_stream() {
    let folder = tempfile::tempdir().expect("a folder");
    let config = GeneratorConfig {
        expressways: 2,
        minutes: 10,
        seed: 7,
        peak_reports_per_second: 200,
        ..GeneratorConfig::default()
    };
    let (.., input) = traffic(folder.path(), config);
    let expected = told_by_operator(&input, 1, REPORTS);
    assert!(!expected.tolls.is_empty() && !expected.accidents.is_empty());
    for (plan, workers) in [("auto", 2), ("exptree", 5), ("parasplit", 2)] {
        let reports = format!("splitstream(TABLE(native_reports), 2, route => xway, plan => '{plan}')");
        let told = told_by_operator(&input, workers, &reports);
        assert!(told == expected, "{plan}, {workers} workers: {}", difference(&told, &expected));
    }
}

#[test]
fn generated_traffic_gets_the_answers_of_the_native_operator() {
    let folder = tempfile::tempdir().expect("a folder");
    // Crowded from the second minute on, and with an accident from the ninth on.
    let config =
        GeneratorConfig { minutes: 12, seed: 6, peak_reports_per_second: 1000, ..GeneratorConfig::default() };
    let (.., input) = traffic(folder.path(), config);
    let expected = told_by_operator(&input, 1, REPORTS);
    assert!(expected.tolls.iter().filter(|row| row[3] > 0).count() > 1000, "the traffic has tolls");
    assert!(expected.accidents.len() > 100, "the traffic has {} accident notices", expected.accidents.len());
    for workers in [1, 2] {
        let told = told_in_sql(&input, workers);
        assert!(told == expected, "{workers} workers: {}", difference(&told, &expected));
    }
    assert!(told_by_operator(&input, 2, REPORTS) == expected, "the operator at 2 workers");
}

#[test]
fn the_benchmarks_own_data_gets_the_answers_that_came_with_it() {
    let Some(data) = benchmark_data() else { return };
    let expected =
        Told { tolls: expected_answers(&data, 0, toll), accidents: expected_answers(&data, 1, accident) };
    assert!(expected.tolls.len() > 100_000 && expected.accidents.len() > 1000);
    for workers in [1, 2] {
        let told = told_in_sql(&data.join("input.csv.zst"), workers);
        assert!(told == expected, "{workers} workers: {}", difference(&told, &expected));
    }
}

/// What differs.
fn difference(told: &Told, expected: &Told) -> String {
    [("tolls", &told.tolls, &expected.tolls), ("accidents", &told.accidents, &expected.accidents)]
        .map(|(name, told, expected)| {
            let (unexpected, missing) = (only_in(told, expected), only_in(expected, told));
            format!("{name}: not expected {unexpected}; missing {missing}; ")
        })
        .concat()
}
