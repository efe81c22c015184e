//! After a definition that is refused, everything is as it was: nothing stays defined, and what was to be replaced is still there.

use datafusion::arrow::util::pretty::pretty_format_batches;
use tidemill_sql::{Planner, Reply, parse};

const DEFINED: &str = "
    CREATE SOURCE s (n BIGINT, k VARCHAR, at TIMESTAMP, WATERMARK FOR at AS at)
        WITH (connector = 'http', listen = '127.0.0.1:0', format = 'ndjson');
    CREATE VIEW v AS SELECT n, k FROM s;
    CREATE MATERIALIZED VIEW m AS SELECT k, count(*) AS c FROM s GROUP BY k;
    CREATE FUNCTION f(x BIGINT) RETURNS BIGINT AS 'x + 1';
    CREATE POOL p WITH (workers = 2);
    CREATE PLACES q (0, 1);
    CREATE SINK o WITH (connector = 'blackhole');
";

/// Definitions that are refused, of each kind, with a name that is taken: a wrong part, and a wrong query.
const REFUSED: [(&str, &str); 28] = [
    (
        "s",
        "CREATE {R}SOURCE {N} (a FOO) WITH (connector = 'http', listen = '127.0.0.1:0', format = 'ndjson')",
    ),
    ("s", "CREATE {R}SOURCE {N} (a BIGINT, b AS zzz) WITH (connector = 'http', format = 'ndjson')"),
    ("s", "CREATE {R}SOURCE {N} (a BIGINT) WITH (connector = 'nope')"),
    ("s", "CREATE {R}SOURCE {N} (a BIGINT) WITH (connector = 'http', foo = 1)"),
    (
        "s",
        "CREATE {R}SOURCE {N} (a BIGINT, WATERMARK FOR a AS a) WITH (connector = 'http', format = 'ndjson')",
    ),
    ("s", "CREATE {R}TABLE {N} (a BIGINT) WITH (connector = 'file')"),
    ("v", "CREATE {R}VIEW {N} AS SELECT zzz FROM s"),
    ("v", "CREATE {R}VIEW {N} AS SELECT * FROM nope"),
    ("v", "CREATE {R}VIEW {N} AS SELECT n + k FROM s WHERE l"),
    ("m", "CREATE {R}MATERIALIZED VIEW {N} AS SELECT zzz FROM s"),
    ("m", "CREATE {R}MATERIALIZED VIEW {N} AS SELECT random() AS n FROM s"),
    ("m", "CREATE {R}MATERIALIZED VIEW {N} WITH (foo = 1) AS SELECT n FROM s"),
    ("m", "CREATE {R}MATERIALIZED VIEW {N} AS SELECT n FROM s WHERE at > now() - INTERVAL '1 month'"),
    ("m", "CREATE {R}MATERIALIZED VIEW {N} PRIMARY KEY (zzz) AS SELECT n FROM s"),
    ("f", "CREATE {R}FUNCTION {N}(x FOO) RETURNS BIGINT AS 'x'"),
    ("f", "CREATE {R}FUNCTION {N}(x BIGINT) RETURNS BIGINT AS 'y'"),
    ("f", "CREATE {R}FUNCTION {N}(x BIGINT) RETURNS TABLE (y BIGINT) AS 'SELECT zzz FROM s'"),
    ("f", "CREATE {R}FUNCTION {N}(x BIGINT) RETURNS BIGINT LANGUAGE wasm AS '/no/such/file.wasm'"),
    (
        "g",
        "CREATE {R}AGGREGATE {N} (x BIGINT) RETURNS BIGINT STATE (y BIGINT) LANGUAGE wasm AS '/no/such/file.wasm'",
    ),
    ("g", "CREATE {R}PROCESS {N} AS SELECT zzz FROM s"),
    ("g", "CREATE {R}PROCESS {N} ON nowhere AS SELECT n FROM s"),
    ("q", "CREATE {R}PLACES {N} (0, 'x')"),
    ("p", "CREATE {R}POOL {N} WITH (workers = 'many')"),
    ("p", "CREATE {R}POOL {N} WITH (foo = 1)"),
    ("o", "CREATE {R}SINK {N} WITH (connector = 'nope')"),
    ("o", "CREATE {R}SINK {N} WITH (connector = 'blackhole', foo = 1) AS SELECT n FROM s"),
    ("o", "CREATE {R}SINK {N} WITH (connector = 'blackhole') AS SELECT zzz FROM s"),
    ("o", "CREATE {R}SINK {N} WITH (connector = 'blackhole') AS SELECT random() AS n FROM s"),
];

/// Everything that is defined.
fn defined(planner: &mut Planner) -> String {
    let shown = ["SOURCES", "TABLES", "VIEWS", "PROCESSES", "PLACES", "POOLS", "SINKS", "FUNCTIONS"];
    let listed = shown.map(|what| {
        let statement = parse(&format!("SHOW {what}"), "test").unwrap().remove(0);
        let Ok(Reply::Rows(rows)) = planner.execute(&statement) else { panic!("SHOW {what}") };
        pretty_format_batches(&[rows]).unwrap().to_string()
    });
    listed.join("\n")
}

#[test]
fn nothing_stays_of_a_definition_that_is_refused() {
    for (taken, refused) in REFUSED {
        for (replaced, name) in [("OR REPLACE ", taken), ("", "fresh")] {
            let mut planner = Planner::new();
            for statement in &parse(DEFINED, "test").unwrap() {
                planner.execute(statement).map(drop).unwrap_or_else(|error| panic!("{error}"));
            }
            let before = defined(&mut planner);
            let text = refused.replace("{R}", replaced).replace("{N}", name);
            let is_refused = match parse(&text, "test") {
                Ok(statements) => statements.iter().any(|statement| planner.execute(statement).is_err()),
                Err(_) => true,
            };
            assert!(is_refused, "this was accepted: {text}");
            assert_eq!(defined(&mut planner), before, "{text}");
        }
    }
}
