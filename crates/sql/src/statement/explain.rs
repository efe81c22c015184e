//! `EXPLAIN [ANALYZE] statement`.

use super::cursor::Cursor;
use super::{Options, Span, StatementKind, read};
use crate::TextError;

/// Reads what follows `EXPLAIN` in a statement that covers `span`.
pub(super) fn read(
    cursor: &mut Cursor<'_>,
    options: Options,
    span: Span,
) -> Result<StatementKind, TextError> {
    let analyze = cursor.take(&["ANALYZE"]);
    let first = cursor.here();
    // Checked here, not after reading: EXPLAIN EXPLAIN EXPLAIN ... must not nest.
    let planned = read::starts_query(cursor)
        || cursor.sees(&["INSERT"])
        || (cursor.sees(&["CREATE"]) && !creates_input(cursor));
    if !planned {
        let error = cursor.unexpected("a statement that has a plan");
        return Err(error.with_hint("that is a query, INSERT INTO, CREATE VIEW or CREATE SINK"));
    }
    let statement = read::whole(cursor, options, first.to(span))?;
    Ok(StatementKind::Explain { analyze, statement: Box::new(statement) })
}

fn creates_input(cursor: &Cursor<'_>) -> bool {
    ["SOURCE", "TABLE"]
        .iter()
        .any(|kind| cursor.sees(&["CREATE", kind]) || cursor.sees(&["CREATE", "OR", "REPLACE", kind]))
}
