//! What is dropped is removed from the disk, whenever the process is killed, and nothing else is. The process that is killed is this
//! test's own executable.

use std::collections::BTreeSet;
use std::env;
use std::fs;
use std::io::{self, BufRead, Write};
use std::path::Path;
use std::thread;
use std::time::Duration;

use crate::fed::until;
use crate::killed_process::KilledProcess;
use crate::runtimes::{open_journaled, start};
use crate::statements::{define, execute, numbers};
use fastrand::Rng;
use tidemill_service::{QueryState, Session};

/// Tells the process that it is the one to be killed, and where its database is.
const FOLDER: &str = "TIDEMILL_TEST_DATABASE";
const NAMES: [&str; 2] = ["one", "two"];
const ROWS: usize = 40;

/// A durable source of a name over the file, and a view of its rows.
fn create(folder: &Path, session: &mut Session, name: &str) {
    let rows = folder.join("rows.csv");
    define(
        session,
        &format!(
            "CREATE SOURCE {name}_rows (id BIGINT) WITH (path = '{}', follow = true, durable = true);
             CREATE MATERIALIZED VIEW {name} WITH (start = 'earliest') AS SELECT count(*) AS n FROM {name}_rows",
            rows.display()
        ),
    );
    start(session, name);
}

fn drop_view(session: &mut Session, name: &str) {
    define(session, &format!("DROP MATERIALIZED VIEW {name}; DROP SOURCE {name}_rows"));
}

/// The folders of queries, and those of streams.
fn folders(folder: &Path) -> (BTreeSet<String>, BTreeSet<String>) {
    let names = |folder: &Path| -> BTreeSet<String> {
        let entries = fs::read_dir(folder).into_iter().flatten();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    };
    let is_of_query = |name: &String| name.starts_with("query-") || name.starts_with("removed-");
    let queries = names(&folder.join("journal")).into_iter().filter(is_of_query);
    (queries.collect(), names(&folder.join("journal/streams")))
}

/// Carries out the steps that it reads, and answers each.
#[test]
fn child() {
    let Some(folder) = env::var_os(FOLDER) else { return };
    let folder = Path::new(&folder);
    let (_runtime, mut session) = open_journaled(folder);
    println!("\nready");
    for line in io::stdin().lock().lines().map_while(Result::ok) {
        match line.split_once(' ').unwrap() {
            ("create", name) => create(folder, &mut session, name),
            ("drop", name) => drop_view(&mut session, name),
            _ => panic!("{line}"),
        }
        println!("done");
    }
}

/// The disk has what the definitions name, and all that runs has every row.
fn check(folder: &Path) {
    let (runtime, mut session) = open_journaled(folder);
    let is_defined = |name: &&str| runtime.catalog().has_output(name);
    let defined: Vec<&str> = NAMES.into_iter().filter(is_defined).collect();
    let (queries, streams) = folders(folder);
    for name in NAMES {
        let is_running = runtime.state(name) == Ok(QueryState::Running);
        let has_folder = queries.contains(&format!("query-{name}"));
        assert!(has_folder || !is_running, "{name} has no folder: {queries:?}");
        assert!(!has_folder || defined.contains(&name), "{name} was dropped: {queries:?}");
        if is_running {
            let n = format!("SELECT n FROM {name}");
            until(name, || numbers(&mut session, &n) == [ROWS as i64]);
        }
    }
    assert!(queries.iter().all(|name| name.starts_with("query-")), "{queries:?}");
    let names = runtime.catalog().names();
    for stream in &streams {
        // Of each source there is the stream of its last definition.
        let source = stream.rsplit_once('-').unwrap().0.replace("%5f", "_");
        assert!(names.contains(&source), "{stream}, but the sources are {names:?}");
        let same = streams
            .iter()
            .filter(|other| other.rsplit_once('-').unwrap().0 == stream.rsplit_once('-').unwrap().0);
        assert_eq!(same.count(), 1, "{streams:?}");
    }
    // So that each run begins with the same.
    for name in NAMES {
        if runtime.catalog().has_output(name) {
            define(&mut session, &format!("DROP MATERIALIZED VIEW {name}"));
        }
        define(&mut session, &format!("DROP SOURCE IF EXISTS {name}_rows"));
    }
    let (queries, streams) = folders(folder);
    assert!(queries.is_empty() && streams.is_empty(), "{queries:?}, {streams:?}");
}

#[test]
fn a_killed_process_leaves_nothing_that_was_dropped_and_everything_else() {
    // By hand: TIDEMILL_KILLS=100.
    let kills = env::var("TIDEMILL_KILLS").map_or(12, |kills| kills.parse().unwrap());
    let folder = tempfile::tempdir().unwrap();
    let rows: String = (0..ROWS).map(|row| format!("{row}\n")).collect();
    fs::write(folder.path().join("rows.csv"), format!("id\n{rows}")).unwrap();
    let mut random = Rng::with_seed(5);
    for _ in 0..kills {
        let mut killed = KilledProcess::start("dropped::child", FOLDER, folder.path());
        killed.wait_for("ready");
        killed.input.write_all(b"create one\ncreate two\n").unwrap();
        if random.u64(..4) > 0 {
            killed.wait_for("done");
            killed.wait_for("done");
        }
        killed.input.write_all(b"drop one\ncreate one\ndrop two\ndrop one\ncreate two\n").unwrap();
        thread::sleep(Duration::from_micros(random.u64(..60_000)));
        killed.kill();
        check(folder.path());
    }
}

#[test]
fn a_source_that_something_reads_is_neither_dropped_nor_replaced_by_another() {
    let folder = tempfile::tempdir().unwrap();
    let rows = folder.path().join("rows.csv");
    fs::write(&rows, "id\n1\n2\n").unwrap();
    let (runtime, mut session) = open_journaled(folder.path());
    create(folder.path(), &mut session, "one");
    define(&mut session, "CREATE VIEW above AS SELECT n FROM one");
    let has = |session: &mut Session, rows: i64| {
        until("all rows are counted", || numbers(session, "SELECT n FROM above") == [rows]);
    };
    has(&mut session, 2);
    let refused = |session: &mut Session, text: &str| match execute(session, text) {
        Err(error) => error.to_string(),
        Ok(_) => panic!("{text} is accepted"),
    };
    let written = |columns: &str| {
        let path = rows.display();
        format!(
            "CREATE OR REPLACE SOURCE one_rows {columns} WITH (path = '{path}', follow = true, durable = true)"
        )
    };
    let before = (runtime.catalog().version(), folders(folder.path()));
    for (text, words) in [
        ("DROP SOURCE one_rows".to_owned(), "materialized view 'one' reads source 'one_rows'"),
        ("DROP MATERIALIZED VIEW one".to_owned(), "view 'above' reads materialized view 'one'"),
        (written("(id DOUBLE)"), "materialized view 'one' reads 'one_rows'"),
        ("CREATE OR REPLACE VIEW one_rows AS SELECT 1 AS id".to_owned(), "reads 'one_rows'"),
    ] {
        let error = refused(&mut session, &text);
        assert!(error.contains(words), "{text}: {error}");
    }
    // It is so already: its journal and its readers stay.
    define(&mut session, &written("(id BIGINT)"));
    assert_eq!((runtime.catalog().version(), folders(folder.path())), before);
    drop((session, runtime));
    let (runtime, mut session) = open_journaled(folder.path());
    let mut file = fs::OpenOptions::new().append(true).open(&rows).unwrap();
    writeln!(file, "3").unwrap();
    has(&mut session, 3);
    define(&mut session, "DROP SOURCE one_rows CASCADE");
    assert_eq!(folders(folder.path()), Default::default());
    assert!(runtime.queries().is_empty());
    drop((session, runtime));
    let (runtime, _session) = open_journaled(folder.path());
    assert!(runtime.catalog().failed_definitions().is_empty());
    let names = runtime.catalog().names();
    assert!(
        ["one", "above", "one_rows"].iter().all(|gone| !names.contains(&(*gone).to_owned())),
        "{names:?}"
    );
}
