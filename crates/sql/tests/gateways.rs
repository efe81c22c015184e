//! The parts of a view at gateways are, one behind the other, the rows of the view where all sources enter in one process.

use std::fs;

use tempfile::TempDir;
use tidemill_engine::arrow::array::RecordBatch;
use tidemill_sql::{GatewayPlace, Planner, Reply, parse};

/// Two files at two gateways, one with more columns, and a table that enters nowhere.
fn definitions(folder: &TempDir) -> String {
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    let numbers =
        |from: i64| (from..from + 40).map(|n| format!("{n},{},x{}\n", n % 5, n % 3)).collect::<String>();
    let west = file("west.csv", &format!("n,kind,name\n{}", numbers(0)));
    let east = file("east.csv", &format!("n,kind,name\n{}", numbers(20)));
    let kinds = file("kinds.csv", "kind,label\n0,zero\n1,one\n3,three\n");
    format!(
        "CREATE SOURCE west (n BIGINT NOT NULL, kind BIGINT, name VARCHAR) WITH (path = '{west}', gateway = 'w');
        CREATE SOURCE east (n BIGINT, kind BIGINT, name VARCHAR) WITH (path = '{east}', gateway = 'e');
        CREATE TABLE kinds (kind BIGINT, label VARCHAR) WITH (path = '{kinds}');"
    )
}

/// The rows of a view in a process at this place; `None`: it has none of them.
fn rows(definitions: &str, view: &str, place: GatewayPlace) -> Option<Vec<String>> {
    let mut planner = Planner::new();
    planner.settings_mut().gateways = place;
    let script = format!("{definitions} CREATE MATERIALIZED VIEW v AS {view}");
    for statement in parse(&script, "test").unwrap() {
        planner.execute(&statement).unwrap_or_else(|error| panic!("{view}: {error}"));
    }
    let pipeline = planner.pipeline_of(&["v"]).ok()?;
    let running = pipeline.open().unwrap().start().unwrap();
    let stored = running.views()[0].clone();
    running.wait().unwrap();
    Some(lines(&stored.read().unwrap()))
}

fn lines(rows: &RecordBatch) -> Vec<String> {
    let names = rows.schema().fields().iter().map(|field| field.name().clone()).collect::<Vec<_>>().join(",");
    let line = |row: usize| format!("{names}: {:?}", rows.slice(row, 1).columns());
    let mut lines: Vec<String> = (0..rows.num_rows()).map(line).collect();
    lines.sort();
    lines
}

#[test]
fn parts_together_are_the_view() {
    let folder = TempDir::new().unwrap();
    let definitions = definitions(&folder);
    for view in [
        "SELECT * FROM west UNION ALL SELECT * FROM east",
        "SELECT n AS number, name FROM west UNION ALL SELECT kind, name FROM east",
        "SELECT number * 2 AS twice, label FROM
            (SELECT n AS number, 'west' AS label FROM west UNION ALL SELECT n, name FROM east) WHERE number % 3 = 1",
        "SELECT n FROM west WHERE n < 9 UNION ALL SELECT n FROM east UNION ALL SELECT -n FROM west",
        "SELECT w.n, k.label FROM west AS w JOIN kinds AS k ON w.kind = k.kind UNION ALL
            SELECT n, CAST(kind AS VARCHAR) FROM east WHERE kind IN (SELECT kind FROM kinds)",
        "SELECT n FROM west",
        "SELECT kind, count(*) AS n, sum(n) AS total FROM east GROUP BY kind",
    ] {
        let whole = rows(&definitions, view, GatewayPlace::Ignored).expect("it runs here");
        assert!(!whole.is_empty(), "{view}");
        let part = |name: &str| rows(&definitions, view, GatewayPlace::Here(name.into())).unwrap_or_default();
        let mut parts = [part("w"), part("e")].concat();
        parts.sort();
        // A part may know of a column that it is never NULL, and of nothing else more than the view.
        assert_eq!(parts, whole, "{view}");
        assert_eq!(part("other"), Vec::<String>::new(), "{view}");
        assert_eq!(rows(&definitions, view, GatewayPlace::Elsewhere), None, "{view}");
    }
}

#[test]
fn what_needs_rows_of_two_gateways_at_once_is_refused() {
    let folder = TempDir::new().unwrap();
    let definitions = definitions(&folder);
    for view in [
        "SELECT count(*) AS n FROM (SELECT n FROM west UNION ALL SELECT n FROM east)",
        "SELECT DISTINCT n FROM (SELECT n FROM west UNION ALL SELECT n FROM east)",
        "SELECT n FROM west UNION SELECT n FROM east",
        "SELECT n FROM west UNION ALL SELECT value FROM sequence(count => 3)",
    ] {
        for place in [GatewayPlace::Ignored, GatewayPlace::Elsewhere, GatewayPlace::Here("w".into())] {
            let mut planner = Planner::new();
            planner.settings_mut().gateways = place;
            let script = format!("{definitions} CREATE MATERIALIZED VIEW v AS {view}");
            let results = parse(&script, "test").unwrap();
            let results: Vec<_> = results.iter().map(|statement| planner.execute(statement)).collect();
            let error = results.last().unwrap().as_ref().err().unwrap_or_else(|| panic!("{view} is defined"));
            assert!(error.message.contains("gateways do not wait for each other"), "{view}: {error}");
            assert!(error.hint.as_ref().is_some_and(|hint| hint.contains("UNION ALL")), "{view}: {error}");
        }
    }
}

#[test]
fn a_source_at_a_gateway_elsewhere_is_read_by_views_only() {
    let folder = TempDir::new().unwrap();
    let mut planner = Planner::new();
    planner.settings_mut().gateways = GatewayPlace::Elsewhere;
    let script = format!(
        "{} CREATE SINK s WITH (path = '{}') AS SELECT n FROM west; SELECT n FROM east",
        definitions(&folder),
        folder.path().join("s.csv").display()
    );
    let mut statements = parse(&script, "test").unwrap();
    let query = statements.pop().unwrap();
    for statement in &statements {
        planner.execute(statement).unwrap_or_else(|error| panic!("{error}"));
    }
    let refused = planner.pipeline_of(&["s"]).map(|_| ()).unwrap_err().to_string();
    assert!(refused.contains("source 'west' enter at gateway 'w'"), "{refused}");
    let refused = match planner.execute(&query) {
        Ok(Reply::Query(_)) => panic!("it is planned"),
        Ok(_) => panic!("it is answered"),
        Err(error) => error.message,
    };
    assert!(refused.contains("source 'east' enter at gateway 'e'"), "{refused}");
    planner.settings_mut().gateways = GatewayPlace::Ignored;
    assert!(matches!(planner.execute(&query), Ok(Reply::Query(_))));
}
