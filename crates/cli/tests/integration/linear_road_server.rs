//! Linear Road on a server: psql asks for balances, for expenditures and for the last position of cars while the traffic
//! continues.
//! The answers are those that came with the benchmark's data.
#![cfg(unix)]

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::child;
use crate::support::served::{Served, has_psql};
use crate::support::*;

/// The traffic comes up to these seconds. There are tolls from the second minute on.
const STOPS: [i64; 2] = [180, 240];
/// How stale a balance may be, in seconds.
const STALE: i64 = 60;
/// How many queries of each type are asked at a time.
const ASKED: usize = 25;

/// A line of numbers.
type Line = Vec<i64>;
/// Charges of each car: when, and how much.
type Charges = BTreeMap<i64, Vec<(i64, i64)>>;

fn lines(path: &Path, second: usize) -> impl Iterator<Item = Line> {
    let file = BufReader::new(File::open(path).unwrap());
    let text = BufReader::new(ruzstd::decoding::StreamingDecoder::new(file).unwrap());
    let numbers =
        text.lines().map(|line| line.unwrap().split(',').map(|field| field.parse().unwrap()).collect());
    let last = STOPS[1];
    numbers.take_while(move |line: &Line| line[second] <= last)
}

/// psql's rows of some statements, one for each line.
fn psql(port: &str, arguments: &[&str]) -> Vec<Line> {
    let output = Command::new("psql")
        .args(["-X", "-A", "-t", "-q", "-F", ",", "-v", "ON_ERROR_STOP=1"])
        .args(["-h", "127.0.0.1", "-U", "me", "-d", "db", "-p", port])
        .args(arguments)
        .output()
        .expect("psql can be run");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().map(|line| line.split(',').map(|field| field.parse().unwrap()).collect()).collect()
}

/// A server with Linear Road's views, and what sends it traffic.
fn serve(folder: &Path, history: &Path) -> (Served, UnixStream) {
    let server = Served::start(folder);
    let port = &server.port;
    let sources = format!(
        "CREATE SOURCE input (
            type SMALLINT, time INTEGER, vid BIGINT, speed INTEGER, xway INTEGER, lane INTEGER, dir INTEGER,
            seg INTEGER, pos INTEGER, qid BIGINT, sinit INTEGER, send INTEGER, dow INTEGER, tod INTEGER, day INTEGER,
            event_time AS to_timestamp_seconds(time),
            WATERMARK FOR event_time AS event_time
         ) WITH (connector = 'unix', listen = 'input.sock', format = 'csv', header = false, ordered = true);
         CREATE SOURCE history (vid BIGINT NOT NULL, day INTEGER NOT NULL, xway INTEGER NOT NULL, toll BIGINT)
         WITH (path = '{}', format = 'csv', header = false)",
        history.display()
    );
    psql(port, &["-c", &sources]);
    let examples = PathBuf::from(std::env::var("CARGO_MANIFEST_DIR").unwrap()).join("../../examples");
    let scripts = ["linear_road.sql", "linear_road_accounts.sql"].map(|name| examples.join(name));
    psql(port, &["-f", scripts[0].to_str().unwrap(), "-f", scripts[1].to_str().unwrap()]);
    let sender = UnixStream::connect(folder.join("input.sock")).expect("the source listens");
    (server, sender)
}

/// The sum of a car's charges up to a second.
fn balance_at(charges: &Charges, vid: i64, second: i64) -> i64 {
    let of_car = charges.get(&vid).into_iter().flatten();
    of_car.filter(|(time, _)| *time <= second).map(|(_, toll)| toll).sum()
}

/// Whether the balances are those of all cars at seconds from one minute ago until now.
fn are_balances(found: &[Line], charges: &Charges, now: i64) -> bool {
    let found: BTreeMap<i64, i64> = found.iter().map(|line| (line[0], line[1])).collect();
    charges.keys().chain(found.keys()).all(|vid| {
        let balance = found.get(vid).copied().unwrap_or(0);
        (now - STALE..=now).any(|second| balance_at(charges, *vid, second) == balance)
    })
}

#[test]
fn psql_asks_for_accounts_and_positions_while_the_traffic_goes_on() {
    let Some(data) = shared_data() else { return };
    if !has_psql() {
        return;
    }
    let expected = data.join("expected");
    let mut charges = Charges::new();
    for line in lines(&expected.join("charges.csv.zst"), 1) {
        charges.entry(line[0]).or_default().push((line[1], line[2]));
    }
    let amounts: BTreeMap<i64, i64> =
        lines(&expected.join("type3.csv.zst"), 1).map(|line| (line[3], line[4])).collect();
    let folder = folder_with(&[]);
    std::fs::create_dir(folder.path().join("linear-road")).unwrap();
    let (mut server, mut sender) = serve(folder.path(), &data.join("history.csv.zst"));
    let input: Vec<Line> = lines(&data.join("input.csv.zst"), 1).collect();
    let mut sent = 0;
    for now in STOPS {
        let until = input.iter().position(|line| line[1] > now).unwrap_or(input.len());
        let text: String = input[sent..until]
            .iter()
            .map(|line| line.iter().map(ToString::to_string).collect::<Vec<_>>().join(",") + "\n")
            .collect();
        sender.write_all(text.as_bytes()).unwrap();
        sent = until;
        // The last report of each car; psql sees all of them once they have come.
        let last: BTreeMap<i64, &Line> =
            input[..sent].iter().filter(|line| line[0] == 0).map(|line| (line[2], line)).collect();
        let expected_positions: Vec<Line> =
            last.values().map(|line| [2, 1, 4, 5, 6, 7, 8, 3].map(|column| line[column]).to_vec()).collect();
        let positions = "SELECT vid, time, xway, lane, dir, seg, pos, speed FROM positions ORDER BY vid";
        child::wait_until("psql sees where all cars are", || {
            psql(&server.port, &["-c", positions]) == expected_positions
        });
        child::wait_until("psql sees all balances", || {
            are_balances(&psql(&server.port, &["-c", "SELECT vid, balance FROM balances"]), &charges, now)
        });
        // Queries of the last second, as drivers ask them.
        let queries = |of: i64| input[..sent].iter().rev().filter(move |line| line[0] == of).take(ASKED);
        let mut with_balance = 0;
        for query in queries(2) {
            let vid = query[2];
            let text =
                format!("SELECT coalesce((SELECT balance FROM balances WHERE vid = {vid}), 0) AS balance");
            let balance = psql(&server.port, &["-c", &text])[0][0];
            let is_right = (now - STALE..=now).any(|second| balance_at(&charges, vid, second) == balance);
            assert!(is_right, "car {vid} at {now}: {balance}");
            with_balance += usize::from(balance > 0);
        }
        assert!(with_balance > 0, "nobody who asks has paid anything");
        for query in queries(3) {
            let (vid, xway, day) = (query[2], query[4], query[14]);
            let text =
                format!("SELECT toll FROM expenditures WHERE vid = {vid} AND day = {day} AND xway = {xway}");
            assert_eq!(psql(&server.port, &["-c", &text]), [[amounts[&query[9]]]], "{query:?}");
        }
    }
    drop(sender);
    server.stop();
}
