//! A store of a changelog answers like a plain multiset of rows: over random changes with copies, changes that cancel out, cycles,
//! questions and limits, with restores between; undivided, and in fragments.

use proptest::prelude::*;
use tidemill_store::{Contents, Fragmentation, Retention, Selection, StoreConfig, StoreReader, Version};

use crate::oracle::cars::{Car, Random, cars_of, schema, weighted};
use crate::oracle::followed::Followed;
use crate::oracle::multiset::Multiset;
use crate::oracle::stores::{Store, fragmentation};
use crate::oracle::{Trial, check_version, config, divided_by, fragments_of};

fn trials() -> impl Strategy<Value = Trial> {
    let keys = prop_oneof![Just(None), Just(Some(vec![0])), Just(Some(vec![4])), Just(Some(vec![4, 0]))];
    let bytes = prop_oneof![Just(1_usize << 14), Just(1 << 18), Just(1 << 30)];
    let limits = (bytes, prop_oneof![Just(3_usize), Just(40), Just(1000)]);
    let rows_max = prop_oneof![Just(3_u64), Just(60), Just(400)];
    let divided = (prop_oneof![Just(1_u32), Just(3), Just(8)], any::<bool>());
    (any::<u64>(), (keys, divided), limits, 1..40_usize, rows_max, 1..12_u64).prop_map(
        |(seed, (key, divided), (bytes_max, versions_max), cycles, rows_max, restore_every)| {
            let contents = Contents::Changes;
            let retention = Retention { bytes_max, versions_max, ..Retention::default() };
            let fragments = divided_by(contents, key.as_deref(), divided);
            Trial { seed, contents, key, fragments, retention, cycles, rows_max, restore_every }
        },
    )
}

/// Random changes: rows that are new, others that are there already, and ones that are taken back, also in the same cycle.
fn random_changes(random: &mut Random, rows: &Multiset, count: usize, now: i64) -> Vec<(Car, i64)> {
    let mut allowed = rows.allowed();
    let mut changes: Vec<(Car, i64)> = Vec::new();
    let goes = random.below(4);
    for _ in 0..count {
        let known = match random.below(8) {
            0 if !changes.is_empty() => Some(&changes[random.below(changes.len() as u64) as usize].0),
            1..6 if !rows.rows().is_empty() => {
                Some(&rows.rows()[random.below(rows.rows().len() as u64) as usize])
            }
            _ => None,
        };
        let mut car = known.cloned().unwrap_or_else(|| random.car(now));
        // Another spelling of an equal row.
        car.x = car.x.map(|x| if x == 0.0 && random.below(2) == 0 { -x } else { x });
        let copies = allowed.copies(&car) as u64;
        let weight = match random.below(4) {
            which if which <= goes && copies > 0 => -(random.below(copies) as i64) - 1,
            0 if random.below(9) == 0 => 0,
            _ => {
                if random.below(5) == 0 {
                    random.below(4) as i64 + 1
                } else {
                    1
                }
            }
        };
        allowed.change(&car, weight);
        changes.push((car, weight));
    }
    // What is taken back may come before what brings it.
    for at in (1..changes.len()).rev() {
        changes.swap(at, random.below(at as u64 + 1) as usize);
    }
    changes
}

fn check(trial: &Trial) {
    let mut random = Random(trial.seed);
    let config = config(trial);
    let mut store = Store::new(&config);
    let mut reader = store.reader.clone();
    let mut plain = Multiset::default();
    let mut held: Vec<(Version, Vec<Car>)> = Vec::new();
    let mut followed: Vec<Followed> = vec![Followed::begin(&reader)];
    let (mut now, mut cycle) = (0, 0);
    for _ in 0..trial.cycles {
        cycle += 1 + random.below(3) / 2;
        now += random.below(20) as i64;
        let count = if random.below(5) == 0 { 0 } else { random.below(trial.rows_max) as usize };
        let changes = random_changes(&mut random, &plain, count, now);
        plain.apply(cycle, &changes);
        let pieces = changes.chunks(random.below(trial.rows_max) as usize + 1);
        store.append(cycle, &pieces.map(weighted).collect::<Vec<_>>()).unwrap();
        let version = reader.latest();
        assert_eq!(version.cycle(), Some(cycle));
        check_version(&version, &plain.rows_at(cycle), trial, &mut random, now);
        assert_eq!(reader.statistics().rows, plain.rows().len() as u64);
        if let Some((oldest, newest)) = reader.cycles() {
            assert_eq!(newest, cycle);
            let asked = oldest + random.below(newest - oldest + 1);
            let earlier = reader.as_of_cycle(asked).unwrap();
            check_version(&earlier, &plain.rows_at(asked), trial, &mut random, now);
            assert!(reader.as_of_cycle(newest + 1).is_err());
            let time = now - random.below(60) as i64;
            if let Ok(version) = reader.as_of_time(time) {
                check_version(&version, &plain.rows_until(time), trial, &mut random, now);
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
        cases: 48,
        max_shrink_iters: 100,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn a_changelog_answers_like_a_multiset(trial in trials()) {
        check(&trial);
    }
}

fn trial(key: Option<Vec<usize>>, fragments: Option<Fragmentation>, retention: Retention) -> Trial {
    let contents = Contents::Changes;
    Trial { seed: 5, contents, key, fragments, retention, cycles: 5, rows_max: 25_000, restore_every: 3 }
}

#[test]
fn large_changes_become_several_chunks() {
    let retention = || Retention { versions_max: 5, ..Retention::default() };
    for (key, fragments) in
        [(None, None), (Some(vec![0]), None), (Some(vec![0]), Some(fragmentation(3, None)))]
    {
        check(&trial(key, fragments, retention()));
    }
}

/// Each cycle replaces some rows of a table of this many.
fn replace(random: &mut Random, rows: &[Car], count: usize, now: i64) -> Vec<(Car, i64)> {
    let first = random.below(rows.len() as u64) as usize;
    let gone = (0..count).map(|at| (rows[(first + at) % rows.len()].clone(), -1));
    let come: Vec<_> = (0..count as i64).map(|at| (Car { number: now + at, ..random.car(now) }, 1)).collect();
    gone.chain(come).collect()
}

#[test]
fn outdated_rows_leave_no_memory_however_long_it_runs() {
    for fragments in [None, Some(fragmentation(2, None))] {
        let retention = Retention { versions_max: 5, ..Retention::default() };
        let config = config(&trial(Some(vec![4]), fragments, retention));
        let mut store = Store::new(&config);
        let mut random = Random(7);
        let mut plain = Multiset::default();
        let first: Vec<_> = (0..2000).map(|number| (Car { number, ..random.car(0) }, 1)).collect();
        plain.apply(0, &first);
        store.append(0, &[weighted(&first)]).unwrap();
        let mut most = 0;
        for cycle in 1..160 {
            let changes = replace(&mut random, plain.rows(), 1500, cycle as i64 * 2000);
            plain.apply(cycle, &changes);
            store.append(cycle, &[weighted(&changes)]).unwrap();
            let held = store.reader.statistics();
            assert_eq!(held.rows, 2000);
            if cycle == 80 {
                most = held.bytes + held.index_bytes;
            } else if cycle > 80 {
                assert!(held.bytes + held.index_bytes < most * 3 / 2, "{held:?}");
            }
        }
        assert_eq!(cars_of(&[store.reader.latest().read().unwrap()]), plain.rows());
        // When all rows are gone, their chunks go too.
        let all: Vec<_> = plain.rows().iter().map(|car| (car.clone(), -1)).collect();
        store.append(160, &[weighted(&all)]).unwrap();
        let one = |cycle: u64| [weighted(&[(Random(cycle).car(0), 1)])];
        (161..170).for_each(|cycle| store.append(cycle, &one(cycle)).unwrap());
        assert_eq!(store.reader.statistics().rows, 9);
    }
}

#[test]
fn copies_that_come_and_go_by_the_thousands_are_found() {
    let config = config(&trial(None, None, Retention::default()));
    let mut store = Store::new(&config);
    let car = Random(3).car(5);
    let mut expected = 0;
    for cycle in 0..60_u64 {
        let weight = if cycle % 3 == 2 { -20_000 } else { 15_000 };
        expected += weight;
        store.append(cycle, &[weighted(&[(car.clone(), weight)])]).unwrap();
        if cycle % 20 == 19 {
            store = store.restored(&config);
        }
        assert_eq!(store.reader.statistics().rows as i64, expected);
    }
    let rows = cars_of(&[store.reader.latest().read().unwrap()]);
    assert!(rows.len() as i64 == expected && rows.iter().all(|row| *row == car));
}

#[test]
fn a_row_that_is_not_there_is_named_and_nothing_changes() {
    for fragments in [None, Some(fragmentation(3, None))] {
        let config = config(&trial(Some(vec![0]), fragments, Retention::default()));
        let mut store = Store::new(&config);
        let car = |vid| Car {
            vid: Some(vid),
            time: Some(4),
            x: Some(1.5),
            y: None,
            name: Some("seven".to_owned()),
            number: 1,
        };
        store.append(0, &[weighted(&[(car(7), 2), (car(8), 1)])]).unwrap();
        let held = store.reader.latest().read().unwrap();
        let refused = store.append(1, &[weighted(&[(car(8), -1), (car(7), -3), (car(9), 1)])]).unwrap_err();
        let expected = "a changelog takes back a row that is not there: vid = 7, time = 4, x = 1.5, y = NULL, \
                        name = seven, number = 1";
        assert_eq!((refused.fault, &*refused.message), (tidemill_core::Fault::Bug, expected));
        assert_eq!(store.reader.latest().cycle(), Some(0));
        assert_eq!(store.reader.latest().read().unwrap(), held, "no part of the cycle is visible");
    }
}

#[test]
fn a_changelog_that_was_restored_at_any_cycle_goes_on_the_same() {
    for (key, fragments) in [(None, None), (Some(vec![4]), Some(fragmentation(3, None)))] {
        let retention = Retention { bytes_max: 1 << 15, versions_max: 7, ..Retention::default() };
        let config = config(&trial(key, fragments, retention));
        let (mut one, mut other) = (Store::new(&config), Store::new(&config));
        let (mut random, mut plain) = (Random(3), Multiset::default());
        for cycle in 0..80 {
            let changes = random_changes(&mut random, &plain, 90, cycle as i64);
            plain.apply(cycle, &changes);
            one.append(cycle, &[weighted(&changes)]).unwrap();
            other.append(cycle, &[weighted(&changes)]).unwrap();
            other = other.restored(&config);
            let statistics = |reader: &StoreReader| {
                let held = fragments_of(reader).into_iter();
                held.map(|held| (held.rows, held.chunks, held.versions, held.bytes)).collect::<Vec<_>>()
            };
            assert_eq!(statistics(&one.reader), statistics(&other.reader));
            for cycle in one.reader.cycles().map_or(0..=0, |(oldest, newest)| oldest..=newest) {
                let rows = |store: &Store| store.reader.as_of_cycle(cycle).unwrap().read().unwrap();
                assert_eq!(rows(&one), rows(&other));
                assert_eq!(cars_of(&[rows(&one)]), plain.rows_at(cycle));
            }
        }
    }
}

#[test]
fn a_changelog_is_divided_again_if_its_fragments_have_changed() {
    let layouts = [None, Some(fragmentation(3, None)), Some(fragmentation(2, Some(4)))];
    for (before, after) in (0..9).map(|pair| (&layouts[pair / 3], &layouts[pair % 3])) {
        let configured = |fragments: &Option<Fragmentation>| {
            config(&trial(Some(vec![4]), fragments.clone(), Retention::default()))
        };
        let mut store = Store::new(&configured(before));
        let (mut random, mut plain) = (Random(17), Multiset::default());
        for cycle in 0..40 {
            let changes = random_changes(&mut random, &plain, 20, cycle as i64);
            plain.apply(cycle, &changes);
            store.append(cycle, &[weighted(&changes)]).unwrap();
            if cycle == 25 {
                store = store.restored(&configured(after));
            }
            assert_eq!(cars_of(&[store.reader.latest().read().unwrap()]), plain.rows());
        }
    }
}

#[test]
fn what_a_changelog_cannot_hold_is_refused() {
    let changes = StoreConfig { contents: Contents::Changes, ..StoreConfig::new(&schema()) };
    let retention = Retention { time: Some(90), ..Retention::default() };
    let refused = StoreConfig { time: Some(1), retention, ..changes.clone() }.check().unwrap_err();
    assert!(refused.to_string().contains("cannot be dropped by time before"), "{refused}");
    let mut store = Store::new(&changes);
    let first = crate::oracle::cars::batch(&[Random(1).car(0)]);
    store.begin_with(&first).unwrap();
    assert_eq!(store.reader.latest().read().unwrap(), first);
    let before = store.reader.latest();
    store.append(0, &[weighted(&[(Random(1).car(0), -1), (Random(2).car(0), 1)])]).unwrap();
    assert_eq!(cars_of(&[store.reader.latest().read().unwrap()]), [Random(2).car(0)]);
    assert_eq!(before.read().unwrap(), first, "the version before the first cycle stays as it was");
    let mut divided = Store::new(&StoreConfig { fragments: Some(fragmentation(2, Some(1))), ..changes });
    assert!(divided.begin_with(&first).is_err());
}

#[test]
fn a_key_whose_rows_change_all_the_time_is_looked_up_as_fast_as_others() {
    let retention = Retention { versions_max: 10, ..Retention::default() };
    let config = config(&trial(Some(vec![0]), None, retention));
    let mut store = Store::new(&config);
    let car = |vid: i64, number: i64| Car { vid: Some(vid), number, ..Random(1).car(9) };
    // So many that outdated rows stay for long.
    let others = (100..40_100).map(|vid| (car(vid, 0), 1));
    // One row of key 1, and a hundred of key 2.
    let first: Vec<_> = others.chain([(car(1, 0), 1)]).chain((0..100).map(|at| (car(2, at), 1))).collect();
    store.append(0, &[weighted(&first)]).unwrap();
    for cycle in 1..3000_i64 {
        let changes =
            [(car(1, cycle - 1), -1), (car(1, cycle), 1), (car(2, cycle + 99), 1), (car(2, cycle - 1), -1)];
        store.append(cycle as u64, &[weighted(&changes)]).unwrap();
        if cycle % 1000 == 500 {
            store = store.restored(&config);
        }
    }
    for (vid, first, rows) in [(1, 2999, 1), (2, 2999, 100)] {
        let key = crate::oracle::cars::key_of(&car(vid, 0), &[0]);
        let of_key = Selection { key: Some(key), ..Selection::default() };
        let found = store.reader.latest().select(&of_key).unwrap();
        let expected: Vec<Car> = (first..first + rows).map(|number| car(vid, number)).collect();
        assert_eq!(cars_of(&found.batches), expected);
        assert!(found.work.by_key && found.work.rows_examined as i64 <= rows + 12, "{}", found.work);
        let earlier = store.reader.as_of_cycle(2990).unwrap().select(&of_key).unwrap();
        assert_eq!((earlier.work.rows_found as i64, earlier.work.by_key), (rows, true));
    }
}
