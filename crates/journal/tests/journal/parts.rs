//! Cuts, snapshots, commits, columns of many types, and looking into the folder: on the real disk.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow_array::types::Int32Type;
use arrow_array::{
    BooleanArray, DictionaryArray, Int64Array, ListArray, NullArray, RecordBatch, StringViewArray,
    StructArray,
};
use arrow_schema::{DataType, Field};
use tidemill_core::CutLog;
use tidemill_core::error::{Cause, Fault};
use tidemill_core::snapshot::Snapshot;
use tidemill_journal::{Journal, StoredSnapshot, StreamSettings, inspect};

use crate::support::{cut, rows};

#[test]
fn cuts_are_logged_synced_released_and_discarded() {
    let folder = tempfile::tempdir().unwrap();
    let journal = Journal::open(folder.path()).unwrap();
    let mut cuts = journal.cuts().unwrap();
    assert_eq!((cuts.last(), cuts.synced()), (None, None));
    (0..200).for_each(|cycle| cuts.append(&cut(cycle)).unwrap());
    assert!(matches!(cuts.append(&cut(77)), Err(Cause { fault: Fault::Bug, .. })));
    cuts.sync().unwrap();
    assert_eq!(cuts.synced(), Some(199));
    assert_eq!(cuts.cuts_after(Some(197)).unwrap(), [cut(198), cut(199)]);
    cuts.release(150);
    cuts.sync().unwrap();
    cuts.discard_after(Some(180)).unwrap();
    assert_eq!(journal.cuts().unwrap().last(), Some(cut(180)));
    cuts.append(&cut(181)).unwrap();
    drop((cuts, journal));
    let cuts = Journal::open(folder.path()).unwrap().cuts().unwrap();
    assert_eq!(cuts.cuts_after(Some(170)).unwrap(), (171..182).map(cut).collect::<Vec<_>>());
    assert_eq!(cuts.cuts_after(Some(181)).unwrap(), []);
}

fn snapshot(cycle: u64) -> StoredSnapshot {
    let partitions = BTreeMap::from([(0, vec![1, 2, 3]), (7, vec![9; 3_000_000])]);
    let operators = BTreeMap::from([("count".to_owned(), partitions), ("sum".to_owned(), BTreeMap::new())]);
    let watermarks = BTreeMap::from([("count".to_owned(), 1_700_000_000), ("sum".to_owned(), i64::MIN)]);
    StoredSnapshot {
        cut: cut(cycle),
        plan: "count/8".into(),
        state: Snapshot { cycle, operators, watermarks },
    }
}

#[test]
fn the_newest_good_snapshot_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let snapshots = Journal::open(folder.path()).unwrap().snapshots();
    assert_eq!(snapshots.newest(None).unwrap(), None);
    [3, 8, 12].into_iter().for_each(|cycle| snapshots.write(&snapshot(cycle)).unwrap());
    assert_eq!(snapshots.newest(Some(11)).unwrap(), Some(snapshot(8)));
    let path = folder.path().join("snapshots/00000000000000000012.snapshot");
    let good = std::fs::read(&path).unwrap();
    for at in [13, 20, 90, good.len() / 2, good.len() - 1] {
        let mut bad = good.clone();
        bad[at] ^= 4;
        std::fs::write(&path, bad).unwrap();
        assert_eq!(snapshots.newest(None).unwrap(), Some(snapshot(8)), "byte {at}");
    }
    assert!(snapshots.faults()[0].contains("00000000000000000012.snapshot"), "{:?}", snapshots.faults());
    std::fs::write(&path, &good[..good.len() / 3]).unwrap();
    assert_eq!(snapshots.newest(None).unwrap(), Some(snapshot(8)));
    snapshots.remove_before(8).unwrap();
    assert_eq!(snapshots.cycles().unwrap(), [8, 12]);
}

#[test]
fn commits_are_replaced_as_a_whole() {
    let folder = tempfile::tempdir().unwrap();
    let commits = Journal::open(folder.path()).unwrap().commits();
    assert_eq!(commits.read().unwrap(), BTreeMap::new());
    let written = BTreeMap::from([("alerts".to_owned(), 5), ("totals".to_owned(), 9)]);
    commits.write(&written).unwrap();
    assert_eq!(commits.read().unwrap(), written);
    let path = folder.path().join("commits");
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[30] ^= 1;
    std::fs::write(&path, bytes).unwrap();
    assert!(
        matches!(commits.read(), Err(Cause { fault: Fault::Operation, message, .. }) if message.contains("commits"))
    );
}

#[test]
fn skips_are_replaced_as_a_whole_and_shut_out_older_programs() {
    let folder = tempfile::tempdir().unwrap();
    let manifest = || std::fs::read(folder.path().join("journal")).unwrap()[8];
    let journal = Journal::open(folder.path()).unwrap();
    assert_eq!((journal.skips().unwrap(), manifest()), (BTreeMap::new(), 1));
    let positions = [3..5, 9..10].into_iter().collect::<tidemill_journal::Positions>();
    let written = BTreeMap::from([("m".to_owned(), positions), ("none".to_owned(), Default::default())]);
    journal.set_skips(&written).unwrap();
    assert_eq!(manifest(), 2);
    drop(journal);
    let journal = Journal::open(folder.path()).unwrap();
    let read = journal.skips().unwrap();
    assert_eq!((read.len(), &read["m"]), (1, &written["m"]));
    let path = folder.path().join("skips");
    let good = std::fs::read(&path).unwrap();
    for at in 0..good.len() {
        let mut bad = good.clone();
        bad[at] ^= 1;
        std::fs::write(&path, bad).unwrap();
        assert!(journal.skips().is_err(), "byte {at}");
        std::fs::write(&path, &good[..at]).unwrap();
        assert!(journal.skips().is_err(), "cut off at {at}");
    }
}

/// Columns of the kinds that Arrow lays out differently.
fn many_types() -> RecordBatch {
    let dictionary: DictionaryArray<Int32Type> =
        [Some("x"), None, Some("y"), Some("x")].into_iter().collect();
    let lists = [Some(vec![Some(1)]), None, Some(vec![]), Some(vec![None, Some(3)])];
    let inner = Arc::new(dictionary.clone()) as _;
    let field = Arc::new(Field::new(
        "inner",
        DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8)),
        true,
    ));
    let views = ["short", "a text that is longer than twelve bytes", "", "another text that is long"];
    RecordBatch::try_from_iter_with_nullable([
        ("dictionary", Arc::new(dictionary) as _, true),
        ("list", Arc::new(ListArray::from_iter_primitive::<Int32Type, _, _>(lists)) as _, true),
        ("struct", Arc::new(StructArray::from(vec![(field, inner)])) as _, true),
        ("view", Arc::new(StringViewArray::from_iter_values(views)) as _, true),
        ("bit", Arc::new(BooleanArray::from(vec![Some(true), None, Some(false), Some(true)])) as _, true),
        ("nothing", Arc::new(NullArray::new(4)) as _, true),
        ("number", Arc::new(Int64Array::from(vec![1, 2, 3, 4])) as _, false),
    ])
    .unwrap()
}

#[test]
fn columns_of_all_kinds_and_slices_of_them_come_back() {
    let folder = tempfile::tempdir().unwrap();
    let rows = many_types();
    let journal = Journal::open(folder.path()).unwrap();
    let (mut writer, mut reader) =
        journal.stream("über.all", rows.schema(), &StreamSettings::default()).unwrap();
    let slices = [rows.clone(), rows.slice(1, 3), rows.slice(2, 1)];
    for slice in &slices {
        let start = writer.end();
        writer.append(slice, 0, None).unwrap();
        assert_eq!(reader.read(start).unwrap().unwrap().rows, *slice);
    }
    // The second record can be read without the first.
    let mut records = inspect::records(folder.path(), "über.all", 4).unwrap();
    assert_eq!(records.next().unwrap().unwrap().rows, slices[1]);
    assert_eq!((records.count(), records_left(&folder)), (1, 3));
}

fn records_left(folder: &tempfile::TempDir) -> usize {
    inspect::records(folder.path(), "über.all", 0).unwrap().count()
}

#[test]
fn the_folder_can_be_looked_into_while_the_query_runs() {
    let folder = tempfile::tempdir().unwrap();
    let journal = Journal::open(folder.path()).unwrap();
    let settings = StreamSettings { segment_bytes: 8192, ..StreamSettings::default() };
    let (mut writer, _) = journal.stream("orders", rows(0, 1).schema(), &settings).unwrap();
    for record in 0..60 {
        writer.append(&rows(record * 5, 5), record, None).unwrap();
    }
    let mut cuts = journal.cuts().unwrap();
    (0..4).for_each(|cycle| cuts.append(&cut(cycle)).unwrap());
    journal.set_query("SELECT * FROM orders").unwrap();
    journal.snapshots().write(&snapshot(3)).unwrap();
    journal.commits().write(&BTreeMap::from([("alerts".to_owned(), 2)])).unwrap();

    let listing = inspect::list(folder.path()).unwrap();
    let orders = &listing.streams[0];
    assert_eq!((orders.name.as_str(), orders.first, orders.end), ("orders", 0, 300));
    assert!(orders.segments.len() > 2 && orders.bytes > 8192);
    assert_eq!((listing.cuts.end, listing.snapshots, listing.commits["alerts"]), (4, vec![3], 2));
    let verification = inspect::verify(folder.path()).unwrap();
    assert_eq!((verification.records, verification.snapshots, verification.findings), (64, 1, vec![]));
    let records: Vec<_> =
        inspect::records(folder.path(), "orders", 12).unwrap().map(Result::unwrap).collect();
    assert_eq!((records.len(), records[0].start, &records[57].rows), (58, 10, &rows(295, 5)));
    assert!(matches!(inspect::records(folder.path(), "bids", 0), Err(Cause { fault: Fault::User, .. })));
}
