//! A search finds the same rows with and without pauses. Any pause can end it.

use std::sync::Arc;

use tidemill_core::Cause;
use tidemill_core::arrow::array::{ArrayRef, Float64Array, Int64Array, RecordBatch};
use tidemill_store::{
    Area, Contents, Pause, Retention, SelectedRows, Selection, StoreConfig, StoreWriter, Version,
};

const CHUNKS_MIN: usize = 8;

fn rows(cycle: i64) -> RecordBatch {
    let numbers = || cycle * 500..(cycle + 1) * 500;
    let integers =
        |value: fn(i64) -> i64| -> ArrayRef { Arc::new(numbers().map(value).collect::<Int64Array>()) };
    let floats = |value: fn(i64) -> i64| -> ArrayRef {
        Arc::new(numbers().map(|number| value(number) as f64).collect::<Float64Array>())
    };
    let columns = [
        ("key", integers(|number| number * 7 % 211)),
        ("time", integers(|number| number)),
        ("x", floats(|number| number * 31 % 100)),
        ("y", floats(|number| number * 17 % 100)),
    ];
    RecordBatch::try_from_iter(columns).unwrap()
}

fn store(contents: Contents) -> Version {
    let retention = Retention { bytes_max: 1 << 20, versions_max: 3, ..Retention::default() };
    let config = StoreConfig {
        contents,
        key: Some(vec![0]),
        time: Some(1),
        point: Some([2, 3]),
        retention,
        ..StoreConfig::new(&rows(0).schema())
    };
    let (mut writer, reader) = StoreWriter::new(config).unwrap();
    (0..60).for_each(|cycle| writer.append(cycle as u64, &[rows(cycle)]).unwrap());
    reader.latest()
}

type Search = dyn Fn(&Version, &mut Pause<'_>) -> Result<SelectedRows, Cause>;

/// The rows as one text, however they are divided into batches.
fn text(found: &SelectedRows) -> String {
    let columns = |rows: &RecordBatch, row: usize| format!("{:?}\n", rows.slice(row, 1).columns());
    found.batches.iter().flat_map(|rows| (0..rows.num_rows()).map(move |row| columns(rows, row))).collect()
}

#[test]
fn a_search_ends_at_the_pause_that_refuses() {
    let key = || vec![Arc::new(Int64Array::from(vec![14])) as ArrayRef];
    let area = Some(Area { x: (10.0, 60.0), y: (5.0, 90.0) });
    let of_key = Selection { key: Some(key()), ..Selection::default() };
    let in_box = Selection { area, time: Some((100, i64::MAX)), ..Selection::default() };
    let of_column = Selection { columns: Some(vec![1]), ..Selection::default() };
    for contents in [Contents::AllRows, Contents::LastOfKey] {
        let version = store(contents);
        let select = |selection: &Selection| -> Box<Search> {
            let selection = selection.clone();
            Box::new(move |version, pause| version.select_with_pauses(&selection, pause))
        };
        let nearest: Box<Search> = Box::new(|version, pause| {
            version.nearest_with_pauses((40.0, 40.0), 900, &Selection::default(), pause)
        });
        for search in [select(&in_box), select(&of_column), select(&of_key), nearest] {
            let mut pauses = 0;
            let count = &mut |_| {
                pauses += 1;
                Ok(())
            };
            let found = search(&version, count).unwrap();
            assert_eq!(text(&search(&version, &mut |_| Ok(())).unwrap()), text(&found));
            assert!(pauses >= found.work.chunks_read.min(1), "{pauses} pauses: {}", found.work);
            for last in 0..pauses {
                let mut left = last;
                let refuse = &mut |_| {
                    left = left.checked_sub(1).ok_or_else(|| Cause::operation("enough"))?;
                    Ok(())
                };
                let ended = search(&version, refuse).map(|found| text(&found));
                assert_eq!(ended, Err(Cause::operation("enough")), "pause {last} of {pauses}");
            }
        }
        let mut pauses = 0;
        let found = version.select_with_pauses(&in_box, &mut |_| {
            pauses += 1;
            Ok(())
        });
        assert!(contents == Contents::LastOfKey || pauses >= CHUNKS_MIN, "{pauses}");
        assert!(found.is_ok_and(|found| found.work.rows_found > 0));
    }
}

#[test]
fn a_search_says_what_it_holds_before_it_holds_it() {
    for contents in [Contents::AllRows, Contents::LastOfKey] {
        let version = store(contents);
        let most = |selection: &Selection| {
            let mut most = 0;
            let found = version.select_with_pauses(selection, &mut |bytes| {
                most = most.max(bytes);
                Ok(())
            });
            let bytes = |rows: &RecordBatch| {
                rows.columns().iter().map(|column| column.get_array_memory_size()).sum::<usize>()
            };
            (most, found.unwrap().batches.iter().map(bytes).sum::<usize>())
        };
        // Every second row in place and time is copied.
        let area = Some(Area { x: (0.0, 50.0), y: (0.0, 100.0) });
        let (most_bytes, copied) = most(&Selection { area, ..Selection::default() });
        assert!(most_bytes * 2 > copied && copied > 3000, "{most_bytes} for {copied} bytes");
        // Whole chunks are shared, if it is not a table whose rows were replaced.
        let (most_bytes, all) = most(&Selection::default());
        assert!(contents == Contents::LastOfKey || most_bytes == 0, "{most_bytes} for {all} bytes");
    }
}
