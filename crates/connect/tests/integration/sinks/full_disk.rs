//! Real disks and real limits: a full file system, a limit on file sizes, a place that cannot be written. They affect
//! the whole process, so each test starts itself again as a child with these limits, and the child checks.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use arrow_array::{Int64Array, RecordBatch, StringArray};
use tidemill_connect::file::{
    DirectorySink, DirectorySinkSettings, FileFormat, FileSink, FileSinkSettings, SyncPolicy,
};
use tidemill_core::{Cause, Fault, Sink};
use tidemill_testing::random::Random;

use crate::sinks::support::{commit_one, schema, text_of};

/// Tells the child what to check.
const CHECK: &str = "TIDEMILL_SINKS_CHECK";
const FOLDER: &str = "TIDEMILL_SINKS_FOLDER";
const NAMESPACE: [&str; 4] = ["unshare", "--map-root-user", "--mount", "sh"];

/// Starts this test binary for [`in_child`], with a folder in `$FOLDER`, after `prepare`.
fn run_child(shell: &[&str], prepare: &str, check: &str) {
    let folder = tempfile::tempdir().unwrap();
    let script = format!("{prepare} && exec \"$0\" --exact sinks::full_disk::in_child --nocapture");
    let mut command = Command::new(shell[0]);
    command.args(&shell[1..]).arg("-c").arg(script).arg(env::current_exe().unwrap());
    command.env(CHECK, check).env(FOLDER, folder.path());
    let output = command.output().unwrap();
    let printed = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && printed.contains("checked: "), "{printed}");
}

fn may_mount() -> bool {
    let mut command = Command::new(NAMESPACE[0]);
    let allowed = command.args(&NAMESPACE[1..]).args(["-c", "mount -t tmpfs none /mnt"]).output();
    let allowed = allowed.is_ok_and(|output| output.status.success());
    if !allowed {
        eprintln!("skipped: mounting a file system is not allowed here");
    }
    allowed
}

#[test]
fn a_full_file_system_leaves_whole_commits() {
    if may_mount() {
        run_child(&NAMESPACE, &format!("mount -t tmpfs -o size=1m none \"${FOLDER}\""), "full");
    }
}

#[test]
fn a_limit_on_file_sizes_leaves_whole_commits() {
    run_child(&["sh"], "trap '' XFSZ && ulimit -f 600", "full");
}

#[test]
fn a_place_that_cannot_be_written_is_refused() {
    if may_mount() {
        run_child(&NAMESPACE, &format!("mount -t tmpfs -o ro none \"${FOLDER}\""), "unwritable");
    }
}

/// What the children do. As a test of its own it does nothing.
#[test]
fn in_child() {
    let (Ok(check), Ok(folder)) = (env::var(CHECK), env::var(FOLDER)) else { return };
    let folder = PathBuf::from(folder);
    match check.as_str() {
        "full" => {
            for sync in [SyncPolicy::EveryCommit, SyncPolicy::Never] {
                text_file_fills(&folder, sync);
            }
            for format in [FileFormat::Parquet, FileFormat::ArrowIpc] {
                columnar_file_fills(&folder, &format);
                folder_of_columns_fills(&folder, &format);
            }
            folder_of_text_fills(&folder);
            file_goes_on_when_there_is_room_again(&folder);
            folder_goes_on_when_there_is_room_again(&folder);
        }
        _ => nothing_can_be_created(&folder),
    }
    println!("checked: {check}");
}

/// Rows that compress badly.
fn noise(cycle: u64) -> RecordBatch {
    let mut random = Random::new(cycle);
    let keys: StringArray =
        (0..1000).map(|_| Some(format!("{:016x}{:016x}", random.next(), random.next()))).collect();
    let values: Int64Array = (0..1000).map(|_| Some(random.next() as i64)).collect();
    RecordBatch::try_new(schema(), vec![Arc::new(keys), Arc::new(values)]).unwrap()
}

/// Commits until a commit fails; returns what was committed and why it failed.
fn fill(sink: &mut impl Sink) -> (Vec<RecordBatch>, String) {
    let mut committed = Vec::new();
    for number in 0..200 {
        match commit_one(sink, number, noise(number)) {
            Ok(()) => committed.push(noise(number)),
            Err(Cause { fault: Fault::Operation, message: text, .. }) => {
                assert_eq!(commit_one(sink, number + 1, noise(number)), Err(Cause::operation(text.clone())));
                return (committed, text.into());
            }
            Err(other) => panic!("{other}"),
        }
    }
    match sink.finish() {
        Err(Cause { fault: Fault::Operation, message: text, .. }) => (committed, text.into()),
        other => panic!("10 MB fit: {other:?}"),
    }
}

fn text_file_fills(folder: &Path, sync: SyncPolicy) {
    let path = folder.join("out.csv");
    let settings = FileSinkSettings { sync, ..FileSinkSettings::new(FileFormat::csv()) };
    let mut sink = FileSink::create(&path, &schema(), &settings).unwrap();
    let (committed, text) = fill(&mut sink);
    assert!(!committed.is_empty());
    assert!(text.contains("out.csv") && text.contains("committed before"), "{text}");
    assert!(sink.finish().is_err());
    let expected = text_of(&FileFormat::csv().text().unwrap(), &committed);
    assert!(fs::read_to_string(&path).unwrap() == expected, "not what was committed");
    fs::remove_file(path).unwrap();
}

fn columnar_file_fills(folder: &Path, format: &FileFormat) {
    let path = folder.join("out");
    let mut sink = FileSink::create(&path, &schema(), &FileSinkSettings::new(format.clone())).unwrap();
    let (_, text) = fill(&mut sink);
    assert!(text.contains("out.partial") && text.contains("no part of the file is kept"), "{text}");
    drop(sink);
    assert_eq!(fs::read_dir(folder).unwrap().count(), 0);
}

fn folder_of_columns_fills(folder: &Path, format: &FileFormat) {
    let path = folder.join("out");
    // Few rows each, so that the limit on one file's size is not reached before some are complete.
    let settings = DirectorySinkSettings { rows_max: 3000, ..DirectorySinkSettings::new(format.clone()) };
    let mut sink = DirectorySink::create(&path, &schema(), &settings).unwrap();
    let mut committed = Vec::new();
    for number in 0..300 {
        match commit_one(&mut sink, number, noise(number)) {
            Ok(()) => committed.push(noise(number)),
            Err(cause) => {
                assert!(cause.fault == Fault::Operation && cause.message.contains(" are lost"), "{cause}");
                break;
            }
        }
    }
    drop(sink);
    let mut files: Vec<_> = fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    assert!(
        files.iter().all(|path| !path.file_name().unwrap().to_str().unwrap().starts_with('.')),
        "{files:?}"
    );
    for (index, file) in files.iter().enumerate() {
        let rows = crate::sinks::files::read(file, format);
        let expected = arrow_select::concat::concat_batches(&schema(), &committed[3 * index..3 * index + 3]);
        assert!(rows == expected.unwrap(), "not what was committed");
    }
    assert!(!files.is_empty());
    fs::remove_dir_all(path).unwrap();
}

fn folder_of_text_fills(folder: &Path) {
    let path = folder.join("out");
    let settings = DirectorySinkSettings::new(FileFormat::Ndjson);
    let mut sink = DirectorySink::create(&path, &schema(), &settings).unwrap();
    let (committed, _) = fill(&mut sink);
    drop(sink);
    let files: Vec<_> = fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(files.len(), 1);
    let name = format!("part-00000000000000000000-{:020}.ndjson", committed.len() - 1);
    assert!(files[0].ends_with(name), "{files:?}");
    let expected = text_of(&FileFormat::Ndjson.text().unwrap(), &committed);
    assert!(fs::read_to_string(&files[0]).unwrap() == expected, "not what was committed");
    fs::remove_dir_all(path).unwrap();
}

/// What was committed stays when the disk is full, and the next run continues behind it.
fn file_goes_on_when_there_is_room_again(folder: &Path) {
    let path = folder.join("out.csv");
    let settings = FileSinkSettings { resume: true, ..FileSinkSettings::new(FileFormat::csv()) };
    let mut sink = FileSink::create(&path, &schema(), &settings).unwrap();
    let (mut committed, _) = fill(&mut sink);
    drop(sink);
    let text = |committed: &[RecordBatch]| text_of(&FileFormat::csv().text().unwrap(), committed);
    assert!(fs::read_to_string(&path).unwrap() == text(&committed), "not what was committed");
    // Room for a small cycle is there even at the limit.
    let mut sink = FileSink::create(&path, &schema(), &settings).unwrap();
    assert_eq!(sink.last_committed(), Ok(Some(committed.len() as u64 - 1)));
    let small = noise(0).slice(0, 1);
    commit_one(&mut sink, committed.len() as u64, small.clone()).unwrap();
    sink.finish().unwrap();
    committed.push(small);
    assert!(fs::read_to_string(&path).unwrap() == text(&committed), "not what was committed");
    drop(sink);
    fs::remove_file(&path).unwrap();
    fs::remove_file(folder.join("out.csv.manifest")).unwrap();
}

fn folder_goes_on_when_there_is_room_again(folder: &Path) {
    let path = folder.join("out");
    let mut settings = DirectorySinkSettings::new(FileFormat::Parquet);
    (settings.resume, settings.rows_max) = (true, 1);
    let mut sink = DirectorySink::create(&path, &schema(), &settings).unwrap();
    // So large that a limit on a file's size is reached as well.
    let large = |number: u64| {
        let batches: Vec<RecordBatch> = (0..1 + number * 3).map(noise).collect();
        arrow_select::concat::concat_batches(&schema(), &batches).unwrap()
    };
    let failed =
        (0..100).find_map(|number| Some((number, commit_one(&mut sink, number, large(number)).err()?)));
    let (failed, cause) = failed.expect("10 MB fit");
    assert!(cause.fault == Fault::Operation, "{cause}");
    drop(sink);
    let mut sink = DirectorySink::create(&path, &schema(), &settings).unwrap();
    assert_eq!(sink.last_committed(), Ok(failed.checked_sub(1)));
    commit_one(&mut sink, failed, noise(0).slice(0, 1)).unwrap();
    sink.finish().unwrap();
    drop(sink);
    let mut files: Vec<_> = fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files.retain(|path| !path.file_name().unwrap().to_str().unwrap().starts_with('.'));
    assert_eq!(files.len() as u64, failed + 1);
    for (number, file) in (0..failed).zip(&files) {
        assert!(
            crate::sinks::files::read(file, &FileFormat::Parquet) == large(number),
            "not what was committed"
        );
    }
    fs::remove_dir_all(path).unwrap();
}

fn nothing_can_be_created(folder: &Path) {
    for format in [FileFormat::csv(), FileFormat::Parquet] {
        let file = FileSink::create(&folder.join("out"), &schema(), &FileSinkSettings::new(format.clone()));
        let directory = DirectorySink::create(folder, &schema(), &DirectorySinkSettings::new(format));
        for cause in [file.err(), directory.err()] {
            assert!(
                matches!(&cause, Some(Cause { fault: Fault::User, message, .. }) if message.contains("may write")),
                "{cause:?}"
            );
        }
    }
}
