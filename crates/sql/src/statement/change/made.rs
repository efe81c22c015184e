//! Queries that are made of the parts of a change.

use datafusion::sql::sqlparser::ast::{
    Expr, Ident, ObjectName, Query, SelectItem, SetExpr, TableAlias, TableFactor, TableWithJoins, Value,
};

use super::{ROW, TableChange};
use crate::TextError;
use crate::statement::client::query::translate;
use crate::statement::parser::cursor::complete;
use crate::statement::{Options, Statement, StatementKind, depth, parse};

/// A query, and the columns of the table that its columns are for.
pub struct Assigned {
    /// The query.
    pub query: Statement,
    /// The numbers of the table's columns, in the order of those of the query.
    pub columns: Vec<usize>,
}

/// A `SELECT`.
pub(super) struct Made {
    pub columns: Vec<SelectItem>,
    pub from: Vec<TableWithJoins>,
    pub selection: Option<Expr>,
}

/// The query with these parts. Its messages have the places of the change.
pub(super) fn made(change: &TableChange, parts: Made) -> Result<Statement, TextError> {
    let Some(Statement { kind: StatementKind::Query(mut query, _), .. }) =
        parse("SELECT 1 FROM placeholder", "template")?.into_iter().next()
    else {
        return Err(change.error("the query implied by the statement cannot be read"));
    };
    if let SetExpr::Select(select) = &mut *query.body {
        select.projection = parts.columns;
        select.from = parts.from;
        select.selection = parts.selection;
    }
    query_of(change, query)
}

/// A query of the change as a statement.
pub(super) fn query_of(change: &TableChange, mut query: Box<Query>) -> Result<Statement, TextError> {
    if let Some(with) = change.with.as_ref().and_then(|with| with.with.clone()) {
        query.with = Some(match query.with.take() {
            None => with,
            Some(mut own) => {
                own.recursive |= with.recursive;
                own.cte_tables.splice(0..0, with.cte_tables);
                own
            }
        });
    }
    complete(&mut query);
    let text = query.to_string();
    let mut kind = StatementKind::Query(query, Options::none(&change.script, change.span));
    let (span, script) = (change.span, change.script.clone());
    let checked = Statement { kind: kind.clone(), span, text: String::new(), script: script.clone() };
    depth::check(&checked)?;
    translate(&mut kind);
    Ok(Statement { kind, span, text, script })
}

/// A relation under an alias.
pub(super) fn relation(name: &str, alias: &Ident) -> TableWithJoins {
    let template = TableFactor::Table {
        name: ObjectName::from(vec![Ident::with_quote('"', name)]),
        alias: Some(TableAlias { explicit: true, name: alias.clone(), columns: Vec::new(), at: None }),
        args: None,
        with_hints: Vec::new(),
        version: None,
        with_ordinality: false,
        partitions: Vec::new(),
        json_path: None,
        sample: None,
        index_hints: Vec::new(),
    };
    TableWithJoins { relation: template, joins: Vec::new() }
}

/// The number of a row of a relation.
pub(super) fn row_of(alias: &Ident) -> Expr {
    Expr::CompoundIdentifier(vec![alias.clone(), Ident::with_quote('"', ROW)])
}

/// A column of a query, under a name that no other has.
pub(super) fn named(value: Expr, name: &str) -> SelectItem {
    SelectItem::ExprWithAlias { expr: value, alias: Ident::with_quote('"', name) }
}

/// Whether an expression is the word `DEFAULT`.
pub(super) fn is_default(value: &Expr) -> bool {
    matches!(value, Expr::Identifier(word) if word.quote_style.is_none() && word.value.eq_ignore_ascii_case("DEFAULT"))
}

/// NULL.
pub(super) fn null() -> Expr {
    Expr::value(Value::Null)
}
