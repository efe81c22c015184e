//! Windows by count, and lists that become rows: both in the order in which rows come, which is that of `id`.

use super::expression::Expressions;
use super::query::{KEYS, aggregates, filter};
use super::sql::{Sql, both, sql};

/// Windows of rows, of all or of each key, with rows or groups over them.
pub fn count_windows(of: &mut Expressions<'_>) -> Sql {
    let size = of.random.one_of(&[1, 2, 3, 5, 40]);
    let slide = of.random.one_of(&[None, Some(1), Some(2), Some(3)]).filter(|slide| *slide <= size);
    let keys = match of.random.index(3) {
        0 => Vec::new(),
        1 => vec![of.random.one_of(KEYS)],
        _ => vec![of.random.one_of(KEYS), of.random.one_of(&["w", "i16"])],
    };
    let inner = filter(of);
    let from = windows(slide, size, &keys, &inner);
    let of_key: String = keys.iter().map(|key| format!(", {key}")).collect();
    match of.random.index(4) {
        0 => sql!("SELECT id, window_start, window_end FROM {}{}", from, filter(of)),
        1 => sql!(
            "SELECT window_end{}, {} FROM {}{} GROUP BY window_end{}",
            Sql::same(of_key.clone()),
            aggregates(of, 3),
            from,
            filter(of),
            Sql::same(of_key)
        ),
        _ => {
            let more = of.column(&["b", "r", "day", "clock", "d"]);
            sql!(
                "SELECT window_start, {} AS g{}, {} FROM {}{} GROUP BY window_start, {}{}",
                more.clone(),
                Sql::same(of_key.clone()),
                aggregates(of, 2),
                from,
                filter(of),
                more,
                Sql::same(of_key)
            )
        }
    }
}

fn windows(slide: Option<i64>, size: i64, keys: &[&str], inner: &Sql) -> Sql {
    both(|ours| {
        if ours {
            let table = match inner.ours.as_str() {
                "" => "TABLE(t)".to_owned(),
                filter => format!("(SELECT * FROM t{filter})"),
            };
            let key = match keys {
                [] => String::new(),
                [key] => format!(", key => {key}"),
                keys => format!(", key => ({})", keys.join(", ")),
            };
            match slide {
                None => format!("tumble({table}, ROWS {size}{key})"),
                Some(slide) => format!("hop({table}, ROWS {slide}, ROWS {size}{key})"),
            }
        } else {
            let partition = if keys.is_empty() { "" } else { "PARTITION BY " };
            let slide = slide.unwrap_or(size);
            // Each row is in the windows that begin at most `size` rows before it, at the multiples of the slide.
            format!(
                "(SELECT * EXCLUDE (nr, step), nr // {slide} * {slide} - step * {slide} AS window_start, \
                 nr // {slide} * {slide} - step * {slide} + {size} AS window_end FROM (SELECT *, row_number() OVER \
                 ({partition}{} ORDER BY id) - 1 AS nr FROM t{}) AS numbered, range({}) AS steps(step) WHERE \
                 nr // {slide} * {slide} - step * {slide} BETWEEN greatest(0, nr - {size} + 1) AND nr)",
                keys.join(", "),
                inner.duckdb,
                size / slide + 1
            )
        }
    })
}

/// Lists become rows.
pub fn lists(of: &mut Expressions<'_>) -> Sql {
    let list = match of.random.index(5) {
        0 => sql!("[{}, {}]", of.column(&["k", "i32"]), of.column(&["i32", "i8"])),
        1 => sql!("[{}, {}, NULL]", of.column(&["s"]), of.column(&["w"])),
        2 => sql!("[{}]", of.column(&["d", "p", "moment", "day"])),
        3 => sql!("range(0, {})", Sql::same("CAST(k AS BIGINT)")),
        _ => sql!(
            "CASE WHEN {} THEN [{}, {}] END",
            of.condition(0),
            of.column(&["f", "d"]),
            of.column(&["d", "f"])
        ),
    };
    match of.random.index(4) {
        0 => sql!(
            "SELECT v, count(*) AS n, min(id) AS lo FROM (SELECT id, unnest({}) AS v FROM t{}) AS x GROUP BY v",
            list,
            filter(of)
        ),
        1 => sql!(
            "SELECT id, v FROM (SELECT id, unnest({}) AS v FROM t{}) AS x WHERE v IS NOT NULL",
            list,
            filter(of)
        ),
        _ => sql!("SELECT id, unnest({}) AS v FROM t{}", list, filter(of)),
    }
}
