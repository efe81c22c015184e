//! `tidemill run --replace`: a changed query is computed from the journal beside the old one, and takes over when it has caught
//! up. Whatever is killed when, either the old or the new script can be started, and each has its rows once.
#![cfg(feature = "sql")]

use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::support::child::{interrupt, wait_until};
use crate::support::{ended, folder_with, tidemill};
use tidemill_testing::random::Random;

const SOURCE: &str = "CREATE SOURCE orders (id BIGINT, amount BIGINT) WITH (path = 'orders.csv', header = true, \
                      follow = true, durable = true);\nSET journal = 'journal';\nSET snapshot_every = '20 ms';\n";

/// The old query keeps large orders, and the new one doubles all of them.
fn old() -> String {
    format!(
        "{SOURCE}CREATE SINK large AS SELECT id FROM orders WHERE amount >= 50 WITH (path = 'large.csv');\n"
    )
}

fn new(path: &str) -> String {
    format!(
        "{SOURCE}CREATE SINK doubled AS SELECT id, amount * 2 AS twice FROM orders WITH (path = '{path}');\n\
         CREATE SINK total AS SELECT count(*) AS n, sum(amount) AS amount FROM orders WITH (path = 'total.csv');\n"
    )
}

fn amount(id: u64) -> u64 {
    id * 7919 % 100
}

fn append(folder: &Path, ids: std::ops::Range<u64>) {
    let mut file = OpenOptions::new().append(true).open(folder.join("orders.csv")).unwrap();
    let lines: String = ids.map(|id| format!("{id},{}\n", amount(id))).collect();
    file.write_all(lines.as_bytes()).unwrap();
}

fn lines(path: &Path) -> Vec<String> {
    fs::read_to_string(path).unwrap_or_default().lines().skip(1).map(str::to_owned).collect()
}

fn large(ids: u64) -> Vec<String> {
    (0..ids).filter(|id| amount(*id) >= 50).map(|id| id.to_string()).collect()
}

fn doubled(ids: u64) -> Vec<String> {
    (0..ids).map(|id| format!("{id},{}", amount(id) * 2)).collect()
}

fn start(folder: &Path, arguments: &[&str]) -> Child {
    let log = OpenOptions::new().create(true).append(true).open(folder.join("log")).unwrap();
    let mut command = tidemill(folder, arguments);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).spawn().unwrap()
}

fn log(folder: &Path) -> String {
    fs::read_to_string(folder.join("log")).unwrap_or_default()
}

/// Runs a script until a condition is met, and stops it in order.
#[track_caller]
fn run_until(folder: &Path, arguments: &[&str], what: &str, mut condition: impl FnMut() -> bool) {
    let before = log(folder).len();
    let mut child = start(folder, arguments);
    wait_until(what, || {
        if let Some(status) = child.try_wait().unwrap() {
            panic!("it ended by itself ({status}):\n{}", log(folder));
        }
        // What the files have may be of an earlier run, and one that does not run yet cannot be stopped in order.
        log(folder)[before..].contains("Ctrl-C ends it cleanly") && condition()
    });
    interrupt(&child);
    assert_eq!(child.wait().unwrap().code(), Some(130), "{}", log(folder));
}

/// A folder in which the old script has run over the first rows.
fn begun(rows: u64) -> tempfile::TempDir {
    let folder =
        folder_with(&[("orders.csv", "id,amount\n"), ("old.sql", &old()), ("new.sql", &new("doubled.csv"))]);
    append(folder.path(), 0..rows);
    let all = large(rows);
    run_until(folder.path(), &["run", "old.sql"], "the old script has all", || {
        lines(&folder.path().join("large.csv")) == all
    });
    folder
}

fn has_total(folder: &Path, rows: u64) -> bool {
    let total: u64 = (0..rows).map(amount).sum();
    lines(&folder.join("total.csv")).last().is_some_and(|line| line.contains(&format!("{rows},{total}")))
}

#[test]
fn a_changed_query_takes_over_with_all_rows() {
    let folder = begun(1000);
    let folder = folder.path();
    ended(folder, &["run", "new.sql"]).expect(2).tells(&["belongs to a different query", "--replace"]);
    // The refused run has opened the files of its sinks, and nothing else.
    let old_rows = fs::read(folder.join("large.csv")).unwrap();
    append(folder, 1000..1500);
    run_until(folder, &["run", "new.sql", "--replace"], "the new query has taken over", || {
        lines(&folder.join("doubled.csv")) == doubled(1500)
            && log(folder).contains("caught up and taken over")
    });
    for words in ["doubled, total must be empty", "orders: 1,000 rows in the journal, from position 0"] {
        assert!(log(folder).contains(words), "{}", log(folder));
    }
    assert_eq!(fs::read(folder.join("large.csv")).unwrap(), old_rows, "nobody writes there any more");
    ended(folder, &["run", "old.sql"]).expect(2).tells(&["belongs to a different query"]);
    ended(folder, &["journal", "verify", "journal"]).expect(0);

    // It resumes as any other.
    append(folder, 1500..1600);
    run_until(folder, &["run", "new.sql"], "the new script resumes", || {
        lines(&folder.join("doubled.csv")) == doubled(1600) && has_total(folder, 1600)
    });
    // The same query again replaces nothing.
    let before = log(folder).len();
    run_until(folder, &["run", "new.sql", "--replace"], "it says so", || {
        log(folder)[before..].contains("nothing is replaced")
    });
    // And a third one replaces it in turn.
    fs::write(folder.join("third.sql"), new("doubled.csv").replace("* 2", "* 3")).unwrap();
    ended(folder, &["run", "third.sql", "--replace"]).expect(2).tells(&["has the rows of another query"]);
    fs::write(
        folder.join("third.sql"),
        new("tripled.csv").replace("* 2", "* 3").replace("total.csv", "another_total.csv"),
    )
    .unwrap();
    let tripled: Vec<String> = (0..1600).map(|id| format!("{id},{}", amount(id) * 3)).collect();
    let before = log(folder).len();
    run_until(folder, &["run", "third.sql", "--replace"], "the third one has taken over", || {
        lines(&folder.join("tripled.csv")) == tripled && log(folder)[before..].contains("taken over")
    });
    append(folder, 1600..1700);
    run_until(folder, &["run", "third.sql"], "it runs without --replace", || {
        lines(&folder.join("tripled.csv")).len() == 1700
    });
}

#[test]
fn rows_of_two_queries_are_not_mixed() {
    let folder = begun(100);
    let folder = folder.path();
    let rows = fs::read(folder.join("large.csv")).unwrap();
    let same_file = old().replace(">= 50", ">= 10");
    fs::write(folder.join("new.sql"), same_file).unwrap();
    for _ in 0..2 {
        let refused = ended(folder, &["run", "new.sql", "--replace"]).expect(2);
        refused.tells(&["sink 'large' has the rows of another query", "together with its manifest"]);
    }
    assert_eq!(fs::read(folder.join("large.csv")).unwrap(), rows);
    append(folder, 100..200);
    run_until(folder, &["run", "old.sql"], "the old one goes on", || {
        lines(&folder.join("large.csv")) == large(200)
    });
}

#[test]
fn a_pipeline_without_a_journal_has_nothing_to_replace() {
    let script = "CREATE SINK numbers AS SELECT value FROM sequence(count => 3) WITH (path = 'n.csv');";
    let folder = folder_with(&[("p.sql", script)]);
    ended(folder.path(), &["run", "p.sql", "--replace"])
        .expect(2)
        .tells(&["no source of the pipeline is durable"]);
    ended(folder.path(), &["run", "p.sql", "--replace=half"]).expect(2).tells(&["from-kept"]);
}

/// How long it takes here, in a copy.
fn time_to_take_over(folder: &Path) -> Duration {
    let (copy, start) = (copy_of(folder), Instant::now());
    let copy = copy.path();
    run_until(copy, &["run", "new.sql", "--replace"], "it has taken over", || {
        copy.join("journal/current").exists()
    });
    start.elapsed()
}

fn copy_of(folder: &Path) -> tempfile::TempDir {
    let copy = tempfile::TempDir::new().unwrap();
    let from = format!("{}/.", folder.display());
    assert!(Command::new("cp").args(["-a", &from]).arg(copy.path()).status().unwrap().success());
    copy
}

#[test]
fn a_kill_at_any_time_leaves_the_old_query_or_the_new_one() {
    const ROWS: u64 = 10_000;
    let mut random =
        Random::new(std::env::var("TIDEMILL_REPLACE_SEED").map_or(7, |seed| seed.parse().unwrap()));
    let (mut of_old, mut of_new) = (0, 0);
    for _round in 0..2 {
        let folder = begun(ROWS);
        let folder = folder.path();
        let whole = time_to_take_over(folder);
        for kill in 0..4 {
            let mut child = start(folder, &["run", "new.sql", "--replace"]);
            if kill < 3 {
                // A kill may come at any time, so there is no condition to wait for.
                std::thread::sleep(whole.mul_f64(random.below(1000) as f64 / 900.0));
            } else {
                // While it takes over.
                let current = folder.join("journal/current");
                wait_until("it takes over", || child.try_wait().unwrap().is_some() || current.exists());
            }
            child.kill().unwrap();
            child.wait().unwrap();

            let copy = copy_of(folder);
            let copy = copy.path();
            fs::remove_file(copy.join("log")).unwrap();
            append(copy, ROWS..ROWS + 10);
            let mut old = start(copy, &["run", "old.sql"]);
            let mut refused = false;
            wait_until("the old script has all, or is refused", || {
                refused = old.try_wait().unwrap().is_some();
                refused || lines(&copy.join("large.csv")) == large(ROWS + 10)
            });
            let _ = old.kill();
            let _ = old.wait();
            if refused {
                assert!(log(copy).contains("belongs to a different query"), "{}", log(copy));
                of_new += 1;
                run_until(copy, &["run", "new.sql"], "the new script has all", || {
                    lines(&copy.join("doubled.csv")) == doubled(ROWS + 10) && has_total(copy, ROWS + 10)
                });
            } else {
                of_old += 1;
            }
            ended(copy, &["journal", "verify", "journal"]).expect(0);
        }
        run_until(folder, &["run", "new.sql", "--replace"], "the new query has all", || {
            lines(&folder.join("doubled.csv")) == doubled(ROWS) && has_total(folder, ROWS)
        });
    }
    assert!(of_new > 0, "the last kill of each round comes when it has taken over");
    println!("after {of_old} kills the old query could be started, after {of_new} the new one");
}
