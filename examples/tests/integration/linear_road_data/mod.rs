//! What the tests of Linear Road in SQL share: traffic, the benchmark's own data, and sets of answers.
#![allow(dead_code, reason = "each test file uses a part of it")]

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};

use tidemill_linear_road::event::{Event, HistoryRow};
use tidemill_linear_road::generator::{Generator, GeneratorConfig};
use tidemill_linear_road::text_write::write_event;

use crate::sql;

/// Numbers of an answer. No two answers may be the same, so sets of them are enough.
pub type Row = Vec<i64>;

/// A script with its files `linear-road/NAME.csv` elsewhere.
pub fn script<'a>(name: &str, files: impl IntoIterator<Item = (&'a str, PathBuf)>) -> String {
    let text = sql::script(name);
    files.into_iter().fold(text, |text, (name, path)| {
        sql::replaced(&text, &format!("'linear-road/{name}.csv'"), &format!("'{}'", path.display()))
    })
}

/// The lines of a file of answers: those of a kind, each with the values that count.
pub fn answers(text: &str, kind: i64, values: impl Fn(&[i64]) -> Row) -> BTreeSet<Row> {
    let number = |field: &str| field.parse::<i64>().unwrap_or_else(|_| panic!("'{field}' is not a number"));
    let row = |line: &str| {
        let numbers: Row = line.split(',').map(number).collect();
        assert_eq!(numbers[0], kind, "the kind of an answer: {line}");
        values(&numbers)
    };
    let rows: BTreeSet<Row> = text.lines().map(row).collect();
    assert_eq!(rows.len(), text.lines().count(), "the same answer was given twice");
    rows
}

/// Generated traffic, with its history, and the file in a folder that has the traffic.
pub fn traffic(folder: &Path, config: GeneratorConfig) -> (Vec<Event>, Vec<HistoryRow>, PathBuf) {
    let mut generator = Generator::new(config).expect("a generator");
    let (mut events, mut text) = (Vec::new(), Vec::new());
    while generator.next_second(&mut events) {}
    events.iter().for_each(|event| write_event(event, &mut text));
    let path = folder.join("input.csv");
    fs::write(&path, text).expect("the file can be written");
    (events, generator.history().to_vec(), path)
}

/// The folder with the benchmark's own data; where it is not, the test says so.
pub fn benchmark_data() -> Option<PathBuf> {
    let data = Path::new(&std::env::var("CARGO_MANIFEST_DIR").unwrap()).join("../../shared/data/linear-road");
    if !data.exists() {
        println!("skipped: the benchmark's data is not there (../shared/data/linear-road)");
        return None;
    }
    Some(data)
}

/// The expected answers of a kind that came with the benchmark's data.
pub fn expected_answers(data: &Path, kind: i64, values: impl Fn(&[i64]) -> Row) -> BTreeSet<Row> {
    let file = File::open(data.join(format!("expected/type{kind}.csv.zst"))).expect("the expected answers");
    let mut reader = ruzstd::decoding::StreamingDecoder::new(BufReader::new(file)).expect("a zstd file");
    let mut text = String::new();
    reader.read_to_string(&mut text).expect("text");
    answers(&text, kind, values)
}

/// How many answers only the first set has, and the first of them, for there may be many.
pub fn only_in(one: &BTreeSet<Row>, other: &BTreeSet<Row>) -> String {
    let rows: Vec<&Row> = one.difference(other).take(3).collect();
    format!("{} of {}, as {rows:?}", one.difference(other).count(), one.len())
}
