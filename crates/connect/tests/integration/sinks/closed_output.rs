//! Standard output: what is seen when, and readers that go.

use std::io::{Read, Write};
use std::sync::atomic::Ordering;

use arrow_array::RecordBatch;
use proptest::prelude::*;
use tidemill_connect::formats::encode::TextFormat;
use tidemill_connect::standard_streams::{LatestTable, OUTPUT_CLOSED, StandardOutput, is_output_closed};
use tidemill_core::{Cause, Fault, Sink};

use crate::sinks::support::{any_cycles, commit_one, cycle, drive, rows, schema, text_of};

/// Bytes that can be looked at while a sink writes.
#[derive(Clone, Default)]
struct Seen(std::sync::Arc<parking_lot::Mutex<Vec<u8>>>);

impl Seen {
    fn text(&self) -> String {
        String::from_utf8(self.0.lock().clone()).unwrap()
    }
}

impl Write for Seen {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().write(bytes)
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

proptest! {
    #[test]
    fn what_is_committed_is_seen_at_once((cycles, commits) in any_cycles(), which in 0..2_usize) {
        let format = [TextFormat::csv(), TextFormat::Ndjson][which].clone();
        let seen = Seen::default();
        let mut output = StandardOutput::new(seen.clone(), &schema(), &format).unwrap();
        let all = drive(&mut output, &cycles, &commits, |committed: &[RecordBatch]| {
            let rows: usize = committed.iter().map(RecordBatch::num_rows).sum();
            let expected = if rows == 0 { String::new() } else { text_of(&format, committed) };
            assert_eq!(seen.text(), expected);
        });
        output.finish().unwrap();
        prop_assert_eq!(seen.text(), text_of(&format, &all));
    }
}

#[test]
fn a_table_without_rows_is_a_header() {
    let mut output = StandardOutput::new(Vec::new(), &schema(), &TextFormat::table()).unwrap();
    output.finish().unwrap();
    let text = String::from_utf8(output.into_writer()).unwrap();
    assert_eq!(text, " key          |    value\n--------------+----------\n");
}

#[test]
fn a_closed_pipe_ends_the_query_in_order() {
    let (mut reader, writer) = std::io::pipe().unwrap();
    let mut output = StandardOutput::new(writer, &schema(), &TextFormat::csv()).unwrap();
    let closed = output.closed();
    commit_one(&mut output, 0, rows(&[("a", 1)])).unwrap();
    let mut text = [0; 14];
    reader.read_exact(&mut text).unwrap();
    assert_eq!(&text, b"key,value\na,1\n");
    assert!(!closed.load(Ordering::Acquire));
    drop(reader);
    let cause = commit_one(&mut output, 1, rows(&[("b", 2)])).unwrap_err();
    assert!(is_output_closed(&cause) && closed.load(Ordering::Acquire));
    assert_eq!(cause, Cause::operation(OUTPUT_CLOSED));
}

#[test]
fn a_pipe_that_is_closed_in_the_middle_of_a_long_text_ends_it_too() {
    let (mut reader, writer) = std::io::pipe().unwrap();
    let mut output = StandardOutput::new(writer, &schema(), &TextFormat::Ndjson).unwrap();
    let reading = std::thread::spawn(move || reader.read_exact(&mut [0; 1000]));
    let cause = commit_one(&mut output, 0, rows(&vec![("a", 1); 100_000])).unwrap_err();
    assert!(is_output_closed(&cause));
    reading.join().unwrap().unwrap();
}

#[test]
fn a_full_device_is_a_failure_and_no_end() {
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full");
    let Ok(full) = full else {
        return eprintln!("skipped: no /dev/full here");
    };
    let mut output = StandardOutput::new(full, &schema(), &TextFormat::csv()).unwrap();
    let cause = commit_one(&mut output, 0, rows(&[("a", 1)])).unwrap_err();
    assert!(cause.fault == Fault::Operation && !is_output_closed(&cause), "{cause}");
}

#[test]
fn the_latest_table_is_written_once_at_the_end() {
    let seen = Seen::default();
    let mut table = LatestTable::new(seen.clone(), &schema(), vec![0], 100, &TextFormat::table()).unwrap();
    commit_one(&mut table, 0, rows(&[("spring", 1), ("autumn", 1), ("spring", 2)])).unwrap();
    table.prepare(cycle(1, None)).unwrap();
    table.prepare(cycle(2, Some(rows(&[("autumn", 12_345_678)])))).unwrap();
    table.commit(1..=2).unwrap();
    assert!(seen.text().is_empty());
    table.finish().unwrap();
    let text = seen.text();
    let expected =
        [" key    |    value", "--------+----------", " spring |        2", " autumn | 12345678", ""];
    assert_eq!(text, expected.join("\n"));
}

#[test]
fn the_latest_table_of_many_rows_has_one_header_and_all_of_them() {
    let mut table = LatestTable::new(Vec::new(), &schema(), vec![0, 1], 100_000, &TextFormat::csv()).unwrap();
    let values: Vec<(&str, i64)> = (0..20_000).map(|value| ("a", value)).collect();
    commit_one(&mut table, 0, rows(&values)).unwrap();
    table.finish().unwrap();
    let text = String::from_utf8(table.into_writer()).unwrap();
    assert_eq!(text, text_of(&TextFormat::csv(), &[rows(&values)]));
}
