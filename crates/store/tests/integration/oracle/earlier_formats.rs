//! Snapshots that earlier versions of the program have written, in which all chunks were.

use std::path::PathBuf;

use tidemill_store::{Contents, Fragmentation, Retention, StoreConfig, StoreReader};

use crate::oracle::cars::{Car, Random, batch, schema};
use crate::oracle::files::Files;
use crate::oracle::stores::{Store, fragmentation};

/// What was written: the name of the file, what the store shows, how long it keeps rows, and its fragments.
fn written() -> [(&'static str, Contents, Option<i64>, Option<Fragmentation>); 4] {
    [
        ("rows", Contents::AllRows, Some(90), None),
        ("table", Contents::LastOfKey, None, None),
        ("fragments", Contents::AllRows, Some(90), Some(fragmentation(3, Some(1)))),
        ("table_in_fragments", Contents::LastOfKey, None, Some(fragmentation(2, None))),
    ]
}

fn config(contents: Contents, time: Option<i64>, fragments: Option<Fragmentation>) -> StoreConfig {
    StoreConfig {
        fragments,
        contents,
        key: Some(vec![4]),
        time: Some(1),
        point: Some([2, 3]),
        retention: Retention { time, bytes_max: 1 << 14, versions_max: 7, ..Retention::default() },
        ..StoreConfig::new(&schema())
    }
}

fn cars(cycle: u64) -> Vec<Car> {
    let mut random = Random(cycle);
    (0..random.below(12)).map(|_| random.car(cycle as i64 * 10)).collect()
}

fn held(reader: &StoreReader) -> impl PartialEq + std::fmt::Debug {
    let of_fragment = |fragment: tidemill_store::FragmentStatus| {
        let held = fragment.statistics;
        (held.rows, held.chunks, held.versions, held.rows_dropped, held.chunks_dropped)
    };
    reader.fragments().into_iter().map(of_fragment).collect::<Vec<_>>()
}

#[test]
fn they_are_read() {
    let package = std::env::var("CARGO_MANIFEST_DIR").unwrap();
    let folder = PathBuf::from(package).join("tests/integration/oracle/format_1");
    for (name, contents, time, fragments) in written() {
        let config = config(contents, time, fragments);
        let mut expected = Store::new(&config);
        (0..40).for_each(|cycle| expected.append(cycle, &[batch(&cars(cycle))]).unwrap());
        let bytes = std::fs::read(folder.join(name)).unwrap();
        assert_eq!(tidemill_store::named_chunks(&bytes), Ok(Vec::new()), "{name}: all rows are in it");
        let mut store = Store::restore(&config, &bytes, Files::default()).unwrap();
        for cycle in 40..80 {
            assert_eq!(held(&store.reader), held(&expected.reader), "{name}: cycle {cycle}");
            let (oldest, newest) = expected.reader.cycles().unwrap();
            assert_eq!(store.reader.cycles(), Some((oldest, newest)));
            for cycle in oldest..=newest {
                let rows = |store: &Store| store.reader.as_of_cycle(cycle).unwrap().read().unwrap();
                assert_eq!(rows(&store), rows(&expected), "{name}: cycle {cycle}");
            }
            // From here on it names its chunks.
            if cycle % 7 == 0 {
                store = store.restored(&config);
            }
            store.append(cycle, &[batch(&cars(cycle))]).unwrap();
            expected.append(cycle, &[batch(&cars(cycle))]).unwrap();
        }
    }
}
