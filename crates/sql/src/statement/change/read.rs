//! Reads changes.

use datafusion::sql::sqlparser::ast::{
    self, FromTable, Ident, ObjectName, Statement as Parsed, TableFactor, TableObject, TableWithJoins,
};

use super::{ChangeKind, TableChange};
use crate::TextError;
use crate::statement::Piece;
use crate::statement::calls::normal;

/// The words with which a change begins.
const FIRST_WORDS: [(&str, ChangeKind); 5] = [
    ("INSERT", ChangeKind::Insert),
    ("UPDATE", ChangeKind::Update),
    ("DELETE", ChangeKind::Delete),
    ("MERGE", ChangeKind::Merge),
    ("TRUNCATE", ChangeKind::Truncate),
];

pub(super) fn read(piece: &Piece) -> Option<Result<TableChange, TextError>> {
    let words = piece.words();
    let first = words.first()?;
    let first = if first.eq_ignore_ascii_case("WITH") { behind_with(&words)? } else { first };
    let kind = FIRST_WORDS.iter().find(|(word, _)| first.eq_ignore_ascii_case(word))?.1;
    Some(piece.change().and_then(|(change, with)| of(piece, kind, change, with)))
}

/// The word with which a statement continues behind its `WITH`.
fn behind_with(words: &[String]) -> Option<&String> {
    let mut depth = 0_usize;
    words.iter().find(|word| {
        match word.as_str() {
            "(" => depth += 1,
            ")" => depth = depth.saturating_sub(1),
            _ => {}
        }
        let is = |known: &str| word.eq_ignore_ascii_case(known);
        depth == 0 && (is("SELECT") || is("VALUES") || FIRST_WORDS.iter().any(|(known, _)| is(known)))
    })
}

fn of(
    piece: &Piece,
    kind: ChangeKind,
    change: Box<Parsed>,
    with: Option<Box<ast::Query>>,
) -> Result<TableChange, TextError> {
    let wrong = |message: &str| Err(piece.error(message));
    let name = match &*change {
        Parsed::Insert(insert) => match &insert.table {
            TableObject::TableName(name) => name.clone(),
            _ => return wrong("the statement does not say where to insert"),
        },
        Parsed::Update(update) => relation(&update.table, piece)?,
        Parsed::Delete(delete) => {
            let (FromTable::WithFromKeyword(from) | FromTable::WithoutKeyword(from)) = &delete.from;
            match from.as_slice() {
                [only] => relation(only, piece)?,
                _ => return wrong("DELETE names one table"),
            }
        }
        Parsed::Merge(merge) => factor(&merge.table, piece)?,
        Parsed::Truncate(truncate) => match truncate.table_names.as_slice() {
            [only] => only.name.clone(),
            _ => return wrong("TRUNCATE names one table; write a statement for each of them"),
        },
        _ => return wrong("the statement does not change a table"),
    };
    let table = match name.0.iter().map(|part| part.as_ident()).collect::<Option<Vec<_>>>().as_deref() {
        Some([name]) => normal(name),
        Some([schema, name]) if normal(schema) == "public" => normal(name),
        _ => return wrong("a table has no other schema than public"),
    };
    let (script, span) = piece.place();
    Ok(TableChange { table, kind, change, with, script, span })
}

fn relation(named: &TableWithJoins, piece: &Piece) -> Result<ObjectName, TextError> {
    if named.joins.is_empty() {
        factor(&named.relation, piece)
    } else {
        Err(piece.error("it changes one table"))
    }
}

fn factor(named: &TableFactor, piece: &Piece) -> Result<ObjectName, TextError> {
    match named {
        TableFactor::Table { name, args: None, .. } => Ok(name.clone()),
        _ => Err(piece.error("only the rows of a table can be changed")),
    }
}

/// What the table is called within the statement.
pub(super) fn alias(change: &TableChange) -> Ident {
    let of_factor = |factor: &TableFactor| match factor {
        TableFactor::Table { alias: Some(alias), .. } => Some(alias.name.clone()),
        _ => None,
    };
    let alias = match &*change.change {
        Parsed::Insert(insert) => insert.table_alias.as_ref().map(|alias| alias.alias.clone()),
        Parsed::Update(update) => of_factor(&update.table.relation),
        Parsed::Delete(delete) => {
            let (FromTable::WithFromKeyword(from) | FromTable::WithoutKeyword(from)) = &delete.from;
            from.first().and_then(|from| of_factor(&from.relation))
        }
        Parsed::Merge(merge) => of_factor(&merge.table),
        _ => None,
    };
    alias.unwrap_or_else(|| Ident::with_quote('"', &change.table))
}

/// What it gives back.
pub(super) fn returned(change: &ast::Statement) -> Option<&Vec<ast::SelectItem>> {
    match change {
        Parsed::Insert(insert) => insert.returning.as_ref(),
        Parsed::Update(update) => update.returning.as_ref(),
        Parsed::Delete(delete) => delete.returning.as_ref(),
        _ => None,
    }
}
