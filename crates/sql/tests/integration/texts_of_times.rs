//! Texts become times, intervals, decimals and truth values by one set of rules: in a cast, as a constant with its type, in a column, beside a
//! value of that type, in INSERT, and in files. `texts_of_times.txt` says what PostgreSQL gives, and what we give on purpose.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, RecordBatch, StringArray};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Field, IntervalUnit, Schema, TimeUnit};
use tidemill_connect::formats::text_values;
use tidemill_sql::{Planner, Reply, fitted_rows, parse};

/// A type, a text, and its value; `ERROR`: it has none.
fn lines() -> Vec<(String, String, String)> {
    let path = std::env::var("CARGO_MANIFEST_DIR").unwrap() + "/tests/integration/texts_of_times.txt";
    let text = std::fs::read_to_string(path).unwrap();
    let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with("# "));
    let parts = lines.map(|line| {
        let (data_type, rest) = line.split_once(" | ").unwrap();
        let values: Vec<&str> = rest.split(" => ").collect();
        (data_type.to_owned(), values[0].to_owned(), values[values.len() - 1].to_owned())
    });
    parts.collect()
}

fn data_type(name: &str) -> DataType {
    match name {
        "DATE" => DataType::Date32,
        "TIME" => DataType::Time64(TimeUnit::Nanosecond),
        "TIMESTAMP" => DataType::Timestamp(TimeUnit::Nanosecond, None),
        "INTERVAL" => DataType::Interval(IntervalUnit::MonthDayNano),
        "BOOLEAN" => DataType::Boolean,
        "DECIMAL(10,2)" => DataType::Decimal128(10, 2),
        other => panic!("{other}"),
    }
}

/// The value of a query, as text; `ERROR`: it is refused.
fn answer(query: &str) -> String {
    let reply = parse(query, "test").and_then(|statements| Planner::new().execute(&statements[0]));
    match reply {
        Ok(Reply::Rows(rows)) => shown(rows.column(0)),
        Ok(_) => "no rows".to_owned(),
        Err(_) => "ERROR".to_owned(),
    }
}

fn shown(values: &ArrayRef) -> String {
    let texts = cast(values, &DataType::Utf8).unwrap();
    let texts = texts.as_any().downcast_ref::<StringArray>().unwrap();
    if texts.is_null(0) { "NULL".to_owned() } else { texts.value(0).to_owned() }
}

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

/// An interval as text is compared in our own writing.
fn expected(data_type: &str, value: &str) -> String {
    if data_type == "INTERVAL" && value != "ERROR" {
        return answer(&format!("SELECT CAST(CAST({} AS INTERVAL) AS TEXT)", quoted(value)));
    }
    value.to_owned()
}

#[test]
fn texts_have_the_same_value_wherever_they_stand() {
    let (mut wrong, mut asked) = (Vec::new(), 0);
    for (name, text, value) in lines() {
        let (constant, expected) = (quoted(&text), expected(&name, &value));
        let null = format!("CAST(NULL AS {name})");
        let mut found = vec![
            ("a cast", answer(&format!("SELECT CAST(CAST({constant} AS {name}) AS TEXT)"))),
            (
                "a cast of a column",
                answer(&format!("SELECT CAST(CAST(x AS {name}) AS TEXT) FROM (VALUES ({constant})) AS t(x)")),
            ),
        ];
        // A text beside a decimal keeps all of its digits.
        if !name.contains('(') {
            let beside = answer(&format!("SELECT CAST(coalesce({null}, {constant}) AS TEXT)"));
            found.push(("a text beside a value", beside));
        }
        if !name.contains('(') && name != "BOOLEAN" {
            found.push(("a typed text", answer(&format!("SELECT CAST({name} {constant} AS TEXT)"))));
        }
        // INSERT, and what is read from files by the same rules.
        let texts = Arc::new(StringArray::from(vec![text.as_str()]));
        let given = RecordBatch::try_from_iter([("x", Arc::clone(&texts) as ArrayRef)]).unwrap();
        let column = Arc::new(Schema::new(vec![Field::new("x", data_type(&name), true)]));
        let inserted = fitted_rows(&given, &[0], &column).map(|rows| written(rows.column(0), &name));
        found.push(("INSERT", inserted.unwrap_or_else(|_| "ERROR".to_owned())));
        let is_number = text.trim().parse::<f64>().is_ok();
        if name != "INTERVAL" || !is_number {
            let read = text_values(&texts, &data_type(&name)).unwrap();
            let value =
                if read.refused.is_some() { "ERROR".to_owned() } else { written(&read.values, &name) };
            found.push(("a file", value));
        }
        for (where_it_stands, found) in found {
            asked += 1;
            if found != expected {
                wrong.push(format!("{name} {constant} in {where_it_stands}: {found}, not {expected}"));
            }
        }
    }
    assert!(asked > 700, "only {asked} were asked");
    assert!(wrong.is_empty(), "{} of {asked}:\n{}", wrong.len(), wrong.join("\n"));
}

/// A value as `CAST(... AS TEXT)` writes it.
fn written(values: &ArrayRef, name: &str) -> String {
    let text = shown(values);
    match name {
        "TIMESTAMP" => without_zeros(&text.replacen('T', " ", 1)),
        "TIME" => without_zeros(&text),
        "INTERVAL" => answer(&format!("SELECT CAST(CAST({} AS INTERVAL) AS TEXT)", quoted(&text))),
        _ => text,
    }
}

/// A time whose fraction of a second ends with a digit.
fn without_zeros(time: &str) -> String {
    match time.split_once('.') {
        Some((seconds, fraction)) => format!("{seconds}.{}", fraction.trim_end_matches('0')),
        None => time.to_owned(),
    }
}
