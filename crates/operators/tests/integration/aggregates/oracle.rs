//! What the aggregates of `harness::spec` are, computed row by row from all rows of a group.

use std::collections::BTreeSet;

use crate::aggregates::harness::{CODE, FLAG, NUMBER, REAL, Row, TEXT, lines};

/// A row's keys as text.
pub fn key(row: &Row, keys: &[usize]) -> String {
    let show = |text: Option<String>| text.unwrap_or("\n".into());
    let value = |key: &usize| match *key {
        NUMBER => show(row.number.map(|number| number.to_string())),
        TEXT | CODE => show(row.text.map(str::to_owned)),
        FLAG => show(row.flag.map(|flag| flag.to_string())),
        REAL => show(row.real.map(real)),
        other => panic!("no key {other}"),
    };
    keys.iter().map(value).map(|key| key + "|").collect()
}

/// A number as Arrow writes it.
pub fn real(value: f64) -> String {
    let column = std::sync::Arc::new(arrow_array::Float64Array::from(vec![value])) as _;
    lines(&arrow_array::RecordBatch::try_from_iter([("", column)]).unwrap()).remove(0)
}

/// A time as Arrow writes it.
pub fn time(value: i64) -> String {
    let column = std::sync::Arc::new(arrow_array::TimestampNanosecondArray::from(vec![value])) as _;
    lines(&arrow_array::RecordBatch::try_from_iter([("", column)]).unwrap()).remove(0)
}

/// The results of the functions as text.
pub fn results(rows: &[Row]) -> String {
    let show = |text: Option<String>| text.unwrap_or("\n".into());
    let values = || rows.iter().filter_map(|row| row.value);
    let flagged = rows.iter().filter(|row| row.flag == Some(true)).filter_map(|row| row.value);
    let flagged = flagged.collect::<Vec<_>>();
    let sum = (values().count() > 0).then(|| values().sum::<i64>().to_string());
    let mean = flagged.iter().sum::<i64>() as f64 / flagged.len() as f64;
    let least = rows.iter().filter_map(|row| row.real).min_by(f64::total_cmp);
    let text = rows.iter().filter_map(|row| row.text).max();
    [
        rows.len().to_string(),
        flagged.len().to_string(),
        show(sum),
        show((!flagged.is_empty()).then(|| real(mean))),
        show(least.map(real)),
        show(text.map(str::to_owned)),
        values().collect::<BTreeSet<_>>().len().to_string(),
    ]
    .join("|")
}
