//! From text to the tokens of each statement.

use std::ops::Range;
use std::sync::Arc;

use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan, Tokenizer};

use super::cursor::{DIALECT, is_word};
use super::nesting::too_nested;
use crate::TextError;
use crate::statement::rewrites::literal_tokens;
use crate::statement::{Script, Span};

/// The most tokens between two commas or parentheses. A chain of operators becomes a tree as deep as the chain is long,
/// and dropping a tree takes stack.
const MAX_CHAIN: usize = 4_000;

/// The most UNION, INTERSECT and EXCEPT of a statement: they, too, become a tree that is as deep as there are many.
const MAX_SET_OPERATIONS: usize = 500;

/// The most joins of a statement: its plan is as deep as there are many.
const MAX_JOINS: usize = 500;

/// The tokens of one statement, without spaces and comments.
#[derive(Clone)]
pub(crate) struct Tokens {
    /// The tokens before the options.
    pub(crate) main: Vec<TokenWithSpan>,
    /// The contents of `WITH ( ... )` at the end, including parentheses, and the place of `WITH`.
    pub(crate) options: Option<(Vec<TokenWithSpan>, Span)>,
    /// The whole statement without its `;`.
    pub(crate) span: Span,
    /// The `;`, or the empty piece at the end of the text.
    pub(crate) end: Span,
}

/// Splits a script at each `;`. Unreadable pieces are left out and reported.
pub(crate) fn divide(script: &Arc<Script>) -> (Vec<Result<Tokens, TextError>>, Option<TextError>) {
    let mut tokens = Vec::new();
    let result = Tokenizer::new(&DIALECT, script.text()).tokenize_with_location_into_buf(&mut tokens);
    let error = result.err().map(|error| TextError::from_tokenizer(&error, script));
    let mut statements = Vec::new();
    let mut open = Vec::new();
    for token in tokens {
        match token.token {
            Token::Whitespace(_) => {}
            Token::SemiColon => {
                let end = script.span_of_tokens(token.span).unwrap_or_default();
                statements.extend(statement(script, std::mem::take(&mut open), end));
            }
            _ => open.push(token),
        }
    }
    // What stands before an unreadable piece is not a whole statement.
    if error.is_none() {
        let end = script.end();
        statements.extend(statement(script, open, Span { start: end, end }));
    }
    (statements, error)
}

fn statement(
    script: &Arc<Script>,
    tokens: Vec<TokenWithSpan>,
    end: Span,
) -> Option<Result<Tokens, TextError>> {
    let first = script.span_of_tokens(tokens.first()?.span).unwrap_or_default();
    let last = script.span_of_tokens(tokens.last()?.span).unwrap_or_default();
    let span = first.to(last);
    // Without a `;`, say what is missing right behind the last word, not behind the empty lines that follow.
    let end = if end.start == end.end { Span { start: last.end, end: last.end } } else { end };
    if let Some(error) = refused(script, &tokens, span) {
        return Some(Err(error));
    }
    let mut main = match literal_tokens::joined(script, tokens) {
        Ok(tokens) => tokens,
        Err(error) => return Some(Err(error)),
    };
    let mut options = None;
    if let Some(at) = trailing_options(&main) {
        let tail = main.split_off(at);
        let with = script.span_of_tokens(tail[0].span).unwrap_or(end);
        options = Some((tail.into_iter().skip(1).collect(), with));
    }
    Some(Ok(Tokens { main, options, span, end }))
}

/// Why a text is not parsed: its tree would be too deep for a stack.
pub(crate) fn refused(script: &Arc<Script>, tokens: &[TokenWithSpan], span: Span) -> Option<TextError> {
    if let Some(at) = too_long(tokens) {
        let place = script.span_of_tokens(tokens[at].span).unwrap_or(span);
        let message = format!(
            "there are more than {MAX_CHAIN} words and signs without a comma or parenthesis between \
                them"
        );
        let hint = "use IN (...) instead of a chain of OR, and several views instead of a chain of UNION ALL";
        return Some(TextError::new(script, place, message).with_hint(hint));
    }
    if let Some((at, message)) = too_nested(tokens) {
        let place = script.span_of_tokens(tokens[at].span).unwrap_or(span);
        let hint = "divide it into several views, or into columns of their own";
        return Some(TextError::new(script, place, message).with_hint(hint));
    }
    let (token, message) = too_many(tokens)?;
    let place = script.span_of_tokens(token.span).unwrap_or(span);
    let hint = "write views of a part of them each, and join or unite the views";
    Some(TextError::new(script, place, message).with_hint(hint))
}

/// The first operation of a statement that is too many of its kind, and what to say of it.
fn too_many(tokens: &[TokenWithSpan]) -> Option<(&TokenWithSpan, String)> {
    let beyond =
        |is_kind: fn(&Token) -> bool, max| tokens.iter().filter(move |token| is_kind(&token.token)).nth(max);
    let set_operation = beyond(is_set_operation, MAX_SET_OPERATIONS).map(|token| {
        (token, format!("there are more than {MAX_SET_OPERATIONS} UNION, INTERSECT and EXCEPT"))
    });
    let join =
        || beyond(is_join, MAX_JOINS).map(|token| (token, format!("there are more than {MAX_JOINS} joins")));
    set_operation.or_else(join)
}

fn is_join(token: &Token) -> bool {
    is_word(token, "JOIN")
}

fn is_set_operation(token: &Token) -> bool {
    ["UNION", "INTERSECT", "EXCEPT", "MINUS"].iter().any(|word| is_word(token, word))
}

/// The index of a token that ends a run of more than `MAX_CHAIN` tokens at one level. What is in parentheses counts as
/// long as its longest part: `((1 + 1) + 1) + 1` is as deep as the chain without them.
fn too_long(tokens: &[TokenWithSpan]) -> Option<usize> {
    let mut outer = Vec::new();
    // The current part between two commas, and the longest one before it.
    let (mut run, mut longest) = (0_usize, 0_usize);
    for (at, token) in tokens.iter().enumerate() {
        match token.token {
            Token::LParen | Token::LBracket | Token::LBrace => {
                outer.push((run + 1, longest));
                (run, longest) = (0, 0);
            }
            Token::RParen | Token::RBracket | Token::RBrace => {
                let inner = run.max(longest);
                let (before, longest_before) = outer.pop().unwrap_or((0, 0));
                (run, longest) = (before.max(inner) + 1, longest_before);
            }
            Token::Comma => (run, longest) = (0, longest.max(run)),
            // The joins of a FROM are a list.
            _ if is_join(&token.token) => (run, longest) = (0, longest.max(run)),
            _ => run += 1,
        }
        if run > MAX_CHAIN {
            return Some(at);
        }
    }
    None
}

/// Where `WITH ( ... )` at the end begins.
fn trailing_options(tokens: &[TokenWithSpan]) -> Option<usize> {
    let open = closing_pair(tokens)?.start;
    let with = open.checked_sub(1)?;
    is_word(&tokens[with].token, "WITH").then_some(with)
}

/// The parentheses at the end of a statement, if its last token closes one.
fn closing_pair(tokens: &[TokenWithSpan]) -> Option<Range<usize>> {
    let mut depth = 0_usize;
    for (at, token) in tokens.iter().enumerate().rev() {
        match token.token {
            Token::RParen => depth += 1,
            Token::LParen if depth == 1 => return Some(at..tokens.len()),
            Token::LParen => depth = depth.checked_sub(1)?,
            _ if depth == 0 => return None,
            _ => {}
        }
    }
    None
}

/// Where these words first occur consecutively, unquoted, within a piece of a script.
pub(crate) fn find_words(script: &Script, within: Span, words: &[&str]) -> Option<Span> {
    let mut tokens = Vec::new();
    let _ = Tokenizer::new(&DIALECT, script.text()).tokenize_with_location_into_buf(&mut tokens);
    tokens.retain(|token| !matches!(token.token, Token::Whitespace(_)));
    let mut runs = tokens.windows(words.len().max(1)).filter_map(|run| {
        let span = script.span_of_tokens(run.first()?.span)?.to(script.span_of_tokens(run.last()?.span)?);
        (span.start >= within.start && span.end <= within.end).then_some((run, span))
    });
    let same = |run: &[TokenWithSpan]| run.iter().zip(words).all(|(token, word)| is_word(&token.token, word));
    runs.find_map(|(run, span)| same(run).then_some(span))
}

/// Where a name or quoted text first occurs within a piece of a script.
pub(crate) fn find_name(script: &Script, within: Span, name: &str) -> Option<Span> {
    let mut tokens = Vec::new();
    // Tokens before an unreadable place are as good as any.
    let _ = Tokenizer::new(&DIALECT, script.text()).tokenize_with_location_into_buf(&mut tokens);
    let named = |token: &Token| match token {
        Token::Word(word) if word.quote_style.is_none() => word.value.eq_ignore_ascii_case(name),
        Token::Word(word) => word.value == name,
        Token::SingleQuotedString(text) => text == name,
        _ => false,
    };
    let mut found = tokens.iter().filter(|token| named(&token.token));
    found.find_map(|token| {
        let span = script.span_of_tokens(token.span)?;
        (span.start >= within.start && span.end <= within.end).then_some(span)
    })
}

/// Whether a text can be passed to [`parse`](crate::statement::parse) as it is, for a multi-line editor: its last statement ends
/// with `;`, outside quotes and comments, and no parenthesis is open. A text that further lines cannot repair counts as
/// complete, so that its error is shown.
///
/// ```
/// use tidemill_sql::is_complete;
/// assert!(is_complete("SELECT 1;"));
/// assert!(!is_complete("SELECT 'a;"));
/// assert!(!is_complete("SELECT 1 -- ;"));
/// ```
#[must_use]
pub fn is_complete(text: &str) -> bool {
    if text.len() > crate::text::MAX_SCRIPT_BYTES {
        return true;
    }
    let mut tokens = Vec::new();
    if let Err(error) = Tokenizer::new(&DIALECT, text).tokenize_with_location_into_buf(&mut tokens) {
        // An open quote or comment can still be closed.
        return !["Unterminated", "Unexpected EOF", "Expected close", "Expected nested"]
            .iter()
            .any(|start| error.message.starts_with(start));
    }
    let mut depth = 0_i64;
    let mut ended = false;
    let mut any = false;
    for token in &tokens {
        match &token.token {
            Token::Whitespace(_) => continue,
            Token::LParen | Token::LBracket | Token::LBrace => depth += 1,
            Token::RParen | Token::RBracket | Token::RBrace => depth -= 1,
            _ => {}
        }
        any = true;
        ended = token.token == Token::SemiColon;
    }
    !any || (ended && depth <= 0)
}
