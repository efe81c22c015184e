//! Sessions that begin something and then send nothing: what they keep of views that continue counts, and ends them at the limit.

use std::pin::pin;
use std::time::{Duration, Instant};

use crate::support::{PATIENCE, connect, run, serve_runtime, watched};
use futures_util::SinkExt;
use tidemill_engine::MemoryBudget;
use tidemill_server::Server;
use tidemill_service::Runtime;
use tidemill_sql::Planner;
use tokio_postgres::Client;
use tokio_postgres::error::SqlState;

const READERS_BYTES: u64 = 8 << 20;

struct Served {
    server: Server,
    filler: Client,
    /// What readers hold.
    readers: MemoryBudget,
    /// How many rows were sent.
    rows: i64,
}

/// A view that keeps its last 6 MB.
async fn served() -> Served {
    let mut planner = Planner::new();
    let readers = MemoryBudget::of_readers(READERS_BYTES);
    planner.settings_mut().readers_memory = Some(readers.clone());
    let server = serve_runtime(&Runtime::new(planner));
    let filler = connect(&server).await;
    let definitions = "CREATE SOURCE t (n BIGINT, text VARCHAR) WITH (connector = 'push');
        CREATE MATERIALIZED VIEW recent AS SELECT n, text FROM t
            WITH (retain_bytes = '6 MB', retain_versions = 1)";
    filler.batch_execute(definitions).await.unwrap();
    let mut served = Served { server, filler, readers, rows: 0 };
    served.fill().await;
    served
}

impl Served {
    /// Sends 8 MB, after which the view has no row that it had before.
    async fn fill(&mut self) {
        let sink = self.filler.copy_in("COPY t FROM STDIN WITH (FORMAT csv)").await.unwrap();
        let mut sink = pin!(sink);
        let numbers = self.rows..self.rows + 16_000;
        self.rows = numbers.end;
        let text: String = numbers.map(|n| format!("{n},{}\n", "y".repeat(500))).collect();
        sink.send(std::io::Cursor::new(text.into_bytes())).await.unwrap();
        sink.finish().await.unwrap();
        let start = Instant::now();
        while newest(&self.filler).await < self.rows - 1 {
            assert!(start.elapsed() < PATIENCE, "the view is not filled");
        }
    }
}

async fn newest(client: &Client) -> i64 {
    let row = client.query_one("SELECT max(n) AS n FROM recent", &[]).await.unwrap();
    row.get::<_, Option<i64>>(0).unwrap_or(-1)
}

async fn wait_until(what: &str, condition: impl Fn() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < PATIENCE, "{what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[test]
fn what_an_idle_transaction_keeps_counts_until_it_goes_on() {
    run(async {
        let mut served = served().await;
        let client = connect(&served.server).await;
        client.batch_execute("BEGIN").await.unwrap();
        let before = newest(&client).await;
        assert_eq!(served.readers.held(), 0, "it holds what the view has, too");
        served.fill().await;
        wait_until("it counts", || served.readers.held() > 2 << 20).await;
        assert_eq!(newest(&client).await, before, "it reads one cycle");
        client.batch_execute("COMMIT").await.unwrap();
        assert_eq!(served.readers.held(), 0);
        assert_eq!(newest(&client).await, served.rows - 1);
    });
}

#[test]
fn idle_transactions_that_keep_more_than_readers_may_hold_end() {
    run(async {
        let mut served = served().await;
        let others = served.server.sessions();
        let mut idle = Vec::new();
        // Each keeps other rows: 6 MB, of which 8 are allowed.
        for _ in 0..5 {
            let (client, connection) = watched(&served.server).await.unwrap();
            client.batch_execute("BEGIN; SELECT count(*) FROM recent").await.unwrap();
            idle.push((client, connection));
            served.fill().await;
        }
        wait_until("some end", || served.server.sessions() < others + idle.len() - 1).await;
        wait_until("it fits", || served.readers.held() <= READERS_BYTES * 5 / 4).await;
        let (gone, mut left): (Vec<_>, Vec<_>) = idle.into_iter().partition(|(client, _)| client.is_closed());
        assert!((1..5).contains(&gone.len()), "{} of 5", gone.len());
        for (_, connection) in gone {
            let end = connection.await.unwrap().expect_err("the session has ended");
            assert_eq!(end.code(), Some(&SqlState::INSUFFICIENT_RESOURCES), "{end}");
        }
        // Whoever asks is answered.
        assert_eq!(newest(&served.filler).await, served.rows - 1);
        left.clear();
        wait_until("nothing is held", || served.readers.held() == 0).await;
    });
}

#[test]
fn a_cursor_that_outlives_its_transaction_counts_while_nobody_fetches() {
    run(async {
        let mut served = served().await;
        let client = connect(&served.server).await;
        client.batch_execute("DECLARE c CURSOR WITH HOLD FOR SELECT n, text FROM recent").await.unwrap();
        // The first 4 MiB wait in the cursor, and count already.
        let before = served.readers.held();
        assert!(before > 4 << 20, "{before}");
        served.fill().await;
        wait_until("it counts", || served.readers.held() > before + (1 << 18)).await;
        let rows = client.query("FETCH ALL FROM c", &[]).await.unwrap();
        assert_eq!(rows.last().unwrap().get::<_, i64>(0), 15_999, "it has the rows that it began with");
        client.batch_execute("CLOSE c").await.unwrap();
        assert_eq!(served.readers.held(), 0);
    });
}

#[test]
fn a_transaction_that_is_idle_for_too_long_ends() {
    run(async {
        let served = served().await;
        let client = connect(&served.server).await;
        client.batch_execute("SET idle_in_transaction_session_timeout = '50ms'").await.unwrap();
        tokio::time::sleep(Duration::from_millis(200)).await;
        assert_eq!(newest(&client).await, served.rows - 1, "it was in no transaction");
        for beginning in ["BEGIN", "BEGIN; SELECT 1/0 AS wrong FROM nothing"] {
            let (client, connection) = watched(&served.server).await.unwrap();
            client.batch_execute("SET idle_in_transaction_session_timeout = '50ms'").await.unwrap();
            let sessions = served.server.sessions();
            let _ = client.batch_execute(beginning).await;
            wait_until("it ends", || served.server.sessions() < sessions).await;
            assert!(client.query("SELECT 1", &[]).await.is_err(), "{beginning}");
            let end = connection.await.unwrap().expect_err("the session has ended");
            assert_eq!(end.code(), Some(&SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT), "{end}");
        }
        // A statement may take longer than that.
        let client = connect(&served.server).await;
        let long = "SELECT count(*) FROM recent AS a CROSS JOIN (SELECT n FROM recent WHERE n % 50 = 0) AS b";
        let all = format!("SET idle_in_transaction_session_timeout = '1ms'; BEGIN; {long}; COMMIT");
        client.batch_execute(&all).await.unwrap();
        assert_eq!(newest(&client).await, served.rows - 1);
    });
}
