//! A plan that is kept answers what a plan for the values alone would, and reads no more for it.

use crate::cars::{execute, planner, run, shown, some};
use tidemill_sql::ParameterType::{BigInt, Boolean, Date, Double, Integer, Real, SmallInt, Text, Timestamp};
use tidemill_sql::{CachedPlan, Parameter, ParameterType, Planner, Reply, Statement, divide};
use tidemill_testing::random::Random;

/// Queries, and the types of their parameters.
const QUERIES: [(&str, &[ParameterType]); 34] = [
    ("SELECT id, vid, point FROM recent WHERE vid = $1 ORDER BY id", &[BigInt]),
    ("SELECT id FROM recent WHERE vid = $1 ORDER BY at", &[SmallInt]),
    ("SELECT id FROM recent WHERE $1 = vid", &[Integer]),
    ("SELECT * FROM recent WHERE vid = $1", &[Double]),
    ("SELECT id FROM recent WHERE vid = $1", &[Text]),
    ("SELECT id FROM recent WHERE vid = $1 + 1 AND id < $2 * 10", &[BigInt, Integer]),
    ("SELECT id FROM recent WHERE vid IN ($1, $2, 3) ORDER BY id", &[BigInt, SmallInt]),
    ("SELECT id FROM recent WHERE vid = $1 OR vid = $2 ORDER BY id", &[BigInt, BigInt]),
    ("SELECT id FROM recent WHERE NOT (vid < $1) AND vid <> $2 ORDER BY id", &[BigInt, BigInt]),
    ("SELECT id FROM recent WHERE vid = $1 AND at > to_timestamp($2) ORDER BY id", &[BigInt, BigInt]),
    ("SELECT id FROM recent WHERE at BETWEEN $1 AND $2 ORDER BY id", &[Timestamp, Timestamp]),
    ("SELECT id FROM recent WHERE at >= $1 AND vid = $2 ORDER BY id", &[Date, BigInt]),
    ("SELECT id FROM recent WHERE at > CAST($1 AS TIMESTAMP) ORDER BY id LIMIT 3", &[Text]),
    ("SELECT id FROM recent WHERE x BETWEEN $1 AND $2 AND y < $3 ORDER BY id", &[Double, Real, Integer]),
    (
        "SELECT id FROM recent WHERE st_dwithin(point, st_point($1, $2), $3) ORDER BY id",
        &[Double, Double, Double],
    ),
    (
        "SELECT id FROM recent WHERE st_within(point, st_makeenvelope($1, $2, $1 + 9, $2 + 9)) ORDER BY id",
        &[Double, Double],
    ),
    ("SELECT vid FROM recent ORDER BY st_distance(point, st_point($1, $2)), id LIMIT 5", &[Double, Double]),
    (
        "SELECT st_distance(point, st_point($1, $2)) AS far FROM recent ORDER BY far LIMIT $3",
        &[Double, Double, BigInt],
    ),
    ("SELECT id FROM recent ORDER BY id DESC LIMIT $1 OFFSET $2", &[SmallInt, BigInt]),
    ("SELECT count(*) AS n, sum(x) AS s, max(at) AS m FROM recent WHERE vid = $1", &[BigInt]),
    (
        "SELECT vid, count(*) AS n FROM recent WHERE id > $1 GROUP BY vid HAVING count(*) > $2 ORDER BY vid",
        &[BigInt, BigInt],
    ),
    (
        "SELECT a.id FROM recent a JOIN recent b ON a.vid = b.vid AND a.id = b.id + 40 WHERE b.vid = $1 ORDER BY 1",
        &[BigInt],
    ),
    (
        "SELECT id FROM recent WHERE x > (SELECT avg(x) FROM recent WHERE vid = $1) AND vid = $1 ORDER BY id",
        &[BigInt],
    ),
    (
        "SELECT id FROM recent r WHERE EXISTS (SELECT 1 FROM few WHERE few.v = r.vid AND few.v > $1) ORDER BY id",
        &[BigInt],
    ),
    ("SELECT id FROM recent WHERE name = $1 AND vid = $2 ORDER BY id", &[Text, BigInt]),
    ("SELECT id FROM recent WHERE name LIKE $1 AND id < 50 ORDER BY id", &[Text]),
    ("SELECT id FROM recent WHERE (vid = $1) = $2 ORDER BY id", &[BigInt, Boolean]),
    ("SELECT $1 AS a, $2 AS b, vid FROM recent WHERE vid = $2 ORDER BY id LIMIT 2", &[Text, BigInt]),
    (
        "SELECT CASE WHEN x > $1 THEN $2 ELSE name END AS c FROM recent WHERE vid = $3 ORDER BY id",
        &[Double, Text, BigInt],
    ),
    ("SELECT coalesce(x, $1) AS c FROM recent WHERE vid = 7 ORDER BY id", &[Double]),
    ("SELECT id FROM (SELECT id, vid * 2 AS w FROM recent) WHERE w = $1 ORDER BY id", &[BigInt]),
    (
        "WITH some AS (SELECT * FROM recent WHERE vid = $1) SELECT max(id) AS m FROM some WHERE x < $2",
        &[BigInt, Double],
    ),
    ("SELECT id FROM recent WHERE vid = $1 UNION ALL SELECT v FROM few WHERE v > $1", &[BigInt]),
    ("SELECT 100 / (vid - $1) AS q FROM recent WHERE id < 40 ORDER BY id", &[BigInt]),
];

/// What queries contain that read the same with a plan for their values.
const READ_ALIKE: [&str; 4] = ["WHERE vid = $1 ORDER", "$1 = vid", "st_", "BETWEEN $1 AND $2 ORDER"];

fn statement(text: &str) -> Statement {
    divide(text, "case").unwrap()[0].read().unwrap()
}

/// A planner with a view of cars of which all rows are kept, with options.
fn with_view(options: &str) -> Planner {
    let mut planner = planner();
    let view = format!("CREATE MATERIALIZED VIEW recent AS SELECT * FROM cars WITH ({options})");
    execute(&mut planner, &view).unwrap();
    run(&mut planner);
    execute(&mut planner, "CREATE VIEW few AS SELECT DISTINCT vid AS v FROM plain WHERE id < 5").unwrap();
    planner
}

fn value(kind: ParameterType, random: &mut Random) -> Parameter {
    let number = random.below(45);
    let text = match kind {
        Text if random.below(2) == 0 => format!("car {}", number % 8),
        Text => number.to_string(),
        Double | Real => format!("{}", number as f64 / 2.0),
        Boolean => number.is_multiple_of(2).to_string(),
        Date => "1970-01-01".to_owned(),
        Timestamp => format!("1970-01-01 00:0{}:{:02}.5", number % 8, number),
        _ => number.to_string(),
    };
    Parameter { kind, value: some(random, text) }
}

/// The rows, and what is read for them; or that the query is refused.
type Answer = Result<(Vec<String>, String), String>;

fn planned_for(planner: &mut Planner, text: &str, values: &[Parameter]) -> Answer {
    let values: Vec<Option<Parameter>> = values.iter().cloned().map(Some).collect();
    let bound = statement(text).bind(&values).unwrap();
    let explain = statement(&format!("EXPLAIN {text}")).bind(&values).unwrap();
    let rows = match planner.execute(&bound).map_err(|error| error.to_string())? {
        Reply::Rows(rows) => shown(&rows),
        _ => panic!("it reads only tables: {}", bound.text),
    };
    match planner.execute(&explain).map_err(|error| error.to_string())? {
        Reply::Text(text) => Ok((rows, text)),
        _ => panic!("a text"),
    }
}

fn kept_for(planner: &Planner, kept: &CachedPlan, asked: &Statement, values: &[Parameter]) -> Option<Answer> {
    let rows = planner.answer(kept, asked, values)?;
    Some(rows.map_err(|error| error.to_string()).and_then(|rows| {
        let Reply::Rows(rows) = rows else { panic!("nobody has asked for batches") };
        let text = planner.explain_answer(kept, asked, values).expect("it has been answered");
        Ok((shown(&rows), text.map_err(|error| error.to_string())?))
    }))
}

#[test]
fn a_kept_plan_answers_and_reads_what_a_plan_for_the_values_does() {
    for options in [
        "retain_bytes = '64 MB'",
        "retain_bytes = '64 MB', key = 'vid', point = 'x, y'",
        "retain_bytes = '64 MB', key = 'vid', point = 'x, y', fragments = 3, fragment_by = 'vid % 5'",
    ] {
        let mut planner = with_view(options);
        let mut random = Random::new(options.len() as u64);
        let (mut answered, mut left) = (0, Vec::new());
        for (text, kinds) in QUERIES {
            let text = if options.contains("point") {
                text.to_owned()
            } else {
                text.replace(" point", " st_point(x, y)").replace("(point", "(st_point(x, y)")
            };
            let asked = statement(&text);
            let kept = planner.keep(&asked, kinds).unwrap_or_else(|| panic!("not kept: {text}"));
            for _ in 0..5 {
                let values: Vec<Parameter> = kinds.iter().map(|kind| value(*kind, &mut random)).collect();
                let expected = planned_for(&mut planner, &text, &values);
                match (kept_for(&planner, &kept, &asked, &values), expected) {
                    (Some(Ok(found)), Ok(expected)) => {
                        assert_eq!(found.0, expected.0, "{text} with {values:?}");
                        // Conditions that are simpler for some values, such as equal ones, may read less then.
                        if READ_ALIKE.iter().any(|part| text.contains(part)) {
                            assert_eq!(found.1, expected.1, "{text} with {values:?}");
                        }
                        answered += 1;
                    }
                    (Some(Err(found)), Err(expected)) => assert!(!found.is_empty() && !expected.is_empty()),
                    (None, _) if values.iter().any(|value| value.value.is_none()) => {}
                    (None, _) => left.push(text.clone()),
                    (found, expected) => panic!("{found:?} and {expected:?}: {text} with {values:?}"),
                }
            }
        }
        // NULL has a plan of its own. Texts that are not numbers or times are left to a plan for them.
        left.dedup();
        assert!(answered > 100, "{answered} answers, left: {left:?}");
        assert!(left.iter().all(|text| text.contains("vid = $1") || text.contains("CAST($1")), "{left:?}");
    }
}

#[test]
fn key_place_and_nearest_are_found_with_the_value_of_a_parameter() {
    let planner = with_view("retain_bytes = '64 MB', key = 'vid', point = 'x, y'");
    for (text, values, expected) in [
        ("SELECT id FROM recent WHERE vid = $1", &[(SmallInt, "7")][..], "by key"),
        ("SELECT id FROM recent WHERE vid = $1 + 0", &[(BigInt, "7")], "by key"),
        (
            "SELECT vid FROM recent ORDER BY st_distance(point, st_point($1, $2)) LIMIT $3",
            &[(Double, "20"), (Double, "20"), (Integer, "5")],
            "nearest rows only",
        ),
    ] {
        let asked = statement(text);
        let kinds: Vec<ParameterType> = values.iter().map(|(kind, _)| *kind).collect();
        let kept = planner.keep(&asked, &kinds).unwrap();
        let values: Vec<Parameter> = values
            .iter()
            .map(|(kind, text)| Parameter { kind: *kind, value: Some((*text).to_owned()) })
            .collect();
        let text = planner.explain_answer(&kept, &asked, &values).unwrap().unwrap();
        assert!(text.contains(expected), "{text}");
    }
}

#[test]
fn what_depends_on_more_than_the_values_is_not_kept() {
    let planner = with_view("key = 'vid'");
    for (text, kinds) in [
        ("SELECT id FROM recent WHERE vid = $1 AS OF CYCLE 3", &[BigInt][..]),
        ("SELECT id FROM cars WHERE vid = $1", &[BigInt]),
        ("SELECT $1", &[Text]),
        ("SELECT id FROM recent WHERE x = $1", &[ParameterType::Decimal]),
        ("SELECT id FROM recent WHERE vid = ANY($1)", &[ParameterType::List(&BigInt)]),
        ("SELECT nope FROM recent WHERE vid = $1", &[BigInt]),
        ("SELECT id FROM recent WHERE vid = $1 AND vid = $2", &[BigInt]),
        ("SHOW VIEWS", &[]),
    ] {
        assert!(planner.keep(&statement(text), kinds).is_none(), "{text}");
    }
}
