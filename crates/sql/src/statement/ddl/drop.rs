//! `DROP ...`.

use crate::TextError;
use crate::statement::parser::cursor::Cursor;
use crate::statement::{RelationKind, StatementKind};

const KINDS: [RelationKind; 9] = [
    RelationKind::Source,
    RelationKind::Table,
    RelationKind::View,
    RelationKind::MaterializedView,
    RelationKind::Function,
    RelationKind::Process,
    RelationKind::Places,
    RelationKind::Pool,
    RelationKind::Sink,
];

/// Reads what follows `DROP`.
pub(crate) fn read(cursor: &mut Cursor<'_>) -> Result<StatementKind, TextError> {
    let kind = KINDS.into_iter().find(|kind| {
        let words: Vec<&str> = kind.keyword().split(' ').collect();
        cursor.take(&words)
    });
    // An aggregate is a function, and has no name of its own.
    let kind = kind.or_else(|| cursor.take(&["AGGREGATE"]).then_some(RelationKind::Function));
    let Some(kind) = kind else {
        return Err(cursor.expected_one_of(&KINDS.map(RelationKind::keyword)));
    };
    let if_exists = cursor.take(&["IF", "EXISTS"]);
    let name = cursor.relation_name(&format!("the name of the {}", kind.keyword().to_ascii_lowercase()))?;
    let cascade = cursor.take(&["CASCADE"]);
    // It is what happens without it.
    let _ = !cascade && cursor.take(&["RESTRICT"]);
    Ok(StatementKind::Drop { kind, name, if_exists, cascade })
}
