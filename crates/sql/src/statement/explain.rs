//! `EXPLAIN [ANALYZE] [VERBOSE] statement`, `EXPLAIN (option, ...) statement`, `EXPLAIN name`, `EXPLAIN WHY query`.

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::sql::sqlparser::tokenizer::Token;

use super::parser::cursor::Cursor;
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
    let (mut analyze, mut is_json) = (cursor.take(&["ANALYZE"]), false);
    let _ = cursor.take(&["VERBOSE"]);
    if !analyze && cursor.peek().token == Token::LParen && sees_option(cursor) {
        (analyze, is_json) = options_of_explain(cursor)?;
    }
    if !analyze && cursor.is_single_word() {
        return Ok(StatementKind::ExplainOutput(cursor.relation_name("the name of a sink or view")?));
    }
    let asks_why = !analyze && cursor.take(&["WHY"]);
    let first = cursor.here();
    if asks_why && !cursor.sees_query() {
        let error = cursor.unexpected("a query whose answer is explained");
        return Err(error.with_hint("EXPLAIN WHY SELECT ... FROM a materialized view"));
    }
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
    if asks_why {
        return Ok(StatementKind::ExplainWhy(Box::new(statement)));
    }
    Ok(StatementKind::Explain { analyze, is_json, statement: Box::new(statement) })
}

/// Returns the columns of `EXPLAIN WHY`: a source, a position in its journal, what that row has to do with the answer (`needed`,
/// `perhaps needed`, `changed nothing`), and the row as JSON.
pub(crate) fn why_columns() -> SchemaRef {
    let column = |name, data_type| Field::new(name, data_type, false);
    Arc::new(Schema::new(vec![
        column("source", DataType::Utf8),
        column("position", DataType::Int64),
        column("effect", DataType::Utf8),
        column("row", DataType::Utf8),
    ]))
}

/// Words by which options of PostgreSQL's EXPLAIN begin.
const OPTIONS: [&str; 9] =
    ["ANALYZE", "VERBOSE", "COSTS", "SETTINGS", "BUFFERS", "WAL", "TIMING", "SUMMARY", "FORMAT"];

fn sees_option(cursor: &Cursor<'_>) -> bool {
    OPTIONS.iter().any(|option| cursor.sees_second(option))
}

/// Reads `(option [value], ...)`: whether the query is executed, and whether the plan is written as JSON. A plan says all that it can,
/// so the other options change nothing.
fn options_of_explain(cursor: &mut Cursor<'_>) -> Result<(bool, bool), TextError> {
    cursor.expect_symbol(&Token::LParen)?;
    let (mut analyze, mut is_json) = (false, false);
    loop {
        let Some(option) = OPTIONS.into_iter().find(|option| cursor.take(&[option])) else {
            return Err(cursor.expected_one_of(&OPTIONS));
        };
        if option == "FORMAT" {
            is_json = cursor.take(&["JSON"]);
            if !is_json && !cursor.take(&["TEXT"]) {
                return Err(cursor.expected_one_of(&["TEXT", "JSON"]));
            }
        } else {
            let is_off = ["FALSE", "OFF"].iter().any(|word| cursor.take(&[word]))
                || cursor.take_symbol(&Token::Number("0".to_owned(), false));
            if !is_off {
                let _ = ["TRUE", "ON"].iter().any(|word| cursor.take(&[word]))
                    || cursor.take_symbol(&Token::Number("1".to_owned(), false));
            }
            analyze = if option == "ANALYZE" { !is_off } else { analyze };
        }
        if !cursor.take_symbol(&Token::Comma) {
            cursor.expect_symbol(&Token::RParen)?;
            return Ok((analyze, is_json));
        }
    }
}

fn creates_input(cursor: &Cursor<'_>) -> bool {
    ["SOURCE", "TABLE"]
        .iter()
        .any(|kind| cursor.sees(&["CREATE", kind]) || cursor.sees(&["CREATE", "OR", "REPLACE", kind]))
}
