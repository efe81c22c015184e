//! Clients leave the processors to the queries that run, wherever these were started.
#![cfg(target_os = "linux")]

use std::fs;

use super::fleet::Fleet;
use crate::support::child::wait_until;
use crate::support::folder_with;

/// What the threads of readers are called, and of those who serve them.
const OF_READERS: [&str; 9] = [
    "read clients",
    "answer clients",
    "relieve clients",
    "deadlines",
    "last results",
    "end of a stream",
    "stop of a query",
    "accept readers",
    "reader",
];

struct Thread {
    name: String,
    niceness: i32,
}

impl Thread {
    fn is_of_reader(&self) -> bool {
        OF_READERS.iter().any(|name| self.name.starts_with(name))
    }
}

/// The fields of a `stat` behind the name, and the name.
fn stat(path: &str) -> Option<(String, Vec<i64>)> {
    let text = fs::read_to_string(path).ok()?;
    let (before, after) = text.rsplit_once(')')?;
    let (_, name) = before.split_once('(')?;
    let fields = after.split_whitespace().map(|field| field.parse().unwrap_or_default()).collect();
    Some((name.to_owned(), fields))
}

/// The threads of a process that have not ended meanwhile.
fn threads(process: &str) -> Vec<Thread> {
    let tasks = fs::read_dir(format!("/proc/{process}/task")).unwrap().flatten();
    let thread = |task: fs::DirEntry| {
        let (name, fields) = stat(&format!("{}/stat", task.path().display()))?;
        Some(Thread { name, niceness: fields[16] as i32 })
    };
    tasks.filter_map(thread).collect()
}

fn check(process: &str, own: i32, of_readers: i32) {
    let all = threads(process);
    for Thread { name, niceness } in all.iter().filter(|thread| thread.is_of_reader()) {
        assert_eq!(*niceness, of_readers, "'{name}' of process {process}");
    }
    for Thread { name, niceness } in all.iter().filter(|thread| !thread.is_of_reader()) {
        assert_eq!(*niceness, own, "'{name}' of process {process}");
    }
    assert!(all.iter().any(Thread::is_of_reader), "process {process} has readers");
    assert!(all.iter().any(|thread| thread.name.starts_with("timely")), "process {process} has workers");
}

fn leaves_the_processors(options: &'static [&'static str], niceness: i32) {
    let folder = folder_with(&[]);
    let mut fleet = Fleet::start_with(folder.path(), 1, 5, options);
    for statement in [
        "CREATE SOURCE own (n BIGINT) WITH (connector = 'push', durable = true)",
        "SELECT count(*) FROM recent",
        "CREATE MATERIALIZED VIEW total AS SELECT n, count(*) AS c FROM own GROUP BY n",
        "CREATE SINK copy WITH (connector = 'file', path = 'copy.csv') AS SELECT n FROM own",
        "CREATE OR REPLACE MATERIALIZED VIEW total AS SELECT n, count(*) AS c, sum(n) AS s FROM own GROUP BY n",
        "ALTER MATERIALIZED VIEW total SET (retain_versions = 7)",
        "STOP MATERIALIZED VIEW total",
        "START MATERIALIZED VIEW total",
        "INSERT INTO own VALUES (1), (2)",
    ] {
        fleet.text(statement);
    }
    fleet.finish();
    wait_until("every row is there", || fleet.check_whole_cycles(&[5]));
    let gateway = fleet.process_of(0);
    let (_, fields) = stat(&format!("/proc/{gateway}/stat")).unwrap();
    let (parent, own) = (fields[1].to_string(), fields[16] as i32);
    check(&gateway, own, own + niceness);
    let _other = fleet.connect();
    check(&parent, own, own + niceness);
    assert_eq!(stat(&format!("/proc/{parent}/stat")).unwrap().1[16] as i32, own);
}

#[test]
fn clients_leave_the_processors_to_what_they_have_started() {
    leaves_the_processors(&[], 10);
}

#[test]
fn clients_are_as_urgent_as_all_others_if_that_is_wanted() {
    leaves_the_processors(&["--readers-nice", "0"], 0);
}
