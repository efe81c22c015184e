//! `ALTER`.

use datafusion::sql::sqlparser::tokenizer::Token;

use super::add_columns;
use crate::TextError;
use crate::statement::parser::cursor::Cursor;
use crate::statement::{Name, Options, RelationKind, StatementKind};

/// What can be altered, started and stopped.
pub(super) const QUERIES: [RelationKind; 2] = [RelationKind::MaterializedView, RelationKind::Sink];

/// `ALTER {MATERIALIZED VIEW | SINK} name {SET (...) | RESET (...) | RENAME TO name}`
#[derive(Clone, Debug, PartialEq)]
pub struct Alter {
    /// What it alters: a sink or a materialized view.
    pub kind: RelationKind,
    /// Its name.
    pub name: Name,
    /// What becomes different.
    pub change: AlterChange,
}

/// What `ALTER` changes.
#[derive(Clone, Debug, PartialEq)]
pub enum AlterChange {
    /// These options have other values.
    Set(Options),
    /// These options are not given any more.
    Reset(Vec<Name>),
    /// It has another name.
    Rename(Name),
}

/// Reads what follows `ALTER`.
pub(crate) fn read(cursor: &mut Cursor<'_>) -> Result<StatementKind, TextError> {
    if cursor.take(&["SOURCE"]) {
        return add_columns::read(cursor);
    }
    let kind = kind(cursor, "altered")?;
    let name = cursor.relation_name(&format!("the name of the {}", kind.keyword().to_ascii_lowercase()))?;
    let change = change(cursor)?;
    Ok(StatementKind::Alter(Alter { kind, name, change }))
}

fn change(cursor: &mut Cursor<'_>) -> Result<AlterChange, TextError> {
    let first = cursor.here();
    if cursor.take(&["SET"]) {
        return Options::read(cursor, first).map(AlterChange::Set);
    }
    if cursor.take(&["RESET"]) {
        return options_named(cursor).map(AlterChange::Reset);
    }
    if cursor.take(&["RENAME"]) {
        cursor.expect("TO")?;
        return cursor.relation_name("the new name").map(AlterChange::Rename);
    }
    Err(cursor.expected_one_of(&["SET", "RESET", "RENAME TO"]))
}

/// The names of options, in parentheses.
fn options_named(cursor: &mut Cursor<'_>) -> Result<Vec<Name>, TextError> {
    cursor.expect_symbol(&Token::LParen)?;
    let mut names = vec![Options::key(cursor, "the name of an option")?];
    while cursor.take_symbol(&Token::Comma) {
        names.push(Options::key(cursor, "the name of an option")?);
    }
    if cursor.take_symbol(&Token::RParen) { Ok(names) } else { Err(cursor.unexpected("`,` or `)`")) }
}

/// The kind of what is altered, started or stopped, as it is `done` to it.
pub(crate) fn kind(cursor: &mut Cursor<'_>, done: &str) -> Result<RelationKind, TextError> {
    let kind = QUERIES.into_iter().find(|kind| {
        let words: Vec<&str> = kind.keyword().split(' ').collect();
        cursor.take(&words)
    });
    kind.ok_or_else(|| {
        let error = cursor.expected_one_of(&QUERIES.map(RelationKind::keyword));
        error.with_hint(format!(
            "only materialized views and sinks are {done}; use CREATE OR REPLACE for the rest"
        ))
    })
}
