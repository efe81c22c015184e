//! Typed streams into files.

use std::fs;
use std::path::Path;

use tidemill::connect::file::FileFormat;
use tidemill::sinks::FileTarget;
use tidemill::{Engine, Error, Query, sinks};

/// Copies numbers into a file; with a journal if there is a folder for one.
fn copy(to: FileTarget, numbers: &[i64], journal: Option<&Path>) -> Result<(), Error> {
    let query = Query::new("copy");
    let mut query = journal.into_iter().fold(query, Query::durable);
    let source = query.rows::<(i64, String)>("numbers", ["number", "text"]);
    source.to("file", to);
    let run = Engine::new().workers(2).start(query)?;
    for number in numbers {
        run.input(&source)?.push([(*number, format!("n{number}"))])?;
    }
    run.stop().map(|_| ())
}

#[test]
fn the_ending_tells_the_format_and_format_overrides_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    copy(sinks::file(path("a.csv")), &[1, 2], None).unwrap();
    copy(sinks::file(path("a.ndjson")), &[1], None).unwrap();
    copy(sinks::file(path("a.data")).format(FileFormat::csv()), &[3], None).unwrap();
    assert_eq!(fs::read_to_string(path("a.csv")).unwrap(), "number,text\n1,n1\n2,n2\n");
    assert_eq!(fs::read_to_string(path("a.ndjson")).unwrap(), "{\"number\":1,\"text\":\"n1\"}\n");
    assert_eq!(fs::read_to_string(path("a.data")).unwrap(), "number,text\n3,n3\n");
    let error = copy(sinks::file(path("b.data")), &[3], None).unwrap_err().to_string();
    assert!(error.starts_with("sink 'file': ") && error.contains("call format()"), "{error}");
}

#[test]
fn a_file_is_kept_unless_it_may_be_overwritten_and_opened_only_at_the_start() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.csv");
    fs::write(&path, "mine\n").unwrap();
    let mut query = Query::new("never started");
    let numbers = query.rows::<(i64,)>("numbers", "number");
    numbers.to("file", sinks::file(&path).with(|settings| settings.overwrite = true));
    drop(query);
    let error = copy(sinks::file(&path), &[1], None).unwrap_err().to_string();
    assert!(error.starts_with("sink 'file': ") && error.contains("a.csv"), "{error}");
    assert_eq!(fs::read_to_string(&path).unwrap(), "mine\n");
    copy(sinks::file(&path).with(|settings| settings.overwrite = true), &[1], None).unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), "number,text\n1,n1\n");
}

#[test]
fn the_file_of_a_durable_query_is_continued() {
    let folder = tempfile::tempdir().unwrap();
    let (path, journal) = (folder.path().join("a.csv"), folder.path().join("journal"));
    for numbers in [[1, 2], [3, 4], [5, 6]] {
        copy(sinks::file(&path), &numbers, Some(&journal)).unwrap();
    }
    let text = fs::read_to_string(&path).unwrap();
    assert_eq!(text, "number,text\n1,n1\n2,n2\n3,n3\n4,n4\n5,n5\n6,n6\n");
}
