//! `tidemill journal verify`: the files with the rows of a view.
#![cfg(all(unix, feature = "sql"))]

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use crate::support::*;

const ROWS: usize = 40_000;

/// A pipeline whose view has more rows than one chunk.
fn pipeline() -> tempfile::TempDir {
    let script = "CREATE SOURCE m (n BIGINT, word VARCHAR) WITH (path = 'm.csv', durable = true);
                  CREATE MATERIALIZED VIEW numbers AS SELECT n, word FROM m;";
    let mut text = "n,word\n".to_owned();
    (0..ROWS).for_each(|n| writeln!(text, "{n},word {n}").unwrap());
    let folder = folder_with(&[("p.sql", script), ("m.csv", &text)]);
    ended(folder.path(), &["run", "p.sql"]).expect(0);
    folder
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let names = fs::read_dir(folder.join("p.journal/views/numbers.chunks")).unwrap();
    let mut files: Vec<PathBuf> = names.map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

fn verify(folder: &Path) -> Ended {
    ended(folder, &["journal", "verify", "p.journal"])
}

#[test]
fn damaged_missing_and_unused_files_are_shown_and_the_remedy_helps() {
    let folder = pipeline();
    let folder = folder.path();
    verify(folder).expect(0).tells(&["of views (", "no damage"]);
    let file = files(folder).remove(0);
    let bytes = fs::read(&file).unwrap();

    let mut broken = bytes.clone();
    broken[200] ^= 1;
    fs::write(&file, &broken).unwrap();
    verify(folder).expect(3).shows(&[".chunk, byte 12: ", "checksum", "(damage)", "backup"]);

    fs::remove_file(&file).unwrap();
    verify(folder)
        .expect(3)
        .shows(&["the file is missing, with ", "of 'numbers'"])
        .tells(&["1 place damaged"]);
    // The start refuses it as well.
    ended(folder, &["run", "p.sql"]).expect(1).tells(&["is missing"]);

    fs::write(&file, &bytes).unwrap();
    let other = file.with_file_name(format!("{:020}.chunk", 77));
    fs::copy(&file, &other).unwrap();
    verify(folder).expect(0).shows(&["00077.chunk: ", "(unused)"]).tells(&["no damage"]);
    // The next start removes it.
    ended(folder, &["run", "p.sql"]).expect(0);
    assert!(!other.exists());

    fs::write(&file, &broken).unwrap();
    fs::remove_file(folder.join("p.journal/views/numbers.rows")).unwrap();
    fs::remove_dir_all(folder.join("p.journal/views/numbers.chunks")).unwrap();
    ended(folder, &["run", "p.sql"]).expect(0);
    verify(folder).expect(0).tells(&["of views (", "no damage"]);
    let bytes_now: usize = files(folder).iter().map(|file| fs::read(file).unwrap().len()).sum();
    assert!(bytes_now >= bytes.len(), "the view has its rows again");
}
