//! `--strict`: a row that cannot be used ends the query, with exit code 2.
#![cfg(feature = "sql")]

mod support;

use std::fs;

use support::child::{end, start, wait_until};
use support::*;

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
            .tells(&["1 row could not be used and was left out", why]);
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
    ended(folder, &["run", "p.sql"]).expect(0).tells(&["1 row could not be used and was left out"]);
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
