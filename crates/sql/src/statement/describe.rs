//! `DESCRIBE name`.

use super::StatementKind;
use super::parser::cursor::Cursor;
use crate::TextError;

/// Reads what follows `DESCRIBE`.
pub(super) fn read(cursor: &mut Cursor<'_>) -> Result<StatementKind, TextError> {
    let name = cursor.relation_name("the name of a source, table, view or sink, or a file in quotes")?;
    Ok(StatementKind::Describe(name))
}
