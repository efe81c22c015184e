//! Reading a folder in all ways there are, and comparing with what was written.

use std::path::Path;
use std::sync::Arc;

use tidemill_core::CutLog;
use tidemill_core::error::Cause;
use tidemill_journal::{Journal, Record, StreamReader, StreamWriter, inspect};

use crate::journal::FOLDER;
use crate::journal::written::{self, CUTS, RECORDS, ROWS, SNAPSHOTS, STREAMS};
use tidemill_testing::fault_disk::FaultDisk;

/// Looks into the folder without the lock. With mended checksums the content may be anything.
pub fn inspected(disk: &FaultDisk, is_mended: bool) {
    let folder = Path::new(FOLDER);
    let _ = inspect::list_on(disk, folder);
    inspect::verify_on(disk, folder).unwrap();
    for stream in STREAMS {
        let Ok(records) = inspect::records_on(Box::new(disk.clone()), folder, stream, 0) else { continue };
        let mut next = 0;
        for record in records.map_while(Result::ok) {
            check_record(stream, &record, &mut next, is_mended);
        }
    }
}

/// Opens the folder as a query does. The cuts' segments are long and take long, so others may leave them out.
pub fn opened(disk: &FaultDisk, is_mended: bool, with_cuts: bool) {
    let Ok(journal) = Journal::open_on(Arc::new(disk.clone()), Path::new(FOLDER)) else { return };
    for stream in STREAMS {
        let Ok((mut writer, mut reader)) = open_stream(&journal, stream) else { continue };
        let (next, failure) = read_stream(stream, &mut reader, is_mended);
        if !is_mended {
            assert!(failure.is_some() || next == writer.end(), "{stream}: {next} of {}", writer.end());
            assert!(writer.end() <= RECORDS * ROWS, "{stream}: {}", writer.end());
        }
        append(stream, &mut writer, &mut reader);
    }
    if with_cuts && let Ok(cuts) = journal.cuts() {
        read_cuts(cuts, is_mended);
    }
    if let Ok(Some(found)) = journal.snapshots().newest(None) {
        assert!(is_mended || found == written::snapshot(found.cut.cycle));
        assert!(is_mended || SNAPSHOTS.contains(&found.cut.cycle));
    }
    if let Ok(found) = journal.commits().read() {
        assert!(is_mended || found == written::commits());
    }
}

/// Everything is there.
pub fn all(disk: &FaultDisk) {
    let mut verification = inspect::verify_on(disk, Path::new(FOLDER)).unwrap();
    // The corpus is a journal without the query that wrote it.
    verification.findings.retain(|finding| !finding.path.ends_with("query"));
    assert_eq!(verification.findings, []);
    let journal = Journal::open_on(Arc::new(disk.clone()), Path::new(FOLDER)).unwrap();
    for stream in STREAMS {
        // One more record was appended.
        assert_eq!(open_stream(&journal, stream).unwrap().0.end(), (RECORDS + 1) * ROWS);
    }
    assert_eq!(journal.snapshots().newest(None).unwrap(), Some(written::snapshot(SNAPSHOTS[1])));
    assert_eq!(journal.commits().read().unwrap(), written::commits());
    assert_eq!(journal.cuts().unwrap().last().map(|cut| cut.cycle), Some(CUTS));
}

fn open_stream(journal: &Journal, stream: &str) -> Result<(StreamWriter, StreamReader), Cause> {
    journal.stream(stream, written::rows(stream, 0, 1).schema(), &written::settings())
}

/// Reads to the end, or to the first record that cannot be read.
fn read_stream(stream: &str, reader: &mut StreamReader, is_mended: bool) -> (u64, Option<Cause>) {
    let mut next = 0;
    loop {
        match reader.read(next) {
            Ok(Some(record)) => check_record(stream, &record, &mut next, is_mended),
            Ok(None) => return (next, None),
            Err(cause) => return (next, Some(cause)),
        }
    }
}

fn check_record(stream: &str, record: &Record, next: &mut u64, is_mended: bool) {
    let end = record.start + record.rows.num_rows() as u64;
    if !is_mended {
        assert_eq!(record.start, *next, "{stream}");
        assert_eq!(*record, written::record(stream, record.start / ROWS), "{stream}");
    }
    assert!(end > *next, "{stream}: a record without rows at {next}");
    *next = end;
}

/// What is appended to whatever was found is there afterwards.
fn append(stream: &str, writer: &mut StreamWriter, reader: &mut StreamReader) {
    let start = writer.end();
    let rows = written::rows(stream, start.min(1 << 40), ROWS);
    if writer.append(&rows, 0, None).is_err() {
        return;
    }
    writer.sync().unwrap();
    assert_eq!(reader.read(start).unwrap().unwrap().rows, rows, "{stream}");
}

fn read_cuts(mut cuts: tidemill_journal::CutJournal, is_mended: bool) {
    let end = cuts.synced().map_or(0, |cycle| cycle + 1);
    let mut next = 0;
    while let Ok(Some(cut)) = cuts.cut(next) {
        assert!(is_mended || cut == written::cut(next));
        next += 1;
    }
    let _ = (cuts.cuts_after(None), cuts.cuts_after(Some(4)), cuts.last());
    if !is_mended {
        assert!(end <= CUTS, "{end}");
    }
    let new = written::cut(end);
    if cuts.append(&new).is_ok() {
        assert_eq!(cuts.cut(end).unwrap(), Some(new));
    }
}
