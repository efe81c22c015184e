//! The language, case by case: each file of `tests/golden` has a script, its input files, and the results: plans, rows,
//! refusals, and how many rows were late or could not be used. With `TIDEMILL_UPDATE=1` the files are rewritten.
//!
//! A case has sections, each headed by `=== `: `file NAME [in parts of N]` (an input, written to a folder of its own
//! whose name the script writes as `$DIR`; in parts: a folder NAME of files of N rows each, so that watermarks move
//! between them), `sql` (a script; where there are several, each has a session of its own, and its sinks run before the
//! next one), and the sections behind each script that the test writes.
//!
//! Every query runs at 1, 2 and 5 workers over the same cuts, where the rows must be the same in the same order, and in
//! cycles of 3, 50 and 100000 events, where the sorted rows must be the same; of tables, the last row of each key.

use crate::golden_support::case;
use crate::golden_support::run;

use std::path::{Path, PathBuf};

use case::Case;

fn folder() -> PathBuf {
    Path::new(&std::env::var("CARGO_MANIFEST_DIR").unwrap()).join("../../tests/golden")
}

/// Runs the cases whose names begin so, and compares them with what is written down.
fn check(wanted: impl Fn(&str) -> bool) {
    let update = std::env::var_os("TIDEMILL_UPDATE").is_some_and(|value| value == "1");
    let only = std::env::var("TIDEMILL_GOLDEN").unwrap_or_default();
    let mut paths: Vec<PathBuf> =
        std::fs::read_dir(folder()).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    let (mut different, mut cases) = (Vec::new(), 0);
    for path in paths {
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        if path.extension().is_none_or(|ending| ending != "txt") || !wanted(&name) || !name.contains(&only) {
            continue;
        }
        cases += 1;
        let before = std::fs::read_to_string(&path).unwrap();
        let case = Case::read(&name, &before);
        let now = match run::case(&case) {
            Ok(now) => now,
            Err(trouble) => {
                different.push(format!("{name}: {trouble}"));
                continue;
            }
        };
        if now != before {
            if update {
                std::fs::write(&path, &now).unwrap()
            } else {
                different.push(format!("{name}: {}", first_difference(&before, &now)))
            }
        }
    }
    assert!(cases > 0 || !only.is_empty(), "there are no such cases");
    assert!(
        different.is_empty(),
        "{}\n\nif the new answers are right, run this test with TIDEMILL_UPDATE=1",
        different.join("\n\n")
    );
}

fn first_difference(before: &str, now: &str) -> String {
    let (mut before, mut now) = (before.lines(), now.lines());
    let mut number = 0;
    loop {
        number += 1;
        let (old, new) = (before.next(), now.next());
        if old != new || old.is_none() {
            let (old, new) = (old.unwrap_or("the end"), new.unwrap_or("the end"));
            return format!("line {number}\n  was {old}\n  is  {new}");
        }
    }
}

#[test]
fn cases_from_a_to_h() {
    check(|name| name < "i");
}

#[test]
fn cases_from_i_to_q() {
    check(|name| ("i".."r").contains(&name));
}

#[test]
fn cases_from_r_to_z() {
    check(|name| name >= "r");
}
