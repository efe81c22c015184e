//! Readers beside the writer, syncs beside appends, and a second process.

use std::process::Command;
use std::time::Duration;

use tidemill_core::CutLog;
use tidemill_core::error::{Cause, Fault};
use tidemill_journal::{Journal, StreamSettings};

use crate::support::{cut, rows};

const FOLDER_VARIABLE: &str = "TIDEMILL_TEST_JOURNAL_FOLDER";

#[test]
fn a_reader_follows_the_writer() {
    let folder = tempfile::tempdir().unwrap();
    let journal = Journal::open(folder.path()).unwrap();
    let settings = StreamSettings { segment_bytes: 100_000, ..StreamSettings::default() };
    let (mut writer, mut reader) = journal.stream("orders", rows(0, 1).schema(), &settings).unwrap();
    let progress = writer.progress();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            for record in 0..600 {
                let start = writer.end();
                writer.append(&rows(start, 1 + record % 90), 0, None).unwrap();
                if record % 50 == 0 {
                    writer.sync().unwrap();
                }
            }
            writer.sync().unwrap();
        });
        let (mut position, mut records) = (0, 0);
        while records < 600 {
            let Some(record) = reader.read(position).unwrap() else { continue };
            assert_eq!(record.rows, rows(position, record.rows.num_rows()));
            position += record.rows.num_rows() as u64;
            progress.release(position.saturating_sub(500));
            records += 1;
        }
        assert!(progress.wait_synced(position, Duration::from_secs(120)));
        assert!(!progress.wait_synced(position + 1, Duration::from_millis(1)));
    });
}

#[test]
fn cuts_are_appended_while_others_sync() {
    let folder = tempfile::tempdir().unwrap();
    let mut cuts = Journal::open(folder.path()).unwrap().cuts().unwrap();
    let others = cuts.clone();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            while others.synced() != Some(999) {
                others.sync().unwrap();
            }
        });
        (0..1000).for_each(|cycle| cuts.append(&cut(cycle)).unwrap());
    });
    assert_eq!(cuts.cuts_after(None).unwrap().len(), 1000);
}

#[test]
fn a_second_process_is_refused() {
    if let Some(folder) = std::env::var_os(FOLDER_VARIABLE) {
        // This is the second process.
        let Err(Cause { fault: Fault::User, message: text, .. }) = Journal::open(folder.as_ref()) else {
            panic!("it was let in")
        };
        assert!(text.contains("another process"), "{text}");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let journal = Journal::open(folder.path()).unwrap();
    let second = || {
        let mut command = Command::new(std::env::current_exe().unwrap());
        let test = ["--exact", "concurrent::a_second_process_is_refused"];
        command.args(test).env(FOLDER_VARIABLE, folder.path()).output().unwrap()
    };
    let output = second();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    drop(journal);
    assert!(!second().status.success(), "the lock outlives its process");
    Journal::open(folder.path()).unwrap();
}
