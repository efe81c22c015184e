//! `ROWS 100` as an argument of a window is read as a call, `ROWS(100)`, because the parser knows it only in a frame.

use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

use super::cursor::is_word;

/// Writes parentheses around the number of `ROWS 100` where it is a whole argument.
pub(crate) fn as_calls(tokens: &mut Vec<TokenWithSpan>) {
    let mut at = 0;
    while at + 3 < tokens.len() {
        let [before, rows, number, after] = &tokens[at..at + 4] else { return };
        let is_argument = matches!(before.token, Token::LParen | Token::Comma)
            && is_word(&rows.token, "ROWS")
            && matches!(number.token, Token::Number(..))
            && matches!(after.token, Token::RParen | Token::Comma);
        if is_argument {
            let span = number.span;
            tokens.insert(at + 3, TokenWithSpan::new(Token::RParen, span));
            tokens.insert(at + 2, TokenWithSpan::new(Token::LParen, span));
        }
        at += 1;
    }
}
