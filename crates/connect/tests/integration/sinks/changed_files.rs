//! A file that another program changes while it is written: no zeros, nothing overwritten, and every promise is kept or its
//! failure reported.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::Path;

use tidemill_connect::file::{FileFormat, FileSink, FileSinkSettings};
use tidemill_core::{Cause, Fault, Sink};

use crate::sinks::support::{commit_one, rows, schema};

fn create(path: &Path, resume: bool) -> FileSink {
    let settings = FileSinkSettings { resume, ..FileSinkSettings::new(FileFormat::csv()) };
    FileSink::create(path, &schema(), &settings).unwrap()
}

fn text(path: &Path) -> String {
    fs::read_to_string(path).unwrap()
}

#[test]
fn a_file_that_is_emptied_or_cut_is_gone_on_with_at_its_end() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("out.csv");
    let mut sink = create(&path, false);
    commit_one(&mut sink, 0, rows(&[("a", 1)])).unwrap();
    fs::File::create(&path).unwrap();
    commit_one(&mut sink, 1, rows(&[("b", 2)])).unwrap();
    assert_eq!(text(&path), "key,value\nb,2\n");
    OpenOptions::new().write(true).open(&path).unwrap().set_len(10).unwrap();
    commit_one(&mut sink, 2, rows(&[("c", 3)])).unwrap();
    assert_eq!(text(&path), "key,value\nc,3\n");
    OpenOptions::new().append(true).open(&path).unwrap().write_all(b"by hand,4\n").unwrap();
    commit_one(&mut sink, 3, rows(&[("d", 5)])).unwrap();
    assert_eq!(text(&path), "key,value\nc,3\nby hand,4\nd,5\n");
    fs::remove_file(&path).unwrap();
    commit_one(&mut sink, 4, rows(&[("e", 6)])).unwrap();
    assert_eq!(text(&path), "key,value\ne,6\n");
    sink.finish().unwrap();
}

#[test]
fn a_file_whose_rows_are_counted_is_not_written_to_when_they_are_gone() {
    let changes: [fn(&Path); 3] = [
        |path| _ = fs::File::create(path).unwrap(),
        |path| fs::remove_file(path).unwrap(),
        |path| OpenOptions::new().append(true).open(path).unwrap().write_all(b"by hand,4\n").unwrap(),
    ];
    for change in changes {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out.csv");
        let mut sink = create(&path, true);
        commit_one(&mut sink, 0, rows(&[("a", 1)])).unwrap();
        change(&path);
        let before = fs::read(&path).ok();
        let refused = commit_one(&mut sink, 1, rows(&[("b", 2)]));
        let Err(Cause { fault: Fault::Operation, message: reason, .. }) = refused else {
            panic!("{refused:?}")
        };
        assert!(reason.contains("was changed by another program: 14 bytes are committed"), "{reason}");
        assert_eq!(fs::read(&path).ok(), before, "it is left as it is");
    }
}

#[cfg(unix)]
#[test]
fn a_pipe_that_nobody_reads_is_refused_and_does_not_hang() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
    let settings = FileSinkSettings::new(FileFormat::csv());
    let Err(Cause { fault: Fault::User, message: reason, .. }) =
        FileSink::create(&path, &schema(), &settings)
    else {
        panic!("it was opened")
    };
    assert!(reason.contains("without a reader"), "{reason}");
    let reader = std::thread::spawn({
        let path = path.clone();
        move || fs::read_to_string(path).unwrap()
    });
    let mut sink = loop {
        match FileSink::create(&path, &schema(), &settings) {
            Ok(sink) => break sink,
            Err(_) => std::thread::yield_now(),
        }
    };
    // More than a pipe holds: it waits for its reader.
    let many = vec![("some text that takes some room", 7); 20_000];
    commit_one(&mut sink, 0, rows(&many)).unwrap();
    drop(sink);
    assert_eq!(reader.join().unwrap().lines().count(), 20_001);
}
