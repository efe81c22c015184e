//! Damaged files of a journal: what is read is a part of what was written, or an error; what is appended afterwards is
//! there.
//!
//! The corpus is a folder as version 1 of the format writes it (`corpus/journal`), without the zeros at the end of the
//! files. `TIDEMILL_WRITE_CORPUS=1` rewrites it.

mod mend;
mod read;
mod written;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tidemill_fuzz::{cases, corpus, damage};
use tidemill_journal::{Journal, Medium, Skips};
use tidemill_testing::fault_disk::FaultDisk;
use tidemill_testing::random::Random;

/// Where the journal is on the disk.
const FOLDER: &str = "/journal";

type Files = Vec<(PathBuf, Vec<u8>)>;

/// A disk with these files.
fn disk_of(files: &Files) -> FaultDisk {
    let disk = FaultDisk::new();
    for (name, bytes) in files {
        let path = Path::new(FOLDER).join(name);
        disk.create_folder(path.parent().unwrap()).unwrap();
        disk.create(&path).unwrap().write_at(&[bytes], 0).unwrap();
        disk.sync_folder(Path::new(FOLDER)).unwrap();
    }
    disk
}

/// Damages one of the files whose path begins so; sometimes its checksums are made good again.
fn damaged(random: &mut Random, files: &Files, kind: &str) -> (Files, bool) {
    let mut files = files.clone();
    let others: Vec<Vec<u8>> = files.iter().map(|(_, bytes)| bytes.clone()).collect();
    let ours: Vec<usize> = (0..files.len()).filter(|index| files[*index].0.starts_with(kind)).collect();
    let is_mended = random.is_once_in(3);
    let (_, bytes) = &mut files[random.one_of(&ours)];
    damage::binary(random, bytes, &others);
    if is_mended {
        mend::checksums(bytes);
    }
    (files, is_mended)
}

/// Damages files of one kind again and again.
fn fuzz(kind: &'static str) {
    let files = corpus::files("journal");
    cases::run(&format!("journal: {kind}"), move |random| {
        let (files, is_mended) = damaged(random, &files, kind);
        let disk = disk_of(&files);
        read::inspected(&disk, is_mended);
        read::opened(&disk, is_mended, kind == "cuts");
    });
}

#[test]
fn what_version_1_wrote_is_read() {
    let disk = disk_of(&corpus::files("journal"));
    read::inspected(&disk, false);
    read::opened(&disk, false, true);
    read::all(&disk);
}

#[test]
fn damaged_segments_of_rows_give_no_other_rows() {
    fuzz("streams");
}

#[test]
fn damaged_segments_of_cuts_give_no_other_cuts() {
    fuzz("cuts");
}

#[test]
fn damaged_snapshots_are_found_out() {
    fuzz("snapshots");
}

#[test]
fn damaged_commits_are_found_out() {
    fuzz("commits");
}

/// The corpus is of a version that had none.
#[test]
fn damaged_skips_are_found_out() {
    let disk = disk_of(&corpus::files("journal"));
    let journal = Journal::open_on(Arc::new(disk.clone()), Path::new(FOLDER)).unwrap();
    let skips: Skips = [("m".to_owned(), [3..5, 9..10].into_iter().collect())].into();
    journal.set_skips(&skips).unwrap();
    drop(journal);
    let path = Path::new(FOLDER).join("skips");
    let mut good = Vec::new();
    disk.corrupt(&path, |bytes| good = bytes.to_vec());
    cases::run("journal: skips", move |random| {
        let (files, is_mended) = damaged(random, &vec![("skips".into(), good.clone())], "skips");
        let disk = disk_of(&files);
        let journal = Journal::open_on(Arc::new(disk), Path::new(FOLDER)).unwrap();
        if let Ok(found) = journal.skips() {
            assert!(is_mended || found == skips, "{found:?}");
        }
    });
}

#[test]
fn a_damaged_manifest_is_found_out() {
    fuzz("journal");
}

/// Writes the corpus, when it is asked for.
#[test]
fn corpus_is_written() {
    if std::env::var("TIDEMILL_WRITE_CORPUS").is_ok() {
        let disk = FaultDisk::new();
        written::write(&disk);
        for path in disk.paths() {
            let target = corpus::folder("journal").join(path.strip_prefix(FOLDER).unwrap());
            std::fs::create_dir_all(target.parent().unwrap()).unwrap();
            disk.corrupt(&path, |bytes| std::fs::write(target, without_zeros(bytes)).unwrap());
        }
    }
}

/// Without the space that is reserved behind the records, but for some of it.
fn without_zeros(bytes: &[u8]) -> &[u8] {
    let is_segment = bytes.starts_with(b"TIDESEGM");
    let end = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    let kept = if is_segment { end.next_multiple_of(64) + 256 } else { bytes.len() };
    &bytes[..kept.min(bytes.len())]
}
