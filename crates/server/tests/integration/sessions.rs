//! What sessions see of each other, and how one ends what another one waits for.

use std::time::Instant;

use crate::support::PATIENCE;
use tidemill_server::{Server, ServerOptions};
use tidemill_service::Runtime;
use tidemill_sql::Planner;
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, Config, NoTls, SimpleQueryMessage};

const ENDLESS: &str = "SELECT value FROM sequence(rate => 10) WHERE value < 0";

async fn connect(server: &Server, user: &str, password: &str) -> Client {
    let mut config = Config::new();
    config.host("127.0.0.1").port(server.address().port()).dbname("db");
    config.user(user).password(password).application_name("a test");
    let (client, connection) = config.connect(NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

fn serve() -> Server {
    let any_port = "127.0.0.1:0".parse().unwrap();
    Server::start(&Runtime::new(Planner::new()), any_port, ServerOptions::default()).unwrap()
}

fn run<T>(test: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(test)
}

async fn number(client: &Client, query: &str) -> i64 {
    client.query_one(query, &[]).await.unwrap().get(0)
}

/// The session that executes a statement, once there is one.
async fn session_of(client: &Client, statement: &str) -> i64 {
    let start = Instant::now();
    loop {
        let query = "SELECT pid, application_name, client_addr, query_start FROM pg_stat_activity
            WHERE state = 'active' AND query = $1";
        if let Some(row) = client.query_opt(query, &[&statement]).await.unwrap() {
            assert_eq!((row.get::<_, &str>(1), row.get::<_, &str>(2)), ("a test", "127.0.0.1"));
            return row.get(0);
        }
        assert!(start.elapsed() < PATIENCE, "nobody executes {statement}");
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
}

async fn ended(waiting: tokio::task::JoinHandle<Result<(), tokio_postgres::Error>>) -> SqlState {
    let outcome = tokio::time::timeout(PATIENCE, waiting).await.expect("it ends").unwrap();
    outcome.unwrap_err().code().cloned().expect("the server says why")
}

#[test]
fn a_session_cancels_what_another_one_waits_for_and_ends_it() {
    run(async {
        let server = serve();
        let (one, other) = (connect(&server, "me", "").await, connect(&server, "me", "").await);
        let other = std::sync::Arc::new(other);
        let number_of_other = number(&other, "SELECT pg_backend_pid() AS pid").await;
        assert_ne!(number_of_other, number(&one, "SELECT pg_backend_pid() AS pid").await);
        for cancel in ["SELECT pg_cancel_backend($)", "CANCEL $", "CANCEL SESSION $"] {
            let asking = other.clone();
            let waiting = tokio::spawn(async move { asking.batch_execute(ENDLESS).await });
            let session = session_of(&one, ENDLESS).await;
            assert_eq!(session, number_of_other);
            one.batch_execute(&cancel.replace('$', &session.to_string())).await.unwrap();
            assert_eq!(ended(waiting).await, SqlState::QUERY_CANCELED, "{cancel}");
        }
        // It continues.
        assert_eq!(number(&other, "SELECT count(*) AS n FROM sequence(count => 3)").await, 3);
        let asking = other.clone();
        let waiting = tokio::spawn(async move { asking.batch_execute(ENDLESS).await });
        session_of(&one, ENDLESS).await;
        let ending = "SELECT pg_terminate_backend(pid) AS ended FROM pg_stat_activity WHERE state = 'active'
            AND pid <> pg_backend_pid()";
        assert!(one.query_one(ending, &[]).await.unwrap().get::<_, bool>(0));
        assert_eq!(ended(waiting).await, SqlState::ADMIN_SHUTDOWN);
        let start = Instant::now();
        while number(&one, "SELECT count(*) AS n FROM pg_stat_activity").await > 1 {
            assert!(start.elapsed() < PATIENCE, "the session is still there");
        }
        assert!(other.simple_query("SELECT 1").await.is_err());
        // There is none of this number.
        assert!(!one.query_one("SELECT pg_cancel_backend(4711)", &[]).await.unwrap().get::<_, bool>(0));
        let error = one.batch_execute("CANCEL 4711").await.unwrap_err();
        assert!(error.as_db_error().unwrap().message().contains("there is no session 4711"));
        let error = one.batch_execute("CANCEL totals").await.unwrap_err();
        assert!(error.as_db_error().unwrap().hint().unwrap().contains("SHOW SESSIONS"));
    });
}

#[test]
fn to_describe_a_statement_cancels_nothing() {
    run(async {
        let server = serve();
        let (one, other) = (connect(&server, "me", "").await, connect(&server, "me", "").await);
        let session = number(&other, "SELECT pg_backend_pid() AS pid").await;
        let waiting = tokio::spawn(async move { other.batch_execute(ENDLESS).await });
        session_of(&one, ENDLESS).await;
        let prepared =
            one.prepare(&format!("SELECT pg_terminate_backend({session}) AS ended")).await.unwrap();
        assert_eq!(session_of(&one, ENDLESS).await, session, "it still runs");
        assert!(one.query_one(&prepared, &[]).await.unwrap().get::<_, bool>(0));
        assert_eq!(ended(waiting).await, SqlState::ADMIN_SHUTDOWN);
    });
}

#[test]
fn only_owners_see_and_end_what_others_do_and_nobody_sees_passwords() {
    run(async {
        let server = serve();
        let first = connect(&server, "me", "").await;
        first.batch_execute("CREATE USER ada PASSWORD 'analytical' ROLE owner").await.unwrap();
        let ada = connect(&server, "ada", "analytical").await;
        ada.batch_execute("CREATE USER eve PASSWORD 'evening' ROLE reader").await.unwrap();
        let eve = connect(&server, "eve", "evening").await;
        let session = number(&ada, "SELECT pg_backend_pid() AS pid").await;
        let define =
            "CREATE SINK out WITH (connector = 'tcp', connect = '127.0.0.1:9', token = 'very secret') AS
            SELECT value FROM sequence(count => 1)";
        let _ = ada.batch_execute(define).await;
        let shown = ada.simple_query("SHOW SESSIONS").await.unwrap();
        let shown: Vec<String> = shown
            .iter()
            .filter_map(|message| match message {
                SimpleQueryMessage::Row(row) => Some(row.get("statement").unwrap().to_owned()),
                _ => None,
            })
            .collect();
        assert!(shown.iter().any(|statement| statement == "CREATE SINK ..."), "{shown:?}");
        let _ = ada.batch_execute(&format!("EXPLAIN {define}")).await;
        let explained = "SELECT query FROM pg_stat_activity WHERE query LIKE 'EXPLAIN%'";
        let explained = first.query_one(explained, &[]).await.unwrap();
        assert_eq!(explained.get::<_, &str>(0), "EXPLAIN CREATE ...");
        // Each session has the number of its user.
        let known = "SELECT count(*) AS n FROM pg_stat_activity AS a JOIN pg_roles AS r ON r.oid = a.usesysid \
                     AND r.rolname = a.usename JOIN pg_user AS u ON u.usesysid = a.usesysid AND u.usename = a.usename";
        assert_eq!(
            number(&ada, known).await,
            number(&ada, "SELECT count(*) AS n FROM pg_stat_activity WHERE usename <> 'me'").await
        );
        assert!(number(&eve, known).await >= 2);
        let seen = "SELECT query FROM pg_stat_activity WHERE usename = 'ada'";
        assert_eq!(eve.query_one(seen, &[]).await.unwrap().get::<_, &str>(0), "<insufficient privilege>");
        let error = eve.query_one(&format!("SELECT pg_cancel_backend({session})"), &[]).await.unwrap_err();
        assert!(error.as_db_error().unwrap().message().contains("belongs to user 'ada'"), "{error:?}");
        let error = eve.batch_execute(&format!("CANCEL {session}")).await.unwrap_err();
        assert!(error.as_db_error().unwrap().message().contains("belongs to user 'ada'"), "{error:?}");
        // Its own user's session, it may end.
        let another = connect(&server, "eve", "evening").await;
        let own = number(&another, "SELECT pg_backend_pid() AS pid").await;
        assert!(
            eve.query_one(&format!("SELECT pg_terminate_backend({own})"), &[])
                .await
                .unwrap()
                .get::<_, bool>(0)
        );
    });
}
