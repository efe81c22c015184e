//! `table FOR SYSTEM_TIME AS OF stream.at`: the row of a table as it is when a row of a stream comes.
//!
//! The parser reads it in dialects that have other clauses besides, whose words would no longer be names of tables. So it becomes a
//! clause that the parser knows and the language does not: a partition with a name that nobody can write.

use datafusion::sql::sqlparser::ast::TableFactor;
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan, Word};

use super::cursor::is_word;

/// The partition.
const AS_OF_THE_ROW: &str = "as of the row";

/// Rewrites the clause in the tokens of a statement, wherever its moment is a column.
pub(crate) fn as_partitions(tokens: &mut Vec<TokenWithSpan>) {
    let mut at = 0;
    while at + 4 < tokens.len() {
        let is = |place: usize, word: &str| is_word(&tokens[place].token, word);
        let begins = is(at, "FOR") && is(at + 1, "SYSTEM_TIME") && is(at + 2, "AS") && is(at + 3, "OF");
        if let Some(end) = begins.then(|| end_of_column(tokens, at + 4)).flatten() {
            let span = tokens[at].span;
            let word = |value: &str, quote_style, keyword| {
                Token::Word(Word { value: value.to_owned(), quote_style, keyword })
            };
            let clause = [
                word("PARTITION", None, Keyword::PARTITION),
                Token::LParen,
                word(AS_OF_THE_ROW, Some('"'), Keyword::NoKeyword),
                Token::RParen,
            ];
            tokens.splice(at..end, clause.into_iter().map(|token| TokenWithSpan::new(token, span)));
        }
        at += 1;
    }
}

/// The place behind `name` or `name.name` from here on.
fn end_of_column(tokens: &[TokenWithSpan], from: usize) -> Option<usize> {
    let is_name = |at: usize| matches!(tokens.get(at).map(|token| &token.token), Some(Token::Word(_)));
    let is_period = |at: usize| tokens.get(at).is_some_and(|token| token.token == Token::Period);
    if !is_name(from) {
        None
    } else if is_period(from + 1) && is_name(from + 2) {
        Some(from + 3)
    } else {
        Some(from + 1)
    }
}

/// Takes the clause off a table; whether it was there.
pub(crate) fn take(table: &mut TableFactor) -> bool {
    let TableFactor::Table { partitions, .. } = table else { return false };
    let is_there = is_of_the_row(partitions);
    if is_there {
        partitions.clear();
    }
    is_there
}

/// Whether the partitions of a table stand for the clause.
pub(crate) fn is_of_the_row(partitions: &[datafusion::sql::sqlparser::ast::Ident]) -> bool {
    matches!(partitions, [only] if only.value == AS_OF_THE_ROW)
}
