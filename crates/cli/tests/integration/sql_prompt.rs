//! The prompt, on a real pseudo-terminal.
#![cfg(all(unix, feature = "sql"))]

use crate::support;

use std::fs;
use std::path::Path;

use crate::support::*;
use rexpect::process::WaitStatus;
use rexpect::session::{PtySession, spawn_command};

const PATIENCE_MS: u64 = 60_000;
const READY: &str = "tidemill> ";
const UP: &str = "\x1b[A";

/// A prompt in a folder, which also has the history.
fn prompt(folder: &Path) -> PtySession {
    let mut command = tidemill(folder, &["sql"]);
    command.env("XDG_STATE_HOME", folder).env("TERM", "xterm").env("PAGER", "");
    let mut session = spawn_command(command, Some(PATIENCE_MS)).expect("a terminal");
    session.exp_string("\\q leaves").unwrap();
    session.exp_string(READY).unwrap();
    session
}

/// Types a line and waits for these words, and then for the prompt.
#[track_caller]
fn ask(session: &mut PtySession, line: &str, words: &[&str]) {
    session.send(&format!("{line}\r")).unwrap();
    session.flush().unwrap();
    for word in words {
        if let Err(error) = session.exp_string(word) {
            panic!("after `{line}`, no `{word}`: {error}");
        }
    }
    session.exp_string(READY).unwrap();
}

/// Types a line of a statement and waits for the mark before the next one.
#[track_caller]
fn continue_with(session: &mut PtySession, line: &str, mark: &str) {
    session.send(line).unwrap();
    session.flush().unwrap();
    if let Err(error) = session.exp_string(mark) {
        panic!("after `{line}`, no `{mark}`: {error}");
    }
}

#[track_caller]
fn leave(mut session: PtySession, with: &str) {
    session.send(with).unwrap();
    session.flush().unwrap();
    session.exp_eof().unwrap();
    assert!(matches!(session.process().wait(), Ok(WaitStatus::Exited(_, 0))));
}

#[test]
fn statements_of_several_lines_are_answered_and_errors_do_no_harm() {
    let folder = folder_with(&[]);
    let mut session = prompt(folder.path());
    continue_with(&mut session, "SELECT 6 *\r", "       -> ");
    ask(&mut session, "7 AS answer;", &["    42", "(1 row in "]);
    // The mark names what is open.
    continue_with(&mut session, "SELECT upper('ab\r", "       '> ");
    continue_with(&mut session, "\\q', '\r", "       '> ");
    continue_with(&mut session, "'\r", "       (> ");
    session.send_control('c').unwrap();
    session.exp_string(READY).unwrap();
    // A command may stand between the lines, and the statement continues.
    continue_with(&mut session, "SELECT 40 + 3\r", "       -> ");
    continue_with(&mut session, "\\timing off\r", "times are not shown");
    session.exp_string("       -> ").unwrap();
    ask(&mut session, "AS answer;", &["    43", "(1 row)"]);
    ask(&mut session, "\\timing", &["times are shown"]);
    ask(&mut session, "SELECT 2 AS two;", &["(1 row in "]);
    ask(&mut session, "SELECT nope;", &["error: ", "--> query:1:8", "^^^^"]);
    ask(&mut session, "\\nope", &["there is no command"]);
    ask(&mut session, "\\h", &["A statement ends with ;", "Ctrl-C clears the line or"]);
    ask(&mut session, "\\d", &["nothing is defined yet"]);
    ask(&mut session, "CREATE VIEW four AS SELECT 4 AS four;", &["view four created"]);
    ask(&mut session, "\\d", &["views", "four"]);
    ask(&mut session, "\\d four", &["BIGINT"]);
    ask(&mut session, "\\dv", &["views", "four"]);
    ask(&mut session, "\\dm", &["no materialized view is defined yet"]);
    let view = "CREATE MATERIALIZED VIEW five AS SELECT count(*) AS n FROM sequence(count => 5);";
    ask(&mut session, view, &["view five created"]);
    ask(&mut session, "\\dm", &["materialized views", "five"]);
    ask(&mut session, "\\dt", &["no source and no table is defined yet"]);
    ask(&mut session, "CREATE SOURCE s (n INT) WITH (path = 's.csv');", &["source s created"]);
    ask(&mut session, "\\dt", &["sources", " s\r\n"]);
    ask(&mut session, "\\df", &["functions", "date_bin"]);
    ask(&mut session, "\\?", &["\\dt", "\\timing"]);
    ask(
        &mut session,
        "CREATE SOURCE s (n INT) WITH (connector = 'stdin', format = 'csv');",
        &["the statements come from standard input", "with -c"],
    );
    leave(session, "\\q\r");
}

#[test]
fn ctrl_c_clears_the_line_or_ends_the_query_and_the_prompt_stays() {
    let folder = folder_with(&[]);
    let mut session = prompt(folder.path());
    session.send("SELECT unfinished").unwrap();
    session.flush().unwrap();
    session.exp_string("unfinished").unwrap();
    session.send_control('c').unwrap();
    session.exp_string(READY).unwrap();
    for _ in 0..2 {
        session.send("SELECT value FROM sequence(rate => 200);\r").unwrap();
        session.flush().unwrap();
        session.exp_string(" 20\r\n").unwrap();
        session.send_control('c').unwrap();
        session.exp_string("interrupted; everything taken in before is answered").unwrap();
        session.exp_string(READY).unwrap();
    }
    ask(&mut session, "SELECT 40 + 2 AS answer;", &["    42"]);
    // Ctrl-D on an empty line.
    leave(session, "\x04");
}

#[test]
fn what_was_typed_is_remembered_and_words_are_completed() {
    let folder = folder_with(&[("clicks.csv", CLICKS)]);
    let mut session = prompt(folder.path());
    ask(&mut session, "SELECT 41 + 1 AS answer;", &["    42"]);
    leave(session, "exit\r");
    assert!(fs::read_to_string(folder.path().join("tidemill/history")).unwrap().contains("SELECT 41 + 1"));

    let mut session = prompt(folder.path());
    ask(&mut session, &format!("{UP}{UP}"), &["    42"]);
    ask(&mut session, "SEL\t 5 + 6 AS five_and_six;", &["    11"]);
    // Lines that belong to a statement are one entry, and words are completed as in one line.
    continue_with(&mut session, "CREATE SOURCE clicks\r", "       -> ");
    continue_with(&mut session, "WITH (\r", "       (> ");
    ask(&mut session, "pat\t = 'cli\t');", &["source clicks created"]);
    ask(&mut session, "SELECT max(user_\t) + 100 AS users FROM click\t;", &["   103"]);
    leave(session, "\\q\r");
}

#[test]
fn a_prompt_needs_no_place_for_its_history() {
    let folder = folder_with(&[("file", "")]);
    // The folder for it cannot be made: a file has its name.
    let mut command = tidemill(folder.path(), &["sql"]);
    command.env("XDG_STATE_HOME", folder.path().join("file")).env("TERM", "xterm");
    let mut session = spawn_command(command, Some(PATIENCE_MS)).unwrap();
    session.exp_string(READY).unwrap();
    ask(&mut session, "SELECT 1 + 2 AS three;", &["    3"]);
    leave(session, "\\q\r");
}

#[test]
fn sinks_run_on_demand() {
    let folder = folder_with(&[("clicks.csv", CLICKS)]);
    let mut session = prompt(folder.path());
    ask(&mut session, "\\run", &["there is nothing to run"]);
    let sink = "CREATE SINK out AS SELECT user_id FROM 'clicks.csv' WITH (path = 'out.csv');";
    ask(&mut session, sink, &["sink out created; \\start runs it"]);
    ask(&mut session, "\\run", &["running out", "4 rows in, 4 rows out"]);
    assert_eq!(fs::read_to_string(folder.path().join("out.csv")).unwrap(), "user_id\n1\n2\n1\n3\n");
    fs::write(
        folder.path().join("endless.sql"),
        "CREATE OR REPLACE SINK out AS SELECT value FROM \
        sequence(rate => 1000) WITH (connector = 'blackhole');",
    )
    .unwrap();
    ask(&mut session, "\\i endless.sql", &["sink out created"]);
    session.send("\\run\r").unwrap();
    session.flush().unwrap();
    // The line that changes.
    session.exp_string("rows/s").unwrap();
    session.send_control('c').unwrap();
    session.exp_string("interrupted").unwrap();
    session.exp_string("rows in, ").unwrap();
    session.exp_string(READY).unwrap();
    leave(session, "\\q\r");
}

#[test]
fn a_materialized_view_is_read_while_it_is_kept_in_the_background() {
    let folder = folder_with(&[]);
    let mut session = prompt(folder.path());
    ask(&mut session, "\\start", &["nothing to start"]);
    ask(&mut session, "\\stop", &["nothing is running in the background"]);
    let view = "CREATE MATERIALIZED VIEW parity AS \
                SELECT value % 2 AS odd, count(*) AS n FROM sequence(rate => 1000) GROUP BY 1;";
    ask(&mut session, view, &["created; \\start runs it"]);
    ask(&mut session, "\\start", &["parity running in the background"]);
    ask(&mut session, "\\start", &["is already running in the background"]);
    ask(&mut session, "\\run", &["is already running in the background"]);
    // Some ask before there are rows.
    loop {
        session.send("SELECT count(*) AS groups, sum(n) > 10 AS some FROM parity;\r").unwrap();
        session.flush().unwrap();
        let shown = session.exp_string("(1 row in ").unwrap();
        session.exp_string(READY).unwrap();
        if shown.contains("2 |") && shown.contains("true") {
            break;
        }
    }
    ask(&mut session, "\\stop", &["rows in, "]);
    ask(&mut session, "SELECT count(*) AS groups FROM parity;", &["    2"]);
    ask(&mut session, "\\start", &["parity running"]);
    leave(session, "\\q\r");
}

#[test]
fn a_prompt_that_is_asked_to_end_stops_in_order_what_runs() {
    let folder = folder_with(&[]);
    let mut session = prompt(folder.path());
    let sink = "CREATE SINK out AS SELECT value FROM sequence(rate => 1000) WITH (path = 'out.csv');";
    ask(&mut session, sink, &["sink out created"]);
    ask(&mut session, "\\start", &["out running in the background"]);
    let path = folder.path().join("out.csv");
    support::child::wait_until("there are rows", || fs::metadata(&path).is_ok_and(|file| file.len() > 100));
    session.process_mut().signal(rexpect::process::Signal::SIGTERM).unwrap();
    // What Ctrl-D says, too.
    session.exp_string("rows in, ").unwrap();
    session.exp_eof().unwrap();
    assert!(matches!(session.process().wait(), Ok(WaitStatus::Exited(_, 130))));
    let text = fs::read_to_string(&path).unwrap();
    let expected: String = (0..text.lines().count() - 1).map(|number| format!("{number}\n")).collect();
    assert_eq!(text, format!("value\n{expected}"));
}
