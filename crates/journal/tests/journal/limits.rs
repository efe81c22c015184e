//! Full disks, limits of bytes, retention, the table of clients.

use std::path::Path;
use std::sync::Arc;

use tidemill_core::error::{Cause, Fault};
use tidemill_journal::{Journal, StreamReader, StreamSettings, StreamWriter};

use crate::support::{request, rows};
use tidemill_testing::fault_disk::FaultDisk;

fn open(disk: &FaultDisk, settings: &StreamSettings) -> (StreamWriter, StreamReader) {
    let journal = Journal::open_on(Arc::new(disk.clone()), Path::new("/journal")).unwrap();
    journal.stream("orders", rows(0, 1).schema(), settings).unwrap()
}

fn small() -> StreamSettings {
    StreamSettings { segment_bytes: 4096, ..StreamSettings::default() }
}

#[test]
fn a_full_disk_is_a_limit_and_no_end() {
    let disk = FaultDisk::new();
    let (mut writer, mut reader) = open(&disk, &small());
    disk.limit(disk.bytes() + 10_000);
    let mut refused = 0;
    for round in 0..60 {
        let start = writer.end();
        match writer.append(&rows(start, 5), 0, None) {
            Ok(_) => {}
            Err(Cause { fault: Fault::Resource, message: text, .. }) => {
                refused += 1;
                assert!(text.contains("free space"), "{text}");
                assert_eq!(writer.end(), start);
                disk.limit(disk.bytes() + if round % 2 == 0 { 100 } else { 10_000 });
            }
            Err(cause) => panic!("{cause}"),
        }
        writer.sync().unwrap();
    }
    assert!(refused > 3, "{refused}");
    let end = writer.end();
    (0..end).for_each(|position| assert!(reader.read(position).unwrap().is_some()));
    drop((writer, reader));
    assert_eq!(open(&disk, &small()).0.end(), end);
}

#[test]
fn the_limit_holds_rows_back_until_they_are_released() {
    let settings = StreamSettings { segment_bytes: 4096, bytes_max: 20_000, ..StreamSettings::default() };
    let disk = FaultDisk::new();
    let (mut writer, mut reader) = open(&disk, &settings);
    let progress = writer.progress();
    for _ in 0..5 {
        let first = writer.end();
        while writer.has_room().unwrap() {
            writer.append(&rows(writer.end(), 5), 0, None).unwrap();
        }
        assert!(writer.end() > first + 20 && progress.bytes() < 22_000, "{}", progress.bytes());
        assert!(matches!(
            writer.append(&rows(writer.end(), 5), 0, None),
            Err(Cause { fault: Fault::Resource, .. })
        ));
        progress.release(writer.end() - 1);
        assert!(writer.has_room().unwrap());
    }
    writer.sync().unwrap();
    assert!(progress.first() > 50 && progress.bytes() < 15_000);
    let refused = reader.read(0).err().unwrap();
    assert!(refused.fault == Fault::Operation && refused.message.contains("no longer exists"), "{refused}");
    assert_eq!(reader.read(progress.first()).unwrap().unwrap().start, progress.first());
}

#[test]
fn one_record_larger_than_the_limit_does_not_hold_back_for_ever() {
    let settings = StreamSettings { segment_bytes: 4096, bytes_max: 20_000, ..StreamSettings::default() };
    let (mut writer, mut reader) = open(&FaultDisk::new(), &settings);
    for round in 0..4 {
        assert!(writer.has_room().unwrap(), "round {round}");
        let start = writer.end();
        writer.append(&rows(start, 3000), 0, None).unwrap();
        assert_eq!(reader.read(start).unwrap().unwrap().rows, rows(start, 3000));
        assert!(!writer.has_room().unwrap());
        writer.progress().release(writer.end());
    }
}

#[test]
fn history_is_kept_as_far_as_asked() {
    let settings = StreamSettings { retain_bytes: 12_000, ..small() };
    let (mut writer, _) = open(&FaultDisk::new(), &settings);
    for _ in 0..100 {
        let end = writer.append(&rows(writer.end(), 5), 0, None).unwrap();
        writer.progress().release(end);
        writer.sync().unwrap();
    }
    let bytes = writer.progress().bytes();
    assert!((12_000..21_000).contains(&bytes), "{bytes}");
}

#[test]
fn what_was_released_and_is_still_there_can_be_kept() {
    let settings = StreamSettings { retain_bytes: 12_000, ..small() };
    let (mut writer, mut reader) = open(&FaultDisk::new(), &settings);
    let progress = writer.progress();
    let append_released = |writer: &mut StreamWriter, times| {
        for _ in 0..times {
            let end = writer.append(&rows(writer.end(), 5), 0, None).unwrap();
            writer.progress().release(end);
            writer.sync().unwrap();
        }
    };
    append_released(&mut writer, 100);
    let first = progress.first();
    assert!(first > 0 && progress.released() == writer.end());
    assert!(!progress.keep_from(first - 1), "it is removed");
    assert!(progress.keep_from(first));
    for _ in 0..100 {
        writer.append(&rows(writer.end(), 5), 0, None).unwrap();
        writer.sync().unwrap();
    }
    assert!(reader.read(first).unwrap().is_some() && progress.first() == first);
    append_released(&mut writer, 1);
    assert!(progress.first() > first, "it is released again");
}

#[test]
fn the_client_heard_of_longest_ago_is_forgotten() {
    let disk = FaultDisk::new();
    let settings = StreamSettings { clients_max: 2, ..small() };
    let (mut writer, _) = open(&disk, &settings);
    for (client, sequence) in [("a", 9), ("b", 3), ("a", 4), ("c", 1)] {
        writer.append(&rows(writer.end(), 1), 0, Some(&request(client, sequence))).unwrap();
    }
    drop(writer);
    let (writer, _) = open(&disk, &settings);
    assert!(writer.is_repeated(&request("a", 9)) && !writer.is_repeated(&request("a", 10)));
    assert!(writer.is_repeated(&request("c", 1)) && !writer.is_repeated(&request("b", 3)));
}
