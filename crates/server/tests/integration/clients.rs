//! The server as others see it that log in with a password: a program in Go with pgx, in Python with asyncpg and SQLAlchemy, in
//! Java with JDBC, and a real PostgreSQL (postgres_fdw).
//!
//! `.ci/run` installs what they need, and names it in variables. A client that is missing is skipped, and the test says so.

use crate::support;
use tidemill_testing::postgres;

use std::ffi::OsString;
use std::process::Command;

use crate::support::{PATIENCE, connect, serve_runtime};
use futures_util::{SinkExt, pin_mut};
use tidemill_server::Server;
use tidemill_service::Runtime;
use tidemill_sql::Planner;

/// The password of the user `ada`.
const PASSWORD: &str = "analytical";

/// A server with a user, a source `prices_in`, a view `prices` with three rows, and views with keys of each kind.
fn serve() -> Server {
    let server = serve_runtime(&Runtime::new(Planner::new()));
    let definitions = format!(
        "CREATE SOURCE prices_in (id BIGINT NOT NULL, price DOUBLE, name VARCHAR) WITH (connector = 'push');
         CREATE MATERIALIZED VIEW prices AS SELECT id, price, name FROM prices_in;
         CREATE MATERIALIZED VIEW newest PRIMARY KEY (id) AS SELECT price, id FROM prices_in;
         CREATE MATERIALIZED VIEW totals AS
            SELECT name, id, count(*) AS n, max(price) AS price FROM prices_in GROUP BY name, id;
         CREATE MATERIALIZED VIEW visits WITH (key = 'name') AS SELECT name, price FROM prices_in;
         CREATE VIEW \"Dear Ones\" AS
            SELECT id, [price, 2.5] AS pair, CAST(price AS DECIMAL(10, 2)) AS exact FROM prices;
         CREATE USER ada PASSWORD '{PASSWORD}' ROLE owner"
    );
    support::run(async {
        let client = connect(&server).await;
        client.batch_execute(&definitions).await.unwrap();
        let rows = client.copy_in("COPY prices_in FROM STDIN (FORMAT csv)").await.unwrap();
        pin_mut!(rows);
        let text = std::io::Cursor::new(&b"1,1.5,apple\n2,2.5,pear\n3,3.5,plum\n"[..]);
        rows.send(text).await.unwrap();
        assert_eq!(rows.finish().await.unwrap(), 3);
        let start = std::time::Instant::now();
        while client.query("SELECT id FROM prices", &[]).await.unwrap().len() < 3 {
            assert!(start.elapsed() < PATIENCE, "the view has no rows");
        }
    });
    server
}

/// What a variable names; without it, the test is skipped.
fn named(variable: &str) -> Option<OsString> {
    let named = std::env::var_os(variable);
    if named.is_none() {
        eprintln!("skipped: {variable} names no client (.ci/run installs what it can)");
    }
    named
}

/// Runs a client, which says that it is done.
fn run(mut command: Command, server: &Server) {
    let output =
        command.args([&server.address().port().to_string(), PASSWORD]).output().expect("it can be run");
    let (told, wrong) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!(told.lines().last(), Some("done"), "{told}{wrong}");
}

#[test]
fn pgx() {
    let Some(program) = named("TIDEMILL_PGX") else { return };
    run(Command::new(program), &serve());
}

/// A program in Python, run by an interpreter that has its packages.
fn python(program: &str) {
    let Some(interpreter) = named("TIDEMILL_SQLALCHEMY_PYTHON") else { return };
    let mut command = Command::new(interpreter);
    command.arg(program_named(program));
    run(command, &serve());
}

fn program_named(name: &str) -> String {
    let package = std::env::var("CARGO_MANIFEST_DIR").expect("cargo runs the test");
    format!("{package}/tests/integration/clients/{name}")
}

#[test]
fn asyncpg() {
    python("asyncpg_session.py");
}

#[test]
fn sqlalchemy() {
    python("sqlalchemy_session.py");
}

#[test]
fn dataframes() {
    let Some(interpreter) = named("TIDEMILL_DATAFRAMES_PYTHON") else { return };
    let mut command = Command::new(interpreter);
    command.arg(program_named("dataframes_session.py"));
    run(command, &serve());
}

#[test]
fn odbc() {
    let (Some(interpreter), Some(driver)) = (named("TIDEMILL_ODBC_PYTHON"), named("TIDEMILL_ODBC_DRIVER"))
    else {
        return;
    };
    let mut command = Command::new(interpreter);
    command.arg(program_named("odbc_session.py")).arg(driver);
    run(command, &serve());
}

#[test]
fn node() {
    let Some(modules) = named("TIDEMILL_NODE_MODULES") else { return };
    let mut command = Command::new("node");
    command.env("NODE_PATH", modules).arg(program_named("node_session.js"));
    run(command, &serve());
}

#[test]
fn jdbc() {
    let Some(driver) = named("TIDEMILL_PGJDBC") else { return };
    let mut command = Command::new("java");
    command.arg("-cp").arg(driver).arg(program_named("Jdbc.java"));
    run(command, &serve());
}

#[test]
fn a_real_postgresql_reads_views_as_its_own_tables() {
    let Some(real) = postgres::Server::start() else { return };
    let server = serve();
    let port = server.address().port();
    real.query(&format!(
        "CREATE EXTENSION postgres_fdw;
         CREATE SERVER tides FOREIGN DATA WRAPPER postgres_fdw OPTIONS (host '127.0.0.1', port '{port}', dbname 'db');
         CREATE USER MAPPING FOR tidemill SERVER tides OPTIONS (user 'ada', password '{PASSWORD}');
         CREATE FOREIGN TABLE prices (id BIGINT, price DOUBLE PRECISION, name TEXT) SERVER tides;
         CREATE TABLE sold (id BIGINT, count BIGINT); INSERT INTO sold VALUES (1, 10), (3, 20)"
    ));
    assert_eq!(real.query("SELECT price, name FROM prices WHERE id = 2"), "2.5|pear");
    let joined =
        "SELECT name, sum(price * count) FROM prices JOIN sold USING (id) GROUP BY name ORDER BY name";
    assert_eq!(real.query(joined), "apple|15\nplum|70");
    assert_eq!(real.query("SELECT count(*) FROM prices WHERE name LIKE 'p%'"), "2");
}
