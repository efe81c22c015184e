//! Numbers and texts whose parts the tokenizer takes for several words, of which one would be the name of a column: `0b11`, `1_000`, a text
//! that continues in the next line.

use std::sync::Arc;

use datafusion::sql::sqlparser::tokenizer::{Span as TokenSpan, Token, TokenWithSpan};

use crate::TextError;
use crate::statement::Script;

/// Puts the parts of each number and text together.
///
/// # Errors
/// If something stands right behind a number, or a text behind a text in the same line.
pub(crate) fn joined(
    script: &Arc<Script>,
    tokens: Vec<TokenWithSpan>,
) -> Result<Vec<TokenWithSpan>, TextError> {
    let mut joined: Vec<TokenWithSpan> = Vec::with_capacity(tokens.len());
    for token in tokens {
        let before = joined.last();
        match (before.map(|before| &before.token), &token.token) {
            (Some(Token::SingleQuotedString(first)), Token::SingleQuotedString(second)) => {
                let place = before.map_or(token.span, |before| before.span);
                if place.end.line == token.span.start.line {
                    let error = error(script, token.span, "a text right behind a text");
                    return Err(error.with_hint("join them with ||, or write '' for a quote inside a text"));
                }
                let whole = Token::SingleQuotedString(format!("{first}{second}"));
                joined.pop();
                joined.push(TokenWithSpan::new(whole, place.union(&token.span)));
            }
            (Some(Token::Number(number, _)), Token::Word(word))
                if before.is_some_and(|before| before.span.end == token.span.start)
                    && word.quote_style.is_none() =>
            {
                let place = before.map_or(token.span, |before| before.span).union(&token.span);
                let number = with_base(number, &word.value).ok_or_else(|| {
                    error(script, place, "this is neither a number nor a name").with_hint(
                        "write a blank behind a number, and a name that begins with a digit in double quotes",
                    )
                })?;
                joined.pop();
                joined.push(TokenWithSpan::new(Token::Number(number, false), place));
            }
            (_, Token::Number(number, _)) if number.contains('_') => {
                let whole = Token::Number(number.replace('_', ""), false);
                joined.push(TokenWithSpan::new(whole, token.span));
            }
            (_, Token::HexStringLiteral(digits)) if is_number(script, token.span) => {
                let number = whole(digits, 16).ok_or_else(|| {
                    error(script, token.span, "this number has too many digits, or none")
                        .with_hint("write at most 31")
                })?;
                joined.push(TokenWithSpan::new(Token::Number(number, false), token.span));
            }
            _ => joined.push(token),
        }
    }
    Ok(joined)
}

fn error(script: &Arc<Script>, place: TokenSpan, message: &str) -> TextError {
    TextError::new(script, script.span_of_tokens(place).unwrap_or_default(), message)
}

/// The number that `0` and `b11` or `o17` make.
fn with_base(number: &str, word: &str) -> Option<String> {
    let (base, digits) = word.split_at_checked(1)?;
    let base = match base {
        "b" | "B" => 2,
        "o" | "O" => 8,
        "X" => 16,
        _ => return None,
    };
    whole(digits, base).filter(|_| number == "0")
}

fn whole(digits: &str, base: u32) -> Option<String> {
    let is_parted = !digits.ends_with('_') && !digits.contains("__");
    let value = i128::from_str_radix(&digits.replace('_', ""), base).ok()?;
    (is_parted && !digits.contains(['+', '-'])).then(|| value.to_string())
}

/// Whether what the tokenizer takes for bytes is a number: `0x1F`, but not `X'1F'`.
fn is_number(script: &Script, place: TokenSpan) -> bool {
    script.span_of_tokens(place).is_some_and(|place| script.slice(place).starts_with('0'))
}
