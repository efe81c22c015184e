//! Rows that a sink's format cannot hold: they end a durable pipeline and are named, until the sink gets a file for them.
#![cfg(feature = "sql")]

use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::path::Path;

use crate::support::run::{Run, log};
use crate::support::{ended, folder_with};

/// The sink writes days. Day 3 is beyond each calendar.
fn script(format: &str, options: &str) -> String {
    format!(
        "CREATE SOURCE numbers (n BIGINT) WITH (path = 'numbers.csv', follow = true, durable = true);\n\
         SET snapshot_every = '20 ms';\n\
         CREATE SINK days AS\n\
           SELECT n, arrow_cast(arrow_cast(CASE WHEN n = 3 THEN 2000000000 ELSE n END, 'Int32'), 'Date32') AS day\n\
           FROM numbers WITH (connector = 'file', path = 'days.{format}'{options});\n"
    )
}

fn append(folder: &Path, numbers: impl IntoIterator<Item = u64>) {
    let mut file = OpenOptions::new().append(true).open(folder.join("numbers.csv")).unwrap();
    let lines: String = numbers.into_iter().map(|number| format!("{number}\n")).collect();
    file.write_all(lines.as_bytes()).unwrap();
}

#[test]
fn a_row_without_a_text_costs_itself_once_there_is_a_file_for_it() {
    for format in ["csv", "json"] {
        let folder = folder_with(&[("numbers.csv", "n\n"), ("p.sql", &script(format, ""))]);
        let folder = folder.path();
        append(folder, 0..6);
        for _ in 0..2 {
            assert_eq!(Run::begin(folder).ended(), Some(2), "{}", log(folder));
        }
        let told = log(folder);
        for part in ["sink 'days'", "column 'day'", "dead_letters = 'FILE'", "at position 3 of 'numbers'"] {
            assert!(told.contains(part), "{part} in {told}");
        }

        fs::write(folder.join("p.sql"), script(format, ", dead_letters = 'refused.json'")).unwrap();
        let rows = || {
            let text = fs::read_to_string(folder.join("days").with_extension(format)).unwrap_or_default();
            text.lines().skip(usize::from(format == "csv")).map(str::to_owned).collect::<Vec<_>>()
        };
        let mut run = Run::begin(folder);
        run.wait_until("the good rows are there", || rows().len() == 5);
        run.kill();
        append(folder, [6]);
        let mut run = Run::begin(folder);
        run.wait_until("it goes on", || rows().len() == 6);
        run.interrupt();
        let row = |day: u64| match format {
            "csv" => format!("{day},1970-01-{:02}", day + 1),
            _ => format!("{{\"n\":{day},\"day\":\"1970-01-{:02}\"}}", day + 1),
        };
        assert_eq!(rows(), [0, 1, 2, 4, 5, 6].map(row));
        let letters = "SELECT sink, position, row['n'] AS n FROM 'refused.json'";
        let letters = ended(folder, &["sql", "--format", "csv", "-c", letters]).expect(0);
        letters.shows(&["sink,position,n\ndays,3,3\n"]);
    }
}

#[test]
fn a_format_that_holds_each_value_has_no_dead_letters() {
    let script = "CREATE SINK s WITH (path = 's.parquet', dead_letters = 'refused.json');";
    let folder = folder_with(&[("p.sql", script)]);
    ended(folder.path(), &["run", "p.sql"]).expect(2).tells(&["this format can represent every value"]);
}
