//! The memory of readers: queries that want far more than they may have end with the reason, and the stream keeps what it needs.

use std::thread;

use super::client::Client;
use super::memory::{execute, number};
use super::server::Server;
use crate::support::child::wait_until;
use crate::support::folder_with;

const ROWS: u64 = 100_000;
const ROUNDS: u64 = 5;

/// Two views of 24 MB each, one of them in fragments; and one that rows flow into.
const DEFINITIONS: [&str; 4] = [
    "CREATE MATERIALIZED VIEW large AS SELECT value, repeat('x', 250) AS text FROM sequence(count => 100000)",
    "CREATE MATERIALIZED VIEW divided WITH (key = 'value', fragments = 3) AS SELECT value, repeat('x', 250) AS text \
     FROM sequence(count => 100000)",
    "CREATE SOURCE t (k BIGINT) WITH (connector = 'push')",
    "CREATE MATERIALIZED VIEW counted AS SELECT k % 10 AS key, count(*) AS rows FROM t GROUP BY k % 10",
];

/// Each with the part that needs too much.
const GREEDY: [(&str, &str); 4] = [
    ("SELECT text FROM large ORDER BY text || value DESC", "ORDER BY"),
    ("SELECT array_agg(text) AS texts FROM large", "an aggregate"),
    ("SELECT max(a.text || b.value) AS text FROM large AS a JOIN large AS b ON a.text = b.text", "a join"),
    ("SELECT max(length(text)) AS n FROM divided", "rows of view 'divided'"),
];

/// Answers of several times what readers may hold, which come as they are computed; with their rows.
const LARGE: [(&str, u64); 2] =
    [("SELECT * FROM large", ROWS), ("SELECT value, text FROM large WHERE value % 2 = 0", ROWS / 2)];

/// Asks for too much, several clients at a time, while rows come in.
pub fn check() {
    let folder = folder_with(&[]);
    let server = Server::start(folder.path(), &["--memory", "160 MB", "--readers-memory", "8 MB"]);
    let mut client = server.connect();
    DEFINITIONS.iter().for_each(|definition| execute(&mut client, definition));
    for view in ["large", "divided"] {
        let count = format!("SELECT count(*) AS n FROM {view}");
        wait_until("the view has its rows", || number(&mut client, &count) == ROWS);
    }
    let readers: Vec<_> = GREEDY.iter().map(|greedy| (server.connect(), greedy)).collect();
    let readers = readers.into_iter().map(|(client, greedy)| thread::spawn(move || ask(client, greedy)));
    let readers: Vec<_> = readers.collect();
    let mut sent = 0;
    while sent < 20 || !readers.iter().all(thread::JoinHandle::is_finished) {
        let rows: String = (0..1000).map(|k| format!("{k}\n")).collect();
        assert_eq!(client.copy("COPY t FROM STDIN", &rows).expect("the server answers").error, None);
        sent += 1;
        let sum = "SELECT coalesce(sum(rows), 0) AS n FROM counted";
        wait_until("all rows are counted", || number(&mut client, sum) == sent * 1000);
    }
    readers.into_iter().for_each(|reader| reader.join().expect("a reader does not panic"));
    for (query, rows) in LARGE {
        let found = client.query(query).expect("the server answers");
        assert_eq!((found.error, found.rows.len() as u64), (None, rows), "{query}");
    }
    // Nothing is left of them, and whole views can be read in little memory.
    assert_eq!(number(&mut client, "SELECT max(length(text)) AS n FROM large"), 250);
    let states = client.query("SHOW QUERIES").expect("the server answers").expect("SHOW QUERIES");
    assert!(states.iter().all(|state| !format!("{state:?}").contains("failed")), "{states:?}");
}

fn ask(mut client: Client, (statement, part): &(&str, &str)) {
    for _ in 0..ROUNDS {
        let error = client.query(statement).expect("the server answers").error.unwrap_or_default();
        let is_named = error.contains("53") && error.contains("--readers-memory");
        assert!(is_named && error.contains(part), "{statement}: {error}");
    }
}
