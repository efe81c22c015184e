//! Materialized views with points, keys and earlier versions: each query answers what it answers over the same rows as a
//! plain table, of which every row is looked at.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tidemill_sql::Planner;
use tidemill_testing::random::Random;

use crate::cars::{CYCLE_ROWS, ROWS, execute, explained, lines, planner, run};
use crate::counted_turns::Counted;

/// The table `plain` is read so many rows at a time.
const TABLE_BATCH_ROWS: usize = 500;

fn condition(random: &mut Random) -> String {
    let (x, y) = (random.below(100), random.below(100));
    let at = random.below(700);
    match random.below(16) {
        0 => format!("vid = {}", random.below(45)),
        1 => format!("at >= to_timestamp({at})"),
        2 => format!("at BETWEEN to_timestamp({at}) AND to_timestamp({})", at + 20),
        3 => format!("to_timestamp({at}) > at"),
        4 => format!("x >= {x} AND x <= {} AND y BETWEEN {y} AND {}", x + 10, y + 20),
        5 => format!("x > {x} AND y < {y} AND x < {}", x + 3),
        6 => format!("y >= {y}"),
        7 => format!("st_dwithin(point, st_point({x}, {y}), {})", random.below(30)),
        8 => format!("st_distance(st_point({x}, {y}), point) < {}", random.below(20)),
        9 => format!("st_within(point, st_makeenvelope({x}, {y}, {}, {}))", x + 15, y + 5),
        10 => format!("st_intersects([x, y], st_makeenvelope({x}, {y}, {}, {}))", x + 1, y + 30),
        11 => format!("name = 'car {}'", random.below(8)),
        12 => "vid IS NULL".to_owned(),
        13 => format!("(vid = {} OR x < {x})", random.below(40)),
        14 => format!("vid = {} AND vid = {}", random.below(40), random.below(40)),
        _ => format!("st_distance(point, st_point({x}, {y})) >= {}", random.below(90)),
    }
}

fn query(random: &mut Random) -> String {
    let conditions: Vec<String> = (0..random.below(4)).map(|_| condition(random)).collect();
    let condition =
        if conditions.is_empty() { String::new() } else { format!(" WHERE {}", conditions.join(" AND ")) };
    let (x, y, count) = (random.below(100), random.below(100), random.below(12) + 1);
    match random.below(6) {
        0 => format!("SELECT id, vid, point FROM VIEW{condition} ORDER BY id"),
        1 => format!("SELECT count(*), sum(id), min(at) FROM VIEW{condition}"),
        2 => format!("SELECT id FROM VIEW{condition} ORDER BY at DESC LIMIT {count}"),
        3 => format!(
            "SELECT st_distance(point, st_point({x}, {y})) AS far FROM VIEW{condition} ORDER BY far LIMIT {count}"
        ),
        4 => format!(
            "SELECT one.id, other.id FROM VIEW one JOIN VIEW other ON one.vid = other.vid AND one.id = other.id + 40
             {} ORDER BY one.id",
            condition
                .replace("point", "one.point")
                .replace(" x", " one.x")
                .replace("(x", "(one.x")
                .replace("[x, y]", "[one.x, one.y]")
                .replace(" y ", " one.y ")
                .replace(" at", " one.at")
                .replace("vid ", "one.vid ")
                .replace("name ", "one.name ")
        ),
        _ => format!(
            "SELECT id IS NULL, st_distance(point, st_point({x}, {y})) FROM VIEW{condition}
             ORDER BY st_distance([x, y], st_point({x}, {y})) LIMIT {count} OFFSET {}",
            random.below(4)
        ),
    }
}

/// What both answer, or that both refuse.
pub fn compare(planner: &mut Planner, query: &str, as_of: Option<u64>) {
    let plain = match as_of {
        None => "plain".to_owned(),
        Some(cycle) => format!("(SELECT * FROM plain WHERE id < {})", (cycle + 1) * u64::from(CYCLE_ROWS)),
    };
    let expected = lines(planner, &query.replace("VIEW", &plain));
    let as_of = as_of.map_or(String::new(), |cycle| format!(" AS OF CYCLE {cycle}"));
    let asked = format!("{}{as_of}", query.replace("VIEW", "recent"));
    let found = lines(planner, &asked);
    match (&expected, &found) {
        (Ok(expected), Ok(found)) => assert_eq!(found, expected, "{asked}"),
        (Err(_), Err(_)) => {}
        (expected, found) => panic!("{expected:?} and {found:?}\n{asked}"),
    }
    assert_eq!(lines(planner, &asked).ok(), found.ok(), "a second time: {asked}");
}

#[test]
fn queries_over_a_view_answer_as_over_a_table() {
    for options in [
        "",
        "key = 'vid'",
        "point = 'x, y'",
        "key = 'vid', point = 'x, y', retain = '1 day', retain_bytes = '64 MB'",
        "key = 'vid', fragments = 3",
        "key = 'vid', point = 'x, y', fragments = 4, fragment_by = 'vid % 5', retain_bytes = '64 MB'",
        // It cannot be computed for some rows.
        "point = 'x, y', fragments = 2, fragment_by = '100 / (vid - 7)'",
    ] {
        let mut planner = planner();
        let with = if options.is_empty() { String::new() } else { format!(" WITH ({options})") };
        let point = if options.contains("point") { "" } else { ", st_point(x, y) AS point" };
        let view = format!("CREATE MATERIALIZED VIEW recent AS SELECT *{point} FROM cars{with}");
        execute(&mut planner, &view).unwrap();
        run(&mut planner);
        let mut random = Random::new(options.len() as u64);
        for _ in 0..12 {
            let query = query(&mut random);
            compare(&mut planner, &query, None);
            let cycle = random.below(ROWS as u64 / u64::from(CYCLE_ROWS));
            compare(&mut planner, &query, Some(cycle));
        }
    }
}

#[test]
fn a_view_over_a_view_that_runs_reads_its_rows() {
    for options in ["", " WITH (point = 'x, y', key = 'vid')"] {
        let mut planner = planner();
        let view = format!("CREATE MATERIALIZED VIEW recent AS SELECT * FROM cars{options}");
        execute(&mut planner, &view).unwrap();
        execute(&mut planner, "CREATE VIEW later AS SELECT id, vid, x FROM recent WHERE id >= 10").unwrap();
        let joined =
            "CREATE VIEW twice AS SELECT a.id, b.vid FROM later a JOIN recent b ON a.id = b.id AND a.x > 20";
        execute(&mut planner, joined).unwrap();
        run(&mut planner);
        for (of_views, of_rows) in [
            ("SELECT count(*), sum(id) FROM later", "SELECT count(*), sum(id) FROM plain WHERE id >= 10"),
            (
                "SELECT count(*), sum(vid) FROM twice",
                "SELECT count(*), sum(vid) FROM plain WHERE id >= 10 AND x > 20",
            ),
            ("SELECT count(*) FROM later AS OF CYCLE 0", "SELECT 40"),
        ] {
            assert_eq!(lines(&mut planner, of_views), lines(&mut planner, of_rows), "{of_views}{options}");
        }
    }
}

#[test]
fn what_is_dropped_as_another_kind_is_named() {
    let mut planner = planner();
    execute(&mut planner, "CREATE MATERIALIZED VIEW recent AS SELECT * FROM cars").unwrap();
    for (drop, hint) in [("VIEW recent", "MATERIALIZED VIEW recent"), ("TABLE plain", "VIEW plain")] {
        let error = execute(&mut planner, &format!("DROP {drop}")).map(|_| ()).unwrap_err();
        assert!(error.contains(&format!("write DROP {hint}")), "{error}");
    }
}

#[test]
fn a_view_of_the_last_rows_is_found_by_place_too() {
    for fragments in ["", ", fragments = 3", ", fragments = 3, fragment_by = 'vid % 2'"] {
        let mut planner = planner();
        let view = format!(
            "CREATE MATERIALIZED VIEW recent PRIMARY KEY (vid) AS SELECT * FROM cars WITH (point = 'x, y'{fragments})"
        );
        execute(&mut planner, &view).unwrap();
        run(&mut planner);
        last_rows_are_found(planner);
    }
}

fn last_rows_are_found(mut planner: Planner) {
    let last = "SELECT max(id) FROM plain GROUP BY vid";
    let expected = format!(
        "SELECT id FROM plain WHERE id IN ({last}) AND st_dwithin(point, st_point(50, 50), 30) ORDER BY id"
    );
    let expected = lines(&mut planner, &expected).unwrap();
    assert!(expected.len() > 3);
    let near = "SELECT id FROM recent WHERE st_dwithin(point, st_point(50, 50), 30) ORDER BY id";
    assert_eq!(lines(&mut planner, near).unwrap(), expected);
    let of_key = "SELECT id FROM recent WHERE vid = 7";
    assert_eq!(
        lines(&mut planner, of_key).unwrap(),
        lines(&mut planner, "SELECT max(id) FROM plain WHERE vid = 7").unwrap()
    );
    assert!(explained(&mut planner, of_key).contains("by key, 1 found"));
}

#[test]
fn only_the_chunks_that_are_needed_are_read() {
    let mut planner = planner();
    let view = "CREATE MATERIALIZED VIEW recent AS SELECT * FROM cars
        WITH (retain_bytes = '1 MB', key = 'vid', point = 'x, y')";
    execute(&mut planner, view).unwrap();
    let view = run(&mut planner);
    assert!(view.store().statistics().rows > 5000);
    let examined = |planner: &mut Planner, sql: &str| {
        let text = explained(planner, sql);
        let numbers = text.split("rows examined").next().unwrap().rsplit(", ").next().unwrap();
        let examined: u64 = numbers.split(' ').next().unwrap().parse().unwrap();
        (examined, text)
    };
    for (sql, examined_max) in [
        ("SELECT * FROM recent WHERE vid = 7", 300),
        ("SELECT * FROM recent WHERE vid = 7 AND at > to_timestamp(590)", 60),
        ("SELECT * FROM recent WHERE at BETWEEN to_timestamp(100) AND to_timestamp(101)", 1000),
        ("SELECT * FROM recent WHERE st_dwithin(point, st_point(20, 20), 1)", 600),
        ("SELECT * FROM recent WHERE x BETWEEN 20 AND 21 AND y BETWEEN 20 AND 21", 600),
        ("SELECT vid FROM recent ORDER BY st_distance(point, st_point(20, 20)) LIMIT 5", 1500),
    ] {
        let (examined, text) = examined(&mut planner, sql);
        assert!(examined <= examined_max, "{sql}: {text}");
    }
    let text = explained(
        &mut planner,
        "SELECT vid FROM recent ORDER BY st_distance(point, st_point(20, 20)) LIMIT 5",
    );
    assert!(
        text.contains("view recent as of cycle 120: ") && text.contains("5 found, nearest rows only"),
        "{text}"
    );
}

#[test]
fn a_query_pauses_while_it_looks_for_the_rows_of_a_view() {
    let mut planner = planner();
    let view = "CREATE MATERIALIZED VIEW recent AS SELECT * FROM cars
        WITH (retain_bytes = '1 MB', key = 'vid', point = 'x, y')";
    execute(&mut planner, view).unwrap();
    let view = run(&mut planner);
    let chunks = view.store().statistics().chunks;
    assert!(chunks > 8, "{chunks}");
    let mut paused = |sql: &str, pauses_max: usize| {
        let pauses = Arc::new(AtomicUsize::new(0));
        planner.set_turns(Arc::new(Counted { pauses: Arc::clone(&pauses), pauses_max }));
        (lines(&mut planner, sql), pauses.load(Ordering::Relaxed))
    };
    for sql in [
        "SELECT vid FROM recent WHERE st_dwithin(point, st_point(20, 20), 1)",
        "SELECT vid FROM recent ORDER BY st_distance(point, st_point(20, 20)) LIMIT 300",
    ] {
        // A table is read with a pause before each batch and its end. DataFusion pauses a few times itself, but has few rows to
        // compute.
        let (_, pauses) = paused("SELECT vid FROM plain WHERE id < 9", usize::MAX);
        assert!(pauses < ROWS / TABLE_BATCH_ROWS + 1 + 6, "{pauses}");
        let (found, pauses) = paused(sql, usize::MAX);
        assert!(found.is_ok_and(|found| !found.is_empty()) && pauses > chunks / 2, "{pauses}: {sql}");
        let (ended, _) = paused(sql, 4);
        let error = ended.unwrap_err();
        assert!(error.contains("it was cancelled") && !error.contains("view 'recent'"), "{error}");
    }
}

#[test]
fn what_cannot_be_kept_or_read_is_refused() {
    let mut planner = planner();
    for (sql, expected) in [
        (
            "CREATE MATERIALIZED VIEW v AS SELECT * FROM cars WITH (point = 'x')",
            "a point has two coordinates",
        ),
        (
            "CREATE MATERIALIZED VIEW v AS SELECT * FROM cars WITH (point = 'x, z')",
            "the view has no column 'z'",
        ),
        (
            "CREATE MATERIALIZED VIEW v AS SELECT * FROM cars WITH (point = 'x, name')",
            "cannot be a coordinate",
        ),
        (
            "CREATE MATERIALIZED VIEW v AS SELECT vid FROM cars WITH (retain = '1 minute')",
            "have no event time",
        ),
        (
            "CREATE MATERIALIZED VIEW v AS SELECT id FROM cars WITH (retain = '1 minute', time = 'id')",
            "is not a timestamp",
        ),
        (
            "CREATE MATERIALIZED VIEW v AS SELECT vid, count(*) AS n FROM cars GROUP BY 1 WITH (retain_bytes = 99999)",
            "keeps the last row of each key",
        ),
        ("CREATE MATERIALIZED VIEW v AS SELECT * FROM cars WITH (retain_bytes = 1000)", "at least 64 KB"),
        (
            "CREATE MATERIALIZED VIEW v AS SELECT * FROM cars WITH (retian = '1 minute')",
            "unknown option `retian`",
        ),
        (
            "CREATE MATERIALIZED VIEW v AS SELECT * FROM cars WITH (fragments = 4)",
            "the rows of this view have no key that divides them",
        ),
        ("CREATE MATERIALIZED VIEW v AS SELECT * FROM cars WITH (fragments = 0, key = 'vid')", "fragments"),
        (
            "CREATE MATERIALIZED VIEW v AS SELECT * FROM cars WITH (fragment_by = 'vid')",
            "say how many it has: fragments = 2",
        ),
        (
            "CREATE MATERIALIZED VIEW v AS SELECT * FROM cars WITH (fragments = 4, fragment_by = 'vid, x')",
            "expression",
        ),
        (
            "CREATE MATERIALIZED VIEW v AS SELECT * FROM cars WITH (fragments = 4, fragment_by = 'vidd')",
            "vidd",
        ),
        (
            "CREATE MATERIALIZED VIEW v AS SELECT * FROM cars WITH (fragments = 4, fragment_by = 'at < now()')",
            "must not depend on the time",
        ),
        (
            "CREATE MATERIALIZED VIEW v AS SELECT * FROM cars WITH (fragments = 4, fragment_by = 'vid + random()')",
            "random",
        ),
        (
            "CREATE MATERIALIZED VIEW v AS SELECT vid, count(*) AS n FROM cars GROUP BY 1
                WITH (fragments = 4, fragment_by = 'n')",
            "'n' is not part of the key of this view",
        ),
        (
            "CREATE MATERIALIZED VIEW v AS SELECT * FROM cars
                WITH (fragments = 4, key = 'vid', retain_bytes = '200 KB')",
            "4 fragments need at least 256 KB",
        ),
        ("SELECT * FROM plain AS OF CYCLE 3", "reads no materialized view that runs"),
        ("SELECT * FROM plain AS OF CYCLE x", "expected the number of a cycle"),
        ("CREATE VIEW v AS SELECT * FROM plain AS OF CYCLE 3", "AS OF is only for a SELECT"),
    ] {
        let refused = execute(&mut planner, sql).err().unwrap_or_else(|| panic!("{sql}"));
        assert!(refused.contains(expected), "{sql}: {refused}");
    }
    let view = "CREATE MATERIALIZED VIEW recent AS SELECT * FROM cars
        WITH (retain = '10 seconds', retain_versions = 20)";
    execute(&mut planner, view).unwrap();
    let view = run(&mut planner);
    let statistics = view.store().statistics();
    assert!(statistics.rows_dropped > 5000 && statistics.rows >= 100, "{statistics:?}");
    assert_eq!(lines(&mut planner, "SELECT max(id), count(*) > 99 FROM recent").unwrap(), ["5999 true"]);
    assert_eq!(lines(&mut planner, "SELECT max(id) FROM recent AS OF CYCLE 110").unwrap(), ["5549"]);
    assert_eq!(
        lines(&mut planner, "SELECT max(id) FROM recent AS OF TIMESTAMP '1970-01-01 00:09:35'").unwrap(),
        ["5749"]
    );
    for (sql, expected) in [
        (
            "SELECT * FROM recent AS OF CYCLE 50",
            "cycle 50 is no longer kept; the cycles 100 to 120 can be read",
        ),
        ("SELECT * FROM recent AS OF CYCLE 4711", "cycle 4711 has not been committed yet"),
        ("SELECT * FROM recent AS OF TIMESTAMP '1970-01-01 00:00:10'", "the cycles 100 to 120 can be read"),
        (
            "SELECT * FROM recent AS OF CYCLE 110 JOIN recent other ON true AS OF CYCLE 111",
            "AS OF in two places",
        ),
    ] {
        let refused = execute(&mut planner, sql).err().unwrap_or_else(|| panic!("{sql}"));
        assert!(refused.contains(expected), "{sql}: {refused}");
    }
}
