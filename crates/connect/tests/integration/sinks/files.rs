//! One file: what is visible when, and what is refused.

use std::fs;
use std::path::Path;

use arrow_array::RecordBatch;
use arrow_ipc::reader::FileReader;
use arrow_select::concat::concat_batches;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use proptest::prelude::*;
use tidemill_connect::file::{FileFormat, FileSink, FileSinkSettings, SyncPolicy};
use tidemill_core::{Cause, Fault, Sink};

use crate::sinks::support::{any_cycles, commit_one, cycle, drive, rows, schema, text_of};

/// Reads a file of columns.
pub fn read(path: &Path, format: &FileFormat) -> RecordBatch {
    let file = fs::File::open(path).unwrap();
    let batches: Vec<RecordBatch> = match format {
        FileFormat::Parquet => {
            let reader = ParquetRecordBatchReaderBuilder::try_new(file).unwrap().build().unwrap();
            reader.map(Result::unwrap).collect()
        }
        _ => FileReader::try_new(file, None).unwrap().map(Result::unwrap).collect(),
    };
    concat_batches(&schema(), &batches).unwrap()
}

fn create(path: &Path, format: FileFormat) -> Result<FileSink, Cause> {
    FileSink::create(path, &schema(), &FileSinkSettings::new(format))
}

fn user_error(sink: Result<FileSink, Cause>) -> String {
    match sink.err() {
        Some(Cause { fault: Fault::User, message: text, .. }) => text.into(),
        other => panic!("expected a user's error, got {other:?}"),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn a_text_file_has_what_is_committed_at_any_time((cycles, commits) in any_cycles(), is_json: bool) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out");
        let format = if is_json { FileFormat::Ndjson } else { FileFormat::csv() };
        let mut sink = create(&path, format.clone()).unwrap();
        let check = |committed: &[RecordBatch]| {
            assert_eq!(fs::read_to_string(&path).unwrap(), text_of(&format.text().unwrap(), committed));
        };
        let all = drive(&mut sink, &cycles, &commits, check);
        sink.finish().unwrap();
        check(&all);
    }

    #[test]
    fn a_file_of_columns_has_everything_at_the_end((cycles, commits) in any_cycles(), is_parquet: bool) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out");
        let format = if is_parquet { FileFormat::Parquet } else { FileFormat::ArrowIpc };
        let mut sink = create(&path, format.clone()).unwrap();
        let all = drive(&mut sink, &cycles, &commits, |_| assert!(!path.exists()));
        sink.finish().unwrap();
        prop_assert_eq!(read(&path, &format), concat_batches(&schema(), &all).unwrap());
        prop_assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}

#[test]
fn a_file_that_exists_is_refused_and_overwritten_when_allowed() {
    let folder = tempfile::tempdir().unwrap();
    for format in [FileFormat::csv(), FileFormat::Ndjson, FileFormat::Parquet, FileFormat::ArrowIpc] {
        let path = folder.path().join(format.ending());
        fs::write(&path, "what was there").unwrap();
        let text = user_error(create(&path, format.clone()));
        assert!(text.contains("exists") && text.contains("overwrite = true"), "{text}");
        assert_eq!(fs::read_to_string(&path).unwrap(), "what was there");

        let settings = FileSinkSettings { overwrite: true, ..FileSinkSettings::new(format.clone()) };
        let mut sink = FileSink::create(&path, &schema(), &settings).unwrap();
        sink.finish().unwrap();
        drop(sink);
        assert_ne!(fs::read_to_string(&path).unwrap_or_default(), "what was there");
    }
}

#[test]
fn folders_and_missing_folders_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    for format in [FileFormat::csv(), FileFormat::Parquet] {
        assert!(user_error(create(folder.path(), format.clone())).contains("is a folder"));
        let missing = folder.path().join("missing/out");
        assert!(user_error(create(&missing, format)).contains("its folder does not exist"));
    }
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn a_query_that_fails_elsewhere_leaves_committed_cycles_under_the_partial_name() {
    let folder = tempfile::tempdir().unwrap();
    for format in [FileFormat::Parquet, FileFormat::ArrowIpc] {
        let path = folder.path().join(format.ending());
        let mut sink = create(&path, format.clone()).unwrap();
        commit_one(&mut sink, 0, rows(&[("a", 1)])).unwrap();
        sink.prepare(cycle(1, Some(rows(&[("b", 2)])))).unwrap();
        drop(sink);
        assert!(!path.exists());
        let partial = folder.path().join(format!("{}.partial", format.ending()));
        assert_eq!(read(&partial, &format), rows(&[("a", 1)]));
        assert!(user_error(create(&path, format)).contains("partial"));
    }
}

#[test]
fn a_file_that_appears_meanwhile_is_not_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("out");
    let mut sink = create(&path, FileFormat::Parquet).unwrap();
    fs::write(&path, "someone else's").unwrap();
    assert!(matches!(sink.finish(), Err(Cause { fault: Fault::User, .. })));
    assert_eq!(fs::read_to_string(&path).unwrap(), "someone else's");
}

#[test]
fn every_sync_policy_writes_the_same() {
    let folder = tempfile::tempdir().unwrap();
    for (name, sync) in [("1", SyncPolicy::EveryCommit), ("2", SyncPolicy::AtEnd), ("3", SyncPolicy::Never)] {
        let path = folder.path().join(name);
        let settings = FileSinkSettings { sync, ..FileSinkSettings::new(FileFormat::csv()) };
        let mut sink = FileSink::create(&path, &schema(), &settings).unwrap();
        commit_one(&mut sink, 0, rows(&[("a", 1)])).unwrap();
        sink.finish().unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "key,value\na,1\n");
    }
}

#[test]
fn a_device_needs_no_overwriting() {
    let mut sink = create(Path::new("/dev/null"), FileFormat::csv()).unwrap();
    commit_one(&mut sink, 0, rows(&[("a", 1)])).unwrap();
    sink.finish().unwrap();
}

#[test]
fn rows_of_another_type_are_a_bug() {
    let folder = tempfile::tempdir().unwrap();
    let mut sink = create(&folder.path().join("out"), FileFormat::csv()).unwrap();
    let other = rows(&[("a", 1)]).project(&[0]).unwrap();
    assert!(matches!(sink.prepare(cycle(0, Some(other))), Err(Cause { fault: Fault::Bug, .. })));
}

/// A query whose source could not be opened does not find its own file when it is started again.
#[test]
fn a_file_that_was_never_written_does_not_stay() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("out.csv");
    drop(create(&path, FileFormat::csv()).unwrap());
    assert!(!path.exists());
    // Committed, finished, changed or replaced by others, and one that was there before.
    let mut sink = create(&path, FileFormat::csv()).unwrap();
    commit_one(&mut sink, 0, rows(&[("a", 1)])).unwrap();
    drop(sink);
    assert!(path.exists());
    fs::remove_file(&path).unwrap();
    create(&path, FileFormat::csv()).unwrap().finish().unwrap();
    assert!(path.exists());
    fs::remove_file(&path).unwrap();
    let sink = create(&path, FileFormat::csv()).unwrap();
    fs::remove_file(&path).unwrap();
    fs::write(&path, "mine").unwrap();
    drop(sink);
    assert_eq!(fs::read_to_string(&path).unwrap(), "mine");
}

#[test]
fn a_file_that_may_be_overwritten_stays_as_it_is_until_the_first_commit() {
    let folder = tempfile::tempdir().unwrap();
    for format in [FileFormat::csv(), FileFormat::Ndjson, FileFormat::Parquet, FileFormat::ArrowIpc] {
        let (path, is_text) = (folder.path().join(format.ending()), format.text().is_some());
        for resume in [false, true].into_iter().take(1 + usize::from(is_text)) {
            let settings =
                FileSinkSettings { overwrite: true, resume, ..FileSinkSettings::new(format.clone()) };
            let open = || FileSink::create(&path, &schema(), &settings).unwrap();
            fs::write(&path, "what was there").unwrap();
            let mut sink = open();
            sink.prepare(cycle(0, Some(rows(&[("a", 1)])))).unwrap();
            drop(sink);
            assert_eq!(fs::read_to_string(&path).unwrap(), "what was there", "{format:?} {resume}");
            // A kill leaves what is there, too: nothing of it is dropped in order.
            std::mem::forget(open());
            assert_eq!(fs::read_to_string(&path).unwrap(), "what was there", "{format:?} {resume}");
            if resume {
                // The lock of the forgotten one.
                fs::remove_file(manifest_of(&path)).unwrap();
            }
            let mut sink = open();
            commit_one(&mut sink, 0, rows(&[("a", 1)])).unwrap();
            commit_one(&mut sink, 1, rows(&[("b", 2)])).unwrap();
            sink.finish().unwrap();
            drop(sink);
            if is_text {
                assert_eq!(fs::read_to_string(&path).unwrap(), text_of_two(&format), "{resume}")
            } else {
                assert_eq!(read(&path, &format), rows(&[("a", 1), ("b", 2)]))
            }
            if resume {
                fs::remove_file(manifest_of(&path)).unwrap();
            }
        }
    }
}

#[test]
fn the_manifest_of_a_file_goes_with_it_and_not_before() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("out.csv");
    let new = FileSinkSettings::new(FileFormat::csv());
    let mut durable =
        FileSink::create(&path, &schema(), &FileSinkSettings { resume: true, ..new.clone() }).unwrap();
    commit_one(&mut durable, 0, rows(&[("a", 1)])).unwrap();
    drop(durable);
    let before = (fs::read(&path).unwrap(), fs::read(manifest_of(&path)).unwrap());
    let overwriting = FileSinkSettings { overwrite: true, ..new.clone() };
    drop(FileSink::create(&path, &schema(), &overwriting).unwrap());
    assert_eq!((fs::read(&path).unwrap(), fs::read(manifest_of(&path)).unwrap()), before);
    let mut sink = FileSink::create(&path, &schema(), &overwriting).unwrap();
    sink.finish().unwrap();
    assert!(!manifest_of(&path).exists());
    assert_eq!(fs::read_to_string(&path).unwrap().lines().count(), 1, "the header");
}

/// What a new file gets that has the same rows.
fn text_of_two(format: &FileFormat) -> String {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("new");
    let mut sink = create(&path, format.clone()).unwrap();
    commit_one(&mut sink, 0, rows(&[("a", 1), ("b", 2)])).unwrap();
    sink.finish().unwrap();
    fs::read_to_string(path).unwrap()
}

fn manifest_of(path: &std::path::Path) -> std::path::PathBuf {
    format!("{}.manifest", path.display()).into()
}
