//! Whether two answers have the same rows.

use std::cmp::Ordering;

use super::value::{Row, Value};

/// What differs, if anything does.
pub fn difference(ours: &[Row], duckdb: &[Row], ordered: bool) -> Option<String> {
    let is_same = |one: &Row, other: &Row| {
        one.len() == other.len() && one.iter().zip(other).all(|(one, other)| one.is_same(other))
    };
    if ours.len() != duckdb.len() {
        return Some(format!(
            "{} rows of ours, {} of DuckDB\n{}",
            ours.len(),
            duckdb.len(),
            both(ours, duckdb)
        ));
    }
    let (mut ours, mut theirs) = (ours.to_vec(), duckdb.to_vec());
    if !ordered {
        ours.sort_by(compare);
        theirs.sort_by(compare);
    }
    let place = ours.iter().zip(&theirs).position(|(one, other)| !is_same(one, other))?;
    if !ordered {
        // Numbers that are only close may have decided the order.
        let mut left = theirs.clone();
        let found = ours.iter().all(|row| match left.iter().position(|other| is_same(row, other)) {
            Some(at) => {
                left.swap_remove(at);
                true
            }
            None => false,
        });
        if found {
            return None;
        }
    }
    Some(format!(
        "ours has    {}\nDuckDB has  {}\n{}",
        shown(&ours[place]),
        shown(&theirs[place]),
        both(&ours, &theirs)
    ))
}

fn both(ours: &[Row], duckdb: &[Row]) -> String {
    let list =
        |rows: &[Row]| rows.iter().take(12).map(|row| format!("    {}\n", shown(row))).collect::<String>();
    format!("ours:\n{}DuckDB:\n{}", list(ours), list(duckdb))
}

fn shown(row: &Row) -> String {
    row.iter().map(Value::to_string).collect::<Vec<_>>().join(" | ")
}

/// Some order: exact values first, for numbers that are only close must not decide.
fn compare(one: &Row, other: &Row) -> Ordering {
    let exact = |row: &Row| {
        row.iter().filter(|value| value.as_float().is_none()).map(Value::to_string).collect::<Vec<_>>()
    };
    let floats =
        |row: &Row| row.iter().filter_map(Value::as_float).map(|value| value + 0.0).collect::<Vec<_>>();
    exact(one).cmp(&exact(other)).then_with(|| {
        let (one, other) = (floats(one), floats(other));
        let each = one.iter().zip(&other).map(|(one, other)| one.total_cmp(other));
        each.fold(Ordering::Equal, Ordering::then)
    })
}
