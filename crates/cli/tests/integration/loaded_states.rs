//! Aggregates and functions of rows whose code is loaded: in pipelines and databases that are killed and started
//! again, over processes, and in the past of a pipeline.
#![cfg(all(unix, feature = "sql"))]

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::Path;

use crate::support::child::wait_until;
use crate::support::run::{answer_in_four_runs, expect_other_query};
use crate::support::served::{Served, has_psql};
use crate::support::*;

const MEAN: &str = include_str!("../../../wasm/tests/integration/mean.wat");
const RISES: &str = include_str!("../../../wasm/tests/integration/rises.wat");

const DEFINITIONS: &str =
    "CREATE AGGREGATE average (value DOUBLE) RETURNS DOUBLE STATE (count BIGINT, sum DOUBLE)
         LANGUAGE wasm AS 'mean.wat', 'mean';
     CREATE FUNCTION rises (input TABLE (key BIGINT, value BIGINT)) RETURNS TABLE (value BIGINT, rises BIGINT)
         PARTITION BY key STATE (last BIGINT, count BIGINT) LANGUAGE wasm AS 'rises.wat';\n";

/// By a loop: the values that are larger than the last one of their key, with the number of rises of the key.
fn rises(rows: impl Iterator<Item = (u64, u64)>) -> Vec<(u64, u64, u64)> {
    let mut keys: BTreeMap<u64, (u64, u64)> = BTreeMap::new();
    let mut given = Vec::new();
    for (key, value) in rows {
        match keys.get_mut(&key) {
            Some((last, count)) => {
                if value > *last {
                    *count += 1;
                    given.push((key, value, *count));
                }
                *last = value;
            }
            None => drop(keys.insert(key, (value, 0))),
        }
    }
    given
}

fn orders(ids: u64) -> impl Iterator<Item = (u64, u64)> {
    (0..ids).map(|id| (id % 7, id % 100))
}

fn expected(ids: u64) -> Vec<String> {
    rises(orders(ids)).into_iter().map(|(_, value, count)| format!("{value},{count}")).collect()
}

#[test]
fn a_durable_pipeline_continues_with_the_states_of_its_keys() {
    let script = format!(
        "CREATE SOURCE orders (id BIGINT, amount BIGINT)
             WITH (path = 'orders.csv', header = true, follow = true, durable = true);
         SET journal = 'journal';
         SET snapshot_every = '20 ms';
         {DEFINITIONS}
         CREATE SINK out AS SELECT value, rises FROM rises((SELECT id % 7 AS key, amount AS value FROM orders))
             WITH (path = 'out.csv');\n"
    );
    let folder = folder_with(&[
        ("orders.csv", "id,amount\n"),
        ("p.sql", &script),
        ("mean.wat", MEAN),
        ("rises.wat", RISES),
    ]);
    let folder = folder.path();
    let due = answer_in_four_runs(folder, expected);
    // What is held for a key after the last cycle.
    let look = "SELECT key, last, count FROM state_of('1 rises') WHERE key = 3";
    let shown =
        ended(folder, &["journal", "replay", "journal", "--script", "p.sql", "--look", look]).expect(0);
    let count = rises(orders(due)).into_iter().filter(|rise| rise.0 == 3).count();
    let last = orders(due).filter(|order| order.0 == 3).last().unwrap().1;
    let wanted = format!("  3 | {last:>4} | {count:>5}");
    assert!(shown.stdout.contains(&wanted), "{wanted}\n{}", shown.stdout);
    // The script is the same, but the code is not.
    fs::write(folder.join("rises.wat"), RISES.replace("(i64.const -100)", "(i64.const -50)")).unwrap();
    expect_other_query(folder);
    assert_eq!(rows_of(&folder.join("out.csv")), expected(due));
}

fn append(path: &Path, lines: String) {
    let mut file = OpenOptions::new().append(true).open(path).unwrap();
    file.write_all(lines.as_bytes()).unwrap();
}

#[test]
fn a_killed_database_has_the_states_again() {
    if !has_psql() {
        return;
    }
    let folder = folder_with(&[("orders.csv", ""), ("mean.wat", MEAN), ("rises.wat", RISES)]);
    let folder = folder.path();
    let mut server = Served::start(folder);
    let done = |told: String| assert!(!told.contains("ERROR"), "{told}");
    done(server.psql(DEFINITIONS));
    done(server.psql(
        "CREATE SOURCE orders (id BIGINT, amount BIGINT) WITH (path = 'orders.csv', follow = true, durable = true);
         CREATE MATERIALIZED VIEW means AS SELECT id % 7 AS key, average(amount) AS mean FROM orders GROUP BY id % 7;
         CREATE MATERIALIZED VIEW risen AS
             SELECT value, rises FROM rises((SELECT id % 7 AS key, amount AS value FROM orders))",
    ));
    fs::remove_file(folder.join("mean.wat")).unwrap();
    fs::remove_file(folder.join("rises.wat")).unwrap();
    let mut ids = 0;
    for _ in 0..3 {
        append(
            &folder.join("orders.csv"),
            (ids..ids + 500).map(|id| format!("{id},{}\n", id % 100)).collect(),
        );
        ids += 500;
        let means: String = (0..7)
            .map(|key| {
                let values: Vec<u64> =
                    orders(ids).filter(|order| order.0 == key).map(|order| order.1).collect();
                let mean = values.iter().sum::<u64>() as f64 / values.len() as f64;
                format!("{key}|{}\n", (mean * 1000.0).round() as i64)
            })
            .collect();
        let risen: String = {
            let mut risen: Vec<_> =
                rises(orders(ids)).into_iter().map(|(_, value, count)| (count, value)).collect();
            risen.sort_unstable();
            risen.into_iter().map(|(count, value)| format!("{count}|{value}\n")).collect()
        };
        wait_until("the means are there", || {
            server.psql("SELECT key, CAST(round(mean * 1000) AS BIGINT) FROM means ORDER BY key") == means
        });
        wait_until("the rises are there", || {
            server.psql("SELECT rises, value FROM risen ORDER BY rises, value") == risen
        });
        server.kill();
        server = Served::start(folder);
    }
    assert!(server.psql(r"\da").contains("average"), "{}", server.psql(r"\da"));
    let refused = server.psql("DROP AGGREGATE average");
    assert!(refused.contains("materialized view 'means' uses function 'average'"), "{refused}");
    assert_eq!(
        server.psql("DROP MATERIALIZED VIEW means; DROP MATERIALIZED VIEW risen; DROP AGGREGATE average"),
        "DROP MATERIALIZED VIEW\nDROP MATERIALIZED VIEW\nDROP FUNCTION\n"
    );
    server.stop();
}

#[test]
fn the_same_with_any_number_of_processes_and_workers() {
    let rows: String = orders(3000).map(|(key, value)| format!("{key},{value}\n")).collect();
    let folder =
        folder_with(&[("rows.csv", &format!("key,value\n{rows}")), ("mean.wat", MEAN), ("rises.wat", RISES)]);
    let script = format!(
        "CREATE SOURCE rows (key BIGINT, value BIGINT) WITH (path = 'rows.csv', header = true);
         {DEFINITIONS}
         CREATE SINK risen AS SELECT value, rises FROM rises(TABLE(rows)) WITH (path = 'risen.csv', overwrite = true);
         CREATE SINK out AS SELECT key, average(value) AS m FROM rows GROUP BY key
             WITH (path = 'out.csv', overwrite = true);"
    );
    fs::write(folder.path().join("p.sql"), script).unwrap();
    let mut wanted: Vec<String> =
        rises(orders(3000)).into_iter().map(|(_, value, count)| format!("{value},{count}")).collect();
    wanted.sort();
    let mut means = Vec::new();
    for arguments in [vec!["--processes", "1"], vec!["--processes", "2"], vec!["--workers", "3"]] {
        let arguments: Vec<&str> = ["run", "p.sql"].into_iter().chain(arguments).collect();
        ended(folder.path(), &arguments).expect(0);
        let sorted = |name: &str| {
            let mut rows = rows_of(&folder.path().join(name));
            rows.sort();
            rows
        };
        assert_eq!(sorted("risen.csv"), wanted, "{arguments:?}");
        means.push(sorted("out.csv"));
    }
    assert!(means[0].len() == 7 && means.windows(2).all(|pair| pair[0] == pair[1]), "{means:?}");
}

#[test]
fn a_trap_costs_a_row_or_a_result_and_a_limit_ends_the_query() {
    let folder = folder_with(&[
        ("rows.csv", "key,value\n1,5\n2,3\n1,-500\n1,6\n2,2\n3,8\n"),
        ("mean.wat", MEAN),
        ("rises.wat", RISES),
    ]);
    let run = |definitions: &str, query: &str| {
        let script = format!(
            "CREATE SOURCE rows (key BIGINT, value BIGINT) WITH (path = 'rows.csv', header = true);
             {definitions}
             CREATE SINK out AS {query} WITH (path = 'out.csv', overwrite = true);"
        );
        fs::write(folder.path().join("p.sql"), script).unwrap();
        ended(folder.path(), &["run", "p.sql"])
    };
    let out = || {
        let mut rows = rows_of(&folder.path().join("out.csv"));
        rows.sort();
        rows
    };
    run(DEFINITIONS, "SELECT value, rises FROM rises(TABLE(rows))")
        .expect(0)
        .tells(&["rises: the code gave up", "key: 1, value: -500"]);
    assert_eq!(out(), ["6,1"]);
    run(DEFINITIONS, "SELECT key, average(value) AS m FROM rows GROUP BY key")
        .expect(0)
        .tells(&["average(rows.value) is NULL for key: 1", "average: the code gave up"]);
    assert_eq!(out(), ["1,", "2,2.5", "3,8.0"]);
    let little = DEFINITIONS
        .replace(".wat', 'mean'", ".wat', 'mean' WITH (fuel = 5)")
        .replace("'rises.wat'", "'rises.wat' WITH (fuel = 5)");
    for (query, name) in [
        ("SELECT value, rises FROM rises(TABLE(rows))", "rises"),
        ("SELECT key, average(value) AS m FROM rows GROUP BY key", "average"),
    ] {
        let ended = run(&little, query);
        assert!(ended.code.is_some_and(|code| code != 0), "{query}: {:?} {}", ended.code, ended.stderr);
        ended.tells(&[&format!("{name}: a call takes more than 5 units of fuel")]);
    }
}
