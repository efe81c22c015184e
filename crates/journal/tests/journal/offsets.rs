//! The offsets of a source: they come back with the rows that they are of; and journals of version 1, which have none.

use std::path::Path;
use std::sync::Arc;

use tidemill_core::CutLog as _;
use tidemill_core::error::{Cause, Fault};
use tidemill_core::source::{SourceOffset, SourceOffsets};
use tidemill_journal::{Journal, Medium as _, StreamSettings, StreamWriter, inspect};

use crate::support::{cut, request, rows};
use tidemill_testing::fault_disk::FaultDisk;

const FOLDER: &str = "/journal";
/// Three rows, and cycle 0, as the program wrote them when segments had version 1.
const OLD_ROWS: &[u8] = include_bytes!("version_1/rows.segment");
const OLD_CUTS: &[u8] = include_bytes!("version_1/cuts.segment");

fn journal(disk: &FaultDisk) -> Journal {
    Journal::open_on(Arc::new(disk.clone()), Path::new(FOLDER)).unwrap()
}

fn open(disk: &FaultDisk) -> StreamWriter {
    let settings = StreamSettings { segment_bytes: 4096, ..StreamSettings::default() };
    journal(disk).stream("numbers", rows(0, 1).schema(), &settings).unwrap().0
}

fn offset(part: u64, at: &str) -> SourceOffset {
    SourceOffset { part, at: Some(at.as_bytes().to_vec()) }
}

#[test]
fn the_newest_segment_knows_the_offsets_of_all() {
    let disk = FaultDisk::new();
    let mut writer = open(&disk);
    for record in 0..40 {
        let offsets = [offset(record % 3, &format!("byte {record}")), SourceOffset { part: 7, at: None }];
        let request = request("agent", record);
        writer
            .append_from(&rows(record * 5, 5), 0, Some(&request), &offsets[..1 + record as usize % 2], &[])
            .unwrap();
    }
    assert!(inspect::list_on(&disk, Path::new(FOLDER)).unwrap().streams[0].segments.len() > 3);
    drop(writer);
    let writer = open(&disk);
    let expected = [(0, "byte 39"), (1, "byte 37"), (2, "byte 38")];
    assert_eq!(
        *writer.offsets(),
        SourceOffsets::from(expected.map(|(part, at)| (part, at.as_bytes().to_vec())))
    );
    assert!(writer.is_repeated(&request("agent", 39)));
    let read: Vec<_> =
        inspect::records_on(Box::new(disk), Path::new(FOLDER), "numbers", 0).unwrap().collect();
    assert_eq!(read.len(), 40);
    assert!(read.into_iter().all(|record| record.unwrap().rows.num_rows() == 5));
}

/// A folder as an older program left it.
fn old_folder() -> FaultDisk {
    let disk = FaultDisk::new();
    drop(open(&disk));
    drop(journal(&disk).cuts().unwrap());
    journal(&disk).set_query("SELECT * FROM numbers").unwrap();
    for (log, bytes) in [("streams/numbers", OLD_ROWS), ("cuts", OLD_CUTS)] {
        let path = Path::new(FOLDER).join(log).join("00000000000000000000.segment");
        let file = disk.create(&path).unwrap();
        file.write_at(&[bytes], 0).unwrap();
        file.sync().unwrap();
    }
    disk
}

#[test]
fn a_journal_of_version_1_is_read_and_gone_on_with() {
    let disk = old_folder();
    let mut writer = open(&disk);
    assert_eq!((writer.end(), writer.offsets().len()), (3, 0));
    writer.append_from(&rows(3, 2), 0, None, &[offset(1, "byte 9")], &[]).unwrap();
    drop(writer);
    let cuts = journal_cuts(&disk);
    let writer = open(&disk);
    assert_eq!((writer.end(), writer.offsets().len()), (5, 1));
    let read: Vec<_> =
        inspect::records_on(Box::new(disk.clone()), Path::new(FOLDER), "numbers", 0).unwrap().collect();
    let read: Vec<_> = read.into_iter().map(|record| record.unwrap().rows).collect();
    assert_eq!(read, [rows(0, 3), rows(3, 2)]);
    assert_eq!(inspect::cuts_on(&disk, Path::new(FOLDER)).unwrap().len(), cuts + 1);
    assert_eq!(inspect::verify_on(&disk, Path::new(FOLDER)).unwrap().findings, []);
}

/// Logs one more cut; how many there were.
fn journal_cuts(disk: &FaultDisk) -> usize {
    let before = inspect::cuts_on(disk, Path::new(FOLDER)).unwrap().len();
    let mut cuts = journal(disk).cuts().unwrap();
    cuts.append(&cut(cuts.end())).unwrap();
    before
}

#[test]
fn an_empty_segment_of_version_1_is_replaced() {
    let disk = old_folder();
    let path = Path::new(FOLDER).join("streams/numbers/00000000000000000000.segment");
    let head_bytes = u32::from_le_bytes(*OLD_ROWS[12..].first_chunk().unwrap()) as usize;
    disk.corrupt(&path, |bytes| bytes.truncate(head_bytes));
    let mut writer = open(&disk);
    writer.append_from(&rows(0, 2), 0, None, &[offset(1, "byte 9")], &[]).unwrap();
    drop(writer);
    let writer = open(&disk);
    assert_eq!((writer.end(), writer.offsets().len()), (2, 1));
    assert_eq!(inspect::list_on(&disk, Path::new(FOLDER)).unwrap().streams[0].segments.len(), 1);
}

#[test]
fn an_older_program_would_refuse_what_it_would_misread() {
    let disk = old_folder();
    let mut writer = open(&disk);
    writer.append_from(&rows(3, 2), 0, None, &[offset(1, "byte 9")], &[]).unwrap();
    // A program that knows version 1 only opens the newest segment first.
    let version = |name: &str| {
        let path = Path::new(FOLDER).join("streams/numbers").join(name);
        let mut front = [0; 12];
        disk.open(&path, false).unwrap().read_at(&mut front, 0).unwrap();
        (front[..8].to_vec(), front[8])
    };
    assert_eq!(version("00000000000000000000.segment"), (b"TIDESEGM".to_vec(), 1));
    assert_eq!(version("00000000000000000003.segment"), (b"TIDESEGM".to_vec(), 3));
}

#[test]
fn too_many_offsets_are_refused_and_the_rest_is_read() {
    let disk = FaultDisk::new();
    let mut writer = open(&disk);
    let large = [SourceOffset { part: 1, at: Some(vec![7; 17 << 20]) }];
    let refused = writer.append_from(&rows(0, 1), 0, None, &large, &[]);
    assert!(matches!(refused, Err(Cause { fault: Fault::User, .. })), "{refused:?}");
    writer.append_from(&rows(0, 1), 0, None, &[offset(1, "byte 9")], &[]).unwrap();
    assert_eq!(writer.end(), 1);
}
