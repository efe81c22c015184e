//! A store answers like a plain list of rows: over random rows, cycles, questions and limits, with restores between; undivided,
//! and in fragments.

mod cars;
mod changelogs;
mod earlier_formats;
mod files;
mod followed;
mod multiset;
mod plain;
mod stores;

use plain::PlainStore;
use proptest::prelude::*;
use tidemill_core::SnapshotWriter;
use tidemill_store::{
    Area, Contents, FragmentBy, Fragmentation, Retention, Selection, StoreConfig, StoreReader,
    StoreStatistics, Version,
};

use cars::{Car, Random, batch, cars_of, key_of, schema, weighted};
use followed::Followed;
use stores::{Store, fragment_of, fragmentation};

/// What is tried.
#[derive(Clone, Debug)]
struct Trial {
    seed: u64,
    contents: Contents,
    key: Option<Vec<usize>>,
    fragments: Option<Fragmentation>,
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
    let divided = (prop_oneof![Just(1_u32), Just(3), Just(8)], any::<bool>());
    (any::<u64>(), (contents, keys, divided), limits, 1..40_usize, rows_max, 1..12_u64).prop_map(
        |(
            seed,
            (contents, key, divided),
            (time, bytes_max, versions_max),
            cycles,
            rows_max,
            restore_every,
        )| {
            let is_table = contents == Contents::LastOfKey;
            let key = key.or(is_table.then(Vec::new));
            let time = time.filter(|_| !is_table);
            let retention = Retention { time, bytes_max, versions_max, ..Retention::default() };
            let fragments = divided_by(contents, key.as_deref(), divided);
            Trial { seed, contents, key, fragments, retention, cycles, rows_max, restore_every }
        },
    )
}

/// Into this many fragments, by the key if that is possible and wanted.
fn divided_by(
    contents: Contents,
    key: Option<&[usize]>,
    (count, is_by_key): (u32, bool),
) -> Option<Fragmentation> {
    let third_of = match (contents, key) {
        (Contents::LastOfKey | Contents::Changes, None | Some([])) => return None,
        // All rows of a key are in one fragment.
        (Contents::LastOfKey | Contents::Changes, Some(key)) => (!is_by_key).then_some(key[0]),
        (Contents::AllRows, None | Some([])) => Some(1),
        (Contents::AllRows, Some(_)) => (!is_by_key).then_some(1),
    };
    Some(fragmentation(count, third_of))
}

fn config(trial: &Trial) -> StoreConfig {
    StoreConfig {
        fragments: trial.fragments.clone(),
        contents: trial.contents,
        key: trial.key.clone(),
        time: Some(1),
        point: Some([2, 3]),
        retention: trial.retention.clone(),
        ..StoreConfig::new(&schema())
    }
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
    let of_fragment = trial.fragments.as_ref().filter(|_| random.below(3) == 0);
    let fragment = of_fragment.map(|_| fragment_of(&config(trial), &random.car(now)));
    Selection { key, time, area, fragment, columns: None }
}

fn check_version(version: &Version, expected: &[Car], trial: &Trial, random: &mut Random, now: i64) {
    assert_eq!(cars_of(&[version.read().unwrap()]), expected);
    let config = config(trial);
    let count = config.fragments.as_ref().map_or(1, |fragments| fragments.count as usize);
    for _ in 0..4 {
        let selection = random_selection(random, trial, now);
        let wanted: Vec<Car> = expected
            .iter()
            .filter(|car| plain::is_selected(car, &selection, trial.key.as_deref()))
            .filter(|car| selection.fragment.is_none_or(|only| fragment_of(&config, car) == only))
            .cloned()
            .collect();
        let found = version.select(&selection).unwrap();
        assert_eq!(cars_of(&found.batches), wanted, "{selection:?}");
        assert_eq!(found.work.rows_found, wanted.len() as u64);
        let is_by_key = config.fragments.as_ref().is_some_and(|fragments| fragments.by == FragmentBy::Key);
        let asks_one = selection.fragment.is_some() || selection.key.is_some() && is_by_key;
        assert_eq!(found.work.fragments_asked, if asks_one { 1 } else { count });
        assert_eq!(cars_of(&version.select(&selection).unwrap().batches), wanted, "a second time");
        let to = (random.coordinate(), random.coordinate());
        let count = random.below(9) as usize + 1;
        let nearest = version.nearest(to, count, &selection).unwrap();
        assert_eq!(cars_of(&nearest.batches), plain::nearest(&wanted, to, count), "{to:?} {selection:?}");
        if let Some(key) = &selection.key {
            let rest = Selection { key: None, ..selection.clone() };
            let newest = version.newest(key, &rest).unwrap();
            let last = wanted.last().cloned();
            assert_eq!(cars_of(&newest.batches), Vec::from_iter(last));
        }
    }
}

fn fragments_of(reader: &StoreReader) -> Vec<StoreStatistics> {
    reader.fragments().iter().map(|fragment| fragment.statistics).collect()
}

fn check(trial: &Trial) {
    let mut random = Random(trial.seed);
    let config = config(trial);
    let mut store = Store::new(&config);
    let mut reader = store.reader.clone();
    let count = config.fragments.as_ref().map_or(1, |fragments| fragments.count as usize);
    let mut plain = PlainStore::new(trial.contents, trial.key.clone().unwrap_or_default(), count);
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
            let divided: Vec<_> = cars.iter().map(|car| (car.clone(), fragment_of(&config, car))).collect();
            plain.push(cycle, &divided);
            batches.push(batch(&cars));
        }
        store.append(cycle, &batches).unwrap();
        let version = reader.latest();
        assert_eq!(version.cycle(), Some(cycle));
        plain.committed(cycle, &fragments_of(&reader), &trial.retention);
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
            store = store.restored(&config);
            reader = store.reader.clone();
            followed = followed.into_iter().map(|one| one.continued(&reader)).collect();
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
        cases: 32,
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
    for (contents, fragments) in [
        (Contents::AllRows, None),
        (Contents::LastOfKey, None),
        (Contents::AllRows, Some(fragmentation(3, Some(1)))),
        (Contents::LastOfKey, Some(fragmentation(3, None))),
    ] {
        let retention = Retention { versions_max: 5, ..Retention::default() };
        let key = Some(vec![0]);
        let trial = Trial {
            seed: 5,
            contents,
            key,
            fragments,
            retention,
            cycles: 6,
            rows_max: 25_000,
            restore_every: 3,
        };
        check(&trial);
    }
}

/// A trial whose rows are made by the test itself.
fn trial(contents: Contents, fragments: Option<Fragmentation>, retention: Retention) -> Trial {
    let key = Some(vec![4]);
    Trial { seed: 0, contents, key, fragments, retention, cycles: 0, rows_max: 0, restore_every: 1 }
}

#[test]
fn a_store_that_was_restored_at_any_cycle_goes_on_the_same() {
    let retention = Retention { time: Some(90), bytes_max: 1 << 16, versions_max: 7, ..Retention::default() };
    for (contents, time, fragments) in [
        (Contents::AllRows, Some(90), None),
        (Contents::LastOfKey, None, None),
        (Contents::AllRows, Some(90), Some(fragmentation(3, Some(1)))),
        (Contents::LastOfKey, None, Some(fragmentation(8, None))),
    ] {
        let retention = Retention { time, ..retention.clone() };
        let config = config(&trial(contents, fragments, retention));
        let (mut one, mut other) = (Store::new(&config), Store::new(&config));
        let reader = one.reader.clone();
        let mut random = Random(3);
        for cycle in 0..150 {
            let cars: Vec<Car> = (0..random.below(90)).map(|_| random.car(cycle as i64 * 10)).collect();
            one.append(cycle, &[batch(&cars)]).unwrap();
            other.append(cycle, &[batch(&cars)]).unwrap();
            other = other.restored(&config);
            let statistics = |reader: &StoreReader| {
                let plain = |found: StoreStatistics| {
                    (found.rows, found.chunks, found.versions, found.rows_dropped, found.chunks_dropped)
                };
                fragments_of(reader).into_iter().map(plain).collect::<Vec<_>>()
            };
            assert_eq!(statistics(&reader), statistics(&other.reader));
            assert_eq!(reader.cycles(), other.reader.cycles());
            for cycle in reader.cycles().map_or(0..=0, |(oldest, newest)| oldest..=newest) {
                let rows = |reader: &StoreReader| reader.as_of_cycle(cycle).map(|version| version.read());
                assert_eq!(rows(&reader), rows(&other.reader));
            }
        }
        assert!(contents == Contents::LastOfKey || reader.statistics().rows_dropped > 1000);
    }
}

#[test]
fn cycles_that_are_committed_together_are_versions_each() {
    for contents in [Contents::AllRows, Contents::LastOfKey] {
        let divided = config(&trial(contents, Some(fragmentation(3, None)), Retention::default()));
        let whole = StoreConfig { fragments: None, ..divided.clone() };
        let (mut divided, mut whole) = (Store::new(&divided), Store::new(&whole));
        let mut random = Random(9);
        for cycle in 0..60 {
            let cars: Vec<Car> = (0..random.below(50)).map(|_| random.car(cycle as i64)).collect();
            divided.prepare(cycle, &[batch(&cars)]);
            whole.append(cycle, &[batch(&cars)]).unwrap();
            // More cycles than fit into the queues of the fragments.
            if cycle % 20 == 19 {
                divided.commit(cycle - 19, cycle).unwrap();
                assert_eq!(
                    divided.reader.latest().cycle(),
                    Some(cycle),
                    "a commit returns when all can be read"
                );
            }
        }
        assert_eq!(divided.reader.cycles(), whole.reader.cycles());
        for cycle in 0..60 {
            let rows = |store: &Store| store.reader.as_of_cycle(cycle).unwrap().read().unwrap();
            assert_eq!(rows(&divided), rows(&whole), "cycle {cycle}");
        }
    }
}

#[test]
fn rows_are_divided_again_if_the_fragments_have_changed() {
    let layouts = [
        None,
        Some(fragmentation(3, None)),
        Some(fragmentation(8, Some(4))),
        Some(fragmentation(2, Some(4))),
    ];
    for contents in [Contents::AllRows, Contents::LastOfKey] {
        for (before, after) in (0..16).map(|pair| (&layouts[pair / 4], &layouts[pair % 4])) {
            let configured = |fragments: &Option<Fragmentation>| {
                config(&trial(contents, fragments.clone(), Retention::default()))
            };
            let (before, after) = (configured(before), configured(after));
            let mut store = Store::new(&before);
            let mut plain = PlainStore::new(contents, vec![4], 1);
            let mut random = Random(17);
            for cycle in 0..40 {
                let number = plain.next_number();
                let car = |at| Car { number: number + at, ..random.car(cycle as i64) };
                let cars: Vec<Car> = (0..20).map(car).collect();
                plain.push(cycle, &cars.iter().map(|car| (car.clone(), 0)).collect::<Vec<_>>());
                store.append(cycle, &[batch(&cars)]).unwrap();
                if cycle == 25 {
                    store = store.restored(&after);
                }
                plain.committed(cycle, &[store.reader.statistics()], &Retention::default());
                assert_eq!(cars_of(&[store.reader.latest().read().unwrap()]), plain.rows_at(cycle));
            }
            let is_same = before.fragments == after.fragments;
            assert_eq!(store.reader.cycles(), Some((if is_same { 0 } else { 25 }, 39)));
            assert_eq!(store.reader.before_cycle(20).is_ok(), is_same, "nothing is said about what is gone");
            assert_eq!(
                store.reader.fragments().len(),
                after.fragments.map_or(1, |after| after.count as usize)
            );
        }
    }
}

#[test]
fn a_strict_store_of_fragments_has_one_limit_for_all() {
    for (contents, rows_max, expected) in [
        (Contents::AllRows, 80, "the result has 120 rows in memory, but at most 80 are allowed"),
        (Contents::LastOfKey, 2, "the table has more than 2 keys; raise max_result_rows"),
    ] {
        let retention = Retention { rows_max, is_strict: true, ..Retention::default() };
        let config = config(&trial(contents, Some(fragmentation(3, None)), retention));
        let mut store = Store::new(&config);
        let cars = |names: i64| -> Vec<Car> {
            let car =
                |number: i64| Car { name: Some(format!("{}", number % names)), number, ..Random(1).car(1) };
            (0..40).map(car).collect()
        };
        (0..2).for_each(|cycle| store.append(cycle, &[batch(&cars(2))]).unwrap());
        let held = store.reader.latest().read().unwrap();
        let refused = store.append(2, &[batch(&cars(3))]).unwrap_err().to_string();
        assert!(refused.contains(expected), "{refused}");
        assert_eq!(store.append(3, &[]).unwrap_err().to_string(), refused, "it takes no more");
        assert_eq!(store.reader.latest().cycle(), Some(1));
        assert_eq!(store.reader.latest().read().unwrap(), held, "no part of the cycle is visible");
    }
}

#[test]
fn snapshots_of_another_store_and_damaged_ones_are_refused() {
    for (contents, fragments) in [
        (Contents::AllRows, None),
        (Contents::AllRows, Some(fragmentation(3, None))),
        (Contents::Changes, None),
        (Contents::Changes, Some(fragmentation(2, None))),
    ] {
        let config = StoreConfig { contents, key: Some(vec![0]), fragments, ..StoreConfig::new(&schema()) };
        let mut store = Store::new(&config);
        let (one, other) = (Random(1).car(3), Random(2).car(3));
        let batches = if contents == Contents::Changes {
            [[(one.clone(), 2), (other, 1)], [(one.clone(), -1), (one, 0)]]
                .map(|cars| weighted(&cars))
                .to_vec()
        } else {
            vec![batch(&[one, other])]
        };
        for (cycle, rows) in (4..).zip(batches) {
            store.append(cycle, &[rows]).unwrap();
        }
        let bytes = store.snapshot();
        let files = store.files.clone();
        let restore =
            |config: StoreConfig, bytes: &[u8]| Store::restore(&config, bytes, files.clone()).map(|_| ());
        assert_eq!(restore(config.clone(), &bytes), Ok(()));
        let other = StoreConfig { key: Some(vec![4]), ..config.clone() };
        assert!(restore(other, &bytes).unwrap_err().to_string().contains("another definition"));
        for end in (0..bytes.len()).step_by(if config.fragments.is_some() { 7 } else { 1 }) {
            assert!(restore(config.clone(), &bytes[..end]).is_err());
            assert!(tidemill_store::named_chunks(&bytes[..end]).is_err());
            // A shortened snapshot whose checksum is right.
            let mut writer = SnapshotWriter::default();
            bytes[..end].iter().for_each(|byte| writer.u8(*byte));
            assert!(restore(config.clone(), &writer.finish()).is_err() || end + 4 >= bytes.len(), "{end}");
        }
    }
}
