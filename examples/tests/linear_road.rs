//! `linear_road.sql` gives the answers of the native operator, and those that came with the benchmark's data.

mod sql;

#[path = "../linear_road/operator.rs"]
mod operator;

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{BufReader, Read};
use std::path::Path;
use std::sync::Arc;

use tidemill_engine::arrow::array::cast::AsArray;
use tidemill_engine::arrow::array::{ArrayRef, types};
use tidemill_engine::arrow::schema::DataType;
use tidemill_linear_road::generator::{Generator, GeneratorConfig};
use tidemill_linear_road::text_write::write_event;
use tidemill_sql::Planner;

/// Numbers of a line or row.
type Row = Vec<i64>;

/// What cars were told: (vid, time, lav, toll) and (time, vid, seg). No key may occur twice, so sets are enough, and
/// their sizes are compared with the number of lines.
#[derive(Debug, PartialEq, Eq)]
struct Told {
    tolls: BTreeSet<Row>,
    accidents: BTreeSet<Row>,
}

/// The script with its three files elsewhere.
fn script(input: &Path, folder: &Path) -> String {
    let mut text = sql::script("linear_road.sql");
    let [tolls, accidents] = ["tolls.csv", "accidents.csv"].map(|name| folder.join(name));
    for (name, path) in [("input", input), ("tolls", &tolls), ("accidents", &accidents)] {
        let quoted = format!("'{}'", path.display());
        text = sql::replaced(&text, &format!("'linear-road/{name}.csv'"), &quoted);
    }
    text
}

/// What the script tells.
fn told_in_sql(input: &Path, workers: usize) -> Told {
    let folder = tempfile::tempdir().expect("a folder");
    sql::run_sinks(&sql::planner(&script(input, folder.path()), workers));
    let read = |name: &str| fs::read_to_string(folder.path().join(name)).expect("the file was written");
    Told { tolls: tolls(&read("tolls.csv")), accidents: accidents(&read("accidents.csv")) }
}

/// `0,VID,Time,Emit,Lav,Toll`
fn tolls(text: &str) -> BTreeSet<Row> {
    fields(text, 0, [1, 2, 4, 5].as_slice())
}

/// `1,Time,Emit,VID,Seg`
fn accidents(text: &str) -> BTreeSet<Row> {
    fields(text, 1, [1, 3, 4].as_slice())
}

/// Some fields of all lines.
fn fields(text: &str, kind: i64, places: &[usize]) -> BTreeSet<Row> {
    let number = |field: &str| field.parse::<i64>().unwrap_or_else(|_| panic!("'{field}' is no number"));
    let row = |line: &str| {
        let numbers: Row = line.split(',').map(number).collect();
        assert_eq!(numbers[0], kind, "the kind of an answer: {line}");
        places.iter().map(|place| numbers[*place]).collect::<Row>()
    };
    let rows: BTreeSet<Row> = text.lines().map(row).collect();
    assert_eq!(rows.len(), text.lines().count(), "the same answer was given twice");
    rows
}

/// All reports, divided by the operator's own key.
const REPORTS: &str = "TABLE(native_reports)";

/// What the native operator tells, called in SQL.
fn told_by_operator(input: &Path, workers: usize, reports: &str) -> Told {
    let mut planner = Planner::new();
    planner.register_operator("linear_road", Arc::new(operator::LinearRoad));
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

/// Traffic as a file in a folder.
fn traffic(folder: &Path, config: GeneratorConfig) -> std::path::PathBuf {
    let mut generator = Generator::new(config).expect("a generator");
    let (mut events, mut text) = (Vec::new(), Vec::new());
    while generator.next_second(&mut events) {
        events.drain(..).for_each(|event| write_event(&event, &mut text));
    }
    let path = folder.join("input.csv");
    fs::write(&path, text).expect("the file can be written");
    path
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
    let input = traffic(folder.path(), config);
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
    let input = traffic(folder.path(), config);
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
    let data = Path::new(&std::env::var("CARGO_MANIFEST_DIR").unwrap()).join("../../shared/data/linear-road");
    if !data.exists() {
        println!("skipped: the benchmark's data is not there (../shared/data/linear-road)");
        return;
    }
    let answers = |name: &str| {
        let file = File::open(data.join("expected").join(name)).expect("the expected answers");
        let mut reader = ruzstd::decoding::StreamingDecoder::new(BufReader::new(file)).expect("a zstd file");
        let mut text = String::new();
        reader.read_to_string(&mut text).expect("text");
        text
    };
    let expected =
        Told { tolls: tolls(&answers("type0.csv.zst")), accidents: accidents(&answers("type1.csv.zst")) };
    assert!(expected.tolls.len() > 100_000 && expected.accidents.len() > 1000);
    for workers in [1, 2] {
        let told = told_in_sql(&data.join("input.csv.zst"), workers);
        assert!(told == expected, "{workers} workers: {}", difference(&told, &expected));
    }
}

/// The first answers that differ, for there may be many.
fn difference(told: &Told, expected: &Told) -> String {
    let first = |name: &str, one: &BTreeSet<Row>, other: &BTreeSet<Row>| {
        let rows: Vec<&Row> = one.difference(other).take(3).collect();
        format!("{name}: {} of {}, as {rows:?}; ", one.difference(other).count(), one.len())
    };
    first("tolls not expected", &told.tolls, &expected.tolls)
        + &first("tolls missing", &expected.tolls, &told.tolls)
        + &first("accidents not expected", &told.accidents, &expected.accidents)
        + &first("accidents missing", &expected.accidents, &told.accidents)
}
