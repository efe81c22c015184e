//! Readers beside the stream: each statement has its time, readers take turns, and neither of those that want everything
//! holds up the others or the stream.

use std::cell::Cell;
use std::io::Write;
use std::net::TcpStream;
use std::time::{Duration, Instant};

use crate::support::{PATIENCE, connect};
use futures_util::future::join_all;
use tidemill_engine::MemoryBudget;
use tidemill_server::{Server, ServerOptions};
use tidemill_service::Runtime;
use tidemill_sql::Planner;
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, NoTls};

/// Four hundred million pairs: nobody waits for the end.
const LONG: &str = "SELECT max(a.value * b.value % 7) AS n FROM many AS a CROSS JOIN many AS b";
/// As many, of which one half comes from a source that ends.
const LONG_AT_END: &str =
    "WITH few AS (SELECT value % 2 AS half, count(*) AS n FROM sequence(count => 40) GROUP BY 1),
        read AS (SELECT few.n + many.value AS value FROM few CROSS JOIN many)
    SELECT max(a.value * b.value % 7) AS n FROM read AS a CROSS JOIN many AS b";

/// A server that has a table of 20,000 rows and a stream, and little memory.
async fn serve() -> (Server, Client) {
    let mut planner = Planner::new();
    planner.settings_mut().memory = MemoryBudget::new(64 << 20);
    let options = ServerOptions { connections_max: 200, ..ServerOptions::default() };
    let server = Server::start(&Runtime::new(planner), "127.0.0.1:0".parse().unwrap(), options).unwrap();
    let client = connect(&server).await;
    let definitions = "CREATE MATERIALIZED VIEW many AS SELECT value FROM sequence(count => 20000);
        CREATE MATERIALIZED VIEW seen AS SELECT count(*) AS n FROM sequence(rate => 100)";
    client.batch_execute(definitions).await.unwrap();
    let start = Instant::now();
    while number(&client, "SELECT count(*) AS n FROM many").await < 20_000 {
        assert!(start.elapsed() < PATIENCE, "the table is not filled");
    }
    (server, client)
}

async fn number(client: &Client, query: &str) -> i64 {
    client.query_opt(query, &[]).await.unwrap().map_or(0, |row| row.get(0))
}

async fn code(client: &Client, query: &str) -> Option<SqlState> {
    client.query(query, &[]).await.err().and_then(|error| error.code().cloned())
}

fn run<T>(test: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(test)
}

#[test]
fn a_statement_that_takes_longer_than_it_may_is_cancelled() {
    run(async {
        let (server, client) = serve().await;
        client.batch_execute("SET statement_timeout = '100ms'").await.unwrap();
        for query in [
            LONG,
            "SELECT value FROM sequence(rate => 10) WHERE value < 0",
            "SELECT (SELECT max(a.value + b.value) FROM many AS a, many AS b) AS most",
            LONG_AT_END,
        ] {
            assert_eq!(code(&client, query).await, Some(SqlState::QUERY_CANCELED), "{query}");
        }
        let error = client.simple_query(LONG).await.unwrap_err();
        let error = error.as_db_error().unwrap();
        assert_eq!(error.message(), "the statement took longer than 100ms and was cancelled");
        assert!(error.hint().unwrap().contains("SET statement_timeout"));
        // It counts for each statement of its own.
        client.batch_execute("SET statement_timeout TO 60000").await.unwrap();
        assert_eq!(client.query_one("SHOW statement_timeout", &[]).await.unwrap().get::<_, &str>(0), "1min");
        assert_eq!(number(&client, "SELECT count(*) AS n FROM many").await, 20_000);
        assert!(client.batch_execute("SET statement_timeout = '5 weeks'").await.is_err());
        client.batch_execute("RESET statement_timeout").await.unwrap();
        // Without a limit somebody can still end it. What comes before the query has begun ends nothing.
        let token = client.cancel_token();
        let query = code(&client, LONG);
        tokio::pin!(query);
        let found = loop {
            tokio::select! {
                found = &mut query => break found,
                () = tokio::time::sleep(Duration::from_millis(100)) => token.cancel_query(NoTls).await.unwrap(),
            }
        };
        assert_eq!(found, Some(SqlState::QUERY_CANCELED));
        drop(server);
    });
}

#[test]
fn what_waits_behind_others_is_cancelled_by_one_request() {
    run(async {
        let (server, client) = serve().await;
        const CLIENTS: usize = 40; // many more than are begun at once
        const ROUNDS_MAX: usize = 6;
        let clients = join_all((0..CLIENTS).map(|_| connect(&server))).await;
        let tokens: Vec<_> = clients.iter().map(Client::cancel_token).collect();
        let ended = Cell::new(0);
        let ask = async |client| {
            let code = code(client, LONG).await;
            ended.set(ended.get() + 1);
            code
        };
        let asked = join_all(clients.iter().map(ask));
        let cancel = async || {
            for token in &tokens {
                token.cancel_query(NoTls).await.unwrap();
            }
        };
        let cancelled = async {
            // Requests that overtake their queries cancel nothing, but those of a later round cannot. If only queries that
            // have begun could be cancelled, each round would end only as many as there are slots.
            for round in 1.. {
                assert!(round <= ROUNDS_MAX, "{} of {CLIENTS} were cancelled", ended.get());
                tokio::time::sleep(Duration::from_millis(20)).await;
                cancel().await;
                let start = Instant::now();
                while ended.get() < CLIENTS && start.elapsed() < Duration::from_secs(2) {
                    tokio::time::sleep(Duration::from_millis(10)).await;
                }
                if ended.get() == CLIENTS {
                    break;
                }
            }
        };
        let (codes, ()) = futures_util::future::join(asked, cancelled).await;
        assert!(codes.iter().all(|code| *code == Some(SqlState::QUERY_CANCELED)), "{codes:?}");
        assert_eq!(number(&client, "SELECT count(*) AS n FROM many").await, 20_000);
        drop(server);
    });
}

#[test]
fn a_hundred_clients_get_their_answers_beside_those_that_want_everything() {
    run(async {
        let (server, client) = serve().await;
        let mut tasks = Vec::new();
        // More long queries than there are processors.
        for _ in 0..6 {
            let long = connect(&server).await;
            let ended = async move { long.query(LONG, &[]).await.err().map(|error| error.code().cloned()) };
            tasks.push(tokio::spawn(ended));
        }
        // Some read nothing.
        let mut unread = Vec::new();
        for _ in 0..4 {
            let mut stream = TcpStream::connect(server.address()).unwrap();
            stream.write_all(b"\0\0\0\x11\0\x03\0\0user\0me\0\0").unwrap();
            let query = b"SELECT a.value, b.value FROM many AS a CROSS JOIN many AS b LIMIT 200000\0";
            stream.write_all(&[&b"Q"[..], &(query.len() as u32 + 4).to_be_bytes(), query].concat()).unwrap();
            unread.push(stream);
        }
        let hungry = connect(&server).await;
        let all = "SELECT lpad(CAST(a.value AS VARCHAR), 1000, 'x') AS text FROM many AS a CROSS JOIN many AS b \
                   ORDER BY text";
        let hungry = tokio::spawn(async move { code(&hungry, all).await });
        let before = number(&client, "SELECT n FROM seen").await;
        let mut short = Vec::new();
        for _ in 0..90 {
            short.push(connect(&server).await);
        }
        let asked = short
            .iter()
            .map(|client| number(client, "SELECT max(value) AS most FROM many WHERE value < 100"));
        assert_eq!(join_all(asked).await, vec![99; 90]);
        assert_eq!(hungry.await.unwrap(), Some(SqlState::INSUFFICIENT_RESOURCES));
        let start = Instant::now();
        while number(&client, "SELECT n FROM seen").await <= before + 10 {
            assert!(start.elapsed() < PATIENCE, "the stream stands still");
        }
        assert!(tasks.iter().all(|task| !task.is_finished()), "the long ones are still computed");
        drop(unread);
        tokio::task::spawn_blocking(move || server.stop()).await.unwrap();
        for task in tasks {
            // A connection whose session has not ended after two seconds is closed silently.
            let ended = task.await.unwrap();
            assert!([Some(None), Some(Some(SqlState::ADMIN_SHUTDOWN))].contains(&ended), "{ended:?}");
        }
    });
}
