//! Words among tokens.

use datafusion::sql::sqlparser::tokenizer::Token;

/// Whether a token is this word, unquoted.
pub(crate) fn is_word(token: &Token, word: &str) -> bool {
    let Token::Word(found) = token else { return false };
    found.quote_style.is_none() && found.value.eq_ignore_ascii_case(word)
}
