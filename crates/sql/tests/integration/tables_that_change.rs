//! Tables that change while a pipeline runs: joins with an aggregate of the same rows, aggregates of nothing, and views
//! with a primary key. What is expected was worked out by hand.

use std::collections::BTreeMap;
use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray, TimestampNanosecondArray};
use datafusion::arrow::util::display::{ArrayFormatter, FormatOptions};
use tidemill_connect::memory::{MemoryRows, MemorySink};
use tidemill_engine::{Cause, EventTime, Sink, Source};
use tidemill_sql::{Generator, Planner, Reply, SourceDefinition, parse};

use crate::memory_source::Batches;

/// Workers and events in a cycle.
const RUNS: [(usize, u32); 5] = [(1, 100), (2, 1), (5, 1), (1, 3), (5, 3)];

/// Keys with values, a second apart.
const ROWS: [(&str, i64); 7] = [("a", 1), ("b", 10), ("a", 2), ("c", 100), ("a", 4), ("b", 20), ("a", 8)];

#[derive(Clone, Copy)]
struct Given {
    has_watermark: bool,
    is_finite: bool,
}

const GIVEN: [Given; 2] =
    [Given { has_watermark: true, is_finite: true }, Given { has_watermark: false, is_finite: true }];

fn rows() -> RecordBatch {
    let keys: ArrayRef = Arc::new(StringArray::from_iter_values(ROWS.iter().map(|row| row.0)));
    let values: ArrayRef = Arc::new(Int64Array::from_iter_values(ROWS.iter().map(|row| row.1)));
    let seconds = (0..ROWS.len() as i64).map(|second| second * 1_000_000_000);
    let times: ArrayRef = Arc::new(TimestampNanosecondArray::from_iter_values(seconds));
    RecordBatch::try_from_iter([("k", keys), ("v", values), ("at", times)]).unwrap()
}

/// A planner with the view `t` of these rows.
fn planner(given: Given, workers: usize, events: u32) -> Planner {
    let mut planner = Planner::new();
    let settings = planner.settings_mut();
    (settings.workers, settings.cycle_events, settings.cycle_fixed) = (workers, events, true);
    let open = |columns: Option<&[usize]>| -> Result<Box<dyn Source>, Cause> {
        let rows = match columns {
            Some(columns) => rows().project(columns).unwrap(),
            None => rows(),
        };
        Ok(Box::new(Batches { schema: rows.schema(), left: [rows].into() }))
    };
    let definition = SourceDefinition {
        event_time: given.has_watermark.then_some(EventTime { column: 2, delay_ns: 0 }),
        is_finite: given.is_finite,
        is_repeatable: true,
        ..SourceDefinition::new("t", rows().schema(), Arc::new(open))
    };
    planner
        .register_generator("t_rows", Generator::new("rows of a test", &[], move |_| Ok(definition.clone())));
    execute(&mut planner, "CREATE VIEW t AS SELECT * FROM t_rows()");
    planner
}

fn execute(planner: &mut Planner, sql: &str) -> Reply {
    let statements = parse(sql, "case").unwrap_or_else(|error| panic!("{error}"));
    let [statement] = statements.as_slice() else { panic!("one statement: {sql}") };
    planner.execute(statement).unwrap_or_else(|error| panic!("{error}\n{sql}"))
}

/// The rows as lines, in their order.
fn lines(rows: &RecordBatch) -> Vec<String> {
    let options = FormatOptions::default().with_null("NULL");
    let columns: Vec<_> =
        rows.columns().iter().map(|column| ArrayFormatter::try_new(column, &options).unwrap()).collect();
    let line = |row| columns.iter().map(|column| column.value(row).to_string()).collect::<Vec<_>>().join(" ");
    (0..rows.num_rows()).map(line).collect()
}

fn sorted(mut lines: Vec<String>) -> Vec<String> {
    lines.sort();
    lines
}

/// The rows that are there after all changes.
fn sum_of(changes: &RecordBatch) -> Vec<String> {
    let mut weights: BTreeMap<String, i64> = BTreeMap::new();
    for line in lines(changes) {
        let (row, weight) = line.rsplit_once(' ').unwrap();
        *weights.entry(row.to_owned()).or_default() += weight.parse::<i64>().unwrap();
    }
    let rows = weights.into_iter().flat_map(|(row, weight)| {
        let copies = usize::try_from(weight).unwrap_or_else(|_| panic!("{row} has weight {weight}"));
        std::iter::repeat_n(row, copies)
    });
    rows.collect()
}

/// What a query of a pipeline gives out, all of it and in order, and the columns of its key.
fn written(planner: &mut Planner, sql: &str) -> (Vec<Vec<String>>, Vec<String>, Option<Vec<usize>>) {
    execute(planner, &format!("CREATE MATERIALIZED VIEW written AS {sql}"));
    let pipeline = planner.pipeline().unwrap_or_else(|cause| panic!("{cause}\n{sql}"));
    let prepared = pipeline.unwrap().into_prepared();
    let (mut sinks, mut kept): (Vec<Box<dyn Sink>>, Vec<MemoryRows>) = (Vec::new(), Vec::new());
    let mut key = None;
    let mut wanted = 0;
    for (index, output) in prepared.outputs().iter().enumerate() {
        let (sink, rows) = MemorySink::new(&output.schema, 1000);
        if output.name == "written" {
            (wanted, key) = (index, output.table_key.clone().flatten());
        }
        sinks.push(Box::new(sink));
        kept.push(rows);
    }
    prepared.open(sinks).unwrap().start().unwrap().wait().unwrap_or_else(|cause| panic!("{cause}\n{sql}"));
    if kept[wanted].read().unwrap().schema().fields().last().is_some_and(|last| last.name() == "$weight") {
        return (Vec::new(), sum_of(&kept[wanted].read().unwrap()), None);
    }
    let commits = kept[wanted].commits();
    let commits = commits.iter().map(|commit| commit.batches.iter().flat_map(lines).collect()).collect();
    (commits, lines(&kept[wanted].read().unwrap()), key)
}

/// The answer of a query that is shown, in any order; of a table the last rows.
fn shown(planner: &mut Planner, sql: &str) -> Vec<String> {
    let prepared = match execute(planner, sql) {
        Reply::Query(prepared) => prepared,
        Reply::Rows(rows) => return sorted(lines(&rows)),
        _ => panic!("no query: {sql}"),
    };
    let (mut sinks, mut kept): (Vec<Box<dyn Sink>>, Vec<MemoryRows>) = (Vec::new(), Vec::new());
    for output in prepared.outputs() {
        let (sink, rows) = MemorySink::new(&output.schema, 1000);
        sinks.push(Box::new(sink));
        kept.push(rows);
    }
    let (_, answer) = prepared
        .open(sinks)
        .unwrap()
        .start()
        .unwrap()
        .wait()
        .unwrap_or_else(|cause| panic!("{cause}\n{sql}"));
    sorted(lines(&answer.unwrap_or_else(|| kept[0].read().unwrap())))
}

fn last_of_each(lines: &[String], key: &[usize]) -> Vec<String> {
    let mut last = BTreeMap::new();
    for line in lines {
        let cells: Vec<&str> = line.split(' ').collect();
        last.insert(key.iter().map(|column| cells[*column]).collect::<Vec<_>>(), line.clone());
    }
    sorted(last.into_values().collect())
}

/// A finite query gives these rows as a query and in a pipeline, with and without a watermark, however cycles are cut.
fn check(sql: &str, expected: &[&str]) {
    let expected = sorted(expected.iter().map(ToString::to_string).collect());
    for given in GIVEN {
        for (workers, events) in RUNS {
            let place =
                || format!("{sql}, {workers} workers, {events} events, watermark {}", given.has_watermark);
            assert_eq!(shown(&mut planner(given, workers, events), sql), expected, "shown: {}", place());
            let (_, lines, key) = written(&mut planner(given, workers, events), sql);
            let lines = match key {
                Some(key) => last_of_each(&lines, &key),
                None => sorted(lines),
            };
            assert_eq!(lines, expected, "written: {}", place());
        }
    }
}

const JOINED: &str =
    "SELECT t.k, t.v, m.s FROM t JOIN (SELECT k, sum(v) AS s FROM t GROUP BY k) m ON t.k = m.k";

#[test]
fn rows_that_end_meet_the_last_values_of_an_aggregate_of_themselves() {
    check(JOINED, &["a 1 15", "a 2 15", "a 4 15", "a 8 15", "b 10 30", "b 20 30", "c 100 100"]);
    check(
        "SELECT t.v, m.s FROM t LEFT JOIN (SELECT k, sum(v) AS s FROM t WHERE v > 9 GROUP BY k) m ON t.k = m.k",
        &["1 NULL", "2 NULL", "4 NULL", "8 NULL", "10 30", "20 30", "100 100"],
    );
    check(
        "SELECT t.v, m.n FROM t JOIN (SELECT k, count(*) AS n FROM t GROUP BY k) m ON t.k = m.k AND t.v > m.n",
        &["8 4", "10 2", "20 2", "100 1"],
    );
}

#[test]
fn rows_meet_an_aggregate_of_all_of_them() {
    check(
        "SELECT t.v, m.s FROM t CROSS JOIN (SELECT max(v) AS s FROM t) m WHERE t.v > 9",
        &["10 100", "20 100", "100 100"],
    );
    check("SELECT t.k FROM t JOIN (SELECT max(v) AS s FROM t) m ON t.v = m.s", &["c"]);
    check(
        "SELECT t.v, m.n FROM t CROSS JOIN (SELECT count(*) AS n FROM t WHERE v > 999) m WHERE t.v < 3",
        &["1 0", "2 0"],
    );
}

/// A row changes whenever the aggregate does: a view is kept up to date, and what a sink has written cannot be taken back.
#[test]
fn rows_without_an_end_change_with_the_aggregate_that_they_are_joined_with() {
    let joined = [
        JOINED,
        "SELECT k, (SELECT count(*) FROM t AS u WHERE u.k = t.k) FROM t",
        "WITH x AS (SELECT max(v) AS m FROM t) SELECT v FROM t, x WHERE v > m",
        "SELECT t.v FROM t LEFT JOIN (SELECT k, sum(v) AS s FROM t GROUP BY k) u ON u.k = t.k",
    ];
    for sql in joined {
        for has_watermark in [true, false] {
            let mut planner = planner(Given { has_watermark, is_finite: false }, 1, 1);
            execute(&mut planner, &format!("CREATE MATERIALIZED VIEW kept AS {sql}"));
            let sink = format!("CREATE SINK w WITH (connector = 'blackhole') AS {sql}");
            let statement = parse(&sink, "test").unwrap().remove(0);
            let error = planner.execute(&statement).err().map_or_else(String::new, |error| error.to_string());
            assert!(error.contains("an aggregate that changes afterwards"), "{sql}: {error}");
            let changes = sink.replace("'blackhole'", "'blackhole', emit = 'changes'");
            execute(&mut planner, &changes);
        }
    }
}

#[test]
fn conditions_on_the_clock_are_kept_true_where_rows_may_go() {
    let mut planner = planner(Given { has_watermark: true, is_finite: false }, 1, 1);
    let refused = |planner: &mut Planner, sql: &str| {
        let statement = parse(sql, "test").unwrap().remove(0);
        let error = planner.execute(&statement).err().map_or_else(String::new, |error| error.to_string());
        assert!(error.contains("now() advances"), "{sql}: {error}");
    };
    let kept = [
        "SELECT * FROM t WHERE at > now() - INTERVAL '1 minute'",
        "SELECT k FROM (SELECT k, at FROM t WHERE at < current_date)",
        "SELECT k, count(*) AS n FROM t WHERE at > now() - INTERVAL '1 minute' GROUP BY k",
    ];
    for sql in kept {
        execute(&mut planner, &format!("CREATE OR REPLACE MATERIALIZED VIEW recent AS {sql}"));
    }
    let sink = format!("CREATE SINK counts WITH (connector = 'blackhole') AS {}", kept[2]);
    refused(&mut planner, &sink);
    refused(&mut planner, &format!("EXPLAIN {sink}"));
    execute(&mut planner, &sink.replace("'blackhole'", "'blackhole', emit = 'changes'"));
    refused(
        &mut planner,
        "CREATE MATERIALIZED VIEW filtered AS
         SELECT k, count(*) FILTER (WHERE at > now() - INTERVAL '1 minute') AS n FROM t GROUP BY k",
    );
    execute(&mut planner, "CREATE MATERIALIZED VIEW seen AS SELECT *, now() AS seen FROM t");
    execute(
        &mut planner,
        "CREATE SINK late WITH (connector = 'blackhole') AS SELECT * FROM t WHERE at < now()",
    );
}

#[test]
fn an_aggregate_of_nothing_is_one_row() {
    check("SELECT count(*), count(v), sum(v), min(k), avg(v) FROM t WHERE v > 999", &["0 0 NULL NULL NULL"]);
    check("SELECT count(*) FROM t WHERE 1 = 0", &["0"]);
    check("SELECT count(*) FROM t WHERE v > 3 AND v < 2", &["0"]);
    check("SELECT count(*) + 1 AS n FROM t WHERE v > 999", &["1"]);
    check("SELECT median(v), stddev(v), count(DISTINCT v) FROM t WHERE v > 999", &["NULL NULL 0"]);
    check("SELECT count(*) FILTER (WHERE v > 999), sum(v) FILTER (WHERE v > 9) FROM t", &["0 130"]);
    check("SELECT k, count(*) FROM t WHERE v > 999 GROUP BY k", &[]);
    check("SELECT DISTINCT k FROM t WHERE v > 999", &[]);
}

#[test]
fn an_aggregate_of_nothing_is_one_row_around_other_queries() {
    let check_shown = |sql: &str, expected: &[&str]| {
        let expected = sorted(expected.iter().map(ToString::to_string).collect());
        for given in GIVEN {
            for (workers, events) in RUNS {
                assert_eq!(shown(&mut planner(given, workers, events), sql), expected, "{sql}");
            }
        }
    };
    check_shown("SELECT count(*) AS n FROM t WHERE v > 999 HAVING count(*) = 0", &["0"]);
    check_shown("SELECT count(*) AS n FROM t WHERE v > 999 HAVING count(*) > 0", &[]);
    check_shown("SELECT count(*) FROM t WHERE v > 999 UNION ALL SELECT count(*) FROM t", &["0", "7"]);
    check_shown("SELECT count(*), max(n) FROM (SELECT count(*) AS n FROM t WHERE v > 999)", &["1 0"]);
    check_shown("SELECT count(*) FROM (SELECT k, count(*) FROM t WHERE v > 999 GROUP BY k)", &["0"]);
    check_shown("SELECT v FROM t WHERE v > (SELECT 10 + count(*) FROM t WHERE v > 999)", &["100", "20"]);
}

/// What a pipeline shows before a row has passed: the row is there from the first cycle on.
#[test]
fn a_running_aggregate_has_its_row_from_the_first_cycle_on() {
    let given = Given { has_watermark: false, is_finite: false };
    for workers in [1, 2, 5] {
        let sql = "SELECT count(*), sum(v) FROM t WHERE v > 9";
        let (commits, ..) = written(&mut planner(given, workers, 1), sql);
        assert_eq!(commits.concat(), ["0 NULL", "1 10", "2 110", "3 130"]);
        let (commits, ..) = written(&mut planner(given, workers, 3), sql);
        assert_eq!(commits.concat(), ["1 10", "3 130"]);
    }
}

/// A view with a primary key means the same wherever it is read: the last row of each key.
#[test]
fn a_view_with_a_key_has_the_last_row_of_each() {
    let define = "CREATE MATERIALIZED VIEW m PRIMARY KEY (k) AS SELECT k, v FROM t";
    for given in GIVEN {
        for (workers, events) in RUNS {
            let with_view = || {
                let mut planner = planner(given, workers, events);
                execute(&mut planner, define);
                planner
            };
            assert_eq!(shown(&mut with_view(), "SELECT * FROM m"), ["a 8", "b 20", "c 100"]);
            // The rows that a condition drops have taken the place of others nevertheless.
            assert_eq!(shown(&mut with_view(), "SELECT * FROM m WHERE v < 10"), ["a 8"]);
            assert_eq!(shown(&mut with_view(), "SELECT count(*), sum(v) FROM m"), ["3 128"]);
            assert_eq!(
                shown(&mut with_view(), "SELECT t.v, m.v FROM t JOIN m ON t.k = m.k WHERE t.v < 9"),
                ["1 8", "2 8", "4 8", "8 8",]
            );
            let (_, lines, key) = written(&mut with_view(), "SELECT v, k FROM m");
            assert_eq!(last_of_each(&lines, &key.unwrap()), ["100 c", "20 b", "8 a"]);

            let mut planner = with_view();
            let running = planner.pipeline().unwrap().unwrap().open().unwrap().start().unwrap();
            let view = running.views()[0].clone();
            running.wait().unwrap();
            let mut catalog = planner.catalog().clone();
            catalog.attach_view(&view);
            planner.set_catalog(catalog);
            assert_eq!(shown(&mut planner, "SELECT * FROM m"), ["a 8", "b 20", "c 100"]);
        }
    }
}

/// Of input that does not end a row meets the last row of its key up to itself: cuts do not matter.
#[test]
fn rows_meet_a_view_with_a_key_as_it_is_at_their_position() {
    let given = Given { has_watermark: false, is_finite: false };
    for (workers, events) in RUNS {
        let mut planner = planner(given, workers, events);
        execute(
            &mut planner,
            "CREATE MATERIALIZED VIEW big PRIMARY KEY (k) AS SELECT k, v AS last FROM t WHERE v <> 2",
        );
        let at_its_position =
            "SELECT t.k, t.v, big.last FROM t JOIN big FOR SYSTEM_TIME AS OF t.at ON t.k = big.k";
        let (_, lines, _) = written(&mut planner, at_its_position);
        assert_eq!(sorted(lines), ["a 1 1", "a 2 1", "a 4 4", "a 8 8", "b 10 10", "b 20 20", "c 100 100"]);
        let condition = format!("CREATE MATERIALIZED VIEW refused AS {at_its_position} WHERE big.last > 1");
        let statement = parse(&condition, "case").unwrap().remove(0);
        let error = planner.execute(&statement).err().map_or_else(String::new, |error| error.to_string());
        assert!(error.contains("as of the moment of each row"), "{error}");
        execute(&mut planner, "DROP MATERIALIZED VIEW written");
        let kept_up_to_date = "SELECT t.k, t.v, big.last FROM t JOIN big AS big ON t.k = big.k";
        let (_, lines, _) = written(&mut planner, kept_up_to_date);
        assert_eq!(sorted(lines), ["a 1 8", "a 2 8", "a 4 8", "a 8 8", "b 10 20", "b 20 20", "c 100 100"]);
    }
}

/// A condition that is never true leaves a query without rows, and does not make it another kind of query.
#[test]
fn a_query_may_have_no_rows() {
    for condition in ["1 = 0", "false", "v > 3 AND v < 2", "v IS NULL AND v = 1"] {
        check(&format!("SELECT k, v FROM t WHERE {condition}"), &[]);
        check(&format!("SELECT v FROM t WHERE v < 2 UNION ALL SELECT v FROM t WHERE {condition}"), &["1"]);
        check(&format!("SELECT k, count(*) FROM t WHERE {condition} GROUP BY k"), &[]);
    }
    check("SELECT t.v FROM t JOIN (SELECT k FROM t WHERE 1 = 0) e ON t.k = e.k", &[]);
    check("SELECT k FROM t LIMIT 0", &[]);
    for (workers, events) in RUNS {
        let given = Given { has_watermark: true, is_finite: true };
        let sql =
            "SELECT window_end, count(*) FROM tumble((SELECT * FROM t WHERE 1 = 0), at, INTERVAL '1 second')
                   GROUP BY window_end";
        assert!(written(&mut planner(given, workers, events), sql).1.is_empty());
    }
}

#[test]
fn constants_are_streams_of_their_rows() {
    check("SELECT * FROM (VALUES (1, 'x'), (2, 'y')) AS c (n, name)", &["1 x", "2 y"]);
    check("SELECT v FROM t WHERE v > 50 UNION ALL SELECT 7", &["100", "7"]);
}
