//! Segments of any bytes: the reader says what is wrong, and never panics.

use std::path::Path;
use std::sync::Arc;

use proptest::prelude::*;
use tidemill_journal::{Journal, StreamSettings, inspect};

use crate::support::{request, rows};
use tidemill_testing::fault_disk::FaultDisk;

const SEGMENT: &str = "/journal/streams/orders/00000000000000000000.segment";

fn small() -> StreamSettings {
    StreamSettings { segment_bytes: 16 << 10, ..StreamSettings::default() }
}

fn disk() -> FaultDisk {
    let disk = FaultDisk::new();
    let journal = Journal::open_on(Arc::new(disk.clone()), Path::new("/journal")).unwrap();
    let (mut writer, _) = journal.stream("orders", rows(0, 1).schema(), &small()).unwrap();
    for start in [0, 3, 6] {
        writer.append(&rows(start, 3), start, Some(&request("agent", start))).unwrap();
    }
    disk
}

/// Reads everything; whatever the bytes are, this returns.
fn read(disk: &FaultDisk) {
    let _ = inspect::list_on(disk, Path::new("/journal"));
    inspect::verify_on(disk, Path::new("/journal")).unwrap();
    if let Ok(records) = inspect::records_on(Box::new(disk.clone()), Path::new("/journal"), "orders", 0) {
        records.for_each(drop);
    }
    let journal = Journal::open_on(Arc::new(disk.clone()), Path::new("/journal")).unwrap();
    if let Ok((_, mut reader)) = journal.stream("orders", rows(0, 1).schema(), &small()) {
        for position in 0..9 {
            let _ = reader.read(position);
        }
    }
}

/// Mends the checksum of the record at `offset`, so that what is in it is looked at.
fn mend(bytes: &mut [u8], offset: usize) {
    let Some(record) = bytes.get_mut(offset..) else { return };
    let length = u32::from_le_bytes([record[0], record[1], record[2], record[3]]) as usize;
    if let Some(record) = record.get_mut(..length).filter(|record| record.len() > 64) {
        let mut hasher = crc32fast::Hasher::new();
        hasher.update(&record[..4]);
        hasher.update(&record[8..]);
        record[4..8].copy_from_slice(&hasher.finalize().to_le_bytes());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn any_bytes_as_a_segment(bytes in prop::collection::vec(any::<u8>(), 0..2000)) {
        let disk = disk();
        disk.corrupt(Path::new(SEGMENT), |segment| *segment = bytes);
        read(&disk);
    }

    #[test]
    fn a_changed_segment(changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8)) {
        let disk = disk();
        disk.corrupt(Path::new(SEGMENT), |segment| {
            changes.iter().for_each(|(at, byte)| segment[at.index(3000)] = *byte);
        });
        read(&disk);
    }

    #[test]
    fn a_changed_record_with_a_good_checksum(
        changes in prop::collection::vec((64_usize..1200, prop_oneof![Just(0), Just(1), Just(255), any::<u8>()]), 1..6)
    ) {
        let disk = disk();
        disk.corrupt(Path::new(SEGMENT), |segment| {
            let offset = segment.windows(4).position(|mark| mark == b"TIDR").unwrap() - 52;
            changes.iter().for_each(|(at, byte)| segment[offset + at] = *byte);
            mend(segment, offset);
        });
        read(&disk);
    }
}
