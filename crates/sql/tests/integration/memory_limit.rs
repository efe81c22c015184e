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
fn a_table_in_which_rows_are_looked_up_is_counted_as_long_as_it_is_there() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("names.csv");
    let lines = (0..20_000_u64).map(|number| format!("{number},{number:0100}\n"));
    std::fs::write(&path, format!("number,name\n{}", lines.collect::<String>())).unwrap();
    let script = format!(
        "CREATE TABLE names (number BIGINT, name VARCHAR) WITH (path = '{}');
        SELECT value, name FROM sequence(10) JOIN names ON value = number",
        path.display()
    );
    let memory = MemoryBudget::new(64 << 20);
    let mut planner = planner(&memory);
    let query = prepared(&mut planner, &script).unwrap();
    // 20,000 rows of 108 bytes.
    assert!((2_160_000..8_000_000).contains(&memory.held()), "{}", memory.held());
    assert_eq!(run(query).unwrap().1.num_rows(), 10);
    drop(planner);
    assert_eq!(memory.held(), 0);
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

/// While both run, either may be the one that asks for the last bytes.
#[test]
fn what_a_refused_query_held_is_there_for_others() {
    let memory = MemoryBudget::new(LIMIT);
    let (mut one, mut two) = (planner(&memory), planner(&memory));
    let small = keyed("SELECT value % 10 AS k, count(*) AS n FROM wide GROUP BY 1");
    let small = prepared(&mut one, &small).unwrap();
    let large = prepared(&mut two, &keyed("SELECT text, count(*) AS n FROM wide GROUP BY text")).unwrap();
    assert_eq!(run(large).unwrap_err().fault, Fault::Resource);
    assert_eq!(run(small).unwrap().1.num_rows(), 10);
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
        // What an array holds counts, also if it is empty, or NULL, or within another one.
        "array_repeat(range(1, 1000000), 10000000)",
        "array_repeat('', 1000000000000)",
        "array_repeat(NULL, 1000000000000)",
        "array_repeat([[1, 2, 3], [4]], 5000000)",
        "array_repeat(named_struct('a', range(1, 100000)), 1000)",
        "array_resize([1], 10000001)",
        "array_resize([[1]], 100000, range(1, 100000))",
        "array_resize(['a'], 100000, repeat('x', 100000))",
        "array_replace_all(array_repeat([1, 2], 100000), [1, 2], array_repeat(7, 1000))",
        "array_replace_all(array_repeat('a', 100000), 'a', repeat('x', 100000))",
        "array_replace_n(array_repeat('a', 100000), 'a', repeat('x', 100000), 5000)",
        "array_to_string(range(1, 100000), repeat(',', 100000))",
        "array_to_string(array_repeat(NULL, 100000), ',', repeat('x', 100000))",
        "array_to_string(range(1, 900000), ',')",
        "concat(repeat('x', 9000000), repeat('y', 9000000))",
        "concat_ws(repeat('-', 6000000), 'a', 'b', 'c')",
        "repeat('x', 6000000) || repeat('y', 6000000)",
        "array_concat(array_repeat(repeat('x', 60000), 100), array_repeat(repeat('x', 60000), 100))",
        "array_repeat(repeat('x', 60000), 100) || array_repeat(repeat('x', 60000), 100)",
        "array_append(array_repeat(repeat('x', 60000), 150), repeat('x', 2000000))",
        "array_prepend(repeat('x', 2000000), array_repeat(repeat('x', 60000), 150))",
        "[repeat('x', 6000000), repeat('x', 6000000)]",
        "array_union(array_repeat(repeat('x', 60000), 100), array_repeat(repeat('x', 60000), 100))",
        "arrays_zip(array_repeat(repeat('x', 60000), 150), [repeat('x', 2000000)])",
        "overlay(repeat('x', 9000000) placing repeat('y', 9000000) from 2 for 1)",
        "encode(encode(repeat('x', 4000000), 'hex'), 'hex')",
        "translate(repeat('x', 6000000), 'x', '😀')",
        "replace(repeat('x', 6000000), '', 'y')",
        "map(['a', 'b'], [repeat('x', 6000000), repeat('y', 6000000)])",
        "generate_series(DATE '0001-01-01', DATE '9999-01-01', INTERVAL '1 second')",
    ] {
        let statements = parse(&format!("SELECT {call} AS made"), "test.sql").unwrap();
        let Err(error) = planner.execute(&statements[0]) else { panic!("{call} was computed") };
        assert!(error.to_string().contains("but at most 10000000 are allowed"), "{call}: {error}");
    }
}

#[test]
fn what_is_doubled_step_by_step_ends_at_the_limit() {
    let doubled = |step: &str| {
        let first =
            "WITH q0 AS (SELECT value, repeat('x', 1 + CAST(value % 2 AS INT)) AS t FROM sequence(3))";
        let steps = (1..=40).map(|n| format!("q{n} AS (SELECT value, {step} AS t FROM q{})", n - 1));
        let steps = std::iter::once(first.to_owned()).chain(steps).collect::<Vec<_>>().join(", ");
        format!("{steps} SELECT length(t) AS length FROM q40")
    };
    for step in ["t || t", "concat(t, t)", "encode(t, 'hex')"] {
        let mut planner = planner(&MemoryBudget::new(1 << 30));
        let answer = prepared(&mut planner, &doubled(step)).map(|query| run(query).unwrap().1.num_rows());
        // No row can be computed: each is left out, or the query is refused when it is planned.
        assert!(matches!(answer, Ok(0) | Err(_)), "{step}: {answer:?}");
    }
}

#[test]
fn a_large_constant_is_not_copied_for_all_rows_at_once() {
    let query =
        |expression: &str| format!("SELECT sum(CAST({expression} AS BIGINT)) AS total FROM sequence(400)");
    for (expression, total) in [
        // Copied for each of 400 rows, the constant would take 640 MB.
        ("array_position(range(0, 200000), 199999)", 400_i64 * 200_000),
        ("array_position(range(0, 200000), value)", (1..=400_i64).sum::<i64>()),
        ("length(concat(repeat('x', 200000), CAST(value % 2 AS VARCHAR)))", 400 * 200_001),
        ("length(repeat('x', 200000) || CAST(value % 2 AS VARCHAR))", 400 * 200_001),
        ("array_length(CASE WHEN value % 2 = 0 THEN range(0, 200000) ELSE [1] END)", 200 * 200_001),
    ] {
        let mut planner = planner(&MemoryBudget::new(1 << 30));
        let (_, rows) = run(prepared(&mut planner, &query(expression)).unwrap()).unwrap();
        assert_eq!(rows.column(0).as_primitive::<Int64Type>().value(0), total, "{expression}");
    }
    refused("SELECT value, range(0, 200000) AS constant FROM wide", &[]);
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
