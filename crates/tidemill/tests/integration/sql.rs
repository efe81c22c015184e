//! SQL over typed streams, and typed operators over SQL, compared with plain loops.

use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

use proptest::prelude::*;
use tidemill::aggregate::{count, sum};
use tidemill::{CyclePolicy, Engine, Error, Query, Timestamp, Window, rows_of};

const SECOND: i64 = 1_000_000_000;
const MINUTE: Duration = Duration::from_secs(60);

fn engines() -> impl Iterator<Item = Engine> {
    [(1, 7), (2, 64), (5, 3)]
        .into_iter()
        .map(|(workers, events)| Engine::new().workers(workers).cycles(CyclePolicy::fixed(events)))
}

/// What is pushed: times in seconds, keys and values.
fn events() -> impl Strategy<Value = Vec<(i64, u32, i64)>> {
    prop::collection::vec((0_i64..600, 0_u32..4, -50_i64..50), 0..100).prop_map(|mut rows| {
        rows.sort_by_key(|row| row.0);
        rows
    })
}

fn pushed(rows: &[(i64, u32, i64)]) -> Vec<(Timestamp, u32, i64)> {
    rows.iter().map(|(time, key, value)| (Timestamp(time * SECOND), *key, *value)).collect()
}

/// How often each key's value changed, minute by minute, counted by a loop.
fn changes(rows: &[(i64, u32, i64)]) -> BTreeMap<(i64, u32), i64> {
    let (mut last, mut changes) = (BTreeMap::new(), BTreeMap::new());
    for (time, key, value) in rows {
        if last.insert(*key, *value) != Some(*value) {
            *changes.entry((time / 60 + 1, *key)).or_default() += 1;
        }
    }
    changes
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    #[test]
    fn sql_and_typed_operators_read_each_other(rows in events()) {
        let changes = changes(&rows);
        let mut by_minute = BTreeMap::<i64, (i64, i64)>::new();
        for ((minute, _), count) in &changes {
            let all = by_minute.entry(minute * 60 * SECOND).or_default();
            *all = (all.0 + 1, all.1 + count);
        }
        for engine in engines() {
            let mut query = Query::new("changes").partitions(3);
            let input = query
                .rows::<(Timestamp, u32, i64)>("input", ["time", "key", "value"])
                .event_time("time", Duration::ZERO);
            // Typed, then SQL, then typed, then SQL.
            let changed = input.key_by("key").scan(
                "changed",
                ["time", "key", "value"],
                ["time", "key"],
                |last: &mut Option<i64>, (time, key, value): (Timestamp, u32, i64)| {
                    (last.replace(value) != Some(value)).then_some((time, key))
                },
            );
            query.define("changed", &changed.timed_by("time")).unwrap();
            let minutes = query.sql(
                "SELECT key, window_start, window_end, count(*) AS changes
                 FROM tumble(TABLE(changed), time, INTERVAL '1 minute') GROUP BY key, window_start, window_end",
            ).unwrap();
            let each = minutes.collect("each", 1000);
            let totals = minutes
                .key_by(())
                .window(Window::tumbling("window_start", MINUTE))
                .aggregate([count().named("keys"), sum("changes").named("total")]);
            query.define("totals", &totals).unwrap();
            let shown = query
                .sql("SELECT window_end, keys, total FROM totals WHERE keys > 0")
                .unwrap()
                .collect("shown", 1000);
            let run = engine.start(query).unwrap();
            run.input(&input).unwrap().push(pushed(&rows)).unwrap();
            let summary = run.finish().unwrap();
            prop_assert_eq!((summary.late, summary.faults.count), (0, 0));

            let mut found = rows_of::<(Option<Timestamp>, Option<u32>, Option<i64>)>(
                &each.read().unwrap(), ["window_end", "key", "changes"],
            ).unwrap();
            found.sort_by_key(|row| (row.0.map(|time| time.0), row.1));
            let expected: Vec<_> = changes
                .iter()
                .map(|((minute, key), count)| (Some(Timestamp(minute * 60 * SECOND)), Some(*key), Some(*count)))
                .collect();
            prop_assert_eq!(found, expected);
            let found = rows_of::<(Option<Timestamp>, Option<i64>, Option<i64>)>(
                &shown.read().unwrap(), ["window_end", "keys", "total"],
            ).unwrap();
            let expected: Vec<_> = by_minute
                .iter()
                .map(|(end, (keys, total))| (Some(Timestamp(*end)), Some(*keys), Some(*total)))
                .collect();
            prop_assert_eq!(found, expected);
        }
    }

    #[test]
    fn sql_joins_two_typed_sources(left in events(), right in events()) {
        let mut expected = Vec::new();
        for (time, key, value) in &left {
            for (other_time, other_key, other) in &right {
                if key == other_key && *other_time <= *time && *time <= other_time + 60 {
                    expected.push((Some(*key), Some(*value), Some(*other)));
                }
            }
        }
        expected.sort();
        for engine in engines() {
            let mut query = Query::new("pairs").partitions(3);
            let columns = ["time", "key", "value"];
            let lefts = query.rows::<(Timestamp, u32, i64)>("Left", columns).event_time("time", Duration::ZERO);
            let rights = query.rows::<(Timestamp, u32, i64)>("right", columns).event_time("time", Duration::ZERO);
            let pairs = query.sql(
                "SELECT one.key, one.value, other.value AS other FROM \"Left\" AS one JOIN \"right\" AS other
                 ON one.key = other.key AND one.time BETWEEN other.time AND other.time + INTERVAL '1 minute'",
            ).unwrap().collect("pairs", 100_000);
            let run = engine.start(query).unwrap();
            // The later one first: what comes too late for an operator would be lost.
            run.input(&lefts).unwrap().push(pushed(&left)).unwrap();
            run.input(&rights).unwrap().push(pushed(&right)).unwrap();
            run.finish().unwrap();
            let mut found = rows_of::<(Option<u32>, Option<i64>, Option<i64>)>(
                &pairs.read().unwrap(), ["key", "value", "other"],
            ).unwrap();
            found.sort();
            prop_assert_eq!(found, expected.clone());
        }
    }
}

#[test]
fn a_source_that_sql_declares_is_read_once_by_all_queries() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("points.csv");
    fs::write(&path, "id,name\n1,one\n2,two\n3,three\n").unwrap();
    let mut query = Query::new("points");
    let declared = format!("CREATE SOURCE points (id INT, name VARCHAR) WITH (path = '{}');", path.display());
    let large = query.sql(&format!("{declared} SELECT name FROM points WHERE id > 1")).unwrap();
    let all = query.sql("SELECT count(*) FROM points").unwrap();
    // Names that SQL invents are columns like any other.
    assert_eq!(all.schema().field(0).name(), "count(*)");
    let doubled = all.with("count(*)", "doubled", |(count,): (Option<i64>,)| (count.map(|count| 2 * count),));
    let (large, doubled) = (large.collect("large", 10), doubled.collect("doubled", 10));
    let summary = Engine::new().workers(2).start(query).unwrap().join().unwrap();
    assert_eq!(summary.engine.per_event.count(), 3);
    let names = rows_of::<(Option<String>,)>(&large.read().unwrap(), "name").unwrap();
    assert_eq!(names, [(Some("two".to_owned()),), (Some("three".to_owned()),)]);
    let doubled = rows_of::<(Option<i64>,)>(&doubled.read().unwrap(), "doubled").unwrap();
    assert_eq!(doubled.last(), Some(&(Some(6),)));
}

#[test]
fn functions_of_the_program_are_called_in_sql() {
    use std::sync::Arc;
    use tidemill::arrow::array::types::Int64Type;
    use tidemill::arrow::array::{Array, Int64Array, cast::AsArray};
    use tidemill::arrow::schema::DataType;
    let mut query = Query::new("squares");
    query.planner().register_function("square", vec![DataType::Int64], DataType::Int64, |arguments| {
        let values = arguments[0].as_primitive::<Int64Type>().iter();
        Ok(Arc::new(values.map(|value| value?.checked_mul(value?)).collect::<Int64Array>()) as Arc<dyn Array>)
    });
    let numbers = query.rows::<(i64,)>("numbers", "number");
    let squares = query.sql("SELECT square(number) AS square FROM numbers").unwrap().collect("squares", 10);
    let run = Engine::new().start(query).unwrap();
    run.input(&numbers).unwrap().push([(3,), (-4,)]).unwrap();
    run.finish().unwrap();
    assert_eq!(
        rows_of::<(Option<i64>,)>(&squares.read().unwrap(), "square").unwrap(),
        [(Some(9),), (Some(16),)]
    );
}

#[test]
fn what_cannot_be_answered_is_refused_with_its_place() {
    let refused = |text: &str| {
        let mut query = Query::new("refused");
        let numbers = query
            .rows::<(Timestamp, u32, i64)>("numbers", ["time", "key", "number"])
            .event_time("time", Duration::ZERO);
        query.define("totals", &numbers.key_by("key").aggregate([sum("number").named("total")])).unwrap();
        let error = query.sql(text).map(|_| ()).unwrap_err();
        // The query is as it was before.
        query.sql("SELECT number FROM numbers").unwrap().collect("rows", 10);
        Engine::new().start(query).unwrap().finish().unwrap();
        error.to_string()
    };
    for (text, expected) in [
        ("SELECT nummer FROM numbers", ["nummer", "did you mean", "query:1:8"]),
        ("SELECT number, key AS number FROM numbers", ["two columns", "`number`", "AS"]),
        (
            "CREATE SINK s WITH (connector = 'stdout') AS SELECT number FROM numbers; SELECT 1 AS one",
            ["not allowed", "sinks", "query:1:1"],
        ),
        (
            "CREATE VIEW totals AS SELECT number FROM numbers; SELECT number FROM numbers",
            ["already", "totals", "query:1:"],
        ),
        ("SHOW SOURCES", ["query is missing", "SELECT", "query:1:1"]),
        ("", ["empty", "SELECT", "refused"]),
        // Rows that replace others stay what they are.
        ("SELECT total FROM totals WHERE total > 3", ["retract", "window", "refused"]),
        ("SELECT number FROM late(TABLE(numbers))", ["late rows", "numbers", "counted"]),
        ("SELECT number FROM numbers WITH (max_latency = '1 s')", ["max_latency", "cycles", "query:1:"]),
        (
            "CREATE SOURCE f (x INT) WITH (path = '/no/such/file.csv'); SELECT x FROM f",
            ["/no/such/file.csv", "refused", "no"],
        ),
    ] {
        let error = refused(text);
        for part in expected {
            assert!(error.contains(part), "{text}\ngave: {error}\nwithout: {part}");
        }
    }
}

#[test]
fn event_time_is_declared_before_it_is_used() {
    let mut query = Query::new("late");
    let numbers = query.rows::<(Timestamp, i64)>("numbers", ["time", "number"]);
    query.sql("SELECT number FROM numbers").unwrap().collect("rows", 10);
    let _ = numbers.event_time("time", MINUTE);
    let Err(Error::Query { reason, .. }) = Engine::new().start(query) else { panic!("it started") };
    assert!(reason.contains("before sql()"), "{reason}");
}

#[test]
fn a_column_is_no_event_time_unless_it_is_known_to_be() {
    let mut query = Query::new("birthdays");
    let people =
        query.rows::<(Timestamp, Timestamp)>("people", ["seen", "born"]).event_time("seen", Duration::ZERO);
    // The function may have written anything.
    query.define("mapped", &people.map("born", "seen", |(born,): (Timestamp,)| (born,))).unwrap();
    query.define("kept", &people.filter("born", |(_,): (Timestamp,)| true).select(["born", "seen"])).unwrap();
    let windows = |name: &str| {
        format!(
            "SELECT count(*) AS n FROM tumble(TABLE({name}), seen, INTERVAL '1 hour') GROUP BY window_end"
        )
    };
    let error = query.sql(&windows("mapped")).map(|_| ()).unwrap_err().to_string();
    assert!(error.contains("seen"), "{error}");
    query.sql(&windows("kept")).unwrap();
}

#[test]
fn a_file_ends_and_a_source_of_the_program_does_not_whichever_comes_first() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("times.csv");
    fs::write(&path, "at,n\n2026-01-01 10:05:00,1\n2026-01-01 10:06:00,2\n").unwrap();
    let mut query = Query::new("ends");
    let endless = query.rows::<(Timestamp,)>("endless", "at");
    let windows = |name: &str| {
        format!("SELECT sum(n) AS n FROM tumble(TABLE({name}), at, INTERVAL '1 hour') GROUP BY window_end")
    };
    query.define("numbered", &endless.with("at", "n", |(at,): (Timestamp,)| (at.0,))).unwrap();
    // The end of the file closes its windows; nothing closes those of the other source.
    let declared = format!("CREATE SOURCE f (at TIMESTAMP, n BIGINT) WITH (path = '{}'); ", path.display());
    let sums = query.sql(&(declared + &windows("f"))).unwrap().collect("sums", 10);
    let again = query.sql(&windows("f")).unwrap().collect("again", 10);
    let error = query.sql(&windows("numbered")).map(|_| ()).unwrap_err().to_string();
    assert!(error.contains("'at' is not an event time"), "{error}");
    Engine::new().start(query).unwrap().finish().unwrap();
    for rows in [sums, again] {
        assert_eq!(rows_of::<(Option<i64>,)>(&rows.read().unwrap(), "n").unwrap(), [(Some(3),)]);
    }
}

#[test]
fn durable_queries_in_sql_continue_and_notice_another_text() {
    let folder = tempfile::tempdir().unwrap();
    let journal = folder.path().join("journal");
    let run = |text: &str, values: &[i64]| -> Result<Vec<Option<i64>>, Error> {
        let mut query = Query::new("sums").durable(&journal);
        let numbers = query.rows::<(i64,)>("numbers", "number");
        let sums = query.sql(text)?.collect("sums", 100);
        let run = Engine::new().workers(2).start(query)?;
        for value in values {
            run.input(&numbers)?.push([(*value,)])?;
        }
        run.stop()?;
        Ok(rows_of::<(Option<i64>,)>(&sums.read()?, "total")?.into_iter().map(|(sum,)| sum).collect())
    };
    let text = "SELECT sum(number) AS total FROM numbers WHERE number < 100";
    assert_eq!(run(text, &[1, 200, 2]).unwrap().last(), Some(&Some(3)));
    assert_eq!(run(text, &[4]).unwrap(), [Some(7)]);
    let error = run("SELECT sum(number) AS total FROM numbers WHERE number < 1000", &[5]).unwrap_err();
    assert!(error.to_string().contains("WHERE number < 1000'. Rows taken in earlier"), "{error}");
    assert_eq!(run(text, &[5]).unwrap(), [Some(12)]);
}
