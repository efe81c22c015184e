//! `SET name = value`.

use datafusion::sql::sqlparser::tokenizer::Token;

use super::parser::cursor::Cursor;
use super::{Options, Span, StatementKind};
use crate::TextError;

/// Reads what follows `SET`, whose place is `first`.
pub(super) fn read(cursor: &mut Cursor<'_>, first: Span) -> Result<StatementKind, TextError> {
    let name = Options::key(cursor, "the name of a setting")?;
    if !cursor.take(&["TO"]) && !cursor.take_symbol(&Token::Eq) {
        return Err(cursor.unexpected("`=`"));
    }
    let value = Options::one(cursor, name.clone(), first)?;
    Ok(StatementKind::Set { name, value })
}
