//! Sessions without a request: they have no threads, and are the same when their clients continue.
//!
//! It is a process of its own: what it counts is nobody else's.

#[path = "integration/support/mod.rs"]
mod support;

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use support::{PATIENCE, serve_with};
use tidemill_server::{Server, ServerOptions};
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, Config, NoTls};

/// More than there are threads that answer.
fn clients_wanted() -> usize {
    20 + threads_that_stay()
}

/// How many threads wait for what clients may ask: two for each processor.
fn threads_that_stay() -> usize {
    2 * thread::available_parallelism().map_or(2, usize::from)
}

async fn connect(server: &Server, application: &str) -> Client {
    let mut config = Config::new();
    config.host("127.0.0.1").port(server.address().port()).user("me").dbname("db");
    config.application_name(application);
    let (client, connection) = config.connect(NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

/// The threads of this process that read what clients send, and that answer.
fn threads_of_clients() -> usize {
    let names = fs::read_dir("/proc/self/task").unwrap().filter_map(|task| {
        // A thread may end meanwhile.
        fs::read_to_string(task.unwrap().path().join("comm")).ok()
    });
    names.filter(|name| matches!(name.trim_end(), "read clients" | "answer clients")).count()
}

/// Waits until no sessions have threads but so many.
async fn until_idle(sessions: usize) {
    let start = Instant::now();
    while threads_of_clients() > 1 + threads_that_stay() + sessions {
        assert!(start.elapsed() < PATIENCE, "{} threads are left", threads_of_clients());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

async fn text(client: &Client, query: &str) -> String {
    client.query_one(query, &[]).await.unwrap().get(0)
}

#[test]
fn sessions_without_requests_have_no_threads_and_stay_apart() {
    let server = serve_with(ServerOptions { connections_max: 1000, ..ServerOptions::default() });
    let count = clients_wanted();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let mut clients = Vec::new();
        for number in 0..count {
            let client = connect(&server, &format!("app {number}")).await;
            client.batch_execute(&format!("SET partitions = {}", number + 1)).await.unwrap();
            client.batch_execute(&format!("PREPARE mine AS SELECT {number} AS n")).await.unwrap();
            let by_protocol = client.prepare("SELECT CAST($1 AS BIGINT) + 1 AS n").await.unwrap();
            clients.push((client, by_protocol));
        }
        // A transaction keeps its thread, and what it has read.
        let open = connect(&server, "in a transaction").await;
        open.batch_execute("BEGIN; SET LOCAL application_name = 'within'").await.unwrap();
        until_idle(1).await;
        assert_eq!(server.sessions(), count + 1);
        for round in 0..2 {
            for (number, (client, by_protocol)) in clients.iter().enumerate() {
                assert_eq!(text(client, "SHOW application_name").await, format!("app {number}"), "{round}");
                let n: i64 = client.query_one("EXECUTE mine", &[]).await.unwrap().get(0);
                assert_eq!(n, number as i64);
                let n: i64 = client.query_one(by_protocol, &[&40_i64]).await.unwrap().get(0);
                assert_eq!(n, 41);
                let settings = client.query("SHOW SETTINGS", &[]).await.unwrap();
                let partitions = settings.iter().find(|row| row.get::<_, &str>(0) == "partitions").unwrap();
                assert_eq!(partitions.get::<_, &str>(1), (number + 1).to_string());
            }
            until_idle(1).await;
        }
        assert_eq!(text(&open, "SHOW application_name").await, "within");
        open.batch_execute("COMMIT").await.unwrap();
        until_idle(0).await;

        // What a session that rests has to be told reaches it.
        let asking = connect(&server, "asking").await;
        let pid: i64 = asking
            .query_one("SELECT pid FROM pg_stat_activity WHERE application_name = 'app 3'", &[])
            .await
            .unwrap()
            .get(0);
        asking.query_one(&format!("SELECT pg_terminate_backend({pid})"), &[]).await.unwrap();
        let ended = clients.swap_remove(3);
        let error = ended.0.batch_execute("SELECT 1").await.unwrap_err();
        assert!(error.is_closed() || error.code() == Some(&SqlState::ADMIN_SHUTDOWN), "{error}");
        // Two are asking and in no transaction any more, and two of the others are gone.
        let gone = clients.swap_remove(5);
        drop(gone);
        let start = Instant::now();
        while server.sessions() != count {
            assert!(start.elapsed() < PATIENCE, "there are {} sessions", server.sessions());
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        server.stop();
        for (client, _) in &clients {
            let error = client.batch_execute("SELECT 1").await.unwrap_err();
            assert!(error.is_closed() || error.code() == Some(&SqlState::ADMIN_SHUTDOWN), "{error}");
        }
    });
}
