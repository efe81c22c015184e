//! Pipelines whose journal and sinks do not fit each other: the start is refused and names the way out, and the way leads
//! out.
#![cfg(feature = "sql")]

use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::path::Path;
use std::process::Command;

use crate::support::run::{Run, log};
use crate::support::{Ended, ended, folder_with};

const SCRIPT: &str = "CREATE SOURCE m (n BIGINT, text VARCHAR) WITH (path = 'm.csv', follow = true, durable = true);\n\
                      SET snapshot_every = '20 ms';\n\
                      CREATE SINK numbers AS SELECT n FROM m WITH (connector = 'file', path = 'out.csv');\n";

fn append(folder: &Path, numbers: std::ops::Range<u64>, text_bytes: usize) {
    let mut file = OpenOptions::new().append(true).open(folder.join("m.csv")).unwrap();
    let text = "x".repeat(text_bytes);
    numbers.for_each(|number| writeln!(file, "{number},{text}").unwrap());
}

fn numbers(folder: &Path) -> Vec<u64> {
    let text = fs::read_to_string(folder.join("out.csv")).unwrap_or_default();
    text.lines().skip(1).map(|line| line.parse().unwrap()).collect()
}

/// Runs the pipeline until its sink has this many rows.
fn run_until(folder: &Path, rows: usize) {
    let mut run = Run::begin(folder);
    run.wait_until("the rows are there", || numbers(folder).len() == rows);
    run.interrupt();
}

/// Runs the pipeline until its journal has dropped its first rows; the number of the next row. A segment is removed when
/// a row comes after the snapshot that replaces it, so rows keep coming.
fn run_until_first_rows_are_dropped(folder: &Path, first: u64) -> u64 {
    let mut run = Run::begin(folder);
    let mut next = first;
    run.wait_until("the journal has dropped its first rows", || {
        append(folder, next..next + 1, 1);
        next += 1;
        !folder.join("p.journal/streams/m").join(format!("{:020}.segment", 0)).exists()
    });
    run.wait_until("all rows are there", || numbers(folder).len() as u64 == next);
    run.interrupt();
    next
}

fn journal(folder: &Path, arguments: &[&str]) -> Ended {
    ended(folder, &[&["journal"], arguments].concat())
}

fn copy(folder: &Path, from: &str, to: &str) {
    let copied = Command::new("cp").current_dir(folder).args(["-r", from, to]).status().unwrap();
    assert!(copied.success());
}

#[test]
fn a_sink_from_a_backup_is_brought_to_the_oldest_state() {
    let folder = folder_with(&[("m.csv", "n,text\n"), ("p.sql", SCRIPT)]);
    let folder = folder.path();
    append(folder, 0..3, 1);
    run_until(folder, 3);
    for name in ["out.csv", "out.csv.manifest"] {
        copy(folder, name, &format!("old.{name}"));
    }
    // So much that the journal drops its first rows.
    append(folder, 3..153, 600_000);
    let next = run_until_first_rows_are_dropped(folder, 153);
    let listed = journal(folder, &["ls", "p.journal"]).expect(0);
    assert!(!listed.stdout.contains("positions 0 to"), "{}", listed.stdout);
    journal(folder, &["repair", "p.journal", "p.sql"]).expect(0).tells(&["there is nothing to repair"]);

    for name in ["out.csv", "out.csv.manifest"] {
        copy(folder, &format!("old.{name}"), name);
    }
    for _ in 0..2 {
        assert_eq!(Run::begin(folder).ended(), Some(1), "{}", log(folder));
        journal(folder, &["verify", "p.journal", "p.sql"])
            .expect(3)
            .tells(&["sink 'numbers'", "journal repair"]);
        let tried = journal(folder, &["repair", "p.journal", "p.sql", "--dry-run"]).expect(3);
        tried.tells(&["sink 'numbers'", "are lost", "nothing was changed"]);
    }
    assert!(log(folder).contains("`tidemill journal repair`"), "{}", log(folder));
    journal(folder, &["repair", "p.journal", "p.sql"]).expect(0).tells(&["sink 'numbers'", "done"]);
    journal(folder, &["verify", "p.journal", "p.sql"]).expect(0).tells(&["the pipeline can resume"]);

    // What it skipped is missing, as was said; what comes from then on is there once, over starts and kills.
    append(folder, next..next + 2, 1);
    let mut run = Run::begin(folder);
    run.wait_until("the new rows are there", || numbers(folder).ends_with(&[next, next + 1]));
    run.kill();
    append(folder, next + 2..next + 3, 1);
    let mut run = Run::begin(folder);
    run.wait_until("the newest row is there", || numbers(folder).ends_with(&[next + 2]));
    run.interrupt();
    let found = numbers(folder);
    assert!(found.starts_with(&[0, 1, 2]) && found.is_sorted_by(|left, right| left < right), "{found:?}");
}

#[test]
fn a_sink_that_is_ahead_of_its_journal_is_refused_with_what_to_do() {
    let folder = folder_with(&[("m.csv", "n,text\n"), ("p.sql", SCRIPT)]);
    let folder = folder.path();
    append(folder, 0..3, 1);
    run_until(folder, 3);
    copy(folder, "p.journal", "old.journal");
    append(folder, 3..9, 1);
    run_until(folder, 9);
    fs::remove_dir_all(folder.join("p.journal")).unwrap();
    copy(folder, "old.journal", "p.journal");

    let told = [
        "sink 'numbers' has committed cycle",
        "it is an older backup",
        "move away what the sink has written",
    ];
    assert_eq!(Run::begin(folder).ended(), Some(1), "{}", log(folder));
    assert!(told.iter().all(|words| log(folder).contains(words)), "{}", log(folder));
    // No repair makes up for what the journal does not know.
    journal(folder, &["repair", "p.journal", "p.sql"]).expect(1).tells(&told);
    journal(folder, &["verify", "p.journal", "p.sql"]).expect(1).tells(&told);

    fs::rename(folder.join("out.csv"), folder.join("moved.csv")).unwrap();
    fs::rename(folder.join("out.csv.manifest"), folder.join("moved.csv.manifest")).unwrap();
    run_until(folder, 9);
    assert_eq!(numbers(folder), (0..9).collect::<Vec<_>>());
}
