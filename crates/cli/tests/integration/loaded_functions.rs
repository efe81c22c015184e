//! Functions whose code is loaded: in scripts, in pipelines and databases that are killed and started again, beyond limits.
#![cfg(all(unix, feature = "sql"))]

use std::fs;

use crate::support::child::wait_until;
use crate::support::run::{answer_in_four_runs, expect_other_query};
use crate::support::served::{Served, has_psql};
use crate::support::*;

/// Multiplies by a number.
fn module(factor: u64) -> String {
    format!(
        r#"(module
            (func (export "times") (param i64) (result i64) (i64.mul (local.get 0) (i64.const {factor})))
            (func (export "ratio") (param i64 i64) (result i64) (i64.div_s (local.get 0) (local.get 1)))
            (func (export "endless") (param i64) (result i64)
                (if (i64.ge_s (local.get 0) (i64.const 3)) (then (loop $again (br $again))))
                (local.get 0)))"#
    )
}

const SCRIPT: &str = "CREATE SOURCE orders (id BIGINT, amount BIGINT)
         WITH (path = 'orders.csv', header = true, follow = true, durable = true);
     SET journal = 'journal';
     SET snapshot_every = '20 ms';
     CREATE FUNCTION times(amount BIGINT) RETURNS BIGINT LANGUAGE wasm AS 'code.wat';
     CREATE FUNCTION priced(amount BIGINT) RETURNS BIGINT AS 'times(amount) + 1';
     CREATE SINK out AS SELECT id, priced(amount) AS price FROM orders WITH (path = 'out.csv');\n";

fn expected(ids: u64) -> Vec<String> {
    (0..ids).map(|id| format!("{id},{}", id % 100 * 3 + 1)).collect()
}

#[test]
fn a_durable_pipeline_goes_on_with_its_code_and_not_with_other() {
    let folder = folder_with(&[("orders.csv", "id,amount\n"), ("p.sql", SCRIPT), ("code.wat", &module(3))]);
    let folder = folder.path();
    let due = answer_in_four_runs(folder, expected);
    // The script is the same, but the code is not.
    fs::write(folder.join("code.wat"), module(4)).unwrap();
    expect_other_query(folder);
    assert_eq!(rows_of(&folder.join("out.csv")), expected(due));
}

#[test]
fn a_killed_database_has_the_code_again_without_its_file() {
    if !has_psql() {
        return;
    }
    let folder = folder_with(&[("in.csv", "id\n1\n2\n3\n"), ("code.wat", &module(3))]);
    let folder = folder.path();
    let mut server = Served::start(folder);
    server.psql(
        "CREATE SOURCE input (id BIGINT) WITH (path = 'in.csv');
         CREATE FUNCTION times(x BIGINT) RETURNS BIGINT LANGUAGE wasm AS 'code.wat';
         CREATE MATERIALIZED VIEW v AS SELECT id, times(id) AS t FROM input",
    );
    fs::write(folder.join("code.wat"), module(1000)).unwrap();
    server.psql("CREATE OR REPLACE FUNCTION times(x BIGINT) RETURNS BIGINT LANGUAGE wasm AS 'code.wat'");
    fs::remove_file(folder.join("code.wat")).unwrap();
    let reads = |server: &Served| {
        let asked = "SELECT id, t, times(id) FROM v ORDER BY 1";
        wait_until("the view is filled", || server.psql(asked) == "1|3|1000\n2|6|2000\n3|9|3000\n");
        let refused = server.psql("DROP FUNCTION times");
        assert!(refused.contains("materialized view 'v' uses function 'times'"), "{refused}");
        let missing = server.psql("CREATE FUNCTION f(x BIGINT) RETURNS BIGINT LANGUAGE wasm AS 'code.wat'");
        assert!(missing.contains("'code.wat' cannot be read"), "{missing}");
    };
    reads(&server);
    assert!(server.psql(r"\df").contains("times|bigint|x bigint"), "{}", server.psql(r"\df"));
    server.kill();
    let mut server = Served::start(folder);
    reads(&server);
    assert_eq!(
        server.psql("DROP MATERIALIZED VIEW v; DROP FUNCTION times"),
        "DROP MATERIALIZED VIEW\nDROP FUNCTION\n"
    );
    server.stop();
}

const ROWS: &str = "n,d\n1,1\n2,0\n3,1\n4,2\n";

#[test]
fn a_trap_costs_its_row_and_a_limit_ends_the_query() {
    let folder = folder_with(&[("rows.csv", ROWS), ("code.wat", &module(1))]);
    let run = |query: &str| {
        let script = format!(
            "CREATE SOURCE rows (n BIGINT, d BIGINT) WITH (path = 'rows.csv', header = true);
             CREATE FUNCTION ratio(n BIGINT, d BIGINT) RETURNS BIGINT LANGUAGE wasm AS 'code.wat';
             CREATE FUNCTION endless(n BIGINT) RETURNS BIGINT LANGUAGE wasm AS 'code.wat' WITH (fuel = 100000);
             CREATE SINK out AS {query} WITH (path = 'out.csv', overwrite = true);"
        );
        fs::write(folder.path().join("p.sql"), script).unwrap();
        ended(folder.path(), &["run", "p.sql"])
    };
    run("SELECT n, ratio(n, d) AS r FROM rows")
        .expect(0)
        .tells(&["ratio: the code divides an integer by zero", "n: 2, d: 0"]);
    assert_eq!(rows_of(&folder.path().join("out.csv")), ["1,1", "3,3", "4,2"]);
    for query in [
        "SELECT endless(n) AS e FROM rows",
        "SELECT n FROM rows WHERE endless(n) > 1",
        "SELECT sum(endless(n)) AS e FROM rows",
        "SELECT a.n FROM rows AS a JOIN rows AS b ON a.n = b.n AND endless(a.n) > b.d",
    ] {
        let ended = run(query);
        assert!(ended.code.is_some_and(|code| code != 0), "{query}: {:?} {}", ended.code, ended.stderr);
        ended.tells(&["endless: a call takes more than 100000 units of fuel"]);
    }
}

#[test]
fn the_same_with_any_number_of_processes() {
    let rows: String = (0..2000).map(|n| format!("{n},{}\n", n % 7 + 1)).collect();
    let folder = folder_with(&[("rows.csv", &format!("n,d\n{rows}")), ("code.wat", &module(5))]);
    let script = "CREATE SOURCE rows (n BIGINT, d BIGINT) WITH (path = 'rows.csv', header = true);
         CREATE FUNCTION times(n BIGINT) RETURNS BIGINT LANGUAGE wasm AS 'code.wat';
         CREATE FUNCTION ratio(n BIGINT, d BIGINT) RETURNS BIGINT LANGUAGE wasm AS 'code.wat';
         CREATE SINK out AS SELECT d, max(ratio(times(n), d)) AS r FROM rows GROUP BY d
             WITH (path = 'out.csv', overwrite = true);";
    let results: Vec<Vec<String>> = ["1", "2"]
        .map(|processes| {
            fs::write(folder.path().join("p.sql"), script).unwrap();
            ended(folder.path(), &["run", "p.sql", "--processes", processes]).expect(0);
            let mut rows = rows_of(&folder.path().join("out.csv"));
            rows.sort();
            rows
        })
        .into();
    assert!(!results[0].is_empty());
    assert_eq!(results[0], results[1]);
}
