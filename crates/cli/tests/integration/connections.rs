//! Event time of sources with several connections: one that is behind the others makes no row late, one that is silent or
//! gone holds nothing up, and a run after a crash decides the same again.
#![cfg(all(feature = "sql", unix))]

use tidemill_testing::ports;

use std::fs;
use std::io::Write;
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Stdio};

use crate::support::child::{end, interrupt, start, wait_until};
use crate::support::*;

/// Where a source listens.
enum ListenAddress {
    Tcp(u16),
    Unix,
}

impl ListenAddress {
    fn tcp() -> ListenAddress {
        ListenAddress::Tcp(ports::free_port())
    }

    fn options(&self) -> String {
        match self {
            ListenAddress::Tcp(port) => format!("connector = 'tcp', listen = '127.0.0.1:{port}'"),
            ListenAddress::Unix => "connector = 'unix', listen = 'rows.socket'".into(),
        }
    }

    fn connect(&self, folder: &Path) -> Box<dyn Write> {
        let mut stream: Option<Box<dyn Write>> = None;
        wait_until("it listens", || {
            stream = match self {
                ListenAddress::Tcp(port) => {
                    TcpStream::connect(("127.0.0.1", *port)).ok().map(|stream| Box::new(stream) as _)
                }
                ListenAddress::Unix => {
                    UnixStream::connect(folder.join("rows.socket")).ok().map(|stream| Box::new(stream) as _)
                }
            };
            stream.is_some()
        });
        stream.unwrap()
    }
}

/// Counts rows by ten seconds, and copies them. Nothing is allowed to be late.
fn script(address: &ListenAddress, options: &str) -> String {
    format!(
        "CREATE SOURCE s (at TIMESTAMP, sender VARCHAR, WATERMARK FOR at AS at)
           WITH ({}, format = 'csv', header = false{options});
         CREATE SINK raw AS SELECT sender FROM s WITH (path = 'raw.csv');
         CREATE SINK counts AS SELECT window_end, count(*) AS n
           FROM tumble(TABLE(s), at, INTERVAL '10 seconds') GROUP BY window_end WITH (path = 'counts.csv');",
        address.options()
    )
}

fn begin(folder: &Path) -> Child {
    let mut command = tidemill(folder, &["run", "p.sql"]);
    command.stdin(Stdio::null());
    start(command)
}

fn lines(folder: &Path, name: &str) -> Vec<String> {
    rows_of(&folder.join(name))
}

/// Sends a row for each of these seconds.
fn send(stream: &mut dyn Write, sender: &str, seconds: std::ops::Range<u32>) {
    let row = |second: u32| format!("2026-01-01T00:{:02}:{:02},{sender}\n", second / 60, second % 60);
    stream.write_all(seconds.map(row).collect::<String>().as_bytes()).unwrap();
}

fn wait_for_rows(folder: &Path, count: usize) {
    wait_until("the rows are there", || lines(folder, "raw.csv").len() == count);
}

/// What ten seconds hold, up to the one that is still open.
fn counts(each: u32) -> Vec<String> {
    (1..=9).map(|ten| format!("2026-01-01 00:{:02}:{:02},{each}", ten * 10 / 60, ten * 10 % 60)).collect()
}

#[test]
fn a_connection_that_is_far_behind_makes_no_row_late_and_holds_nothing_once_it_has_closed() {
    for address in [ListenAddress::tcp(), ListenAddress::Unix] {
        let folder = folder_with(&[("p.sql", &script(&address, ", idle_after = '1 hour'"))]);
        let folder = folder.path();
        let child = begin(folder);
        let (mut ahead, mut behind) = (address.connect(folder), address.connect(folder));
        send(&mut *behind, "behind", 0..1);
        wait_for_rows(folder, 1);
        send(&mut *ahead, "ahead", 0..95);
        wait_for_rows(folder, 96);
        assert_eq!(lines(folder, "counts.csv"), [""; 0], "the one behind is waited for");
        send(&mut *behind, "behind", 1..50);
        wait_for_rows(folder, 145);
        drop(behind);
        wait_until("time goes on without a row", || lines(folder, "counts.csv").len() == 9);
        let expected: Vec<String> =
            counts(20).into_iter().take(5).chain(counts(10).into_iter().skip(5)).collect();
        assert_eq!(lines(folder, "counts.csv"), expected);
        interrupt(&child);
        let ended = end(child).expect(130);
        assert!(!ended.stderr.contains("too late"), "{}", ended.stderr);
    }
}

#[test]
fn a_connection_that_is_silent_is_waited_for_as_long_as_idle_after_says() {
    let address = ListenAddress::tcp();
    let folder = folder_with(&[("p.sql", &script(&address, ", idle_after = '300 ms'"))]);
    let folder = folder.path();
    let child = begin(folder);
    let (mut ahead, mut silent) = (address.connect(folder), address.connect(folder));
    send(&mut *silent, "silent", 0..1);
    wait_for_rows(folder, 1);
    send(&mut *ahead, "ahead", 0..95);
    wait_until("time goes on", || lines(folder, "counts.csv").len() == 9);
    send(&mut *silent, "silent", 1..2);
    // This one is late, the next one is not.
    send(&mut *silent, "silent", 96..97);
    wait_for_rows(folder, 97);
    interrupt(&child);
    let ended = end(child).expect(130);
    assert!(ended.stderr.contains("1 row"), "{}", ended.stderr);
}

#[test]
fn a_run_after_a_crash_finds_no_row_late_either() {
    let address = ListenAddress::tcp();
    let folder = folder_with(&[("p.sql", &script(&address, ", durable = true, idle_after = '1 hour'"))]);
    let folder = folder.path();
    let mut child = begin(folder);
    let (mut ahead, mut behind) = (address.connect(folder), address.connect(folder));
    send(&mut *behind, "behind", 0..1);
    wait_for_rows(folder, 1);
    send(&mut *ahead, "ahead", 0..95);
    wait_for_rows(folder, 96);
    send(&mut *behind, "behind", 1..50);
    wait_for_rows(folder, 145);
    child.kill().unwrap();
    child.wait().unwrap();
    let child = begin(folder);
    let mut again = address.connect(folder);
    send(&mut *again, "again", 50..95);
    wait_for_rows(folder, 190);
    wait_until("time goes on", || lines(folder, "counts.csv").len() == 9);
    assert_eq!(lines(folder, "counts.csv"), counts(20));
    interrupt(&child);
    let ended = end(child).expect(130);
    assert!(!ended.stderr.contains("too late"), "{}", ended.stderr);

    // The journal as a source has no connections, but it has what was decided about them.
    let again = script(&address, ", durable = true")
        .replace("raw.csv", "raw2.csv")
        .replace("counts.csv", "counts2.csv");
    fs::write(folder.join("again.sql"), again).unwrap();
    let replayed = self::ended(folder, &["journal", "replay", "p.journal", "again.sql"]).expect(0);
    assert!(!replayed.stderr.contains("too late"), "{}", replayed.stderr);
    // Its end closes the last window as well.
    let rest = ["2026-01-01 00:01:40,10".to_owned()];
    assert_eq!(lines(folder, "counts2.csv"), [&counts(20)[..], &rest].concat());
}
