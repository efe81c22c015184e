//! Readers beside a writer: each version they get is whole, stays as it is, and answers as if nothing else happened.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use tidemill_core::arrow::array::cast::AsArray;
use tidemill_core::arrow::array::types::Int64Type;
use tidemill_core::arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use tidemill_core::arrow::schema::Schema;
use tidemill_core::changes::weight_field;
use tidemill_store::{
    Contents, FragmentBy, Fragmentation, FragmentedWriter, Retention, Selection, StoreConfig, StoreReader,
    StoreWriter, Version,
};

const KEYS: i64 = 500;
const ROWS_PER_CYCLE: i64 = 37;

fn column(values: impl Iterator<Item = i64>) -> ArrayRef {
    Arc::new(values.collect::<Int64Array>())
}

/// The key of the row with this number: each key comes once in `KEYS` rows, in another order each time.
fn key_of(number: i64) -> i64 {
    let round = number / KEYS;
    (number % KEYS * 7 + round * 13) % KEYS
}

/// The number of the last row before `end` with this key.
fn last_of(key: i64, end: i64) -> Option<i64> {
    (0..end).rev().take(2 * KEYS as usize).find(|number| key_of(*number) == key)
}

fn rows(cycle: i64) -> RecordBatch {
    let numbers = cycle * ROWS_PER_CYCLE..(cycle + 1) * ROWS_PER_CYCLE;
    let keys = column(numbers.clone().map(key_of));
    RecordBatch::try_from_iter([("key", keys), ("number", column(numbers))]).unwrap()
}

/// What a store of these contents is given: a changelog replaces the last row of each key.
fn input(contents: Contents, cycle: i64) -> RecordBatch {
    let come = rows(cycle);
    if contents != Contents::Changes {
        return come;
    }
    let numbers = cycle * ROWS_PER_CYCLE..(cycle + 1) * ROWS_PER_CYCLE;
    let gone = || numbers.clone().filter_map(|number| last_of(key_of(number), number));
    let keys = column(gone().map(key_of).chain(numbers.clone().map(key_of)));
    let weights = column(gone().map(|_| -1).chain(numbers.clone().map(|_| 1)));
    let mut fields = come.schema().fields().to_vec();
    fields.push(Arc::new(weight_field()));
    let columns = vec![keys, column(gone().chain(numbers.clone())), weights];
    RecordBatch::try_new(Arc::new(Schema::new(fields)), columns).unwrap()
}

fn numbers(batches: &[RecordBatch]) -> Vec<i64> {
    batches.iter().flat_map(|rows| rows.column(1).as_primitive::<Int64Type>().values().to_vec()).collect()
}

/// Checks a version by what its cycle says that it has.
fn check(version: &Version, contents: Contents, step: i64) {
    let Some(cycle) = version.cycle() else { return };
    let end = (cycle as i64 + 1) * ROWS_PER_CYCLE;
    let all = Selection::default();
    for key in (0..KEYS).step_by(41).map(|key| (key + step) % KEYS) {
        let found = version.newest(&[column([key].into_iter())], &all).unwrap();
        assert_eq!(numbers(&found.batches), Vec::from_iter(last_of(key, end)), "key {key} at cycle {cycle}");
        let of_key = Selection { key: Some(vec![column([key].into_iter())]), ..Selection::default() };
        let found = version.select(&of_key).unwrap();
        let first = end - version.stored_rows() as i64;
        let expected: Vec<i64> = match contents {
            Contents::AllRows => (first..end).filter(|number| key_of(*number) == key).collect(),
            Contents::LastOfKey | Contents::Changes => last_of(key, end).into_iter().collect(),
        };
        assert_eq!(numbers(&found.batches), expected, "key {key} at cycle {cycle}");
    }
    let read = version.read().unwrap();
    assert_eq!(version.read().unwrap(), read, "the same rows twice");
    match contents {
        Contents::AllRows => {
            let first = end - version.stored_rows() as i64;
            assert!(numbers(&[read]).into_iter().eq(first..end));
        }
        Contents::LastOfKey | Contents::Changes => assert_eq!(read.num_rows() as i64, KEYS.min(end)),
    }
}

fn read_until(end: &AtomicBool, reader: &StoreReader, contents: Contents, step: i64) {
    let mut held = reader.latest();
    for turn in step.. {
        let version = reader.latest();
        check(&version, contents, turn);
        check(&held, contents, turn);
        if let Some((oldest, newest)) = reader.cycles() {
            let asked = oldest + (newest - oldest) / 2;
            // It may be dropped between the two calls.
            if let Ok(version) = reader.as_of_cycle(asked) {
                assert_eq!(version.cycle(), Some(asked));
                check(&version, contents, turn);
            }
        }
        if turn % 3 == 0 {
            held = version;
        }
        if end.load(Ordering::Relaxed) {
            return;
        }
    }
}

/// Reads on other threads while this writes.
fn read_while(contents: Contents, reader: &StoreReader, write: impl FnOnce()) {
    let end = AtomicBool::new(false);
    thread::scope(|scope| {
        for step in 0..3 {
            let (reader, end) = (reader.clone(), &end);
            scope.spawn(move || read_until(end, &reader, contents, step));
        }
        write();
        end.store(true, Ordering::Relaxed);
    });
}

fn readers_beside_a_writer(contents: Contents) {
    let retention = Retention { bytes_max: 1 << 20, versions_max: 20, ..Retention::default() };
    let schema = rows(0).schema();
    let config = StoreConfig { contents, key: Some(vec![0]), retention, ..StoreConfig::new(&schema) };
    let (mut writer, reader) = StoreWriter::new(config).unwrap();
    read_while(contents, &reader, || {
        for cycle in 0..4000 {
            writer.append(cycle, &[input(contents, cycle as i64)]).unwrap();
        }
    });
    check(&reader.latest(), contents, 0);
    assert!(contents != Contents::AllRows || reader.statistics().rows_dropped > 10_000);
    assert!(reader.statistics().bytes <= 4 << 20, "{:?}", reader.statistics());
}

#[test]
fn rows_of_a_stream_are_read_while_they_come() {
    readers_beside_a_writer(Contents::AllRows);
}

#[test]
fn a_table_is_read_while_it_changes() {
    readers_beside_a_writer(Contents::LastOfKey);
}

#[test]
fn a_changelog_is_read_while_rows_come_and_go() {
    readers_beside_a_writer(Contents::Changes);
}

#[test]
fn several_fragments_are_read_as_one_store_while_they_are_written() {
    for contents in [Contents::AllRows, Contents::LastOfKey, Contents::Changes] {
        let retention = Retention { versions_max: 20, ..Retention::default() };
        let fragments = Some(Fragmentation { count: 3, by: FragmentBy::Key });
        let config = StoreConfig {
            contents,
            key: Some(vec![0]),
            retention,
            fragments,
            ..StoreConfig::new(&rows(0).schema())
        };
        let (mut writer, reader) = FragmentedWriter::new(config).unwrap();
        read_while(contents, &reader, || {
            for cycle in 0..600 {
                writer.append(cycle, &[input(contents, cycle as i64)]).unwrap();
            }
            writer.publish().unwrap();
        });
        assert_eq!(reader.latest().cycle(), Some(599));
        check(&reader.latest(), contents, 0);
        assert!(reader.fragments().iter().all(|fragment| fragment.statistics.rows > 0));
    }
}

#[test]
fn a_version_that_is_held_keeps_its_rows_after_they_are_dropped() {
    let retention = Retention { bytes_max: 1 << 16, versions_max: 1, ..Retention::default() };
    let config = StoreConfig { key: Some(vec![0]), retention, ..StoreConfig::new(&rows(0).schema()) };
    let (mut writer, reader) = StoreWriter::new(config).unwrap();
    (0..20).for_each(|cycle| writer.append(cycle, &[rows(cycle as i64)]).unwrap());
    let held = reader.latest();
    (20..3000).for_each(|cycle| writer.append(cycle, &[rows(cycle as i64)]).unwrap());
    assert!(reader.statistics().rows_dropped > 50_000);
    // The index has forgotten these rows, so they are looked for.
    check(&held, Contents::AllRows, 0);
    let refused = reader.as_of_cycle(19).err().unwrap().to_string();
    assert_eq!(refused, "cycle 19 is no longer kept; the cycles 2999 to 2999 can be read");
}

#[test]
fn a_cycle_that_holds_more_than_is_kept_leaves_its_newest_rows() {
    let bytes_max = 1 << 20;
    let retention = Retention { bytes_max, versions_max: 1, ..Retention::default() };
    let wide = |first: i64, count: i64, bytes: usize| {
        let texts = (0..count).map(|_| Some("x".repeat(bytes)));
        let texts: ArrayRef = Arc::new(texts.collect::<StringArray>());
        RecordBatch::try_from_iter([("number", column(first..first + count)), ("text", texts)]).unwrap()
    };
    for (count, bytes) in [(10_000, 500), (3000, 5000), (1, 100), (12_000, 90)] {
        let schema = wide(0, 0, 0).schema();
        let (mut writer, reader) =
            StoreWriter::new(StoreConfig { retention: retention.clone(), ..StoreConfig::new(&schema) })
                .unwrap();
        for cycle in 0..4 {
            writer.append(cycle, &[wide(cycle as i64 * count, count, bytes)]).unwrap();
            let rows = reader.latest().select(&Selection::default()).unwrap().batches;
            let numbers: Vec<i64> = rows.iter().flat_map(numbers_of).collect();
            let end = (cycle as i64 + 1) * count;
            assert!(
                numbers.iter().copied().eq(end - numbers.len() as i64..end),
                "{count} rows of {bytes} bytes"
            );
            // Of what fits, most is there.
            let fit = (bytes_max / (bytes + 32)) as i64;
            assert!(
                numbers.len() as i64 >= end.min(fit * 3 / 4),
                "{} of {count} rows of {bytes}",
                numbers.len()
            );
        }
        assert!(reader.statistics().bytes <= 2 * bytes_max, "{:?}", reader.statistics());
    }
}

/// The first column.
fn numbers_of(rows: &RecordBatch) -> Vec<i64> {
    rows.column(0).as_primitive::<Int64Type>().values().to_vec()
}

#[test]
fn a_key_that_comes_again_after_a_held_version_is_gone_is_found_in_that_version() {
    let retention = Retention { bytes_max: 1 << 16, versions_max: 1, ..Retention::default() };
    let rows = |keys: &[i64], number: i64| {
        let numbers = column((0..keys.len() as i64).map(|at| number + at));
        RecordBatch::try_from_iter([("key", column(keys.iter().copied())), ("number", numbers)]).unwrap()
    };
    let config = StoreConfig { key: Some(vec![0]), retention, ..StoreConfig::new(&rows(&[], 0).schema()) };
    let (mut writer, reader) = StoreWriter::new(config).unwrap();
    writer.append(0, &[rows(&[7, 8], 0)]).unwrap();
    let held = reader.latest();
    (1..300).for_each(|cycle| writer.append(cycle, &[rows(&[8; 100], 0)]).unwrap());
    assert!(reader.statistics().rows_dropped > 1000);
    writer.append(300, &[rows(&[7], 9)]).unwrap();
    let found = held.newest(&[column([7].into_iter())], &Selection::default()).unwrap();
    assert_eq!(numbers(&found.batches), [0]);
    let of_key = Selection { key: Some(vec![column([7].into_iter())]), ..Selection::default() };
    assert_eq!(numbers(&held.select(&of_key).unwrap().batches), [0]);
}

#[test]
fn a_strict_store_refuses_what_is_too_much_and_keeps_what_it_has() {
    for (contents, rows_max, expected) in [
        (Contents::AllRows, 80, "the result has 111 rows in memory, but at most 80 are allowed"),
        (Contents::LastOfKey, 80, "the table has more than 80 keys; raise max_result_rows"),
        (Contents::Changes, 80, "the result has 111 rows in memory, but at most 80 are allowed"),
    ] {
        let retention = Retention { rows_max, is_strict: true, ..Retention::default() };
        let config =
            StoreConfig { contents, key: Some(vec![0]), retention, ..StoreConfig::new(&rows(0).schema()) };
        let (mut writer, reader) = StoreWriter::new(config).unwrap();
        (0..2).for_each(|cycle| writer.append(cycle, &[input(contents, cycle as i64)]).unwrap());
        let refused = writer.append(2, &[input(contents, 2)]).unwrap_err().to_string();
        assert!(refused.contains(expected), "{refused}");
        check(&reader.latest(), contents, 0);
    }
}
