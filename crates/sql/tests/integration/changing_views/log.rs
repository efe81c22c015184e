//! A log of changes, and the tables that it makes.

use std::fmt::Write as _;
use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use tidemill_testing::random::Random;

/// The tables: two with a key, whose rows are replaced, and a stream, whose rows only come.
pub const DEFINITIONS: [&str; 5] = [
    "CREATE VIEW log AS SELECT * FROM log_rows()",
    "CREATE MATERIALIZED VIEW t1 PRIMARY KEY (id) AS SELECT id, a, t FROM log WHERE into = 1",
    "CREATE MATERIALIZED VIEW t2 PRIMARY KEY (id) AS SELECT id, a, t FROM log WHERE into = 2",
    "CREATE MATERIALIZED VIEW seen AS SELECT id FROM log",
    "CREATE VIEW s AS SELECT id, a, t FROM log WHERE into = 3",
];

/// A row for one of the tables.
#[derive(Clone, Debug)]
pub struct Entry {
    /// 1 or 2: a table. 3: the stream.
    into: i64,
    id: i64,
    a: Option<i64>,
    t: Option<&'static str>,
}

/// Random entries with few values, so that keys meet.
pub fn entries(random: &mut Random, count: usize) -> Vec<Entry> {
    let entry = |_| Entry {
        into: 1 + random.below(3) as i64,
        id: random.below(8) as i64,
        a: (!random.is_once_in(6)).then(|| random.below(7) as i64 - 2),
        t: random.one_of(&[Some("p"), Some("q"), Some(""), Some("long text"), None]),
    };
    (0..count).map(entry).collect()
}

pub fn batch(log: &[Entry]) -> RecordBatch {
    let numbers = |value: fn(&Entry) -> Option<i64>| {
        Arc::new(log.iter().map(value).collect::<Int64Array>()) as ArrayRef
    };
    let texts = Arc::new(log.iter().map(|entry| entry.t).collect::<StringArray>()) as ArrayRef;
    RecordBatch::try_from_iter_with_nullable([
        ("into", numbers(|entry| Some(entry.into)), true),
        ("id", numbers(|entry| Some(entry.id)), true),
        ("a", numbers(|entry| entry.a), true),
        ("t", texts, true),
    ])
    .unwrap()
}

/// A script that gives DuckDB the tables as they are after these entries.
pub fn tables_for_duckdb(log: &[Entry]) -> String {
    let mut script = String::new();
    for (number, name) in [(1, "t1"), (2, "t2"), (3, "s")] {
        let mine: Vec<&Entry> = log.iter().filter(|entry| entry.into == number).collect();
        let is_last = |at: usize| number == 3 || mine[at + 1..].iter().all(|later| later.id != mine[at].id);
        let rows = mine.iter().enumerate().filter(|(at, _)| is_last(*at)).map(|(_, entry)| {
            let a = entry.a.map_or("NULL".to_owned(), |a| a.to_string());
            let t = entry.t.map_or("NULL".to_owned(), |t| format!("'{t}'"));
            format!("({}, {a}, {t})", entry.id)
        });
        let rows: Vec<String> = rows.collect();
        let _ = write!(script, "CREATE OR REPLACE TABLE {name} (id BIGINT, a BIGINT, t VARCHAR);");
        if !rows.is_empty() {
            let _ = write!(script, "INSERT INTO {name} VALUES {};", rows.join(", "));
        }
    }
    script + "SELECT 1"
}
