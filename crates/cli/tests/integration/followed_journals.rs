//! A pipeline that follows the journal of another one: each row once, whichever of the two is killed, and when.
#![cfg(feature = "sql")]

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::time::Duration;

use crate::support::run::{Run, log};
use crate::support::*;
use tempfile::TempDir;

/// A pipeline that takes numbers in.
fn writer() -> TempDir {
    let script = "CREATE SOURCE numbers (n BIGINT) WITH (path = 'numbers.csv', follow = true, durable = true);\n\
                  CREATE SINK out AS SELECT n FROM numbers WITH (path = 'out.csv');\n";
    folder_with(&[("numbers.csv", "n\n"), ("p.sql", script)])
}

/// A pipeline that follows it, with these options.
fn reader(writer: &Path, columns: &str, options: &str) -> TempDir {
    let journal = writer.join("p.journal");
    let script = format!(
        "CREATE SOURCE numbers {columns} WITH (connector = 'journal', path = '{}', {options});\n\
         SET snapshot_every = '20 ms';\n\
         CREATE SINK out AS SELECT n FROM numbers WHERE n % 2 = 0 WITH (path = 'out.csv');\n",
        journal.display()
    );
    folder_with(&[("p.sql", &script)])
}

fn append(folder: &Path, numbers: impl IntoIterator<Item = u64>) {
    let mut file = OpenOptions::new().append(true).open(folder.join("numbers.csv")).unwrap();
    let lines: String = numbers.into_iter().map(|number| format!("{number}\n")).collect();
    file.write_all(lines.as_bytes()).unwrap();
}

/// The numbers in the sink, in its order.
fn numbers(folder: &Path) -> Vec<u64> {
    let text = fs::read_to_string(folder.join("out.csv")).unwrap_or_default();
    // The last line may be being written.
    let whole = &text[..text.rfind('\n').map_or(0, |end| end + 1)];
    whole.lines().skip(1).map(|line| line.parse().unwrap()).collect()
}

fn even(end: u64) -> Vec<u64> {
    (0..end).filter(|number| number.is_multiple_of(2)).collect()
}

#[test]
fn each_row_is_answered_once_whichever_pipeline_is_killed() {
    let writer = writer();
    let reader = reader(writer.path(), "(n BIGINT)", "follow = true, durable = true");
    let (writer, reader) = (writer.path(), reader.path());
    let rounds = 12;
    // The reader may be there first, and waits for the journal.
    let mut reading = Run::begin(reader);
    for round in 0..rounds {
        let writing = Run::begin(writer);
        append(writer, round * 1000..(round + 1) * 1000);
        if round % 3 == 0 {
            // At any moment: while it starts, reads, or commits.
            std::thread::sleep(Duration::from_millis(round * 37 % 400));
            reading.kill();
            reading = Run::begin(reader);
        }
        let due = even((round + 1) * 1000).len();
        reading.wait_until("the rows of the round are there", || numbers(reader).len() >= due);
        match round % 2 {
            0 => writing.kill(),
            _ => writing.interrupt(),
        }
    }
    reading.interrupt();
    assert_eq!(numbers(reader), even(rounds * 1000), "{}", log(reader));
}

#[test]
fn a_query_that_is_not_durable_begins_where_it_is_told() {
    let writer = writer();
    let first = reader(writer.path(), "(n BIGINT)", "follow = true");
    let latest = reader(writer.path(), "(n BIGINT)", "follow = true, start = 'latest'");
    let writer = writer.path();
    let mut writing = Run::begin(writer);
    append(writer, 0..100);
    writing.wait_until("the rows are taken in", || numbers(writer).len() == 100);
    let mut all = Run::begin(first.path());
    all.wait_until("the past is there", || numbers(first.path()) == even(100));
    let mut new = Run::begin(latest.path());
    // It has begun when it answers what comes.
    let mut end = 100;
    new.wait_until("it has begun", || {
        append(writer, end..end + 2);
        end += 2;
        !numbers(latest.path()).is_empty()
    });
    all.wait_until("all rows are there", || numbers(first.path()) == even(end));
    new.wait_until("the last row is there", || numbers(latest.path()).last() == Some(&(end - 2)));
    let found = numbers(latest.path());
    assert!(found[0] >= 100, "{found:?}");
    assert_eq!(found, even(end)[(found[0] / 2) as usize..], "without gaps");
    all.interrupt();
    new.interrupt();
    writing.interrupt();
}

#[test]
fn another_journal_at_the_same_place_is_not_continued() {
    let writer = writer();
    let reader = reader(writer.path(), "", "follow = true, durable = true");
    let (writer, reader) = (writer.path(), reader.path());
    let answered = |from: u64, end: u64| {
        let mut writing = Run::begin(writer);
        append(writer, from..end);
        writing.wait_until("the rows are taken in", || numbers(writer).last() == Some(&(end - 1)));
        writing.interrupt();
    };
    answered(0, 100);
    let mut reading = Run::begin(reader);
    reading.wait_until("the rows are there", || numbers(reader) == even(100));
    reading.interrupt();
    for file in ["out.csv", "out.csv.manifest", "numbers.csv"] {
        let _ = fs::remove_file(writer.join(file));
    }
    fs::remove_dir_all(writer.join("p.journal")).unwrap();
    fs::write(writer.join("numbers.csv"), "n\n").unwrap();
    answered(1000, 1200);
    assert_eq!(Run::begin(reader).ended(), Some(2), "{}", log(reader));
    assert!(log(reader).contains("it is another journal"), "{}", log(reader));
    assert_eq!(numbers(reader), even(100));
}

#[test]
fn what_cannot_be_followed_is_refused_with_the_reason() {
    let writer = writer();
    let refused = |columns: &str, options: &str| {
        let folder = reader(writer.path(), columns, options);
        ended(folder.path(), &["run", "p.sql"]).expect(2)
    };
    // Without columns, the journal must be there.
    refused("", "follow = true").tells(&["p.journal"]);
    refused("(n BIGINT)", "start = 'latest'").tells(&["add follow = true, or remove start"]);
    let mut writing = Run::begin(writer.path());
    append(writer.path(), 0..10);
    writing.wait_until("the rows are taken in", || numbers(writer.path()).len() == 10);
    refused("(n VARCHAR)", "follow = true").tells(&["has the columns (n Int64)"]);
    refused("(n BIGINT)", "follow = true, source = 'other'").tells(&["other"]);
    writing.interrupt();
}
