//! The queries of `tests/golden`, as far as DuckDB understands them.
//!
//! DuckDB gets the rows that we read from each source, so what is compared is what is made of them. A source with late
//! rows occurs twice: as it is, and without them, for windows; a query must agree over one of both.

use std::path::{Path, PathBuf};

use tidemill_sql::{Planner, Reply, Statement, StatementKind, parse_all};

use super::arrow_rows::rows;
use super::case::Case;
use super::differences::GOLDEN;
use super::tidemill::{Answer, of_query};
use super::window_calls;
use tidemill_testing::duckdb::DuckDb;
use tidemill_testing::duckdb::difference;
use tidemill_testing::duckdb::{Row, Value};

/// Queries that are compared now. Fewer mean that the comparison has lost its sight.
const COMPARED_MIN: usize = 120;

/// What DuckDB calls otherwise.
const WORDS: &str = "
    CREATE OR REPLACE MACRO date_bin(size, t) AS time_bucket(size, t, TIMESTAMP '1970-01-01');
    CREATE OR REPLACE MACRO tumble(t, size) AS time_bucket(size, t, TIMESTAMP '1970-01-01');
    CREATE OR REPLACE MACRO signum(x) AS sign(x);
    CREATE OR REPLACE MACRO nvl(x, y) AS coalesce(x, y);
    CREATE OR REPLACE MACRO btrim(x) AS trim(x);
    CREATE OR REPLACE MACRO character_length(x) AS length(x);
    CREATE OR REPLACE MACRO var(x) AS var_samp(x);
    CREATE OR REPLACE MACRO to_timestamp_seconds(x) AS make_timestamp(x * 1000000);
    CREATE OR REPLACE MACRO to_timestamp_millis(x) AS make_timestamp(x * 1000);";

/// Compares all of them.
pub fn check() {
    let Some(mut duckdb) = DuckDb::start() else { return };
    let folder = Path::new(&std::env::var("CARGO_MANIFEST_DIR").unwrap()).join("../../tests/golden");
    let mut paths: Vec<PathBuf> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    let mut comparison = Comparison::default();
    for path in paths.iter().filter(|path| path.extension().is_some_and(|ending| ending == "txt")) {
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        let case = Case::read(&name, &std::fs::read_to_string(path).unwrap());
        assert!(!case.about.is_empty(), "{} does not say what it is about", case.name);
        let folder = case.write_inputs();
        let directory = folder.path.display().to_string();
        for script in &case.scripts {
            check_script(&name, &script.replace("$DIR", &directory), &mut duckdb, &mut comparison);
        }
    }
    println!(
        "golden cases: {} queries agree, DuckDB does not understand {}",
        comparison.agree, comparison.unanswered
    );
    let gone = GOLDEN.iter().enumerate().filter(|(at, _)| !comparison.known.contains(at));
    for (_, (case, query, _)) in gone {
        comparison
            .wrong
            .push(format!("{case}: '{query}' does not differ any more: take it out of differences.rs"));
    }
    assert!(comparison.wrong.is_empty(), "{}", comparison.wrong.join("\n\n"));
    assert!(comparison.agree >= COMPARED_MIN, "only {} queries can be compared", comparison.agree);
}

#[derive(Default)]
struct Comparison {
    agree: usize,
    unanswered: usize,
    /// The differences that were met, of [`GOLDEN`].
    known: Vec<usize>,
    wrong: Vec<String>,
}

fn check_script(name: &str, script: &str, duckdb: &mut DuckDb, comparison: &mut Comparison) {
    duckdb.run("DROP SCHEMA IF EXISTS golden CASCADE; CREATE SCHEMA golden; USE golden");
    duckdb.run(WORDS);
    let (statements, _) = parse_all(script, &format!("{name}.sql"));
    let mut planner = Planner::new();
    planner.settings_mut().workers = 1;
    for statement in &statements {
        let Ok(reply) = planner.execute(statement) else { continue };
        match (&statement.kind, reply) {
            (StatementKind::CreateSource(source) | StatementKind::CreateTable(source), _) => {
                let delay = source.watermark.as_ref();
                let delay = delay.map(|watermark| (watermark.column.as_str(), watermark.delay_ns));
                load(source.name.as_str(), delay, &mut planner, duckdb);
            }
            (StatementKind::CreateView(view), _) => {
                let [text, _] = window_calls::translated(&view.query.to_string());
                let create =
                    if view.if_not_exists { "CREATE VIEW IF NOT EXISTS" } else { "CREATE OR REPLACE VIEW" };
                let _ = duckdb.answer(&format!("{create} {} AS {text}", view.name.as_str()));
            }
            (StatementKind::Query(..), Reply::Rows(batch)) => {
                compare(name, statement, Answer::Rows(rows(&batch)), duckdb, comparison);
            }
            (StatementKind::Query(..), Reply::Query(prepared)) if prepared.is_finite() => {
                let is_table = prepared.outputs().first().is_some_and(|output| output.table_key.is_some());
                if !is_table {
                    compare(name, statement, of_query(*prepared), duckdb, comparison);
                }
            }
            _ => {}
        }
    }
}

fn compare(
    name: &str,
    statement: &Statement,
    ours: Answer,
    duckdb: &mut DuckDb,
    comparison: &mut Comparison,
) {
    let Answer::Rows(ours) = ours else { return };
    let ordered = matches!(&statement.kind, StatementKind::Query(query, _) if query.order_by.is_some());
    let mut differences = Vec::new();
    for text in window_calls::translated(&statement.text) {
        let Ok(theirs) = duckdb.answer(&text) else { continue };
        match difference(&ours, &theirs, ordered) {
            None => {
                comparison.agree += 1;
                return;
            }
            Some(difference) => differences.push((text, difference)),
        }
    }
    let Some((text, difference)) = differences.into_iter().next() else {
        comparison.unanswered += 1;
        return;
    };
    let is_known = |(case, part, _): &(&str, &str, &str)| *case == name && statement.text.contains(part);
    match GOLDEN.iter().position(is_known) {
        Some(at) => comparison.known.push(at),
        None => {
            comparison.wrong.push(format!("{name}: {}\nfor DuckDB: {text}\n{difference}", statement.text))
        }
    }
}

/// Puts a source's rows into DuckDB, and those that are not late.
fn load(name: &str, watermark: Option<(&str, i64)>, planner: &mut Planner, duckdb: &mut DuckDb) {
    let (statements, _) = parse_all(&format!("SELECT * FROM {name}"), "load.sql");
    let Some(Ok(reply)) = statements.first().map(|statement| planner.execute(statement)) else { return };
    let (columns, all) = match reply {
        Reply::Rows(batch) => {
            let names = batch.schema().fields().iter().map(|field| field.name().clone()).collect();
            (names, rows(&batch))
        }
        Reply::Query(prepared) if prepared.is_finite() && !prepared.is_answered_at_end() => {
            let fields = prepared.outputs()[0].schema.fields().clone();
            let names: Vec<String> = fields.iter().map(|field| field.name().clone()).collect();
            // What cannot be read is left out on our side, too.
            let kept = super::tidemill::rows_of(*prepared);
            (names, kept)
        }
        _ => return,
    };
    create(name, &columns, &all, duckdb);
    let in_time = match watermark {
        Some((column, delay_ns)) => {
            let column = columns.iter().position(|name| name == column);
            column.map_or(all.clone(), |column| in_time(&all, column, delay_ns))
        }
        None => all,
    };
    create(&format!("{name}{}", window_calls::IN_TIME), &columns, &in_time, duckdb);
}

/// Rows that are not behind the largest time so far, less the delay.
fn in_time(rows: &[Row], column: usize, delay_ns: i64) -> Vec<Row> {
    let mut latest = i128::MIN;
    let mut is_in_time = |row: &&Row| match row[column] {
        Value::Timestamp(time) => {
            let late = time < latest.saturating_sub(delay_ns.into());
            latest = latest.max(time);
            !late
        }
        _ => false,
    };
    rows.iter().filter(&mut is_in_time).cloned().collect()
}

fn create(name: &str, columns: &[String], rows: &[Row], duckdb: &mut DuckDb) {
    let columns: Vec<String> = columns.iter().map(|column| format!("\"{column}\"")).collect();
    let values = |row: &Row| format!("({})", row.iter().map(literal).collect::<Vec<_>>().join(", "));
    let text = match rows {
        // Its columns have no types; queries over it mostly have no rows either.
        [] => return,
        rows => rows.iter().map(values).collect::<Vec<_>>().join(", "),
    };
    let table = format!(
        "CREATE OR REPLACE TABLE \"{name}\" AS SELECT * FROM (VALUES {text}) AS t({})",
        columns.join(", ")
    );
    // Values that DuckDB has no literal for leave the table out, and its queries unanswered.
    let _ = duckdb.answer(&table);
}

fn literal(value: &Value) -> String {
    match value {
        Value::Null => "NULL".into(),
        Value::Bool(value) => value.to_string(),
        Value::Int(value) => format!("CAST({value} AS BIGINT)"),
        Value::Decimal(value, scale) => {
            format!("CAST({value} AS DECIMAL(38, {scale})) / CAST('1e{scale}' AS DOUBLE)")
        }
        Value::Float(value) => format!("CAST('{value:?}' AS DOUBLE)"),
        Value::Text(value) => format!("'{}'", value.replace('\'', "''")),
        Value::Timestamp(ns) if ns % 1000 == 0 => format!("make_timestamp({})", ns / 1000),
        Value::Timestamp(ns) => format!("make_timestamp_ns({ns})"),
        Value::Date(days) => format!("CAST(DATE '1970-01-01' + {days} AS DATE)"),
        Value::Time(ns) => format!("TIME '00:00:00' + INTERVAL ({}) MICROSECONDS", ns / 1000),
        Value::Length(_) | Value::Other(_) => "no literal".into(),
    }
}
