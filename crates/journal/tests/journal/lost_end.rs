//! Opening tells a journal whose end was cut off from one that lost its end in a power failure.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tidemill_core::error::Cause;
use tidemill_journal::inspect::{self, FindingKind};
use tidemill_journal::{Journal, StreamSettings, StreamWriter};

use crate::support::rows;
use tidemill_testing::fault_disk::FaultDisk;
use tidemill_testing::random::Random;

const FOLDER: &str = "/journal";
/// Each record has five rows.
const ROWS: u64 = 5;

fn open(disk: &FaultDisk) -> Result<StreamWriter, Cause> {
    let journal = Journal::open_on(Arc::new(disk.clone()), Path::new(FOLDER)).unwrap();
    Ok(journal.stream("numbers", rows(0, 1).schema(), &StreamSettings::default())?.0)
}

/// A journal with four records, which were written after it was opened, and not synced.
fn written() -> FaultDisk {
    let disk = FaultDisk::new();
    let mut writer = open(&disk).unwrap();
    writer.note_opening().unwrap();
    for record in 0..4 {
        writer.append(&rows(record * ROWS, ROWS as usize), 0, None).unwrap();
    }
    disk
}

fn segment(disk: &FaultDisk) -> PathBuf {
    let is_segment = |path: &PathBuf| path.extension().is_some_and(|kind| kind == "segment");
    disk.paths().into_iter().find(|path| is_segment(path) && path.starts_with("/journal/streams")).unwrap()
}

/// Where the records begin in a segment.
fn offsets(bytes: &[u8]) -> Vec<usize> {
    bytes.windows(4).enumerate().filter(|(_, mark)| mark == b"TIDR").map(|(at, _)| at - 52).collect()
}

fn end_of(bytes: &[u8]) -> usize {
    bytes.iter().rposition(|byte| *byte != 0).unwrap() + 1
}

fn kinds(disk: &FaultDisk) -> Vec<FindingKind> {
    let found = inspect::verify_on(disk, Path::new(FOLDER)).unwrap();
    found.findings.iter().map(|finding| finding.kind).collect()
}

#[test]
fn a_file_that_was_shortened_is_damage() {
    let disk = written();
    disk.corrupt(&segment(&disk), |bytes| bytes.truncate(end_of(bytes) - 8));
    assert_eq!(kinds(&disk), [FindingKind::Damage]);
    let refused = open(&disk).err().unwrap().to_string();
    assert!(refused.contains("the file ends within a record"), "{refused}");
}

#[test]
fn a_power_failure_may_shorten_a_file() {
    let disk = written().power_loss(&mut Random::new(1));
    disk.corrupt(&segment(&disk), |bytes| {
        let last = *offsets(bytes).last().unwrap_or(&end_of(bytes));
        bytes.truncate((last + 80).min(bytes.len()));
    });
    assert!(kinds(&disk).iter().all(|kind| *kind == FindingKind::TornEnd));
    open(&disk).unwrap();
}

#[test]
fn what_cuts_name_is_there_unless_the_machine_has_restarted() {
    let without_last = |bytes: &mut Vec<u8>| {
        let last = offsets(bytes)[3];
        bytes[last..].fill(0);
    };
    let disk = written();
    disk.corrupt(&segment(&disk), without_last);
    let writer = open(&disk).unwrap();
    writer.check_end(3 * ROWS).unwrap();
    let refused = writer.check_end(4 * ROWS).unwrap_err().to_string();
    assert!(refused.contains("positions up to 15") && refused.contains("name 20"), "{refused}");
    assert!(refused.contains("streams/numbers/opened"), "{refused}");

    let disk = written();
    open(&disk).unwrap().sync().unwrap();
    let disk = disk.power_loss(&mut Random::new(2));
    disk.corrupt(&segment(&disk), without_last);
    open(&disk).unwrap().check_end(4 * ROWS).unwrap();
}

#[test]
fn what_was_there_at_the_last_opening_was_synced() {
    let disk = written();
    open(&disk).unwrap().note_opening().unwrap();
    let disk = disk.power_loss(&mut Random::new(3));
    disk.corrupt(&segment(&disk), |bytes| {
        let last = offsets(bytes)[3];
        bytes[last..].fill(0);
    });
    assert_eq!(kinds(&disk), [FindingKind::Damage]);
    let refused = open(&disk).err().unwrap().to_string();
    assert!(refused.contains("it had 20 when it was last opened"), "{refused}");
}

#[test]
fn a_changed_byte_before_a_good_record_is_damage_unless_power_was_lost() {
    let change = |bytes: &mut Vec<u8>| {
        let third = offsets(bytes)[2];
        bytes[third + 70] ^= 0x40;
    };
    let disk = written();
    disk.corrupt(&segment(&disk), change);
    assert_eq!(kinds(&disk), [FindingKind::Damage]);
    assert!(open(&disk).err().unwrap().to_string().contains("was written later"));

    let disk = written();
    // All of it has come to the disk, but nobody has been told so.
    disk.corrupt(&segment(&disk), |_| {});
    let disk = disk.power_loss(&mut Random::new(4));
    disk.corrupt(&segment(&disk), change);
    assert_eq!(kinds(&disk), [FindingKind::TornEnd]);
    open(&disk).unwrap();
}
