//! A stream that gets columns: rows that were written before have NULL in them.

use std::sync::Arc;

use arrow_array::{
    ArrayRef, Float32Array, Float64Array, Int64Array, RecordBatch, StringArray, new_null_array,
};
use arrow_schema::DataType;
use tidemill_journal::{Journal, StreamSettings, inspect};

use crate::support::{request, rows};

/// Small enough for several segments.
fn settings() -> StreamSettings {
    StreamSettings { segment_bytes: 2048, ..StreamSettings::default() }
}

/// The rows of `support::rows` with further columns before, between and behind theirs.
fn wider(start: u64, count: usize) -> RecordBatch {
    let narrow = rows(start, count);
    let numbers = (0..count as i64).map(|row| (row % 2 == 0).then_some(start as i64 + row));
    let halves: ArrayRef =
        Arc::new(numbers.map(|number| number.map(|n| n as f64 / 2.0)).collect::<Float64Array>());
    let names: ArrayRef = Arc::new(StringArray::from_iter((0..count).map(|row| Some(format!("name {row}")))));
    RecordBatch::try_from_iter_with_nullable([
        ("name", names.clone(), true),
        ("number", Arc::clone(narrow.column(0)), false),
        ("half", halves, true),
        ("text", Arc::clone(narrow.column(1)), true),
        ("last", names, true),
    ])
    .unwrap()
}

/// The rows of `support::rows` as the wider stream has them.
fn widened(start: u64, count: usize) -> RecordBatch {
    let (narrow, wide) = (rows(start, count), wider(0, 0).schema());
    let column = |name: &str, data_type: &DataType| match narrow.column_by_name(name) {
        Some(column) => Arc::clone(column),
        None => new_null_array(data_type, count),
    };
    let columns = wide.fields().iter().map(|field| column(field.name(), field.data_type())).collect();
    RecordBatch::try_new(wide, columns).unwrap()
}

#[test]
fn older_rows_have_null_in_columns_that_were_added() {
    let folder = tempfile::tempdir().unwrap();
    let open = || Journal::open(folder.path()).unwrap();
    {
        let (mut writer, _) = open().stream("s", rows(0, 1).schema(), &settings()).unwrap();
        for start in (0..300).step_by(10) {
            writer.append(&rows(start, 10), start, Some(&request("c", start + 1))).unwrap();
        }
        writer.sync().unwrap();
    }
    let written = std::fs::read_dir(folder.path().join("streams/s")).unwrap().count();
    assert!(written > 2, "{written} segments");
    // Twice: the second time, the newest segment has all columns already.
    for end in [300_u64, 400] {
        let journal = open();
        let (mut writer, mut reader) = journal.stream("s", wider(0, 0).schema(), &settings()).unwrap();
        assert_eq!((writer.end(), writer.last_of("c")), (end, Some(end - 9)), "clients are known as before");
        for start in (end..end + 100).step_by(10) {
            writer.append(&wider(start, 10), start, Some(&request("c", start + 1))).unwrap();
        }
        let expected = |start: u64| if start < 300 { widened(start, 10) } else { wider(start, 10) };
        let mut another = reader.another();
        for start in (0..end + 100).step_by(10) {
            assert_eq!(reader.read(start).unwrap().unwrap().rows, expected(start), "from {start}");
            // Back and forth between the segments.
            let other = end + 90 - start;
            assert_eq!(another.read(other).unwrap().unwrap().rows, expected(other), "at {other}");
        }
        writer.sync().unwrap();
        let records: Vec<_> =
            inspect::records(folder.path(), "s", 0).unwrap().map(|record| record.unwrap().rows).collect();
        assert_eq!(records, (0..end + 100).step_by(10).map(expected).collect::<Vec<_>>());
        assert!(inspect::verify(folder.path()).unwrap().findings.is_empty());
    }
    // What has got them does not lose them.
    let refused = open().stream("s", rows(0, 1).schema(), &settings()).err().unwrap().to_string();
    assert!(refused.contains("half Float64"), "{refused}");
}

#[test]
fn an_empty_journal_gets_columns_in_the_place_of_its_segment() {
    let folder = tempfile::tempdir().unwrap();
    let open = |schema| Journal::open(folder.path()).unwrap().stream("s", schema, &settings()).unwrap();
    drop(open(rows(0, 1).schema()));
    let (mut writer, mut reader) = open(wider(0, 0).schema());
    writer.append(&wider(0, 5), 0, None).unwrap();
    assert_eq!(reader.read(0).unwrap().unwrap().rows, wider(0, 5));
    assert_eq!(std::fs::read_dir(folder.path().join("streams/s")).unwrap().count(), 1);
}

#[test]
fn a_follower_reads_on_when_columns_are_added() {
    let folder = tempfile::tempdir().unwrap();
    let open = || Journal::open(folder.path()).unwrap();
    let (mut writer, _) = open().stream("s", rows(0, 1).schema(), &settings()).unwrap();
    writer.append(&rows(0, 3), 0, None).unwrap();
    let mut following = inspect::records(folder.path(), "s", 0).unwrap().following();
    assert_eq!(following.next().unwrap().unwrap().rows, rows(0, 3));
    drop(writer);
    let (mut writer, _) = open().stream("s", wider(0, 0).schema(), &settings()).unwrap();
    writer.append(&wider(3, 4), 0, None).unwrap();
    // It began when there were only these columns.
    assert_eq!(following.next().unwrap().unwrap().rows, rows(3, 4));
    let mut again = inspect::records(folder.path(), "s", 0).unwrap();
    assert_eq!(again.next().unwrap().unwrap().rows, widened(0, 3));
}

#[test]
fn what_rows_that_are_there_cannot_have_is_refused_with_a_remedy() {
    let refused = |before: RecordBatch, after: RecordBatch| {
        let folder = tempfile::tempdir().unwrap();
        let open = |rows: &RecordBatch| {
            Journal::open(folder.path()).unwrap().stream("s", rows.schema(), &settings())
        };
        open(&before).unwrap().0.append(&before, 0, None).unwrap();
        open(&after).err().map(|cause| cause.to_string()).unwrap_or_default()
    };
    let of =
        |columns: Vec<(&str, ArrayRef, bool)>| RecordBatch::try_from_iter_with_nullable(columns).unwrap();
    let numbers = || Arc::new(Int64Array::from(vec![1])) as ArrayRef;
    let not_null =
        refused(of(vec![("a", numbers(), true)]), of(vec![("a", numbers(), true), ("b", numbers(), false)]));
    assert!(not_null.contains("declare 'b' without NOT NULL"), "{not_null}");
    let gone =
        refused(of(vec![("a", numbers(), true), ("b", numbers(), true)]), of(vec![("a", numbers(), true)]));
    assert!(gone.contains("another folder"), "{gone}");
    let stricter = refused(of(vec![("a", numbers(), true)]), of(vec![("a", numbers(), false)]));
    assert!(stricter.contains("another folder"), "{stricter}");
    let (single, double) = (Float32Array::from(vec![0.5]), Float64Array::from(vec![0.5]));
    let (single, double): (ArrayRef, ArrayRef) = (Arc::new(single), Arc::new(double));
    let float = refused(of(vec![("v", single, true)]), of(vec![("v", double, true)]));
    assert!(float.contains("declare 'v' as REAL, which is what FLOAT meant"), "{float}");
}
