//! Answers that are larger than what readers may hold: their rows come as they are computed, all of one cycle.

use std::pin::pin;
use std::time::{Duration, Instant};

use crate::support::{PATIENCE, connect, run, send, serve_http, serve_runtime, start, wait_until};
use futures_util::{StreamExt, TryStreamExt};
use tidemill_engine::MemoryBudget;
use tidemill_server::{HttpOptions, Server};
use tidemill_service::Runtime;
use tidemill_sql::Planner;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, SimpleQueryMessage};

const ROWS: i64 = 100_000;
/// 26 MB, in a server whose readers may hold 8.
const ALL: &str = "SELECT value, text FROM large";

struct Served {
    server: Server,
    runtime: Runtime,
    client: Client,
    /// What readers hold.
    readers: MemoryBudget,
}

async fn served() -> Served {
    let mut planner = Planner::new();
    let readers = MemoryBudget::of_readers(8 << 20);
    planner.settings_mut().readers_memory = Some(readers.clone());
    let runtime = Runtime::new(planner);
    let definition = format!(
        "CREATE MATERIALIZED VIEW large AS SELECT value, repeat('x', 250) AS text FROM sequence(count => {ROWS})"
    );
    start(&runtime, "large", &definition);
    let server = serve_runtime(&runtime);
    let client = connect(&server).await;
    let start = Instant::now();
    while number(&client, "SELECT count(*) AS n FROM large").await < ROWS {
        assert!(start.elapsed() < PATIENCE, "the view is not filled");
    }
    Served { server, runtime, client, readers }
}

async fn number(client: &Client, query: &str) -> i64 {
    client.query_opt(query, &[]).await.unwrap().and_then(|row| row.get(0)).unwrap_or(0)
}

/// The sum of what the view has.
fn sum() -> i64 {
    ROWS * (ROWS - 1) / 2
}

fn nothing() -> std::iter::Empty<&'static (dyn ToSql + Sync)> {
    std::iter::empty()
}

#[test]
fn all_rows_come_by_each_way_to_ask() {
    run(async {
        let Served { server: _server, mut client, readers, .. } = served().await;
        // The extended protocol, row by row; planned for these values, and with a plan that is kept.
        for least in [0_i64, 10, 20] {
            let rows =
                client.query_raw("SELECT value, text FROM large WHERE value >= $1", [least]).await.unwrap();
            let values: Vec<i64> = rows.map_ok(|row| row.get::<_, i64>(0)).try_collect().await.unwrap();
            assert!(values.iter().copied().eq(least..ROWS), "from {least} on");
        }
        // The simple protocol.
        let messages = client.simple_query(ALL).await.unwrap();
        let rows = messages.iter().filter_map(|message| match message {
            SimpleQueryMessage::Row(row) => row.get(0),
            _ => None,
        });
        assert_eq!(rows.map(|value| value.parse::<i64>().unwrap()).sum::<i64>(), sum());
        // A copy.
        let copied = client.copy_out(&format!("COPY ({ALL}) TO STDOUT")).await.unwrap();
        let bytes: Vec<_> = copied.try_collect().await.unwrap();
        let lines = bytes.iter().flat_map(|piece| piece.iter()).filter(|byte| **byte == b'\n').count();
        assert_eq!(lines as i64, ROWS);
        // A portal, some rows at a time.
        let transaction = client.transaction().await.unwrap();
        let portal = transaction.bind(ALL, &[]).await.unwrap();
        let (mut found, mut pieces) = (0, 0);
        loop {
            let rows = transaction.query_portal(&portal, 7000).await.unwrap();
            found += rows.iter().map(|row| row.get::<_, i64>(0)).sum::<i64>();
            pieces += 1;
            if rows.len() < 7000 {
                break;
            }
        }
        assert_eq!((found, pieces), (sum(), 15));
        transaction.commit().await.unwrap();
        // A cursor that outlives its transaction, with other queries in between.
        client.batch_execute(&format!("DECLARE c CURSOR WITH HOLD FOR {ALL}")).await.unwrap();
        let mut found = 0;
        loop {
            let rows = client.query("FETCH 30000 FROM c", &[]).await.unwrap();
            if rows.is_empty() {
                break;
            }
            found += rows.iter().map(|row| row.get::<_, i64>(0)).sum::<i64>();
            assert_eq!(number(&client, "SELECT max(value) AS n FROM large").await, ROWS - 1);
        }
        assert_eq!(found, sum());
        client.batch_execute("CLOSE c").await.unwrap();
        assert_eq!(readers.held(), 0);
    });
}

#[test]
fn all_rows_come_by_http() {
    let Served { server: _server, runtime, readers, .. } = run(served());
    let http = serve_http(&runtime, HttpOptions::default());
    let request = format!(
        "POST /query HTTP/1.1\r\nHost: localhost\r\nAccept: text/csv\r\nContent-Length: {}\r\n\
         Connection: close\r\n\r\n{ALL}",
        ALL.len()
    );
    let answer = send(http.address(), &request);
    assert_eq!(answer.status, 200);
    let value = |line: &str| line.split(',').next().and_then(|value| value.parse::<i64>().ok());
    assert_eq!(answer.body.lines().filter_map(value).sum::<i64>(), sum());
    wait_until("the end of the query", || readers.held() == 0);
}

#[test]
fn what_has_to_be_held_as_a_whole_is_refused_as_before() {
    run(async {
        let Served { server: _server, client, readers, .. } = served().await;
        let error = client.query(&format!("{ALL} ORDER BY text || value DESC"), &[]).await.unwrap_err();
        assert_eq!(error.code(), Some(&SqlState::INSUFFICIENT_RESOURCES), "{error}");
        assert_eq!(readers.held(), 0);
    });
}

#[test]
fn an_error_behind_many_rows_and_a_cancelled_answer_end_with_their_reasons() {
    run(async {
        let Served { server: _server, client, readers, .. } = served().await;
        let always_wrong =
            format!("SELECT CAST(text || CAST(value / {} AS VARCHAR) AS BIGINT) AS n FROM large", ROWS - 1);
        let expected = client.query(&format!("{always_wrong} LIMIT 1"), &[]).await.unwrap_err();
        let wrong = format!(
            "SELECT text, CASE WHEN value = {} THEN CAST(text AS BIGINT) ELSE value END AS n FROM large",
            ROWS - 1
        );
        let mut rows = pin!(client.query_raw(&wrong, nothing()).await.unwrap());
        let (mut given, mut error) = (0, None);
        while let Some(row) = rows.next().await {
            match row {
                Ok(_) => given += 1,
                Err(failed) => error = Some(failed),
            }
        }
        let error = error.expect("the last row is wrong");
        assert_eq!(error.code(), expected.code(), "{error}");
        assert!(given > ROWS / 2 && given < ROWS, "{given} rows came");
        // Ten thousand million rows: nobody waits for the end.
        client.batch_execute("SET statement_timeout = '500ms'").await.unwrap();
        let pairs = "SELECT a.value FROM large AS a CROSS JOIN large AS b";
        let rows = client.query_raw(pairs, nothing()).await.unwrap();
        let counted = rows.try_fold(0_u64, |count, _| async move { Ok(count + 1) }).await;
        assert_eq!(counted.unwrap_err().code(), Some(&SqlState::QUERY_CANCELED));
        assert_eq!(readers.held(), 0);
    });
}

#[test]
fn a_client_that_goes_leaves_nothing_behind() {
    run(async {
        let Served { server, client, readers, .. } = served().await;
        client.batch_execute(&format!("BEGIN; DECLARE c CURSOR FOR {ALL}; FETCH 10 FROM c")).await.unwrap();
        assert!(readers.held() > 0, "the cursor holds its first rows");
        drop(client);
        let start = Instant::now();
        while server.sessions() > 0 {
            assert!(start.elapsed() < PATIENCE, "the session does not end");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        assert_eq!(readers.held(), 0);
    });
}

#[test]
fn an_answer_is_of_one_cycle_and_what_it_keeps_of_a_view_that_goes_on_counts() {
    run(async {
        let Served { server, client, readers, .. } = served().await;
        let definitions = "CREATE SOURCE t (n BIGINT, text VARCHAR) WITH (connector = 'push');
            CREATE MATERIALIZED VIEW recent AS SELECT n, text FROM t WITH (retain_bytes = '7 MB')";
        client.batch_execute(definitions).await.unwrap();
        let filler = connect(&server).await;
        let fill = async |from: i64, to: i64| {
            let sink = filler.copy_in("COPY t FROM STDIN WITH (FORMAT csv)").await.unwrap();
            let mut sink = pin!(sink);
            let text: String = (from..to).map(|n| format!("{n},{}\n", "y".repeat(500))).collect();
            futures_util::SinkExt::send(&mut sink, std::io::Cursor::new(text.into_bytes())).await.unwrap();
            sink.finish().await.unwrap();
            let start = Instant::now();
            while number(&filler, "SELECT max(n) AS n FROM recent").await < to - 1 {
                let states = filler.simple_query("SHOW QUERIES").await.unwrap();
                assert!(start.elapsed() < PATIENCE, "the view is not filled: {states:?}");
            }
        };
        fill(0, 12_000).await;
        client.batch_execute("BEGIN; DECLARE c CURSOR FOR SELECT n, text FROM recent").await.unwrap();
        let first = client.query("FETCH 1 FROM c", &[]).await.unwrap();
        // The view replaces all its rows, and the cursor keeps those that it began with.
        fill(12_000, 27_000).await;
        assert!(number(&filler, "SELECT min(n) AS n FROM recent").await >= 12_000);
        let mut numbers: Vec<i64> = first.iter().map(|row| row.get(0)).collect();
        let mut held = Vec::new();
        loop {
            let rows = client.query("FETCH 1000 FROM c", &[]).await.unwrap();
            held.push(readers.held());
            if rows.is_empty() {
                break;
            }
            numbers.extend(rows.iter().map(|row| row.get::<_, i64>(0)));
        }
        assert!(numbers.iter().copied().eq(numbers[0]..12_000), "{} rows", numbers.len());
        // The first 4 MiB wait, being parts of the view; then all rows count that the view does not have any more.
        assert!(held.iter().any(|held| *held > 6 << 20), "{held:?} bytes after each thousand rows");
        client.batch_execute("COMMIT").await.unwrap();
        assert_eq!(readers.held(), 0);
    });
}

#[test]
fn a_value_of_execute_may_be_large() {
    run(async {
        let Served { server: _server, client, .. } = served().await;
        client.batch_execute("PREPARE p AS SELECT length($1) AS n").await.unwrap();
        for (value, length) in [("repeat('x', 6000000)", "6000000"), ("'small'", "5")] {
            let messages = client.simple_query(&format!("EXECUTE p({value})")).await.unwrap();
            let rows = messages.iter().filter_map(|message| match message {
                SimpleQueryMessage::Row(row) => row.get(0),
                _ => None,
            });
            assert_eq!(rows.collect::<Vec<_>>(), [length], "{value}");
        }
    });
}
