//! What SHOW FUNCTIONS lists can be called, and patterns of times are what they say.

use datafusion::arrow::array::AsArray;
use tidemill_sql::{Planner, Reply, ShowKind, parse};

use crate::language::support::{planner, run, shown};

/// Arguments of all types that functions take.
const ARGUMENTS: &[&str] = &[
    "",
    "1",
    "1.5",
    "'a'",
    "'Cargo.toml'",
    "fft([1.0, 2.0]), fft([3.0, 4.0])",
    "at",
    "text",
    "id",
    "[1, 2]",
    "TRUE",
    "*",
    "X'00'",
    "MAP {'a': 1}",
    "CAST(at AS DATE)",
    "1, 2",
    "x, 0.5",
    "x, x",
    "'a', 'b'",
    "'a', 1",
    "1, 'a'",
    "at, 'YYYY'",
    "'year', at",
    "at, at",
    "[STRUCT('a', 1)]",
    "'{\"a\": 1}'",
    "'[1]'",
    "'day', at, at",
    "2026, 1, 1, 0, 0, 1.5",
    "'second', 1, 2",
    "text, ','",
    "[1], [1]",
    "[1], 1",
    "1, [1]",
    "[[1], [2]]",
    "['a'], ','",
    "[1.0, 2.0], [1.0, 2.0]",
    "MAP {'a': 1}, 'a'",
    "['a'], [1]",
    "STRUCT(1), 'c0'",
    "id, 'Int8'",
    "INTERVAL '1 day', at",
    "at, INTERVAL '1 day'",
    "1, 2, 3",
    "'a', 'b', 'c'",
    "'a', 1, 2",
    "'a', 'b', 1",
    "2026, 1, 1",
    "1.0, 0.5, 100",
    "[1], 1, 1",
    "[1], 1, 2",
    "x, 1, 0.5",
    "TRUE, 1, 2",
    "'a', 'sha256'",
    "x, 0.0, 10.0, 5",
    "1.0, 0.0, 10.0, 5",
    "'a', 'b', 1, 2",
    "[1], 1, 2, 1",
    "[7.0, 3.0], [1.0, 2.0]",
    "[[1.0, 2.0], [3.0, 4.0]], 2",
    "1, 2, 3, 4",
    "[1.0, 2.0], [3.0, 4.0], 5",
    "[1.0, 2.0], [0.0, 0.0, 9.0, 9.0]",
    "1, '9'",
    "'a', 'b', 'sha256'",
    "'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'",
    "'{}', '{a}'",
    "'{}', '{a}', '1'",
    "['1']",
];

/// Ways to call a function with some arguments.
const CALLS: &[&str] = &[
    "SELECT f($) FROM t",
    "SELECT k, f($) FROM t GROUP BY k",
    "SELECT f(0.5) WITHIN GROUP (ORDER BY x) FROM t",
    "SELECT f(0.5, x) WITHIN GROUP (ORDER BY x) FROM t",
    "SELECT f($) OVER (ORDER BY at) FROM t",
    "SELECT f(k) FROM t GROUP BY ROLLUP (k)",
    "SELECT * FROM f($)",
];

#[test]
fn every_function_that_is_listed_can_be_called() {
    let mut planner = planner();
    let listed = planner.show(ShowKind::Functions);
    let (names, kinds) = (listed.column(0).as_string::<i32>(), listed.column(1).as_string::<i32>());
    assert!(listed.num_rows() > 200, "{}", listed.num_rows());
    let mut refused = Vec::new();
    for (name, kind) in names.iter().flatten().zip(kinds.iter().flatten()) {
        // Operators are the user's, and there are none.
        assert!(["scalar", "aggregate", "window", "generator"].contains(&kind), "{kind}");
        let calls = CALLS.iter().flat_map(|call| {
            ARGUMENTS
                .iter()
                .map(move |arguments| call.replace("f(", &format!("{name}(")).replace('$', arguments))
        });
        let mut said = String::new();
        let is_taken = calls.into_iter().any(|query| {
            let Ok(statements) = parse(&query, "q.sql") else { return false };
            match planner.execute(&statements[0]) {
                Ok(Reply::Rows(_) | Reply::Query(_)) => true,
                Ok(_) => false,
                Err(error) => {
                    said = error.to_string();
                    false
                }
            }
        });
        if !is_taken {
            refused.push(format!("{kind} {name}: {said}"));
        }
    }
    assert!(refused.is_empty(), "{}", refused.join("\n"));
}

#[test]
fn functions_that_no_replay_repeats_are_not_listed() {
    let listed = Planner::new().show(ShowKind::Functions);
    let names: Vec<&str> = listed.column(0).as_string::<i32>().iter().flatten().collect();
    assert!(!names.contains(&"random") && !names.contains(&"uuid"));
    assert!(names.contains(&"abs") && names.contains(&"now") && names.contains(&"row_number"));
}

#[test]
fn patterns_are_what_they_say() {
    let at = "TIMESTAMP '2026-03-07 14:05:09.012345'";
    for (call, expected) in [
        ("to_char($, 'YYYY-MM-DD')", "2026-03-07"),
        ("to_char($, 'yyyy-mm-dd hh24:mi:ss.ms')", "2026-03-07 14:05:09.012"),
        ("to_char($, 'FMDD Mon YY, HH12:MI:SS PM')", "7 Mar 26, 02:05:09 PM"),
        ("to_char($, 'FMDay \"the\" FMDDD, IYYY-IW, Q')", "Saturday the 66, 2026-10, 1"),
        ("to_char($, '%Y/%m/%d %H:%M:%S%.3f')", "2026/03/07 14:05:09.012"),
        ("to_char(CAST($ AS DATE), 'DD.MM.YYYY')", "07.03.2026"),
        ("to_char(CAST($ AS TIME), 'HH24:MI')", "14:05"),
        ("date_format($, 'yyyy-MM-dd''T''HH:mm:ss.SSS')", "2026-03-07T14:05:09.012"),
        ("date_format($, 'd.M.yy h a, EEEE')", "7.3.26 2 PM, Saturday"),
        ("date_format($, '%d.%m.%Y')", "07.03.2026"),
        ("to_date('07.03.2026', 'DD.MM.YYYY')", "2026-03-07"),
        ("to_timestamp('2026/03/07 14:05:09', 'YYYY/MM/DD HH24:MI:SS')", "2026-03-07T14:05:09"),
        ("to_timestamp('7 March 2026 02:05 PM', 'DD Month YYYY HH12:MI PM')", "2026-03-07T14:05:00"),
        ("to_timestamp('2026/03/07', '%Y/%m/%d')", "2026-03-07T00:00:00"),
        ("to_unixtime('1970/01/02 00:00:00', 'YYYY/MM/DD HH24:MI:SS')", "86400"),
    ] {
        let query = format!("SELECT {} AS x", call.replace('$', at));
        let rows = run(&mut Planner::new(), &query).unwrap_or_else(|error| panic!("{query}: {error}"));
        assert_eq!(shown(&rows), [expected], "{call}");
    }
}

#[test]
fn patterns_that_are_not_known_are_refused_when_they_are_planned() {
    let mut planner = planner();
    for (call, marked, says) in [
        ("to_char(at, 'nonsense')", "'nonsense'", "YYYY"),
        ("to_char(at, 'YYYY-MM-DDTHH24')", "'YYYY-MM-DDTHH24'", "double quotes"),
        ("to_char(at, 'HH24:mm')", "'HH24:mm'", "MI"),
        ("to_char(at, 'Month')", "'Month'", "FMMonth"),
        ("to_char(at, '%Q')", "'%Q'", "%Y"),
        ("to_char(at, text)", "text", "CASE"),
        ("date_format(at, 'YYYY-MM-DD')", "'YYYY-MM-DD'", "yyyy"),
        ("date_format(at, '%H:%i')", "'%H:%i'", "%M"),
        ("to_timestamp(text, 'nonsense')", "'nonsense'", "YYYY"),
        ("to_date(text, '%Q')", "'%Q'", "%Y"),
    ] {
        let query = format!("SELECT {call} FROM t");
        let statement = parse(&query, "q.sql").unwrap().remove(0);
        let Err(error) = planner.execute(&statement) else { panic!("not refused: {query}") };
        assert_eq!(&query[error.span.bytes()], marked, "{error}");
        assert!(error.hint.as_deref().unwrap_or_default().contains(says), "{error}");
    }
}
