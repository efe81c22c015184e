//! `tidemill journal why`: the rows that it names, run alone by the query over files, give the answer; without any one of them they
//! give another. The runs share nothing with the replays by which the rows are found.

use std::fs;
use std::path::Path;

use crate::support::*;
use tidemill_testing::random::Random;

/// Rows of the source as lines of CSV; the number of a line is the position of its row.
type Rows = Vec<String>;

/// Definition of the source over a file in a folder.
fn source(options: &str) -> String {
    format!(
        "CREATE SOURCE visits (at TIMESTAMP, who VARCHAR, clicks BIGINT, WATERMARK FOR at AS at)
             WITH (path = 'visits.csv'{options});"
    )
}

fn random_rows(random: &mut Random) -> Rows {
    let row = |second| format!("2026-03-01 12:00:{second:02},u{},{}", random.below(4), random.below(6));
    (0..40).map(row).collect()
}

fn write(folder: &Path, rows: &Rows) {
    let lines: String = rows.iter().map(|row| format!("{row}\n")).collect();
    fs::write(folder.join("visits.csv"), format!("at,who,clicks\n{lines}")).unwrap();
}

/// The answer of a query to these rows, by a run over a file; its lines in a defined order.
fn answer(rows: &Rows, view: &str, condition: &str) -> Vec<String> {
    let folder = folder_with(&[]);
    write(folder.path(), rows);
    let script = format!("{} CREATE VIEW v AS {view}; SELECT * FROM v WHERE {condition}", source(""));
    let text = ended(folder.path(), &["sql", "--format", "csv", "-c", &script]).expect(0).stdout;
    let mut lines: Vec<String> = text.lines().skip(1).map(str::to_owned).collect();
    lines.sort();
    lines
}

/// The rows that are named, each on a line that begins with its position.
fn named(shown: &str, rows: &Rows) -> Rows {
    let (_, made_by) = shown.split_once("made by ").unwrap();
    let positions = made_by.lines().filter_map(|line| line.split_once('|')?.0.trim().parse::<usize>().ok());
    positions.map(|position| rows[position].clone()).collect()
}

#[test]
fn the_rows_that_are_named_alone_give_the_answer_and_not_without_any_one_of_them() {
    let first = "SELECT who, at FROM (
                     SELECT who, at, row_number() OVER (PARTITION BY who ORDER BY clicks DESC, at) AS place FROM visits
                 ) t WHERE place = 1";
    let pairs = "SELECT a.who AS who, a.at AS first, b.at AS next FROM visits a JOIN visits b
                 ON a.who = b.who AND b.at > a.at AND b.at <= a.at + INTERVAL '4 seconds'";
    let views = [
        ("SELECT who, count(*) AS n, sum(clicks) AS clicks FROM visits GROUP BY who", "who = 'u1'"),
        ("SELECT who, max(clicks) AS best FROM visits GROUP BY who", "who = 'u2'"),
        (
            "SELECT n, count(*) AS users FROM (SELECT who, count(*) AS n FROM visits GROUP BY who) t GROUP BY n",
            "n > 8",
        ),
        ("SELECT DISTINCT clicks FROM visits WHERE clicks > 1", "clicks < 5"),
        (first, "who = 'u0'"),
        (pairs, "who = 'u3'"),
    ];
    let seed = 4711;
    let mut random = Random::new(seed);
    for (view, condition) in views {
        let rows = random_rows(&mut random);
        let expected = answer(&rows, view, condition);
        let folder = folder_with(&[]);
        write(folder.path(), &rows);
        let script = format!("{} CREATE MATERIALIZED VIEW v AS {view};", source(", durable = true"));
        fs::write(folder.path().join("p.sql"), script).unwrap();
        ended(folder.path(), &["run", "p.sql"]).expect(0);
        let look = format!("SELECT * FROM v WHERE {condition}");
        let why =
            ended(folder.path(), &["journal", "why", "p.journal", "--script", "p.sql", "--look", &look]);
        let shown = why.expect(0).shows(&["without any one of them it is another"]).stdout;
        let named = named(&shown, &rows);
        assert_eq!(answer(&named, view, condition), expected, "seed {seed}, {view}: {named:?}");
        for left_out in 0..named.len() {
            let mut rest = named.clone();
            let row = rest.remove(left_out);
            assert_ne!(
                answer(&rest, view, condition),
                expected,
                "seed {seed}, {view}: without {row} of {named:?}"
            );
        }
    }
}

/// Rows that were too late are named apart: they have the key, and changed nothing.
#[test]
fn rows_that_changed_nothing_are_named_and_cycles_of_the_past_are_explained() {
    let rows = "at,who\n2026-03-01 12:00:01,ann\n2026-03-01 12:00:02,bob\n2026-03-01 12:05:00,ann\n\
                2026-03-01 12:00:03,ann\n2026-03-01 12:09:00,bob\n";
    let script = "SET cycle_events = 1; SET cycle_fixed = true;
        CREATE SOURCE visits (at TIMESTAMP, who VARCHAR, WATERMARK FOR at AS at - INTERVAL '1 second')
            WITH (path = 'visits.csv', durable = true);
        CREATE MATERIALIZED VIEW minutes AS SELECT window_start, who, count(*) AS n
            FROM tumble(TABLE(visits), at, INTERVAL '1 minute') GROUP BY window_start, who;
        CREATE MATERIALIZED VIEW totals AS SELECT count(*) AS n FROM visits;";
    let folder = folder_with(&[("visits.csv", rows), ("p.sql", script)]);
    let folder = folder.path();
    ended(folder, &["run", "p.sql"]).expect(0);
    let why = |look: &str, more: &[&str]| {
        let all = [&["journal", "why", "p.journal", "--script", "p.sql", "--look", look], more].concat();
        ended(folder, &all)
    };
    let look = "SELECT * FROM minutes WHERE who = 'ann' AND window_start < '2026-03-01 12:01:00'";
    why(look, &[]).expect(0).shows(&["made by 1 row of visits", "changed nothing, at 2..3"]);
    let both =
        why("SELECT n FROM totals", &["--to-cycle", "1"]).expect(0).shows(&["made by 2 rows of visits"]);
    assert!(both.stderr.contains("as of cycle 1"), "{}", both.stderr);
    why("SELECT n FROM totals", &["--replays-max", "2"]).expect(0).shows(&["a larger --replays-max"]);
    let refused = |look: &str, more: &[&str], reason: &str| {
        let stderr = why(look, more).expect(2).stderr;
        assert!(stderr.contains(reason), "{look}: {stderr}");
    };
    refused("SELECT n FROM totals WHERE n > 100", &[], "the answer has no rows");
    refused("SELECT n FROM nowhere", &[], "nowhere");
    refused("SELECT n FROM totals; SELECT 1", &[], "one query can be explained at a time");
    refused("CREATE VIEW w AS SELECT 1", &[], "only the answer of a query");
    refused("SELECT n FROM totals", &["--format", "csv"], "--format table");
}

/// Over psql: a view is explained from where it began on, although snapshots were taken since, and its server was killed.
#[cfg(unix)]
#[test]
fn a_server_explains_its_views_from_where_they_began() {
    use crate::support::child::wait_until;
    use crate::support::served::{Served, has_psql};
    use tidemill_testing::ports::free_port;
    use tidemill_testing::sender::Sender;

    if !has_psql() {
        return;
    }
    let folder = folder_with(&[]);
    let folder = folder.path();
    let (listen, mut server) = (free_port(), Served::start(folder));
    server.psql(&format!(
        "SET snapshot_every = '20 ms';
         CREATE SOURCE events (n BIGINT, time TIMESTAMP NOT NULL) WITH (connector = 'line_protocol',
             listen = 'http://127.0.0.1:{listen}', durable = true, retain = '10 MB');
         CREATE MATERIALIZED VIEW totals AS SELECT n % 3 AS key, count(*) AS rows FROM events GROUP BY n % 3;
         CREATE VIEW keys AS SELECT key FROM totals WHERE rows >= 2"
    ));
    let post = |client, numbers: std::ops::Range<u64>| {
        let bodies = numbers.map(|n| format!("events n={n}i 1700000000000\n"));
        Sender::start(listen, client, bodies.collect()).join();
    };
    let wait_for = |server: &Served, query: &str, answer: &str| {
        wait_until("the view has every row", || server.psql(query) == answer);
    };
    post("first", 0..6);
    wait_for(&server, "SELECT sum(rows) FROM totals", "6\n");
    server.psql("CREATE MATERIALIZED VIEW later AS SELECT count(*) AS rows FROM events");
    post("second", 6..9);
    wait_for(&server, "SELECT rows FROM later", "3\n");
    let check = |server: &Served| {
        let why = |query: &str| server.psql(&format!("EXPLAIN WHY {query}"));
        let explained = why("SELECT rows FROM totals WHERE key = 1");
        let needed: Vec<&str> = explained.lines().collect();
        let row = |position: u64| {
            format!("events|{position}|needed|{{\"n\":{position},\"time\":\"2023-11-14T22:13:20\"}}")
        };
        assert_eq!(needed, [1, 4, 7].map(row), "{explained}");
        assert_eq!(why("SELECT * FROM later").lines().collect::<Vec<_>>(), [6, 7, 8].map(row));
        assert_eq!(why("SELECT * FROM keys WHERE key = 2").lines().count(), 2, "two rows make it a key");
    };
    check(&server);
    server.kill();
    let server = Served::start(folder);
    check(&server);
    for (query, reason) in [
        ("SELECT * FROM later WHERE rows = 0", "the answer has no rows"),
        ("SELECT * FROM later, totals", "ask for one of them at a time"),
        ("SELECT 1", "reads no materialized view that runs"),
        ("SHOW QUERIES", "expected a query whose answer is explained"),
    ] {
        let refused = server.psql(&format!("EXPLAIN WHY {query}"));
        assert!(refused.contains(reason), "{query}: {refused}");
    }
}
