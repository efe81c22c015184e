//! Expressions of times have the values that PostgreSQL gives, which `postgres_times.txt` records. With `TIDEMILL_POSTGRES`, the
//! connection of `psql`, PostgreSQL is asked again and must still say the same:
//! `TIDEMILL_POSTGRES='host=127.0.0.1 user=postgres' cargo test -p tidemill-sql --test integration postgres_times`.

use std::process::Command;

use datafusion::arrow::util::display::array_value_to_string;
use tidemill_sql::{Planner, Reply, parse};

/// What the record has where PostgreSQL refuses the expression.
const REFUSED: &str = "ERROR";

fn recorded() -> Vec<(String, String)> {
    let folder = std::env::var("CARGO_MANIFEST_DIR").unwrap();
    let text = std::fs::read_to_string(format!("{folder}/tests/integration/postgres_times.txt")).unwrap();
    let lines =
        text.lines().filter(|line| !line.starts_with('#')).filter_map(|line| line.rsplit_once(" => "));
    lines.map(|(expression, value)| (expression.to_owned(), value.to_owned())).collect()
}

/// The value that the language gives, as PostgreSQL would write it.
fn ours(query: &str) -> Result<String, String> {
    let mut planner = Planner::new();
    let statement = &parse(query, "test").map_err(|error| error.to_string())?[0];
    match planner.execute(statement).map_err(|error| error.to_string())? {
        Reply::Rows(rows) => Ok(array_value_to_string(rows.column(0), 0)
            .unwrap()
            .replacen('T', " ", 1)
            .replace("True", "true")),
        _ => panic!("this query has its rows at once: {query}"),
    }
}

fn is_same(one: &str, other: &str) -> bool {
    match (one.parse::<f64>(), other.parse::<f64>()) {
        (Ok(one), Ok(other)) => one == other,
        _ => one == other,
    }
}

#[test]
fn expressions_of_times_have_the_values_of_postgresql() {
    let recorded = recorded();
    assert!(recorded.len() > 150, "the record is not complete");
    let mut wrong = Vec::new();
    for (expression, expected) in &recorded {
        let found = ours(&format!("SELECT {expression} AS x"));
        let is_right = match &found {
            Ok(found) => expected != REFUSED && is_same(found, expected),
            Err(_) => expected == REFUSED,
        };
        if !is_right {
            wrong.push(format!("{expression}: {expected} in PostgreSQL, here {found:?}"));
        }
    }
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), recorded.len(), wrong.join("\n"));
}

/// A constant that is wrong is found when a query over a stream is planned, too, and not for each row.
#[test]
fn what_fails_for_every_row_is_refused_when_it_is_planned() {
    let source = "CREATE SOURCE s (at TIMESTAMP, k VARCHAR, n BIGINT) \
                  WITH (connector = 'http', listen = '127.0.0.1:0', format = 'ndjson');";
    for (expression, reason) in [
        ("date_trunc('foo', at)", "date_trunc has no unit 'foo'"),
        ("extract(foo FROM at)", "extract has no part 'foo'"),
        ("date_trunc(k, at)", "constant"),
        ("date_bin(INTERVAL '0 seconds', at)", "more than 0"),
        ("at AT TIME ZONE 'Nowhere/X'", "no time zone 'Nowhere/X'"),
        ("at AT TIME ZONE 'Europe/Berln'", "no time zone 'Europe/Berln'"),
        ("k ~ '('", "is not a regular expression"),
        ("regexp_replace(k, '[', 'x')", "is not a regular expression"),
        ("n / 0", "zero"),
        ("n % 0", "zero"),
        ("n + 10 / 0", "zero"),
        ("split_part(k, ',', 0)", "zero"),
        ("CAST(n AS TIMESTAMP)", "to_timestamp_seconds(n)"),
        ("CAST(at AS BIGINT)", "extract(epoch FROM time)"),
    ] {
        for query in [
            format!("SELECT {expression} AS x FROM s"),
            format!("SELECT n FROM s WHERE ({expression}) IS NULL"),
        ] {
            let mut planner = Planner::new();
            let script = format!("{source} CREATE MATERIALIZED VIEW v AS {query}");
            let results: Vec<_> =
                parse(&script, "test").unwrap().iter().map(|one| planner.execute(one).map(drop)).collect();
            let error = results.into_iter().find_map(Result::err);
            let error = error.unwrap_or_else(|| panic!("this was accepted: {query}"));
            assert!(error.to_string().contains(reason), "{query}\n{error}");
        }
    }
    // What may be there for rows that do not come, or fails for some rows only, is not refused.
    for expression in [
        "CASE WHEN n = 0 THEN NULL ELSE n / 0 END",
        "10 / n",
        "k ~ 'a+'",
        "date_bin(INTERVAL '1 month', at)",
        "n / 2",
    ] {
        let mut planner = Planner::new();
        let script = format!("{source} CREATE MATERIALIZED VIEW v AS SELECT {expression} AS x FROM s");
        for statement in &parse(&script, "test").unwrap() {
            planner.execute(statement).unwrap_or_else(|error| panic!("{expression}\n{error}"));
        }
    }
}

#[test]
fn postgresql_still_says_what_is_recorded() {
    let Ok(connection) = std::env::var("TIDEMILL_POSTGRES") else {
        eprintln!("skipped: TIDEMILL_POSTGRES names no server");
        return;
    };
    for (expression, expected) in recorded() {
        let query = format!("SELECT ({expression})::text");
        let answer = Command::new("psql")
            .args([connection.as_str(), "-qAt", "-c", "SET timezone = 'UTC'", "-c", query.as_str()])
            .output()
            .expect("psql is installed");
        let found = if answer.status.success() {
            String::from_utf8(answer.stdout).unwrap()
        } else {
            REFUSED.to_owned()
        };
        assert_eq!(found.trim_end(), expected, "{expression}");
    }
}
