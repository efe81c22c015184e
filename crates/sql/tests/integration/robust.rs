//! What must not bring a query down, and what must end it with a clear error.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use datafusion::arrow::array::{Array, AsArray, RecordBatch};
use datafusion::arrow::datatypes::Int64Type;
use tidemill_connect::memory::MemorySink;
use tidemill_engine::{Cause, CycleOutput, Fault, Sink};
use tidemill_sql::{Planner, Prepared, QueryStatus, Reply, parse};

/// The longest that anything here may take.
const PATIENCE: Duration = Duration::from_secs(60);

struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("tidemill-robust-{}-{name}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.0.join(name), text).unwrap();
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Executes a script; the reply to its last statement, or the first error as a user reads it.
fn execute(planner: &mut Planner, script: &str) -> Result<Reply, String> {
    let statements = parse(script, "test.sql").map_err(|error| error.to_string())?;
    let mut last = None;
    for statement in &statements {
        last = Some(planner.execute(statement).map_err(|error| error.to_string())?);
    }
    Ok(last.unwrap())
}

fn prepared(planner: &mut Planner, script: &str) -> Prepared {
    match execute(planner, script) {
        Ok(Reply::Query(prepared)) => *prepared,
        Ok(_) => panic!("no query: {script}"),
        Err(error) => panic!("{error}"),
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

fn answer(script: &str) -> Result<(QueryStatus, RecordBatch), Cause> {
    run(prepared(&mut Planner::new(), script))
}

fn integers(rows: &RecordBatch, column: usize) -> Vec<i64> {
    let mut values: Vec<i64> = rows.column(column).as_primitive::<Int64Type>().iter().flatten().collect();
    values.sort_unstable();
    values
}

#[test]
fn division_by_zero_and_overflow_cost_the_row_only() {
    let (status, rows) = answer("SELECT 100 / (value % 10) AS q FROM sequence(count => 100)").unwrap();
    assert_eq!((rows.num_rows(), status.faults.count), (90, 10));
    assert!(status.faults.samples[0].contains("value"), "{:?}", status.faults.samples);
    let (status, rows) =
        answer("SELECT (9223372036854775807 - 50) + value AS sum FROM sequence(count => 100)").unwrap();
    assert_eq!(rows.num_rows() as u64 + status.faults.count, 100);
    assert!(status.faults.count > 40 && status.faults.samples[0].to_lowercase().contains("overflow"));
}

#[test]
fn a_sum_that_overflows_is_an_error_and_no_wrong_number() {
    let script = "SELECT sum(value + 9223372036854775000) AS total FROM sequence(count => 100)";
    let cause = answer(script).expect_err("the sum does not fit");
    assert!(cause.fault == Fault::User, "{cause}");
    assert!(cause.to_string().contains("does not fit into Int64; cast"), "{cause}");
}

/// Also where DataFusion computes the answer: at the end of the input, over tables, with DISTINCT and in frames.
#[test]
fn a_sum_that_overflows_is_an_error_wherever_it_is_computed() {
    const LARGEST: i64 = i64::MAX;
    let numbers = |more: &str| {
        format!("(SELECT value FROM (VALUES (CAST({LARGEST} AS BIGINT)), (2), {more}) AS t (value))")
    };
    let large = LARGEST - 10;
    let at_end =
        format!("(SELECT value + {large} AS value FROM sequence(count => 10) ORDER BY value LIMIT 9)");
    let decimal = format!("CAST('9{}' AS DECIMAL(38, 0))", "0".repeat(37));
    let decimals = format!("(SELECT value FROM (VALUES ({decimal}), ({decimal})) AS t (value))");
    let failing = [
        format!("SELECT sum(value) FROM {}", numbers("(3)")),
        format!("SELECT sum(DISTINCT value) FROM {}", numbers(&format!("({LARGEST})"))),
        format!("SELECT sum(value) FROM {at_end} AS t"),
        format!("SELECT sum(value) FROM {decimals} AS t"),
        format!("SELECT value, sum(value) OVER (ORDER BY value) FROM {} AS t", numbers("(3)")),
    ];
    for script in &failing {
        let cause = static_answer(script).expect_err(script);
        assert!(cause.contains("sum: a result does not fit into"), "{script}: {cause}");
    }
    let fitting = [
        (format!("SELECT sum(value) FROM {}", numbers("(-2)")), LARGEST),
        (
            format!("SELECT sum(DISTINCT value) FROM {}", numbers(&format!("({LARGEST}), (-2), (-2)"))),
            LARGEST,
        ),
        (
            format!(
                "SELECT CAST(sum(CAST(value AS DECIMAL(38, 0))) - {LARGEST} AS BIGINT) FROM {}",
                numbers("(3)")
            ),
            5,
        ),
    ];
    for (script, expected) in &fitting {
        let rows = static_answer(script).unwrap_or_else(|cause| panic!("{script}: {cause}"));
        assert_eq!(integers(&rows, 0), [*expected], "{script}");
    }
}

/// A pipeline continues: its sums, of all kinds, are NULL and reported, and the rest of their rows is there.
#[test]
fn a_sum_that_overflows_is_null_in_a_pipeline() {
    let folder = Folder::new("null-sums");
    let largest = i64::MAX;
    folder.write("rows.csv", &format!("k,v\n1,{largest}\n2,5\n1,{}\n1,3\n2,6\n", largest - 1));
    let path = folder.0.display();
    let script = format!(
        "CREATE SOURCE rows (k BIGINT, v BIGINT) WITH (path = '{path}/rows.csv');
         CREATE SINK sums AS SELECT k, count(*) AS n, sum(v) AS s, sum(DISTINCT v) AS d, max(v) AS m
         FROM rows GROUP BY k WITH (path = '{path}/sums.csv')"
    );
    let mut planner = Planner::new();
    execute(&mut planner, &script).unwrap_or_else(|error| panic!("{error}"));
    let pipeline = planner.pipeline().unwrap().unwrap();
    let (status, _) = pipeline.open().unwrap().start().unwrap().wait().unwrap();
    let text = std::fs::read_to_string(folder.0.join("sums.csv")).unwrap();
    assert_eq!(text, format!("k,n,s,d,m\n1,3,,,{largest}\n2,2,11,11,6\n"));
    assert_eq!((status.null_results.count, status.faults.count), (2, 0));
    let told = &status.null_results.samples;
    assert!(
        told.iter().all(|text| text.contains(" is NULL for k: 1, cycle 0: sum: a result does not fit")),
        "{told:?}"
    );
}

/// Which sums are NULL depends on the rows alone, not on workers or cycles.
#[test]
fn sums_that_overflow_are_the_same_ones_with_any_number_of_workers() {
    let folder = Folder::new("same-null-sums");
    // Every third row of a key is near an end of the type, so sums overflow on the way or at the end, or not at all.
    let row = |n: i64| match n * 7919 % 3 {
        0 => (n % 7, i64::MAX - n, n / 10),
        1 if n % 5 == 0 => (n % 7, i64::MIN + n, n / 10),
        _ => (n % 7, n, n / 10),
    };
    let rows: Vec<(i64, i64, i64)> = (0..400).map(row).collect();
    let mut sums: BTreeMap<(i64, i64), i128> = BTreeMap::new();
    for (key, value, second) in &rows {
        *sums.entry((second / 2, *key)).or_default() += i128::from(*value);
    }
    let shown = |((_, key), sum): (&(i64, i64), &i128)| match i64::try_from(*sum) {
        Ok(sum) => format!("{key},{sum}"),
        Err(_) => format!("{key},"),
    };
    let mut expected: Vec<String> = sums.iter().map(shown).collect();
    expected.sort();
    let failed = expected.iter().filter(|line| line.ends_with(',')).count();
    assert!(failed > 10 && failed + 10 < expected.len(), "{failed} of {}", expected.len());
    let lines =
        rows.iter().map(|(key, value, second)| format!("{key},{value},2026-01-01T00:00:{second:02}\n"));
    folder.write("rows.csv", &format!("k,v,at\n{}", lines.collect::<String>()));
    let path = folder.0.display();
    for (workers, cycle_events) in [(1, 7), (2, 7), (5, 7), (1, 1000), (2, 100), (5, 1000)] {
        let script = format!(
            "SET workers = {workers}; SET cycle_events = {cycle_events}; SET cycle_fixed = true;
             CREATE SOURCE rows (k BIGINT, v BIGINT, at TIMESTAMP, WATERMARK FOR at AS at)
             WITH (path = '{path}/rows.csv');
             CREATE SINK sums AS SELECT k, sum(v) AS s FROM tumble(TABLE(rows), at, INTERVAL '2 seconds')
             GROUP BY k, window_end WITH (path = '{path}/sums.csv', overwrite = true)"
        );
        let mut planner = Planner::new();
        execute(&mut planner, &script).unwrap_or_else(|error| panic!("{error}"));
        let pipeline = planner.pipeline().unwrap().unwrap();
        let (status, _) = pipeline.open().unwrap().start().unwrap().wait().unwrap();
        let text = std::fs::read_to_string(folder.0.join("sums.csv")).unwrap();
        let mut lines: Vec<&str> = text.lines().skip(1).collect();
        lines.sort_unstable();
        assert_eq!(lines, expected, "{workers} workers, {cycle_events} events in a cycle");
        assert_eq!((status.null_results.count, status.faults.count), (failed as u64, 0));
    }
}

/// A pair for which the condition of a join cannot be computed is not a match.
#[test]
fn a_condition_that_fails_costs_its_pair_alone() {
    let folder = Folder::new("pairs");
    folder.write(
        "orders.csv",
        "at,k,a\n2026-01-01T00:00:01,1,10\n2026-01-01T00:00:02,2,20\n2026-01-01T00:00:03,3,30\n",
    );
    folder.write(
        "prices.csv",
        "at,k,b\n2026-01-01T00:00:01,1,5\n2026-01-01T00:00:02,2,0\n2026-01-01T00:00:03,3,1\n",
    );
    let path = folder.0.display();
    let source = |name: &str, column: &str| {
        format!(
            "CREATE SOURCE {name} (at TIMESTAMP, k BIGINT, {column} BIGINT, WATERMARK FOR at AS at)
             WITH (path = '{path}/{name}.csv', durable = true); "
        )
    };
    let near = "l.at BETWEEN r.at - INTERVAL '1 second' AND r.at + INTERVAL '1 second'";
    let script = source("orders", "a")
        + &source("prices", "b")
        + &format!(
            "SET journal = '{path}/journal';
             CREATE SINK pairs AS SELECT l.k AS k, l.a AS a, r.b AS b FROM orders AS l LEFT JOIN prices AS r
             ON l.k = r.k AND {near} AND l.a / r.b > 1 WITH (path = '{path}/pairs.csv')"
        );
    let mut planner = Planner::new();
    execute(&mut planner, &script).unwrap_or_else(|error| panic!("{error}"));
    let pipeline = planner.pipeline().unwrap().unwrap();
    let (status, _) = pipeline.open().unwrap().start().unwrap().wait().unwrap();
    let text = std::fs::read_to_string(folder.0.join("pairs.csv")).unwrap();
    let mut lines: Vec<&str> = text.lines().skip(1).collect();
    lines.sort_unstable();
    assert_eq!(lines, ["1,10,5", "2,20,", "3,30,1"]);
    assert_eq!(status.faults.count, 1);
    assert!(status.faults.samples[0].to_lowercase().contains("divide by zero"), "{:?}", status.faults);
}

/// The rows of a query, whether it is answered at once or runs.
fn static_answer(script: &str) -> Result<RecordBatch, String> {
    match execute(&mut Planner::new(), script)? {
        Reply::Rows(rows) => Ok(rows),
        Reply::Query(prepared) => run(*prepared).map(|(_, rows)| rows).map_err(|cause| cause.to_string()),
        _ => Err("it is no query".to_owned()),
    }
}

#[test]
fn too_many_groups_are_refused() {
    let script = "SET max_groups = 2000; SET workers = 2;
        SELECT value, count(*) AS events FROM sequence(count => 200000) GROUP BY value";
    let cause = answer(script).expect_err("200000 groups are more than 2000");
    assert!(cause.fault == Fault::Resource, "{cause}");
    assert!(cause.to_string().contains("groups"), "{cause}");
    let script = script.replace("2000;", "1000000;");
    assert_eq!(answer(&script).unwrap().1.num_rows(), 200_000);
}

#[test]
fn too_many_rows_of_state_are_refused() {
    let folder = Folder::new("state");
    let mut text = "at,k\n".to_string();
    for row in 0..50_000 {
        text.push_str(&format!("2026-01-01T00:00:00.{row:06},{}\n", row % 10));
    }
    folder.write("rows.csv", &text);
    let script = format!(
        "SET max_state_rows = 1000; SET workers = 2;
         CREATE SOURCE rows (at TIMESTAMP, k BIGINT, WATERMARK FOR at AS at - INTERVAL '1 hour')
         WITH (path = '{}/rows.csv');
         SELECT at, k FROM rows ORDER BY at",
        folder.0.display()
    );
    let cause = answer(&script).expect_err("50000 rows wait for the watermark, 1000 are allowed");
    assert!(cause.fault == Fault::Resource, "{cause}");
    assert!(cause.to_string().contains("1000"), "{cause}");
}

#[test]
fn a_result_that_is_too_large_is_refused() {
    let script = "SET max_result_rows = 100;
        SELECT value FROM sequence(count => 1000) ORDER BY value DESC";
    let cause = answer(script).expect_err("1000 rows are more than 100");
    assert!(cause.fault == Fault::Resource, "{cause}");
}

#[test]
fn a_query_without_end_can_be_stopped() {
    let mut planner = Planner::new();
    let query = prepared(&mut planner, "SELECT value FROM sequence() WHERE value < 10");
    let (sink, rows) = MemorySink::new(&query.outputs()[0].schema, 1000);
    let running = query.open(vec![Box::new(sink)]).unwrap().start().unwrap();
    let start = Instant::now();
    while rows.len() < 10 {
        assert!(start.elapsed() < PATIENCE, "no rows came");
        std::thread::sleep(Duration::from_millis(2));
    }
    running.stop();
    let (status, _) = running.wait().unwrap();
    assert!(status.rows_in() >= 10 && rows.is_finished());
}

#[test]
fn a_limit_ends_a_query_without_end() {
    let (_, rows) = answer("SELECT value FROM sequence() LIMIT 5").unwrap();
    assert_eq!(integers(&rows, 0), [0, 1, 2, 3, 4]);
}

struct Fails;

impl Sink for Fails {
    fn prepare(&mut self, _: CycleOutput) -> Result<(), Cause> {
        Err(Cause::operation("the disk is full"))
    }

    fn commit(&mut self, _: RangeInclusive<u64>) -> Result<(), Cause> {
        Ok(())
    }
}

#[test]
fn a_sink_that_fails_ends_the_query_with_its_reason() {
    let mut planner = Planner::new();
    let query = prepared(&mut planner, "SELECT value FROM sequence()");
    let cause =
        query.open(vec![Box::new(Fails)]).unwrap().start().unwrap().wait().expect_err("the sink fails");
    assert!(cause.fault == Fault::Operation && cause.message.contains("the disk is full"), "{cause}");
}

#[test]
fn files_whose_columns_change_say_so() {
    let folder = Folder::new("schemas");
    folder.write("a.csv", "a,b\n1,2\n");
    folder.write("b.csv", "b,a\n20,10\n");
    let script = format!("SELECT a, b FROM '{}/*.csv'", folder.0.display());
    match answer(&script) {
        // Columns are found by their names.
        Ok((_, rows)) => assert_eq!((integers(&rows, 0), integers(&rows, 1)), (vec![1, 10], vec![2, 20])),
        Err(cause) => assert!(cause.to_string().contains("b.csv"), "{cause}"),
    }
    folder.write("b.csv", "a,c\n10,20\n");
    match answer(&script) {
        Ok((status, rows)) => {
            assert!(status.faults.count > 0 || rows.column(1).null_count() == 1, "nothing was said");
        }
        Err(cause) => assert!(cause.to_string().contains("b.csv"), "{cause}"),
    }
}

#[test]
fn a_file_that_is_gone_is_an_error_with_its_name() {
    let folder = Folder::new("gone");
    folder.write("a.csv", "a\n1\n");
    let mut planner = Planner::new();
    let query = prepared(&mut planner, &format!("SELECT a FROM '{}/a.csv'", folder.0.display()));
    std::fs::remove_file(folder.0.join("a.csv")).unwrap();
    let cause = run(query).expect_err("the file is gone");
    assert!(cause.to_string().contains("a.csv"), "{cause}");
    let error = execute(&mut planner, "SELECT * FROM 'no/such.csv'").err().expect("there is no such file");
    assert!(error.contains("no/such.csv"), "{error}");
}

#[test]
fn a_thousand_views_one_on_the_other() {
    let mut planner = Planner::new();
    let mut script = "CREATE VIEW v0 AS SELECT value AS n FROM sequence(count => 10);\n".to_string();
    for view in 1..1000 {
        script.push_str(&format!(
            "CREATE VIEW v{view} AS SELECT value AS n FROM sequence(count => 10) WHERE value <> {view};\n"
        ));
    }
    execute(&mut planner, &script).map(|_| ()).unwrap();
    let query =
        prepared(&mut planner, "SELECT n FROM v0 UNION ALL SELECT n FROM v5 UNION ALL SELECT n FROM v999");
    assert_eq!(run(query).unwrap().1.num_rows(), 29);
    let mut chain = "CREATE VIEW c0 AS SELECT value AS n FROM sequence(count => 10);\n".to_string();
    for view in 1..30 {
        chain.push_str(&format!("CREATE VIEW c{view} AS SELECT n + 1 AS n FROM c{};\n", view - 1));
    }
    execute(&mut planner, &chain).map(|_| ()).unwrap();
    let query = prepared(&mut planner, "SELECT n FROM c29");
    assert_eq!(integers(&run(query).unwrap().1, 0), (29..39).collect::<Vec<i64>>());
}

#[test]
fn names_are_taken_as_they_are_written() {
    let mut planner = Planner::new();
    for name in ["a b", "Ünïcödé", "select", "a\"\"b", "a;b", "--", "a.b", "x'y", "日本"] {
        let script = format!(
            "CREATE VIEW \"{name}\" AS SELECT value AS \"{name}\" FROM sequence(count => 3);
             SELECT \"{name}\" FROM \"{name}\""
        );
        let rows = run(prepared(&mut planner, &script)).unwrap().1;
        assert_eq!(integers(&rows, 0), [0, 1, 2], "{name}");
        assert_eq!(rows.schema().field(0).name(), &name.replace("\"\"", "\""));
    }
}

#[test]
fn views_that_are_replaced_and_dropped() {
    let mut planner = Planner::new();
    execute(&mut planner, "CREATE VIEW v AS SELECT value FROM sequence(count => 3)").map(|_| ()).unwrap();
    let before = prepared(&mut planner, "SELECT value FROM v");
    execute(&mut planner, "CREATE OR REPLACE VIEW v AS SELECT value FROM sequence(count => 5)")
        .map(|_| ())
        .unwrap();
    let after = prepared(&mut planner, "SELECT value FROM v");
    execute(&mut planner, "DROP VIEW v").map(|_| ()).unwrap();
    assert_eq!(run(before).unwrap().1.num_rows(), 3, "a query that was prepared keeps what it was");
    assert_eq!(run(after).unwrap().1.num_rows(), 5);
    assert!(execute(&mut planner, "SELECT value FROM v").err().unwrap().contains("`v`"));
    let taken = execute(&mut planner, "CREATE VIEW w AS SELECT 1 AS a FROM w");
    assert!(taken.is_err(), "a view of itself");
}
