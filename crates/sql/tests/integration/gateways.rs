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
    let script = format!("{} SELECT n FROM east", definitions(&folder));
    let mut statements = parse(&script, "test").unwrap();
    let query = statements.pop().unwrap();
    for statement in &statements {
        planner.execute(statement).unwrap_or_else(|error| panic!("{error}"));
    }
    let refused = match planner.execute(&query) {
        Ok(Reply::Query(_)) => panic!("it is planned"),
        Ok(_) => panic!("it is answered"),
        Err(error) => error.message,
    };
    assert!(refused.contains("source 'east' enter at gateway 'e'"), "{refused}");
    planner.settings_mut().gateways = GatewayPlace::Ignored;
    assert!(matches!(planner.execute(&query), Ok(Reply::Query(_))));
}

#[test]
fn a_sink_runs_at_the_gateway_of_all_of_its_sources_or_is_refused() {
    let source = |name: &str, gateway: &str| {
        let listen = "connector = 'tcp', listen = '127.0.0.1:7000', format = 'csv'";
        format!("CREATE SOURCE {name} (n BIGINT) WITH ({listen}{gateway});")
    };
    let sources =
        [source("west", ", gateway = 'w'"), source("east", ", gateway = 'e'"), source("here", "")].concat();
    let folder = TempDir::new().unwrap();
    let planned = |place: GatewayPlace, definitions: &str, sink: &str| {
        let mut planner = Planner::new();
        planner.settings_mut().gateways = place;
        for statement in parse(&format!("{definitions} {sink}"), "test").unwrap() {
            planner.execute(&statement)?;
        }
        Ok::<_, tidemill_sql::TextError>(planner)
    };
    let path = folder.path().join("s.csv").display().to_string();
    let sink = |query: &str| format!("CREATE SINK s WITH (path = '{path}') AS {query}");
    let places = [GatewayPlace::Elsewhere, GatewayPlace::Here("w".into()), GatewayPlace::Here("e".into())];
    for (query, gateways, runs) in [
        ("SELECT n FROM west", vec!["w"], [false, true, false]),
        ("SELECT n FROM west UNION ALL SELECT n + 1 FROM west", vec!["w"], [false, true, false]),
        ("SELECT n FROM here", vec![], [true, false, false]),
    ] {
        for (place, runs) in places.iter().zip(runs) {
            let planner = planned(place.clone(), &sources, &sink(query)).unwrap();
            assert_eq!(planner.catalog().gateways_of("s"), gateways, "{query}");
            assert_eq!(planner.pipeline_of(&["s"]).is_ok(), runs, "{query} {place:?}");
        }
    }
    let several = sink("SELECT n FROM west UNION ALL SELECT n FROM east");
    let refused = planned(GatewayPlace::Elsewhere, &sources, &several).err().unwrap();
    assert!(refused.message.contains("'west' at gateway 'w', 'east' at gateway 'e'"), "{refused}");
    assert!(planned(GatewayPlace::Ignored, &sources, &several).is_ok());
    let to_output = "CREATE SINK s WITH (connector = 'stdout') AS SELECT n FROM west";
    let refused = planned(GatewayPlace::Elsewhere, &sources, to_output).err().unwrap();
    assert!(refused.message.contains("no standard output"), "{refused}");
    let refused =
        planned(GatewayPlace::Elsewhere, &definitions(&folder), &sink("SELECT n FROM west")).err().unwrap();
    assert!(refused.message.contains("over a source that ends"), "{refused}");
}
