//! A status as a table.

use std::time::Duration;

use serde_json::Value;

use crate::quantity;

const HEADERS: [&str; 11] =
    ["query", "state", "rows in", "in/s", "rows out", "left out", "lag", "p50", "p99", "max", "within bound"];

/// The status as a table. Rates are since `before`, or since the start.
pub(super) fn table(status: &Value, before: Option<&Value>) -> String {
    let queries = status["queries"].as_array().map(Vec::as_slice).unwrap_or_default();
    if queries.is_empty() {
        return match status["starting"].as_bool() {
            Some(true) => "queries are being started\n".to_owned(),
            _ => "no query is running; CREATE MATERIALIZED VIEW or CREATE SINK starts one\n".to_owned(),
        };
    }
    let mut rows = vec![HEADERS.map(str::to_owned)];
    rows.extend(queries.iter().map(|query| row(query, same(query, before))));
    let widths: Vec<usize> = (0..HEADERS.len())
        .map(|column| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0))
        .collect();
    let mut text = String::new();
    for row in &rows {
        let cells = row.iter().zip(&widths).enumerate().map(|(column, (cell, width))| match column {
            0 | 1 => format!("{cell:<width$}"),
            _ => format!("{cell:>width$}"),
        });
        text.push_str(cells.collect::<Vec<_>>().join("  ").trim_end());
        text.push('\n');
    }
    for query in queries {
        notes(query, &mut text);
    }
    // Names and reasons come from outside, and must not steer the terminal.
    text.replace(|letter: char| letter.is_control() && letter != '\n', "?")
}

/// The same query at an earlier moment.
fn same<'a>(query: &Value, before: Option<&'a Value>) -> Option<&'a Value> {
    before?["queries"].as_array()?.iter().find(|other| other["name"] == query["name"])
}

fn row(query: &Value, before: Option<&Value>) -> [String; 11] {
    let number = |key: &str| query[key].as_f64();
    let or_nothing = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
    let count = |key: &str| or_nothing(number(key).map(quantity::short));
    let left_out = [&query["late"], &query["bad"]["count"], &query["refused"]["count"]];
    let left_out: Option<f64> = left_out.iter().map(|count| count.as_f64()).sum();
    let response = |key: &str| or_nothing(query["response"][key].as_f64().map(milliseconds));
    let lag = query["lag_cycles"].as_u64().zip(number("lag_ms"));
    let lag = lag.map(|(cycles, ms)| if cycles == 0 { "none".to_owned() } else { milliseconds(ms) });
    let within = number("within_bound").zip(number("bound_ms"));
    let within = within.map(|(share, bound)| {
        format!("{} % of {}", (share * 100_000.0).floor() / 1000.0, milliseconds(bound))
    });
    [
        query["name"].as_str().unwrap_or_default().to_owned(),
        query["state"].as_str().unwrap_or_default().to_owned(),
        count("rows_in"),
        or_nothing(rate(query, before).map(quantity::short)),
        count("rows_out"),
        or_nothing(left_out.map(quantity::short)),
        or_nothing(lag),
        response("p50_ms"),
        response("p99_ms"),
        response("max_ms"),
        or_nothing(within),
    ]
}

/// Rows per second.
fn rate(query: &Value, before: Option<&Value>) -> Option<f64> {
    let at = |query: &Value| Some((query["rows_in"].as_f64()?, query["elapsed_ms"].as_f64()?));
    let (rows, ms) = at(query)?;
    let (rows_before, ms_before) =
        before.and_then(at).filter(|(_, before)| *before <= ms).unwrap_or((0.0, 0.0));
    (ms > ms_before).then(|| (rows - rows_before).max(0.0) * 1e3 / (ms - ms_before))
}

fn milliseconds(ms: f64) -> String {
    quantity::time(Duration::from_secs_f64(ms.max(0.0) / 1e3))
}

/// What a table cannot say: why a query has failed, and where its time goes.
fn notes(query: &Value, text: &mut String) {
    let name = query["name"].as_str().unwrap_or_default();
    if let Some(problem) = query["problem"].as_str() {
        text.push_str(&format!("{name} has failed: {problem}\n"));
    }
    let waiting = query["waiting"].as_array().map(Vec::as_slice).unwrap_or_default();
    for waiting in waiting.iter().filter_map(Value::as_str) {
        text.push_str(&format!("{name}: {waiting}\n"));
    }
    if !waiting.is_empty() {
        // Whatever its parts do meanwhile, they are not what holds it up.
        return;
    }
    let dataflow = &query["dataflow"];
    let busiest = dataflow["busiest"].as_u64().and_then(|index| dataflow["parts"].get(index as usize));
    let busy = busiest.and_then(|part| Some((part["name"].as_str()?, part["busy_ms"].as_f64()?)));
    let parts = dataflow["parts"].as_array().map(Vec::as_slice).unwrap_or_default();
    let all: f64 = parts.iter().filter_map(|part| part["busy_ms"].as_f64()).sum();
    if let Some((part, ms)) = busy {
        text.push_str(&format!("{name}: busiest is '{part}', {} of the time\n", quantity::percent(ms, all)));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_query_has_a_line_and_its_rate_is_of_the_last_time() {
        let query = |rows: u64, ms: u64| {
            json!({ "queries": [{
                "name": "v", "state": "running", "rows_in": rows, "elapsed_ms": ms, "rows_out": 2, "late": 1,
                "bad": { "count": 1 }, "refused": { "count": 0 }, "lag_cycles": 0, "lag_ms": 0.0, "bound_ms": 20.0,
                "within_bound": 0.999_999, "response": { "p50_ms": 0.5, "p99_ms": 1.5, "max_ms": 2000.0 },
                "dataflow": { "busiest": 1, "parts": [
                    { "name": "s" }, { "name": "sum", "busy_ms": 3.0 }, { "name": "filter", "busy_ms": 1.0 }
                ] },
            }] })
        };
        let text = table(&query(3000, 2000), Some(&query(1000, 1000)));
        let words: Vec<&str> = text.lines().nth(1).unwrap().split("  ").map(str::trim).collect();
        let words: Vec<&str> = words.into_iter().filter(|word| !word.is_empty()).collect();
        assert_eq!(
            words,
            [
                "v",
                "running",
                "3.00 k",
                "2.00 k",
                "2",
                "2",
                "none",
                "500 us",
                "1.50 ms",
                "2.00 s",
                "99.999 % of 20.0 ms"
            ]
        );
        assert!(text.ends_with("v: busiest is 'sum', 75 % of the time\n"), "{text}");
        assert!(table(&query(3000, 2000), None).contains("1.50 k"));
    }

    #[test]
    fn a_query_whose_sink_waits_names_the_sink_and_no_part() {
        let waiting = "sink 'out' has been waiting for its target for 7 s: connection refused";
        let parts = json!({ "busiest": 0, "parts": [{ "name": "filter", "busy_ms": 3.0 }] });
        let query = json!({ "name": "out", "state": "running", "waiting": [waiting], "dataflow": parts });
        let text = table(&json!({ "queries": [query] }), None);
        assert!(text.ends_with(&format!("out: {waiting}\n")), "{text}");
    }

    #[test]
    fn a_query_that_never_ran_has_its_reason() {
        let status = json!({ "queries": [{ "name": "v", "state": "failed", "problem": "no file" }] });
        let text = table(&status, None);
        assert!(text.contains("v      failed"), "{text}");
        assert!(text.ends_with("v has failed: no file\n"), "{text}");
        assert!(table(&json!({ "queries": [], "starting": true }), None).contains("being started"));
    }
}
