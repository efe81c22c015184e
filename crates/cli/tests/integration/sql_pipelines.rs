//! `tidemill run`, `explain` and `validate`: scripts, their sinks, and what is wrong with them.
#![cfg(feature = "sql")]

use std::fs;

use crate::support::*;

const SOURCE: &str = "CREATE SOURCE clicks (ts TIMESTAMP, campaign VARCHAR, user_id BIGINT,\n  WATERMARK FOR ts AS ts \
                      - INTERVAL '5 seconds') WITH (path = 'clicks.csv');\n";
const COUNTS: &str = "CREATE VIEW counts AS SELECT window_start, campaign, count(*) AS n\n  FROM tumble(TABLE(clicks), \
                      ts, INTERVAL '10 seconds') GROUP BY window_start, campaign;\n";
const SINK: &str = "CREATE SINK out FROM counts WITH (path = 'out.csv', max_latency = '10 minutes');\n";

fn pipeline() -> String {
    format!("{SOURCE}{COUNTS}{SINK}")
}

#[test]
fn a_pipeline_writes_its_file_and_sums_up() {
    let folder = folder_with(&[("clicks.csv", CLICKS), ("p.sql", &pipeline())]);
    let folder = folder.path();
    let run = ended(folder, &["run", "p.sql"]).expect(0);
    run.tells(&[
        "running out",
        "4 rows in, 3 rows out",
        "rows/s",
        "p99",
        "answered within max_latency (600 s)",
    ]);
    let mut lines: Vec<String> =
        fs::read_to_string(folder.join("out.csv")).unwrap().lines().map(str::to_owned).collect();
    lines.sort();
    let expected = ["2026-01-01 00:00:00,a,2", "2026-01-01 00:00:00,b,1", "2026-01-01 00:00:10,a,1"];
    assert_eq!(lines, [&expected[..], &["window_start,campaign,n"]].concat());

    // Once more: the file is there, and stays as it is.
    let refused = ended(folder, &["run", "p.sql"]).expect(2);
    refused.tells(&["out.csv", "overwrite"]);
    assert_eq!(fs::read_to_string(folder.join("out.csv")).unwrap().lines().count(), 4);
}

#[test]
fn a_run_that_cannot_start_leaves_the_result_that_it_would_overwrite() {
    for (options, output) in [
        ("path = 'out.csv'", "out.csv"),
        ("path = 'out.parquet'", "out.parquet"),
        ("connector = 'directory', path = 'out', format = 'csv', rows_max = 1", "out"),
    ] {
        let script = |input: &str| {
            let source = SOURCE.replace("clicks.csv", input);
            format!("{source}{COUNTS}CREATE SINK out FROM counts WITH ({options}, overwrite = true);\n")
        };
        let folder = folder_with(&[("clicks.csv", CLICKS), ("p.sql", &script("clicks.csv"))]);
        let folder = folder.path();
        let content = || {
            let path = folder.join(output);
            let is_folder = path.is_dir();
            let mut files: Vec<_> = if is_folder {
                fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()).collect()
            } else {
                vec![path]
            };
            files.sort();
            files.into_iter().map(|path| (fs::read(&path).unwrap(), path)).collect::<Vec<_>>()
        };
        ended(folder, &["run", "p.sql"]).expect(0);
        let before = content();
        for is_durable in [false, output != "out.parquet"] {
            let journal = if is_durable { "SET journal = 'journal';\n" } else { "" };
            fs::write(folder.join("wrong.sql"), format!("{journal}{}", script("clocks.csv"))).unwrap();
            ended(folder, &["run", "wrong.sql"]).expect(2).tells(&["clocks.csv"]);
            assert_eq!(content(), before, "{is_durable}");
        }
        ended(folder, &["run", "p.sql"]).expect(0);
        assert_eq!(content().len(), before.len());
    }
}

#[test]
fn what_a_sink_is_about_to_overwrite_cannot_be_read() {
    for (options, input) in [
        ("path = 'rows.csv'", "rows.csv"),
        ("path = 'rows.csv'", "./*.csv"),
        ("connector = 'directory', path = 'out', format = 'csv'", "out"),
    ] {
        let numbers: String = (0..100_000).map(|number| format!("{number}\n")).collect();
        let rows = format!("number\n{numbers}");
        let script = format!(
            "CREATE SINK out AS SELECT number + 1 AS number FROM '{input}' WITH ({options}, overwrite = true);\n"
        );
        let folder = folder_with(&[("rows.csv", &rows), ("p.sql", &script)]);
        let folder = folder.path();
        fs::create_dir(folder.join("out")).unwrap();
        let part = folder.join(format!("out/part-{:020}-{:020}.csv", 0, 1));
        fs::write(&part, &rows).unwrap();
        ended(folder, &["run", "p.sql"]).expect(2).tells(&["about to overwrite", "write to another file"]);
        assert_eq!(fs::read_to_string(folder.join("rows.csv")).unwrap(), rows, "{input}");
        assert_eq!(fs::read_to_string(part).unwrap(), rows, "{input}");
    }
}

#[test]
fn late_rows_are_counted_with_the_way_to_have_them() {
    let late = format!("{CLICKS}2026-01-01T00:00:01,a,9\n");
    let folder = folder_with(&[("clicks.csv", &late), ("p.sql", &pipeline())]);
    ended(folder.path(), &["run", "p.sql"]).expect(0).tells(&[
        "1 row came too late and was excluded from every result, with or without windows",
        "late(TABLE(source))",
        "WATERMARK FOR",
    ]);
}

#[test]
fn explain_says_that_late_rows_are_left_out_of_queries_without_windows_too() {
    let script = format!("{SOURCE}SELECT user_id FROM clicks;\n");
    let folder = folder_with(&[("clicks.csv", CLICKS), ("timed.sql", &script)]);
    let folder = folder.path();
    let words =
        ["late rows: excluded from every output, with or without windows; late(TABLE(source)) returns them"];
    ended(folder, &["explain", "timed.sql"]).expect(0).shows(&words);
    fs::write(folder.join("untimed.sql"), "SELECT user_id FROM 'clicks.csv';\n").unwrap();
    let untimed = ended(folder, &["explain", "untimed.sql"]).expect(0);
    assert!(!untimed.stdout.contains("late rows"), "{}", untimed.stdout);
}

#[test]
fn a_script_that_asks_prints_the_rows() {
    let script = format!("{SOURCE}SELECT count(*) AS n FROM clicks;\nSHOW SOURCES;\n");
    let folder = folder_with(&[("clicks.csv", CLICKS), ("ask.sql", &script)]);
    let folder = folder.path();
    let answer = ended(folder, &["run", "--format", "csv", "ask.sql"]).expect(0);
    assert_eq!(answer.stdout, "n\n4\nname\nclicks\n");
    let answer = ended_with_input(folder, &["run", "--format", "csv", "-"], &script).expect(0);
    assert_eq!(answer.stdout, "n\n4\nname\nclicks\n");
    let only = SOURCE;
    ended_with_input(folder, &["run", "-"], only).expect(2).tells(&["nothing to run", "CREATE SINK"]);
}

#[test]
fn files_that_are_no_scripts_are_told_apart() {
    let folder = folder_with(&[("empty.sql", ""), ("blank.sql", " \n\t\n"), ("zero.sql", "SELECT\0 1;")]);
    let folder = folder.path();
    fs::write(folder.join("binary.sql"), [0xff, 0xfe, 0x00, 0x80]).unwrap();
    fs::write(folder.join("huge.sql"), "-".repeat(2_000_000)).unwrap();
    fs::create_dir(folder.join("folder.sql")).unwrap();
    let cases = [
        ("missing.sql", "there is no file 'missing.sql'"),
        ("folder.sql", "is a folder"),
        ("binary.sql", "not UTF-8 text"),
        ("zero.sql", "zero bytes"),
        ("empty.sql", "is empty"),
        ("blank.sql", "is empty"),
        ("huge.sql", "divide it"),
    ];
    for command in ["run", "explain", "validate"] {
        for (name, words) in cases {
            ended(folder, &[command, name]).expect(2).tells(&["error: ", words]);
        }
    }
}

#[test]
fn a_plan_is_explained_without_running_it() {
    let folder = folder_with(&[("clicks.csv", CLICKS), ("p.sql", &pipeline())]);
    let folder = folder.path();
    let words =
        ["output out", "tumble", "16 partitions", "source clicks", "workers: 2", "latency bound: 10 m"];
    ended(folder, &["explain", "--workers", "2", "p.sql"]).expect(0).shows(&words);
    ended_with_input(folder, &["explain", "--workers", "2", "-"], &pipeline()).expect(0).shows(&words);
    assert!(!folder.join("out.csv").exists());
    ended_with_input(folder, &["explain", "-"], SOURCE).expect(2).tells(&["only defines"]);
}

#[test]
fn all_errors_are_told_at_once_with_line_mark_and_hint() {
    let script = "CREATE SOURCE clicks (ts TIMESTAMP, campaign VARCHAR) WITH (path = 'clicks.csv');\n\
                  SELECT campain FROM clicks;\n\
                  CREATE VEW v AS SELECT 1;\n\
                  \tSELECT nosuch(campaign) FROM clicks;\n\
                  CREATE VIEW broken AS SELECT wrong FROM clicks;\n\
                  SELECT * FROM broken;\n\
                  CREATE SINK s FROM clicks WITH (conector = 'file');\n";
    let folder = folder_with(&[("clicks.csv", CLICKS), ("wrong.sql", script)]);
    let folder = folder.path();
    let told = ended(folder, &["validate", "wrong.sql"]).expect(2).tells(&[
        "--> wrong.sql:2:8",
        "  |        ^^^^^^^\n  = hint: did you mean campaign?",
        "--> wrong.sql:3:8",
        "--> wrong.sql:4:9",
        "--> wrong.sql:5:30",
        "--> wrong.sql:7:",
        "5 errors in wrong.sql; 1 statement not checked",
    ]);
    let lines = told.stderr.lines().filter_map(|line| line.trim().strip_prefix("--> wrong.sql:"));
    let lines: Vec<u32> = lines.map(|place| place.split(':').next().unwrap().parse().unwrap()).collect();
    assert_eq!(lines, [2, 3, 4, 5, 7], "{}", told.stderr);
    assert_eq!(told.stderr.matches("error: ").count(), 5, "{}", told.stderr);
    let told = ended_with_input(folder, &["validate", "-"], script).expect(2);
    told.tells(&["--> standard input:2:8"]);
    // The same is refused before anything runs.
    ended(folder, &["run", "wrong.sql"]).expect(2).tells(&["--> wrong.sql:3:8"]);
}

#[test]
fn a_right_script_is_valid_and_opens_no_sink() {
    let folder = folder_with(&[("clicks.csv", CLICKS), ("p.sql", &pipeline())]);
    let folder = folder.path();
    let valid = ended(folder, &["validate", "p.sql"]).expect(0);
    assert_eq!(valid.stderr, "p.sql: 3 statements, no errors\n");
    assert!(!folder.join("out.csv").exists());
}

#[test]
fn a_sink_that_cannot_be_written_is_told_before_the_run() {
    let script = pipeline().replace("out.csv", "nowhere/out.csv");
    let folder = folder_with(&[("clicks.csv", CLICKS), ("p.sql", &script)]);
    let folder = folder.path();
    let run = ended(folder, &["run", "p.sql"]);
    assert!(matches!(run.code, Some(1 | 2)), "{run:?}");
    assert!(run.stderr.contains("nowhere"), "{run:?}");
    assert!(!run.stderr.contains("rows in,"), "{run:?}");
}
