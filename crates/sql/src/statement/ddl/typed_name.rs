//! Names with types: parameters of functions, and columns of what functions take, keep and give.

use datafusion::sql::sqlparser::ast;
use datafusion::sql::sqlparser::tokenizer::Token;

use crate::TextError;
use crate::statement::Name;
use crate::statement::parser::cursor::Cursor;
use crate::text::Span;

/// A parameter of a function, or a column of its rows or states.
#[derive(Clone, Debug, PartialEq)]
pub struct TypedName {
    /// Its name.
    pub name: Name,
    /// Its type.
    pub data_type: ast::DataType,
    /// Where the type is written.
    pub type_span: Span,
}

/// Reads `(column type, ...)`.
pub(crate) fn columns(cursor: &mut Cursor<'_>) -> Result<Vec<TypedName>, TextError> {
    cursor.expect_symbol(&Token::LParen)?;
    typed_names(cursor, "column")
}

/// Reads `name type, ...)`.
pub(super) fn typed_names(cursor: &mut Cursor<'_>, what: &str) -> Result<Vec<TypedName>, TextError> {
    let mut typed: Vec<TypedName> = Vec::new();
    loop {
        let name = cursor.name(&format!("the name of a {what}"))?;
        if typed.iter().any(|other| other.name == name) {
            let message = format!("two {what}s have the name `{name}`");
            return Err(TextError::new(cursor.script(), name.span, message).with_hint("rename one of them"));
        }
        let (data_type, type_span) = data_type(cursor)?;
        typed.push(TypedName { name, data_type, type_span });
        if !cursor.take_symbol(&Token::Comma) {
            break;
        }
    }
    if cursor.take_symbol(&Token::RParen) { Ok(typed) } else { Err(cursor.unexpected("`,` or `)`")) }
}

/// Reads a type, with its place.
pub(crate) fn data_type(cursor: &mut Cursor<'_>) -> Result<(ast::DataType, Span), TextError> {
    let first = cursor.here();
    let data_type = cursor.data_type()?;
    Ok((data_type, cursor.since(first)))
}
