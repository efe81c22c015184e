//! CREATE PLACES and CREATE PROCESS as they are written.

use tidemill_sql::{ParameterSet, PlaceName, PlaceStep, StatementKind, parse};

fn one(text: &str) -> StatementKind {
    parse(text, "test.sql").unwrap_or_else(|error| panic!("{error}")).remove(0).kind
}

#[test]
fn create_processes_and_places() {
    let StatementKind::CreatePlaces(places) = one("CREATE PLACES IF NOT EXISTS bg (3, Pset1, \"P 2\")")
    else {
        panic!("no places")
    };
    let group = |name: &PlaceName| match name {
        PlaceName::Group(name) => name.value.clone(),
        PlaceName::Number(number) => number.to_string(),
    };
    assert_eq!(places.members.iter().map(group).collect::<Vec<_>>(), ["3", "pset1", "P 2"]);
    assert!(places.if_not_exists && !places.or_replace);
    let process = |text: &str| match one(text) {
        StatementKind::CreateProcess(process) => process,
        other => panic!("{other:?}"),
    };
    let plain = process("CREATE OR REPLACE PROCESS a AS SELECT 1");
    assert!(plain.or_replace && plain.parameters.is_none() && plain.places.is_empty() && !plain.required);
    let set = process(
        "CREATE PROCESS a FOR (i, File) IN (SELECT n, f FROM t) AT NEXT OF be, EACH OF bg, 7, pset AS SELECT i",
    );
    let (names, query) = set.parameters.unwrap();
    assert_eq!(names.iter().map(|name| name.as_str()).collect::<Vec<_>>(), ["i", "file"]);
    assert!(matches!(query, ParameterSet::Query(query) if query.to_string() == "SELECT n, f FROM t"));
    assert!(set.required);
    let [PlaceStep::NextOf(be), PlaceStep::EachOf(bg), PlaceStep::At(seven), PlaceStep::At(pset)] =
        &set.places[..]
    else {
        panic!("{:?}", set.places)
    };
    assert_eq!(
        (be.as_str(), bg.as_str(), group(seven), group(pset)),
        ("be", "bg", "7".into(), "pset".into())
    );
    let listed = process("CREATE PROCESS a FOR i IN (1, 2) PREFER 3 AS SELECT i");
    assert!(matches!(listed.parameters, Some((_, ParameterSet::Values(_)))) && !listed.required);
    for wrong in [
        "CREATE PLACES a ()",
        "CREATE PLACES a (-1)",
        "CREATE PLACES a (1.5)",
        "CREATE PLACES a (1) WITH (b = 1)",
        "CREATE PROCESS a FOR IN (1) AS SELECT 1",
        "CREATE PROCESS a FOR i (1) AS SELECT 1",
        "CREATE PROCESS a AT NEXT be AS SELECT 1",
        "CREATE PROCESS a AT 1 PREFER 2 AS SELECT 1",
        "CREATE PROCESS a AS SELECT 1 WITH (b = 1)",
        "CREATE PROCESS a",
    ] {
        assert!(parse(wrong, "test.sql").is_err(), "{wrong}");
    }
}
