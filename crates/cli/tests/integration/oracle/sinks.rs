//! Files that hold every row once, however often the server is killed.

use std::collections::BTreeMap;
use std::path::Path;

use crate::support::child::wait_until;
use crate::support::rows_of;
use tidemill_testing::duckdb::{Row, Value};

/// Rows of one source in their order, windows, and the changes of a table.
pub fn create() -> String {
    let file = |name: &str| format!("CREATE SINK {name} WITH (connector = 'file', path = '{name}.csv') AS");
    format!(
        "{} SELECT n, k, v FROM s WHERE v > 0; {} SELECT window_end, k, count(*) AS rows FROM tumble(TABLE(t), \
         ts, INTERVAL '1 \
         second') GROUP BY window_end, k; {} SELECT k, count(*) AS rows FROM u GROUP BY k",
        file("copied"),
        file("windows"),
        file("changes")
    )
}

/// Compares the files with what a second opinion says that they must have.
pub fn check(folder: &Path, mut answer: impl FnMut(&str) -> Vec<Row>) {
    let file = |name: &str| rows_of(&folder.join(format!("{name}.csv")));
    let lines = |rows: Vec<Row>| rows.iter().map(line).collect::<Vec<String>>();

    let copied = lines(answer("SELECT n, k, v FROM s WHERE v > 0 ORDER BY n"));
    wait_until("the file has all rows", || file("copied").len() >= copied.len());
    assert_eq!(file("copied"), copied);

    let windows = "SELECT strftime(window_end, '%Y-%m-%d %H:%M:%S'), k, rows FROM (SELECT \
     make_timestamp((epoch_ms(ts) // 1000 + \
                   1) * 1000000) AS window_end, k, count(*) AS rows FROM t GROUP BY 1, 2) WHERE window_end <= \
                   (SELECT w FROM wm_t)";
    let mut windows = lines(answer(windows));
    windows.sort();
    wait_until("the file has all windows", || file("windows").len() >= windows.len());
    let mut written = file("windows");
    written.sort();
    assert_eq!(written, windows);

    let expected: BTreeMap<String, String> = lines(answer("SELECT k, count(*) FROM u GROUP BY k"))
        .iter()
        .filter_map(|line| line.split_once(','))
        .map(|(key, rows)| (key.to_owned(), rows.to_owned()))
        .collect();
    let last = || {
        file("changes").iter().filter_map(|line| line.split_once(',')).map(owned).collect::<BTreeMap<_, _>>()
    };
    wait_until("the file has the last of each group", || last() == expected);
    let mut counts: BTreeMap<String, u64> = BTreeMap::new();
    for (key, rows) in file("changes").iter().filter_map(|line| line.split_once(',')).map(owned) {
        let rows = rows.parse().expect("a number");
        let before = counts.insert(key.clone(), rows);
        assert!(before < Some(rows), "the count of {key:?} is {rows} after {before:?}");
    }
}

fn owned((key, rows): (&str, &str)) -> (String, String) {
    (key.to_owned(), rows.to_owned())
}

fn line(row: &Row) -> String {
    let text = |value: &Value| match value {
        Value::Null => String::new(),
        Value::Text(text) => text.clone(),
        other => other.to_string(),
    };
    row.iter().map(text).collect::<Vec<_>>().join(",")
}
