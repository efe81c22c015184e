//! A folder, which processes share that are killed.

use std::env;
use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tidemill_cluster::coordinator::{CoordinatorError, Stamp, open, settle};
use tidemill_testing::random::Random;

use super::{LONG, conformance, connect};

/// Where a process of this test writes.
const ADDRESS: &str = "TIDEMILL_TEST_COORDINATOR";
const ROUNDS: u64 = 25;

#[test]
fn it_keeps_all_promises() {
    let folder = tempfile::tempdir().unwrap();
    conformance::check(&format!("file:{}", folder.path().display()));
}

/// Counts in the record of this process until it is killed, and says each number that is confirmed.
fn count(address: &str) {
    let mut coordinator = connect(address);
    let key = format!("of/{}", std::process::id());
    let mut expected = None;
    for number in 1_u64.. {
        let revision =
            settle(&mut *coordinator, &key, expected, number.to_string().as_bytes(), LONG).unwrap();
        println!("confirmed {number} {}", revision.0);
        expected = Some(revision);
    }
}

fn start(address: &str) -> Child {
    let mut command = Command::new(env::current_exe().unwrap());
    command.args(["--exact", "coordinators::folder::what_was_confirmed_survives_kills", "--nocapture"]);
    command.env(ADDRESS, address).stdout(Stdio::piped()).spawn().unwrap()
}

#[test]
fn what_was_confirmed_survives_kills() {
    if let Ok(address) = env::var(ADDRESS) {
        return count(&address);
    }
    let folder = tempfile::tempdir().unwrap();
    let address = format!("file:{}", folder.path().display());
    let mut random = Random::new(1);
    for round in 0..ROUNDS {
        let mut children = [start(&address), start(&address)];
        // Whatever it is doing after that many confirmations, it is killed there.
        let after = 1 + random.below(12);
        let mut outputs =
            children.each_mut().map(|child| BufReader::new(child.stdout.take().unwrap()).lines());
        let mut confirmed = [(0_u64, 0_u64); 2];
        let mut note = |which: usize, line: String| {
            // Short lines go into a pipe whole or not at all. The test's own words may stand in front of one.
            if let Some((_, numbers)) = line.split_once("confirmed ") {
                let mut numbers = numbers.split(' ').map(|number| number.parse().unwrap());
                confirmed[which] = (numbers.next().unwrap(), numbers.next().unwrap());
            }
            confirmed[which].0
        };
        while note(0, outputs[0].next().unwrap().unwrap()) < after {}
        children.iter_mut().for_each(|child| child.kill().unwrap());
        for (which, output) in outputs.into_iter().enumerate() {
            output.map_while(Result::ok).for_each(|line| {
                note(which, line);
            });
        }
        children.iter_mut().for_each(|child| {
            child.wait().unwrap();
        });
        let mut reader = connect(&address);
        for (child, (number, revision)) in children.iter().zip(confirmed) {
            let record = reader.read(&format!("of/{}", child.id())).unwrap();
            let found = record.map_or((0, 0), |record| {
                (String::from_utf8(record.value).unwrap().parse().unwrap(), record.revision.0)
            });
            let is_next = found.0 == number + 1 && found.1 > revision;
            // The last change may have been made and not said any more.
            assert!(
                found == (number, revision) || is_next,
                "round {round}: {found:?}, confirmed {number}, {revision}"
            );
        }
        settle(&mut *reader, &format!("round/{round}"), None, b"", LONG).expect("the lock is free");
    }
}

#[test]
fn a_process_that_stops_with_the_lock_does_not_hold_others_for_ever() {
    let folder = tempfile::tempdir().unwrap();
    let address = format!("file:{}", folder.path().display());
    let mut one = open(&address, "tests", Duration::from_millis(50)).unwrap();
    let revision = one.compare_and_set("a", None, Stamp([1; 16]), b"1").unwrap();
    let lock = File::open(folder.path().join("tests/lock")).unwrap();
    lock.lock().unwrap();
    let error = one.compare_and_set("a", Some(revision), Stamp([2; 16]), b"2").unwrap_err();
    assert!(matches!(error, CoordinatorError::Unavailable { .. }), "{error}");
    assert!(error.to_string().contains("SIGSTOP"), "{error}");
    // Readers need no lock.
    assert_eq!(one.read("a").unwrap().unwrap().value, b"1");
    drop(lock);
    one.compare_and_set("a", Some(revision), Stamp([2; 16]), b"2").unwrap();
}

#[test]
fn every_damage_is_noticed() {
    let folder = tempfile::tempdir().unwrap();
    let address = format!("file:{}", folder.path().display());
    let mut one = connect(&address);
    one.compare_and_set("a", None, Stamp([1; 16]), b"some value").unwrap();
    let path = folder.path().join("tests/records");
    let whole = fs::read(&path).unwrap();
    let flipped = (0..whole.len()).map(|at| {
        let mut bytes = whole.clone();
        bytes[at] ^= 0x20;
        bytes
    });
    let cut = (0..whole.len()).map(|end| whole[..end].to_vec());
    for bytes in flipped.chain(cut) {
        fs::write(&path, bytes).unwrap();
        let read = one.read("a");
        assert!(matches!(read, Err(CoordinatorError::Damaged { .. })), "{read:?}");
        let changed = one.compare_and_set("b", None, Stamp([1; 16]), b"");
        assert!(matches!(changed, Err(CoordinatorError::Damaged { .. })), "{changed:?}");
    }
    // What a crash left beside it does not matter.
    fs::write(&path, &whole).unwrap();
    fs::write(folder.path().join("tests/records.new"), b"half").unwrap();
    assert_eq!(one.read("a").unwrap().unwrap().value, b"some value");
    one.compare_and_set("b", None, Stamp([1; 16]), b"").unwrap();
}
