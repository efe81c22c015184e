//! The console in a headless Chromium. `TIDEMILL_CONSOLE_PYTHON` names an interpreter with Playwright; without the variable, this
//! test says so and passes.

mod support;

use std::process::Command;

use support::{get, serve_http, serve_runtime, start};
use tidemill_server::HttpOptions;
use tidemill_service::Runtime;
use tidemill_sql::Planner;

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

#[test]
fn a_person_sees_what_runs_asks_and_plots() {
    let Some(interpreter) = std::env::var_os("TIDEMILL_CONSOLE_PYTHON") else {
        eprintln!(
            "skipped: TIDEMILL_CONSOLE_PYTHON names no interpreter with Playwright (.ci/run installs one)"
        );
        return;
    };
    let runtime = runtime();
    let server = serve_http(&runtime, HttpOptions::default());
    let postgres = serve_runtime(&runtime);
    let program = format!("{}/tests/console/browse.py", std::env::var("CARGO_MANIFEST_DIR").unwrap());
    let pictures = match std::env::var_os("TIDEMILL_CONSOLE_PICTURES") {
        Some(folder) => folder.into(),
        None => std::env::temp_dir().join(format!("tidemill-console-{}", std::process::id())),
    };
    std::fs::create_dir_all(&pictures).unwrap();
    let mut command = Command::new(interpreter);
    let output = command
        .args([program, server.address().to_string(), postgres.address().to_string()])
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .arg(&pictures)
        .output();
    let output = output.expect("Python can be run");
    let (told, wrong) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!(told, "done\n", "{wrong}\npictures are in {}", pictures.display());
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
