//! Files that lack what their manifest says is committed, as a loss of power can leave them where `sync` is never: a run that
//! went on would leave a hole.

use std::fs::{self, OpenOptions};
use std::path::Path;

use tidemill_connect::file::{
    DirectorySink, DirectorySinkSettings, FileFormat, FileSink, FileSinkSettings, SyncPolicy,
};
use tidemill_core::{Cause, Fault, Sink};

use crate::sinks::support::{commit_one, rows_of_cycle, schema};

fn file(path: &Path) -> Result<FileSink, Cause> {
    let settings = FileSinkSettings {
        resume: true,
        sync: SyncPolicy::Never,
        ..FileSinkSettings::new(FileFormat::csv())
    };
    FileSink::create(path, &schema(), &settings)
}

fn folder(path: &Path) -> Result<DirectorySink, Cause> {
    let settings = DirectorySinkSettings {
        resume: true,
        sync: SyncPolicy::Never,
        rows_max: 10,
        ..DirectorySinkSettings::new(FileFormat::csv())
    };
    DirectorySink::create(path, &schema(), &settings)
}

fn length(path: &Path) -> u64 {
    fs::metadata(path).unwrap().len()
}

fn set_length(path: &Path, length: u64) {
    OpenOptions::new().write(true).open(path).unwrap().set_len(length).unwrap();
}

/// The error names the file, the reason and what to do.
#[track_caller]
fn refused<T>(sink: Result<T, Cause>, name: &str, reason: &str) {
    let Err(Cause { fault: Fault::Operation, message: text, .. }) = sink else { panic!("it goes on") };
    for part in [name, reason, "had forced it to disk", "Restore it, or start the query from scratch"] {
        assert!(text.contains(part), "no '{part}' in: {text}");
    }
}

#[test]
fn a_file_that_lacks_committed_rows_is_refused() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("out.csv");
    let mut sink = file(&path).unwrap();
    for number in 0..3 {
        commit_one(&mut sink, number, rows_of_cycle(number, 4)).unwrap();
    }
    drop(sink);
    let (whole, bytes) = (fs::read(&path).unwrap(), length(&path));

    set_length(&path, bytes - 5);
    refused(
        file(&path),
        "out.csv",
        &format!("must contain the {bytes} bytes that are committed, but it has {}", bytes - 5),
    );
    // The length is there, the content is not.
    set_length(&path, bytes);
    refused(file(&path), "out.csv", "no row ends there");
    fs::remove_file(&path).unwrap();
    refused(file(&path), "out.csv", "must contain");

    // What is behind the last commit may be lost.
    fs::write(&path, [&whole[..], b"half a ro"].concat()).unwrap();
    let mut sink = file(&path).unwrap();
    assert_eq!(sink.last_committed().unwrap(), Some(2));
    drop(sink);
    assert_eq!(fs::read(&path).unwrap(), whole);
}

#[test]
fn a_folder_whose_last_file_lacks_committed_rows_is_refused() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("out");
    let mut sink = folder(&path).unwrap();
    commit_one(&mut sink, 0, rows_of_cycle(0, 12)).unwrap();
    drop(sink);
    let files = fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path());
    let part = files.into_iter().find(|path| path.extension().is_some_and(|ending| ending == "csv")).unwrap();
    let (whole, name) = (fs::read(&part).unwrap(), part.file_name().unwrap().to_str().unwrap().to_owned());

    set_length(&part, length(&part) - 5);
    refused(
        folder(&path),
        &name,
        &format!("has {} bytes, but {} were committed", whole.len() - 5, whole.len()),
    );
    fs::write(&part, &whole).unwrap();
    drop(folder(&path).unwrap());
    // One that was taken away is none of ours any more.
    fs::remove_file(&part).unwrap();
    drop(folder(&path).unwrap());
}

/// The manifest describes the last file only; of older ones it is seen that they do not end as they must.
#[test]
fn a_folder_whose_older_file_is_cut_off_is_refused() {
    for format in [FileFormat::csv(), FileFormat::Ndjson, FileFormat::Parquet, FileFormat::ArrowIpc] {
        let place = tempfile::tempdir().unwrap();
        let settings = DirectorySinkSettings {
            resume: true,
            sync: SyncPolicy::Never,
            rows_max: 10,
            ..DirectorySinkSettings::new(format.clone())
        };
        let folder = || DirectorySink::create(place.path(), &schema(), &settings);
        let mut sink = folder().unwrap();
        for cycle in 0..3 {
            commit_one(&mut sink, cycle, rows_of_cycle(cycle, 12)).unwrap();
        }
        drop(sink);
        let files = fs::read_dir(place.path()).unwrap().map(|entry| entry.unwrap().path());
        let mut files: Vec<_> =
            files.filter(|path| path.extension().is_some_and(|ending| ending == format.ending())).collect();
        files.sort();
        assert_eq!(files.len(), 3);
        drop(folder().unwrap());

        let (older, whole) = (&files[0], fs::read(&files[0]).unwrap());
        let zeros = vec![0; whole.len()];
        for damaged in [&whole[..whole.len() - 1], &[], &zeros] {
            fs::write(older, damaged).unwrap();
            let refused = folder().err().expect("it continues");
            let name = older.file_name().unwrap().to_str().unwrap();
            assert!(refused.message.contains(name) && refused.message.contains("is cut off"), "{refused}");
        }
        fs::write(older, &whole).unwrap();
        drop(folder().unwrap());
        fs::remove_file(older).unwrap();
        assert_eq!(folder().unwrap().last_committed().unwrap(), Some(2), "it was taken away");
    }
}

/// A query that is refused after its sinks were opened does not keep the next query, with other columns, from its files.
#[test]
fn what_has_committed_nothing_leaves_nothing() {
    let place = tempfile::tempdir().unwrap();
    let (path, parts) = (place.path().join("out.csv"), place.path().join("parts"));
    drop(file(&path).unwrap());
    drop(folder(&parts).unwrap());
    assert_eq!(fs::read_dir(place.path()).unwrap().count(), 1, "the folder");
    assert_eq!(fs::read_dir(&parts).unwrap().count(), 0);
    // A query without rows that ends in order leaves a header, and its manifest.
    let mut sink = file(&path).unwrap();
    sink.finish().unwrap();
    drop(sink);
    assert!(length(&path) > 0 && place.path().join("out.csv.manifest").exists());
    // It is resumed, and stays.
    drop(file(&path).unwrap());
    assert!(length(&path) > 0 && place.path().join("out.csv.manifest").exists());
    // And so does what is committed.
    let mut sink = folder(&parts).unwrap();
    commit_one(&mut sink, 0, rows_of_cycle(0, 4)).unwrap();
    drop(sink);
    assert_eq!(folder(&parts).unwrap().last_committed().unwrap(), Some(0));
}
