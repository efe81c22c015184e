//! Finds the part of a statement that the planner refuses: plans have no places, but a reason concerns a clause or a
//! function.

use crate::statement::Statement;
use crate::text::Span;

/// Pieces of reasons, and the words of the clauses that they concern, the likeliest first.
const CLAUSES: [(&str, &[&[&str]]); 20] = [
    ("ordered only by its event time", &[&["ORDER", "BY"]]),
    ("DISTINCT ON", &[&["DISTINCT", "ON"]]),
    ("OFFSET", &[&["OFFSET"]]),
    ("now() advances", &[&["WHERE"], &["HAVING"], &["FILTER"], &["ON"]]),
    ("value of an aggregate that changes", &[&["JOIN"], &["FROM"]]),
    ("LIMIT", &[&["LIMIT"]]),
    ("GROUPING SETS", &[&["ROLLUP"], &["CUBE"], &["GROUPING", "SETS"]]),
    ("changing values of a table", &[&["HAVING"], &["WHERE"]]),
    ("an aggregate over a table", &[&["GROUP", "BY"], &["FROM"]]),
    ("NULL equals NULL", &[&["EXCEPT"], &["INTERSECT"], &["JOIN"], &["IN"]]),
    ("NOT IN or NOT EXISTS", &[&["NOT", "IN"], &["NOT", "EXISTS"], &["ANTI", "JOIN"], &["EXCEPT"]]),
    ("IN or EXISTS", &[&["IN"], &["EXISTS"], &["SEMI", "JOIN"], &["INTERSECT"], &["ANY"]]),
    ("FULL JOIN", &[&["FULL"]]),
    ("LEFT JOIN", &[&["LEFT"]]),
    ("RIGHT JOIN", &[&["RIGHT"]]),
    ("join", &[&["JOIN"], &["FROM"]]),
    ("UNNEST", &[&["UNNEST"]]),
    ("UNION", &[&["UNION"]]),
    ("the filter applies to rows of sessions", &[&["WHERE"]]),
    ("recursive", &[&["RECURSIVE"]]),
];

/// The place that a reason concerns: the function that it begins with, or the clause that it names.
pub(super) fn place_of(reason: &str, statement: &Statement) -> Option<Span> {
    let first = reason.split([' ', '(']).next().unwrap_or_default();
    let is_name = first.len() > 1 && first.chars().all(|char| char.is_ascii_lowercase() || char == '_');
    if is_name
        && !["an", "two", "the", "this", "rows", "functions", "expected", "column"].contains(&first)
        && let Some(place) = statement.find_words(&[first])
    {
        return Some(place);
    }
    let (_, clauses) = CLAUSES.iter().find(|(piece, _)| reason.contains(piece))?;
    clauses.iter().find_map(|words| statement.find_words(words))
}
