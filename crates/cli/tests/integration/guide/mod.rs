//! The pages of the guide and the README show what happens: every block of every page is run, or says why not.
//!
//! A page is read from top to bottom, in a folder of its own. What becomes of a block:
//!
//! | block | is |
//! |---|---|
//! | `$ command`, with what it prints below | run by a shell; what it prints must be what is shown. Nothing is shown: it must succeed |
//! | `sql` | run by `tidemill run` if it has sinks, else by `tidemill sql -f`; it must succeed |
//! | `rust` | to be found, line by line, in one of the examples |
//! | anything else | refused: it needs a marker |
//!
//! A marker is a comment in the line above the block, which readers of the page do not see:
//!
//! | marker | says |
//! |---|---|
//! | `<!-- example: file NAME -->` | the block is this file; SQL must pass `tidemill validate` once the page is read |
//! | `<!-- example: output -->` | the block is what the command in the block before it prints |
//! | `<!-- example: numbers vary -->` | any number may stand where one is shown, and any blanks between words |
//! | `<!-- example: any order -->` | the lines may come in another order |
//! | `<!-- example: interrupted once FILE has rows -->` | then somebody presses Ctrl-C |
//! | `<!-- example: validated: REASON -->` | SQL that is only checked |
//! | `<!-- example: not run: REASON -->` | nothing |
//! | `<!-- ci:NAME -->` | `.ci/run` runs it |
//!
//! Several are divided by `;`. A comment of several lines holds what the page need not show: `<!-- example: file NAME`
//! with a file's text, `<!-- example: given` with definitions for all SQL that follows, `<!-- example: run` with commands.
//!
//! Lengths of time, rates (`12.3 ms`, `49.8 k rows/s`) and how many events were answered in time may always differ. A
//! line `...` stands for any lines.
//! `TIDEMILL_GUIDE=sql.md cargo test -p tidemill-cli --test integration guide` runs one page.
#![cfg(all(unix, feature = "sql"))]

mod compare;
mod markdown;
mod page;
mod shell;

use std::path::{Path, PathBuf};
use std::{fs, thread};

/// Pages that are run at a time.
const PAGES_AT_A_TIME: usize = 2;

#[test]
fn every_block_of_every_page_does_what_it_shows() {
    let root = PathBuf::from(std::env::var("CARGO_MANIFEST_DIR").unwrap()).join("../..");
    let mut pages = vec![root.join("README.md")];
    let guide = fs::read_dir(root.join("docs/guide")).expect("the guide");
    pages.extend(
        guide.map(|entry| entry.unwrap().path()).filter(|path| path.extension().is_some_and(|e| e == "md")),
    );
    pages.sort();
    if let Ok(one) = std::env::var("TIDEMILL_GUIDE") {
        pages.retain(|path| path.ends_with(&one));
        assert_eq!(pages.len(), 1, "TIDEMILL_GUIDE={one} is no page");
    }
    let findings = run_all(&root, pages);
    assert!(findings.is_empty(), "\n\n{}\n\n{} findings", findings.join("\n\n"), findings.len());
}

/// What is wrong with the pages, page after page.
fn run_all(root: &Path, pages: Vec<PathBuf>) -> Vec<String> {
    let waiting = parking_lot::Mutex::new(pages.into_iter());
    let next = || waiting.lock().next();
    let mut findings = thread::scope(|scope| {
        let run = || {
            let mut findings = Vec::new();
            while let Some(path) = next() {
                let name = path.strip_prefix(root).unwrap_or(&path).display().to_string();
                let text = fs::read_to_string(&path).expect("a readable page");
                findings.extend(page::run(root, &name, &text));
            }
            findings
        };
        let threads: Vec<_> = (0..PAGES_AT_A_TIME).map(|_| scope.spawn(run)).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect::<Vec<String>>()
    });
    findings.sort();
    findings
}

/// The check itself can fail.
#[test]
fn a_page_that_shows_something_else_is_found_out() {
    let root = PathBuf::from(std::env::var("CARGO_MANIFEST_DIR").unwrap()).join("../..");
    let findings = |text: &str| page::run(&root, "page.md", text);
    let right = "    $ tidemill sql --format csv -c \"SELECT 6 * 7 AS answer\"\n    answer\n    42\n";
    assert_eq!(findings(right), [""; 0]);
    let wrong = findings(&right.replace("42", "43"));
    assert!(
        wrong.len() == 1 && wrong[0].starts_with("page.md:1: ") && wrong[0].contains("\n42"),
        "{wrong:?}"
    );
    let cut = findings(&right.replace("    42\n", ""));
    assert!(cut.len() == 1, "{cut:?}");
    let unmarked = findings("words\n\n    what is this?\n");
    assert!(
        unmarked.len() == 1 && unmarked[0].contains("page.md:3: ") && unmarked[0].contains("marker"),
        "{unmarked:?}"
    );
    assert_eq!(findings("<!-- example: not run: it is no command -->\n\n    what is this?\n"), [""; 0]);
    let unknown = findings("<!-- example: never -->\n\n    what is this?\n");
    assert!(unknown.len() == 1 && unknown[0].contains("never"), "{unknown:?}");
    let idle = findings("<!-- example: not run: because -->\nno block\n");
    assert!(idle.len() == 1 && idle[0].contains("no block"), "{idle:?}");
    assert_eq!(findings("```sql\nSELECT 1;\n```\n"), [""; 0]);
    assert_eq!(findings("```sql\nSELECT nothing;\n```\n").len(), 1);
    assert_eq!(
        findings(
            "<!-- example: given\nCREATE VIEW one AS SELECT 1 AS n;\n-->\n```sql\nSELECT n FROM one\n```\n"
        ),
        [""; 0]
    );
    assert_eq!(findings("```rust\nfn nowhere_to_be_found() {}\n```\n").len(), 1);
    let file = "<!-- example: file a.csv -->\n\n    n\n    7\n\n    $ cat a.csv\n    n\n    7\n";
    assert_eq!(findings(file), [""; 0]);
    let sorted = "<!-- example: any order -->\n\n    $ printf 'b\\na\\n'\n    a\n    b\n";
    assert_eq!(findings(sorted), [""; 0]);
    assert_eq!(findings(&sorted.replace("any order", "numbers vary")).len(), 1);
}
