//! Ctrl-C, readers that go away, and files that grow.
#![cfg(all(unix, feature = "sql"))]

use std::fs::{self, OpenOptions};
use std::io::{BufRead, BufReader, Read, Write};

use crate::support::child::{end, hang_up, interrupt, signal, start, wait_until};
use crate::support::*;

#[test]
fn ctrl_c_ends_an_endless_query_and_its_rows_are_there() {
    let folder = folder_with(&[]);
    let text = "SELECT value FROM sequence(rate => 2000)";
    let mut child = start(tidemill(folder.path(), &["sql", "--format", "csv", "-c", text]));
    let mut output = BufReader::new(child.stdout.take().expect("a pipe")).lines().map(|line| line.unwrap());
    assert_eq!(output.next().as_deref(), Some("value"));
    for number in 0..100 {
        assert_eq!(output.next(), Some(number.to_string()));
    }
    interrupt(&child);
    let rest: Vec<String> = output.collect();
    for (number, line) in (100..).zip(&rest) {
        assert_eq!(*line, number.to_string());
    }
    end(child).expect(130).tells(&["interrupted; everything taken in before is answered"]);
}

#[test]
fn ctrl_c_ends_a_pipeline_in_order() {
    let script = "CREATE SINK out AS SELECT value FROM sequence(rate => 1000) WITH (path = 'out.csv', \
                  max_latency = '1 minute')";
    let folder = folder_with(&[("p.sql", script)]);
    let folder = folder.path();
    let child = start(tidemill(folder, &["run", "p.sql"]));
    wait_until("there are rows", || fs::metadata(folder.join("out.csv")).is_ok_and(|file| file.len() > 100));
    interrupt(&child);
    let ended = end(child).expect(130).tells(&["interrupted", "rows in,", "max_latency (60.0 s)"]);
    let text = fs::read_to_string(folder.join("out.csv")).unwrap();
    let expected: String = (0..text.lines().count() - 1).map(|number| format!("{number}\n")).collect();
    assert_eq!(text, format!("value\n{expected}"));
    let rows = text.lines().count() - 1;
    let said =
        ended.stderr.lines().find(|line| line.contains("rows in,")).expect("a summary").replace(',', "");
    assert!(said.starts_with(&format!("{rows} rows in {rows} rows out")), "{said}, but {rows} rows");
}

#[test]
fn a_closed_terminal_and_a_request_to_end_are_as_ctrl_c() {
    let script = "CREATE SINK out AS SELECT value FROM sequence(rate => 1000) WITH (path = 'out.csv')";
    for name in [hang_up(), "TERM"] {
        let folder = folder_with(&[("p.sql", script)]);
        let folder = folder.path();
        let child = start(tidemill(folder, &["run", "p.sql"]));
        wait_until("there are rows", || {
            fs::metadata(folder.join("out.csv")).is_ok_and(|file| file.len() > 100)
        });
        signal(&child, name);
        end(child).expect(130).tells(&["interrupted", "rows in,"]);
        let text = fs::read_to_string(folder.join("out.csv")).unwrap();
        let expected: String = (0..text.lines().count() - 1).map(|number| format!("{number}\n")).collect();
        assert_eq!(text, format!("value\n{expected}"), "{name}");

        let mut child = start(tidemill(folder, &["sql", "-c", "SELECT value FROM sequence(rate => 2000)"]));
        let mut output = BufReader::new(child.stdout.take().expect("a pipe"));
        output.read_line(&mut String::new()).unwrap();
        signal(&child, name);
        output.read_to_string(&mut String::new()).unwrap();
        end(child).expect(130).tells(&["interrupted; everything taken in before is answered"]);
    }
}

/// As `nohup` starts it.
#[cfg(target_os = "linux")]
#[test]
fn who_is_to_outlive_the_terminal_does() {
    let script = "CREATE SINK out AS SELECT value FROM sequence(rate => 1000) WITH (path = 'out.csv')";
    let folder = folder_with(&[("p.sql", script)]);
    let folder = folder.path();
    let mut shell = std::process::Command::new("sh");
    let run = format!("trap '' HUP; exec '{}' run p.sql", env!("CARGO_BIN_EXE_tidemill"));
    shell.current_dir(folder).arg("-c").arg(run);
    let child = start(shell);
    let length = || fs::metadata(folder.join("out.csv")).map_or(0, |file| file.len());
    wait_until("there are rows", || length() > 100);
    signal(&child, "HUP");
    let before = length();
    wait_until("there are more rows", || length() > before + 10_000);
    interrupt(&child);
    end(child).expect(130).tells(&["interrupted"]);
}

#[test]
fn changes_of_a_table_are_written_once_a_second_where_nobody_watches() {
    let folder = folder_with(&[]);
    let text = "SELECT value % 2 AS odd, count(*) AS n FROM sequence(rate => 5000) GROUP BY 1";
    let began = std::time::Instant::now();
    let mut child = start(tidemill(folder.path(), &["sql", "--format", "csv", "-c", text]));
    let mut output = BufReader::new(child.stdout.take().expect("a pipe")).lines().map(|line| line.unwrap());
    assert_eq!(output.next().as_deref(), Some("odd,n"));
    let mut lines: Vec<String> = output.by_ref().take(4).collect();
    interrupt(&child);
    lines.extend(output);
    // For each of the two rows one line a second, one at the start and one at the end.
    let seconds = began.elapsed().as_secs() as usize + 1;
    assert!(lines.len() <= 2 * (seconds + 2), "{} lines in {seconds} s", lines.len());
    // The last line of each row is the whole answer.
    let last = |odd: &str| -> u64 {
        let line = lines.iter().rev().find(|line| line.starts_with(odd)).expect("a line");
        line.split(',').nth(1).and_then(|n| n.parse().ok()).expect("a number")
    };
    let (even, odd) = (last("0,"), last("1,"));
    assert!(even == odd || even == odd + 1, "{even} even, {odd} odd");
    end(child).expect(130);
}

#[test]
fn ctrl_c_ends_a_wait_for_statements_and_for_rows() {
    let folder = folder_with(&[]);
    let mut child = start(tidemill(folder.path(), &["sql"]));
    let mut input = child.stdin.take().expect("a pipe");
    writeln!(input, "SELECT 1 AS one;").unwrap();
    let mut output = BufReader::new(child.stdout.take().expect("a pipe"));
    output.read_line(&mut String::new()).unwrap();
    interrupt(&child);
    end(child).expect(130);
    drop(input);

    let text = "CREATE SOURCE s (n BIGINT) WITH (connector = 'stdin', format = 'csv', header = false); \
                SELECT n FROM s";
    let mut child = start(tidemill(folder.path(), &["sql", "--format", "csv", "-c", text]));
    let mut input = child.stdin.take().expect("a pipe");
    writeln!(input, "7").unwrap();
    let mut output = BufReader::new(child.stdout.take().expect("a pipe")).lines().map(|line| line.unwrap());
    assert_eq!([output.next().unwrap(), output.next().unwrap()], ["n", "7"]);
    interrupt(&child);
    end(child).expect(130);
}

#[test]
fn a_reader_that_has_seen_enough_is_no_error() {
    let folder = folder_with(&[("clicks.csv", CLICKS)]);
    let folder = folder.path();
    let texts = [
        "SELECT value FROM sequence(rate => 100000)",
        "SELECT value, count(*) FROM sequence(count => 50000) GROUP BY value",
        "SHOW FUNCTIONS",
    ];
    for text in texts {
        let mut child = start(tidemill(folder, &["sql", "-c", text]));
        let mut output = BufReader::new(child.stdout.take().expect("a pipe"));
        output.read_line(&mut String::new()).unwrap();
        drop(output);
        let ended = end(child).expect(0);
        assert_eq!(ended.stderr, "", "{text}");
    }
    let script = "CREATE SINK out AS SELECT value FROM sequence(rate => 10000) WITH (connector = 'stdout', \
                  format = 'csv')";
    fs::write(folder.join("p.sql"), script).unwrap();
    let mut child = start(tidemill(folder, &["run", "p.sql"]));
    let mut output = BufReader::new(child.stdout.take().expect("a pipe"));
    output.read_line(&mut String::new()).unwrap();
    drop(output);
    let ended = end(child).expect(0);
    assert!(!ended.stderr.contains("error"), "{}", ended.stderr);
}

#[test]
fn a_file_that_grows_is_followed() {
    let folder = folder_with(&[("log.csv", "n\n1\n2\n")]);
    let path = folder.path().join("log.csv");
    let text = "CREATE SOURCE log (n BIGINT) WITH (path = 'log.csv', follow = true); SELECT n FROM log";
    let mut child = start(tidemill(folder.path(), &["sql", "--format", "csv", "-c", text]));
    let mut output = BufReader::new(child.stdout.take().expect("a pipe")).lines().map(|line| line.unwrap());
    assert_eq!([1, 2, 3].map(|_| output.next().unwrap()), ["n", "1", "2"]);
    let mut file = OpenOptions::new().append(true).open(&path).unwrap();
    for number in 3..6 {
        writeln!(file, "{number}").unwrap();
        assert_eq!(output.next(), Some(number.to_string()));
    }
    interrupt(&child);
    assert_eq!(output.next(), None);
    end(child).expect(130);
}

#[test]
fn a_long_run_tells_how_far_it_is_where_nobody_watches() {
    let script = "CREATE SINK out AS SELECT value FROM sequence(rate => 100) WITH (connector = 'blackhole')";
    let folder = folder_with(&[("p.sql", script)]);
    let mut child = start(tidemill(folder.path(), &["run", "p.sql"]));
    let mut errors = BufReader::new(child.stderr.take().expect("a pipe"));
    let mut line = String::new();
    while !line.contains("rows/s") {
        line.clear();
        assert!(errors.read_line(&mut line).unwrap() > 0, "it has ended");
    }
    assert!(line.contains("rows in, ") && line.contains(" out"), "{line}");
    interrupt(&child);
    errors.read_to_string(&mut line).unwrap();
    end(child).expect(130);
}
