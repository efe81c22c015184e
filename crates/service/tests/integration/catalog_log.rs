//! A catalogue that outlives its process.

use std::fs;
use std::path::{Path, PathBuf};

use tidemill_service::{Error, FileCatalogLog, Reply, Runtime, Session};
use tidemill_sql::{Planner, parse};

fn open(folder: &Path) -> Result<Runtime, String> {
    let log = FileCatalogLog::open(folder).map_err(|cause| cause.to_string())?;
    Runtime::open(Planner::new(), Box::new(log)).map_err(|cause| cause.to_string())
}

fn execute(session: &mut Session, script: &str) -> Result<Reply, Error> {
    let mut last = Reply::Text(String::new());
    for statement in parse(script, "test.sql").unwrap_or_else(|error| panic!("{error}")) {
        last = session.execute(&statement)?;
    }
    Ok(last)
}

fn rows(session: &mut Session, query: &str) -> usize {
    match execute(session, query).unwrap_or_else(|error| panic!("{error}")) {
        Reply::Query(query) => query.stream().unwrap().map(|batch| batch.unwrap().num_rows()).sum(),
        Reply::Rows(rows) => rows.num_rows(),
        _ => panic!("no query: {query}"),
    }
}

/// The only segment of the log.
fn segment(folder: &Path) -> PathBuf {
    let files = fs::read_dir(folder.join("definitions")).unwrap().map(|entry| entry.unwrap().path());
    let is_segment = |path: &PathBuf| path.extension().is_some_and(|ending| ending == "segment");
    let files: Vec<PathBuf> = files.filter(is_segment).collect();
    assert_eq!(files.len(), 1, "{files:?}");
    files[0].clone()
}

#[test]
fn a_restart_brings_back_every_definition() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("catalogue");
    let runtime = open(&path).unwrap();
    let mut session = Session::new(&runtime);
    let script =
        "CREATE VIEW a AS SELECT value FROM sequence(count => 3); CREATE VIEW b AS SELECT value FROM a;
                  CREATE VIEW gone AS SELECT 1 AS n; DROP VIEW gone; SET workers = 1";
    execute(&mut session, script).unwrap_or_else(|error| panic!("{error}"));
    assert!(execute(&mut session, "CREATE VIEW wrong AS SELECT nothing FROM a").is_err());
    let before = runtime.catalog();
    assert_eq!(before.version(), 4, "a statement that is wrong defines nothing");
    assert!(open(&path).is_err_and(|error| error.contains("another process is using the catalogue")));
    drop((session, runtime));

    let runtime = open(&path).unwrap();
    assert_eq!(runtime.catalog().definitions(), before.definitions());
    let mut session = Session::new(&runtime);
    assert_eq!(rows(&mut session, "SELECT * FROM b"), 3);
    assert!(execute(&mut session, "SELECT * FROM gone").is_err());
    execute(&mut session, "CREATE VIEW c AS SELECT value FROM b").unwrap_or_else(|error| panic!("{error}"));
    drop((session, runtime));
    assert_eq!(open(&path).unwrap().catalog().version(), 5);
}

#[test]
fn a_definition_that_is_torn_is_cut_off_wherever_the_crash_was() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("catalogue");
    let runtime = open(&path).unwrap();
    let mut session = Session::new(&runtime);
    execute(&mut session, "CREATE VIEW a AS SELECT 1 AS n").unwrap_or_else(|error| panic!("{error}"));
    let first = fs::read(segment(&path)).unwrap();
    let length = fs::read(path.join("length")).unwrap();
    execute(&mut session, "CREATE VIEW b AS SELECT 2 AS n").unwrap_or_else(|error| panic!("{error}"));
    drop((session, runtime));
    let whole = fs::read(segment(&path)).unwrap();
    let whole_length = fs::read(path.join("length")).unwrap();
    // It is replaced once the record is on the disk.
    fs::write(path.join("length"), &length).unwrap();
    let differ = |at: &usize| first.get(*at).copied().unwrap_or(0) != whole[*at];
    let (start, end) = ((0..whole.len()).find(differ).unwrap(), (0..whole.len()).rfind(differ).unwrap());
    for written in start..=end {
        // What was not written yet is zeros, because the space was reserved.
        let mut torn = whole.clone();
        torn[written..].fill(0);
        fs::write(segment(&path), torn).unwrap();
        assert_eq!(open(&path).unwrap().catalog().version(), 1, "{written} bytes are written");
    }
    fs::write(segment(&path), &whole).unwrap();
    assert_eq!(open(&path).unwrap().catalog().version(), 2);
    // What was on the disk once is not cut off.
    fs::write(path.join("length"), &whole_length).unwrap();
    let mut torn = whole.clone();
    torn[start..].fill(0);
    fs::write(segment(&path), torn).unwrap();
    let error = open(&path).map(drop).unwrap_err();
    assert!(error.contains("it had 2") && error.contains("is lost"), "{error}");
}

#[test]
fn a_damaged_definition_with_another_behind_it_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("catalogue");
    let runtime = open(&path).unwrap();
    let mut session = Session::new(&runtime);
    let script =
        "CREATE VIEW a AS SELECT 1 AS n; CREATE VIEW b AS SELECT 2 AS n; CREATE VIEW c AS SELECT 3 AS n";
    execute(&mut session, script).unwrap_or_else(|error| panic!("{error}"));
    drop((session, runtime));
    let mut bytes = fs::read(segment(&path)).unwrap();
    let text = b"SELECT 1";
    let at = bytes.windows(text.len()).position(|window| window == text).unwrap();
    bytes[at] ^= 1;
    fs::write(segment(&path), bytes).unwrap();
    let error = open(&path).map(drop).unwrap_err();
    assert!(error.contains("although the record at byte"), "{error}");
}
