//! Random views that follow event time: windows, joins within a time bound, running functions. DuckDB computes which of their rows
//! are out at a watermark.

use super::view::{Kind, Query, aggregates, condition, filter, named};
use tidemill_testing::random::Random;

fn timed(random: &mut Random) -> &'static str {
    random.one_of(&["s", "t"])
}

/// Windows that do not overlap, or that do, with a key or without.
pub fn windows(random: &mut Random) -> Query {
    let source = timed(random);
    grouped_windows(random, source, source, &format!("wm_{source}"))
}

/// Windows over the rows of two sources.
pub fn windows_of_both(random: &mut Random) -> Query {
    let both = format!(
        "(SELECT n, ts, k, g, v, d, p, b FROM s{} UNION ALL SELECT n, ts, k, g, v, d, p, b FROM t{})",
        filter(random),
        filter(random)
    );
    grouped_windows(random, &both, &format!("{both} AS both_sources"), "wm")
}

fn grouped_windows(random: &mut Random, ours: &str, duckdb: &str, watermark: &str) -> Query {
    let size_ms = random.one_of(&[1000, 2500, 5000]);
    let hops = random.one_of(&[1, 1, 2, 5]);
    let slide_ms = size_ms / hops;
    let (key, of_key) = random.one_of(&[("", ""), (", k", ", k"), (", g", ", g"), (", k % 3", ", k % 3")]);
    let mut columns = vec![named("window_start", Kind::Time), named("window_end", Kind::Time)];
    if !key.is_empty() {
        columns.push(named("key", if key == ", g" { Kind::Text } else { Kind::Int }));
    }
    let key = if key.is_empty() { String::new() } else { format!("{key} AS key") };
    let (aggregates, filter) = (aggregates(random, &mut columns), filter(random));
    let table = if ours.starts_with('(') { ours.to_owned() } else { format!("TABLE({ours})") };
    let call = match hops {
        1 => format!("tumble({table}, ts, INTERVAL '{size_ms} milliseconds')"),
        _ => {
            format!("hop({table}, ts, INTERVAL '{slide_ms} milliseconds', INTERVAL '{size_ms} milliseconds')")
        }
    };
    let having = random.one_of(&["", "", " HAVING count(*) > 1"]);
    let and_having = having.replace(" HAVING", " AND");
    Query {
        ours: format!(
            "SELECT window_start, window_end{key}{aggregates} FROM {call}{filter} GROUP BY window_start, \
             window_end{of_key}{having}"
        ),
        duckdb: format!(
            "SELECT ws AS window_start, ws + INTERVAL {size_ms} MILLISECOND AS window_end{key}{aggregates} FROM \
             (SELECT *, \
             make_timestamp((epoch_ms(ts) // {slide_ms} * {slide_ms} - step * {slide_ms}) * 1000) AS ws FROM {duckdb}, \
             range({hops}) AS steps(step)) AS windows{filter} GROUP BY ws{of_key} HAVING ws + INTERVAL {size_ms} \
             MILLISECOND <= (SELECT w FROM {watermark}){and_having}"
        ),
        columns,
    }
}

/// The windows with the most rows of each time.
pub fn top(random: &mut Random) -> Query {
    let source = timed(random);
    let (size_ms, places, order) =
        (random.one_of(&[2000, 5000]), 1 + random.index(3), random.one_of(&["DESC", ""]));
    let columns = vec![
        named("window_end", Kind::Time),
        named("k", Kind::Int),
        named("rows", Kind::Int),
        named("place", Kind::Int),
    ];
    let outer = format!(
        "SELECT window_end, k, rows, place FROM (SELECT *, row_number() OVER (PARTITION BY window_end ORDER BY \
         rows {order}, \
         k NULLS LAST) AS place FROM counted) AS placed WHERE place <= {places}"
    );
    Query {
        ours: format!(
            "WITH counted AS (SELECT window_start, window_end, k, count(*) AS rows FROM tumble(TABLE({source}), \
             ts, INTERVAL \
             '{size_ms} milliseconds') GROUP BY window_start, window_end, k) {outer}"
        ),
        duckdb: format!(
            "WITH counted AS (SELECT * FROM (SELECT make_timestamp((epoch_ms(ts) // {size_ms} + 1) * {size_ms} * \
             1000) AS \
             window_end, k, count(*) AS rows FROM {source} GROUP BY 1, 2) WHERE window_end <= (SELECT w FROM \
             wm_{source})) {outer}"
        ),
        columns,
    }
}

/// Sessions of each key.
pub fn sessions(random: &mut Random) -> Query {
    let (source, gap_ms) = (timed(random), random.one_of(&[400, 900, 1500]));
    let filter = filter(random);
    let mut columns =
        vec![named("window_start", Kind::Time), named("window_end", Kind::Time), named("k", Kind::Int)];
    let aggregates = aggregates(random, &mut columns);
    Query {
        ours: format!(
            "SELECT window_start, window_end, k{aggregates} FROM session((SELECT * FROM {source}{filter}), ts, \
             INTERVAL \
             '{gap_ms} milliseconds') GROUP BY window_start, window_end, k"
        ),
        duckdb: format!(
            "SELECT min(ts) AS window_start, max(ts) + INTERVAL {gap_ms} MILLISECOND AS window_end, k{aggregates} \
             FROM (SELECT \
             *, sum(is_first) OVER (PARTITION BY k ORDER BY ts, n) AS session FROM (SELECT *, CASE WHEN ts - \
             lag(ts) OVER \
             (PARTITION BY k ORDER BY ts, n) <= INTERVAL {gap_ms} MILLISECOND THEN 0 ELSE 1 END AS is_first FROM \
             {source}{filter}) AS marked) AS numbered GROUP BY k, session HAVING window_end < (SELECT w FROM \
             wm_{source})"
        ),
        columns,
    }
}

/// Pairs of rows of both sources, with and without the rows that have no partner.
pub fn joined(random: &mut Random) -> Query {
    let is_left = random.is_once_in(2);
    let (before_ms, after_ms) = (random.one_of(&[0, 500, 2000]), random.one_of(&[0, 300, 1000]));
    let more = random.one_of(&["", "", " AND a.v > b.v", " AND a.g = b.g"]);
    let (key, other_key) = random.one_of(&[("a.k", "b.k"), ("a.k", "b.k"), ("a.g", "b.g")]);
    let columns = vec![
        named("an", Kind::Int),
        named("bn", Kind::Int),
        named("k", Kind::Int),
        named("more", Kind::Int),
        named("g", Kind::Text),
    ];
    let select = "a.n AS an, b.n AS bn, a.k AS k, a.v - b.v AS more, b.g AS g";
    let on = format!(
        "{key} = {other_key} AND b.ts >= a.ts - INTERVAL '{before_ms} milliseconds' AND b.ts <= a.ts + INTERVAL \
         '{after_ms} \
         milliseconds'{more}"
    );
    // A row without a partner is out once none can come; at once if it lacks what must be equal.
    let lacks = if more.contains("a.g") {
        format!("({key} IS NULL OR a.g IS NULL)")
    } else {
        format!("{key} IS NULL")
    };
    let (word, more) = if is_left {
        (
            "LEFT JOIN",
            format!(
                " WHERE b.n IS NOT NULL OR {lacks} OR a.ts + INTERVAL '{after_ms} milliseconds' < (SELECT w FROM wm)"
            ),
        )
    } else {
        ("JOIN", String::new())
    };
    Query {
        ours: format!("SELECT {select} FROM s AS a {word} t AS b ON {on}"),
        duckdb: format!("SELECT {select} FROM s AS a {word} t AS b ON {on}{more}"),
        columns,
    }
}

/// Running functions of each key.
pub fn running(random: &mut Random) -> Query {
    const FUNCTIONS: &[(&str, &str, Kind)] = &[
        ("lag(v)", "", Kind::Int),
        ("row_number()", "", Kind::Int),
        ("count(*)", " ROWS BETWEEN 3 PRECEDING AND CURRENT ROW", Kind::Int),
        ("sum(v)", " ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW", Kind::Int),
        ("max(d)", " ROWS BETWEEN 2 PRECEDING AND CURRENT ROW", Kind::Float),
        ("sum(v)", " RANGE BETWEEN INTERVAL '2 seconds' PRECEDING AND CURRENT ROW", Kind::Int),
        ("count(*)", " RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW", Kind::Int),
        ("first_value(n)", " ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW", Kind::Int),
    ];
    let (source, filter) = (timed(random), filter(random));
    let partition = random.one_of(&["PARTITION BY k ", "PARTITION BY g ", ""]);
    let mut columns = vec![named("n", Kind::Int), named("k", Kind::Int)];
    let (mut ours, mut duckdb) = ("SELECT n, k".to_owned(), "SELECT n, k, ts".to_owned());
    for number in 0..2 {
        let (function, frame, kind) = random.one_of(FUNCTIONS);
        ours += &format!(", {function} OVER ({partition}ORDER BY ts{frame}) AS f{number}");
        // Rows of the same time are in the order in which they came.
        let order = if frame.contains("RANGE") { "ORDER BY ts" } else { "ORDER BY ts, n" };
        duckdb += &format!(", {function} OVER ({partition}{order}{frame}) AS f{number}");
        columns.push((format!("f{number}"), kind));
    }
    Query {
        ours: format!("{ours} FROM {source}{filter}"),
        duckdb: format!(
            "SELECT * EXCLUDE (ts) FROM ({duckdb} FROM {source}{filter}) AS running WHERE ts < (SELECT w FROM \
             wm_{source})"
        ),
        columns,
    }
}

/// Windows by the number of rows of each key.
pub fn count_windows(random: &mut Random) -> Query {
    let (source, size) = (random.one_of(&["s", "t", "u"]), random.one_of(&[2, 3, 7]));
    let condition = condition(random);
    let mut columns = vec![named("k", Kind::Int), named("window_end", Kind::Int)];
    let aggregates = aggregates(random, &mut columns);
    Query {
        ours: format!(
            "SELECT k, window_end{aggregates} FROM tumble((SELECT * FROM {source} WHERE {condition}), ROWS \
             {size}, key => k) \
             GROUP BY k, window_end"
        ),
        duckdb: format!(
            "SELECT k, (nr // {size} + 1) * {size} AS window_end{aggregates} FROM (SELECT *, row_number() OVER \
             (PARTITION BY k \
             ORDER BY n) - 1 AS nr FROM {source} WHERE {condition}) AS numbered GROUP BY k, nr // {size} HAVING \
             count(*) = {size}"
        ),
        columns,
    }
}
