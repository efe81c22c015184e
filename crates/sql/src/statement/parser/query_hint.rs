//! What a query that cannot be read was probably meant to be.

use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

use super::dialect::NO_ALIAS;
use super::keywords::keywords;
use crate::closest;

/// Words of queries that are often misspelled.
const CLAUSES: [&str; 20] = [
    "SELECT",
    "FROM",
    "WHERE",
    "GROUP",
    "ORDER",
    "HAVING",
    "LIMIT",
    "UNION",
    "JOIN",
    "INNER",
    "LEFT",
    "PARTITION",
    "OVER",
    "BETWEEN",
    "INTERVAL",
    "DISTINCT",
    "WITH",
    "VALUES",
    "WINDOW",
    "CASE",
];

/// What probably went wrong near the token at `at`: a missing `BY` or `END`, a misspelled word.
pub(super) fn query_hint(tokens: &[&TokenWithSpan], at: usize) -> Option<String> {
    let word = |at: usize| match &tokens.get(at)?.token {
        Token::Word(word) if word.quote_style.is_none() => Some(word.value.to_ascii_uppercase()),
        _ => None,
    };
    let near = [Some(at), at.checked_sub(1), at.checked_sub(2)];
    let words: Vec<(usize, String)> =
        near.into_iter().flatten().filter_map(|at| word(at).map(|word| (at, word))).collect();
    let before_by = words.iter().find(|(at, found)| {
        ["GROUP", "ORDER", "PARTITION"].contains(&found.as_str()) && word(at + 1).as_deref() != Some("BY")
    });
    if let Some((_, found)) = before_by {
        return Some(format!("write {found} BY"));
    }
    let stopped = word(at);
    if let Some(found) = stopped.filter(|found| NO_ALIAS.iter().any(|one| found.eq_ignore_ascii_case(one))) {
        return Some(match found.as_str() {
            "ASC" | "DESC" => format!("write ORDER BY for an order, or AS {found} for the name of a column"),
            _ => format!("write AS {found} for the name of a column"),
        });
    }
    let count = |wanted: &str| (0..tokens.len()).filter(|&at| word(at).as_deref() == Some(wanted)).count();
    if words.iter().any(|(_, found)| found == "CASE") && count("CASE") > count("END") {
        return Some("END is missing at the end of CASE".to_owned());
    }
    words.iter().find_map(|(_, found)| {
        // Two letters are near to too much.
        if found.len() < 3 || keywords().contains(&found.as_str()) {
            return None;
        }
        let meant = closest(found, CLAUSES)?;
        (meant.len().abs_diff(found.len()) <= 1).then(|| format!("did you mean {meant}?"))
    })
}
