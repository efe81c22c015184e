//! Subscriptions as clients see them: what is replayed is the view at each cycle, and each end has its name.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::support::{PATIENCE, connect, run, serve_http, serve_runtime};
use futures_util::{SinkExt, StreamExt, pin_mut};
use tidemill_server::{HttpOptions, Server};
use tidemill_service::Runtime;
use tidemill_sql::Planner;
use tidemill_testing::random::Random;
use tokio::task::JoinHandle;
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, SimpleQueryMessage, SimpleQueryRow};

/// A row of a subscription: the cycle, what became of the row, and its values as text.
type Changed = (u64, String, Vec<Option<String>>);
/// How a subscription has ended.
type End = Result<(), (SqlState, String)>;

async fn push(client: &Client, source: &str, rows: &[(i64, i64)]) {
    let sink = client.copy_in(&format!("COPY {source} FROM STDIN (FORMAT csv)")).await.unwrap();
    pin_mut!(sink);
    let text: String = rows.iter().map(|(k, v)| format!("{k},{v}\n")).collect();
    sink.send(std::io::Cursor::new(text.into_bytes())).await.unwrap();
    sink.finish().await.unwrap();
}

fn values(row: &SimpleQueryRow, from: usize) -> Vec<Option<String>> {
    (from..row.len()).map(|index| row.get(index).map(str::to_owned)).collect()
}

/// The rows of a query, in order.
async fn rows_of(client: &Client, query: &str) -> Result<Vec<Vec<Option<String>>>, tokio_postgres::Error> {
    let messages = client.simple_query(query).await?;
    let mut rows: Vec<_> = messages
        .iter()
        .filter_map(|message| match message {
            SimpleQueryMessage::Row(row) => Some(values(row, 0)),
            _ => None,
        })
        .collect();
    rows.sort();
    Ok(rows)
}

/// A client that follows a view, and what it has seen.
struct Subscriber {
    seen: Arc<Mutex<Vec<Changed>>>,
    task: JoinHandle<End>,
}

impl Subscriber {
    async fn begin(server: &Server, view: &str) -> Subscriber {
        let client = connect(server).await;
        let statement = format!("SUBSCRIBE TO {view}");
        let seen = Arc::new(Mutex::new(Vec::new()));
        let noted = Arc::clone(&seen);
        let task = tokio::spawn(async move {
            let told = |error: tokio_postgres::Error| {
                let error = error.as_db_error().unwrap_or_else(|| panic!("not of the server: {error:?}"));
                (error.code().clone(), error.message().to_owned())
            };
            let messages = client.simple_query_raw(&statement).await.map_err(told)?;
            pin_mut!(messages);
            while let Some(message) = messages.next().await {
                if let SimpleQueryMessage::Row(row) = message.map_err(told)? {
                    let changed = (
                        row.get(0).unwrap().parse().unwrap(),
                        row.get(1).unwrap().to_owned(),
                        values(&row, 2),
                    );
                    noted.lock().push(changed);
                }
            }
            Ok(())
        });
        Subscriber { seen, task }
    }

    /// The content after each cycle that changed something, as the changes say it.
    fn replayed(&self) -> BTreeMap<u64, Vec<Vec<Option<String>>>> {
        let (mut content, mut after) = (BTreeMap::<_, usize>::new(), BTreeMap::new());
        let seen = self.seen.lock();
        for (index, (cycle, change, row)) in seen.iter().enumerate() {
            let count = content.entry(row.clone()).or_default();
            *count = match change.as_str() {
                "insert" => *count + 1,
                "delete" => count.checked_sub(1).unwrap_or_else(|| panic!("{row:?} was not there")),
                other => panic!("{other}"),
            };
            let next = seen.get(index + 1).map(|(next, ..)| *next);
            assert!(next.is_none_or(|next| next >= *cycle), "{next:?} after cycle {cycle}");
            if next != Some(*cycle) {
                let rows = content.iter().flat_map(|(row, count)| std::iter::repeat_n(row.clone(), *count));
                after.insert(*cycle, rows.collect());
            }
        }
        after
    }

    async fn sees(&self, expected: &[Vec<Option<String>>]) {
        let start = std::time::Instant::now();
        while self.replayed().last_key_value().is_none_or(|(_, content)| content != expected) {
            assert!(start.elapsed() < PATIENCE, "{:?} is not {expected:?}", self.replayed().last_key_value());
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    }
}

const DEFINITIONS: &str = "CREATE SOURCE pushed (k BIGINT, v BIGINT) WITH (connector = 'push');
    CREATE MATERIALIZED VIEW even AS SELECT k, v FROM pushed WHERE v % 2 = 0;
    CREATE MATERIALIZED VIEW sums AS SELECT k, sum(v) AS total, count(*) AS n FROM pushed GROUP BY k";

/// Whether views that only this database has are complete.
async fn wait_for(client: &Client, query: &str, expected: &str) {
    let start = std::time::Instant::now();
    while rows_of(client, query).await.unwrap()[0][0].as_deref() != Some(expected) {
        assert!(start.elapsed() < PATIENCE, "{query}");
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
}

#[test]
fn a_replayed_subscription_is_the_view_at_each_cycle() {
    let server = serve_runtime(&Runtime::new(Planner::new()));
    run(async {
        let client = connect(&server).await;
        client.batch_execute(DEFINITIONS).await.unwrap();
        let mut subscribers = Vec::new();
        let mut random = Random::new(7);
        let mut pushed = 0;
        for round in 0..40 {
            if [0, 3, 20].contains(&round) {
                for view in ["even", "sums"] {
                    subscribers.push((view, Subscriber::begin(&server, view).await));
                }
            }
            let rows: Vec<_> =
                (0..=random.below(5)).map(|_| (random.below(6) as i64, random.below(100) as i64)).collect();
            pushed += rows.len();
            push(&client, "pushed", &rows).await;
        }
        wait_for(&client, "SELECT sum(n) AS n FROM sums", &pushed.to_string()).await;
        for (view, subscriber) in &subscribers {
            let content = rows_of(&client, &format!("SELECT * FROM {view}")).await.unwrap();
            subscriber.sees(&content).await;
        }
        let mut compared = 0;
        for (view, subscriber) in &subscribers {
            let replayed = subscriber.replayed();
            let (first, last) =
                (*replayed.first_key_value().unwrap().0, *replayed.last_key_value().unwrap().0);
            for cycle in first..=last {
                let content =
                    rows_of(&client, &format!("SELECT * FROM {view} AS OF CYCLE {cycle}")).await.unwrap();
                let (_, expected) = replayed.range(..=cycle).next_back().unwrap();
                assert_eq!(&content, expected, "{view} at cycle {cycle}");
                compared += 1;
            }
        }
        assert!(compared > 60, "{compared} comparisons");
        client.batch_execute("DROP MATERIALIZED VIEW even; DROP MATERIALIZED VIEW sums").await.unwrap();
        for (view, subscriber) in subscribers {
            let (code, message) = subscriber.task.await.unwrap().expect_err("the view is gone");
            assert_eq!(code, SqlState::SYSTEM_ERROR);
            let expected = format!("view '{view}' was dropped or replaced");
            assert!(message.starts_with(&expected), "{message}");
        }
    });
}

#[test]
fn what_leaves_the_view_is_deleted_for_its_subscribers() {
    let server = serve_runtime(&Runtime::new(Planner::new()));
    run(async {
        let client = connect(&server).await;
        let definitions = "CREATE SOURCE pushed (k BIGINT, v BIGINT) WITH (connector = 'push');
            CREATE MATERIALIZED VIEW some AS SELECT k, v FROM pushed WITH (retain_bytes = '64KB')";
        client.batch_execute(definitions).await.unwrap();
        let subscriber = Subscriber::begin(&server, "some").await;
        for round in 0..20 {
            push(&client, "pushed", &(0..500).map(|row| (round, row)).collect::<Vec<_>>()).await;
            wait_for(&client, "SELECT max(k) AS k FROM some", &round.to_string()).await;
            let content = rows_of(&client, "SELECT * FROM some").await.unwrap();
            subscriber.sees(&content).await;
        }
        let seen = subscriber.seen.lock();
        assert!(seen.iter().any(|(_, change, _)| change == "delete"), "nothing was dropped");
    });
}

#[test]
fn a_subscription_ends_with_its_query_or_its_server() {
    let server = serve_runtime(&Runtime::new(Planner::new()));
    run(async {
        let client = connect(&server).await;
        let definitions = "CREATE MATERIALIZED VIEW three AS SELECT value FROM sequence(count => 3);
            CREATE MATERIALIZED VIEW endless AS SELECT count(*) AS n FROM sequence(rate => 100);
            CREATE VIEW plain AS SELECT 1 AS one";
        client.batch_execute(definitions).await.unwrap();
        let whole = Subscriber::begin(&server, "three").await;
        assert_eq!(whole.task.await.unwrap(), Ok(()));
        assert_eq!(whole.seen.lock().len(), 3);
        for (name, code) in [("nothing", "42P01"), ("plain", "42000")] {
            let (found, _) =
                Subscriber::begin(&server, name).await.task.await.unwrap().expect_err("no view that runs");
            assert_eq!(found.code(), code, "{name}");
        }
        let endless = Subscriber::begin(&server, "endless").await;
        let start = std::time::Instant::now();
        while endless.seen.lock().len() < 10 {
            assert!(start.elapsed() < PATIENCE, "there are no changes");
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
        let stopped = tokio::task::spawn_blocking(move || server.stop());
        let (code, _) = endless.task.await.unwrap().expect_err("the server has ended");
        assert_eq!(code, SqlState::ADMIN_SHUTDOWN);
        stopped.await.unwrap();
    });
}

#[test]
fn changes_are_fetched_from_a_cursor_as_they_come() {
    let server = serve_runtime(&Runtime::new(Planner::new()));
    run(async {
        let mut client = connect(&server).await;
        client.batch_execute(DEFINITIONS).await.unwrap();
        let other = connect(&server).await;
        push(&other, "pushed", &[(1, 10), (2, 20)]).await;
        wait_for(&other, "SELECT count(*) AS n FROM even", "2").await;
        let transaction = client.transaction().await.unwrap();
        transaction.batch_execute("DECLARE c CURSOR FOR SUBSCRIBE TO even").await.unwrap();
        let statement = transaction.prepare("FETCH 1 FROM c").await.unwrap();
        let names: Vec<&str> = statement.columns().iter().map(|column| column.name()).collect();
        assert_eq!(names, ["cycle", "change", "k", "v"]);
        let first = transaction.query_one(&statement, &[]).await.unwrap();
        assert_eq!((first.get::<_, &str>(1), first.get::<_, i64>(3)), ("insert", 10));
        // It waits for no more than there is.
        let rest = transaction.query("FETCH ALL FROM c", &[]).await.unwrap();
        assert_eq!(rest.iter().map(|row| row.get::<_, i64>(3)).collect::<Vec<_>>(), [20]);
        push(&other, "pushed", &[(3, 30)]).await;
        let next = transaction.query("FETCH 100 FROM c", &[]).await.unwrap();
        assert_eq!(next.iter().map(|row| row.get::<_, i64>(3)).collect::<Vec<_>>(), [30]);
        assert!(next[0].get::<_, i64>(0) > first.get::<_, i64>(0));
        // A cursor on which nothing comes is given up when the time is over.
        transaction.batch_execute("SET statement_timeout = '50ms'").await.unwrap();
        let error = transaction.query("FETCH ALL FROM c", &[]).await.unwrap_err();
        assert_eq!(error.code(), Some(&SqlState::QUERY_CANCELED));
        transaction.rollback().await.unwrap();

        let lines = client.copy_out("COPY (SUBSCRIBE TO even) TO STDOUT").await.unwrap();
        pin_mut!(lines);
        let mut text = String::new();
        while text.lines().count() < 3 {
            text += std::str::from_utf8(&lines.next().await.unwrap().unwrap()).unwrap();
        }
        let rows: Vec<&str> = text.lines().map(|line| line.split_once('\t').unwrap().1).collect();
        assert_eq!(rows, ["insert\t1\t10", "insert\t2\t20", "insert\t3\t30"]);
    });
}

#[test]
fn changes_are_events_over_http() {
    let runtime = Runtime::new(Planner::new());
    let server = serve_runtime(&runtime);
    let http = serve_http(&runtime, HttpOptions::default());
    run(async {
        let client = connect(&server).await;
        client.batch_execute(DEFINITIONS).await.unwrap();
        push(&client, "pushed", &[(1, 10)]).await;
        wait_for(&client, "SELECT count(*) AS n FROM sums", "1").await;
        let mut stream = TcpStream::connect(http.address()).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream
            .write_all(b"GET /subscribe?query=SUBSCRIBE+TO+sums HTTP/1.1\r\nHost: localhost\r\n\r\n")
            .unwrap();
        let mut lines = BufReader::new(stream).lines().map(Result::unwrap);
        let mut data = move |event: &str| {
            lines.find(|line| *line == format!("event: {event}")).expect("the event comes");
            let line = lines.next().unwrap();
            line.strip_prefix("data: ").unwrap().to_owned()
        };
        assert!(data("columns").contains("{\"name\":\"cycle\",\"type\":\"bigint\"},{\"name\":\"change\""));
        assert!(data("rows").ends_with("\"insert\",\"1\",\"10\",\"1\"]]"));
        push(&client, "pushed", &[(1, 5)]).await;
        let change = data("rows");
        assert!(change.contains("\"delete\",\"1\",\"10\",\"1\"],["), "{change}");
        assert!(change.ends_with("\"insert\",\"1\",\"15\",\"2\"]]"), "{change}");
        client.batch_execute("DROP MATERIALIZED VIEW sums").await.unwrap();
        assert!(data("error").contains("view 'sums' was dropped or replaced"));
    });
}
