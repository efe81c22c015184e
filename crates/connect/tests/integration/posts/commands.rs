//! Rows as the input of programs.

use std::fs;
use std::path::Path;
use std::time::Duration;

use tidemill_connect::command::{CommandSink, CommandSinkSettings};
use tidemill_connect::formats::encode::TextFormat;
use tidemill_core::Sink;

use crate::posts::support::{commit_one, cycle, rows, schema};

fn settings(command: String) -> CommandSinkSettings {
    CommandSinkSettings::new(command, "alerts")
}

fn read(folder: &Path, name: &str) -> String {
    fs::read_to_string(folder.join(name)).unwrap_or_default()
}

#[test]
fn a_program_is_started_for_each_cycle_with_rows() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let command =
        format!("cd {} && echo $TIDEMILL_SINK $TIDEMILL_CYCLE >>starts && cat >>rows", folder.display());
    let mut sink = CommandSink::new(&schema(), settings(command)).unwrap();
    sink.prepare(cycle(1, Some(rows(&[("a", 1), ("b", 2)])))).unwrap();
    sink.prepare(cycle(2, None)).unwrap();
    sink.prepare(cycle(3, Some(rows(&[("c", 3)])))).unwrap();
    assert_eq!(read(folder, "starts"), "");
    sink.commit(1..=3).unwrap();
    assert_eq!(read(folder, "starts"), "alerts 1\nalerts 3\n");
    let lines = "{\"key\":\"a\",\"value\":1}\n{\"key\":\"b\",\"value\":2}\n{\"key\":\"c\",\"value\":3}\n";
    assert_eq!(read(folder, "rows"), lines);
}

#[test]
fn a_program_that_fails_is_started_again_with_the_same_key() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let script = "echo $TIDEMILL_KEY >>keys; cat >>rows; test $(wc -l <keys) -ge 3";
    let command = format!("cd {} && {{ {script}; }}", folder.display());
    let csv = CommandSinkSettings { format: TextFormat::csv(), ..settings(command) };
    let mut sink = CommandSink::new(&schema(), csv).unwrap();
    commit_one(&mut sink, 1, rows(&[("a", 1)])).unwrap();
    assert_eq!(read(folder, "rows"), "key,value\na,1\n".repeat(3));
    let keys = read(folder, "keys");
    assert!(keys.lines().all(|key| Some(key) == keys.lines().next()), "{keys}");
}

#[test]
fn it_gives_up_in_the_end_and_says_what_the_program_said() {
    let command = settings("cat >/dev/null; echo no place for it >&2; exit 9".to_owned());
    let command = CommandSinkSettings { retry_for: Duration::from_millis(100), ..command };
    let mut sink = CommandSink::new(&schema(), command).unwrap();
    let text = commit_one(&mut sink, 4, rows(&[("a", 1)])).unwrap_err().to_string();
    assert!(
        text.contains("the command of sink 'alerts' failed for cycle 4: it ended with status 9"),
        "{text}"
    );
    assert!(text.contains("no place for it; gave up after 1 attempts"), "{text}");
    assert!(CommandSink::new(&schema(), settings(" ".to_owned())).is_err());
}

#[test]
fn a_sink_whose_program_does_not_end_can_be_stopped() {
    let folder = tempfile::tempdir().unwrap();
    let started = folder.path().join("started");
    let command = format!("touch {}; sleep 1000", started.display());
    let mut sink = CommandSink::new(&schema(), settings(command)).unwrap();
    let stop = sink.stopper().unwrap();
    let commit = std::thread::spawn(move || commit_one(&mut sink, 1, rows(&[("a", 1)])));
    let start = std::time::Instant::now();
    while !started.exists() {
        assert!(start.elapsed() < Duration::from_secs(60), "it is not started");
        std::thread::sleep(Duration::from_millis(5));
    }
    stop();
    assert!(commit.join().unwrap().unwrap_err().message.contains("the query was stopped"));
}
