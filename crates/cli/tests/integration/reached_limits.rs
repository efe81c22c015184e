//! A query that has reached `max_groups` stops at every start, and continues where it was: with a larger limit, or without the rows.
#![cfg(unix)]

use std::fs;

use crate::support::child::wait_until;
use crate::support::run::Run;
use crate::support::served::{Served, has_psql};
use crate::support::*;

#[test]
fn a_view_goes_on_with_a_larger_limit() {
    if !has_psql() {
        return;
    }
    let folder = folder_with(&[]);
    let mut server = Served::start(folder.path());
    server.psql(
        "CREATE SOURCE s (n BIGINT) WITH (connector = 'push', durable = true);
        CREATE MATERIALIZED VIEW total AS SELECT count(*) AS n FROM s",
    );
    let limits = "SET partitions = 1; SET max_groups = 3";
    server.psql(&format!(
        "{limits}; CREATE MATERIALIZED VIEW each AS SELECT n, count(*) AS c FROM s GROUP BY n"
    ));
    server.psql("INSERT INTO s VALUES (1), (2), (3), (3)");
    wait_until("the rows are there", || server.psql("SELECT count(*) FROM each") == "3\n");
    server.psql("INSERT INTO s VALUES (3), (4), (5)");
    let has_failed = |server: &Served| {
        let queries = server.psql("SHOW QUERIES");
        queries.contains("each|failed") && {
            assert!(queries.contains("more than 3 groups in one partition"), "{queries}");
            assert!(queries.contains("To continue where it was, SET max_groups to more"), "{queries}");
            true
        }
    };
    wait_until("it has failed", || has_failed(&server));
    server.kill();
    server = Served::start(folder.path());
    wait_until("it fails again", || has_failed(&server));
    // Others continue.
    server.psql("INSERT INTO s VALUES (6), (1)");
    wait_until("the other has the rows", || server.psql("SELECT n FROM total") == "9\n");
    let started = server.psql("SET max_groups = 100; START MATERIALIZED VIEW each");
    assert!(started.contains("'each' continues"), "{started}");
    let rows = "1|2\n2|1\n3|3\n4|1\n5|1\n6|1\n";
    wait_until("it has all rows", || server.psql("SELECT n, c FROM each ORDER BY n") == rows);
    server.kill();
    server = Served::start(folder.path());
    wait_until("the limit stays", || server.psql("SELECT n, c FROM each ORDER BY n") == rows);
}

/// Groups of a window: it is written once time has passed it. The row that takes time there is in no group.
fn script(limit: usize) -> String {
    format!(
        "SET partitions = 1;\nSET max_groups = {limit};\nSET snapshot_every = '20 ms';\n\
         CREATE SOURCE f (n BIGINT, at TIMESTAMP, WATERMARK FOR at)\n\
           WITH (path = 'in.csv', follow = true, durable = true);\n\
         CREATE SINK out AS SELECT n, count(*) AS c FROM tumble(TABLE(f), at, INTERVAL '1 hour')\n\
           WHERE n > 0 GROUP BY window_start, n WITH (connector = 'file', path = 'out.csv');\n"
    )
}

const ROWS: &str = "n,at\n1,2026-01-01 00:00:00\n2,2026-01-01 00:00:01\n1,2026-01-01 00:00:02\n3,2026-01-01 00:00:03\n\
                    0,2026-01-01 02:00:00\n";

#[test]
fn a_script_goes_on_with_a_larger_limit_or_without_the_row() {
    for skips in [false, true] {
        let folder = folder_with(&[("p.sql", &script(2)), ("in.csv", ROWS)]);
        let folder = folder.path();
        for _ in 0..2 {
            ended(folder, &["run", "p.sql"]).expect(1);
        }
        let told = ended(folder, &["run", "p.sql"]).expect(1);
        let told = told.tells(&[
            "more than 2 groups",
            "To continue where it was, SET max_groups to more",
            "journal skip",
        ]);
        let rows = if skips {
            // The rows of the cycle are named, of which one is one too many.
            assert!(told.stderr.contains("--stream f --positions "), "{}", told.stderr);
            ended(folder, &["journal", "skip", "p.journal", "p.sql", "--stream", "f", "--positions", "3"])
                .expect(0);
            "1,2\n2,1\n"
        } else {
            fs::write(folder.join("p.sql"), script(3)).unwrap();
            "1,2\n2,1\n3,1\n"
        };
        let mut run = Run::begin(folder);
        run.wait_until("the window is written", || !rows_of(&folder.join("out.csv")).is_empty());
        run.kill();
        let mut written = rows_of(&folder.join("out.csv"));
        written.sort();
        assert_eq!(written.join("\n") + "\n", rows);
    }
}
