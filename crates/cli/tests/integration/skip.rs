//! `tidemill journal skip`: a row that ends a pipeline at every start is left out of it, for good, and nothing else is.
#![cfg(feature = "sql")]

use tidemill_testing::postgres::Server;

use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::path::Path;

use crate::support::run::{Run, log};
use crate::support::{Ended, ended, folder_with};

/// The database rejects the number 13, and the pipeline ends at a row that its database rejects.
fn script(url: &str) -> String {
    format!(
        "CREATE SOURCE numbers (n BIGINT) WITH (path = 'numbers.csv', follow = true, durable = true);\n\
         SET snapshot_every = '20 ms';\n\
         CREATE SINK all_numbers AS SELECT n FROM numbers WITH (connector = 'file', path = 'all.csv');\n\
         CREATE SINK lucky AS SELECT n FROM numbers\n\
           WITH (connector = 'postgres', url = '{url}', table = 'lucky', create = false, dead_letters = '');\n"
    )
}

fn append(folder: &Path, numbers: impl IntoIterator<Item = u64>) {
    let mut file = OpenOptions::new().append(true).open(folder.join("numbers.csv")).unwrap();
    let lines: String = numbers.into_iter().map(|number| format!("{number}\n")).collect();
    file.write_all(lines.as_bytes()).unwrap();
}

fn lines(path: &Path) -> Vec<u64> {
    let text = fs::read_to_string(path).unwrap_or_default();
    text.lines().skip(1).map(|line| line.parse().unwrap()).collect()
}

#[test]
fn a_row_that_ends_a_pipeline_at_every_start_is_left_out() {
    let Some(server) = Server::start() else { return };
    server.query("CREATE TABLE lucky (n BIGINT CHECK (n <> 13))");
    let folder = folder_with(&[("numbers.csv", "n\n"), ("p.sql", &script(&server.url()))]);
    let folder = folder.path();
    let in_table =
        || server.query("SELECT n FROM lucky ORDER BY n").lines().map(str::to_owned).collect::<Vec<_>>();
    let journal = |arguments: &[&str]| -> Ended { ended(folder, &[&["journal"], arguments].concat()) };
    let skip = |arguments: &[&str]| journal(&[&["skip", "p.journal", "p.sql"], arguments].concat());

    // It comes with others, and is found among them.
    let mut run = Run::begin(folder);
    append(folder, 0..13);
    run.wait_until("the rows before it are there", || {
        in_table().len() == 13 && lines(&folder.join("all.csv")).len() == 13
    });
    skip(&["--positions", "3"]).expect(2).tells(&["another process is running this query"]);
    append(folder, 13..20);
    assert_eq!(run.ended(), Some(2), "{}", log(folder));
    for _ in 0..2 {
        assert_eq!(Run::begin(folder).ended(), Some(2), "{}", log(folder));
    }
    // With a log, also what the server said besides.
    let verbose = ended(folder, &["run", "p.sql", "--verbose"]).expect(2);
    verbose.tells(&[
        "because: event ",
        "because: SQLSTATE 23514, table: lucky, constraint: lucky_n_check",
        "because: ERROR: new row for relation",
    ]);
    let told = "`tidemill journal skip p.journal SCRIPT --stream numbers --positions 13` skips it";
    assert_eq!(log(folder).matches(told).count(), 3, "{}", log(folder));

    // What cannot be done is refused, and changes nothing.
    skip(&["--positions", "13", "--stream", "number"]).expect(2).tells(&["did you mean 'numbers'?"]);
    skip(&["--positions", "13..9000"])
        .expect(2)
        .tells(&["does not exist: ", "the journal has positions 0 to"]);
    skip(&["--positions", "15..12"]).expect(2).tells(&["15 is after 12; write 12..15"]);
    journal(&["skip", "q.journal", "p.sql", "--positions", "13"])
        .expect(2)
        .tells(&["'q.journal' is not a journal"]);
    assert!(!folder.join("q.journal").exists());
    let tried = skip(&["--positions", "13", "--dry-run"]).expect(3);
    tried.tells(&["skipping 1 row of 'numbers', at position 13", "nothing was changed"]).shows(&["13"]);
    assert_eq!(Run::begin(folder).ended(), Some(2), "{}", log(folder));

    let done = skip(&["--positions", "13"]).expect(0);
    done.tells(&[
        "skipping 1 row of 'numbers', at position 13",
        "done: every run skips these rows from now \
        on",
    ]);
    skip(&["--positions", "13"]).expect(0).tells(&["is already skipped"]);
    // The notes of an earlier run still count: killed at once, it continues without the row all the same.
    Run::begin(folder).kill();
    let mut run = Run::begin(folder);
    let others: Vec<u64> = (0..20).filter(|number| *number != 13).collect();
    let expected: Vec<String> = others.iter().map(u64::to_string).collect();
    run.wait_until("all others are there", || in_table() == expected);
    append(folder, [20]);
    run.wait_until("it takes in what is new", || in_table().len() == 20);
    run.interrupt();
    assert!(log(folder).contains("skipping 1 row of 'numbers'"), "{}", log(folder));
    // The other sink may have had the row before, and then it keeps it; it has all others once.
    let mut all = lines(&folder.join("all.csv"));
    let thirteens = all.extract_if(.., |number| *number == 13).count();
    assert!(thirteens <= 1, "{thirteens} times");
    assert_eq!(all, others.iter().copied().chain([20]).collect::<Vec<_>>());

    // It is seen wherever one looks, and a replay does without the row, too.
    journal(&["show", "p.journal"]).expect(0).tells(&["by `tidemill journal skip`: position 13"]);
    journal(&["show", "p.journal", "--from", "14"]).expect(0);
    journal(&["ls", "p.journal"])
        .expect(0)
        .shows(&["skipped in numbers by `tidemill journal skip`: position 13"]);
    journal(&["verify", "p.journal", "p.sql"]).expect(0).tells(&["1 row of 'numbers' skipped", "can resume"]);
    let query = "CREATE SOURCE past WITH (connector = 'journal', path = 'p.journal', source = 'numbers');\n\
                 SELECT count(*), sum(n) FROM past";
    ended(folder, &["sql", "--format", "csv", "-c", query]).expect(0).shows(&["20,197"]);
    let mut run = Run::begin(folder);
    append(folder, [21]);
    run.wait_until("it goes on", || in_table().len() == 21);
    run.interrupt();
}

/// One that is killed in the middle of things, more than once, and then has rows of many cycles taken from it.
#[test]
fn a_range_may_be_left_out_of_what_sinks_have_already() {
    let script = "CREATE SOURCE numbers (n BIGINT) WITH (path = 'numbers.csv', follow = true, durable = true);\n\
                  CREATE SINK totals AS SELECT n % 2 AS odd, count(*) AS n FROM numbers GROUP BY n % 2\n\
                  WITH (connector = 'file', path = 'totals.csv');\n\
                  CREATE SINK plain AS SELECT n FROM numbers WITH (connector = 'file', path = 'plain.csv');\n";
    let folder = folder_with(&[("numbers.csv", "n\n"), ("p.sql", script)]);
    let folder = folder.path();
    let mut run = Run::begin(folder);
    append(folder, 0..100);
    // The manifest says what is committed. It is written after the rows.
    let manifest = || fs::read_to_string(folder.join("plain.csv.manifest")).unwrap_or_default();
    run.wait_until("all are committed", || manifest().contains("rows 100 "));
    run.kill();
    let skip = ["journal", "skip", "p.journal", "p.sql", "--positions", "10..14,20"];
    ended(folder, &skip).expect(0).tells(&[
        "skipping 6 rows of 'numbers', at position 10..14, 20",
        "sink 'plain' has already committed results of such a cycle: those stay",
    ]);
    let mut run = Run::begin(folder);
    append(folder, 100..102);
    run.wait_until("the new ones are there", || lines(&folder.join("plain.csv")).len() == 102);
    run.interrupt();
    assert_eq!(lines(&folder.join("plain.csv")), (0..102).collect::<Vec<_>>());
    // The counts are those without the rows: of 51 even numbers 4 are left out, of 51 odd ones 2.
    let totals = fs::read_to_string(folder.join("totals.csv")).unwrap();
    let last = |odd: &str| totals.lines().rfind(|line| line.starts_with(odd));
    assert_eq!((last("0,"), last("1,")), (Some("0,47"), Some("1,49")), "{totals}");
}
