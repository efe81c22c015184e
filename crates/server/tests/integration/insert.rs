//! Rows that clients insert into sources: with values and parameters, in transactions, and wrongly.

use std::time::{Duration, Instant};

use crate::support::{PATIENCE, connect, run, serve_runtime};
use tidemill_service::Runtime;
use tidemill_sql::Planner;
use tokio_postgres::{Client, SimpleQueryMessage};

const SOURCE: &str =
    "CREATE SOURCE reports (vehicle BIGINT NOT NULL, speed REAL, note VARCHAR, at TIMESTAMP, fast BOOLEAN)
        WITH (connector = 'push');
    CREATE MATERIALIZED VIEW seen AS SELECT vehicle, speed, note, at, fast FROM reports";

fn with_client<T>(test: impl AsyncFnOnce(Client) -> T) -> T {
    let server = serve_runtime(&Runtime::new(Planner::new()));
    run(async {
        let client = connect(&server).await;
        client.batch_execute(SOURCE).await.unwrap();
        test(client).await
    })
}

/// The rows of a query, with `|` between values.
async fn rows(client: &Client, query: &str) -> Vec<String> {
    let messages = client.simple_query(query).await.unwrap();
    let rows = messages.iter().filter_map(|message| match message {
        SimpleQueryMessage::Row(row) => {
            let value = |column| row.get(column).unwrap_or("NULL").to_owned();
            Some((0..row.len()).map(value).collect::<Vec<_>>().join("|"))
        }
        _ => None,
    });
    rows.collect()
}

/// Waits until a query gives these rows.
async fn expect(client: &Client, query: &str, wanted: &[&str]) {
    let start = Instant::now();
    loop {
        let found = rows(client, query).await;
        if found == wanted {
            return;
        }
        assert!(start.elapsed() < PATIENCE, "{query}: {found:?}, and not {wanted:?}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Code, message and hint.
async fn refused(client: &Client, statement: &str) -> String {
    let error = client.batch_execute(statement).await.expect_err(statement);
    let error = error.as_db_error().unwrap_or_else(|| panic!("not of the server: {error:?}"));
    format!("{} {}; {}", error.code().code(), error.message(), error.hint().unwrap_or_default())
}

const SEEN: &str = "SELECT vehicle, speed, note, at, fast FROM seen ORDER BY vehicle";

#[test]
fn values_become_those_of_the_columns() {
    with_client(async |client| {
        let inserted = client
            .execute(
                "INSERT INTO reports VALUES (1, 7, 'it''s', '2026-01-02 03:04:05', true), (2, 1.5, NULL, NULL, NULL)",
                &[],
            )
            .await;
        assert_eq!(inserted.unwrap(), 2);
        let mixed = "INSERT INTO reports (vehicle, note, at)
            VALUES (3, 5, '2026-01-01 00:00:00'), (4, 'x', TIMESTAMP '2026-01-01 00:00:00')";
        assert_eq!(client.execute(mixed, &[]).await.unwrap(), 2);
        let other =
            "INSERT INTO public.reports (note, \"vehicle\") SELECT 'of ' || vehicle, vehicle + 10 FROM seen";
        expect(&client, "SELECT count(*) FROM seen", &["4"]).await;
        assert_eq!(client.execute(other, &[]).await.unwrap(), 4);
        assert_eq!(client.execute("INSERT INTO reports SELECT 5 WHERE false", &[]).await.unwrap(), 0);
        assert_eq!(client.execute("insert into reports (vehicle) values (30)", &[]).await.unwrap(), 1);
        let wanted = [
            "1|7|it's|2026-01-02 03:04:05|t",
            "2|1.5|NULL|NULL|NULL",
            "3|NULL|5|2026-01-01 00:00:00|NULL",
            "4|NULL|x|2026-01-01 00:00:00|NULL",
            "11|NULL|of 1|NULL|NULL",
            "12|NULL|of 2|NULL|NULL",
            "13|NULL|of 3|NULL|NULL",
            "14|NULL|of 4|NULL|NULL",
            "30|NULL|NULL|NULL|NULL",
        ];
        expect(&client, SEEN, &wanted).await;
    });
}

#[test]
fn numbers_that_are_written_out_are_rounded_as_decimals() {
    with_client(async |client| {
        let values = "INSERT INTO reports (vehicle, speed, note)
            VALUES (0.5, 0.5, 1.50), (2.5, 1, 'x'), (-2.5, 2.5, 7)";
        client.batch_execute(values).await.unwrap();
        let selected = "INSERT INTO reports (vehicle, note) SELECT 4.5, 7.10 UNION ALL (SELECT 6.5, 'y')";
        client.batch_execute(selected).await.unwrap();
        // As in PostgreSQL.
        let wanted = ["-3|2.5|7", "1|0.5|1.50", "3|1|x", "5|NULL|7.10", "7|NULL|y"];
        expect(&client, "SELECT vehicle, speed, note FROM seen ORDER BY vehicle", &wanted).await;
        let refused = refused(&client, "INSERT INTO reports (vehicle) VALUES ('1.5')").await;
        assert!(refused.starts_with("22P02 vehicle: 1.5 does not fit into BIGINT"), "{refused}");
    });
}

#[test]
fn parameters_have_the_types_of_their_columns() {
    with_client(async |client| {
        let insert = "INSERT INTO reports (fast, vehicle, speed, note)
            VALUES ($1, $2, $3, $4), ($1, $2 + 1, 0, lower($4))";
        let prepared = client.prepare(insert).await.unwrap();
        let types: Vec<&str> = prepared.params().iter().map(|kind| kind.name()).collect();
        assert_eq!(types, ["bool", "int8", "float4", "text"]);
        for vehicle in [0_i64, 100] {
            let done = client.execute(&prepared, &[&true, &vehicle, &2.5_f32, &"ÄB"]).await.unwrap();
            assert_eq!(done, 2);
        }
        let wanted = ["0|2.5|ÄB|NULL|t", "1|0|äb|NULL|t", "100|2.5|ÄB|NULL|t", "101|0|äb|NULL|t"];
        expect(&client, SEEN, &wanted).await;
        // The number of a parameter takes no memory before it is looked at.
        let error = client.prepare("INSERT INTO reports VALUES ($4000000000)").await.unwrap_err();
        assert_eq!(error.code().map(|code| code.code()), Some("54000"), "{error:?}");
        client.batch_execute("PREPARE p AS INSERT INTO reports (vehicle) VALUES ($1)").await.unwrap_err();
    });
}

#[test]
fn rows_enter_when_their_transaction_is_committed() {
    with_client(async |client| {
        let insert = |vehicle: i64| format!("INSERT INTO reports (vehicle) VALUES ({vehicle})");
        client.batch_execute(&format!("BEGIN; {}; ROLLBACK", insert(1))).await.unwrap();
        client.batch_execute(&format!("BEGIN; {}; SAVEPOINT s; {}", insert(2), insert(3))).await.unwrap();
        client.batch_execute("ROLLBACK TO s").await.unwrap();
        client.batch_execute(&insert(4)).await.unwrap();
        assert_eq!(rows(&client, "SELECT count(*) FROM seen").await, ["0"]);
        client.batch_execute("COMMIT").await.unwrap();
        expect(&client, "SELECT vehicle FROM seen ORDER BY vehicle", &["2", "4"]).await;
        // A failed one leaves nothing.
        client.batch_execute(&format!("BEGIN; {}", insert(5))).await.unwrap();
        refused(&client, "INSERT INTO reports (vehicle) VALUES ('x')").await;
        client.batch_execute("COMMIT").await.unwrap();
        client.batch_execute(&insert(6)).await.unwrap();
        expect(&client, "SELECT vehicle FROM seen ORDER BY vehicle", &["2", "4", "6"]).await;
        // What is too much for memory waits in a file.
        client.batch_execute("BEGIN").await.unwrap();
        let large = "INSERT INTO reports (vehicle, note)
            SELECT v, repeat('x', 9000000) FROM (VALUES (1), (2), (3), (4)) AS t (v)";
        client.batch_execute(large).await.unwrap();
        client.batch_execute(large).await.unwrap();
        client.batch_execute("ROLLBACK").await.unwrap();
        expect(&client, "SELECT count(*) FROM seen", &["3"]).await;
    });
}

#[test]
fn what_does_not_fit_is_refused_and_takes_in_nothing() {
    with_client(async |client| {
        let named = "CREATE SOURCE named (n BIGINT, name VARCHAR NOT NULL) WITH (connector = 'push');
            CREATE MATERIALIZED VIEW names AS SELECT name FROM named";
        client.batch_execute(named).await.unwrap();
        let cases = [
            ("INSERT INTO reports VALUES (1, 'fast')", "22P02 speed: "),
            ("INSERT INTO reports (vehicle, note) VALUES (1, 5), (2, now()), ('x', 'y')", "22P02 vehicle: "),
            ("INSERT INTO reports VALUES (1), (NULL)", "22P02 vehicle: the column is NOT NULL"),
            ("INSERT INTO named VALUES (1)", "22P02 name: the column is NOT NULL"),
            ("INSERT INTO reports (speed) VALUES (1)", "23502 column 'vehicle' is NOT NULL"),
            (
                "INSERT INTO reports (vehicle, vehicle) VALUES (1, 2)",
                "42701 column 'vehicle' is named more than once",
            ),
            (
                "INSERT INTO reports (vehicle, colour) VALUES (1, 2)",
                "42703 the source has no column 'colour'",
            ),
            ("INSERT INTO reports (vehicle, speed) VALUES (1)", "42601 1 values are given for 2 columns"),
            (
                "INSERT INTO reports VALUES (1, 2, 'a', NULL, true, 5)",
                "42601 6 values are given for 5 columns",
            ),
            (
                "INSERT INTO reports SELECT value FROM sequence(rate => 10)",
                "42809 only values, and queries over views",
            ),
            ("INSERT INTO reports VALUES (1) ON CONFLICT DO NOTHING", "42601 ON CONFLICT has no meaning"),
            ("INSERT INTO reports VALUES (1) RETURNING vehicle", "42601 RETURNING has no meaning"),
            ("INSERT INTO reports", "42601 there are no values"),
            ("INSERT INTO reports (vehicle", "42601 "),
            ("INSERT INTO seen VALUES (1)", "42809 'seen' is not a source into which rows can be inserted"),
            ("INSERT INTO nothing VALUES (1)", "42000 there is no sink 'nothing'"),
            (
                "INSERT INTO seen (vehicle) VALUES (1)",
                "42809 'seen' is not a source into which rows can be inserted",
            ),
            ("INSERT INTO nothing (vehicle) VALUES (1)", "42P01 there is no source 'nothing'"),
        ];
        for (statement, wanted) in cases {
            let told = refused(&client, statement).await;
            assert!(told.starts_with(wanted), "{statement}: {told}");
        }
        let unread = "CREATE SOURCE unread (n BIGINT) WITH (connector = 'push')";
        client.batch_execute(unread).await.unwrap();
        let told = refused(&client, "INSERT INTO unread VALUES (1)").await;
        assert!(told.starts_with("55000 no query reads 'unread'"), "{told}");
        assert_eq!(rows(&client, "SELECT count(*) FROM seen").await, ["0"]);
        // A sink still gets its input by a definition.
        let sink =
            "CREATE SINK out WITH (connector = 'blackhole'); INSERT INTO out SELECT vehicle FROM reports";
        client.batch_execute(sink).await.unwrap();
    });
}
