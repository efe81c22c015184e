//! A durable source gets columns while an agent posts to it, the server is killed, and views and sinks read it: they have each
//! answered row once, as before. The agent's own count is what they are compared with.
#![cfg(unix)]

use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use crate::support::child::wait_until;
use crate::support::run::Run;
use crate::support::served::{Served, has_psql};
use crate::support::*;
use tidemill_testing::ports::free_port;
use tidemill_testing::sender::{LINE_PROTOCOL, Sender};

const ROWS_PER_REQUEST: u64 = 10;

/// Posts the rows 0, 1, ... with a second field, which the source does not have at first: so many requests as are `allowed`.
fn sender(listen: u16, requests: u64, allowed: &Arc<AtomicU64>) -> Sender {
    let allowed = Arc::clone(allowed);
    let line = |n: u64| format!("events n={n}i,half={}.5 1700000000000\n", n / 2);
    let bodies = (0..requests).map(move |request| {
        while request >= allowed.load(Ordering::SeqCst) {
            thread::sleep(Duration::from_millis(1));
        }
        (request * ROWS_PER_REQUEST..(request + 1) * ROWS_PER_REQUEST).map(line).collect::<String>()
    });
    Sender::start_as(LINE_PROTOCOL, listen, "agent", bodies)
}

#[test]
fn a_source_gets_columns_while_rows_come_and_the_server_is_killed() {
    if !has_psql() {
        return;
    }
    let folder = folder_with(&[]);
    let folder = folder.path();
    let mut server = Served::start(folder);
    let listen = free_port();
    let columns = "n BIGINT, time TIMESTAMP NOT NULL";
    let source = |columns: &str| {
        format!(
            "CREATE OR REPLACE SOURCE events ({columns})
                WITH (connector = 'line_protocol', listen = 'http://127.0.0.1:{listen}', durable = true)"
        )
    };
    let created = server.psql(&format!(
        "SET snapshot_every = '200 ms';
        {};
        CREATE MATERIALIZED VIEW total AS SELECT count(*) AS n, CAST(sum(n) AS BIGINT) AS s FROM events;
        CREATE MATERIALIZED VIEW each AS SELECT * FROM events;
        CREATE MATERIALIZED VIEW halted AS SELECT count(*) AS n FROM events;
        CREATE VIEW plain AS SELECT n + 1 AS m FROM events;
        CREATE MATERIALIZED VIEW above AS SELECT max(m) AS m FROM plain;
        CREATE SINK copy WITH (connector = 'file', path = 'copy.csv') AS SELECT n FROM events",
        source(columns)
    ));
    assert!(created.ends_with("CREATE SINK\n"), "{created}");
    // It has the journal keep all rows.
    server.psql("STOP MATERIALIZED VIEW halted");
    let requests = 240;
    let allowed = Arc::new(AtomicU64::new(60));
    let sender = sender(listen, requests, &allowed);
    let sums = |server: &Served| {
        let text = server.psql("SELECT n, s FROM total");
        let (n, s) = text.trim().split_once('|')?;
        let (n, s): (u64, u64) = (n.parse().ok()?, s.parse().ok()?);
        assert_eq!(s, n * n.saturating_sub(1) / 2, "the first {n} rows, each once");
        Some(n)
    };
    wait_until("the view has rows", || sums(&server).is_some_and(|n| n > 0));
    let answered_at = |count: u64| wait_until("requests are answered", || sender.answered() >= count);
    // What is refused ends nothing.
    answered_at(20);
    let refused = server.psql("ALTER SOURCE events ADD COLUMN half DOUBLE NOT NULL");
    assert!(
        refused.contains("'half' cannot be NOT NULL, because the rows that are there do not have it"),
        "{refused}"
    );
    answered_at(40);
    let before = sums(&server).unwrap();
    let added = server.psql("ALTER SOURCE events ADD COLUMN half DOUBLE");
    assert!(added.contains("source events has the column 'half' now"), "{added}");
    assert!(added.contains("continues: 'above', 'copy', 'each', 'total'"), "{added}");
    assert!(sums(&server).unwrap() >= before, "the rows are there at once");
    allowed.store(120, Ordering::SeqCst);
    answered_at(80);
    server.kill();
    server = Served::start(folder);
    answered_at(100);
    // The source as its script says it then: between two columns.
    let wider = "n BIGINT, later TEXT, time TIMESTAMP NOT NULL, half DOUBLE";
    let replaced = server.psql(&source(wider));
    assert_eq!(replaced, "CREATE SOURCE\n");
    assert_eq!(server.psql(&source(wider)), "CREATE SOURCE\n", "it says the same again");
    allowed.store(200, Ordering::SeqCst);
    server.kill();
    server = Served::start(folder);
    answered_at(160);
    server.kill();
    server = Served::start(folder);
    let columns = server.psql("DESCRIBE events");
    assert_eq!(columns, "n|BIGINT\nlater|VARCHAR\ntime|TIMESTAMP\nhalf|DOUBLE\n");
    let filled = server.psql(
        "CREATE MATERIALIZED VIEW halves WITH (start = 'earliest') AS SELECT n, half, later FROM events",
    );
    assert_eq!(filled, "CREATE MATERIALIZED VIEW\n");
    server.psql("START MATERIALIZED VIEW halted");
    allowed.store(requests, Ordering::SeqCst);
    sender.join();
    let sent = requests * ROWS_PER_REQUEST;
    for (query, answer) in [
        ("SELECT n, s FROM total", format!("{sent}|{}", sent * (sent - 1) / 2)),
        ("SELECT count(*), count(DISTINCT n) FROM each", format!("{sent}|{sent}")),
        ("SELECT n FROM halted", format!("{sent}")),
        ("SELECT m FROM above", format!("{sent}")),
        ("SELECT count(DISTINCT n) FROM halves", format!("{sent}")),
    ] {
        wait_until(query, || server.psql(query) == format!("{answer}\n"));
    }
    assert_eq!(
        server.psql("SELECT * FROM each WHERE n = 7").matches('|').count(),
        1,
        "the columns that it had"
    );
    // Rows of before have NULL, and none comes back: those with a value are the last ones, and have the right one.
    let first = server.psql("SELECT min(n) FROM halves WHERE half IS NOT NULL");
    let first: u64 = first.trim().parse().unwrap();
    assert!((40 * ROWS_PER_REQUEST..sent).contains(&first), "from {first} on");
    let with_value = format!("SELECT count(*) FROM halves WHERE half = n / 2 + 0.5 AND n >= {first}");
    assert_eq!(server.psql(&with_value), format!("{}\n", sent - first));
    assert_eq!(
        server.psql("SELECT count(*) FROM halves WHERE half IS NULL AND later IS NULL"),
        format!("{first}\n")
    );
    wait_until("the sink has every row", || rows_of(&folder.join("copy.csv")).len() as u64 == sent);
    let mut copied: Vec<u64> =
        rows_of(&folder.join("copy.csv")).iter().map(|row| row.parse().unwrap()).collect();
    copied.sort_unstable();
    assert_eq!(copied, (0..sent).collect::<Vec<_>>(), "each once");
    server.stop();
    let streams: Vec<_> = fs::read_dir(folder.join("tides/journal/streams")).unwrap().collect();
    assert_eq!(streams.len(), 1, "the source has one journal");
    ended(folder, &["journal", "verify", "tides/journal"]).expect(0);
}

/// Rows of a source that are looked at meanwhile end with a reason, and hold up nobody.
#[test]
fn who_looks_at_the_rows_of_a_source_is_told_that_it_gets_columns() {
    if !has_psql() {
        return;
    }
    let folder = folder_with(&[]);
    let server = Served::start(folder.path());
    server.psql(
        "CREATE SOURCE s (n BIGINT) WITH (connector = 'push', durable = true);
        CREATE MATERIALIZED VIEW total AS SELECT count(*) AS n FROM s",
    );
    let port = server.port.clone();
    let looking = thread::spawn(move || crate::support::served::psql(&port, "SELECT n FROM s LIMIT 100"));
    wait_until("somebody looks", || {
        server.psql("INSERT INTO s VALUES (1)");
        !looking.is_finished() && server.psql("SELECT n >= 3 FROM total") == "t\n"
    });
    thread::sleep(Duration::from_millis(500));
    server.psql("ALTER SOURCE s ADD COLUMN m BIGINT");
    let told = looking.join().unwrap();
    assert!(told.contains("source 's' was given columns while the query read it; run it again"), "{told}");
    server.psql("INSERT INTO s VALUES (1, 2)");
    let count =
        |server: &Served| server.psql("SELECT n FROM total").trim().parse::<u64>().unwrap_or_default();
    wait_until("the view goes on", || count(&server) >= 4);
    // What has no journal cannot continue.
    let refused = server.psql(
        "CREATE SOURCE v (n BIGINT) WITH (connector = 'push');
        CREATE MATERIALIZED VIEW of_v AS SELECT count(*) AS n FROM v;
        ALTER SOURCE v ADD COLUMN m BIGINT",
    );
    assert!(refused.contains("'of_v' reads 'v', whose rows are not kept"), "{refused}");
}

/// A script is run again with a column more: a file is followed, and its lines have the column from some line on.
#[test]
fn a_durable_script_gets_a_column() {
    let script = |columns: &str| {
        format!(
            "CREATE SOURCE f ({columns}) WITH (path = 'in.jsonl', follow = true, durable = true);\n\
             SET snapshot_every = '20 ms';\n\
             CREATE SINK out AS SELECT a FROM f WITH (connector = 'file', path = 'out.csv');\n"
        )
    };
    let folder = folder_with(&[("p.sql", &script("a BIGINT")), ("in.jsonl", "")]);
    let folder = folder.path();
    let append = |line: &str| {
        let mut file = OpenOptions::new().append(true).open(folder.join("in.jsonl")).unwrap();
        writeln!(file, "{line}").unwrap();
    };
    let run_until = |rows: &[&str]| {
        let mut run = Run::begin(folder);
        run.wait_until("the rows are there", || rows_of(&folder.join("out.csv")) == rows);
        run.kill();
    };
    append("{\"a\": 1}");
    run_until(&["1"]);
    append("{\"a\": 2, \"b\": 0.5}");
    fs::write(folder.join("p.sql"), script("b DOUBLE, a BIGINT")).unwrap();
    run_until(&["1", "2"]);
    append("{\"a\": 3, \"b\": 1.5}");
    run_until(&["1", "2", "3"]);
    let shown = ended(folder, &["journal", "show", "p.journal", "--stream", "f"]).expect(0);
    shown.shows(&["0.5", "1.5"]);
    fs::write(folder.join("p.sql"), script("b DOUBLE, a BIGINT, c TEXT NOT NULL")).unwrap();
    ended(folder, &["run", "p.sql"])
        .tells(&["declare 'c' without NOT NULL, because the rows that are there do not have it"]);
}
