//! The memory of views that are dropped: by the limit of the server, which counts what is held, and by what its process has.

use super::client::Client;
use super::server::Server;
use crate::support::child::wait_until;
use crate::support::folder_with;
use tidemill_testing::duckdb::{Row, Value};

/// Of one view; several at a time are more than the server may hold.
const VIEW_BYTES: u64 = 24 << 20;
const ROUNDS: usize = 32;
const ROWS: u64 = 100_000;

/// One that keeps rows, and one that keeps groups.
const QUERIES: [&str; 2] = [
    "SELECT value, repeat('x', 250) AS text FROM sequence(count => 100000)",
    "SELECT value, count(*) AS n, max(repeat('y', 100)) AS text FROM sequence(count => 100000) GROUP BY value",
];

/// Creates and drops views again and again. What a transaction reads goes with the transaction.
pub fn check() {
    let folder = folder_with(&[]);
    let server = Server::start(folder.path(), &["--memory", "160 MB"]);
    let mut client = server.connect();
    let mut after = Vec::new();
    for round in 0..ROUNDS {
        let create = format!("CREATE MATERIALIZED VIEW large AS {}", QUERIES[round % 2]);
        execute(&mut client, &create);
        wait_until("the view has its rows", || {
            number(&mut client, "SELECT count(*) AS n FROM large") == ROWS
        });
        let held = number(&mut client, "SHOW FRAGMENTS");
        assert_eq!(held, ROWS, "the server counts its rows");
        let mut reader = server.connect();
        execute(&mut reader, "BEGIN");
        let sum = "SELECT sum(value) AS n FROM large";
        let before = number(&mut reader, sum);
        execute(&mut client, "DROP MATERIALIZED VIEW large");
        let again = reader.query(sum).expect("the server answers");
        if let Ok(rows) = again.values() {
            assert_eq!(rows[0][0].as_float(), Some(before as f64), "a transaction reads one cycle");
        }
        execute(&mut reader, "ROLLBACK");
        assert!(client.query("SHOW FRAGMENTS").expect("the server answers").rows.is_empty());
        after.push(server.resident_bytes());
    }
    println!("bytes of the process after each round: {after:?}");
    // The allocator keeps more from round to round at first, and now and then a little more later. A view that stays
    // in each round would be 14 views here.
    let least = |rounds: &[u64]| rounds.iter().copied().min().unwrap();
    let (earlier, last) = (least(&after[14..18]), least(&after[28..]));
    assert!(last < earlier + 4 * VIEW_BYTES, "the process grows by a view in each round: {after:?}");
}

pub fn execute(client: &mut Client, statement: &str) {
    let answer = client.query(statement).expect("the server answers");
    assert_eq!(answer.error, None, "{statement}");
}

/// The number in the first row: `SHOW FRAGMENTS` has rows third.
pub fn number(client: &mut Client, statement: &str) -> u64 {
    let rows = client.query(statement).expect("the server answers").expect(statement);
    let number = |row: &Row| match row.get(2) {
        Some(Value::Text(rows)) => rows.parse().expect("a number"),
        _ => row[0].as_float().expect("a number") as u64,
    };
    rows.first().map_or(0, number)
}
