//! An expression that stands in a text, as the value of an option.

use datafusion::sql::sqlparser::ast;

use super::parser::cursor::Cursor;
use super::parser::tokens::divide;
use super::{Script, Span};
use crate::TextError;

/// Reads one expression. An error has its place in this text.
pub(crate) fn expression_of(text: &str) -> Result<ast::Expr, TextError> {
    let script = Script::new(text, "expression")?;
    let (pieces, error) = divide(&script);
    if let Some(error) = error {
        return Err(error);
    }
    let mut pieces = pieces.into_iter();
    let (Some(piece), None) = (pieces.next().transpose()?, pieces.next()) else {
        return Err(TextError::new(&script, Span::default(), "this is not one expression"));
    };
    let mut cursor = Cursor::new(&script, piece.main, piece.end);
    let expression = cursor.expression()?;
    cursor.finish("expression")?;
    match piece.options {
        Some((_, place)) => Err(TextError::new(&script, place, "an expression has no options")),
        None => Ok(expression),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_one_expression_is_read() {
        assert_eq!(
            expression_of("x / 10 + 1").map(|read| read.to_string()).ok().as_deref(),
            Some("x / 10 + 1")
        );
        for wrong in ["", "a, b", "a; b", "a b", "(a", "'a", "a WITH (x = 1)"] {
            assert!(expression_of(wrong).is_err(), "{wrong}");
        }
    }
}
