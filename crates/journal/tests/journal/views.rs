//! What a check says of the rows of views: chunks that are damaged or missing, and files that nothing names.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use tempfile::TempDir;
use tidemill_core::error::Cause;
use tidemill_journal::inspect::{self, FindingKind, ViewVerification};
use tidemill_journal::{ChunkPlace, Journal};

/// As the rows file of these tests names chunks: 28 bytes for each.
fn name(places: &[ChunkPlace]) -> Vec<u8> {
    let bytes = |place: &ChunkPlace| {
        let numbers = [place.file, place.offset, place.length].map(u64::to_le_bytes).concat();
        [numbers, place.checksum.to_le_bytes().to_vec()].concat()
    };
    places.iter().flat_map(bytes).collect()
}

fn named(bytes: &[u8]) -> Result<Vec<ChunkPlace>, Cause> {
    let (names, rest) = bytes.as_chunks::<28>();
    if !rest.is_empty() {
        return Err(Cause::operation("the rows are damaged"));
    }
    let number = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().unwrap());
    let place = |name: &[u8; 28]| ChunkPlace {
        file: number(&name[..8]),
        offset: number(&name[8..16]),
        length: number(&name[16..24]),
        checksum: u32::from_le_bytes(name[24..].try_into().unwrap()),
    };
    Ok(names.iter().map(place).collect())
}

/// A folder with a view of three files with two chunks each.
fn view() -> (TempDir, Vec<ChunkPlace>) {
    let folder = tempfile::tempdir().unwrap();
    let journal = Journal::open(folder.path()).unwrap();
    let mut chunks = journal.stored_chunks("totals").unwrap();
    let mut places = Vec::new();
    for file in 1..=3_u8 {
        places.push(chunks.write(&[file; 1000]).unwrap());
        places.push(chunks.write(&[file; 500]).unwrap());
        chunks.sync().unwrap();
    }
    journal.stored_rows("totals").unwrap().write(7, &name(&places)).unwrap();
    (folder, places)
}

fn file(folder: &Path, number: u64) -> PathBuf {
    folder.join(format!("views/totals.chunks/{number:020}.chunk"))
}

fn verify(folder: &Path) -> ViewVerification {
    inspect::verify_views(folder, named).unwrap()
}

/// Where findings are, and how bad they are.
fn found(folder: &Path) -> Vec<(PathBuf, u64, FindingKind)> {
    let findings = verify(folder).findings.into_iter();
    findings.map(|finding| (finding.path, finding.offset, finding.kind)).collect()
}

#[test]
fn what_is_intact_is_counted_and_a_folder_without_views_has_none() {
    let (folder, places) = view();
    let files: BTreeSet<u64> = places.iter().map(|place| place.file).collect();
    assert_eq!(files.len(), 3);
    let expected = ViewVerification { views: 1, chunks: 6, bytes: 4500, findings: Vec::new() };
    assert_eq!(verify(folder.path()), expected);
    let empty = tempfile::tempdir().unwrap();
    drop(Journal::open(empty.path()).unwrap());
    assert_eq!(verify(empty.path()), ViewVerification::default());
    assert!(inspect::verify_views(&empty.path().join("nowhere"), named).is_err());
}

#[test]
fn every_broken_byte_is_found_at_its_chunk() {
    let (folder, places) = view();
    let path = file(folder.path(), 2);
    let bytes = fs::read(&path).unwrap();
    for at in 0..bytes.len() {
        let mut broken = bytes.clone();
        broken[at] ^= 0x10;
        fs::write(&path, broken).unwrap();
        // The head of the file belongs to both chunks.
        let of_file: Vec<&ChunkPlace> = places.iter().filter(|place| place.file == 2).collect();
        let is_hit = |place: &&&ChunkPlace| {
            let end = place.offset + 12 + place.length;
            at < 12 || (place.offset..end).contains(&(at as u64))
        };
        let expected: Vec<_> = of_file
            .iter()
            .filter(is_hit)
            .map(|place| (path.clone(), place.offset, FindingKind::Damage))
            .collect();
        assert_eq!(found(folder.path()), expected, "byte {at}");
    }
    // A file that ends early: the second chunk is not whole.
    fs::write(&path, &bytes[..bytes.len() - 1]).unwrap();
    assert_eq!(found(folder.path()), [(path, places[3].offset, FindingKind::Damage)]);
}

#[test]
fn a_missing_file_and_ones_that_nothing_names_are_told_apart() {
    let (folder, places) = view();
    fs::remove_file(file(folder.path(), 1)).unwrap();
    fs::copy(file(folder.path(), 3), file(folder.path(), 9)).unwrap();
    let notes = folder.path().join("views/totals.chunks/notes.txt");
    fs::write(&notes, "mine").unwrap();
    let findings = verify(folder.path()).findings;
    let told: Vec<_> = findings.iter().map(|finding| (finding.path.clone(), finding.kind)).collect();
    let expected = [
        (file(folder.path(), 1), FindingKind::Damage),
        (file(folder.path(), 9), FindingKind::Unused),
        (notes, FindingKind::Unused),
    ];
    assert_eq!(told, expected);
    assert!(findings[0].reason.contains("missing, with 2 chunks of 'totals'"), "{}", findings[0].reason);
    assert!(findings[0].reason.contains("backup"), "{}", findings[0].reason);
    // Rows that cannot be read name nothing, so no file is called unused.
    let journal = Journal::open(folder.path()).unwrap();
    journal.stored_rows("totals").unwrap().write(8, &name(&places)[1..]).unwrap();
    let rows = folder.path().join("views/totals.rows");
    assert_eq!(found(folder.path()), [(rows.clone(), 0, FindingKind::Damage)]);
    let mut bytes = fs::read(&rows).unwrap();
    bytes[20] ^= 1;
    fs::write(&rows, bytes).unwrap();
    assert_eq!(found(folder.path()), [(rows.clone(), 0, FindingKind::Damage)]);
    // Chunks of a view whose rows are gone.
    fs::remove_file(rows).unwrap();
    assert!(found(folder.path()).iter().all(|finding| finding.2 == FindingKind::Unused));
    assert_eq!(found(folder.path()).len(), 4);
}
