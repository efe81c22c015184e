//! The durable sources of a database: one journal, read from outside once, which any number of queries follow. Queries come and
//! go, and the database ends at random moments; then every view and every sink has what a naive computation gives over the
//! rows since it began.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::time::Duration;

use fastrand::Rng;
use tidemill_engine::{DatabaseClock, Journal, StreamSettings};
use tidemill_service::{QueryState, ReplacementOutcome, Reply, Runtime, Session};

use crate::database::Database;
use crate::fed::oracle::{QUERIES, naive, random_rows, rows_of};
use crate::fed::{PATIENCE, Row, until};
use crate::statements::{define, execute, numbers};

/// A view or a sink, and how many rows of each source had come when it began.
struct Output {
    name: String,
    query: usize,
    is_sink: bool,
    start: [usize; 2],
}

impl Output {
    fn expected(&self, fed: &[Vec<Row>; 2]) -> Vec<Vec<i64>> {
        naive(self.query, &fed[0][self.start[0]..], &fed[1][self.start[1]..])
    }

    fn rows(&self, runtime: &Runtime, database: &Database) -> Vec<Vec<i64>> {
        if self.is_sink {
            let text = std::fs::read_to_string(database.sink(&self.name)).unwrap_or_default();
            // The last line may not be whole yet.
            let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
            let line = |line: &str| line.split(',').map(|value| value.parse().unwrap()).collect();
            return whole.lines().skip(1).map(line).collect();
        }
        rows_of(self.query, &runtime.views(&self.name).unwrap()[0].read().unwrap())
    }

    /// What it has is the beginning of what it will have: of rows in order, that can be seen at any moment.
    fn check(&self, runtime: &Runtime, database: &Database, fed: &[Vec<Row>; 2]) {
        if self.query == 0 {
            let (rows, expected) = (self.rows(runtime, database), self.expected(fed));
            assert_eq!(rows, expected[..rows.len().min(expected.len())], "{}", self.name);
        }
    }

    fn settle(&self, runtime: &Runtime, database: &Database, fed: &[Vec<Row>; 2]) {
        let expected = self.expected(fed);
        let begun = std::time::Instant::now();
        while self.rows(runtime, database) != expected {
            let state = runtime.state(&self.name);
            assert!(
                begun.elapsed() < PATIENCE && state != Ok(QueryState::Failed),
                "{} is {state:?}, began after {:?}: {:?} instead of {expected:?}; {:?}",
                self.name,
                self.start,
                self.rows(runtime, database),
                runtime.wait_for(&self.name, Duration::ZERO).err()
            );
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

/// Queries are created, replaced, dropped and checked, and the database ends at once or in order, while rows come in.
fn outputs_equal_the_naive_computation(workers: usize, seed: u64) {
    let database = Database::new(workers);
    let mut random = Rng::with_seed(seed);
    let mut fed: [Vec<Row>; 2] = Default::default();
    let (mut runtime, mut session) = database.open();
    let anchor = format!("CREATE MATERIALIZED VIEW anchor AS {}", QUERIES[2]);
    database.start(&mut session, "anchor", &anchor);
    // It reads both sources from their first row on, and stays.
    let anchor = Output { name: "anchor".into(), query: 2, is_sink: false, start: [0, 0] };
    let (mut outputs, mut created, mut replaced, mut restarts) = (vec![anchor], 0, 0, 0);
    for step in 0..140 {
        match random.u64(..27) {
            0..16 => {
                let source = random.usize(..2);
                let rows = random_rows(&mut random);
                fed[source].extend(&rows);
                database.sources[source].feed(rows);
            }
            16..18 if outputs.len() < 7 => {
                // Where it begins is only known while nothing comes.
                outputs.iter().for_each(|output| output.settle(&runtime, &database, &fed));
                let is_sink = random.u64(..3) == 0;
                let query = if is_sink { 0 } else { random.usize(..QUERIES.len()) };
                let is_earliest = random.u64(..2) == 0;
                let start = [0, 1].map(|source: usize| if is_earliest { 0 } else { fed[source].len() });
                let output = Output { name: format!("q{step}"), query, is_sink, start };
                let earliest = if is_earliest { "start = 'earliest'" } else { "start = 'now'" };
                let name = &output.name;
                let definition = if is_sink {
                    format!(
                        "CREATE SINK {name} WITH (connector = 'file', path = '{}', format = 'csv', {earliest}) AS {}",
                        database.sink(name),
                        QUERIES[query]
                    )
                } else {
                    format!("CREATE MATERIALIZED VIEW {name} WITH ({earliest}) AS {}", QUERIES[query])
                };
                database.start(&mut session, name, &definition);
                outputs.push(output);
                created += 1;
            }
            18 if outputs.len() > 1 => {
                let output = outputs.remove(1 + random.usize(..outputs.len() - 1));
                output.check(&runtime, &database, &fed);
                let kind = if output.is_sink { "SINK" } else { "MATERIALIZED VIEW" };
                define(&mut session, &format!("DROP {kind} {}", output.name));
            }
            19 => {
                if random.u64(..2) == 0 {
                    assert!(runtime.close(PATIENCE).is_empty());
                }
                // Without that, all queries end at once.
                drop((session, runtime));
                (runtime, session) = database.open();
                restarts += 1;
            }
            20 => std::thread::sleep(Duration::from_millis(random.u64(..30))),
            21..24 => {
                let Some(output) = outputs.iter_mut().skip(1).find(|output| !output.is_sink) else {
                    continue;
                };
                let query = random.usize(..QUERIES.len());
                let (name, text) = (&output.name, QUERIES[query]);
                let definition = format!("CREATE OR REPLACE MATERIALIZED VIEW {name} AS {text}");
                let inherited = database.replace(&mut session, &definition).unwrap();
                if query != output.query {
                    assert_eq!(inherited, ReplacementOutcome::AllRows, "{name}");
                    (output.query, output.start) = (query, [0, 0]);
                } else {
                    assert_eq!(inherited, ReplacementOutcome::State, "{name}");
                }
                replaced += 1;
            }
            _ => outputs.iter().for_each(|output| output.check(&runtime, &database, &fed)),
        }
    }
    outputs.iter().for_each(|output| output.settle(&runtime, &database, &fed));
    let counts = [restarts, created, replaced];
    assert!(counts.iter().all(|count| *count > 0), "restarts, created and replaced queries: {counts:?}");
}

/// How many random histories are tried; by hand: `TIDEMILL_HISTORIES=50`.
fn histories() -> u64 {
    std::env::var("TIDEMILL_HISTORIES").map_or(1, |histories| histories.parse().unwrap())
}

#[test]
fn outputs_of_one_worker_equal_the_naive_computation_after_any_end() {
    (0..histories()).for_each(|seed| outputs_equal_the_naive_computation(1, 2 * seed + 1));
}

#[test]
fn outputs_of_two_workers_equal_the_naive_computation_after_any_end() {
    (0..histories()).for_each(|seed| outputs_equal_the_naive_computation(2, 2 * seed + 2));
}

#[test]
fn durable_queries_read_a_source_once_and_agree_on_its_cycles() {
    let database = Database::new(1);
    let (runtime, mut session) = database.open();
    database.start(&mut session, "a", "CREATE MATERIALIZED VIEW a AS SELECT count(*) AS n FROM s");
    database.start(&mut session, "b", "CREATE MATERIALIZED VIEW b AS SELECT sum(v) AS total FROM s");
    (0..100).for_each(|_| database.sources[0].feed(vec![(0, 1); 10]));
    let read = |session: &mut Session| {
        numbers(session, "SELECT CAST(n - total AS BIGINT) AS d FROM a CROSS JOIN b WHERE n = 1000")
    };
    // Together they cannot be read while one of them has no cycle.
    let have_begun = |session: &mut Session| {
        let views = ["SELECT n FROM a", "SELECT CAST(total AS BIGINT) AS n FROM b"];
        views.iter().all(|view| !numbers(session, view).is_empty())
    };
    until("both have begun", || have_begun(&mut session));
    until("both have every row", || read(&mut session) == [0]);
    assert_eq!(database.sources[0].opened.load(Ordering::SeqCst), 1);
    let cycle = runtime.clock().cycle();
    drop((session, runtime));
    let (runtime, mut session) = database.open();
    until("both have begun again", || have_begun(&mut session));
    until("they come back", || read(&mut session) == [0]);
    assert!(runtime.clock().cycle() >= cycle, "the numbers of cycles go on");
    assert_eq!(database.sources[0].opened.load(Ordering::SeqCst), 2, "once in each run");
}

#[test]
fn a_query_that_is_too_far_behind_reads_the_journal_and_holds_nobody_up() {
    let database = Database { ring_bytes_max: 64 << 10, ..Database::new(1) };
    let (runtime, mut session) = database.open();
    database.start(&mut session, "slow", "CREATE MATERIALIZED VIEW slow AS SELECT gated(v) AS v FROM s");
    database.start(&mut session, "quick", "CREATE MATERIALIZED VIEW quick AS SELECT count(*) AS n FROM s");
    database.gate.set(true);
    let rows: Vec<Row> = (0..1000).map(|n| (n % 7, n)).collect();
    // 60 times the ring.
    (0..250).for_each(|_| database.sources[0].feed(rows.clone()));
    until("the quick one has every row", || numbers(&mut session, "SELECT n FROM quick") == [250_000]);
    let behind = runtime.reports().into_iter().find(|report| report.name == "slow").unwrap();
    assert!(behind.lag.cycles > 0 && behind.state == Some(QueryState::Running), "{:?}", behind.lag);
    database.gate.set(false);
    let slow = "SELECT count(*) AS n FROM slow";
    until("the slow one has every row", || numbers(&mut session, slow) == [250_000]);
    let sum = numbers(&mut session, "SELECT CAST(sum(v) AS BIGINT) AS total FROM slow");
    assert_eq!(sum, [250 * 499_500]);
    // It takes part in the cycles in memory again.
    database.sources[0].feed(vec![(0, 1)]);
    until("it continues", || numbers(&mut session, slow) == [250_001]);
}

#[test]
fn the_journal_keeps_what_the_slowest_query_needs_and_no_more() {
    let stream =
        StreamSettings { segment_bytes: 16 << 10, bytes_max: 256 << 10, ..StreamSettings::default() };
    let database = Database { stream, ..Database::new(1) };
    let (runtime, mut session) = database.open();
    database.start(&mut session, "a", "CREATE MATERIALIZED VIEW a AS SELECT count(*) AS n FROM s");
    database.start(&mut session, "b", "CREATE MATERIALIZED VIEW b AS SELECT count(*) AS n FROM s");
    let rows: Vec<Row> = (0..200).map(|n| (n % 7, n)).collect();
    // Ten times what the journal may have.
    (0..800).for_each(|_| database.sources[0].feed(rows.clone()));
    for view in ["a", "b"] {
        until("what is not needed is removed", || {
            numbers(&mut session, &format!("SELECT n FROM {view}")) == [160_000]
        });
    }
    // A query that begins with the earliest rows has those that are left, if there are any, and all that come.
    drop((session, runtime));
    let (runtime, mut session) = database.open();
    let late = "CREATE MATERIALIZED VIEW late WITH (start = 'earliest') AS SELECT count(*) AS n FROM s";
    database.start(&mut session, "late", late);
    database.sources[0].feed(vec![(0, 1)]);
    until("the others have the row", || numbers(&mut session, "SELECT n FROM a") == [160_001]);
    let n = |session: &mut Session| numbers(session, "SELECT n FROM late").first().copied().unwrap_or(0);
    until("it has the row", || n(&mut session) > 0);
    assert!(n(&mut session) < 160_000, "the first rows are not there any more");
    drop(runtime);
}

#[test]
fn a_view_of_a_query_with_a_journal_of_its_own_comes_back_at_its_cycle() {
    let database = Database::new(2);
    let (runtime, mut session) = database.open_under(DatabaseClock::default());
    database.start(
        &mut session,
        "v",
        "CREATE MATERIALIZED VIEW v AS SELECT k, sum(v) AS total FROM s GROUP BY k",
    );
    let read = |runtime: &Runtime| {
        let (rows, cycle) = runtime.views("v").unwrap()[0].read_with_cycle().unwrap();
        (rows.num_rows(), cycle)
    };
    (0..50).for_each(|n| database.sources[0].feed(vec![(n % 5, n); 20]));
    until("it has every key", || {
        numbers(&mut session, "SELECT CAST(sum(total) AS BIGINT) AS total FROM v") == [20 * 25 * 49]
    });
    assert!(runtime.close(PATIENCE).is_empty());
    let before = read(&runtime);
    drop((session, runtime));
    let (runtime, session) = database.open_under(DatabaseClock::default());
    assert_eq!(read(&runtime), before, "before anything new has come");
    // At once: what was not snapshotted is computed again.
    database.sources[0].feed(vec![(7, 1)]);
    until("it continues", || read(&runtime).0 == 6);
    drop((session, runtime));
    let (runtime, _session) = database.open_under(DatabaseClock::default());
    until("it has the row", || read(&runtime).0 == 6);
    assert!(read(&runtime).1 > before.1);
}

/// A reader that has seen a cycle finds the same rows when it asks for that cycle again, whatever has ended meanwhile.
fn a_cycle_stays_as_it_was_read(workers: usize) {
    let database = Database::new(workers);
    let mut random = Rng::with_seed(17 + workers as u64);
    let (mut runtime, mut session) = database.open();
    for (number, query) in QUERIES.iter().enumerate() {
        let options = "WITH (start = 'earliest', retain_versions = 100000)";
        let definition = format!("CREATE MATERIALIZED VIEW v{number} {options} AS {query}");
        database.start(&mut session, &format!("v{number}"), &definition);
    }
    let mut read = BTreeMap::<(usize, u64), Vec<Vec<i64>>>::new();
    let (mut compared, mut gone) = (0, 0);
    for run in 0..5 {
        for step in 0..25 {
            database.sources[random.usize(..2)].feed(random_rows(&mut random));
            if step % 3 > 0 {
                std::thread::sleep(Duration::from_millis(random.u64(..6)));
            }
            for query in 0..QUERIES.len() {
                let view = &runtime.views(&format!("v{query}")).unwrap()[0];
                if step == 24 {
                    until("there is a cycle", || view.read_with_cycle().unwrap().1.is_some());
                }
                let (rows, cycle) = view.read_with_cycle().unwrap();
                let Some(cycle) = cycle else { continue };
                let rows = rows_of(query, &rows);
                let before = read.insert((query, cycle), rows.clone());
                assert!(
                    before.is_none_or(|before| before == rows),
                    "v{query} has changed within cycle {cycle}"
                );
            }
        }
        if run % 2 == 0 {
            assert!(runtime.close(PATIENCE).is_empty());
        }
        drop((session, runtime));
        (runtime, session) = database.open();
        for ((query, cycle), rows) in &read {
            let view = &runtime.views(&format!("v{query}")).unwrap()[0];
            until("the view is as far as it was", || view.read_with_cycle().unwrap().1 >= Some(*cycle));
            match execute(&mut session, &format!("SELECT * FROM v{query} AS OF CYCLE {cycle}")) {
                Ok(Reply::Rows(now)) => assert_eq!(&rows_of(*query, &now), rows, "v{query} at cycle {cycle}"),
                Ok(_) => panic!("no rows"),
                Err(error) => {
                    assert!(error.to_string().contains("no longer kept"), "v{query} at {cycle}: {error}");
                    gone += 1;
                    continue;
                }
            }
            compared += 1;
        }
    }
    println!("{compared} cycles were read again, {gone} were gone");
    assert!(compared >= 4 * QUERIES.len(), "{compared} cycles were read again, {gone} were gone");
}

#[test]
fn a_cycle_that_was_read_is_the_same_after_any_end() {
    [1, 3].into_iter().for_each(a_cycle_stays_as_it_was_read);
}

#[test]
fn what_cannot_begin_with_the_earliest_rows_is_refused() {
    let database = Database::new(1);
    let (_runtime, mut session) = database.open();
    let wrong = "CREATE MATERIALIZED VIEW v WITH (start = 'soon') AS SELECT k FROM s";
    let Err(error) = execute(&mut session, wrong) else { panic!("it is refused") };
    assert!(error.to_string().contains("no query can start at 'soon'"), "{error}");
    let endless =
        "CREATE MATERIALIZED VIEW w WITH (start = 'earliest') AS SELECT value FROM sequence(rate => 10)";
    let refused = execute(&mut session, endless).map(|_| session.pipeline_of(&["w"]).err());
    let error = match refused {
        Ok(error) => error.map(|error| error.to_string()),
        Err(error) => Some(error.to_string()),
    };
    let error = error.expect("it is refused");
    assert!(error.contains("has no journal") && error.contains("durable = true"), "{error}");
}

#[test]
fn a_query_of_an_earlier_version_is_refused_with_the_reason_and_can_be_created_again() {
    let database = Database::new(1);
    let (runtime, mut session) = database.open();
    for name in ["old", "other"] {
        let definition = format!("CREATE MATERIALIZED VIEW {name} AS SELECT count(*) AS n FROM s");
        database.start(&mut session, name, &definition);
    }
    database.sources[0].feed(vec![(0, 1); 10]);
    until("it has the rows", || numbers(&mut session, "SELECT n FROM old") == [10]);
    drop((session, runtime));
    // As it was when each query had a journal of its own: its description named no stream of the database.
    let folder = Journal::open(&database.path().join("journal/query-old")).unwrap();
    let text = folder.query().unwrap().unwrap();
    let lines: Vec<&str> = text.lines().filter(|line| !line.ends_with(" of the database")).collect();
    assert!(lines.len() < text.lines().count(), "{text}");
    folder.set_query(&lines.join("\n")).unwrap();
    drop(folder);
    for _ in 0..2 {
        let (runtime, _session) = database.open();
        assert_eq!(runtime.state("old"), Ok(QueryState::Failed));
        let reason = runtime.wait("old").unwrap_err().to_string();
        assert!(reason.contains("an earlier version has begun this query"), "{reason}");
        assert!(reason.contains("DROP the query and create it again"), "{reason}");
        assert_eq!(runtime.state("other"), Ok(QueryState::Running));
    }
    let (_runtime, mut session) = database.open();
    define(&mut session, "DROP MATERIALIZED VIEW old");
    assert!(!database.path().join("journal/query-old").exists());
    let definition = "CREATE MATERIALIZED VIEW old WITH (start = 'earliest') AS SELECT count(*) AS n FROM s";
    database.start(&mut session, "old", definition);
    until("it has the rows", || numbers(&mut session, "SELECT n FROM old") == [10]);
}
