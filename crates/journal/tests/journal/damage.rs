//! Torn ends, flipped bits, missing and foreign files.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::{DataType, Field, Schema};
use tidemill_core::error::{Cause, Fault};
use tidemill_core::{Cut, CutLog as _};
use tidemill_journal::inspect::FindingKind;
use tidemill_journal::{Journal, StreamReader, StreamSettings, StreamWriter, inspect};

use crate::support::{request, rows};
use tidemill_testing::fault_disk::FaultDisk;
use tidemill_testing::random::Random;

const FOLDER: &str = "/journal";

fn open(disk: &FaultDisk) -> Result<(StreamWriter, StreamReader), Cause> {
    let settings = StreamSettings { segment_bytes: 4096, ..StreamSettings::default() };
    let journal = Journal::open_on(Arc::new(disk.clone()), Path::new(FOLDER))?;
    journal.stream("orders", rows(0, 1).schema(), &settings)
}

/// A journal of records of 5 rows each.
fn filled(records: u64) -> FaultDisk {
    let disk = FaultDisk::new();
    let (mut writer, _) = open(&disk).unwrap();
    for record in 0..records {
        writer.append(&rows(record * 5, 5), record, Some(&request("agent", record))).unwrap();
        writer.sync().unwrap();
    }
    disk
}

fn segments(disk: &FaultDisk) -> Vec<PathBuf> {
    disk.paths()
        .into_iter()
        .filter(|path| path.extension().is_some_and(|ending| ending == "segment"))
        .collect()
}

/// Flips a bit of one of several segments, and says of which.
fn flip_a_bit(disk: &FaultDisk, random: &mut Random) -> PathBuf {
    let mut paths = segments(disk);
    assert!(paths.len() > 2);
    let path = paths.swap_remove(random.below(paths.len() as u64) as usize);
    disk.corrupt(&path, |bytes| {
        let at = random.below(bytes.len() as u64) as usize;
        bytes[at] ^= 1 << random.below(8);
    });
    path
}

/// All records until the end or an error.
fn read_all(reader: &mut StreamReader) -> (Vec<RecordBatch>, Option<Cause>) {
    let (mut all, mut position) = (Vec::new(), 0);
    loop {
        match reader.read(position) {
            Ok(Some(record)) => {
                position = record.start + record.rows.num_rows() as u64;
                all.push(record.rows);
            }
            Ok(None) => return (all, None),
            Err(cause) => return (all, Some(cause)),
        }
    }
}

fn is_beginning(all: &[RecordBatch]) -> bool {
    all.iter().enumerate().all(|(at, batch)| *batch == rows(at as u64 * 5, 5))
}

#[test]
fn a_record_torn_at_any_byte_is_cut_off() {
    let disk = filled(3);
    let path = segments(&disk)[0].clone();
    let listing = inspect::verify_on(&disk, Path::new(FOLDER)).unwrap();
    let record_bytes = listing.bytes as usize / 3;
    let mut end = 0;
    disk.corrupt(&path, |bytes| end = bytes.iter().rposition(|byte| *byte != 0).unwrap() + 1);
    let start = end.next_multiple_of(64) - record_bytes;
    for torn in start..end {
        let disk = filled(3);
        disk.corrupt(&path, |bytes| bytes[torn..].fill(0));
        let (mut writer, mut reader) = open(&disk).unwrap();
        assert_eq!(writer.end(), 10, "torn at {torn}");
        assert_eq!(writer.torn_bytes() > 0, torn > start, "torn at {torn}");
        assert!(!writer.is_repeated(&request("agent", 2)) && writer.is_repeated(&request("agent", 1)));
        writer.append(&rows(10, 5), 0, None).unwrap();
        let (all, cause) = read_all(&mut reader);
        assert!(all.len() == 3 && is_beginning(&all) && cause.is_none(), "torn at {torn}");
        drop((writer, reader));
        assert_eq!(open(&disk).unwrap().0.torn_bytes(), 0, "torn at {torn}");
    }
}

#[test]
fn a_flipped_bit_gives_an_error_or_a_beginning_but_no_wrong_rows() {
    let mut random = Random::new(7);
    for round in 0..1500 {
        let disk = filled(20);
        flip_a_bit(&disk, &mut random);
        inspect::verify_on(&disk, Path::new(FOLDER)).unwrap();
        if let Ok((_, mut reader)) = open(&disk) {
            let (all, cause) = read_all(&mut reader);
            assert!(is_beginning(&all), "round {round}");
            if let Some(cause) = cause {
                assert!(cause.fault == Fault::Operation && cause.message.contains(".segment"), "{cause}");
            } else {
                assert!(all.len() >= 19, "round {round}: {} records", all.len());
            }
        }
    }
}

#[test]
fn cuts_that_are_shown_have_no_gap() {
    let filled = || {
        let disk = FaultDisk::new();
        let journal = Journal::open_on(Arc::new(disk.clone()), Path::new(FOLDER)).unwrap();
        let mut log = journal.cuts_in_segments(4096).unwrap();
        let cut = |cycle| Cut { cycle, positions: vec![cycle], ..Cut::first() };
        (0..100).for_each(|cycle| log.append(&cut(cycle)).unwrap());
        disk
    };
    let newest = segments(&filled()).pop().unwrap();
    assert_eq!(inspect::cuts_on(&filled(), Path::new(FOLDER)).unwrap().len(), 100);
    let (mut random, mut errors) = (Random::new(9), 0);
    for round in 0..300 {
        let disk = filled();
        let path = flip_a_bit(&disk, &mut random);
        match inspect::cuts_on(&disk, Path::new(FOLDER)) {
            Ok(cuts) => {
                assert!((0..).zip(&cuts).all(|(cycle, cut)| cut.cycle == cycle), "round {round}");
                assert!(cuts.len() == 100 || path == newest, "round {round}: {} cuts", cuts.len());
            }
            Err(cause) => {
                errors += 1;
                assert!(cause.to_string().contains(".segment"), "{cause}");
            }
        }
    }
    assert!(errors > 50, "{errors} errors");
}

#[test]
fn damage_to_a_synced_record_is_no_torn_write() {
    let disk = filled(4);
    let path = segments(&disk).pop().unwrap();
    // The first of the segment's records; those behind it say that it was synced.
    let (offset, cause) = {
        let mut offset = 0;
        disk.corrupt(&path, |bytes| {
            offset = bytes.windows(4).position(|mark| mark == b"TIDR").unwrap() - 52;
            bytes[offset + 200] ^= 1;
        });
        (offset, open(&disk).err())
    };
    let Some(Cause { fault: Fault::Operation, message: text, .. }) = cause else { panic!("{cause:?}") };
    assert!(text.contains(&format!("byte {offset}: damaged")) && text.contains("synced"), "{text}");
    let findings = inspect::verify_on(&disk, Path::new(FOLDER)).unwrap().findings;
    assert_eq!(
        (findings.len(), findings[0].offset, findings[0].kind),
        (1, offset as u64, FindingKind::Damage)
    );
}

#[test]
fn a_segment_that_is_missing_between_others_is_noticed_at_the_start() {
    let disk = filled(20);
    let journal = Journal::open_on(Arc::new(disk.clone()), Path::new(FOLDER)).unwrap();
    let mut log = journal.cuts_in_segments(4096).unwrap();
    (0..100).for_each(|cycle| log.append(&Cut { cycle, positions: vec![cycle], ..Cut::first() }).unwrap());
    drop((log, journal));
    let of = |part: &str| -> Vec<PathBuf> {
        segments(&disk).into_iter().filter(|path| path.starts_with(Path::new(FOLDER).join(part))).collect()
    };
    let gaps = |disk: &FaultDisk| -> Vec<FindingKind> {
        let findings = inspect::verify_on(disk, Path::new(FOLDER)).unwrap().findings;
        let gaps = findings.into_iter().filter(|finding| finding.reason.contains("are missing"));
        gaps.map(|finding| finding.kind).collect()
    };
    let (rows, cuts) = (of("streams"), of("cuts"));
    assert_eq!(gaps(&disk), []);
    assert!(rows.len() > 3 && cuts.len() > 2, "{rows:?} {cuts:?}");
    for missing in [&rows[1], &rows[rows.len() - 2], &cuts[1]] {
        let disk = disk.killed();
        tidemill_journal::Medium::remove(&disk, missing).unwrap();
        assert_eq!(gaps(&disk), [FindingKind::Damage]);
        let refused = if cuts.contains(missing) {
            let journal = Journal::open_on(Arc::new(disk.clone()), Path::new(FOLDER)).unwrap();
            journal.cuts_in_segments(4096).map(drop)
        } else {
            open(&disk).map(drop)
        };
        let refused = refused.unwrap_err();
        let is_told = refused.message.contains("are missing behind it");
        assert!(refused.fault == Fault::Operation && is_told, "{refused}");
    }
    // What is no longer needed is removed from the beginning on.
    tidemill_journal::Medium::remove(&disk, &rows[0]).unwrap();
    tidemill_journal::Medium::remove(&disk, &cuts[0]).unwrap();
    open(&disk).unwrap();
    assert_eq!(gaps(&disk), []);
}

#[test]
fn a_record_that_another_one_took_the_place_of_is_told_of() {
    let disk = filled(20);
    let path = segments(&disk)[0].clone();
    disk.corrupt(&path, |bytes| {
        let records: Vec<usize> =
            (0..bytes.len() - 4).filter(|at| bytes[*at..].starts_with(b"TIDR")).collect();
        let (second, third) = (records[1] - 52, records[2] - 52);
        bytes.copy_within(third.., second);
    });
    let records: Vec<_> =
        inspect::records_on(Box::new(disk), Path::new(FOLDER), "orders", 0).unwrap().collect();
    assert!(records.len() == 2 && records[0].is_ok(), "{}", records.len());
    let refused = records[1].as_ref().err().unwrap();
    assert!(
        refused.fault == Fault::Operation && refused.message.contains("the expected position"),
        "{refused}"
    );
}

#[test]
fn a_version_from_the_future_is_refused() {
    for name in ["/journal/journal", "/journal/streams/orders/00000000000000000000.segment"] {
        let disk = filled(1);
        disk.corrupt(Path::new(name), |bytes| bytes[8] = 9);
        let Err(Cause { fault: Fault::User, message: text, .. }) = open(&disk) else {
            panic!("{name} was taken")
        };
        assert!(text.contains(name) && text.contains("version 9"), "{text}");
    }
}

#[test]
fn other_columns_are_refused() {
    let disk = filled(1);
    let journal = Journal::open_on(Arc::new(disk), Path::new(FOLDER)).unwrap();
    let schema = Arc::new(Schema::new(vec![Field::new("price", DataType::Float64, false)]));
    let Err(Cause { fault: Fault::User, message: text, .. }) =
        journal.stream("orders", schema, &StreamSettings::default())
    else {
        panic!()
    };
    assert!(text.contains("number Int64, text Utf8") && text.contains("price Float64"), "{text}");
}
