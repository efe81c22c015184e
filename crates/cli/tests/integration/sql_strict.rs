//! `--strict`: a row that cannot be used ends the query, with exit code 2.
#![cfg(feature = "sql")]

use std::fs;
use std::io::Write as _;

use crate::support::child::{end, start, wait_until};
use crate::support::*;

const BAD: &str = "n\n1\nx\n3\n";
const SOURCE: &str = "CREATE SOURCE s (n BIGINT) WITH (path = 'bad.csv');";

#[test]
fn a_row_that_cannot_be_read_or_computed_ends_a_query() {
    let folder = folder_with(&[("bad.csv", BAD), ("good.csv", "n\n1\n")]);
    let folder = folder.path();
    let queries = [
        (format!("{SOURCE} SELECT n FROM s"), "bad.csv, line 3: column 'n'"),
        (format!("{SOURCE} SELECT sum(n) FROM s"), "bad.csv, line 3: column 'n'"),
        (format!("{SOURCE} EXPLAIN ANALYZE SELECT n FROM s"), "bad.csv, line 3: column 'n'"),
        ("SELECT 10 / (value - 1) FROM sequence(4)".to_owned(), "Divide by zero"),
    ];
    for (query, why) in &queries {
        ended(folder, &["sql", "-c", query])
            .expect(0)
            .tells(&["1 row could not be used and was skipped", why]);
        let refused = ended(folder, &["sql", "--strict", "-c", query]).expect(2);
        refused.tells(&["error: 1 row could not be used, which --strict does not allow:", why]);
    }
    // A wrong answer is not shown.
    let sum = ended(folder, &["sql", "--strict", "-c", &queries[1].0]);
    assert_eq!(sum.stdout, "");
    let piped =
        ended_with_input(folder, &["sql", "--strict"], &format!("{};\nSELECT 1 AS one;\n", queries[0].0));
    piped.expect(2).shows(&["one"]);
    ended(folder, &["sql", "--strict", "-c", "SELECT n FROM 'good.csv'"]).expect(0);
}

#[test]
fn a_pipeline_ends_in_order_at_a_row_that_cannot_be_used() {
    let sink = format!("{SOURCE} CREATE SINK out AS SELECT n FROM s WITH (path = 'out.csv')");
    let folder = folder_with(&[("bad.csv", BAD), ("p.sql", &sink)]);
    let folder = folder.path();
    ended(folder, &["run", "--strict", "p.sql"]).expect(2).tells(&[
        "--strict",
        "bad.csv, line 3",
        "rows in,",
    ]);
    assert_eq!(fs::read_to_string(folder.join("out.csv")).unwrap(), "n\n1\n3\n");
    fs::remove_file(folder.join("out.csv")).unwrap();
    ended(folder, &["run", "p.sql"]).expect(0).tells(&["1 row could not be used and was skipped"]);
}

#[test]
fn an_endless_source_is_stopped_by_a_bad_row() {
    let endless = "CREATE SOURCE s (n BIGINT) WITH (path = 'grows.csv', follow = true); \
                   CREATE SINK out AS SELECT n FROM s WITH (path = 'out.csv')";
    let folder = folder_with(&[("grows.csv", "n\n1\n"), ("p.sql", endless)]);
    let folder = folder.path();
    let child = start(tidemill(folder, &["run", "--strict", "p.sql"]));
    wait_until("there is a row", || {
        fs::read_to_string(folder.join("out.csv")).is_ok_and(|text| text == "n\n1\n")
    });
    fs::write(folder.join("grows.csv"), "n\n1\nx\n").unwrap();
    end(child).expect(2).tells(&["--strict", "'x'"]);
}

#[test]
fn help_names_strict_only_where_it_is() {
    let folder = folder_with(&[]);
    let help = |words: &[&str]| {
        let arguments: Vec<&str> = words.iter().copied().chain(["--help"]).collect();
        ended(folder.path(), &arguments).expect(0).stdout
    };
    for command in [vec!["sql"], vec!["run"], vec!["journal", "replay"], vec!["linear-road", "run"]] {
        let help = help(&command);
        assert!(help.contains("--strict") && help.contains("Exit codes:") && help.contains("130"), "{help}");
    }
    for command in
        [vec!["explain"], vec!["validate"], vec!["journal", "verify"], vec!["linear-road", "check"]]
    {
        let help = help(&command);
        assert!(!help.contains("\n      --strict"), "{help}");
    }
}

const TOTALS: &str = "CREATE SOURCE s (ts TIMESTAMP NOT NULL, n BIGINT, WATERMARK FOR ts AS ts - INTERVAL '1 second') \
                      WITH (path = 'large.csv', follow = FOLLOW); \
                      CREATE SINK out AS SELECT window_start, sum(n) AS total \
                      FROM tumble(TABLE(s), ts, INTERVAL '10 seconds') GROUP BY window_start WITH (path = 'out.csv');";
/// Two numbers whose sum does not fit, and one behind their window.
const LARGE: &str =
    "ts,n\n2026-01-01T00:00:01,9223372036854775807\n2026-01-01T00:00:02,1\n2026-01-01T00:00:30,1\n";
const NULL_RESULT: &str = "1 result could not be computed, which --strict does not allow";

#[test]
fn a_result_that_does_not_fit_ends_a_pipeline() {
    let script = TOTALS.replace("FOLLOW", "false");
    let folder = folder_with(&[("large.csv", LARGE), ("p.sql", &script)]);
    ended(folder.path(), &["run", "p.sql"]).expect(0).tells(&["1 result could not be computed and is NULL"]);
    fs::remove_file(folder.path().join("out.csv")).unwrap();
    ended(folder.path(), &["run", "--strict", "p.sql"])
        .expect(2)
        .tells(&[NULL_RESULT, "is NULL for window_start"]);
}

#[test]
fn what_runs_in_the_background_is_watched() {
    let script = TOTALS.replace("FOLLOW", "true");
    let folder = folder_with(&[("large.csv", LARGE)]);
    let mut child = start(tidemill(folder.path(), &["sql", "--strict"]));
    let mut input = child.stdin.take().unwrap();
    input.write_all(format!("{script}\n\\start\n").as_bytes()).unwrap();
    let out = folder.path().join("out.csv");
    wait_until("the window is written", || {
        fs::read_to_string(&out).is_ok_and(|text| text.lines().count() > 1)
    });
    input.write_all(b"SELECT 1 AS one;\n").unwrap();
    drop(input);
    let ended = end(child).expect(2).shows(&["one"]);
    ended.tells(&[NULL_RESULT]);
}
