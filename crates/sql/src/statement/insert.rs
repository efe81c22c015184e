//! `INSERT INTO sink query [WITH (...)]`.

use datafusion::sql::sqlparser::tokenizer::Token;

use super::parser::cursor::Cursor;
use super::{Options, StatementKind};
use crate::TextError;

/// Reads what follows `INSERT`.
pub(super) fn read(cursor: &mut Cursor<'_>, options: Options) -> Result<StatementKind, TextError> {
    cursor.expect("INTO")?;
    let sink = cursor.relation_name("the name of a sink")?;
    if !cursor.sees_query() || has_column_list(cursor) {
        let error = cursor.unexpected("a query");
        return Err(error
            .with_hint(format!("write INSERT INTO {sink} SELECT ...; columns are matched by their order")));
    }
    let query = cursor.query()?;
    cursor.finish("query")?;
    Ok(StatementKind::InsertInto { sink, query, options })
}

/// `(a, b)` and not `(SELECT ...)`.
fn has_column_list(cursor: &Cursor<'_>) -> bool {
    cursor.peek().token == Token::LParen && cursor.second_is_plain_word()
}
