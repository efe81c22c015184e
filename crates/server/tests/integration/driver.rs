//! The server as a driver in Rust sees it: prepared statements, values in binary form, portals, cancelling.

use std::error::Error as _;
use std::time::{Duration, SystemTime};

use futures_util::{StreamExt, pin_mut};
use tokio_postgres::error::SqlState;
use tokio_postgres::types::Type;
use tokio_postgres::{Client, Config, NoTls, SimpleQueryMessage};

use crate::support::{connect, run, serve, wait_until};
use tidemill_server::Server;

/// Runs a test with a client of a server.
pub fn with_client<T>(server: &Server, test: impl AsyncFnOnce(Client) -> T) -> T {
    run(async {
        let client = connect(server).await;
        test(client).await
    })
}

#[test]
fn values_come_in_binary_form_as_they_are() {
    with_client(&serve(), async |client| {
        let text = "SELECT true AS b, CAST(-2 AS SMALLINT) AS i2, CAST(3 AS INTEGER) AS i4, CAST(-4 AS BIGINT) AS i8, \
                    CAST(1.5 AS REAL) AS f4, 1e300 AS f8, 'ö' AS t, X'00ff' AS x, \
                    TIMESTAMP '2026-11-22 17:05:00.25' AS ts, CAST(NULL AS BIGINT) AS missing";
        let row = client.query_one(text, &[]).await.unwrap();
        let types: Vec<Type> = row.columns().iter().map(|column| column.type_().clone()).collect();
        let expected = [
            Type::BOOL,
            Type::INT2,
            Type::INT4,
            Type::INT8,
            Type::FLOAT4,
            Type::FLOAT8,
            Type::TEXT,
            Type::BYTEA,
            Type::TIMESTAMP,
            Type::INT8,
        ];
        assert_eq!(types, expected);
        assert!(row.get::<_, bool>("b"));
        assert_eq!((row.get::<_, i16>(1), row.get::<_, i32>(2), row.get::<_, i64>(3)), (-2, 3, -4));
        assert_eq!((row.get::<_, f32>(4), row.get::<_, f64>(5)), (1.5, 1e300));
        assert_eq!((row.get::<_, &str>(6), row.get::<_, &[u8]>(7)), ("ö", &[0_u8, 255][..]));
        let since_1970 = row.get::<_, SystemTime>(8).duration_since(SystemTime::UNIX_EPOCH).unwrap();
        assert_eq!(since_1970, Duration::from_millis(1_795_367_100_250));
        assert_eq!(row.get::<_, Option<i64>>(9), None);
    });
}

#[test]
fn parameters_are_values_and_nothing_else() {
    with_client(&serve(), async |client| {
        let evil = "'; DROP VIEW small; --";
        let text = "SELECT $1 AS said, $2 AS flag, $3 IS NULL";
        let row = client.query_one(text, &[&evil, &"x", &None::<&str>]).await.unwrap();
        assert_eq!((row.get::<_, &str>(0), row.get::<_, bool>(2)), (evil, true));

        // Types are implied by what a parameter is compared with, and given by the client.
        let text = "SELECT value FROM sequence(count => 10) WHERE value > $1 LIMIT $2";
        let statement = client.prepare(text).await.unwrap();
        assert_eq!(statement.params(), [Type::INT8, Type::INT8]);
        for (above, count) in [(5_i64, 4), (7, 2), (9, 0)] {
            let rows = client.query(&statement, &[&above, &100_i64]).await.unwrap();
            assert_eq!(rows.len(), count, "above {above}");
        }
        assert_eq!(client.query(&statement, &[&-1_i64, &3_i64]).await.unwrap().len(), 3);
        let types = [Type::FLOAT8, Type::BYTEA, Type::TIMESTAMP, Type::BOOL, Type::INT2];
        let statement = client.prepare_typed("SELECT $1, $2, $3, $4, $5", &types).await.unwrap();
        let time = SystemTime::UNIX_EPOCH + Duration::from_micros(1_234_567_890_123_456);
        let bytes: &[u8] = &[0, 39, 255];
        let row = client.query_one(&statement, &[&-0.1_f64, &bytes, &time, &true, &7_i16]).await.unwrap();
        assert_eq!(row.get::<_, f64>(0), -0.1);
        assert_eq!((row.get::<_, &[u8]>(1), row.get::<_, SystemTime>(2)), (bytes, time));
        assert_eq!((row.get::<_, bool>(3), row.get::<_, i16>(4)), (true, 7));
    });
}

#[test]
fn errors_have_a_code_and_a_place_and_the_session_goes_on() {
    with_client(&serve(), async |client| {
        for (text, code, position) in [
            ("SELECT ö FORM x", SqlState::SYNTAX_ERROR, 15),
            ("SELECT 'ö', nope FROM sequence(count => 1)", SqlState::UNDEFINED_COLUMN, 13),
            ("SELECT * FROM nowhere", SqlState::UNDEFINED_TABLE, 15),
            ("SELECT nope(1)", SqlState::UNDEFINED_FUNCTION, 8),
            ("DROP VIEW nowhere", SqlState::UNDEFINED_TABLE, 11),
        ] {
            for error in
                [client.query(text, &[]).await.unwrap_err(), client.batch_execute(text).await.unwrap_err()]
            {
                let error = error.as_db_error().unwrap_or_else(|| panic!("{text}: {error}"));
                assert_eq!(*error.code(), code, "{text}: {error}");
                let expected = tokio_postgres::error::ErrorPosition::Original(position);
                assert_eq!(error.position(), Some(&expected), "{text}: {error}");
            }
        }
        let error = client.query("SELECT $1 + 1", &[&"x"]).await.unwrap_err();
        assert!(error.source().is_some(), "{error}");
        assert_eq!(client.query_one("SELECT 1", &[]).await.unwrap().get::<_, i64>(0), 1);
    });
}

#[test]
fn a_view_is_filled_from_its_creation_and_read_by_others() {
    let server = serve();
    with_client(&server, async |client| {
        let view = "CREATE MATERIALIZED VIEW parity AS
            SELECT value % 2 AS odd, count(*) AS n FROM sequence(count => 9) GROUP BY 1";
        client.batch_execute(view).await.unwrap();
        let other = connect(&server).await;
        let sum = async || {
            let rows = other.query("SELECT odd, n FROM parity ORDER BY odd", &[]).await.unwrap();
            rows.iter().map(|row| row.get::<_, i64>(1)).collect::<Vec<_>>()
        };
        while sum().await != [5, 4] {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let error = client.batch_execute(view).await.unwrap_err();
        assert_eq!(error.code(), Some(&SqlState::DUPLICATE_TABLE));
        client.batch_execute("DROP MATERIALIZED VIEW parity").await.unwrap();
        let error = other.query("SELECT * FROM parity", &[]).await.unwrap_err();
        assert_eq!(error.code(), Some(&SqlState::UNDEFINED_TABLE));
        let queries = client.simple_query("SHOW QUERIES").await.unwrap();
        assert!(!queries.iter().any(|message| matches!(message, SimpleQueryMessage::Row(_))));
    });
}

#[test]
fn a_transaction_reads_one_cycle_of_all_views() {
    let server = serve();
    with_client(&server, async |client| {
        // However long a view waits for the processor, the other one keeps what it has not reached.
        let script = "CREATE VIEW numbers AS SELECT value FROM sequence(rate => 5000);
            CREATE MATERIALIZED VIEW one AS SELECT count(*) AS n FROM numbers WITH (retain_versions = 1000000);
            CREATE MATERIALIZED VIEW other AS SELECT value % 3 AS k, count(*) AS n FROM numbers GROUP BY 1
            WITH (retain_versions = 1000000)";
        client.batch_execute(script).await.unwrap();
        let read = async |query: &str| {
            let rows = client.query(query, &[]).await.unwrap();
            rows.iter().map(|row| row.get::<_, i64>(0)).sum::<i64>()
        };
        // The later view lacks what came before it, the same number in every cycle from its first rows on.
        let difference = "SELECT (SELECT sum(n) FROM one) - (SELECT CAST(sum(n) AS BIGINT) FROM other) AS d";
        let missing = loop {
            if let Some(missing) = client.query_one(difference, &[]).await.unwrap().get::<_, Option<i64>>(0) {
                break missing;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        };
        for _ in 0..5 {
            client.batch_execute("BEGIN").await.unwrap();
            let one = read("SELECT n FROM one").await;
            tokio::time::sleep(Duration::from_millis(2)).await;
            assert_eq!(read("SELECT n FROM one").await, one);
            assert_eq!(read("SELECT n FROM other").await, one - missing);
            client.batch_execute("COMMIT").await.unwrap();
            assert_eq!(read(difference).await, missing);
            while read("SELECT n FROM one").await == one {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        }
        let queries = client.simple_query("SHOW QUERIES").await.unwrap();
        let shown = queries.iter().find_map(|message| match message {
            SimpleQueryMessage::Row(row) => Some(row),
            _ => None,
        });
        let shown = shown.expect("a query runs");
        assert_eq!(
            (shown.get("name"), shown.get("state"), shown.get("reason")),
            (Some("one"), Some("running"), Some(""))
        );
        assert!(shown.get("cycle").unwrap().parse::<u64>().is_ok());
        assert!(shown.get("lag_cycles").unwrap().parse::<u64>().is_ok());
        assert!(shown.get("lag_seconds").unwrap().parse::<f64>().is_ok());
    });
}

#[test]
fn the_fragments_of_views_tell_what_they_hold() {
    let server = serve();
    with_client(&server, async |client| {
        let shown = async || {
            let messages = client.simple_query("SHOW FRAGMENTS").await.unwrap();
            let rows = messages.into_iter().filter_map(|message| match message {
                SimpleQueryMessage::Row(row) => Some(row),
                _ => None,
            });
            rows.map(|row| (0..row.len()).map(|at| row.get(at).unwrap().to_owned()).collect::<Vec<_>>())
                .collect::<Vec<_>>()
        };
        assert!(shown().await.is_empty());
        let script = "CREATE MATERIALIZED VIEW odd AS
                SELECT value % 2 AS odd, count(*) AS n FROM sequence(count => 9) GROUP BY 1;
            CREATE MATERIALIZED VIEW all_values AS SELECT value FROM sequence(count => 100000)
                WITH (retain_bytes = '128 kB')";
        client.batch_execute(script).await.unwrap();
        let rows = async |view: &str| shown().await.into_iter().find(|row| row[0] == view);
        let sum = |row: &[String]| row[2].parse::<u64>().unwrap() + row[8].parse::<u64>().unwrap();
        while rows("all_values").await.is_none_or(|row| sum(&row) < 100_000) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        while rows("odd").await.is_none_or(|row| sum(&row) < 2) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let [kept, table] = shown().await.try_into().expect("two views");
        assert_eq!((&*table[0], &*table[1], &*table[2], &*table[8]), ("odd", "0", "2", "0"));
        let number = |at: usize| kept[at].parse::<u64>().unwrap();
        assert!(number(2) < 100_000 && number(8) > 0, "rows were dropped: {kept:?}");
        assert!((1..1 << 20).contains(&number(3)) && number(5) > 0, "{kept:?}");
        assert!(number(6) <= number(7), "{kept:?}");
        client.batch_execute("DROP MATERIALIZED VIEW odd").await.unwrap();
        assert_eq!(shown().await.len(), 1);
    });
}

#[test]
fn endless_rows_stream_until_they_are_cancelled() {
    let server = serve();
    with_client(&server, async |client| {
        let text = "SELECT value FROM sequence(rate => 10000)";
        let rows = client.query_raw(text, Vec::<String>::new()).await.unwrap();
        pin_mut!(rows);
        for value in 0..100 {
            assert_eq!(rows.next().await.unwrap().unwrap().get::<_, i64>(0), value);
        }
        client.cancel_token().cancel_query(NoTls).await.unwrap();
        let error = loop {
            if let Err(error) = rows.next().await.expect("the query is cancelled") {
                break error;
            }
        };
        assert_eq!(error.code(), Some(&SqlState::QUERY_CANCELED));
        // One that gives no rows is cancelled as well; the session continues.
        let waiting = client.batch_execute("SELECT value FROM sequence(rate => 100) WHERE value < 0");
        let token = client.cancel_token();
        let cancel = async {
            loop {
                tokio::time::sleep(Duration::from_millis(20)).await;
                token.cancel_query(NoTls).await.unwrap();
            }
        };
        let waiting = async { waiting.await.unwrap_err() };
        pin_mut!(waiting, cancel);
        let error = tokio::select! { error = waiting => error, () = cancel => unreachable!() };
        assert_eq!(error.code(), Some(&SqlState::QUERY_CANCELED));
        // A late one of these requests may still meet this query.
        while client.query_one("SELECT 1", &[]).await.is_err() {}
    });
}

#[test]
fn a_portal_gives_as_many_rows_as_are_asked_for() {
    with_client(&serve(), async |mut client| {
        let transaction = client.transaction().await.unwrap();
        // Endless, so that only as many rows are computed as the queues hold.
        let portal = transaction.bind("SELECT value FROM sequence(rate => 1000000)", &[]).await.unwrap();
        for start in [0, 7, 14] {
            let rows = transaction.query_portal(&portal, 7).await.unwrap();
            let values: Vec<i64> = rows.iter().map(|row| row.get(0)).collect();
            assert_eq!(values, (start..start + 7).collect::<Vec<_>>());
        }
        drop(portal);
        let portal = transaction.bind("SELECT value FROM sequence(count => 5)", &[]).await.unwrap();
        assert_eq!(transaction.query_portal(&portal, 3).await.unwrap().len(), 3);
        assert_eq!(transaction.query_portal(&portal, 0).await.unwrap().len(), 2);
        transaction.commit().await.unwrap();
    });
}

#[test]
fn a_transaction_reads_and_defines_nothing() {
    with_client(&serve(), async |mut client| {
        let transaction = client.transaction().await.unwrap();
        let error = transaction.batch_execute("CREATE VIEW v AS SELECT 1 AS a").await.unwrap_err();
        assert_eq!(error.code(), Some(&SqlState::ACTIVE_SQL_TRANSACTION));
        let error = transaction.query("SELECT 1", &[]).await.unwrap_err();
        assert_eq!(error.code(), Some(&SqlState::IN_FAILED_SQL_TRANSACTION));
        transaction.rollback().await.unwrap();
        let transaction = client.transaction().await.unwrap();
        assert_eq!(transaction.query("SELECT 1", &[]).await.unwrap().len(), 1);
        transaction.commit().await.unwrap();
    });
}

#[test]
fn a_client_that_goes_frees_its_session() {
    let server = serve();
    with_client(&server, async |client| {
        let rows =
            client.query_raw("SELECT value FROM sequence(rate => 10) WHERE value < 0", Vec::<String>::new());
        pin_mut!(rows);
        // Long enough for the query to be sent and to wait for its rows.
        let _ = tokio::time::timeout(Duration::from_millis(300), async {
            if let Ok(rows) = rows.await {
                pin_mut!(rows);
                rows.next().await;
            }
        })
        .await;
        assert_eq!(server.sessions(), 1);
    });
    // The driver has gone with its thread.
    wait_until("the end of the session", || server.sessions() == 0);
}

/// What a setting is, as `SHOW` says.
async fn shown(client: &Client, setting: &str) -> String {
    let rows = client.simple_query(&format!("SHOW {setting}")).await.unwrap();
    let row = rows.iter().find_map(|message| match message {
        SimpleQueryMessage::Row(row) => row.get(0).map(str::to_owned),
        _ => None,
    });
    row.unwrap_or_else(|| panic!("{setting} is not shown"))
}

/// What a setting of the language is.
async fn listed(client: &Client, setting: &str) -> String {
    let rows = client.simple_query("SHOW SETTINGS").await.unwrap();
    let row = rows.iter().find_map(|message| match message {
        SimpleQueryMessage::Row(row) if row.get(0) == Some(setting) => row.get(1).map(str::to_owned),
        _ => None,
    });
    row.unwrap_or_else(|| panic!("{setting} is not listed"))
}

#[test]
fn settings_of_a_transaction_end_as_it_does() {
    with_client(&serve(), async |client| {
        let run = async |text: &str| client.batch_execute(text).await.unwrap();
        run("BEGIN; SET LOCAL statement_timeout = '5min'; SET application_name = 'inside'").await;
        assert_eq!(shown(&client, "statement_timeout").await, "5min");
        run("COMMIT").await;
        assert_eq!(shown(&client, "statement_timeout").await, "0");
        assert_eq!(shown(&client, "application_name").await, "inside");

        run("BEGIN; SET application_name = 'lost'; SET partitions = 3; ROLLBACK").await;
        assert_eq!(shown(&client, "application_name").await, "inside");
        assert_eq!(listed(&client, "partitions").await, "16");

        // After an error, COMMIT rolls back.
        let failed = client.batch_execute("BEGIN; SET application_name = 'lost'; SELECT nope").await;
        assert!(failed.is_err());
        run("COMMIT").await;
        assert_eq!(shown(&client, "application_name").await, "inside");

        // SET LOCAL hides an earlier SET until the transaction ends; a later SET is what remains.
        run("BEGIN; SET lock_timeout = 0; SET extra_float_digits = 2; SET LOCAL extra_float_digits = 3")
            .await;
        assert_eq!(shown(&client, "extra_float_digits").await, "3");
        run("COMMIT; BEGIN; SET LOCAL application_name = 'local'; SET application_name = 'last'; COMMIT")
            .await;
        assert_eq!(shown(&client, "extra_float_digits").await, "2");
        assert_eq!(shown(&client, "application_name").await, "last");

        run("BEGIN; SET partitions = 5; SET LOCAL partitions = 7; SET SESSION max_groups = 9").await;
        assert_eq!(listed(&client, "partitions").await, "7");
        run("COMMIT").await;
        assert_eq!(listed(&client, "partitions").await, "5");
        assert_eq!(listed(&client, "max_groups").await, "9");

        let text = "BEGIN; SET LOCAL application_name = 'a'; SAVEPOINT s; SET application_name = 'b'; \
                    SET partitions = 9; ROLLBACK TO s";
        run(text).await;
        assert_eq!(shown(&client, "application_name").await, "a");
        assert_eq!(listed(&client, "partitions").await, "5");
        run("COMMIT").await;
        assert_eq!(shown(&client, "application_name").await, "last");

        // The call that drivers make instead of SET.
        run("SELECT set_config('application_name', 'called', false), \
             pg_catalog.set_config('own.thing', 'x', true)")
        .await;
        assert_eq!(shown(&client, "application_name").await, "called");
        let row =
            client.query_one("SELECT set_config('statement_timeout', $1, $2::boolean)", &[&"5min", &true]);
        assert_eq!(row.await.unwrap().get::<_, String>(0), "5min");
        assert_eq!(shown(&client, "statement_timeout").await, "0", "it was its own transaction");
        run("BEGIN; SELECT set_config('jit', 'off', false); SELECT set_config('statement_timeout', '5min', true)")
            .await;
        assert_eq!(shown(&client, "statement_timeout").await, "5min");
        run("COMMIT; BEGIN; SELECT set_config('application_name', 'lost', false); ROLLBACK").await;
        assert_eq!(shown(&client, "statement_timeout").await, "0");
        assert_eq!(shown(&client, "application_name").await, "called");
        for (wrong, code) in [
            ("SELECT set_config('statement_timeout', 'soon', false)", "22023"),
            ("SELECT set_config('statement_timeout', v, false) FROM (VALUES ('5s')) AS t(v)", "42000"),
        ] {
            let error = client.batch_execute(wrong).await.unwrap_err();
            assert_eq!(error.code().unwrap().code(), code, "{wrong}: {error:?}");
        }
        run("SET application_name = 'last'").await;

        // Outside of a transaction, SET LOCAL changes nothing.
        run("SET LOCAL application_name = 'never'; SET LOCAL partitions = 4").await;
        assert_eq!(shown(&client, "application_name").await, "last");
        assert_eq!(listed(&client, "partitions").await, "5");
        let wrong = client.batch_execute("SET LOCAL statement_timeout = 'soon'").await.unwrap_err();
        assert_eq!(wrong.code(), Some(&SqlState::INVALID_PARAMETER_VALUE));

        run("BEGIN; RESET ALL; ROLLBACK").await;
        assert_eq!(shown(&client, "application_name").await, "last");
        run("RESET ALL").await;
        assert_eq!(shown(&client, "application_name").await, "");
        assert_eq!(listed(&client, "partitions").await, "16");
    });
}

#[test]
fn a_time_limit_of_a_transaction_is_no_limit_of_the_session() {
    let endless = "SELECT value FROM sequence(rate => 1000) WHERE value < 0";
    with_client(&serve(), async |client| {
        client.batch_execute("BEGIN; SET LOCAL statement_timeout = '100ms'").await.unwrap();
        let cancelled = client.simple_query(endless).await.unwrap_err();
        assert_eq!(cancelled.code(), Some(&SqlState::QUERY_CANCELED));
        client.batch_execute("ROLLBACK").await.unwrap();
        assert_eq!(shown(&client, "statement_timeout").await, "0");
    });
}

#[test]
fn reset_returns_to_what_the_client_began_with() {
    let server = serve();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let mut config = Config::new();
        config.host("127.0.0.1").port(server.address().port()).user("me").options("-c statement_timeout=7s");
        let (client, connection) = config.connect(NoTls).await.unwrap();
        tokio::spawn(connection);
        client.batch_execute("SET statement_timeout = '1h'").await.unwrap();
        assert_eq!(shown(&client, "statement_timeout").await, "1h");
        client.batch_execute("RESET statement_timeout").await.unwrap();
        assert_eq!(shown(&client, "statement_timeout").await, "7s");
    });
}

#[test]
fn a_sink_that_breaks_the_deadline_of_another_one_is_refused() {
    with_client(&serve(), async |client| {
        let define = "CREATE POOL p WITH (policy = 'fifo', priority = 2, best_effort = true);
             CREATE SINK alarms WITH (connector = 'blackhole', pool = p, deadline = '60 ms', min_gap = '100 ms',
                 wcet = '20 ms') AS SELECT value FROM sequence(rate => 100)";
        client.batch_execute(define).await.unwrap();
        let quick = |options: &str| {
            format!(
                "CREATE SINK quick WITH (connector = 'blackhole', pool = p, deadline = '50 ms', min_gap = '100 ms', \
                 wcet = '45 ms'{options}) AS SELECT value FROM sequence(rate => 100)"
            )
        };
        let error = client.batch_execute(&quick("")).await.unwrap_err();
        let error = error.as_db_error().unwrap();
        assert!(
            error.message().starts_with("beside 'quick', sink 'alarms' cannot keep its deadline of 60 ms: "),
            "{error:?}"
        );
        assert!(error.hint().unwrap().contains("best_effort = true"), "{error:?}");
        client.batch_execute(&quick(", best_effort = true")).await.unwrap();
        // Both run; the older one says what has become of its deadline.
        let plan = client.simple_query("EXPLAIN alarms").await.unwrap();
        let lines = plan.iter().filter_map(|message| match message {
            SimpleQueryMessage::Row(row) => row.get(0),
            _ => None,
        });
        let plan: Vec<&str> = lines.collect();
        let plan = plan.join("\n");
        assert!(plan.contains("deadline: 60 ms; not kept for certain: the bound is 110 ms"), "{plan}");
    });
}
