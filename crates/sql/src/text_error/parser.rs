//! Rewords the SQL parser's errors in plain language, with their place.

use std::sync::Arc;

use datafusion::sql::sqlparser::parser::ParserError;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan, TokenizerError};

use super::TextError;
use super::wording::lower_first;
use crate::closest;
use crate::statement::{Script, Span, end_text};

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

impl TextError {
    /// A lexical error: an open quote, a stray character.
    pub(crate) fn from_tokenizer(error: &TokenizerError, script: &Arc<Script>) -> TextError {
        let span = script.span_of_tokens(error.location.span_to(error.location)).unwrap_or_default();
        let (message, hint) = match error.message.as_str() {
            "Unterminated string literal" => {
                ("this text is not closed".to_owned(), Some("end it with '; write a quote inside as ''"))
            }
            "Unexpected EOF while in a multi-line comment" => {
                ("a comment is not closed".to_owned(), Some("end it with */"))
            }
            text if text.starts_with("Expected close delimiter") => {
                ("this name in quotes is not closed".to_owned(), None)
            }
            text => (lower_first(text.trim_end_matches('.')), None),
        };
        let end = script.place(span.start.line, span.start.column + 1);
        TextError::new(script, Span { start: span.start, end }, message)
            .with_optional_hint(hint.map(str::to_owned))
    }

    /// An error about what the parser expected. `tokens` are those of the statement, `end` the piece behind them.
    pub(crate) fn from_parser(
        error: &ParserError,
        script: &Arc<Script>,
        tokens: &[&TokenWithSpan],
        end: Span,
    ) -> TextError {
        let text = match error {
            ParserError::RecursionLimitExceeded => {
                let all = tokens.first().and_then(|first| script.span_of_tokens(first.span)).unwrap_or(end);
                let error = TextError::new(script, all, "this statement is nested too deep");
                return error.with_hint("divide it into several views");
            }
            ParserError::TokenizerError(text) | ParserError::ParserError(text) => text,
        };
        let (text, place) = split_place(text);
        let at = place.and_then(|(line, column)| {
            tokens.iter().position(|token| token.span.start.line == line && token.span.start.column == column)
        });
        let span = at.and_then(|at| script.span_of_tokens(tokens[at].span)).unwrap_or(end);
        let at = at.unwrap_or(tokens.len());
        TextError::new(script, span, reword(text, script, end)).with_optional_hint(query_hint(tokens, at))
    }
}

/// Splits `... at Line: 3, Column: 12` into text and place.
fn split_place(text: &str) -> (&str, Option<(u64, u64)>) {
    let Some((before, place)) = text.rsplit_once(" at Line: ") else { return (text, None) };
    let numbers = place.split_once(", Column: ").and_then(|(line, column)| {
        let column = column.split(|char: char| !char.is_ascii_digit()).next()?;
        Some((line.parse().ok()?, column.parse().ok()?))
    });
    if numbers.is_some() { (before, numbers) } else { (text, None) }
}

fn reword(text: &str, script: &Script, end: Span) -> String {
    let parts = text.strip_prefix("Expected: ").or_else(|| text.strip_prefix("Expected "));
    let Some((expected, found)) = parts.and_then(|text| text.rsplit_once(", found: ")) else {
        return lower_first(text.trim_end_matches('.'));
    };
    let found = if found == "EOF" { end_text(script, end) } else { format!("`{found}`") };
    format!("expected {}, found {found}", plain(expected))
}

/// What the parser expected, in users' words.
fn plain(expected: &str) -> String {
    match expected {
        "an expression" | "an expression:" | "expression" => "an expression".to_owned(),
        "identifier" => "a name".to_owned(),
        "end of statement" => "the end of the statement".to_owned(),
        "a data type name" => "a type, like BIGINT, DOUBLE, VARCHAR or TIMESTAMP".to_owned(),
        "SELECT, VALUES, or a subquery in the query body" => {
            "SELECT, VALUES or a query in parentheses".to_owned()
        }
        "joined table" | "table name" => "a table".to_owned(),
        text if text.chars().all(|char| !char.is_alphanumeric()) => format!("`{text}`"),
        text => text.trim_end_matches(':').to_owned(),
    }
}

/// What probably went wrong near the token at `at`: a missing `BY` or `END`, a misspelled word.
pub(crate) fn query_hint(tokens: &[&TokenWithSpan], at: usize) -> Option<String> {
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
    let count = |wanted: &str| (0..tokens.len()).filter(|&at| word(at).as_deref() == Some(wanted)).count();
    if words.iter().any(|(_, found)| found == "CASE") && count("CASE") > count("END") {
        return Some("a CASE ends with END".to_owned());
    }
    words.iter().find_map(|(_, found)| {
        // Two letters are near to too much.
        if found.len() < 3 || crate::keywords().contains(&found.as_str()) {
            return None;
        }
        let meant = closest(found, CLAUSES)?;
        (meant.len().abs_diff(found.len()) <= 1).then(|| format!("did you mean {meant}?"))
    })
}
