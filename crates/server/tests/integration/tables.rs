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

/// As in PostgreSQL, what is committed is there for everybody; a name with capitals is no other case.
#[test]
fn what_one_session_has_changed_the_next_query_of_any_session_finds() {
    with_client(async |client, server| {
        let other = connect(server).await;
        client.batch_execute("CREATE TABLE \"Kept\" (id BIGINT)").await.unwrap();
        let view = "CREATE MATERIALIZED VIEW \"Count\" AS SELECT count(*) AS n FROM \"Kept\"";
        client.batch_execute(view).await.unwrap();
        for count in 1..=100 {
            client.execute("INSERT INTO \"Kept\" VALUES ($1)", &[&count]).await.unwrap();
            assert_eq!(numbers(&other, "SELECT count(*) FROM \"Kept\"").await, [count]);
            assert_eq!(numbers(&client, "SELECT n FROM \"Count\"").await, [count]);
        }
    });
}

#[test]
fn what_a_table_cannot_have_is_refused_and_nothing_stays() {
    with_client(async |client, _| {
        for wrong in [
            "CREATE TEMP TABLE t (a INT)",
            "CREATE TABLE t (a INT CHECK (a > 0))",
            "CREATE TABLE t (a INT, UNIQUE (a))",
            "CREATE TABLE t (a INT REFERENCES u)",
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
fn many_rows_of_a_transaction_come_together() {
    with_client(async |client, _| {
        client.batch_execute("CREATE TABLE kept (id BIGINT, note TEXT); BEGIN").await.unwrap();
        let note = "x".repeat(1000);
        let lines = |from: i64, to: i64| {
            (from..to).map(|id| format!("{id}\t{note}\n")).collect::<String>().into_bytes()
        };
        copy(&client, "kept", lines(0, 10_000)).await.unwrap();
        copy(&client, "kept", lines(10_000, 20_000)).await.unwrap();
        client.batch_execute("SAVEPOINT s").await.unwrap();
        copy(&client, "kept", lines(20_000, 25_000)).await.unwrap();
        client.batch_execute("ROLLBACK TO s").await.unwrap();
        copy(&client, "kept", lines(30_000, 40_000)).await.unwrap();
        assert_eq!(numbers(&client, "SELECT count(*) FROM kept").await, [30_000], "it sees its own rows");
        client.batch_execute("COMMIT").await.unwrap();
        let sums = client.query_one("SELECT count(*), CAST(sum(id) AS BIGINT) FROM kept", &[]).await.unwrap();
        let expected: i64 = (0..20_000).chain(30_000..40_000).sum();
        assert_eq!((sums.get::<_, i64>(0), sums.get::<_, i64>(1)), (30_000, expected));
    });
}

/// What one row of a query says.
async fn one(client: &Client, query: &str) -> String {
    let messages = client.simple_query(query).await.unwrap();
    let row = messages.iter().find_map(|message| match message {
        tokio_postgres::SimpleQueryMessage::Row(row) => Some(row),
        _ => None,
    });
    let row = row.unwrap_or_else(|| panic!("{query} has no row"));
    (0..row.len()).map(|column| row.get(column).unwrap_or("NULL")).collect::<Vec<_>>().join("|")
}

#[test]
fn rows_are_changed_with_parameters() {
    with_client(async |client, _| {
        client
            .batch_execute(
                "CREATE TABLE t (id BIGINT PRIMARY KEY, tier TEXT, n INT, at TIMESTAMP, x DOUBLE PRECISION)",
            )
            .await
            .unwrap();
        let keys = "SELECT u.column_name FROM information_schema.table_constraints c
            JOIN information_schema.key_column_usage u ON u.constraint_name = c.constraint_name
            WHERE c.table_name = 't' AND c.constraint_type = 'PRIMARY KEY'";
        assert_eq!(one(&client, keys).await, "id");
        let insert = "INSERT INTO t (id, tier, n) VALUES ($1, $2, $3), ($4, 'b', 5) RETURNING n + 1, id";
        let rows = client.query(insert, &[&1_i64, &"a", &7_i32, &2_i64]).await.unwrap();
        let mut rows: Vec<(i64, i64)> = rows.iter().map(|row| (row.get(0), row.get(1))).collect();
        rows.sort_unstable();
        assert_eq!(rows, [(6, 2), (8, 1)]);
        let update = "UPDATE t SET tier = $1, n = n + $2, x = $3 WHERE id = $4";
        assert_eq!(client.execute(update, &[&"gold", &3_i32, &1.5_f64, &1_i64]).await.unwrap(), 1);
        assert_eq!(one(&client, "SELECT * FROM t WHERE id = 1").await, "1|gold|10|NULL|1.5");
        let upsert =
            "INSERT INTO t (id, n) VALUES ($1, $2) ON CONFLICT (id) DO UPDATE SET n = excluded.n, tier = $3";
        assert_eq!(client.execute(upsert, &[&1_i64, &20_i32, &"iron"]).await.unwrap(), 1);
        assert_eq!(one(&client, "SELECT tier, n FROM t WHERE id = 1").await, "iron|20");
        let prepared = client.prepare("DELETE FROM t WHERE tier = $1 RETURNING *").await.unwrap();
        assert_eq!(prepared.columns().len(), 5);
        assert_eq!(client.query(&prepared, &[&"iron"]).await.unwrap().len(), 1);
        assert_eq!(client.query(&prepared, &[&"iron"]).await.unwrap().len(), 0);
    });
}

#[test]
fn what_a_transaction_changes_is_seen_by_others_at_once_or_not_at_all() {
    with_client(async |client, server| {
        let text = "CREATE TABLE one (id INT PRIMARY KEY, v INT); CREATE TABLE other (v INT);
            INSERT INTO one VALUES (1, 100); INSERT INTO other VALUES (0);
            CREATE MATERIALIZED VIEW total AS
                SELECT (SELECT sum(v) FROM one) + (SELECT sum(v) FROM other) AS s FROM one";
        client.batch_execute(text).await.unwrap();
        let reader = connect(server).await;
        let reading = async {
            for _ in 0..60 {
                assert_eq!(
                    one(&reader, "SELECT (SELECT sum(v) FROM one) + (SELECT sum(v) FROM other)").await,
                    "100"
                );
                assert_eq!(one(&reader, "SELECT s FROM total").await, "100");
            }
        };
        let writing = async {
            for _ in 0..20 {
                client
                    .batch_execute("BEGIN; UPDATE one SET v = v - 1; UPDATE other SET v = v + 1; COMMIT")
                    .await
                    .unwrap();
                let text = "BEGIN; UPDATE other SET v = v + 7; UPDATE one SET v = v - 8; ROLLBACK";
                client.batch_execute(text).await.unwrap();
            }
        };
        tokio::join!(reading, writing);
        assert_eq!(one(&client, "SELECT v FROM other").await, "20");
    });
}

#[test]
fn changes_of_one_table_follow_each_other_and_none_is_lost() {
    with_client(async |client, server| {
        client
            .batch_execute("CREATE TABLE t (id INT PRIMARY KEY, n INT); INSERT INTO t VALUES (1, 0)")
            .await
            .unwrap();
        let others = [connect(server).await, connect(server).await, connect(server).await];
        let adding = others.iter().enumerate().map(|(index, other)| async move {
            for step in 0..15 {
                let text = match (index + step) % 3 {
                    0 => "UPDATE t SET n = n + 1 WHERE id = 1".to_owned(),
                    1 => "BEGIN; UPDATE t SET n = n + 2; UPDATE t SET n = n - 1; COMMIT".to_owned(),
                    _ => "BEGIN; UPDATE t SET n = n + 1; SAVEPOINT s; DELETE FROM t; ROLLBACK TO s; COMMIT"
                        .to_owned(),
                };
                other.batch_execute(&text).await.unwrap();
                assert_ne!(one(other, "SELECT n FROM t").await, "0");
            }
        });
        futures_util::future::join_all(adding).await;
        assert_eq!(one(&client, "SELECT n FROM t").await, "45");
        // Readers do not wait for who changes it, and who waits for long enough is told.
        client.batch_execute("BEGIN; UPDATE t SET n = 0").await.unwrap();
        assert_eq!(one(&client, "SELECT n FROM t").await, "0");
        assert_eq!(one(&others[0], "SELECT n FROM t").await, "45");
        others[0].batch_execute("SET lock_timeout = '50ms'").await.unwrap();
        assert_eq!(refusal(&others[0], "DELETE FROM t").await.0, SqlState::LOCK_NOT_AVAILABLE);
        client.batch_execute("ROLLBACK").await.unwrap();
        assert_eq!(others[0].execute("DELETE FROM t", &[]).await.unwrap(), 1);
    });
}

#[test]
fn one_of_two_transactions_that_wait_for_each_other_ends() {
    with_client(async |client, server| {
        client.batch_execute("CREATE TABLE a (n INT); CREATE TABLE b (n INT)").await.unwrap();
        let other = connect(server).await;
        client.batch_execute("BEGIN; INSERT INTO a VALUES (1)").await.unwrap();
        other.batch_execute("BEGIN; INSERT INTO b VALUES (2)").await.unwrap();
        // Either may be the one that asks last and is refused; what it holds is free once it has rolled back.
        let ends = async |client: &Client, statements: &str| {
            let ended = client.batch_execute(statements).await;
            if ended.is_err() {
                client.batch_execute("ROLLBACK").await.unwrap();
            }
            ended
        };
        let (first, second) = tokio::join!(
            ends(&client, "INSERT INTO b VALUES (1); COMMIT"),
            ends(&other, "INSERT INTO a VALUES (2); COMMIT")
        );
        let refused: Vec<_> =
            [&first, &second].into_iter().filter_map(|ended| ended.as_ref().err()).collect();
        assert_eq!(refused.len(), 1, "{first:?} {second:?}");
        assert_eq!(refused[0].code(), Some(&SqlState::T_R_DEADLOCK_DETECTED));
        let reader = connect(server).await;
        let kept = one(&reader, "SELECT (SELECT sum(n) FROM a) || ' ' || (SELECT sum(n) FROM b)").await;
        assert!(kept == "1 1" || kept == "2 2", "{kept}");
    });
}

#[test]
fn a_view_over_tables_begins_with_their_rows_and_tells_what_leaves_and_comes() {
    with_client(async |client, server| {
        let text = "CREATE TABLE t (id INT PRIMARY KEY, tier TEXT DEFAULT 'basic');
            INSERT INTO t (id) VALUES (1), (2), (3);
            DELETE FROM t WHERE id = 3;
            CREATE MATERIALIZED VIEW tiers AS SELECT tier, count(*) AS n FROM t GROUP BY tier;
            CREATE MATERIALIZED VIEW again AS SELECT tier, n FROM tiers WHERE n > 0";
        client.batch_execute(text).await.unwrap();
        assert_eq!(one(&client, "SELECT tier, n FROM tiers").await, "basic|2");
        assert_eq!(one(&client, "SELECT tier, n FROM again").await, "basic|2");
        let follower = connect(server).await;
        follower.batch_execute("BEGIN; DECLARE c CURSOR FOR SUBSCRIBE TO tiers").await.unwrap();
        assert_eq!(one(&follower, "FETCH 1 FROM c").await.split_once('|').unwrap().1, "insert|basic|2");
        client.batch_execute("UPDATE t SET tier = 'gold' WHERE id = 1").await.unwrap();
        let mut changes = Vec::new();
        while changes.len() < 3 {
            let messages = follower.simple_query("FETCH 10 FROM c").await.unwrap();
            for message in &messages {
                if let tokio_postgres::SimpleQueryMessage::Row(row) = message {
                    let values = [1, 2, 3].map(|column| row.get(column).unwrap_or("NULL"));
                    changes.push(values.join("|"));
                }
            }
        }
        // What leaves comes first.
        assert_eq!(changes.remove(0), "delete|basic|2");
        changes.sort();
        assert_eq!(changes, ["insert|basic|1", "insert|gold|1"]);
    });
}

#[test]
fn a_change_reads_the_queries_of_its_with() {
    with_client(async |client, _| {
        client.batch_execute("CREATE TABLE t (id BIGINT PRIMARY KEY, n BIGINT)").await.unwrap();
        let insert = "WITH x AS (SELECT $1::bigint AS id)
            INSERT INTO t SELECT id, id * 10 FROM x UNION ALL SELECT id + 1, 5 FROM x";
        assert_eq!(client.execute(insert, &[&1_i64]).await.unwrap(), 2);
        let update = "WITH big AS (SELECT id FROM t WHERE n > $1), other(m) AS (SELECT 7)
            UPDATE t SET n = t.n + m FROM other WHERE id IN (SELECT id FROM big) RETURNING n";
        assert_eq!(client.query_one(update, &[&5_i64]).await.unwrap().get::<_, i64>(0), 17);
        assert_eq!(one(&client, "SELECT n FROM t WHERE id = 2").await, "5");
        let delete =
            "WITH gone AS (SELECT min(id) AS id FROM t) DELETE FROM t USING gone WHERE t.id = gone.id";
        assert_eq!(client.execute(delete, &[]).await.unwrap(), 1);
        assert_eq!(numbers(&client, "WITH a AS (SELECT id FROM t) SELECT id FROM a").await, [2]);
        let (code, message) =
            refusal(&client, "WITH x AS (DELETE FROM t RETURNING id) INSERT INTO t SELECT id, 1 FROM x")
                .await;
        assert_eq!(code, SqlState::FEATURE_NOT_SUPPORTED, "{message}");
        assert_eq!(numbers(&client, "SELECT id FROM t").await, [2]);
    });
}

#[test]
fn columns_of_json_and_uuids_keep_what_they_say() {
    with_client(async |client, _| {
        let create = "CREATE TABLE t (id UUID PRIMARY KEY, doc JSONB NOT NULL, text JSON, code CHAR(3))";
        client.batch_execute(create).await.unwrap();
        // Before the rows: a session waits until views have what it has changed.
        let view = "CREATE MATERIALIZED VIEW v AS
            SELECT doc - 'a' AS rest, jsonb_build_object('d', doc) AS d FROM t";
        client.batch_execute(view).await.unwrap();
        let insert = "INSERT INTO t VALUES
            ('A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11', '{\"b\": 1,   \"a\": [1]}', '{\"x\":  1}', 'ab'),
            ('a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a12', jsonb_build_object('c', 1), NULL, NULL)";
        client.batch_execute(insert).await.unwrap();
        let first = "SELECT id, doc, text, code FROM t WHERE doc ? 'a'";
        let expected = "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11|{\"a\": [1], \"b\": 1}|{\"x\":  1}|ab";
        assert_eq!(one(&client, first).await, expected);
        let update =
            "UPDATE t SET doc = doc || '{\"n\": 2}' WHERE doc -> 'a' ->> 0 = '1' RETURNING doc - 'b'";
        assert_eq!(one(&client, update).await, "{\"a\": [1], \"n\": 2}");
        let rest = "SELECT rest || '{\"z\": 0}' FROM v WHERE rest ? 'c'";
        assert_eq!(one(&client, rest).await, "{\"c\": 1, \"z\": 0}");
        assert_eq!(one(&client, "SELECT d -> 'd' -> 'c' FROM v WHERE rest ? 'c'").await, "1");
        assert_eq!(numbers(&client, "SELECT count(*) FROM t GROUP BY doc ORDER BY doc LIMIT 1").await, [1]);
        let whole = "SELECT jsonb_agg(doc ORDER BY doc), max(doc -> 'c') FROM t WHERE doc ? 'c'";
        assert_eq!(one(&client, whole).await, "[{\"c\": 1}]|1");
        for (wrong, code) in [
            ("INSERT INTO t VALUES ('x', '{}')", SqlState::INVALID_TEXT_REPRESENTATION),
            (
                "INSERT INTO t VALUES ('a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a13', '{')",
                SqlState::INVALID_TEXT_REPRESENTATION,
            ),
            (
                "INSERT INTO t VALUES ('a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a13', '{}', NULL, 'abcd')",
                SqlState::STRING_DATA_RIGHT_TRUNCATION,
            ),
            ("INSERT INTO t VALUES ('{a0eebc999c0b4ef8bb6d6bb9bd380a11}', '{}')", SqlState::UNIQUE_VIOLATION),
        ] {
            assert_eq!(refusal(&client, wrong).await.0, code, "{wrong}");
        }
        assert_eq!(numbers(&client, "SELECT count(*) FROM t").await, [2]);
    });
}
