//! Tables that clients create, and what becomes of their rows in transactions.

use crate::support::{PATIENCE, connect, run, serve};
use futures_util::{SinkExt, pin_mut};
use tidemill_server::Server;
use tokio_postgres::Client;
use tokio_postgres::error::SqlState;

/// Runs a test with a client of a server, and the server.
fn with_client(test: impl AsyncFnOnce(Client, &Server)) {
    let server = serve();
    run(async {
        let client = connect(&server).await;
        test(client, &server).await;
    });
}

/// Copies text into a relation.
async fn copy(client: &Client, relation: &str, text: Vec<u8>) -> Result<u64, tokio_postgres::Error> {
    let sink = client.copy_in(&format!("COPY {relation} FROM STDIN")).await?;
    pin_mut!(sink);
    // A message has at most 16 MiB.
    for piece in text.chunks(1 << 20) {
        sink.send(std::io::Cursor::new(piece.to_vec())).await?;
    }
    sink.finish().await
}

/// The values of the first column of a query.
async fn numbers(client: &Client, query: &str) -> Vec<i64> {
    client.query(query, &[]).await.unwrap().iter().map(|row| row.get(0)).collect()
}

/// The error that a statement ends with.
async fn refusal(client: &Client, statement: &str) -> (SqlState, String) {
    let error = client.batch_execute(statement).await.expect_err(statement);
    let error = error.as_db_error().expect("of the server");
    (error.code().clone(), error.message().to_owned())
}

#[test]
fn rows_that_are_put_into_a_table_are_read_from_it() {
    with_client(async |client, _| {
        client.batch_execute("CREATE TABLE \"Kept\" (id BIGINT NOT NULL, \"Note\" TEXT)").await.unwrap();
        client.execute("INSERT INTO \"Kept\" (id) VALUES ($1)", &[&3_i64]).await.unwrap();
        assert_eq!(copy(&client, "\"Kept\"", b"1\ta\n2\t\\N\n".to_vec()).await.unwrap(), 2);
        assert_eq!(numbers(&client, "SELECT id FROM \"Kept\" ORDER BY id").await, [1, 2, 3]);
        let kind = "SELECT table_type FROM information_schema.tables WHERE table_name = 'Kept'";
        assert_eq!(client.query_one(kind, &[]).await.unwrap().get::<_, &str>(0), "BASE TABLE");
        client.batch_execute("CREATE INDEX i ON \"Kept\" (id)").await.unwrap();
        client.batch_execute("CREATE TABLE IF NOT EXISTS \"Kept\" (id BIGINT)").await.unwrap();
        let (code, _) = refusal(&client, "CREATE TABLE \"Kept\" (id BIGINT)").await;
        assert_eq!(code, SqlState::DUPLICATE_TABLE);
        client.batch_execute("DROP TABLE \"Kept\"; DROP TABLE IF EXISTS \"Kept\"").await.unwrap();
        let left = "SELECT count(*) FROM information_schema.tables WHERE table_schema = 'public'";
        assert_eq!(numbers(&client, left).await, [0]);
    });
}

#[test]
fn what_a_table_cannot_have_is_refused_and_nothing_stays() {
    with_client(async |client, _| {
        for wrong in [
            "CREATE TEMP TABLE t (a INT)",
            "CREATE TABLE t (a INT PRIMARY KEY)",
            "CREATE TABLE t (a INT, UNIQUE (a))",
            "CREATE TABLE t (a INT DEFAULT 1)",
            "CREATE UNIQUE INDEX i ON t (a)",
            "LISTEN t",
        ] {
            assert_eq!(refusal(&client, wrong).await.0, SqlState::FEATURE_NOT_SUPPORTED, "{wrong}");
        }
        assert_ne!(refusal(&client, "CREATE TABLE t (a NOTHING)").await.1, "");
        client.batch_execute("CREATE TABLE t (a INT)").await.unwrap();
    });
}

#[test]
fn a_transaction_that_is_rolled_back_leaves_no_table_and_no_row() {
    with_client(async |client, server| {
        client
            .batch_execute("CREATE TABLE kept (id BIGINT); BEGIN; CREATE TABLE made (id BIGINT)")
            .await
            .unwrap();
        client.batch_execute("INSERT INTO made VALUES (1); INSERT INTO kept VALUES (1)").await.unwrap();
        copy(&client, "kept", b"2\n".to_vec()).await.unwrap();
        client.batch_execute("ROLLBACK").await.unwrap();
        assert_eq!(numbers(&client, "SELECT count(*) FROM kept").await, [0]);
        assert_eq!(refusal(&client, "SELECT * FROM made").await.0, SqlState::UNDEFINED_TABLE);

        // To a savepoint, and after an error.
        let text = "BEGIN; INSERT INTO kept VALUES (3); SAVEPOINT s; CREATE TABLE made (id BIGINT)";
        client.batch_execute(text).await.unwrap();
        copy(&client, "kept", b"4\n".to_vec()).await.unwrap();
        assert!(copy(&client, "kept", b"5\nx\n".to_vec()).await.is_err());
        client.batch_execute("ROLLBACK TO s").await.unwrap();
        copy(&client, "kept", b"6\n".to_vec()).await.unwrap();
        client.batch_execute("COMMIT").await.unwrap();
        assert_eq!(numbers(&client, "SELECT id FROM kept ORDER BY id").await, [3, 6]);
        assert_eq!(refusal(&client, "SELECT * FROM made").await.0, SqlState::UNDEFINED_TABLE);
        let dropped = refusal(&client, "BEGIN; DROP TABLE kept").await;
        assert_eq!(dropped.0, SqlState::ACTIVE_SQL_TRANSACTION);
        client.batch_execute("ROLLBACK").await.unwrap();

        // By leaving.
        let other = connect(server).await;
        other.batch_execute("BEGIN; CREATE TABLE made (id BIGINT)").await.unwrap();
        copy(&other, "made", b"1\n".to_vec()).await.unwrap();
        drop(other);
        let start = std::time::Instant::now();
        while client.batch_execute("SELECT * FROM made").await.is_ok() {
            assert!(start.elapsed() < PATIENCE, "the table stays");
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    });
}

#[test]
fn rows_of_a_transaction_that_are_too_many_for_memory_wait_in_a_file() {
    with_client(async |client, _| {
        client.batch_execute("CREATE TABLE kept (id BIGINT, note TEXT); BEGIN").await.unwrap();
        let note = "x".repeat(1000);
        let lines = |from: i64, to: i64| {
            (from..to).map(|id| format!("{id}\t{note}\n")).collect::<String>().into_bytes()
        };
        copy(&client, "kept", lines(0, 20_000)).await.unwrap();
        client.batch_execute("SAVEPOINT s").await.unwrap();
        copy(&client, "kept", lines(20_000, 25_000)).await.unwrap();
        client.batch_execute("ROLLBACK TO s").await.unwrap();
        copy(&client, "kept", lines(30_000, 40_000)).await.unwrap();
        assert_eq!(numbers(&client, "SELECT count(*) FROM kept").await, [0]);
        client.batch_execute("COMMIT").await.unwrap();
        let sums = client.query_one("SELECT count(*), CAST(sum(id) AS BIGINT) FROM kept", &[]).await.unwrap();
        let expected: i64 = (0..20_000).chain(30_000..40_000).sum();
        assert_eq!((sums.get::<_, i64>(0), sums.get::<_, i64>(1)), (30_000, expected));
    });
}
