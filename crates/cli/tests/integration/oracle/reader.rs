//! Random questions of readers over the views.

use super::view::{Kind, View};
use tidemill_testing::random::Random;

/// A question in both words. `AS OF CYCLE n` can be added to ours.
#[derive(Clone, Debug)]
pub struct Question {
    pub ours: String,
    pub duckdb: String,
    pub is_ordered: bool,
    /// The views that it reads.
    pub views: Vec<String>,
}

impl Question {
    fn same(text: String, is_ordered: bool, views: &[&View]) -> Question {
        let views = views.iter().map(|view| view.name.clone()).collect();
        Question { ours: text.clone(), duckdb: text, is_ordered, views }
    }
}

/// A question over some of the views.
pub fn question(random: &mut Random, views: &[View]) -> Question {
    let view = &views[random.index(views.len())];
    let whole: Vec<&View> = views.iter().filter(|view| view.recent_seconds.is_none()).collect();
    let other = whole[random.index(whole.len())];
    if let Some(seconds) = view.recent_seconds {
        return recent(random, view, seconds);
    }
    if view.is_store && random.is_once_in(2) {
        return stored(random, view);
    }
    match random.index(12) {
        0 => Question::same(format!("SELECT {} FROM {}", view.names(), view.name), false, &[view]),
        1 | 2 => Question::same(
            format!("SELECT {} FROM {} WHERE {}", view.names(), view.name, conditions(random, view, "")),
            false,
            &[view],
        ),
        3 | 4 => ordered(random, view),
        5 | 6 => grouped(random, view),
        7 | 8 => joined(random, view, other),
        9 => set(random, view, other),
        10 => subquery(random, view, other),
        _ => ranked(random, view),
    }
}

/// Everything that a view has, or must have if it may have more.
pub fn whole(view: &View) -> Question {
    if let Some(seconds) = view.recent_seconds {
        return rows_of_last(view, seconds, "");
    }
    Question::same(format!("SELECT {} FROM {}", view.names(), view.name), false, &[view])
}

/// What is not older than the view keeps rows; sometimes only the newest of it.
fn recent(random: &mut Random, view: &View, seconds: u32) -> Question {
    let condition = format!(" AND {}", conditions(random, view, ""));
    rows_of_last(
        view,
        1 + random.index(seconds as usize) as u32,
        if random.is_once_in(2) { &condition } else { "" },
    )
}

fn rows_of_last(view: &View, seconds: u32, condition: &str) -> Question {
    let (names, name) = (view.names(), &view.name);
    let text = format!(
        "SELECT {names} FROM {name} WHERE ts >= (SELECT max(ts) FROM {name}) - INTERVAL '{seconds} seconds'{condition}"
    );
    Question::same(text, false, &[view])
}

fn conditions(random: &mut Random, view: &View, qualifier: &str) -> String {
    let one = condition(random, view, qualifier);
    match random.index(4) {
        0 => format!("{one} AND {}", condition(random, view, qualifier)),
        1 => format!("({one} OR {})", condition(random, view, qualifier)),
        _ => one,
    }
}

fn condition(random: &mut Random, view: &View, qualifier: &str) -> String {
    let (name, kind) = &view.columns[random.index(view.columns.len())];
    let column = format!("{qualifier}{name}");
    let comparison = random.one_of(&["=", "<", "<=", ">", ">=", "<>"]);
    match (random.index(6), kind) {
        (0, _) => format!("{column} IS NOT NULL"),
        (1, _) => format!("{column} IS NULL"),
        (2, Kind::Int) => format!("{column} IN (0, 1, 2, 3, 50)"),
        (3, Kind::Int) => format!("{column} % 2 = 0"),
        (_, Kind::Int) => format!("{column} {comparison} {}", random.index(40)),
        (_, Kind::Float) => format!("{column} {comparison} {}.25", random.index(40) as i64 - 10),
        (_, Kind::Decimal) => format!("{column} {comparison} {}.5", random.index(20)),
        (2, Kind::Text) => format!("{column} LIKE 'a%'"),
        (_, Kind::Text) => format!("{column} {comparison} 'ab'"),
        (_, Kind::Time) => {
            format!(
                "{column} {comparison} TIMESTAMP '2026-01-01 00:0{}:{}0'",
                random.index(4),
                random.index(6)
            )
        }
        (_, Kind::Bool) => column,
    }
}

/// The first rows in a total order, but for rows that are equal.
fn ordered(random: &mut Random, view: &View) -> Question {
    let first = random.index(view.columns.len());
    let order: Vec<String> = (0..view.columns.len())
        .map(|at| {
            let (name, _) = &view.columns[(first + at) % view.columns.len()];
            let direction = random.one_of(&["ASC", "DESC"]);
            format!("{name} {direction} NULLS {}", random.one_of(&["FIRST", "LAST"]))
        })
        .collect();
    let limit = match random.index(3) {
        0 => String::new(),
        1 => format!(" LIMIT {}", 1 + random.index(9)),
        _ => format!(" LIMIT {} OFFSET {}", 1 + random.index(9), random.index(30)),
    };
    let filter =
        if random.is_once_in(2) { format!(" WHERE {}", conditions(random, view, "")) } else { String::new() };
    Question::same(
        format!("SELECT {} FROM {}{filter} ORDER BY {}{limit}", view.names(), view.name, order.join(", ")),
        true,
        &[view],
    )
}

fn grouped(random: &mut Random, view: &View) -> Question {
    let (key, _) = &view.columns[random.index(view.columns.len())];
    let (column, kind) = &view.columns[random.index(view.columns.len())];
    let mut aggregates =
        format!("count(*) AS rows, count({column}) AS some, count(DISTINCT {column}) AS values_of");
    match kind {
        Kind::Int | Kind::Decimal => {
            aggregates += &format!(", sum({column}) AS total, max({column}) AS top, avg({column}) AS mean");
        }
        Kind::Float => aggregates += &format!(", sum({column}) AS total, min({column}) AS low"),
        Kind::Text | Kind::Time => aggregates += &format!(", min({column}) AS low, max({column}) AS top"),
        Kind::Bool => {}
    }
    let filter =
        if random.is_once_in(3) { format!(" WHERE {}", conditions(random, view, "")) } else { String::new() };
    let text = match random.index(3) {
        0 => format!("SELECT {aggregates} FROM {}{filter}", view.name),
        1 => format!(
            "SELECT {key}, {aggregates} FROM {}{filter} GROUP BY {key} HAVING count(*) > 1",
            view.name
        ),
        _ => format!("SELECT {key}, {aggregates} FROM {}{filter} GROUP BY {key}", view.name),
    };
    Question::same(text, false, &[view])
}

/// A column of both views with the same type.
fn common<'a>(random: &mut Random, one: &'a View, other: &'a View) -> Option<(&'a str, &'a str, Kind)> {
    let mut pairs = Vec::new();
    for (name, kind) in &one.columns {
        let same = other.columns.iter().filter(|(_, of_other)| of_other == kind && *kind != Kind::Float);
        pairs.extend(same.map(|(of_other, _)| (name.as_str(), of_other.as_str(), *kind)));
    }
    (!pairs.is_empty()).then(|| pairs[random.index(pairs.len())])
}

fn joined(random: &mut Random, one: &View, other: &View) -> Question {
    let Some((left, right, _)) = common(random, one, other) else { return grouped(random, one) };
    let (shown, _) = &one.columns[random.index(one.columns.len())];
    let (other_shown, _) = &other.columns[random.index(other.columns.len())];
    let word = random.one_of(&["JOIN", "LEFT JOIN", "FULL JOIN"]);
    let from = format!("{} AS a {word} {} AS b ON a.{left} = b.{right}", one.name, other.name);
    let filter = if random.is_once_in(2) {
        format!(" WHERE {}", conditions(random, one, "a."))
    } else {
        String::new()
    };
    let text = match random.index(3) {
        0 => format!(
            "SELECT count(*) AS pairs, count(a.{shown}) AS some, count(b.{other_shown}) AS others FROM {from}{filter}"
        ),
        1 => format!(
            "SELECT a.{shown} AS one, count(b.{other_shown}) AS others FROM {from}{filter} GROUP BY a.{shown}"
        ),
        _ => format!("SELECT DISTINCT a.{shown} AS one, b.{other_shown} AS other FROM {from}{filter}"),
    };
    Question::same(text, false, &[one, other])
}

fn set(random: &mut Random, one: &View, other: &View) -> Question {
    let Some((left, right, _)) = common(random, one, other) else { return ordered(random, one) };
    let word = random.one_of(&["UNION", "UNION ALL", "INTERSECT", "EXCEPT"]);
    let text = format!("SELECT {left} AS c FROM {} {word} SELECT {right} AS c FROM {}", one.name, other.name);
    Question::same(text, false, &[one, other])
}

fn subquery(random: &mut Random, one: &View, other: &View) -> Question {
    let Some((left, right, kind)) = common(random, one, other) else { return ordered(random, one) };
    let (names, one_name, other_name) = (one.names(), &one.name, &other.name);
    let text = match (random.index(3), kind) {
        (0, Kind::Int | Kind::Decimal | Kind::Time) => {
            format!("SELECT {names} FROM {one_name} WHERE {left} >= (SELECT max({right}) FROM {other_name})")
        }
        (1, _) => format!(
            "SELECT {names} FROM {one_name} AS a WHERE NOT EXISTS (SELECT 1 FROM {other_name} AS b WHERE \
             b.{right} = a.{left})"
        ),
        _ => format!("SELECT {names} FROM {one_name} WHERE {left} IN (SELECT {right} FROM {other_name})"),
    };
    Question::same(text, false, &[one, other])
}

fn ranked(random: &mut Random, view: &View) -> Question {
    let (key, _) = &view.columns[random.index(view.columns.len())];
    let order: Vec<String> = view.columns.iter().map(|(name, _)| format!("{name} NULLS LAST")).collect();
    let text = format!(
        "SELECT {}, place FROM (SELECT *, row_number() OVER (PARTITION BY {key} ORDER BY {}) AS place FROM {}) AS \
         placed WHERE \
         place <= {}",
        view.names(),
        order.join(", "),
        view.name,
        1 + random.index(3)
    );
    Question::same(text, false, &[view])
}

/// By key, box, distance and time, in the words that the store answers by itself.
fn stored(random: &mut Random, view: &View) -> Question {
    let name = &view.name;
    let (x, y) = (random.index(40) as f64 / 2.0, random.index(40) as f64 / 2.0);
    let distance = format!("sqrt((x - {x}) * (x - {x}) + (y - {y}) * (y - {y}))");
    let views = vec![name.clone()];
    let both = |ours: String, duckdb: String, is_ordered| Question {
        ours,
        duckdb,
        is_ordered,
        views: views.clone(),
    };
    let columns = "n, ts, k, v, x, y";
    let more = if random.is_once_in(2) { format!(" AND k = {}", random.index(6)) } else { String::new() };
    match random.index(5) {
        0 => {
            let text = format!("SELECT {columns} FROM {name} WHERE k = {}", random.index(7));
            both(text.clone(), text, false)
        }
        1 => {
            let text = format!(
                "SELECT {columns} FROM {name} WHERE x BETWEEN {} AND {x} AND y BETWEEN {} AND {y}{more}",
                x - 6.0,
                y - 6.5
            );
            both(text.clone(), text, false)
        }
        2 => both(
            format!("SELECT {columns} FROM {name} WHERE st_dwithin(point, st_point({x}, {y}), 4.5){more}"),
            format!("SELECT {columns} FROM {name} WHERE {distance} <= 4.5{more}"),
            false,
        ),
        3 => {
            // Rows at the same distance are in any order: only distances are compared.
            let filter = if more.is_empty() { String::new() } else { more.replace(" AND", " WHERE") };
            both(
                format!(
                    "SELECT st_distance(point, st_point({x}, {y})) AS far FROM {name}{filter} ORDER BY \
                     st_distance(point, \
                     st_point({x}, {y})) LIMIT 5"
                ),
                format!("SELECT {distance} AS far FROM {name}{filter} ORDER BY {distance} LIMIT 5"),
                true,
            )
        }
        _ => {
            let text = format!(
                "SELECT {columns} FROM {name} WHERE ts > TIMESTAMP '2026-01-01 00:00:{}' AND ts <= TIMESTAMP \
                 '2026-01-01 \
                 00:0{}:30'{more}",
                10 + random.index(50),
                1 + random.index(5)
            );
            both(text.clone(), text, false)
        }
    }
}
