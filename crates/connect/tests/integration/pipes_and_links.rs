//! Files that are not plain files: pipes, and links that lead in a circle.
#![cfg(all(unix, feature = "tables"))]

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_schema::{DataType, Field, Schema};
use tidemill_connect::file::{FileSettings, FileSource};
use tidemill_connect::formats::Format;
use tidemill_core::source::{Polled, Source};

fn settings(path: &Path) -> FileSettings {
    let ids = Schema::new(vec![Field::new("id", DataType::Int64, true)]);
    FileSettings { schema: Some(Arc::new(ids)), ..FileSettings::new(path.display().to_string()) }
}

/// The ids until the source ends.
fn drain(source: &mut FileSource) -> Vec<i64> {
    let mut found = Vec::new();
    loop {
        match source.poll(Duration::from_millis(50)).unwrap() {
            Polled::Rows(rows) => found.extend(rows.column(0).as_primitive::<Int64Type>().values()),
            Polled::Nothing | Polled::Idle => {}
            Polled::Request { .. } => panic!("these rows have no number"),
            Polled::Ended | Polled::Left => return found,
        }
    }
}

fn pipe(folder: &Path) -> std::path::PathBuf {
    let path = folder.join("pipe.json");
    assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
    path
}

#[test]
fn links_that_lead_in_a_circle_are_walked_once() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    fs::create_dir_all(path("a/b")).unwrap();
    fs::create_dir_all(path("[x]/c")).unwrap();
    fs::create_dir_all(path(".hidden")).unwrap();
    fs::create_dir_all(path("outside")).unwrap();
    for (file, id) in
        [("a/b/f.csv", 1), ("[x]/c/f.csv", 2), ("f.csv", 3), ("outside/f.csv", 4), (".hidden/f.csv", 5)]
    {
        fs::write(path(file), format!("id\n{id}\n")).unwrap();
    }
    // Two in one folder: paths through them double with each step.
    symlink(folder.path(), path("a/loop")).unwrap();
    symlink(path("a"), path("a/b/up")).unwrap();
    symlink(path("a"), path("a/b/again")).unwrap();
    symlink(path("nowhere"), path("dangling")).unwrap();
    let found = |pattern: &str| {
        let mut ids = drain(&mut FileSource::open(settings(&path(pattern))).unwrap());
        ids.sort_unstable();
        ids
    };
    assert_eq!(found("**/*.csv"), [1, 2, 3, 4]);
    assert_eq!(found("*/**/f.csv"), [1, 2, 3, 4]);
    assert_eq!(found("a/b/**/f.csv"), [1, 2, 3, 4], "through the links");
    assert_eq!(found("**/b/**/*.csv"), [1, 2, 3, 4]);
    assert_eq!(found("a/*/f.csv"), [1, 3], "a link that is named is followed");
    // A link to a folder elsewhere is entered.
    let elsewhere = tempfile::tempdir().unwrap();
    symlink(path("outside"), elsewhere.path().join("link")).unwrap();
    let pattern = elsewhere.path().join("**/*.csv");
    assert_eq!(drain(&mut FileSource::open(settings(&pattern)).unwrap()), [4]);
}

#[test]
fn a_pipe_without_a_writer_is_waited_for_and_ends_with_its_last_one() {
    let folder = tempfile::tempdir().unwrap();
    let path = pipe(folder.path());
    let mut source = FileSource::open(settings(&path)).unwrap();
    assert!(source.is_finite() && !source.is_repeatable());
    assert!(matches!(source.poll(Duration::from_millis(30)).unwrap(), Polled::Nothing));
    let writer = std::thread::spawn(move || {
        let mut pipe = OpenOptions::new().write(true).open(path).unwrap();
        for id in 0..20_000 {
            pipe.write_all(format!("{{\"id\": {id}}}\n").as_bytes()).unwrap();
        }
        pipe.write_all(b"{\"id\": 20000}").unwrap();
    });
    assert_eq!(drain(&mut source), (0..=20_000).collect::<Vec<i64>>());
    writer.join().unwrap();
    assert_eq!(source.faults().count, 0);
}

#[test]
fn a_pipe_that_is_followed_takes_one_writer_after_the_other() {
    let folder = tempfile::tempdir().unwrap();
    let path = pipe(folder.path());
    let mut source = FileSource::open(FileSettings { follow: true, ..settings(&path) }).unwrap();
    assert!(!source.is_finite());
    for ids in [[1, 2], [3, 4]] {
        let path = path.clone();
        let writer = std::thread::spawn(move || {
            let mut pipe = OpenOptions::new().write(true).open(path).unwrap();
            pipe.write_all(ids.map(|id| format!("{{\"id\": {id}}}\n")).concat().as_bytes()).unwrap();
        });
        let mut found = Vec::new();
        while found.len() < 2 {
            if let Polled::Rows(rows) = source.poll(Duration::from_millis(50)).unwrap() {
                found.extend_from_slice(rows.column(0).as_primitive::<Int64Type>().values());
            }
        }
        assert_eq!(found, ids);
        writer.join().unwrap();
    }
}

#[test]
fn columns_of_a_pipe_are_declared_for_looking_would_take_its_rows() {
    let folder = tempfile::tempdir().unwrap();
    let path = pipe(folder.path());
    let undeclared =
        FileSettings { format: Some(Format::Csv), ..FileSettings::new(path.display().to_string()) };
    let reason = FileSource::open(undeclared).unwrap_err().to_string();
    assert!(reason.contains("its columns cannot be inferred; declare them"), "{reason}");
}
