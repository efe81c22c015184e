//! A store answers like a plain list of rows: over random rows, cycles, questions and limits, with restores between.

mod cars;
mod followed;
mod plain;

use plain::PlainStore;
use proptest::prelude::*;
use tidemill_core::{SnapshotReader, SnapshotWriter};
use tidemill_store::{Area, Contents, Retention, Selection, StoreConfig, StoreReader, StoreWriter, Version};

use cars::{Car, Random, batch, cars_of, key_of, schema};
use followed::Followed;

/// What is tried.
#[derive(Clone, Debug)]
struct Trial {
    seed: u64,
    contents: Contents,
    key: Option<Vec<usize>>,
    retention: Retention,
    cycles: usize,
    rows_max: u64,
    restore_every: u64,
}

fn trials() -> impl Strategy<Value = Trial> {
    let keys = prop_oneof![Just(None), Just(Some(vec![0])), Just(Some(vec![4])), Just(Some(vec![4, 0]))];
    let times = prop_oneof![Just(None), (1..400_i64).prop_map(Some)];
    let bytes = prop_oneof![Just(1_usize << 16), Just(1 << 18), Just(1 << 30)];
    let limits = (times, bytes, prop_oneof![Just(3_usize), Just(40), Just(1000)]);
    let rows_max = prop_oneof![Just(3_u64), Just(60), Just(400)];
    let contents = prop_oneof![Just(Contents::AllRows), Just(Contents::LastOfKey)];
    (any::<u64>(), contents, keys, limits, 1..40_usize, rows_max, 1..12_u64).prop_map(
        |(seed, contents, key, (time, bytes_max, versions_max), cycles, rows_max, restore_every)| {
            let is_table = contents == Contents::LastOfKey;
            let key = key.or(is_table.then(Vec::new));
            let time = time.filter(|_| !is_table);
            let retention = Retention { time, bytes_max, versions_max, ..Retention::default() };
            Trial { seed, contents, key, retention, cycles, rows_max, restore_every }
        },
    )
}

fn config(trial: &Trial) -> StoreConfig {
    StoreConfig {
        contents: trial.contents,
        key: trial.key.clone(),
        time: Some(1),
        point: Some([2, 3]),
        retention: trial.retention.clone(),
        ..StoreConfig::new(&schema())
    }
}

fn restored(store: &StoreWriter, config: &StoreConfig) -> (StoreWriter, StoreReader) {
    let mut writer = SnapshotWriter::default();
    store.snapshot(&mut writer).unwrap();
    let bytes = writer.finish();
    let mut reader = SnapshotReader::new(&bytes).unwrap();
    let restored = StoreWriter::restore(config.clone(), &mut reader).unwrap();
    assert!(reader.is_empty());
    restored
}

fn random_selection(random: &mut Random, trial: &Trial, now: i64) -> Selection {
    let key = trial.key.as_ref().filter(|_| random.below(2) == 0).map(|key| key_of(&random.car(now), key));
    let time = (random.below(2) == 0).then(|| {
        let from = now - random.below(500) as i64;
        (from, from + random.below(300) as i64 - 20)
    });
    let area = (random.below(2) == 0).then(|| {
        let (x, y, size) = (random.coordinate(), random.coordinate(), random.below(60) as f64);
        Area { x: (x, x + size), y: (y - size, y) }
    });
    Selection { key, time, area, columns: None }
}

fn check_version(version: &Version, expected: &[Car], trial: &Trial, random: &mut Random, now: i64) {
    assert_eq!(cars_of(&[version.read().unwrap()]), expected);
    for _ in 0..4 {
        let selection = random_selection(random, trial, now);
        let wanted: Vec<Car> = expected
            .iter()
            .filter(|car| plain::is_selected(car, &selection, trial.key.as_deref()))
            .cloned()
            .collect();
        let found = version.select(&selection).unwrap();
        assert_eq!(cars_of(&found.batches), wanted, "{selection:?}");
        assert_eq!(found.work.rows_found, wanted.len() as u64);
        assert_eq!(cars_of(&version.select(&selection).unwrap().batches), wanted, "a second time");
        let to = (random.coordinate(), random.coordinate());
        let count = random.below(9) as usize + 1;
        let nearest = version.nearest(to, count, &selection).unwrap();
        assert_eq!(cars_of(&nearest.batches), plain::nearest(&wanted, to, count), "{to:?} {selection:?}");
        if let Some(key) = &selection.key {
            let rest = Selection { key: None, ..selection.clone() };
            let newest = version.newest(key, &rest).unwrap();
            let last = wanted.iter().max_by_key(|car| car.number).cloned();
            assert_eq!(cars_of(&newest.batches), Vec::from_iter(last));
        }
    }
}

fn check(trial: &Trial) {
    let mut random = Random(trial.seed);
    let config = config(trial);
    let (mut store, mut reader) = StoreWriter::new(config.clone()).unwrap();
    let mut plain = PlainStore::new(trial.contents, trial.key.clone().unwrap_or_default());
    let mut held: Vec<(Version, Vec<Car>)> = Vec::new();
    let mut followed: Vec<Followed> = vec![Followed::begin(&reader)];
    let (mut now, mut cycle) = (0, 0);
    for _ in 0..trial.cycles {
        cycle += 1 + random.below(3) / 2;
        let mut batches = Vec::new();
        for _ in 0..random.below(3) {
            now += random.below(20) as i64;
            let count = random.below(trial.rows_max) as usize;
            let first = plain.next_number();
            let car = |at| Car { number: first + at, ..random.car(now) };
            let cars: Vec<Car> = (0..count as i64).map(car).collect();
            plain.push(cycle, &cars);
            batches.push(batch(&cars));
        }
        store.append(cycle, &batches).unwrap();
        let version = reader.latest();
        assert_eq!(version.cycle(), Some(cycle));
        plain.committed(cycle, &reader.statistics(), &trial.retention);
        check_version(&version, &plain.rows_at(cycle), trial, &mut random, now);
        let (oldest, newest) = reader.cycles().unwrap_or((cycle, cycle));
        assert_eq!(newest, cycle);
        if reader.cycles().is_some() {
            let asked = oldest + random.below(newest - oldest + 1);
            let earlier = reader.as_of_cycle(asked).unwrap();
            check_version(&earlier, &plain.rows_at(asked), trial, &mut random, now);
            assert!(reader.as_of_cycle(newest + 1).is_err());
            assert!(oldest == 0 || reader.as_of_cycle(oldest - 1).is_err());
            let time = now - random.below(60) as i64;
            if let Ok(version) = reader.as_of_time(time) {
                let expected = plain.rows_at(plain.newest_cycle_until(time));
                check_version(&version, &expected, trial, &mut random, now);
            }
        }
        if held.len() < 5 || random.below(4) == 0 {
            held.push((version, plain.rows_at(cycle)));
        }
        // Some look at each cycle, others fall behind.
        followed.retain_mut(|one| random.below(3) == 0 || one.look(|cycle| plain.rows_at(cycle)));
        if followed.len() < 4 {
            followed.push(Followed::begin(&reader));
        }
        if random.below(trial.restore_every) == 0 {
            followed.clear();
            (store, reader) = restored(&store, &config);
            followed.push(Followed::begin(&reader));
            check_version(&reader.latest(), &plain.rows_at(cycle), trial, &mut random, now);
        }
        if held.len() > 8 {
            let (version, rows) = held.remove(random.below(held.len() as u64) as usize);
            check_version(&version, &rows, trial, &mut random, now);
        }
    }
    for (version, rows) in held {
        check_version(&version, &rows, trial, &mut random, now);
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 24,
        max_shrink_iters: 100,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn a_store_answers_like_a_list_of_rows(trial in trials()) {
        check(&trial);
    }
}

#[test]
fn large_batches_become_several_chunks() {
    for contents in [Contents::AllRows, Contents::LastOfKey] {
        let retention = Retention { versions_max: 5, ..Retention::default() };
        let key = Some(vec![0]);
        let trial =
            Trial { seed: 5, contents, key, retention, cycles: 6, rows_max: 25_000, restore_every: 3 };
        check(&trial);
    }
}

#[test]
fn a_store_that_was_restored_at_any_cycle_goes_on_the_same() {
    let retention = Retention { time: Some(90), bytes_max: 1 << 16, versions_max: 7, ..Retention::default() };
    for (contents, time) in [(Contents::AllRows, Some(90)), (Contents::LastOfKey, None)] {
        let retention = Retention { time, ..retention.clone() };
        let trial = Trial {
            seed: 0,
            contents,
            key: Some(vec![4]),
            retention,
            cycles: 0,
            rows_max: 0,
            restore_every: 1,
        };
        let config = config(&trial);
        let (mut one, reader) = StoreWriter::new(config.clone()).unwrap();
        let (mut other, _) = StoreWriter::new(config.clone()).unwrap();
        let mut random = Random(3);
        for cycle in 0..150 {
            let cars: Vec<Car> = (0..random.below(90)).map(|_| random.car(cycle as i64 * 10)).collect();
            one.append(cycle, &[batch(&cars)]).unwrap();
            other.append(cycle, &[batch(&cars)]).unwrap();
            let other_reader;
            (other, other_reader) = restored(&other, &config);
            let statistics = |reader: &StoreReader| {
                let found = reader.statistics();
                (found.rows, found.chunks, found.versions, found.rows_dropped, found.chunks_dropped)
            };
            assert_eq!(statistics(&reader), statistics(&other_reader));
            assert_eq!(reader.cycles(), other_reader.cycles());
            for cycle in reader.cycles().map_or(0..=0, |(oldest, newest)| oldest..=newest) {
                let rows = |reader: &StoreReader| reader.as_of_cycle(cycle).map(|version| version.read());
                assert_eq!(rows(&reader), rows(&other_reader));
            }
        }
        assert!(contents == Contents::LastOfKey || reader.statistics().rows_dropped > 1000);
    }
}

#[test]
fn snapshots_of_another_store_and_damaged_ones_are_refused() {
    let config = StoreConfig { key: Some(vec![0]), ..StoreConfig::new(&schema()) };
    let (mut store, _) = StoreWriter::new(config.clone()).unwrap();
    store.append(4, &[batch(&[Random(1).car(3)])]).unwrap();
    let mut writer = SnapshotWriter::default();
    store.snapshot(&mut writer).unwrap();
    let bytes = writer.finish();
    let restore = |config: StoreConfig, bytes: &[u8]| {
        SnapshotReader::new(bytes)
            .and_then(|mut reader| StoreWriter::restore(config, &mut reader))
            .map(|_| ())
    };
    assert_eq!(restore(config.clone(), &bytes), Ok(()));
    let other = StoreConfig { key: Some(vec![4]), ..config.clone() };
    assert!(restore(other, &bytes).unwrap_err().to_string().contains("another definition"));
    for end in 0..bytes.len() {
        assert!(restore(config.clone(), &bytes[..end]).is_err());
        // A shortened snapshot whose checksum is right.
        let mut writer = SnapshotWriter::default();
        bytes[..end].iter().for_each(|byte| writer.u8(*byte));
        assert!(restore(config.clone(), &writer.finish()).is_err() || end + 4 >= bytes.len(), "{end}");
    }
}
