//! Functions that are defined in SQL, in pipelines and databases that are killed and started again.
#![cfg(all(unix, feature = "sql"))]

use std::fs;

use crate::support::child::wait_until;
use crate::support::run::{answer_in_four_runs, expect_other_query};
use crate::support::served::{Served, has_psql};
use crate::support::*;

/// A pipeline whose sink reads a function of rows, which calls one of values.
fn script(factor: u64) -> String {
    format!(
        "CREATE SOURCE orders (id BIGINT, amount BIGINT)
             WITH (path = 'orders.csv', header = true, follow = true, durable = true);
         SET journal = 'journal';
         SET snapshot_every = '20 ms';
         CREATE FUNCTION priced(amount BIGINT) RETURNS BIGINT AS 'amount * {factor}';
         CREATE FUNCTION large(amount BIGINT) RETURNS TABLE (id BIGINT, amount BIGINT) AS
             $$ SELECT id, priced(orders.amount) FROM orders WHERE orders.amount >= amount $$;
         CREATE SINK out AS SELECT id, amount FROM large(50) WITH (path = 'out.csv');\n"
    )
}

fn expected(ids: u64) -> Vec<String> {
    (0..ids).filter(|id| id % 100 >= 50).map(|id| format!("{id},{}", id % 100 * 3)).collect()
}

#[test]
fn a_durable_pipeline_goes_on_with_its_functions_and_not_with_others() {
    let folder = folder_with(&[("orders.csv", "id,amount\n"), ("p.sql", &script(3))]);
    let folder = folder.path();
    let due = answer_in_four_runs(folder, expected);
    // Another body is another query, though the text of the sink is the same.
    fs::write(folder.join("p.sql"), script(4)).unwrap();
    expect_other_query(folder);
    assert_eq!(rows_of(&folder.join("out.csv")), expected(due));
}

#[test]
fn a_killed_database_has_its_functions_and_what_uses_them_again() {
    if !has_psql() {
        return;
    }
    let folder = folder_with(&[("in.csv", "id\n1\n2\n3\n")]);
    let folder = folder.path();
    let mut server = Served::start(folder);
    server.psql(
        "CREATE SOURCE input (id BIGINT) WITH (path = 'in.csv');
         CREATE FUNCTION more(x BIGINT) RETURNS BIGINT AS 'x + 1';
         CREATE FUNCTION from_on(least BIGINT) RETURNS TABLE (id BIGINT) AS
             'SELECT more(id) FROM input WHERE id >= least';
         CREATE MATERIALIZED VIEW v AS SELECT id, more(id) AS m FROM from_on(2);
         CREATE OR REPLACE FUNCTION more(x BIGINT) RETURNS BIGINT AS 'x + 100'",
    );
    let reads = |server: &Served| {
        let asked = "SELECT id, m FROM v ORDER BY 1";
        wait_until("the view is filled", || server.psql(asked) == "3|4\n4|5\n");
        assert_eq!(server.psql("SELECT more(id) FROM v ORDER BY 1"), "103\n104\n");
        let refused = server.psql("DROP FUNCTION more");
        assert!(
            refused.contains("materialized view 'v' and function 'from_on' use function 'more'"),
            "{refused}"
        );
    };
    reads(&server);
    server.kill();
    let mut server = Served::start(folder);
    reads(&server);
    let dropped = server.psql("DROP MATERIALIZED VIEW v; DROP FUNCTION from_on; DROP FUNCTION more");
    assert_eq!(dropped, "DROP MATERIALIZED VIEW\nDROP FUNCTION\nDROP FUNCTION\n");
    server.kill();
    let mut server = Served::start(folder);
    let unknown = server.psql("SELECT more(1)");
    assert!(unknown.contains("unknown function `more`"), "{unknown}");
    server.stop();
}
