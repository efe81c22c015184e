//! A folder of files: names, rolling, nothing incomplete.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use arrow_array::RecordBatch;
use arrow_select::concat::concat_batches;
use proptest::prelude::*;
use tidemill_connect::file::{DirectorySink, DirectorySinkSettings, FileFormat};
use tidemill_core::{Cause, Fault, Sink};

use crate::sinks::files::read;
use crate::sinks::support::{any_cycles, commit_one, cycle, drive, rows, schema, text_of};

const FORMATS: [fn() -> FileFormat; 4] =
    [FileFormat::csv, || FileFormat::Ndjson, || FileFormat::Parquet, || FileFormat::ArrowIpc];

fn settings(format: FileFormat, rows_max: u64) -> DirectorySinkSettings {
    DirectorySinkSettings { rows_max, ..DirectorySinkSettings::new(format) }
}

/// The complete files, in order.
fn parts(folder: &Path) -> Vec<PathBuf> {
    let paths = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut parts: Vec<PathBuf> = paths.filter(|path| !name(path).starts_with('.')).collect();
    parts.sort();
    parts
}

fn name(path: &Path) -> String {
    path.file_name().unwrap().to_str().unwrap().to_owned()
}

/// The rows of all complete files, by their cycles.
fn read_parts(folder: &Path, format: &FileFormat) -> RecordBatch {
    let parts = parts(folder);
    let batches: Vec<RecordBatch> = parts.iter().map(|path| read(path, format)).collect();
    concat_batches(&schema(), &batches).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn complete_files_hold_whole_commits_and_together_all_rows(
        (cycles, commits) in any_cycles(),
        rows_max in 1..100_u64,
        is_parquet: bool,
    ) {
        let folder = tempfile::tempdir().unwrap();
        let format = if is_parquet { FileFormat::Parquet } else { FileFormat::ArrowIpc };
        let settings = settings(format.clone(), rows_max);
        let mut sink = DirectorySink::create(folder.path(), &schema(), &settings).unwrap();
        let check = |committed: &[RecordBatch]| {
            let committed = concat_batches(&schema(), committed).unwrap();
            let seen = read_parts(folder.path(), &format);
            assert!(committed.num_rows() - seen.num_rows() < rows_max as usize);
            assert_eq!(seen, committed.slice(0, seen.num_rows()));
        };
        let all = drive(&mut sink, &cycles, &commits, check);
        sink.finish().unwrap();
        prop_assert_eq!(read_parts(folder.path(), &format), concat_batches(&schema(), &all).unwrap());
        prop_assert_eq!(fs::read_dir(folder.path()).unwrap().count(), parts(folder.path()).len());
    }

    #[test]
    fn files_of_text_each_have_a_header((cycles, commits) in any_cycles(), rows_max in 1..100_u64) {
        let folder = tempfile::tempdir().unwrap();
        let settings = settings(FileFormat::csv(), rows_max);
        let mut sink = DirectorySink::create(folder.path(), &schema(), &settings).unwrap();
        let all = drive(&mut sink, &cycles, &commits, |_| ());
        sink.finish().unwrap();
        let texts = parts(folder.path()).into_iter().map(|path| fs::read_to_string(path).unwrap());
        let without_header = |text: String| text.strip_prefix("key,value\n").unwrap().to_owned();
        let together: String = texts.map(without_header).collect();
        let header = "key,value\n".to_owned();
        prop_assert_eq!(header + &together, text_of(&FileFormat::csv().text().unwrap(), &all));
    }
}

#[test]
fn names_say_the_cycles() {
    let folder = tempfile::tempdir().unwrap();
    let mut sink = DirectorySink::create(folder.path(), &schema(), &settings(FileFormat::Ndjson, 2)).unwrap();
    for number in 0..5 {
        commit_one(&mut sink, number, rows(&[("a", 1)])).unwrap();
    }
    sink.finish().unwrap();
    let names: Vec<String> = parts(folder.path()).iter().map(|path| name(path)).collect();
    let expected = [
        "part-00000000000000000000-00000000000000000001.ndjson",
        "part-00000000000000000002-00000000000000000003.ndjson",
        "part-00000000000000000004-00000000000000000004.ndjson",
    ];
    assert_eq!(names, expected);
}

#[test]
fn size_and_age_end_a_file() {
    for format in FORMATS {
        for (bytes_max, age_max) in [(1, Duration::MAX), (u64::MAX, Duration::ZERO)] {
            let folder = tempfile::tempdir().unwrap();
            let settings =
                DirectorySinkSettings { bytes_max, age_max, ..DirectorySinkSettings::new(format()) };
            let mut sink = DirectorySink::create(folder.path(), &schema(), &settings).unwrap();
            for number in 0..3 {
                commit_one(&mut sink, number, rows(&[("a", 1)])).unwrap();
            }
            assert_eq!(parts(folder.path()).len(), 3);
        }
    }
}

#[test]
fn a_query_that_fails_elsewhere_keeps_what_was_committed() {
    for format in FORMATS {
        let folder = tempfile::tempdir().unwrap();
        let mut sink = DirectorySink::create(folder.path(), &schema(), &settings(format(), 100)).unwrap();
        commit_one(&mut sink, 7, rows(&[("a", 1)])).unwrap();
        sink.prepare(cycle(8, Some(rows(&[("b", 2)])))).unwrap();
        assert!(parts(folder.path()).is_empty());
        drop(sink);
        let parts = parts(folder.path());
        assert_eq!(parts.len(), 1);
        assert!(name(&parts[0]).starts_with("part-00000000000000000007-00000000000000000007."));
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}

#[test]
fn results_of_an_earlier_query_are_refused_or_removed_and_other_files_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("part-of-me.csv"), "mine").unwrap();
    fs::write(folder.path().join("part-00000000000000000000-00000000000000000001.parquet"), "old").unwrap();
    let mut settings = settings(FileFormat::csv(), 1);
    let refused = DirectorySink::create(folder.path(), &schema(), &settings).err();
    assert!(
        matches!(refused, Some(Cause { fault: Fault::User, message, .. }) if message.contains("overwrite = true"))
    );
    settings.overwrite = true;
    let before: Vec<String> = parts(folder.path()).iter().map(|path| name(path)).collect();
    // A query that does not start leaves what is there, a durable one that is killed at once, too.
    for resume in [false, true, true] {
        let settings = DirectorySinkSettings { resume, ..settings.clone() };
        let mut sink = DirectorySink::create(folder.path(), &schema(), &settings).unwrap();
        sink.prepare(cycle(0, Some(rows(&[("a", 1)])))).unwrap();
        drop(sink);
        let left: Vec<String> = parts(folder.path()).iter().map(|path| name(path)).collect();
        assert_eq!(left, before, "{resume}");
    }
    let mut sink = DirectorySink::create(folder.path(), &schema(), &settings).unwrap();
    commit_one(&mut sink, 0, rows(&[("a", 1)])).unwrap();
    sink.finish().unwrap();
    let names: Vec<String> = parts(folder.path()).iter().map(|path| name(path)).collect();
    assert_eq!(names, ["part-00000000000000000000-00000000000000000000.csv", "part-of-me.csv"]);
}

#[test]
fn a_file_in_the_place_of_the_folder_is_refused() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let settings = settings(FileFormat::csv(), 1);
    for path in [file.path().to_owned(), file.path().join("under")] {
        let refused = DirectorySink::create(&path, &schema(), &settings).err();
        assert!(
            matches!(refused, Some(Cause { fault: Fault::User, .. } | Cause { fault: Fault::Operation, .. })),
            "{refused:?}"
        );
    }
}
