//! Rows on a real pseudo-terminal of a known size, and the same rows in a pipe.
#![cfg(all(unix, feature = "sql"))]

use std::path::Path;
use std::process::Command;

use crate::support::*;
use rexpect::process::WaitStatus;
use rexpect::session::{PtySession, spawn_command};

const PATIENCE_MS: u64 = 60_000;
const READY: &str = "tidemill> ";

/// A terminal of 60 columns and 12 lines that runs the command with these words.
fn terminal(folder: &Path, words: &str) -> PtySession {
    let mut command = Command::new("sh");
    let run =
        format!("stty cols 60 rows 12; echo $$ > pid; exec '{}' {words}", env!("CARGO_BIN_EXE_tidemill"));
    command.arg("-c").arg(run).current_dir(folder).env("TERM", "xterm").env("XDG_STATE_HOME", folder);
    command.env("PAGER", "sed 's/^/paged: /'").env_remove("TIDEMILL_PAGER");
    spawn_command(command, Some(PATIENCE_MS)).expect("a terminal")
}

/// What the lines of a terminal say in the end, if only these commands come: up, and clear to the end.
fn screen(written: &str) -> Vec<String> {
    let mut lines = vec![String::new()];
    let mut at = 0;
    let mut rest = written.replace('\r', "");
    while let Some(char) = rest.chars().next() {
        if let Some(command) = rest.strip_prefix("\x1b[") {
            let end = command.find(|char: char| char.is_ascii_alphabetic()).expect("a command");
            match &command[end..=end] {
                "A" => at -= command[..end].parse::<usize>().expect("a number"),
                "J" => {
                    lines.truncate(at);
                    lines.push(String::new());
                }
                other => panic!("the terminal does not know {other}"),
            }
            rest = command[end + 1..].to_owned();
            continue;
        }
        match char {
            '\n' => {
                at += 1;
                if at == lines.len() {
                    lines.push(String::new());
                }
            }
            char => lines[at].push(char),
        }
        rest.remove(0);
    }
    lines.retain(|line| !line.is_empty());
    lines
}

const LONG: &str = "abcdefghijklmnopqrstuvwxyz0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ--the-end";

#[test]
fn no_text_is_cut_in_a_pipe_nor_on_a_terminal() {
    let long = LONG.repeat(20);
    let folder = folder_with(&[("access.log", &format!("{long}\nshort\n"))]);
    let folder = folder.path();
    // As rows come, and all at the end.
    for query in ["SELECT * FROM 'access.log' LIMIT 2", "SELECT * FROM 'access.log' ORDER BY line LIMIT 2"] {
        let lines = ended(folder, &["sql", "-c", query]).expect(0);
        let shown: Vec<&str> = lines.stdout.lines().collect();
        assert_eq!(shown.len(), 4, "{}", lines.stdout);
        assert!(shown[2].ends_with(&long) && shown[3].ends_with("short"), "{}", lines.stdout);
        let mut session = terminal(folder, &format!("sql -c \"{query}\""));
        let written = session.exp_eof().unwrap().replace("\r\n", "\n");
        assert!(written.contains(&format!(" line        | {long}\n")), "{written}");
        assert!(written.contains("-[ 2 ]-") && written.contains(" line        | short\n"), "{written}");
    }
    let mut session = terminal(folder, "sql -c \"SELECT 1 AS one, 'two' AS two\"");
    assert_eq!(session.exp_eof().unwrap().replace("\r\n", "\n"), " one | two\n-----+-----\n   1 | two\n");
    let mut session = terminal(folder, "sql --format expanded -c \"SELECT 1 AS one, '' AS e, NULL AS n\"");
    let written = session.exp_eof().unwrap().replace("\r\n", "\n");
    assert_eq!(written, "-[ 1 ]+------\n one  | 1\n e    |\n n    | NULL\n");
}

#[test]
fn a_table_that_changes_is_shown_in_place() {
    let folder = folder_with(&[]);
    let query = "SELECT value % 3 AS rest, count(*) AS n FROM sequence(rate => 20000) GROUP BY 1";
    let mut session = terminal(folder.path(), &format!("sql -c \"{query}\""));
    // It is redrawn several times.
    let mut written = String::new();
    for _ in 0..3 {
        written += &session.exp_string("\x1b[5A").unwrap();
        written += "\x1b[5A";
    }
    session.send_control('c').unwrap();
    written += &session.exp_eof().unwrap();
    let screen = screen(&written.replace("^C", ""));
    let header = screen.iter().filter(|line| line.contains("rest |")).count();
    assert_eq!(header, 1, "{screen:#?}");
    assert!(screen.iter().any(|line| line.contains("interrupted")), "{screen:#?}");
    let mut groups: Vec<&str> =
        screen.iter().filter_map(|line| line.split('|').next()).map(str::trim).collect();
    groups.sort_unstable();
    groups.retain(|text| ["0", "1", "2"].contains(text));
    assert_eq!(groups, ["0", "1", "2"], "{screen:#?}");
}

#[test]
fn a_table_whose_key_is_not_selected_is_shown_in_place() {
    let folder = folder_with(&[]);
    let query = "SELECT count(*) AS n FROM sequence(rate => 20000) GROUP BY value % 3";
    let mut session = terminal(folder.path(), &format!("sql -c \"{query}\""));
    // Header, line and one row for each group; redrawn several times.
    let mut written = String::new();
    for _ in 0..3 {
        written += &session.exp_string("\x1b[5A").unwrap();
        written += "\x1b[5A";
    }
    session.send_control('c').unwrap();
    written += &session.exp_eof().unwrap();
    let screen = screen(&written.replace("^C", ""));
    let is_count = |line: &&String| line.trim().parse::<u64>().is_ok();
    assert_eq!(screen.iter().filter(is_count).count(), 3, "{screen:#?}");
    assert_eq!(screen.iter().filter(|line| line.trim() == "n").count(), 1, "{screen:#?}");
}

#[test]
fn of_a_large_table_the_beginning_is_shown_and_all_of_it_at_the_end() {
    let folder = folder_with(&[]);
    let query = "SELECT value % 50 AS rest, count(*) AS n FROM sequence(rate => 20000) GROUP BY 1";
    let mut session = terminal(folder.path(), &format!("sql -c \"{query}\""));
    let mut written = session.exp_string("... the whole table has 50 rows").unwrap();
    session.send_control('c').unwrap();
    written += &session.exp_eof().unwrap();
    let last = written.rsplit("\x1b[J").next().unwrap();
    assert_eq!(last.lines().filter(|line| line.contains('|')).count(), 51, "{written}");
}

/// Types a text.
fn say(session: &mut PtySession, text: &str) {
    session.send(text).unwrap();
    session.flush().unwrap();
}

fn prompt(folder: &Path) -> PtySession {
    let mut session = terminal(folder, "sql");
    session.exp_string("\\q leaves").unwrap();
    session.exp_string(READY).unwrap();
    session
}

#[test]
fn rows_are_lines_of_values_on_demand() {
    let folder = folder_with(&[]);
    let mut session = prompt(folder.path());
    say(&mut session, "\\x\r");
    session.exp_string("one line per value").unwrap();
    say(&mut session, "SELECT 6 * 7 AS answer;\r");
    session.exp_string("-[ 1 ]--+-").unwrap();
    session.exp_string(" answer | 42").unwrap();
    say(&mut session, "\\x\r");
    session.exp_string("one line per row").unwrap();
    say(&mut session, "SELECT 7 * 7 AS answer;\r");
    session.exp_string("     49\r\n").unwrap();
    say(&mut session, "\\q\r");
    session.exp_eof().unwrap();
}

#[test]
fn a_long_result_at_the_prompt_is_given_to_the_pager() {
    let folder = folder_with(&[]);
    let mut session = prompt(folder.path());
    let rows = |rows: u32| format!("SELECT * FROM (VALUES {}) AS t (n) ORDER BY n;\r", values(rows));
    // Twelve lines: two of the header, one for the number of rows, and one for the prompt.
    say(&mut session, &rows(8));
    let short = session.exp_string("(8 rows in ").unwrap();
    assert!(!short.contains("paged: "), "{short}");
    say(&mut session, &rows(9));
    session.exp_string("paged:  n\r\n").unwrap();
    session.exp_string("paged:  9\r\n").unwrap();
    session.exp_string("(9 rows in ").unwrap();
    say(&mut session, "\\pager off\r");
    session.exp_string("no pager is used").unwrap();
    say(&mut session, &rows(10));
    let unpaged = session.exp_string("(10 rows in ").unwrap();
    assert!(!unpaged.contains("paged: "), "{unpaged}");
    say(&mut session, "\\pager\r\\df\r");
    session.exp_string("paged: functions").unwrap();
    say(&mut session, "\\q\r");
    session.exp_eof().unwrap();
}

#[test]
fn without_a_pager_that_starts_long_results_are_still_shown() {
    let folder = folder_with(&[]);
    let run = format!("exec '{}' sql", env!("CARGO_BIN_EXE_tidemill"));
    let mut command = Command::new("sh");
    command.arg("-c").arg(format!("stty cols 60 rows 12; {run}")).current_dir(folder.path());
    command.env("TERM", "xterm").env("XDG_STATE_HOME", folder.path()).env("TIDEMILL_PAGER", "no-such-pager");
    let mut session = spawn_command(command, Some(PATIENCE_MS)).expect("a terminal");
    session.exp_string(READY).unwrap();
    say(&mut session, &format!("SELECT * FROM (VALUES {}) AS t (n) ORDER BY n;\r", values(20)));
    session.exp_string(" 20\r\n").unwrap();
    session.exp_string("(20 rows in ").unwrap();
    say(&mut session, "\\q\r");
    session.exp_eof().unwrap();
}

fn values(rows: u32) -> String {
    (1..=rows).map(|number| format!("({number})")).collect::<Vec<_>>().join(", ")
}

#[test]
fn a_prompt_whose_terminal_is_closed_ends_its_pipeline_in_order() {
    // SIGTERM is not a substitute: it ends a prompt that waits for input at once.
    if child::hang_up() != "HUP" {
        return;
    }
    let folder = folder_with(&[]);
    let mut session = prompt(folder.path());
    let sink = "CREATE SINK out AS SELECT value FROM sequence(rate => 1000) WITH (path = 'out.csv');\r";
    say(&mut session, sink);
    session.exp_string("sink out created").unwrap();
    say(&mut session, "\\start\r");
    session.exp_string("running in the background").unwrap();
    session.exp_string(READY).unwrap();
    let kill = Command::new("sh").arg("-c").arg("kill -HUP $(cat pid)").current_dir(folder.path()).status();
    assert!(kill.unwrap().success());
    // The terminal is there still, so something has to come from it.
    say(&mut session, "\r");
    session.exp_string("rows in, ").unwrap();
    session.exp_eof().unwrap();
    assert!(matches!(session.process().wait(), Ok(WaitStatus::Exited(_, 130))));
    let text = std::fs::read_to_string(folder.path().join("out.csv")).unwrap();
    let expected: String = (0..text.lines().count() - 1).map(|number| format!("{number}\n")).collect();
    assert_eq!(text, format!("value\n{expected}"));
}

#[test]
fn all_statements_run_that_were_pasted_or_typed_ahead() {
    let folder = folder_with(&[]);
    let mut session = prompt(folder.path());
    // In one go, as a terminal without bracketed paste gives it on; more than the editor reads at a time.
    let pasted: String =
        (0..60).map(|number| format!("SELECT {number} + 1000 AS pasted_number;\r")).collect();
    say(&mut session, &pasted);
    for number in 0..60 {
        let answer = format!("{}\r\n", number + 1000);
        session.exp_string(&answer).unwrap_or_else(|error| panic!("no answer {number}: {error}"));
    }
    // While a query runs.
    say(&mut session, "SELECT value FROM sequence(rate => 100) LIMIT 60;\r");
    session.exp_string(" 5\r\n").unwrap();
    say(&mut session, "SELECT 40 + 2 AS first;\rSELECT 7 * 7\r AS second;\r");
    session.exp_string("(60 rows in ").unwrap();
    session.exp_string("    42\r\n").unwrap();
    session.exp_string("     49\r\n").unwrap();
    // A command, too.
    say(&mut session, "SELECT 1 AS one;\r\\q\r");
    session.exp_eof().unwrap();
}
