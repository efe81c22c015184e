//! Functions that are defined in SQL, as drivers and programs use them: prepared, over HTTP, and with the rights of a role.

use std::net::SocketAddr;

use crate::support::{Answered, get, send, serve_http, serve_runtime, start, wait_until};
use tidemill_server::HttpOptions;
use tidemill_service::Runtime;
use tidemill_sql::Planner;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::Type;
use tokio_postgres::{Client, Config, NoTls};

const FUNCTIONS: &str = "
    CREATE FUNCTION twice(x BIGINT) RETURNS BIGINT AS 'x + x';
    CREATE FUNCTION from_on(first BIGINT) RETURNS TABLE (n BIGINT, two BIGINT) AS
        'SELECT value, twice(value) FROM generate_series(first, 4) AS s(value)'";

fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

async fn connect(address: SocketAddr, user: &str, password: &str) -> Client {
    let mut config = Config::new();
    config.host("127.0.0.1").port(address.port()).user(user).password(password).dbname("db");
    let (client, connection) = config.connect(NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

fn ask(address: SocketAddr, credentials: Option<&str>, statement: &str) -> Answered {
    let length = statement.len();
    let authorization = credentials.map(|known| format!("Authorization: Basic {known}\r\n"));
    let request = format!(
        "POST /query HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{}Content-Length: {length}\r\n\r\n{statement}",
        authorization.unwrap_or_default()
    );
    send(address, &request)
}

#[test]
fn prepared_statements_pass_parameters_to_functions() {
    let runtime = Runtime::new(Planner::new());
    let server = serve_runtime(&runtime);
    block_on(async {
        let client = connect(server.address(), "me", "").await;
        client.batch_execute(FUNCTIONS).await.unwrap();
        let statement = client.prepare("SELECT twice($1) AS t, n, two FROM from_on($2)").await.unwrap();
        assert_eq!(statement.params(), [Type::INT8, Type::INT8]);
        let columns: Vec<_> =
            statement.columns().iter().map(|column| (column.name(), column.type_())).collect();
        assert_eq!(columns, [("t", &Type::INT8), ("n", &Type::INT8), ("two", &Type::INT8)]);
        for first in [3_i64, 4] {
            let rows = client.query(&statement, &[&21_i64, &first]).await.unwrap();
            let mut found: Vec<(i64, i64, i64)> =
                rows.iter().map(|row| (row.get(0), row.get(1), row.get(2))).collect();
            found.sort_unstable();
            assert_eq!(found, (first..5).map(|n| (42, n, 2 * n)).collect::<Vec<_>>());
        }
        // What was prepared means the same, and what is prepared now means the new one.
        client
            .batch_execute("CREATE OR REPLACE FUNCTION twice(x BIGINT) RETURNS BIGINT AS 'x * 20'")
            .await
            .unwrap();
        let row =
            client.query_one("SELECT twice($1), (SELECT max(two) FROM from_on(4))", &[&1_i64]).await.unwrap();
        assert_eq!((row.get::<_, i64>(0), row.get::<_, i64>(1)), (20, 8));
        let error = client.query("SELECT twice($1, $2)", &[&1_i64, &2_i64]).await.unwrap_err();
        assert!(
            error.as_db_error().unwrap().message().contains("twice takes 1 argument, found 2"),
            "{error:?}"
        );
    });
}

#[test]
fn http_answers_calls_and_tells_the_editor_of_functions() {
    let runtime = Runtime::new(Planner::new());
    start(
        &runtime,
        "v",
        &format!(
            "{FUNCTIONS}; CREATE MATERIALIZED VIEW v AS SELECT twice(value) AS t FROM sequence(count => 5)"
        ),
    );
    let http = serve_http(&runtime, HttpOptions::default());
    let rows = |statement: &str| ask(http.address(), None, statement).body;
    wait_until("the view is filled", || rows("SELECT count(*) AS n FROM v").contains("{\"n\":5}"));
    assert_eq!(rows("SELECT twice(t) AS f FROM v WHERE twice(t) > 12").trim(), "{\"f\":16}");
    assert_eq!(rows("SELECT two FROM from_on(4)").trim(), "{\"two\":8}");
    let refused = ask(http.address(), None, "SELECT 1, twice()");
    let error: serde_json::Value = serde_json::from_str(&refused.body).unwrap();
    assert_eq!((refused.status, &error["error"]["position"]), (400, &11.into()), "{refused:?}");
    assert_eq!(error["error"]["hint"], "write twice(x BIGINT)");
    let catalog: serde_json::Value = serde_json::from_str(&get(http.address(), "/api/catalog").body).unwrap();
    let functions = catalog["functions"].as_array().unwrap();
    for name in ["twice", "from_on"] {
        assert!(functions.iter().any(|known| known == name), "{name}");
    }
}

/// A body is computed with the rights of the caller: it does not open files for somebody who may not.
#[test]
fn a_reader_calls_functions_and_defines_none() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("words.csv");
    std::fs::write(&file, "word\nsecret\n").unwrap();
    let runtime = Runtime::new(Planner::new());
    let server = serve_runtime(&runtime);
    let http = serve_http(&runtime, HttpOptions::default());
    block_on(async {
        let anybody = connect(server.address(), "anybody", "").await;
        anybody.batch_execute("CREATE USER ada PASSWORD 'analytical' ROLE owner").await.unwrap();
        let ada = connect(server.address(), "ada", "analytical").await;
        let path = file.display();
        ada.batch_execute(&format!(
            "{FUNCTIONS};
             CREATE USER eve PASSWORD 'reads only' ROLE reader;
             CREATE USER bob PASSWORD 'writes' ROLE writer;
             CREATE FUNCTION words() RETURNS TABLE (word VARCHAR) AS $$ SELECT word FROM '{path}' $$"
        ))
        .await
        .unwrap();
        ada.batch_execute("SELECT * FROM words()").await.unwrap();
        let eve = connect(server.address(), "eve", "reads only").await;
        eve.batch_execute("SELECT twice(2); SELECT * FROM from_on(1)").await.unwrap();
        for text in [
            "CREATE FUNCTION mine(x INT) RETURNS INT AS 'x'",
            "CREATE OR REPLACE FUNCTION twice(x BIGINT) RETURNS BIGINT AS 'x'",
            "DROP FUNCTION words",
        ] {
            let error = eve.batch_execute(text).await.expect_err(text);
            assert_eq!(error.code(), Some(&SqlState::INSUFFICIENT_PRIVILEGE), "{text}");
        }
        for text in ["SELECT * FROM words()", "SELECT twice(1), (SELECT max(word) FROM words())"] {
            let error = eve.batch_execute(text).await.expect_err(text);
            let told = error.as_db_error().unwrap().message().to_owned();
            assert!(told.contains("you may not open files"), "{text}: {told}");
            // `eve:reads only`
            let refused = ask(http.address(), Some("ZXZlOnJlYWRzIG9ubHk="), text);
            assert!(refused.status == 400 && !refused.body.contains("secret"), "{refused:?}");
        }
        // A writer defines no views either.
        let bob = connect(server.address(), "bob", "writes").await;
        bob.batch_execute("SELECT twice(1)").await.unwrap();
        for text in
            ["CREATE FUNCTION his(x BIGINT) RETURNS BIGINT AS 'x'", "CREATE VIEW his AS SELECT 1 AS n"]
        {
            let error = bob.batch_execute(text).await.expect_err(text);
            assert_eq!(error.code(), Some(&SqlState::INSUFFICIENT_PRIVILEGE), "{text}");
        }
    });
}
