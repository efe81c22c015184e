//! `STOP` and `START`.

use super::alter::kind;
use crate::TextError;
use crate::statement::parser::cursor::Cursor;
use crate::statement::{Name, RelationKind};

/// `STOP` or `START`, and then `{MATERIALIZED VIEW | SINK} name`.
#[derive(Clone, Debug, PartialEq)]
pub struct QueryOf {
    /// To what the query writes: a sink or a materialized view.
    pub kind: RelationKind,
    /// Its name.
    pub name: Name,
}

/// Reads what follows `STOP` or `START`.
pub(crate) fn read(cursor: &mut Cursor<'_>, done: &str) -> Result<QueryOf, TextError> {
    let kind = kind(cursor, done)?;
    let name = cursor.relation_name(&format!("the name of the {}", kind.keyword().to_ascii_lowercase()))?;
    Ok(QueryOf { kind, name })
}
