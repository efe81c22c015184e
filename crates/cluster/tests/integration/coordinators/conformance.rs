//! What every coordinator promises.

use std::collections::BTreeSet;
use std::sync::Barrier;
use std::thread;
use std::time::Duration;

use tidemill_cluster::coordinator::{CoordinatorError, Revision, Stamp, open, settle};

use super::{LONG, connect};

/// Checks all of it. The coordinator at this address must have no records of these tests.
pub fn check(address: &str) {
    records_are_what_was_written(address);
    stale_changes_are_refused(address);
    a_change_that_is_sent_twice_counts_once(address);
    clusters_are_apart(address);
    of_writers_that_race_one_wins(address);
    no_increment_is_lost(address);
    who_waits_is_woken(address);
    what_cannot_be_stored_is_refused(address);
}

fn stamp(number: u8) -> Stamp {
    Stamp([number; 16])
}

fn records_are_what_was_written(address: &str) {
    let mut one = connect(address);
    assert_eq!(one.read("written/a"), Ok(None));
    assert_eq!(one.wait(Revision(0), Duration::ZERO), Ok(Revision(0)));
    let all_bytes: Vec<u8> = (0..=255).collect();
    let long = vec![7; 700_000];
    let values: [(&str, &[u8]); 4] = [
        ("written/a", &all_bytes),
        ("written/b.1_x-Y", b""),
        ("written/c", &long),
        ("writtex", b"'; DROP TABLE x"),
    ];
    let mut last = Revision(0);
    for (number, (key, value)) in (1..).zip(values) {
        let revision = one.compare_and_set(key, None, stamp(number), value).unwrap();
        assert!(revision > last, "{key}: {revision:?} after {last:?}");
        last = revision;
        let record = connect(address).read(key).unwrap().unwrap();
        assert_eq!((record.revision, record.stamp), (revision, stamp(number)), "{key}");
        assert!(record.value == value, "{key}");
    }
    let keys = |prefix| -> Vec<String> { connect(address).list(prefix).unwrap().into_keys().collect() };
    assert_eq!(keys("written/"), ["written/a", "written/b.1_x-Y", "written/c"]);
    assert_eq!(keys(""), ["written/a", "written/b.1_x-Y", "written/c", "writtex"]);
    assert_eq!(keys("written/z"), [""; 0]);
    let expected = one.read("written/a").unwrap().map(|found| found.revision);
    let again = one.compare_and_set("written/a", expected, stamp(9), b"x");
    assert!(again.unwrap() > last);
}

fn stale_changes_are_refused(address: &str) {
    let (mut one, mut other) = (connect(address), connect(address));
    let first = one.compare_and_set("stale", None, stamp(1), b"1").unwrap();
    let second = other.compare_and_set("stale", Some(first), stamp(2), b"2").unwrap();
    assert!(second > first);
    for expected in [Some(first), None, Some(Revision(second.0 + 1))] {
        let refused = one.compare_and_set("stale", expected, stamp(3), b"3");
        let Err(CoordinatorError::Stale { key, expected: told, found, .. }) = refused else {
            panic!("{expected:?}: {refused:?}")
        };
        assert_eq!((key.as_str(), told), ("stale", expected));
        let found = found.unwrap();
        assert_eq!((found.revision, &found.value[..]), (second, &b"2"[..]));
    }
    let absent = one.compare_and_set("stale/absent", Some(first), stamp(3), b"3");
    assert!(matches!(absent, Err(CoordinatorError::Stale { found: None, .. })), "{absent:?}");
    assert_eq!(other.read("stale").unwrap().unwrap().value, b"2");
}

fn a_change_that_is_sent_twice_counts_once(address: &str) {
    let mut one = connect(address);
    let first = one.compare_and_set("twice", None, stamp(1), b"1").unwrap();
    assert_eq!(one.compare_and_set("twice", None, stamp(1), b"1"), Ok(first));
    let second = one.compare_and_set("twice", Some(first), stamp(2), b"2").unwrap();
    assert_eq!(one.compare_and_set("twice", Some(first), stamp(2), b"2"), Ok(second));
    // The first change was made, but is not in force any more.
    let late = one.compare_and_set("twice", None, stamp(1), b"1");
    assert!(matches!(late, Err(CoordinatorError::Stale { .. })), "{late:?}");
}

fn clusters_are_apart(address: &str) {
    let mut one = open(address, "apart", LONG).unwrap();
    one.compare_and_set("apart", None, stamp(1), b"1").unwrap();
    assert_eq!(connect(address).read("apart"), Ok(None));
    assert_eq!(one.list("").unwrap().len(), 1);
}

fn of_writers_that_race_one_wins(address: &str) {
    const WRITERS: u8 = 4;
    const ROUNDS: u8 = 12;
    let barrier = Barrier::new(usize::from(WRITERS));
    let race = |writer: u8| {
        let mut coordinator = connect(address);
        let mut won = Vec::new();
        for round in 0..ROUNDS {
            let key = format!("race/{}", round / 3);
            let expected = coordinator.read(&key).unwrap().map(|record| record.revision);
            barrier.wait();
            match settle(&mut *coordinator, &key, expected, &[writer, round], LONG) {
                Ok(revision) => won.push((round, revision)),
                Err(CoordinatorError::Stale { .. }) => {}
                Err(error) => panic!("{error}"),
            }
            barrier.wait();
        }
        won
    };
    let race = &race;
    let won: Vec<(u8, Revision)> = thread::scope(|scope| {
        let writers: Vec<_> = (0..WRITERS).map(|writer| scope.spawn(move || race(writer))).collect();
        writers.into_iter().flat_map(|writer| writer.join().unwrap()).collect()
    });
    let rounds: BTreeSet<u8> = won.iter().map(|(round, _)| *round).collect();
    assert_eq!((won.len(), rounds.len()), (usize::from(ROUNDS), usize::from(ROUNDS)), "{won:?}");
    let revisions: BTreeSet<Revision> = won.iter().map(|(_, revision)| *revision).collect();
    assert_eq!(revisions.len(), won.len(), "{won:?}");
}

fn no_increment_is_lost(address: &str) {
    const WRITERS: u64 = 3;
    const INCREMENTS: u64 = 15;
    let increment = || {
        let mut coordinator = connect(address);
        let mut done = 0;
        while done < INCREMENTS {
            let record = coordinator.read("count").unwrap();
            let count: u64 = record
                .as_ref()
                .map_or(0, |record| String::from_utf8(record.value.clone()).unwrap().parse().unwrap());
            let (expected, value) = (record.map(|record| record.revision), (count + 1).to_string());
            match settle(&mut *coordinator, "count", expected, value.as_bytes(), LONG) {
                Ok(_) => done += 1,
                Err(CoordinatorError::Stale { .. }) => {}
                Err(error) => panic!("{error}"),
            }
        }
    };
    thread::scope(|scope| (0..WRITERS).for_each(|_| drop(scope.spawn(increment))));
    let value = connect(address).read("count").unwrap().unwrap().value;
    assert_eq!(String::from_utf8(value).unwrap(), (WRITERS * INCREMENTS).to_string());
}

fn who_waits_is_woken(address: &str) {
    let mut waiting = connect(address);
    let seen = waiting.wait(Revision(0), Duration::ZERO).unwrap();
    assert!(seen > Revision(0));
    assert_eq!(waiting.wait(seen, Duration::from_millis(1)), Ok(seen), "nothing has changed");
    // What another cluster does is not waited for.
    let mut foreign = open(address, "foreign", LONG).unwrap();
    foreign.compare_and_set("woken", None, stamp(1), b"").unwrap();
    assert_eq!(waiting.wait(seen, Duration::from_millis(1)), Ok(seen), "nothing has changed here");
    let mut writer = connect(address);
    let (woken, written) = thread::scope(|scope| {
        let woken = scope.spawn(|| waiting.wait(seen, LONG).unwrap());
        let written = writer.compare_and_set("woken", None, stamp(1), b"").unwrap();
        (woken.join().unwrap(), written)
    });
    assert_eq!(woken, written);
    // A change that was made before is seen at once, and so is the last of several.
    let again = writer.compare_and_set("woken", Some(written), stamp(2), b"").unwrap();
    assert_eq!(waiting.wait(seen, LONG), Ok(again));
    assert_eq!(waiting.wait(written, LONG), Ok(again));
}

fn what_cannot_be_stored_is_refused(address: &str) {
    let mut one = connect(address);
    let too_long = "k".repeat(201);
    for key in ["", "a b", "it's", "ü", "a\0", &too_long] {
        let refused = one.compare_and_set(key, None, stamp(1), b"");
        assert!(matches!(refused, Err(CoordinatorError::Refused { .. })), "{key}: {refused:?}");
    }
    let refused = one.compare_and_set("large", None, stamp(1), &vec![0; 1024 * 1024 + 1]);
    assert!(matches!(refused, Err(CoordinatorError::Refused { .. })));
    one.compare_and_set("large", None, stamp(1), &vec![0; 1024 * 1024]).unwrap();
}
