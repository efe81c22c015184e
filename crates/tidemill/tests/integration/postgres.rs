//! Typed streams into a table of a real PostgreSQL server.

use std::path::Path;

use tidemill::aggregate::sum;
use tidemill::{Engine, Query, RowSource, sinks};
use tidemill_testing::postgres::Server;

/// Numbers into one table, and the sum of each key into another one.
fn sums(server: &Server, folder: &Path) -> (Query, RowSource<(String, i64)>) {
    let mut query = Query::new("sums").durable(folder);
    let numbers = query.rows::<(String, i64)>("numbers", ["key", "number"]);
    numbers.to("numbers", sinks::postgres(&server.url(), "numbers"));
    let sums = numbers.key_by("key").aggregate([sum("number").named("total")]);
    sums.to("sums", sinks::postgres(&server.url(), "sums"));
    (query, numbers)
}

fn row(key: &str, number: i64) -> (String, i64) {
    (key.to_owned(), number)
}

#[test]
fn a_table_has_each_row_once_and_follows_the_totals() {
    let Some(server) = Server::start() else { return };
    let folder = tempfile::tempdir().unwrap();
    for rows in [[row("a", 1), row("b", 2)], [row("a", 10), row("c", 5)], [row("c", 1), row("a", 100)]] {
        let (query, numbers) = sums(&server, folder.path());
        let run = Engine::new().workers(2).start(query).unwrap();
        run.input(&numbers).unwrap().push(rows).unwrap();
        run.stop().unwrap();
    }
    assert_eq!(server.query("SELECT key, total FROM sums ORDER BY key"), "a|111\nb|2\nc|6");
    let all = "SELECT count(*), count(DISTINCT (key, number)), sum(number) FROM numbers";
    assert_eq!(server.query(all), "6|6|119");
    assert_eq!(server.query("SELECT count(*) FROM tidemill_commits"), "2");
}

#[test]
fn a_second_run_does_not_take_the_table_from_the_first_one() {
    let Some(server) = Server::start() else { return };
    let folder = tempfile::tempdir().unwrap();
    let (query, numbers) = sums(&server, folder.path());
    let run = Engine::new().start(query).unwrap();
    let input = run.input(&numbers).unwrap();
    input.push([row("a", 1)]).unwrap();
    let second = Engine::new().start(sums(&server, folder.path()).0).err().unwrap().to_string();
    assert!(second.contains("another process is running this query"), "{second}");
    // The first one still has the name under which the database records its commits.
    input.push([row("a", 2)]).unwrap();
    run.stop().unwrap();
    assert_eq!(server.query("SELECT total FROM sums"), "3");
}

#[test]
fn what_the_database_refuses_at_the_start_is_reported_with_the_sink() {
    let Some(server) = Server::start() else { return };
    server.query("CREATE TABLE strings (number text)");
    let mut query = Query::new("strings");
    query.rows::<(i64,)>("numbers", "number").to("to strings", sinks::postgres(&server.url(), "strings"));
    let error = Engine::new().start(query).err().unwrap().to_string();
    assert!(error.starts_with("sink 'to strings': ") && error.contains("number"), "{error}");
}
