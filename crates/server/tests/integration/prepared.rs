//! Prepared statements: the types of their parameters, and plans that are kept for other values and never for another catalogue.

use std::time::{Duration, Instant};

use crate::support::{PATIENCE, serve};
use tidemill_server::Server;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::Type;
use tokio_postgres::{Client, Config, NoTls, Row, SimpleQueryMessage, Statement};

fn run<T>(test: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(test)
}

async fn connect(server: &Server) -> Client {
    let mut config = Config::new();
    config.host("127.0.0.1").port(server.address().port()).user("me").dbname("db");
    let (client, connection) = config.connect(NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

/// The rows of a simple query, as texts.
async fn simple(client: &Client, text: &str) -> Result<Vec<Vec<Option<String>>>, SqlState> {
    let answered = client.simple_query(text).await.map_err(|error| error.code().cloned().expect("a code"))?;
    let rows = answered.into_iter().filter_map(|message| match message {
        SimpleQueryMessage::Row(row) => {
            Some((0..row.len()).map(|column| row.get(column).map(str::to_owned)).collect())
        }
        _ => None,
    });
    Ok(rows.collect())
}

fn text(row: &Row, column: usize) -> Option<String> {
    match *row.columns()[column].type_() {
        Type::INT8 => row.get::<_, Option<i64>>(column).map(|value| value.to_string()),
        Type::FLOAT8 => row.get::<_, Option<f64>>(column).map(|value| value.to_string()),
        _ => row.get(column),
    }
}

/// The rows of a prepared statement, as texts.
async fn prepared(
    client: &Client,
    statement: &Statement,
    id: i64,
) -> Result<Vec<Vec<Option<String>>>, SqlState> {
    let rows =
        client.query(statement, &[&id]).await.map_err(|error| error.code().cloned().expect("a code"))?;
    Ok(rows.iter().map(|row| (0..row.len()).map(|column| text(row, column)).collect()).collect())
}

async fn until_filled(client: &Client, view: &str, rows: usize) {
    let start = Instant::now();
    while simple(client, &format!("SELECT id FROM {view}")).await.map_or(0, |found| found.len()) < rows {
        assert!(start.elapsed() < PATIENCE, "{view} is not filled");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// What defines again or drops what the queries read, in every way that there is.
const CHANGES: [&str; 25] = [
    "CREATE OR REPLACE VIEW later AS SELECT id, x + 2 AS x FROM m",
    "CREATE OR REPLACE FUNCTION grown(a BIGINT) RETURNS BIGINT AS 'a + 20'",
    "SET partitions = 4",
    "CREATE OR REPLACE VIEW later AS SELECT id, CAST(x AS VARCHAR) || '!' AS x FROM m",
    "CREATE OR REPLACE VIEW later AS SELECT id + 1 AS id, x FROM m",
    "DROP FUNCTION grown",
    "CREATE FUNCTION grown(a BIGINT) RETURNS BIGINT AS 'a * 3'",
    "DROP VIEW later",
    "CREATE VIEW other AS SELECT id FROM m",
    "CREATE VIEW later AS SELECT id, 7 AS x FROM m WHERE id < 3",
    "SET workers = 2",
    "DROP VIEW other",
    "DROP VIEW later",
    "CREATE OR REPLACE MATERIALIZED VIEW m AS SELECT value AS id, value * 5 AS x FROM sequence(count => 50) \
     WITH (key = 'id')",
    "CREATE VIEW later AS SELECT id, 7 AS x FROM m WHERE id < 8",
    "CREATE MATERIALIZED VIEW o AS SELECT value AS id FROM sequence(rate => 10)",
    "STOP MATERIALIZED VIEW o",
    "START MATERIALIZED VIEW o",
    "SET search_path = public",
    "DROP VIEW later",
    "DROP MATERIALIZED VIEW m",
    "CREATE VIEW m AS SELECT id, x FROM n",
    "CREATE OR REPLACE VIEW m AS SELECT id, x * 2 AS x FROM n",
    "CREATE VIEW later AS SELECT id, x FROM m WHERE x > 2",
    "RESET ALL",
];

#[test]
fn a_plan_that_is_kept_never_answers_for_another_catalogue() {
    let server = serve();
    run(async {
        let (definer, one, other) = (connect(&server).await, connect(&server).await, connect(&server).await);
        for definition in [
            "CREATE MATERIALIZED VIEW m AS SELECT value AS id, value * 2 AS x FROM sequence(count => 50)
             WITH (key = 'id')",
            "CREATE MATERIALIZED VIEW n AS SELECT value AS id, value * 3 AS x FROM sequence(count => 50)
             WITH (key = 'id')",
            "CREATE VIEW later AS SELECT id, x + 1 AS x FROM m",
            "CREATE FUNCTION grown(a BIGINT) RETURNS BIGINT AS 'a + 10'",
        ] {
            definer.batch_execute(definition).await.unwrap();
        }
        until_filled(&definer, "m", 50).await;
        until_filled(&definer, "n", 50).await;
        let texts = [
            "SELECT x FROM m WHERE id = $1",
            "SELECT id, x FROM later WHERE id = $1",
            "SELECT grown(x) AS g FROM n WHERE id = $1",
            "SELECT n.x, m.x FROM n JOIN m ON n.id = m.id WHERE m.id = $1",
            "SELECT count(*) AS c FROM later WHERE x < $1",
        ];
        let mut statements = Vec::new();
        for text in texts {
            statements.push(one.prepare_typed(text, &[Type::INT8]).await.unwrap());
        }
        let mut compared = 0;
        for change in [""].into_iter().chain(CHANGES) {
            for client in [&definer, &one] {
                // Settings are changed in the session that reads.
                if !change.is_empty() && std::ptr::eq(client, &definer) != change.contains("SET ") {
                    client.batch_execute(change).await.unwrap_or_else(|error| panic!("{change}: {error:?}"));
                }
            }
            if change.contains("MATERIALIZED VIEW m ") && !change.starts_with("DROP") {
                until_filled(&definer, "m", 50).await;
            }
            for (text, statement) in texts.iter().zip(&mut statements) {
                for id in [2, 7] {
                    let expected = simple(&other, &text.replace("$1", &id.to_string())).await;
                    let mut found = prepared(&one, statement, id).await;
                    if found == Err(SqlState::FEATURE_NOT_SUPPORTED) {
                        // Its columns are others now, which a client has to be told.
                        *statement = one.prepare_typed(text, &[Type::INT8]).await.unwrap();
                        found = prepared(&one, statement, id).await;
                    }
                    assert_eq!(found, expected, "{text} with {id} after {change}");
                    compared += usize::from(found.is_ok());
                }
            }
        }
        assert!(compared > 150, "{compared} answers");
    });
}

#[test]
fn in_a_transaction_a_kept_plan_reads_its_cycle() {
    let server = serve();
    run(async {
        let (one, other) = (connect(&server).await, connect(&server).await);
        one.batch_execute(
            "CREATE MATERIALIZED VIEW m AS SELECT count(*) AS n, value % 1 AS k FROM sequence(rate => 2000) GROUP BY 2
             WITH (retain_versions = 100000)",
        )
        .await
        .unwrap();
        let read = "SELECT n FROM m WHERE k = $1";
        let (of_one, of_other) = (one.prepare(read).await.unwrap(), other.prepare(read).await.unwrap());
        let n = async |client: &Client, statement| {
            client.query_opt(statement, &[&0_i64]).await.unwrap().map_or(0, |row| row.get::<_, i64>(0))
        };
        let start = Instant::now();
        for _ in 0..5 {
            one.batch_execute("BEGIN").await.unwrap();
            let first = n(&one, &of_one).await;
            while n(&other, &of_other).await < first + 50 {
                assert!(start.elapsed() < PATIENCE);
            }
            assert_eq!(n(&one, &of_one).await, first);
            one.batch_execute("COMMIT").await.unwrap();
            assert!(n(&one, &of_one).await > first);
        }
    });
}

#[test]
fn statements_are_prepared_and_executed_in_sql() {
    let server = serve();
    run(async {
        let client = connect(&server).await;
        client
            .batch_execute(
                "CREATE MATERIALIZED VIEW m AS SELECT value AS id, value * 0.5 AS x FROM sequence(count => 9)
                 WITH (key = 'id')",
            )
            .await
            .unwrap();
        until_filled(&client, "m", 9).await;
        client.batch_execute("PREPARE q (bigint) AS SELECT id, x FROM m WHERE id = $1").await.unwrap();
        let seven = vec![vec![Some("7".to_owned()), Some("3.5".to_owned())]];
        for execute in ["EXECUTE q (7)", "EXECUTE q (3 + 4)", "execute Q ('7')"] {
            assert_eq!(simple(&client, execute).await.unwrap(), seven, "{execute}");
        }
        assert_eq!(simple(&client, "EXECUTE q (NULL)").await.unwrap(), Vec::<Vec<_>>::new());
        let explained = simple(&client, "EXPLAIN EXECUTE q (7)").await.unwrap().concat();
        assert!(explained.iter().flatten().any(|line| line.contains("by key, 1 found")), "{explained:?}");
        // Clients that prepare by the protocol see the same names.
        let row = client.query_one("EXECUTE q (8)", &[]).await.unwrap();
        assert_eq!((row.get::<_, i64>(0), row.get::<_, f64>(1)), (8, 4.0));
        for (wrong, code) in [
            ("EXECUTE nobody", SqlState::INVALID_SQL_STATEMENT_NAME),
            ("EXECUTE q", SqlState::PROTOCOL_VIOLATION),
            ("EXECUTE q (1, 2)", SqlState::PROTOCOL_VIOLATION),
            ("EXECUTE q ('seven')", SqlState::INVALID_TEXT_REPRESENTATION),
            ("PREPARE q AS SELECT 1 AS one", SqlState::DUPLICATE_PSTATEMENT),
        ] {
            assert_eq!(simple(&client, wrong).await, Err(code), "{wrong}");
        }
        client.batch_execute("PREPARE all_of_it AS SELECT sum(id) AS s FROM m").await.unwrap();
        assert_eq!(simple(&client, "EXECUTE all_of_it").await.unwrap(), [[Some("36".to_owned())]]);
        client.batch_execute("DEALLOCATE q").await.unwrap();
        assert_eq!(simple(&client, "EXECUTE q (7)").await, Err(SqlState::INVALID_SQL_STATEMENT_NAME));
    });
}

#[test]
fn parameters_get_the_types_that_functions_take() {
    let server = serve();
    run(async {
        let client = connect(&server).await;
        for (query, types) in [
            ("SELECT st_point($1, $2) AS p", &[Type::FLOAT8, Type::FLOAT8][..]),
            (
                "SELECT value FROM sequence(count => 3) WHERE st_distance(st_point(value, 0), st_point($1, $2)) < $3",
                &[Type::FLOAT8, Type::FLOAT8, Type::FLOAT8],
            ),
            (
                "SELECT st_dwithin(st_point(1, 2), st_point($1, $2), $3) AS d",
                &[Type::FLOAT8, Type::FLOAT8, Type::FLOAT8],
            ),
            (
                "SELECT st_within(st_point($1, $2), st_makeenvelope($3, 0, $4, 9)) AS w",
                &[Type::FLOAT8, Type::FLOAT8, Type::FLOAT8, Type::FLOAT8],
            ),
            ("SELECT upper($1) AS u", &[Type::TEXT]),
            ("SELECT coalesce(value, $1) AS c FROM sequence(count => 1)", &[Type::INT8]),
            (
                "SELECT CASE WHEN value > 3 THEN value ELSE $1 END AS c FROM sequence(count => 1)",
                &[Type::INT8],
            ),
            ("SELECT 'a' LIKE $1 AS l", &[Type::TEXT]),
            ("SELECT sqrt($1) AS s", &[Type::FLOAT8]),
            ("SELECT round(value * 0.5, $1) AS r FROM sequence(count => 1)", &[Type::INT4]),
        ] {
            let statement = client.prepare(query).await.unwrap_or_else(|error| panic!("{query}: {error}"));
            assert_eq!(statement.params(), types, "{query}");
        }
        let row =
            client.query_one("SELECT st_x(st_point($1, $2)) AS x", &[&1.5_f64, &2.5_f64]).await.unwrap();
        assert_eq!(row.get::<_, f64>(0), 1.5);
    });
}
