//! Every format, declared and inferred.

use std::io::Write;
use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use tidemill_connect::file::{FileSettings, FileSource};
use tidemill_connect::formats::Format;
use tidemill_core::source::Source;

use crate::fetch::support::{csv, drain, read, refusal, settings};
use tidemill_testing::file_server::{Server, say};

fn batch(rows: i64) -> RecordBatch {
    let ids: ArrayRef = Arc::new(Int64Array::from_iter_values(0..rows));
    let names: ArrayRef =
        Arc::new(StringArray::from_iter_values((0..rows).map(|row| format!("name {}", row * 7919))));
    RecordBatch::try_from_iter([("id", ids), ("name", names)]).unwrap()
}

fn parquet(rows: i64) -> Vec<u8> {
    let (batch, mut bytes) = (batch(rows), Vec::new());
    let mut writer = parquet::arrow::ArrowWriter::try_new(&mut bytes, batch.schema(), None).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
    bytes
}

fn arrow_file(rows: i64) -> Vec<u8> {
    let (batch, mut bytes) = (batch(rows), Vec::new());
    let mut writer = arrow_ipc::writer::FileWriter::try_new(&mut bytes, &batch.schema()).unwrap();
    writer.write(&batch).unwrap();
    writer.finish().unwrap();
    bytes
}

fn arrow_stream(rows: i64) -> Vec<u8> {
    let (batch, mut bytes) = (batch(rows), Vec::new());
    let mut writer = arrow_ipc::writer::StreamWriter::try_new(&mut bytes, &batch.schema()).unwrap();
    writer.write(&batch).unwrap();
    writer.finish().unwrap();
    bytes
}

fn gzip(text: &str) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(text.as_bytes()).unwrap();
    encoder.finish().unwrap()
}

fn json(rows: usize) -> String {
    (0..rows).map(|row| format!("{{\"id\":{row}}}\n")).collect()
}

#[test]
fn every_format_is_read_with_its_own_columns() {
    for (name, content) in [
        ("a.csv", csv(5000).into_bytes()),
        ("a.csv.gz", gzip(&csv(5000))),
        // Recognised by its first bytes.
        ("b.csv", gzip(&csv(5000))),
        ("a.ndjson", json(5000).into_bytes()),
        ("a.json.gz", gzip(&json(5000))),
        ("a.parquet", parquet(5000)),
        ("a.arrow", arrow_file(5000)),
        ("b.arrow", arrow_stream(5000)),
    ] {
        let server = Server::of_file(content);
        let path = server.url(&format!("{name}?token=secret"));
        let mut source = FileSource::open(FileSettings::new(path)).unwrap();
        assert_eq!(source.schema().field(0).name(), "id", "{name}");
        assert!(source.is_finite() && source.is_repeatable());
        assert_eq!(drain(&mut source).unwrap(), (0..5000).collect::<Vec<_>>(), "{name}");
        let whole = server.requests().iter().filter(|request| request.header("range").is_none()).count();
        // Text: its beginning, and then all of it.
        assert_eq!(whole, if Format::of_path(name).unwrap().is_text() { 2 } else { 1 }, "{name}");
    }
}

#[test]
fn what_is_declared_is_fetched_once_and_only_wanted_columns_are_read() {
    let server = Server::of_file(parquet(100));
    assert_eq!(read(settings(&server.url("a.parquet"))).unwrap().len(), 100);
    assert_eq!(server.requests().len(), 1);
    let mut source = FileSource::open(FileSettings::new(server.url("a.parquet"))).unwrap();
    source.set_projection(&[0]).unwrap();
    assert_eq!(source.schema().fields().len(), 1);
    assert_eq!(drain(&mut source).unwrap().len(), 100);
}

#[test]
fn the_columns_of_a_long_file_are_found_in_its_ends() {
    let content = parquet(300_000);
    let length = content.len();
    assert!(length > 1 << 20, "{length}");
    let server = Server::of_file(content);
    let schema = FileSource::infer(&mut FileSettings::new(server.url("a.parquet"))).unwrap();
    assert_eq!(schema.fields().len(), 2);
    let ranges: Vec<usize> =
        server.requests().iter().map(|request| request.range(length).expect("a part").len()).collect();
    assert!(ranges.iter().sum::<usize>() < length / 4, "{ranges:?} of {length}");
}

#[test]
fn a_description_that_is_longer_than_the_first_guess_is_fetched_whole() {
    // Some thousand columns describe themselves in more than 64 KiB.
    let column: ArrayRef = Arc::new(Int64Array::from(vec![7]));
    let columns = (0..2000).map(|number| (format!("column_{number}"), Arc::clone(&column)));
    let batch = RecordBatch::try_from_iter(columns).unwrap();
    let mut bytes = Vec::new();
    let mut writer = arrow_ipc::writer::FileWriter::try_new(&mut bytes, &batch.schema()).unwrap();
    writer.write(&batch).unwrap();
    writer.finish().unwrap();
    let mut parquet = Vec::new();
    let mut writer = parquet::arrow::ArrowWriter::try_new(&mut parquet, batch.schema(), None).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
    for (name, content) in [("a.arrow", bytes), ("a.parquet", parquet)] {
        let server = Server::of_file(content);
        let schema = FileSource::infer(&mut FileSettings::new(server.url(name))).unwrap();
        assert_eq!(schema.fields().len(), 2000, "{name}");
        assert!(server.requests().iter().all(|request| request.header("range").is_some()), "{name}");
    }
}

#[test]
fn empty_files_are_empty() {
    let server = Server::start(|request, stream| match request.header("range") {
        Some(_) => say(stream, "416 Range Not Satisfiable", "Content-Range: bytes */0\r\n", b""),
        None => say(stream, "200 OK", "", b""),
    });
    assert_eq!(read(settings(&server.url("a.csv"))).unwrap(), [0i64; 0]);
    let message = refusal(FileSettings::new(server.url("a.parquet")));
    assert!(message.contains("cannot be read as Parquet"), "{message}");
}

#[test]
fn web_pages_are_lines_and_nothing_else() {
    let server = Server::start(|_, stream| {
        say(stream, "200 OK", "Content-Type: text/html; charset=utf-8\r\n", b"<p>\n</p>\n")
    });
    let message = refusal(settings(&server.url("a.csv")));
    assert!(
        message.contains("a web page, not with a file; check the URL, and whether it asks for a login"),
        "{message}"
    );
    let mut lines = FileSettings::new(server.url("a"));
    lines.format = Some(Format::Lines);
    let mut source = FileSource::open(lines).unwrap();
    let start = std::time::Instant::now();
    loop {
        assert!(start.elapsed() < crate::fetch::support::PATIENCE);
        match source.poll(std::time::Duration::from_millis(100)).unwrap() {
            tidemill_core::source::Polled::Rows(rows) => break assert_eq!(rows.num_rows(), 2),
            tidemill_core::source::Polled::Nothing => {}
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn what_is_no_single_file_is_refused() {
    for (path, why) in [
        ("http://127.0.0.1:1/*.csv", "a web server does not tell which files match a pattern"),
        ("http://127.0.0.1:1/folder/", "a web server does not tell its files"),
        ("ftp://127.0.0.1/a.csv", "files cannot be read from 'ftp://'"),
        (
            "http://127.0.0.1:1/a.data?secret",
            "http://127.0.0.1:1/a.data: the extension does not tell the format",
        ),
    ] {
        let message = refusal(FileSettings::new(path));
        assert!(message.contains(why), "{message}");
    }
    let mut followed = settings("http://127.0.0.1:1/a.csv?secret");
    followed.follow = true;
    let message = refusal(followed);
    assert!(message.contains("fetched once and not followed"), "{message}");
}
