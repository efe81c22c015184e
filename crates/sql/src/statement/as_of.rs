//! `AS OF CYCLE n` and `AS OF TIMESTAMP '...'` in a query: which version of the views it reads.

use std::sync::Arc;

use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

use super::parser::cursor::is_word;
use super::{Script, Span};
use crate::TextError;

/// Which version of the materialized views a query reads, for all of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AsOf {
    /// The rows after a cycle.
    Cycle(u64),
    /// The rows when the views' event time was this.
    Time(String),
}

/// Takes `AS OF ...` out of the tokens of a statement, with its place.
pub(super) fn take(
    tokens: &mut Vec<TokenWithSpan>,
    script: &Arc<Script>,
    end: Span,
) -> Result<Option<(AsOf, Span)>, TextError> {
    let is = |at: usize, word: &str| tokens.get(at).is_some_and(|token| is_word(&token.token, word));
    let begins = |at: &usize| is(*at, "AS") && is(at + 1, "OF") && tokens.get(at + 2).is_some_and(is_version);
    let Some(at) = (0..tokens.len()).find(begins) else { return Ok(None) };
    let place = |at: usize| tokens.get(at).and_then(|token| script.span_of_tokens(token.span)).unwrap_or(end);
    let value = if matches!(tokens[at + 2].token, Token::SingleQuotedString(_)) { at + 2 } else { at + 3 };
    let wrong = |expected: &str| {
        let found = tokens.get(value).map_or("the end".to_owned(), |token| format!("`{token}`"));
        TextError::new(script, place(value), format!("expected {expected}, found {found}"))
    };
    let as_of = match (tokens.get(value).map(|token| &token.token), is(at + 2, "CYCLE")) {
        (Some(Token::Number(number, _)), true) => {
            AsOf::Cycle(number.parse().map_err(|_| wrong("the number of a cycle"))?)
        }
        (_, true) => return Err(wrong("the number of a cycle")),
        (Some(Token::SingleQuotedString(text)), false) => AsOf::Time(text.clone()),
        (_, false) => return Err(wrong("a time in quotes")),
    };
    let span = place(at).to(place(value));
    let again = |later: &usize| {
        is(*later, "AS") && is(later + 1, "OF") && tokens.get(later + 2).is_some_and(is_version)
    };
    if let Some(again) = (value..tokens.len()).find(again) {
        let error = TextError::new(script, place(again), "the query has AS OF in two places");
        return Err(error.with_hint("write it once: all views of a query are read at one cycle"));
    }
    tokens.drain(at..=value);
    Ok(Some((as_of, span)))
}

fn is_version(token: &TokenWithSpan) -> bool {
    let is_word = |word| is_word(&token.token, word);
    is_word("CYCLE") || is_word("TIMESTAMP") || matches!(token.token, Token::SingleQuotedString(_))
}
