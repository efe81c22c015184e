//! A query as a statement.

use super::parser::cursor::Cursor;
use super::{Options, StatementKind};
use crate::TextError;

/// Reads `query [WITH (...)]`.
pub(super) fn read(cursor: &mut Cursor<'_>, options: Options) -> Result<StatementKind, TextError> {
    let query = cursor.query()?;
    cursor.finish("query")?;
    Ok(StatementKind::Query(query, options))
}
