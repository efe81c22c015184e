//! Databases whose folders were damaged after a kill, or lack a part: they are refused, or say what is missing; nothing is
//! removed, and no answer silently has a part of the rows.
#![cfg(unix)]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use crate::support::child::wait_until;
use crate::support::served::{Served, has_psql};
use crate::support::*;
use tidemill_engine::{Disk, Medium as _, inspect};
use tidemill_testing::ports::free_port;
use tidemill_testing::sender::Sender;

/// A source over a port, and definitions over it.
fn defined(listen: u16, views: &str) -> String {
    format!(
        "SET snapshot_every = '20 ms';
        CREATE SOURCE events (n BIGINT, time TIMESTAMP NOT NULL)
            WITH (connector = 'line_protocol', listen = 'http://127.0.0.1:{listen}', durable = true);
        {views}"
    )
}

/// Posts so many rows, from `first` on, and waits until all are answered.
fn post(listen: u16, client: &'static str, rows: u64) {
    let body = |n: u64| format!("events n={n}i 1700000000000\n");
    Sender::start(listen, client, (0..rows).map(body).collect()).join();
}

fn wait_for(server: &Served, view: &str, rows: u64) {
    let count = format!("SELECT n FROM {view}");
    wait_until("the view has every row", || server.psql(&count) == format!("{rows}\n"));
}

/// All files in a folder.
fn files(folder: &Path) -> BTreeSet<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { files(&path) } else { BTreeSet::from([path]) }).collect()
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let target = to.join(path.file_name().unwrap());
        if path.is_dir() {
            copy(&path, &target);
        } else {
            fs::copy(&path, &target).unwrap();
        }
    }
}

/// The newest file of a kind.
fn newest(folder: &Path, ending: &str) -> PathBuf {
    let mut found = files(folder).into_iter().filter(|path| path.to_string_lossy().ends_with(ending));
    found.next_back().unwrap_or_else(|| panic!("no {ending} in {}", folder.display()))
}

/// The last cycle of a view's rows, which is behind the magic number and the version.
fn cycle_of(rows: &Path) -> u64 {
    u64::from_le_bytes(fs::read(rows).unwrap()[12..20].try_into().unwrap())
}

/// Takes bytes from the end of what a segment has; the rest of the file is reserved, and zero.
fn cut_off(segment: &Path, bytes: usize) {
    let mut text = fs::read(segment).unwrap();
    let end = text.iter().rposition(|byte| *byte != 0).unwrap() + 1;
    text.truncate(end - bytes);
    fs::write(segment, text).unwrap();
}

/// Changes a byte in the middle of what a file has.
fn flip(path: &Path) {
    let mut text = fs::read(path).unwrap();
    let end = text.iter().rposition(|byte| *byte != 0).unwrap() + 1;
    text[end / 2] ^= 0x55;
    fs::write(path, text).unwrap();
}

fn serve(folder: &Path) -> Ended {
    ended(folder, &["serve", "--data", "tides", "--listen", "127.0.0.1:0", "--http", "off"])
}

#[test]
fn if_one_query_proves_that_the_end_of_a_journal_is_lost_none_runs_without_it() {
    if !has_psql() {
        return;
    }
    let folder = folder_with(&[]);
    let folder = folder.path();
    let listen = free_port();
    let mut server = Served::start(folder);
    server.psql(&defined(
        listen,
        "CREATE MATERIALIZED VIEW ahead AS SELECT count(*) AS n FROM events;
         CREATE MATERIALIZED VIEW behind AS SELECT count(*) AS n FROM events;
         CREATE MATERIALIZED VIEW apart AS SELECT count(*) AS n FROM sequence(count => 3)",
    ));
    post(listen, "first", 10);
    wait_for(&server, "behind", 10);
    server.stop();
    // One that has not come further than this.
    let journal = folder.join("tides/journal");
    copy(&journal.join("query-behind"), &folder.join("behind"));
    let mut server = Served::start(folder);
    post(listen, "second", 10);
    wait_for(&server, "ahead", 20);
    let ahead = journal.join("query-ahead");
    wait_until("its state and its rows are stored", || {
        let name = newest(&ahead, ".snapshot");
        let cycle = name.file_stem().and_then(|cycle| cycle.to_str()?.parse().ok()).unwrap();
        // An older one is removed at any time.
        let has_all = inspect::snapshot(&ahead, cycle).is_ok_and(|snapshot| snapshot.cut.positions == [20]);
        // Another thread writes the rows, before or after that; they begin with the last cycle that they have.
        has_all && cycle_of(&newest(&ahead, ".rows")) >= cycle
    });
    server.kill();
    fs::remove_dir_all(journal.join("query-behind")).unwrap();
    copy(&folder.join("behind"), &journal.join("query-behind"));
    cut_off(&newest(&journal.join("streams"), ".segment"), 8);
    // As after a crash of the machine, which may take rows: nothing tells that somebody has cut them off.
    fs::remove_file(newest(&journal.join("streams"), "opened")).unwrap();

    let server = Served::start(folder);
    let queries = server.psql("SHOW QUERIES");
    let line = |name: &str| queries.lines().find(|line| line.starts_with(name)).unwrap_or("").to_owned();
    assert!(line("ahead|failed").contains("the end of the journal is lost"), "{queries}");
    assert!(line("behind|failed").contains("'ahead', which proves"), "{queries}");
    assert!(!line("apart|").contains("failed"), "it reads nothing of that source: {queries}");
    let answer = server.psql("SELECT n FROM behind");
    assert!(answer.contains("'behind' has no rows to read"), "{answer}");
    let started = server.psql("START MATERIALIZED VIEW behind");
    assert!(started.contains("which proves"), "{started}");
}

#[test]
fn rows_that_were_cut_off_are_missed_although_no_query_has_kept_anything_of_them() {
    if !has_psql() || Disk.machine_start().is_none() {
        return;
    }
    let folder = folder_with(&[]);
    let folder = folder.path();
    let listen = free_port();
    let views = "CREATE MATERIALIZED VIEW one AS SELECT count(*) AS n FROM events;
                 CREATE MATERIALIZED VIEW other AS SELECT sum(n) AS n FROM events;
                 CREATE MATERIALIZED VIEW apart AS SELECT count(*) AS n FROM sequence(count => 3)";
    let mut server = Served::start(folder);
    server.psql(&defined(listen, views).replace("20 ms", "1 hour"));
    post(listen, "agent", 10);
    wait_for(&server, "one", 10);
    server.kill();
    let streams = folder.join("tides/journal/streams");
    let segment = newest(&streams, ".segment");
    fs::copy(&segment, folder.join("whole")).unwrap();
    let verify = |code: i32| ended(folder, &["journal", "verify", "tides"]).expect(code);
    verify(0);
    let refused = |how: &str| {
        assert!(verify(3).stdout.contains("(damage)"), "{how}");
        let mut server = Served::start(folder);
        let queries = server.psql("SHOW QUERIES");
        let line = |name: &str| queries.lines().find(|line| line.starts_with(name)).unwrap_or("").to_owned();
        for query in ["one|failed", "other|failed"] {
            assert!(
                line(query).contains("restore the folder") || line(query).contains("Restore the folder"),
                "{how}: {queries}"
            );
        }
        assert!(!line("apart|").contains("failed"), "{how}: {queries}");
        server.kill();
    };
    // The end of a record, and a whole record.
    cut_off(&segment, 8);
    refused("a part of a record");
    fs::copy(folder.join("whole"), &segment).unwrap();
    let mut text = fs::read(&segment).unwrap();
    let last = text.windows(4).rposition(|mark| mark == b"TIDR").unwrap() - 52;
    text[last..].fill(0);
    fs::write(&segment, text).unwrap();
    refused("a record");
    assert!(verify(3).stdout.contains("the end of the journal is lost"));
    // The remedy that the message names.
    fs::remove_file(newest(&streams, "opened")).unwrap();
    let mut server = Served::start(folder);
    wait_for(&server, "one", 9);
    server.kill();
    verify(0);
}

#[test]
fn what_a_catalogue_has_never_named_is_not_removed() {
    if !has_psql() {
        return;
    }
    let folder = folder_with(&[]);
    let folder = folder.path();
    let listen = free_port();
    let tides = folder.join("tides");
    let mut server = Served::start(folder);
    server.psql(&defined(listen, ""));
    server.stop();
    copy(&tides.join("catalogue"), &folder.join("shorter"));
    let mut server = Served::start(folder);
    server.psql("CREATE MATERIALIZED VIEW total AS SELECT count(*) AS n FROM events");
    post(listen, "agent", 10);
    wait_for(&server, "total", 10);
    server.kill();
    copy(&tides.join("catalogue"), &folder.join("whole"));
    let before = files(&tides.join("journal"));
    let refused = |words: &str| {
        serve(folder).expect(1).tells(&[words, "Nothing was removed"]);
        assert_eq!(files(&tides.join("journal")), before);
    };
    // Gone.
    fs::remove_dir_all(tides.join("catalogue")).unwrap();
    refused("has never named the rows of source 'events'");
    // An older one.
    fs::remove_dir_all(tides.join("catalogue")).unwrap();
    copy(&folder.join("shorter"), &tides.join("catalogue"));
    refused("query-total");
    // Only its log.
    fs::remove_dir_all(tides.join("catalogue/definitions")).unwrap();
    copy(&folder.join("whole"), &tides.join("catalogue"));
    fs::remove_dir_all(tides.join("catalogue/definitions")).unwrap();
    copy(&folder.join("shorter/definitions"), &tides.join("catalogue/definitions"));
    refused("its end is lost");
    // As it was.
    fs::remove_dir_all(tides.join("catalogue")).unwrap();
    copy(&folder.join("whole"), &tides.join("catalogue"));
    wait_for(&Served::start(folder), "total", 10);
}

#[test]
fn a_view_without_its_state_does_not_answer_with_a_part_of_its_rows() {
    if !has_psql() {
        return;
    }
    let folder = folder_with(&[]);
    let folder = folder.path();
    let listen = free_port();
    let mut server = Served::start(folder);
    server.psql(&defined(listen, "CREATE MATERIALIZED VIEW total AS SELECT count(*) AS n FROM events"));
    post(listen, "agent", 10);
    wait_for(&server, "total", 10);
    server.kill();
    let journal = folder.join("tides/journal");
    for lost in ["query-total/query", "query-total"] {
        let path = journal.join(lost);
        if path.is_dir() {
            fs::remove_dir_all(path).unwrap()
        } else {
            fs::remove_file(path).unwrap()
        }
        let mut server = Served::start(folder);
        let queries = server.psql("SHOW QUERIES");
        assert!(queries.contains("total|failed") && queries.contains("does not have its state"), "{queries}");
        let answer = server.psql("SELECT n FROM total");
        assert!(answer.contains("'total' has no rows to read"), "{answer}");
        let started = server.psql("START MATERIALIZED VIEW total");
        assert!(started.contains("does not have its state"), "{started}");
        server.kill();
    }
    let server = Served::start(folder);
    server.psql("DROP MATERIALIZED VIEW total");
    server.psql("CREATE MATERIALIZED VIEW total AS SELECT count(*) AS n FROM events");
    post(listen, "again", 3);
    wait_for(&server, "total", 3);
}

#[test]
fn verify_finds_damage_in_every_part_of_a_database() {
    if !has_psql() {
        return;
    }
    let folder = folder_with(&[]);
    let folder = folder.path();
    let listen = free_port();
    let mut server = Served::start(folder);
    server.psql(&defined(
        listen,
        "CREATE MATERIALIZED VIEW each AS SELECT n FROM events;
         CREATE SINK copy WITH (path = 'copy.csv') AS SELECT n FROM events",
    ));
    post(listen, "agent", 50);
    wait_until("the view has every row", || server.psql("SELECT count(*) FROM each") == "50\n");
    server.stop();
    let tides = folder.join("tides");
    copy(&tides, &folder.join("whole"));
    let verify = |of: &str| ended(folder, &["journal", "verify", of]);
    verify("tides/journal").expect(0);
    verify("tides").expect(0);
    let kinds = [
        ("journal/query-each/snapshots", ".snapshot"),
        ("journal/query-each", "query"),
        ("journal/query-each/views", ".rows"),
        ("journal/query-copy", "identity"),
        ("journal/streams", ".segment"),
        ("journal/cuts", ".segment"),
        ("catalogue", ".segment"),
        ("catalogue", "length"),
        ("journal", "journal/query"),
    ];
    for (part, ending) in kinds {
        flip(&newest(&tides.join(part), ending));
        let found = verify("tides/journal").expect(3);
        assert!(found.stdout.contains("(damage)"), "{part} {ending}: {}", found.stdout);
        fs::remove_dir_all(&tides).unwrap();
        copy(&folder.join("whole"), &tides);
    }
    let gone = [
        "journal/query-each/query",
        "journal/query-each/snapshots",
        "journal/query-each/journal",
        "journal/query-copy/query",
        "journal/query-copy/identity",
        "journal/query-copy/epoch",
        "journal/streams",
        "journal/cuts",
        "journal/epochs",
        "journal/query",
        "catalogue/definitions",
        "catalogue",
    ];
    let rows = newest(&tides.join("journal/query-each/views"), ".rows");
    let rows = rows.strip_prefix(&tides).unwrap().to_string_lossy().into_owned();
    for part in gone.into_iter().chain([rows.as_str()]) {
        let path = tides.join(part);
        if path.is_dir() {
            fs::remove_dir_all(path).unwrap()
        } else {
            fs::remove_file(path).unwrap()
        }
        let found = verify("tides/journal").expect(3);
        assert!(found.stdout.contains("(damage)"), "{part}: {}", found.stdout);
        fs::remove_dir_all(&tides).unwrap();
        copy(&folder.join("whole"), &tides);
    }
}
