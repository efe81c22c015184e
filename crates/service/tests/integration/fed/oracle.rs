//! The oracle: queries, and what a naive computation over rows gives for them.

use std::collections::BTreeMap;

use fastrand::Rng;
use tidemill_engine::arrow::array::RecordBatch;
use tidemill_engine::arrow::array::cast::AsArray;
use tidemill_engine::arrow::array::types::Int64Type;

use super::Row;

/// 1 to 50 rows.
pub fn random_rows(random: &mut Rng) -> Vec<Row> {
    (0..random.u64(1..=50)).map(|_| (random.i64(0..7), random.i64(0..1000))).collect()
}

/// What a view or a sink gives over the sources `s` and `t`.
pub const QUERIES: [&str; 5] = [
    "SELECT k, v FROM s WHERE v % 2 = 0",
    "SELECT k, CAST(sum(v) AS BIGINT) AS total, count(*) AS n FROM t GROUP BY k",
    "SELECT k, CAST(sum(v) AS BIGINT) AS total, count(*) AS n
     FROM (SELECT k, v FROM s UNION ALL SELECT k, v FROM t) AS both GROUP BY k",
    "SELECT k, window_end AS last, CAST(sum(v) AS BIGINT) AS total
     FROM tumble(TABLE(s), ROWS 3, key => k) GROUP BY k, window_end",
    "SELECT last, total FROM mergestream(mapstream(splitstream(TABLE(s), 3, route => round_robin()),
     (SELECT window_start AS last, CAST(sum(v) AS BIGINT) AS total FROM hop(TABLE(sub), ROWS 2, ROWS 5)
      GROUP BY window_start)))",
];

/// The answer to a query over the rows of both sources: rows in order, or one for each key.
pub fn naive(query: usize, s: &[Row], t: &[Row]) -> Vec<Vec<i64>> {
    if query > 2 {
        return windows(query, s);
    }
    let mut groups = BTreeMap::<i64, (i64, i64)>::new();
    let mut add = |rows: &[Row]| {
        for (k, v) in rows {
            let group = groups.entry(*k).or_default();
            *group = (group.0 + v, group.1 + 1);
        }
    };
    match query {
        0 => return s.iter().filter(|(_, v)| v % 2 == 0).map(|(k, v)| vec![*k, *v]).collect(),
        1 => add(t),
        _ => [s, t].into_iter().for_each(&mut add),
    }
    groups.into_iter().map(|(k, (total, n))| vec![k, total, n]).collect()
}

/// The full windows of each key, or of each sub-stream that is dealt every third row.
fn windows(query: usize, s: &[Row]) -> Vec<Vec<i64>> {
    let mut parts = BTreeMap::<i64, Vec<i64>>::new();
    for (number, (k, v)) in s.iter().enumerate() {
        let part = if query == 3 { *k } else { number as i64 % 3 };
        parts.entry(part).or_default().push(*v);
    }
    let mut rows = Vec::new();
    for (part, values) in parts {
        let (size, slide) = if query == 3 { (3, 3) } else { (5, 2) };
        for (number, window) in values.windows(size).enumerate().step_by(slide) {
            let (first, total) = (number as i64, window.iter().sum());
            rows.push(if query == 3 { vec![part, first + 3, total] } else { vec![first, total] });
        }
    }
    rows.sort();
    rows
}

/// The rows of a batch as integers; those of groups by key.
pub fn rows_of(query: usize, batch: &RecordBatch) -> Vec<Vec<i64>> {
    let columns: Vec<_> = batch.columns().iter().map(|column| column.as_primitive::<Int64Type>()).collect();
    let row = |row| columns.iter().map(|column| column.value(row)).collect();
    let mut rows: Vec<Vec<i64>> = (0..batch.num_rows()).map(row).collect();
    if query > 0 {
        rows.sort();
    }
    rows
}
