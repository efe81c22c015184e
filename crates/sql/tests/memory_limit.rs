//! A query that needs more memory than it may have ends with the name of what needs it; others continue.

use tidemill_connect::memory::MemorySink;
use tidemill_engine::arrow::array::RecordBatch;
use tidemill_engine::arrow::array::cast::AsArray;
use tidemill_engine::arrow::array::types::Int64Type;
use tidemill_engine::{Cause, Fault, MemoryBudget, Sink};
use tidemill_sql::{Planner, Prepared, QueryStatus, Reply, parse};

const LIMIT: u64 = 4 << 20;

fn planner(memory: &MemoryBudget) -> Planner {
    let mut planner = Planner::new();
    let settings = planner.settings_mut();
    (settings.workers, settings.partitions, settings.memory) = (2, 4, memory.clone());
    // Small cycles: otherwise all is in one, and its output is too large before its state is.
    (settings.cycle_events, settings.cycle_fixed) = (500, true);
    planner
}

fn prepared(planner: &mut Planner, script: &str) -> Result<Prepared, String> {
    let mut last = None;
    for statement in parse(script, "test.sql").map_err(|error| error.to_string())? {
        last = Some(planner.execute(&statement).map_err(|error| error.to_string())?);
    }
    match last {
        Some(Reply::Query(prepared)) => Ok(*prepared),
        _ => panic!("no query: {script}"),
    }
}

fn run(prepared: Prepared) -> Result<(QueryStatus, RecordBatch), Cause> {
    let (mut sinks, mut kept): (Vec<Box<dyn Sink>>, Vec<_>) = (Vec::new(), Vec::new());
    for output in prepared.outputs() {
        let (sink, rows) = MemorySink::new(&output.schema, 10_000_000);
        sinks.push(Box::new(sink));
        kept.push(rows);
    }
    let (status, answer) = prepared.open(sinks)?.start()?.wait()?;
    let rows = answer.map_or_else(|| kept[0].read(), Ok)?;
    Ok((status, rows))
}

/// Texts of 1000 bytes, of which this many differ: 20 MB in 20,000 rows.
fn keyed(query: &str) -> String {
    format!(
        "CREATE VIEW wide AS SELECT value, lpad(CAST(value AS VARCHAR), 1000) AS text FROM sequence(20000);\n{query}"
    )
}

/// The reason why a query ends, in a process that may hold 4 MB.
#[track_caller]
fn refused(query: &str, parts: &[&str]) -> Cause {
    let memory = MemoryBudget::new(LIMIT);
    let mut planner = planner(&memory);
    let cause = match prepared(&mut planner, &keyed(query)).map(run) {
        Err(message) => Cause::resource(message),
        Ok(Err(cause)) => cause,
        Ok(Ok((_, rows))) => panic!("{query} gave {} rows", rows.num_rows()),
    };
    assert_eq!(cause.fault, Fault::Resource, "{cause}");
    for part in parts.iter().chain(&["--memory", "4.0 MB"]) {
        assert!(cause.message.contains(part), "{query}: {part} is not in: {cause}");
    }
    drop(planner);
    assert_eq!(memory.held(), 0, "{query}");
    cause
}

#[test]
fn what_passes_the_limit_is_named() {
    refused("SELECT count(DISTINCT text) AS n FROM wide", &["its state takes"]);
    // Rows that come out are kept, too. Which of both is larger when the limit is reached depends on timing.
    for (query, operator) in [
        ("SELECT text, count(*) AS n FROM wide GROUP BY text", "aggregate"),
        ("SELECT DISTINCT text FROM wide", "aggregate"),
        ("SELECT value % 3 AS k, array_agg(text) AS all FROM wide GROUP BY 1", "array_agg"),
        ("SELECT value % 3 AS k, string_agg(text, ',') AS all FROM wide GROUP BY 1", "string_agg"),
    ] {
        let message = refused(query, &[]).message;
        assert!(
            [operator, "the table in memory takes"].iter().any(|holder| message.contains(holder)),
            "{message}"
        );
    }
}

#[test]
fn what_is_computed_at_the_end_is_named() {
    refused("SELECT text FROM wide ORDER BY text", &["the result in memory would take"]);
    refused("SELECT a.text, b.value FROM wide a, wide b", &["would take"]);
}

#[test]
fn rows_that_become_long_or_many_are_counted_before_they_are_all_there() {
    refused("SELECT repeat(text, 100) AS long FROM wide", &["what is computed for one batch of rows"]);
}

#[test]
fn a_limit_of_the_query_is_named_instead() {
    let memory = MemoryBudget::unlimited();
    let mut planner = planner(&memory);
    let script = keyed("SET memory_limit = '4 MB'; SELECT text, count(*) AS n FROM wide GROUP BY text");
    let cause = run(prepared(&mut planner, &script).unwrap()).unwrap_err();
    // What is at the limit first, the state or the rows written in a cycle, depends on how long the cycles are.
    assert!(cause.message.contains("4.0 MB") && cause.message.contains("memory_limit"), "{cause}");
}

#[test]
fn another_query_of_the_process_goes_on() {
    let memory = MemoryBudget::new(LIMIT);
    let (mut one, mut two) = (planner(&memory), planner(&memory));
    let small = keyed("SELECT value % 10 AS k, count(*) AS n FROM wide GROUP BY 1");
    let small = prepared(&mut one, &small).unwrap();
    let runs = std::thread::spawn(move || run(small));
    let large = prepared(&mut two, &keyed("SELECT text, count(*) AS n FROM wide GROUP BY text")).unwrap();
    assert_eq!(run(large).unwrap_err().fault, Fault::Resource);
    assert_eq!(runs.join().unwrap().unwrap().1.num_rows(), 10);
}

#[test]
fn the_status_says_how_much_each_operator_holds() {
    let mut planner = planner(&MemoryBudget::unlimited());
    let query = keyed("SELECT text, count(*) AS n FROM wide GROUP BY text");
    let (status, rows) = run(prepared(&mut planner, &query).unwrap()).unwrap();
    assert_eq!(rows.num_rows(), 20_000);
    let held: u64 = status.engine.work.iter().map(|work| work.state_bytes).sum();
    // 20,000 keys of 1000 bytes, in tables that have room for twice as many.
    assert!((20_000_000..80_000_000).contains(&held), "{held}");
}

#[test]
fn a_call_that_would_make_very_much_is_refused_before_it_runs() {
    let mut planner = Planner::new();
    for call in [
        "repeat('x', 1900000000)",
        "lpad('x', 1900000000)",
        "array_repeat(repeat('x', 90000), 9000)",
        "range(1, 10000000000)",
        "replace(repeat('x', 100000), 'x', repeat('y', 100000))",
        "regexp_replace(repeat('x', 100000), 'x', repeat('y', 100000), 'g')",
    ] {
        let statements = parse(&format!("SELECT {call} AS made"), "test.sql").unwrap();
        let Err(error) = planner.execute(&statements[0]) else { panic!("{call} was computed") };
        assert!(error.to_string().contains("but at most 10000000 are allowed"), "{error}");
    }
}

#[test]
fn a_sort_counts_the_rows_of_a_table_once() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("readings.csv");
    let lines = (0..200_000_u64).map(|number| format!("{number},{}\n", number * 7919 % 200_000));
    std::fs::write(&path, format!("number,value\n{}", lines.collect::<String>())).unwrap();
    let script = format!(
        "CREATE TABLE readings (number BIGINT, value BIGINT) WITH (path = '{}');
        SELECT count(*) AS same FROM (
            SELECT value, row_number() OVER (ORDER BY value) - 1 AS place FROM readings) WHERE value = place",
        path.display()
    );
    // The table has 3 MB, in 25 slices for the sort.
    let mut planner = planner(&MemoryBudget::new(40 << 20));
    let mut replies =
        parse(&script, "test.sql").unwrap().into_iter().map(|statement| planner.execute(&statement));
    assert!(matches!(replies.next(), Some(Ok(Reply::Done(_)))));
    let Some(Ok(Reply::Rows(rows))) = replies.next() else { panic!("no rows") };
    assert_eq!(rows.column(0).as_primitive::<Int64Type>().value(0), 200_000);
}
