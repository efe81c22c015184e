//! What the fragments of a store share: memory and time.

use std::sync::Arc;

use tidemill_core::MemoryBudget;
use tidemill_core::arrow::array::cast::AsArray;
use tidemill_core::arrow::array::types::Int64Type;
use tidemill_core::arrow::array::{ArrayRef, Int64Array, RecordBatch};
use tidemill_store::{
    FragmentBy, Fragmentation, FragmentedWriter, Retention, Selection, StoreConfig, StoreReader,
};

fn rows(keys: impl Iterator<Item = i64>, time: i64) -> RecordBatch {
    let keys: ArrayRef = Arc::new(keys.collect::<Int64Array>());
    let times: ArrayRef = Arc::new(Int64Array::from(vec![time; keys.len()]));
    RecordBatch::try_from_iter([("key", keys), ("time", times)]).unwrap()
}

fn divided(retention: Retention) -> (FragmentedWriter, StoreReader) {
    let config = StoreConfig {
        key: Some(vec![0]),
        time: Some(1),
        retention,
        fragments: Some(Fragmentation { count: 3, by: FragmentBy::Key }),
        ..StoreConfig::new(&rows(0..0, 0).schema())
    };
    FragmentedWriter::new(config).unwrap()
}

#[test]
fn what_all_fragments_hold_counts_in_one_budget() {
    let budget = MemoryBudget::new(1 << 20);
    let (mut writer, reader) = divided(Retention::default());
    writer.count_in(budget.account(), "view 'recent'");
    let mut stored = 0;
    let refused = loop {
        let appended = writer.append(stored, &[rows(0..1000, stored as i64)]);
        if let Err(cause) = appended.and_then(|()| writer.publish()) {
            break cause;
        }
        let held = reader.statistics();
        assert_eq!(budget.held(), (held.bytes + held.index_bytes) as u64);
        stored += 1;
    };
    assert!(stored > 3 && refused.message.contains("view 'recent'"), "{stored} cycles: {refused}");
    let newest = reader.latest();
    assert_eq!(newest.cycle(), Some(stored - 1), "a cycle that some fragments have is not visible");
    assert_eq!(newest.read().unwrap().num_rows() as u64, stored * 1000);
    drop((writer, reader, newest));
    assert_eq!(budget.held(), 0);
}

#[test]
fn a_fragment_without_new_rows_drops_old_ones_too() {
    let retention = Retention { time: Some(100), ..Retention::default() };
    let (mut writer, reader) = divided(retention);
    writer.append(0, &[rows(0..300, 0)]).unwrap();
    for cycle in 1..200 {
        // One key has all further rows, so two fragments have none.
        writer.append(cycle, &[rows(std::iter::repeat_n(7, 10), cycle as i64 * 5)]).unwrap();
    }
    writer.publish().unwrap();
    let fragments = reader.fragments();
    assert!(fragments.iter().all(|fragment| fragment.statistics.rows_dropped >= 50), "{fragments:?}");
    assert_eq!(fragments.iter().filter(|fragment| fragment.statistics.rows == 0).count(), 2, "{fragments:?}");
    let found = reader.latest().select(&Selection::default()).unwrap().batches;
    let times = || found.iter().flat_map(|rows| rows.column(1).as_primitive::<Int64Type>().values().to_vec());
    assert_eq!(times().max(), Some(995));
    assert!(times().all(|time| time > 995 - 100 - 20), "{:?}", times().min());
    assert!(times().filter(|time| *time >= 895).count() == 21 * 10, "what is not too old is kept");
    // All fragments have the same versions.
    let (oldest, newest) = reader.cycles().unwrap();
    assert!((oldest..=newest).all(|cycle| reader.as_of_cycle(cycle).is_ok()));
}
