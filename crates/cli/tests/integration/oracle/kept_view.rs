//! Random views that keep rows otherwise than as they come: by key, by place and time, only for a while, divided among fragments.

use super::view::{Kind, Query, View, filter, named, source};
use tidemill_testing::random::Random;

/// The last row of each key.
pub fn last_rows(random: &mut Random) -> View {
    let (source, filter) = (source(random), filter(random));
    let columns =
        vec![named("k", Kind::Int), named("n", Kind::Int), named("g", Kind::Text), named("v", Kind::Int)];
    let mut view = View::new(
        "",
        Query {
            ours: format!("SELECT k, n, g, v FROM {source}{filter}"),
            duckdb: format!("SELECT DISTINCT ON (k) k, n, g, v FROM {source}{filter} ORDER BY k, n DESC"),
            columns,
        },
    );
    view.key = " PRIMARY KEY (k)";
    view.options.extend(fragments(random, None));
    view
}

/// All rows, found by key, place and time.
pub fn store(random: &mut Random) -> View {
    let mut view = rows_by_place(random);
    view.options.push("retain = '10 hours'".into());
    view
}

/// The rows of the last seconds. It may show older ones as well, because chunks are dropped as a whole.
pub fn recent(random: &mut Random) -> View {
    let mut view = rows_by_place(random);
    let seconds = random.one_of(&[1, 3, 10]);
    view.options.push(format!("retain = '{seconds} seconds'"));
    view.recent_seconds = Some(seconds);
    view
}

fn rows_by_place(random: &mut Random) -> View {
    let columns = vec![
        named("n", Kind::Int),
        named("ts", Kind::Time),
        named("k", Kind::Int),
        named("v", Kind::Int),
        named("x", Kind::Float),
        named("y", Kind::Float),
    ];
    let (source, filter) = (random.one_of(&["s", "t"]), filter(random));
    let query = Query::same(format!("SELECT n, ts, k, v, x, y FROM {source}{filter}"), columns);
    let mut view = View::new("", query);
    view.is_store = true;
    view.options = ["key = 'k'", "point = 'x, y'"].map(str::to_owned).into();
    view.options.extend(fragments(random, Some("n % 5")));
    view
}

/// Into how many fragments the rows are divided, if they are: by the key, or by an expression.
fn fragments(random: &mut Random, by: Option<&str>) -> Vec<String> {
    if random.is_once_in(2) {
        return Vec::new();
    }
    let by = by.filter(|_| random.is_once_in(2)).map(|by| format!("fragment_by = '{by}'"));
    [another_count(random)].into_iter().chain(by).collect()
}

/// The option with a number of fragments.
pub fn another_count(random: &mut Random) -> String {
    format!("fragments = {}", random.one_of(&[1, 2, 3, 7]))
}

/// Each row with the last row of its key, at the moment at which it came: a stream and a table that changes.
pub fn joined_with_last(random: &mut Random, table: &View) -> Query {
    let is_left = random.is_once_in(2);
    let (source, filter) = ("s", filter(random));
    let columns = vec![
        named("n", Kind::Int),
        named("k", Kind::Int),
        named("ln", Kind::Int),
        named("lv", Kind::Int),
        named("more", Kind::Int),
    ];
    let select = "a.n AS n, a.k AS k, b.n AS ln, b.v AS lv, a.v - b.v AS more";
    let word = if is_left { "LEFT JOIN" } else { "JOIN" };
    let asof = if is_left { "ASOF LEFT JOIN" } else { "ASOF JOIN" };
    let rows = format!("(SELECT n, k, v FROM {source}{filter}) AS a");
    Query {
        ours: format!(
            "SELECT {select} FROM {rows} {word} {} FOR SYSTEM_TIME AS OF a.n AS b ON a.k = b.k",
            table.name
        ),
        duckdb: format!(
            "SELECT {select} FROM {rows} {asof} ({}) AS b ON a.k = b.k AND a.n >= b.n",
            table.ours
        ),
        columns,
    }
}
