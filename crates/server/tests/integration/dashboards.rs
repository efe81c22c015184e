//! Statements that Grafana and Metabase send, as they are on the wire. A real PostgreSQL with the same rows must
//! answer the same; where there is none, the answers that it once gave are compared all the same.
//!
//! `TIDEMILL_UPDATE=1` writes what PostgreSQL answers into the cases.

use tidemill_testing::postgres;

use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;
use std::time::Instant;

use crate::support::{PATIENCE, connect, serve_runtime};
use futures_util::{SinkExt, pin_mut};
use tidemill_server::Server;
use tidemill_service::Runtime;
use tidemill_sql::Planner;
use tokio_postgres::{Client, SimpleQueryMessage};

/// What stands behind the title of a case that PostgreSQL answers differently: materialized views are not tables there, the seconds
/// of a time are a NUMERIC, and columns of views can be NULL.
const OURS_ALONE: &str = " (PostgreSQL differs)";
const ROWS: &str = "2026-01-01 00:00:10\t1\t1.5\tapple\tf\n2026-01-01 00:01:10\t2\t2.5\tpear\tt\n\
    2026-01-01 00:01:20\t3\t3.5\tplum\tt\n2026-01-01 01:30:00\t4\t\\N\t\\N\t\\N\n";

struct Case {
    title: String,
    statement: String,
    rows: String,
}

fn path(name: &str) -> PathBuf {
    let package = std::env::var("CARGO_MANIFEST_DIR").expect("cargo runs the test");
    PathBuf::from(package).join(format!("tests/integration/dashboards/{name}.txt"))
}

/// The text before the cases, and the cases.
fn read(name: &str) -> (String, Vec<Case>) {
    let text = fs::read_to_string(path(name)).unwrap();
    let mut parts = text.split("\n=== ");
    let head = parts.next().unwrap().to_owned();
    let case = |part: &str| {
        let (title, rest) = part.split_once('\n').unwrap();
        let (statement, rows) = rest.split_once("\n--- rows\n").unwrap_or((rest, ""));
        Case { title: title.into(), statement: statement.into(), rows: rows.trim_end().into() }
    };
    (head, parts.map(case).collect())
}

fn write(name: &str, head: &str, cases: &[Case]) {
    let mut text = head.to_owned();
    for Case { title, statement, rows } in cases {
        let end = if rows.is_empty() { "" } else { "\n" };
        write!(text, "\n=== {title}\n{statement}\n--- rows\n{rows}{end}").unwrap();
    }
    fs::write(path(name), text).unwrap();
}

/// PostgreSQL with the same rows.
fn real() -> Option<postgres::Server> {
    let real = postgres::Server::start()?;
    let values: Vec<String> = ROWS
        .lines()
        .map(|line| {
            let value = |text: &str| if text == "\\N" { "NULL".to_owned() } else { format!("'{text}'") };
            format!("({})", line.split('\t').map(value).collect::<Vec<_>>().join(", "))
        })
        .collect();
    real.query(&format!(
        "CREATE TABLE prices_in (at TIMESTAMP, id BIGINT NOT NULL, price DOUBLE PRECISION, name TEXT, dear BOOLEAN);
         INSERT INTO prices_in VALUES {};
         CREATE MATERIALIZED VIEW prices AS SELECT at, id, price, name, dear FROM prices_in;
         CREATE VIEW \"Dear Ones\" AS SELECT id, price FROM prices WHERE price > 2",
        values.join(", ")
    ));
    Some(real)
}

fn serve() -> Server {
    serve_runtime(&Runtime::new(Planner::new()))
}

async fn client(server: &Server) -> Client {
    let client = connect(server).await;
    let definitions =
        "CREATE SOURCE prices_in (at TIMESTAMP, id BIGINT NOT NULL, price DOUBLE, name VARCHAR, dear BOOLEAN)
            WITH (connector = 'push');
         CREATE MATERIALIZED VIEW prices AS SELECT at, id, price, name, dear FROM prices_in;
         CREATE VIEW \"Dear Ones\" AS SELECT id, price FROM prices WHERE price > 2";
    client.batch_execute(definitions).await.unwrap();
    let rows = client.copy_in("COPY prices_in FROM STDIN").await.unwrap();
    pin_mut!(rows);
    rows.send(std::io::Cursor::new(ROWS.as_bytes())).await.unwrap();
    rows.finish().await.unwrap();
    let start = Instant::now();
    while answered(&client, "SELECT count(*) AS n FROM prices").await.as_deref() != Ok("4") {
        assert!(start.elapsed() < PATIENCE, "the view has no rows");
    }
    client
}

/// The rows as psql shows them without a frame; of a query, also through the extended protocol, as drivers ask.
async fn answered(client: &Client, statement: &str) -> Result<String, String> {
    let told = |error: tokio_postgres::Error| match error.as_db_error() {
        Some(error) => error.message().to_owned(),
        None => error.to_string(),
    };
    let mut lines = Vec::new();
    for message in client.simple_query(statement).await.map_err(told)? {
        if let SimpleQueryMessage::Row(row) = message {
            let values: Vec<&str> = (0..row.len()).map(|at| row.get(at).unwrap_or_default()).collect();
            lines.push(values.join("|"));
        }
    }
    let prepared = client.prepare(statement).await.map_err(told)?;
    let rows = client.query(&prepared, &[]).await.map_err(told)?;
    assert_eq!(rows.len(), lines.len(), "{statement}");
    Ok(lines.join("\n"))
}

fn check(name: &str) {
    let (head, mut cases) = read(name);
    let real = real();
    let server = serve();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let client = runtime.block_on(client(&server));
    let mut wrong = Vec::new();
    for case in &mut cases {
        let of_real = real.as_ref().filter(|_| !case.title.ends_with(OURS_ALONE));
        if let Some(rows) = of_real.map(|real| real.query(&case.statement)) {
            if std::env::var_os("TIDEMILL_UPDATE").is_some() {
                case.rows = rows;
            } else if rows != case.rows {
                wrong.push(format!("PostgreSQL, {}:\n{rows}\nis not\n{}", case.title, case.rows));
            }
        }
        match runtime.block_on(answered(&client, &case.statement)) {
            Ok(rows) if rows == case.rows => {}
            Ok(rows) => wrong.push(format!("{}:\n{rows}\nis not\n{}", case.title, case.rows)),
            Err(error) => wrong.push(format!("{}: {error}", case.title)),
        }
    }
    if std::env::var_os("TIDEMILL_UPDATE").is_some() {
        write(name, &head, &cases);
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

#[test]
fn grafana() {
    check("grafana");
}

#[test]
fn metabase() {
    check("metabase");
}

/// The statements of other tools are ours: they ask what ADBC, Npgsql, pgAdmin, DataGrip, DBeaver and the ODBC driver ask.
#[test]
fn tools() {
    check("tools");
}

#[test]
fn a_real_postgresql_has_the_same_columns() {
    let Some(real) = real() else { return };
    let relations = "SELECT n.nspname, c.relname, string_agg(a.attname, ' ' ORDER BY a.attnum) FROM pg_class c
        JOIN pg_namespace n ON n.oid = c.relnamespace JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0
        WHERE n.nspname IN ('pg_catalog', 'information_schema') AND c.relkind IN ('r', 'v') AND c.relname !~ '^_'
        GROUP BY 1, 2 ORDER BY 1, 2";
    let relations = real.query(relations);
    let server = serve();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let wrong: Vec<String> = runtime.block_on(async {
        let client = client(&server).await;
        let mut wrong = Vec::new();
        for line in relations.lines() {
            let [schema, name, columns] = line.split('|').collect::<Vec<_>>()[..] else { panic!("{line}") };
            let found = match client.prepare(&format!("SELECT * FROM {schema}.{name}")).await {
                Ok(query) => query
                    .columns()
                    .iter()
                    .map(|column| column.name().to_owned())
                    .collect::<Vec<_>>()
                    .join(" "),
                Err(error) => error.to_string(),
            };
            if found != columns {
                wrong.push(format!("{schema}.{name}: {found}\nis not {columns}"));
            }
        }
        wrong
    });
    assert!(relations.lines().count() > 150, "{relations}");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
