//! The reference implementation against the expected answers that come with the shared data set.
//!
//! The first ten minutes run always; all thirty on demand:
//! `cargo test --release -p tidemill-linear-road --test integration reference_data -- --ignored`.

use crate::reference;

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

use crate::reference::accidents::{Accident, Place};
use crate::reference::notices::AccidentNotice;
use crate::reference::queries::{BalanceAnswer, ExpenditureAnswer};
use crate::reference::tolls::{Charge, Toll};
use crate::reference::{Answers, Second};
use tidemill_linear_road::event::{Event, HistoryRow};
use tidemill_linear_road::text_read::{parse_event, parse_history_row};

#[test]
fn first_ten_minutes_are_as_expected() {
    compare_until(600);
}

#[test]
#[ignore = "for release builds: 2 million events, about 4 s there"]
fn all_thirty_minutes_are_as_expected() {
    compare_until(1800);
}

/// Outputs depend on nothing later than themselves, so the answers to the input before a second are the expected
/// ones before that second.
fn compare_until(end_s: u16) {
    let folder =
        Path::new(&std::env::var("CARGO_MANIFEST_DIR").unwrap()).join("../../../shared/data/linear-road");
    if !folder.exists() {
        println!("skipped: the shared data set is not here ({})", folder.display());
        return;
    }
    let events = input(&folder, end_s);
    let history: Vec<HistoryRow> = lines(&folder.join("history.csv.zst"))
        .map(|line| parse_history_row(line.as_bytes()).unwrap_or_else(|error| panic!("`{line}`: {error}")))
        .collect();
    let found = reference::answers(&events, &history);
    println!(
        "{} events: {} tolls, {} accident notices, {} balances, {} expenditures, {} charges, {} accidents",
        events.len(),
        found.type0.len(),
        found.type1.len(),
        found.type2.len(),
        found.type3.len(),
        found.charges.len(),
        found.accidents.len()
    );
    assert_same(&folder, end_s, &found);
}

fn assert_same(folder: &Path, end_s: u16, found: &Answers) {
    let end = Second::from(end_s);
    let expected = |name: &str| folder.join("expected").join(name);
    let before_end = |time: u16| time < end_s;

    let mut tolls = rows(&expected("type0.csv.zst"), toll);
    tolls.retain(|toll| before_end(toll.time));
    assert_rows("type 0", tolls, found.type0.clone());

    let mut notices = rows(&expected("type1.csv.zst"), notice);
    notices.retain(|notice| before_end(notice.time));
    assert_rows("type 1", notices, found.type1.clone());

    let mut balances = rows(&expected("type2_allowed.csv.zst"), balance);
    balances.retain(|answer| before_end(answer.time));
    assert_rows("type 2", balances, found.type2.clone());

    let mut expenditures = rows(&expected("type3.csv.zst"), expenditure);
    expenditures.retain(|answer| before_end(answer.time));
    assert_rows("type 3", expenditures, found.type3.clone());

    let mut charges = rows(&expected("charges.csv.zst"), charge);
    charges.retain(|charge| before_end(charge.time));
    assert_rows("charges", charges, found.charges.clone());

    // A car that stands when the input ends is stopped for up to 30 s more.
    let until_end = |accident: Accident| Accident { end: accident.end.min(end), ..accident };
    let mut accidents = rows(&expected("accidents.csv.zst"), accident);
    accidents.retain(|accident| accident.begin < end);
    let found = found.accidents.iter().cloned().map(until_end).collect();
    assert_rows("accidents", accidents.into_iter().map(until_end).collect(), found);
}

/// Compares two sets of rows and names the first few that differ.
fn assert_rows<T: Debug + Ord>(kind: &str, mut expected: Vec<T>, mut found: Vec<T>) {
    assert!(!expected.is_empty(), "{kind}: the expected answers are empty, so this checks nothing");
    expected.sort();
    found.sort();
    if expected == found {
        return;
    }
    let expected: BTreeSet<T> = expected.into_iter().collect();
    let found: BTreeSet<T> = found.into_iter().collect();
    let missing: Vec<&T> = expected.difference(&found).collect();
    let extra: Vec<&T> = found.difference(&expected).collect();
    panic!(
        "{kind}: {} missing, {} extra or else duplicates; first missing {:?}, first extra {:?}",
        missing.len(),
        extra.len(),
        missing.iter().take(3).collect::<Vec<_>>(),
        extra.iter().take(3).collect::<Vec<_>>()
    );
}

/// The input's events before a second; the input is ordered by time.
fn input(folder: &Path, end_s: u16) -> Vec<Event> {
    lines(&folder.join("input.csv.zst"))
        .map(|line| parse_event(line.as_bytes()).unwrap_or_else(|error| panic!("`{line}`: {error}")))
        .take_while(|event| event.time() < end_s)
        .collect()
}

fn rows<T>(path: &Path, parse: impl Fn(&[&str]) -> T) -> Vec<T> {
    lines(path).map(|line| parse(&fields(&line))).collect()
}

fn lines(path: &Path) -> impl Iterator<Item = String> {
    let file = File::open(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let text = ruzstd::decoding::StreamingDecoder::new(BufReader::new(file)).expect("a zstd file");
    BufReader::with_capacity(1 << 20, text).lines().map(|line| line.expect("readable text"))
}

fn fields(line: &str) -> Vec<&str> {
    line.split(',').collect()
}

/// A field's number in the type that the row wants.
fn number<T: std::str::FromStr>(field: &str) -> T {
    field.parse().unwrap_or_else(|_| panic!("`{field}` is not a number in range"))
}

/// `0,VID,Time,Emit,Lav,Toll`.
fn toll(f: &[&str]) -> Toll {
    Toll { time: number(f[2]), vid: number(f[1]), lav: number(f[4]), toll: number(f[5]) }
}

/// `1,Time,Emit,VID,Seg`.
fn notice(f: &[&str]) -> AccidentNotice {
    AccidentNotice { time: number(f[1]), vid: number(f[3]), seg: number(f[4]) }
}

/// `QID,Time,VID,steps`; steps are `from second:balance`, separated by `|`, each up to the next.
fn balance(f: &[&str]) -> BalanceAnswer {
    let time: u16 = number(f[1]);
    let steps: Vec<(Second, u64)> = f[3]
        .split('|')
        .map(|step| step.split_once(':').expect("second:balance"))
        .map(|(from, balance)| (number(from), number(balance)))
        .collect();
    let as_of = |second: Second| steps.iter().rfind(|(from, _)| *from <= second).expect("a first step").1;
    let permitted =
        (Second::from(time) - 60..=Second::from(time)).map(|second| (second, as_of(second))).collect();
    BalanceAnswer { qid: number(f[0]), time, vid: number(f[2]), permitted }
}

/// `3,Time,Emit,QID,Bal`.
fn expenditure(f: &[&str]) -> ExpenditureAnswer {
    ExpenditureAnswer { qid: number(f[3]), time: number(f[1]), bal: number(f[4]) }
}

/// `VID,Time,Toll`.
fn charge(f: &[&str]) -> Charge {
    Charge { time: number(f[1]), vid: number(f[0]), toll: number(f[2]) }
}

/// `xway,dir,seg,pos,lane,start,end,cars`; cars are separated by `|`.
fn accident(f: &[&str]) -> Accident {
    let place = Place {
        xway: number(f[0]),
        dir: number(f[1]),
        seg: number(f[2]),
        pos: number(f[3]),
        lane: number(f[4]),
    };
    Accident { place, begin: number(f[5]), end: number(f[6]), vids: f[7].split('|').map(number).collect() }
}
