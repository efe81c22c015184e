//! `tidemill sql` with -c, -f and through a pipe: answers, formats, what continues after an error.
#![cfg(feature = "sql")]

use crate::support::*;

const COUNTS: &str =
    "SELECT campaign, count(*) AS clicks FROM 'clicks.csv' GROUP BY campaign ORDER BY campaign";

#[test]
fn a_file_is_queried_at_once_in_three_formats() {
    let folder = folder_with(&[("clicks.csv", CLICKS)]);
    let folder = folder.path();
    let table = ended(folder, &["sql", "-c", COUNTS]).expect(0);
    let lines: Vec<&str> = table.stdout.lines().map(str::trim_end).collect();
    assert_eq!(
        lines,
        [" campaign | clicks", "----------+--------", " a        |      3", " b        |      1"]
    );
    assert_eq!(table.stderr, "");
    let csv = ended(folder, &["sql", "--format", "csv", "-c", COUNTS]).expect(0);
    assert_eq!(csv.stdout, "campaign,clicks\na,3\nb,1\n");
    let json = ended(folder, &["sql", "--format", "json", "-c", COUNTS]).expect(0);
    assert_eq!(json.stdout, "{\"campaign\":\"a\",\"clicks\":3}\n{\"campaign\":\"b\",\"clicks\":1}\n");
}

#[test]
fn what_runs_by_name_is_changed_at_its_server_only() {
    let folder = folder_with(&[]);
    let sink = "CREATE SINK s WITH (path = 'out.csv') AS SELECT value FROM sequence(count => 3)";
    for statement in ["START SINK s", "STOP SINK s", "ALTER SINK s SET (max_latency = '1 s')"] {
        for database in [&["--database", "tides"][..], &[]] {
            let script = format!("{sink}; {statement}; DROP SINK s");
            let arguments = [&["sql", "-c", &script], database].concat();
            let ended = ended(folder.path(), &arguments).expect(2);
            assert!(ended.stderr.contains("no query runs by its name here"), "{}", ended.stderr);
            assert!(!folder.path().join("out.csv").exists());
            let _ = std::fs::remove_dir_all(folder.path().join("tides"));
        }
    }
}

#[test]
fn generators_are_known_by_name() {
    let folder = folder_with(&[]);
    let folder = folder.path();
    let ask = |text: &str| ended(folder, &["sql", "--format", "csv", "-c", text]);
    ask("SELECT value FROM sequence(count => 3)").expect(0).shows(&["value\n0\n1\n2\n"]);
    let reports = "linear_road_reports(expressways => 1, minutes => 1, seed => 1, peak => 20)";
    let text = format!(
        "SELECT window_start, count(*) AS n, count(DISTINCT vid) AS cars FROM tumble(TABLE({reports}), event_time, \
         INTERVAL '1 minute') WHERE type = 0 GROUP BY window_start"
    );
    let answer = ask(&text).expect(0);
    let fields: Vec<&str> = answer.stdout.lines().nth(1).expect("a row").split(',').collect();
    assert_eq!(fields[0], "1970-01-01 00:00:00");
    let (reports, cars): (u64, u64) = (fields[1].parse().unwrap(), fields[2].parse().unwrap());
    assert!(cars > 0 && reports >= cars, "{}", answer.stdout);
    assert_eq!(ask(&text).expect(0).stdout, answer.stdout);
    ask("SELECT * FROM linear_road_reports(minutes => 0)").expect(2).tells(&["minutes", "from 1 to 180"]);
    ask("SELECT * FROM linear_road_reports(minuts => 1)").expect(2).tells(&["did you mean minutes?"]);
}

#[test]
fn show_and_describe_say_what_there_is() {
    let folder = folder_with(&[("clicks.csv", CLICKS)]);
    let text = "CREATE SOURCE clicks (ts TIMESTAMP, campaign VARCHAR, user_id BIGINT, WATERMARK FOR ts AS ts - \
                INTERVAL '5 seconds') WITH (path = 'clicks.csv'); CREATE VIEW a AS SELECT user_id FROM clicks WHERE \
                campaign = 'a'; SHOW SOURCES; SHOW VIEWS; DESCRIBE clicks; SET workers = 1; SHOW SETTINGS; \
                SHOW FUNCTIONS";
    let shown = ended(folder.path(), &["sql", "--format", "csv", "-c", text]).expect(0);
    shown
        .shows(&["name\nclicks\n", "name,kind\na,view\n", "column,type\nts,TIMESTAMP\ncampaign,VARCHAR\n"])
        .shows(&["user_id,BIGINT\n", "workers,1,", "linear_road_reports,generator\n"])
        .tells(&["source clicks created", "view a created", "workers = 1"]);
}

#[test]
fn a_plan_is_shown_and_measured() {
    let folder = folder_with(&[("clicks.csv", CLICKS)]);
    let folder = folder.path();
    let plan = ended(folder, &["sql", "-c", &format!("EXPLAIN {COUNTS}")]).expect(0);
    plan.shows(&["source clicks.csv (campaign)", "operator"]);
    let measured = ended(folder, &["sql", "-c", &format!("EXPLAIN ANALYZE {COUNTS}")]).expect(0);
    measured.shows(&["% of the time", "rows in"]).tells(&["4 rows in"]);
}

#[test]
fn what_a_split_costs_is_known_once_it_has_run() {
    let folder = folder_with(&[]);
    let query = |plan: &str| {
        format!(
            "SELECT count(*) FROM mergestream(splitstream(TABLE(sequence(count => 20000)), 8, route => value % 8, \
             plan => '{plan}'))"
        )
    };
    let explained =
        |how, plan| ended(folder.path(), &["sql", "-c", &format!("EXPLAIN {how} {}", query(plan))]);
    explained("", "exptree")
        .expect(0)
        .shows(&["its costs on this machine are not known yet; EXPLAIN ANALYZE"]);
    let measured = explained("ANALYZE", "exptree").expect(0);
    measured.shows(&[
        ", predicted",
        "<- the most work",
        "by the model, for the split and the operator alone: tree of fan-outs 2, 4",
        "not chosen: ",
    ]);
    // What splitting costs does not depend on who does it.
    for (plan, shape) in
        [("exptree", "tree of fan-outs 2, 4 to 8 partitions"), ("fsplit", "1 splitter"), ("auto", "")]
    {
        let known = explained("", plan).expect(0);
        known.shows(&[
            &format!("by the costs measured in earlier runs, for the split and the operator alone: {shape}"),
            "<- bottleneck",
            "not chosen: ",
        ]);
    }
    // Another question has other costs, and a file that cannot be read is as none.
    let file = folder.path().join("cache/tidemill/split-profiles");
    assert!(std::fs::metadata(&file).unwrap().len() < 4096);
    std::fs::write(&file, "damaged").unwrap();
    let query = "SELECT * FROM splitstream(TABLE(sequence(count => 20000)), 8, route => value % 8)";
    let unknown = ended(folder.path(), &["sql", "-c", &format!("EXPLAIN {query}")]).expect(0);
    unknown.shows(&["its costs on this machine are not known yet"]);
    ended(folder.path(), &["sql", "-c", query]).expect(0);
    let known = ended(folder.path(), &["sql", "-c", &format!("EXPLAIN {query}")]).expect(0);
    known.shows(&["by the costs measured in earlier runs, for the split and the operator alone: "]);
    // There is no place for it: nothing is said of that.
    std::fs::remove_file(&file).unwrap();
    std::fs::create_dir(&file).unwrap();
    assert_eq!(ended(folder.path(), &["sql", "-c", query]).expect(0).stderr, "");
}

#[test]
fn errors_have_place_mark_and_hint_and_exit_code_2() {
    let folder = folder_with(&[("clicks.csv", CLICKS)]);
    let folder = folder.path();
    let wrong = ended(folder, &["sql", "-c", "SELECT campain FROM 'clicks.csv'"]).expect(2);
    wrong.tells(&["--> query:1:8", "^^^^^^^", "did you mean campaign?"]);
    ended(folder, &["sql", "-c", "SHOW SORCES"]).expect(2).tells(&["did you mean SOURCES?"]);
    ended(folder, &["sql", "-c", "SELECT * FROM 'nowhere.csv'"]).expect(2).tells(&["nowhere.csv"]);
    // Nothing after the first error is executed.
    let stopped = ended(folder, &["sql", "-c", "SELECT nope FROM 'clicks.csv'; SELECT 1 AS one"]).expect(2);
    assert_eq!(stopped.stdout, "");
    ended(folder, &["sql", "-c", "SELECT 1", "-f", "a.sql"]).expect(2);
    ended(folder, &["sql", "-c", "SELECT 1", "a.sql"]).expect(2);
    ended(folder, &["sql", "nowhere.sql"]).expect(2).tells(&["nowhere.sql"]);
}

#[test]
fn a_file_of_statements_may_be_named_without_an_option() {
    let folder = folder_with(&[("one.sql", "SELECT 1 AS one;")]);
    let named = ended(folder.path(), &["sql", "one.sql"]).expect(0).stdout;
    assert_eq!(named, ended(folder.path(), &["sql", "--file", "one.sql"]).expect(0).stdout);
    assert!(named.contains("one"), "{named}");
}

#[test]
fn bad_rows_are_told_and_the_good_ones_are_answered() {
    let folder = folder_with(&[]);
    let text = "CREATE SOURCE s (ts TIMESTAMP, n BIGINT) WITH (connector = 'stdin', format = 'csv'); SELECT n FROM s";
    let input = "ts,n\n2026-01-01T00:00:01,1\nyesterday,2\n2026-01-01T00:00:03,3\n";
    let answer = ended_with_input(folder.path(), &["sql", "--format", "csv", "-c", text], input).expect(0);
    // The time is not asked for, but it is declared: which rows count does not depend on the question.
    answer.shows(&["n\n1\n3\n"]).tells(&["1 row could not be used and was skipped", "'yesterday'"]);
    let text = text.replace("SELECT n", "SELECT ts, n");
    let answer = ended_with_input(folder.path(), &["sql", "--format", "csv", "-c", &text], input).expect(0);
    answer
        .shows(&["00:00:01,1\n2026-01-01 00:00:03,3\n"])
        .tells(&["1 row could not be used and was skipped:\n  standard input, line 3", "'yesterday'"]);
}

#[test]
fn standard_input_is_read_once() {
    let folder = folder_with(&[]);
    let source = "CREATE SOURCE s (n BIGINT) WITH (connector = 'stdin', format = 'csv')";
    let twice = format!("{source}; SELECT n FROM s; SELECT n FROM s");
    let ended_twice = ended_with_input(folder.path(), &["sql", "-c", &twice], "n\n1\n").expect(2);
    ended_twice.tells(&["standard input was already read by an earlier query"]);
    let script = format!("{source};\nSELECT n FROM s;\n");
    for arguments in [&["sql"][..], &["sql", "-f", "-"], &["run", "-"], &["validate", "-"]] {
        let refused = ended_with_input(folder.path(), arguments, &script).expect(2);
        refused.tells(&["standard input:1:", "the statements come from standard input"]);
    }
}

#[test]
fn a_pipe_is_executed_statement_by_statement_and_goes_on_after_an_error() {
    let folder = folder_with(&[("clicks.csv", CLICKS)]);
    let input = "-- a comment; with a semicolon\nSELECT 1 AS\n  one;\nSELECT nope FROM\n  'clicks.csv';\n\
                 SELECT 2 AS two; SELECT 3 AS three;\n\nSELECT 4 AS four";
    let answer = ended_with_input(folder.path(), &["sql", "--format", "csv"], input).expect(2);
    assert_eq!(answer.stdout, "one\n1\ntwo\n2\nthree\n3\nfour\n4\n");
    answer.tells(&["--> standard input:4:8"]);
    let good = ended_with_input(folder.path(), &["sql", "--format", "csv"], "SELECT 1 AS one;\n").expect(0);
    assert_eq!((good.stdout.as_str(), good.stderr.as_str()), ("one\n1\n", ""));
    ended_with_input(folder.path(), &["sql"], "").expect(0);
    ended_with_input(folder.path(), &["sql"], "\\nope\nSELECT 1;\n\\q\nSELECT 2;")
        .expect(2)
        .tells(&["\\nope"]);
}

#[test]
fn a_pipe_is_answered_while_it_is_open() {
    use std::io::{BufRead, BufReader, Write};
    let folder = folder_with(&[]);
    let mut child = child::start(tidemill(folder.path(), &["sql", "--format", "csv"]));
    let mut input = child.stdin.take().expect("a pipe");
    let mut output = BufReader::new(child.stdout.take().expect("a pipe")).lines();
    for number in 0..3 {
        writeln!(input, "SELECT {number} AS n;").unwrap();
        assert_eq!(output.next().unwrap().unwrap(), "n");
        assert_eq!(output.next().unwrap().unwrap(), number.to_string());
    }
    drop(input);
    child::end(child).expect(0);
}

#[test]
fn a_file_of_statements_is_executed() {
    let folder = folder_with(&[("clicks.csv", CLICKS), ("ask.sql", COUNTS)]);
    let folder = folder.path();
    ended(folder, &["sql", "--format", "csv", "-f", "ask.sql"]).expect(0).shows(&["a,3\nb,1\n"]);
    ended(folder, &["sql", "-f", "nothere.sql"]).expect(2).tells(&["there is no file 'nothere.sql'"]);
    let sink = "CREATE SINK out AS SELECT * FROM 'clicks.csv' WITH (path = 'out.csv')";
    ended(folder, &["sql", "-c", sink]).expect(0).tells(&["sink out created", "tidemill run FILE"]);
    assert!(!folder.join("out.csv").exists());
    let input = format!("{sink};\n\\run\n");
    ended_with_input(folder, &["sql"], &input).expect(0).tells(&["running out", "4 rows in, 4 rows out"]);
    assert_eq!(std::fs::read_to_string(folder.join("out.csv")).unwrap().lines().count(), 5);
}
