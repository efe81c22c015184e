//! The console in a headless Chromium. `TIDEMILL_CONSOLE_PYTHON` names an interpreter with Playwright; without the variable, this
//! test says so and passes.

use std::ffi::{OsStr, OsString};
use std::fs::OpenOptions;
use std::io::Write;
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use crate::support::{connect, get, run, serve_http, serve_runtime, start};
use tidemill_server::{HttpOptions, RecentLog, RecentLogLayer, Server};
use tidemill_service::{FileCatalogLog, Runtime};
use tidemill_sql::Planner;
use tracing_subscriber::layer::SubscriberExt;

fn runtime() -> Runtime {
    let runtime = Runtime::new(Planner::new());
    let digits = "SET max_latency = '5 seconds';
        CREATE MATERIALIZED VIEW digits AS
        SELECT value % 10 AS digit, count(*) AS n FROM sequence(rate => 1000) GROUP BY 1";
    start(&runtime, "digits", digits);
    let waves = "CREATE MATERIALIZED VIEW waves AS
        SELECT value, round(sin(value / 20.0) * 100) AS y FROM sequence(count => 300)";
    start(&runtime, "waves", waves);
    runtime.wait("waves").unwrap();
    // It ends, so that its cycles stay: some hundred of them.
    let places = "CREATE MATERIALIZED VIEW places AS
        SELECT value AS vid, to_timestamp_millis(1700000000000 + value * 100) AS at,
            40 + 30 * sin(value / 900.0) + 4 * sin(value * 7.13) AS x,
            30 + 20 * cos(value / 700.0) + 4 * cos(value * 3.71) AS y
        FROM sequence(count => 6000, rate => 6000)
        WITH (retain_bytes = '64 MB', key = 'vid', time = 'at', point = 'x, y', retain_versions = 100000)";
    start(&runtime, "places", places);
    runtime.wait("places").unwrap();
    // Names and values of others: text that looks like code, places that are none, values that are long.
    let hostile = r#"CREATE MATERIALIZED VIEW "<img src=x onerror=""document.title=1"">" AS
        SELECT value AS "<b>bold</b>", '<script>document.title=2</script>' AS t, value * 2.0 AS y,
            CASE WHEN value % 5 = 0 THEN CAST('NaN' AS DOUBLE) WHEN value % 5 = 1 THEN CAST('-Infinity' AS DOUBLE)
                WHEN value % 5 = 2 THEN NULL ELSE value END AS x,
            CASE WHEN value = 3 THEN repeat('<i>', 3333333) || '.' END AS long
        FROM sequence(count => 100) WITH (point = 'x, y')"#;
    start(&runtime, "<img src=x onerror=\"document.title=1\">", hostile);
    let nothing = "CREATE MATERIALIZED VIEW nothing AS SELECT value, 1.0 AS x, 2.0 AS y
        FROM sequence(count => 10) WHERE value < 0 WITH (point = 'x, y')";
    start(&runtime, "nothing", nothing);
    runtime.wait("nothing").unwrap();
    runtime
}

/// Runs a program in Python that looks at pages and saves pictures of them.
fn browse(interpreter: &OsStr, program: &str, addresses: &[String]) {
    let program =
        format!("{}/tests/integration/console/{program}", std::env::var("CARGO_MANIFEST_DIR").unwrap());
    let pictures = match std::env::var_os("TIDEMILL_CONSOLE_PICTURES") {
        Some(folder) => folder.into(),
        None => std::env::temp_dir().join(format!("tidemill-console-{}", std::process::id())),
    };
    std::fs::create_dir_all(&pictures).unwrap();
    let mut command = Command::new(interpreter);
    command.arg(program).args(addresses).env("PYTHONDONTWRITEBYTECODE", "1").arg(&pictures);
    let output = command.output().expect("Python can be run");
    let (told, wrong) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!(told, "done\n", "{wrong}\npictures are in {}", pictures.display());
    eprintln!("{wrong}");
}

/// An interpreter with Playwright, if there is one.
fn interpreter() -> Option<OsString> {
    let interpreter = std::env::var_os("TIDEMILL_CONSOLE_PYTHON");
    if interpreter.is_none() {
        eprintln!(
            "skipped: TIDEMILL_CONSOLE_PYTHON names no interpreter with Playwright (.ci/run installs one)"
        );
    }
    interpreter
}

#[test]
fn a_person_sees_what_runs_asks_and_plots() {
    let Some(interpreter) = interpreter() else { return };
    let runtime = runtime();
    let server = serve_http(&runtime, HttpOptions::default());
    let postgres = serve_runtime(&runtime);
    let addresses = [server.address().to_string(), postgres.address().to_string()];
    browse(&interpreter, "browse.py", &addresses);
}

/// A server of HTTP that takes requests and never answers; its address.
fn never_answers() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        let mut clients = Vec::new();
        for client in listener.incoming() {
            clients.push(client.unwrap());
        }
    });
    address
}

/// Executes statements in a session of their own, as a client does.
fn execute(server: &Server, statements: &str) {
    run(async {
        let client = connect(server).await;
        for statement in statements.split(';') {
            client.batch_execute(statement).await.unwrap_or_else(|error| panic!("{statement}: {error:?}"));
        }
    });
}

/// Queries that are limited by different parts, and one that nothing limits. A durable one with a journal.
fn operated(folder: &Path) -> Runtime {
    let mut planner = Planner::new();
    planner.settings_mut().journal = Some(folder.join("journal"));
    let log = FileCatalogLog::open(&folder.join("catalogue")).unwrap();
    let runtime = Runtime::open_journaled(planner, Box::new(log), &folder.join("journal")).unwrap();
    let server = serve_runtime(&runtime);
    let define = |statements: &str| execute(&server, statements);
    let stuck = format!(
        "SET workers = 1; CREATE SINK stuck FROM (SELECT value * 2 AS twice FROM sequence(rate => 100))
         WITH (connector = 'http', url = 'http://{}/')",
        never_answers()
    );
    define(&stuck);
    let costly = "SET workers = 1;
        CREATE MATERIALIZED VIEW costly AS
        SELECT value % 4 AS k, max(sha512(repeat(CAST(value AS VARCHAR), 20))) AS most
        FROM sequence(rate => 1000000) GROUP BY 1";
    define(costly);
    let silent = "SET workers = 1;
        CREATE SOURCE nobody (v BIGINT) WITH (connector = 'tcp', listen = '127.0.0.1:0', format = 'csv');
        CREATE MATERIALIZED VIEW silent AS SELECT count(*) AS n FROM nobody";
    define(silent);
    let easy =
        "SET workers = 1; CREATE MATERIALIZED VIEW easy AS SELECT sum(value) AS s FROM sequence(rate => 10)";
    define(easy);
    let split = "SET workers = 2; CREATE MATERIALIZED VIEW split AS SELECT value % 5 AS rest, count(*) AS n
        FROM mergestream(splitstream((SELECT value FROM sequence(rate => 20000)), 4,
            route => value % 4, plan => 'exptree'))
        GROUP BY 1";
    define(split);
    std::fs::write(folder.join("lines.csv"), "id\n1\n2\n3\n").unwrap();
    let kept = format!(
        "SET workers = 1; SET snapshot_every = '1 s';
         CREATE SOURCE lines (id BIGINT) WITH (path = '{}', follow = true, durable = true);
         CREATE MATERIALIZED VIEW kept AS SELECT count(*) AS n FROM lines",
        folder.join("lines.csv").display()
    );
    define(&kept);
    runtime
}

#[test]
fn a_person_sees_what_limits_a_query_the_journal_and_the_log() {
    let Some(interpreter) = interpreter() else { return };
    let log = RecentLog::default();
    let layer = RecentLogLayer::new(&log, tracing::Level::INFO);
    tracing::subscriber::set_global_default(tracing_subscriber::registry().with(layer)).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let runtime = operated(folder.path());
    let server = serve_http(&runtime, HttpOptions { log: Some(log), ..HttpOptions::default() });
    // Rows come while somebody looks, so that there are snapshots.
    let (lines, is_over) = (folder.path().join("lines.csv"), Arc::new(AtomicBool::new(false)));
    let writing = thread::spawn({
        let is_over = Arc::clone(&is_over);
        move || {
            while !is_over.load(Ordering::Relaxed) {
                let mut file = OpenOptions::new().append(true).open(&lines).unwrap();
                writeln!(file, "4").unwrap();
                thread::sleep(Duration::from_millis(300));
            }
        }
    });
    browse(&interpreter, "operate.py", &[server.address().to_string()]);
    is_over.store(true, Ordering::Relaxed);
    writing.join().unwrap();
}

#[test]
fn pages_load_nothing_from_elsewhere_and_no_code_of_their_own() {
    let server = serve_http(&Runtime::new(Planner::new()), HttpOptions::default());
    let page = get(server.address(), "/");
    assert_eq!(page.status, 200);
    let head = page.head.to_ascii_lowercase();
    assert!(head.contains("content-security-policy: default-src 'none'; script-src 'self'"), "{head}");
    assert!(head.contains("frame-ancestors 'none'") && head.contains("nosniff"), "{head}");
    assert!(!page.body.contains("<script>") && !page.body.contains("//"), "{}", page.body);
    for path in ["/app.js", "/vendor/htm-preact.js", "/style.css", "/vendor/LICENSES.txt"] {
        assert_eq!(get(server.address(), path).status, 200, "{path}");
    }
    assert_eq!(get(server.address(), "/../Cargo.toml").status, 404);
}
