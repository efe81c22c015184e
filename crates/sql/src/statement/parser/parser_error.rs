//! Rewords the SQL parser's errors in plain language, with their place.

use std::sync::Arc;

use datafusion::sql::sqlparser::parser::ParserError;
use datafusion::sql::sqlparser::tokenizer::{TokenWithSpan, TokenizerError};

use super::query_hint::query_hint;
use crate::text::wording::lower_first;
use crate::text::{Script, Span, TextError};

/// How messages refer to the end of a statement.
pub(super) fn end_text(script: &Script, end: Span) -> String {
    match script.slice(end) {
        "" => "the end of the text".to_owned(),
        ";" => "the end of the statement (`;`)".to_owned(),
        word => format!("`{word}`"),
    }
}

impl TextError {
    /// A lexical error: an open quote, a stray character.
    pub(crate) fn from_tokenizer(error: &TokenizerError, script: &Arc<Script>) -> TextError {
        let span = script.span_of_tokens(error.location.span_to(error.location)).unwrap_or_default();
        let (message, hint) = match error.message.as_str() {
            "Unterminated string literal" => (
                "this string is not closed".to_owned(),
                Some("end it with ', and write '' for a quote inside"),
            ),
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
    if let Some(token) = text.strip_prefix("No infix parser for token ") {
        // `Word(Word { value: "DIV", quote_style: None, keyword: DIV })`
        let word = token.split('"').nth(1).unwrap_or(token);
        return format!("`{word}` is not an operator");
    }
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
        "a data type name" => "a type, such as BIGINT, DOUBLE, VARCHAR or TIMESTAMP".to_owned(),
        "SELECT, VALUES, or a subquery in the query body" => {
            "SELECT, VALUES or a query in parentheses".to_owned()
        }
        "joined table" | "table name" => "a table".to_owned(),
        text if text.chars().all(|char| !char.is_alphanumeric()) => format!("`{text}`"),
        text => text.trim_end_matches(':').to_owned(),
    }
}
