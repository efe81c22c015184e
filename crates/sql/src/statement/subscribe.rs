//! `SUBSCRIBE TO name`.

use super::StatementKind;
use super::parser::cursor::Cursor;
use crate::TextError;

/// Reads what follows `SUBSCRIBE`.
pub(super) fn read(cursor: &mut Cursor<'_>) -> Result<StatementKind, TextError> {
    cursor.expect("TO")?;
    let name = cursor.relation_name("the name of a materialized view")?;
    Ok(StatementKind::Subscribe(name))
}
