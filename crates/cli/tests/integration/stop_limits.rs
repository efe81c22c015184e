//! How long an end in order may take, by what was asked for and by whom: Ctrl-C, `systemctl stop`, `--stop-within`.
#![cfg(all(unix, feature = "sql"))]

use tidemill_testing::postgres::Server;

use std::fs::{self, File};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use crate::support::child::{end, signal, start, wait_until};
use crate::support::run::log;
use crate::support::*;
use tidemill_testing::ports::free_port;
use tidemill_testing::sender::Sender;

/// Minutes of work in one cycle, which nothing interrupts. Each row compares almost as much as a row may.
const LONG: &str = "CREATE SINK out AS SELECT value, \
    levenshtein(repeat('x', 19000 + CAST(value AS INT)), repeat('y', 19000)) AS steps \
    FROM sequence(1000) WITH (path = 'out.csv');";

/// The processor time that a child has used so far, in hundredths of a second (`man 5 proc`, field 14 of `stat`).
fn processor_ticks(child: &Child) -> u64 {
    let stat = fs::read_to_string(format!("/proc/{}/stat", child.id())).expect("it runs");
    let behind_name = stat.rsplit_once(") ").expect("its name is in parentheses").1;
    behind_name.split(' ').nth(11).expect("a field of stat").parse().expect("a number")
}

#[test]
fn a_long_computation_ends_within_the_limit_that_was_given() {
    for name in ["INT", "TERM"] {
        let folder = folder_with(&[("p.sql", LONG)]);
        let child = start(tidemill(folder.path(), &["run", "p.sql", "--stop-within", "1 second"]));
        wait_until("it has computed for a while", || processor_ticks(&child) > 200);
        signal(&child, name);
        end(child).expect(130).tells(&["the query did not end within 1 s", "--stop-within"]);
    }
}

#[test]
fn who_asks_twice_does_not_wait() {
    let folder = folder_with(&[("p.sql", LONG)]);
    let child = start(tidemill(folder.path(), &["run", "p.sql", "--stop-within", "1 hour"]));
    wait_until("it has computed for a while", || processor_ticks(&child) > 200);
    signal(&child, "TERM");
    // What comes at once is the same request.
    std::thread::sleep(Duration::from_millis(1500));
    signal(&child, "TERM");
    let ended = end(child).expect(130);
    assert!(!ended.stderr.contains("did not end"), "{}", ended.stderr);
}

/// `timeout` signals its child, and then the whole group of processes, of which the child is one.
#[test]
fn a_signal_to_the_process_and_to_its_group_ends_it_in_order() {
    let script = "CREATE SINK out AS SELECT value FROM sequence(rate => 2000) \
        WITH (path = 'out.parquet', overwrite = true);";
    let folder = folder_with(&[("p.sql", script)]);
    let binary = env!("CARGO_BIN_EXE_tidemill");
    for run in 0..8 {
        let mut command = std::process::Command::new("timeout");
        command.args(["--signal=TERM", "2", binary, "run", "p.sql"]).current_dir(folder.path());
        let ended = end(start(command));
        // `timeout` itself says 124.
        assert_eq!(ended.code, Some(124), "run {run}: {ended:?}");
        assert!(ended.stderr.contains(" rows out in "), "run {run}: no summary: {ended:?}");
        assert!(!folder.path().join("out.parquet.partial").exists(), "run {run}");
        let bytes = fs::read(folder.path().join("out.parquet")).expect("the file is complete");
        assert!(bytes.starts_with(b"PAR1") && bytes.ends_with(b"PAR1"), "run {run}");
    }
}

#[test]
fn a_limit_must_be_one() {
    let folder = folder_with(&[("p.sql", LONG)]);
    for limit in ["soon", "0 s", "-1 s"] {
        ended(folder.path(), &["run", "p.sql", &format!("--stop-within={limit}")])
            .expect(2)
            .tells(&["--stop-within"]);
    }
}

fn script(port: u16, url: &str) -> String {
    format!(
        "CREATE SOURCE m (n BIGINT) WITH (connector = 'line_protocol', listen = 'http://127.0.0.1:{port}', \
         durable = true);\n\
         CREATE SINK t AS SELECT n FROM m WITH (connector = 'postgres', url = '{url}', table = 't');\n"
    )
}

fn bodies(from: u64, to: u64) -> Vec<String> {
    (from..to).map(|n| format!("m n={n}i\n")).collect()
}

fn begin(folder: &Path, arguments: &[&str]) -> Child {
    let log = File::options().create(true).append(true).open(folder.join("log")).unwrap();
    tidemill(folder, arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).spawn().unwrap()
}

fn listens(port: u16) {
    wait_until("it listens", || TcpStream::connect(("127.0.0.1", port)).is_ok());
}

/// Posts six rows, which are answered. The database crashes when it has three of them.
fn post_around_a_crash(port: u16, server: &Server) {
    listens(port);
    Sender::start(port, "first", bodies(0, 3)).join();
    wait_until("the table has all", || server.query("SELECT count(*) FROM t") == "3");
    server.crash();
    Sender::start(port, "second", bodies(3, 6)).join();
}

/// Waits until the table has the six rows, each once.
fn has_all(server: &Server) {
    wait_until("the table has all", || server.query("SELECT count(*), sum(n) FROM t") == "6|15");
}

#[test]
fn a_unit_that_is_stopped_while_the_database_restarts_ends_in_order() {
    let Some(server) = Server::start() else { return };
    let port = free_port();
    let folder = folder_with(&[("p.sql", &script(port, &server.url()))]);
    let folder = folder.path();
    let mut child = begin(folder, &["run", "p.sql"]);
    post_around_a_crash(port, &server);
    wait_until("the log reports it", || log(folder).contains("a commit to PostgreSQL failed"));
    let asked = Instant::now();
    signal(&child, "TERM");
    // Longer than after Ctrl-C: nobody waits at a terminal.
    wait_until("Ctrl-C would be over", || {
        assert!(child.try_wait().unwrap().is_none(), "{}", log(folder));
        asked.elapsed() > Duration::from_secs(7)
    });
    server.resume();
    assert_eq!(child.wait().unwrap().code(), Some(130), "{}", log(folder));
    assert!(log(folder).contains("interrupted; everything taken in before is answered"), "{}", log(folder));
    assert_eq!(server.query("SELECT count(*), sum(n) FROM t"), "6|15");
    // It ended with a snapshot, so there is nothing to compute again.
    let child = begin(folder, &["run", "p.sql"]);
    listens(port);
    wait_until("it says where it resumes", || {
        log(folder).contains("0 events in the journal after it, 0 cycles")
    });
    signal(&child, "TERM");
    end(child).expect(130);
}

#[test]
fn a_stop_that_cannot_wait_for_the_database_loses_nothing() {
    let Some(server) = Server::start() else { return };
    let port = free_port();
    let folder = folder_with(&[("p.sql", &script(port, &server.url()))]);
    let folder = folder.path();
    let child = begin(folder, &["run", "p.sql", "--stop-within", "500 ms"]);
    post_around_a_crash(port, &server);
    signal(&child, "TERM");
    end(child).expect(130);
    assert!(log(folder).contains("the query did not end within 500ms"), "{}", log(folder));
    server.resume();
    let child = begin(folder, &["run", "p.sql"]);
    has_all(&server);
    signal(&child, "TERM");
    end(child).expect(130);
}

#[test]
fn a_server_does_not_wait_for_ever() {
    let Some(server) = Server::start() else { return };
    let (port, listen) = (free_port(), free_port());
    let folder = folder_with(&[]);
    let folder = folder.path();
    let address = format!("127.0.0.1:{listen}");
    let serve = ["serve", "--data", "data", "--http", "off", "--listen", &address];
    let child = begin(folder, &[&serve[..], &["--stop-within", "1 s"]].concat());
    wait_until("it serves", || log(folder).contains("accepts PostgreSQL clients"));
    for statement in script(port, &server.url()).split(";\n").filter(|text| !text.is_empty()) {
        server.execute_at(listen, statement);
    }
    post_around_a_crash(port, &server);
    signal(&child, "TERM");
    end(child).expect(130);
    assert!(log(folder).contains("the server did not end within 1 s"), "{}", log(folder));
    server.resume();
    let child = begin(folder, &serve);
    has_all(&server);
    signal(&child, "TERM");
    end(child).expect(0);
}
