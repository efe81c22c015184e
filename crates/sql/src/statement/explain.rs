//! `EXPLAIN [ANALYZE] statement`, `EXPLAIN name`.

use super::cursor::Cursor;
use super::{Options, Span, Statement, StatementKind};
use crate::TextError;

/// Reads a whole statement, given its options and the piece that it covers.
type ReadWhole = fn(&mut Cursor<'_>, Options, Span) -> Result<Statement, TextError>;

/// Reads what follows `EXPLAIN` in a statement that covers `span`. The statement that is explained is read by
/// `read_whole`.
pub(super) fn read(
    cursor: &mut Cursor<'_>,
    options: Options,
    span: Span,
    read_whole: ReadWhole,
) -> Result<StatementKind, TextError> {
    let analyze = cursor.take(&["ANALYZE"]);
    if !analyze && cursor.is_single_word() {
        return Ok(StatementKind::ExplainOutput(cursor.relation_name("the name of a sink or view")?));
    }
    let first = cursor.here();
    // Checked here, not after reading: EXPLAIN EXPLAIN EXPLAIN ... must not nest.
    let planned = cursor.sees_query()
        || cursor.sees(&["INSERT"])
        || (!analyze && cursor.sees(&["ALTER"]))
        || (cursor.sees(&["CREATE"]) && !creates_input(cursor));
    if !planned {
        let error = cursor.unexpected("a statement that has a plan");
        return Err(error.with_hint(
            "that is a query, INSERT INTO, CREATE VIEW, CREATE SINK or ALTER; or the name of a sink or view",
        ));
    }
    let statement = read_whole(cursor, options, first.to(span))?;
    Ok(StatementKind::Explain { analyze, statement: Box::new(statement) })
}

fn creates_input(cursor: &Cursor<'_>) -> bool {
    ["SOURCE", "TABLE"]
        .iter()
        .any(|kind| cursor.sees(&["CREATE", kind]) || cursor.sees(&["CREATE", "OR", "REPLACE", kind]))
}
