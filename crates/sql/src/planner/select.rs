//! Queries that statements imply, as syntax trees.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{self, VisitorMut};

use crate::statement::{Name, Statement, StatementKind, parse};
use crate::text::TextError;
use tidemill_trees::syntax::walk_mut;

/// Stands for what is put in its place.
const PLACEHOLDER: &str = "placeholder";

/// `SELECT * FROM name`
pub(super) fn select_all(name: &Name, statement: &Statement) -> Result<ast::Query, TextError> {
    let mut query = template("SELECT * FROM placeholder", statement)?;
    let _ = walk_mut(&mut query, &mut Relation(name));
    Ok(query)
}

/// `SELECT * FROM name()`
pub(super) fn select_call(name: &Name, statement: &Statement) -> Result<ast::Query, TextError> {
    let mut query = template("SELECT * FROM placeholder()", statement)?;
    let _ = walk_mut(&mut query, &mut Relation(name));
    Ok(query)
}

/// `SELECT unnest(array)`
pub(super) fn select_each(array: ast::Expr, statement: &Statement) -> Result<ast::Query, TextError> {
    let mut query = template("SELECT unnest(placeholder)", statement)?;
    let _ = walk_mut(&mut query, &mut Value(Some(array)));
    Ok(query)
}

/// A query that contains the placeholder.
pub(super) fn template(text: &str, statement: &Statement) -> Result<ast::Query, TextError> {
    match parse(text, "template")?.into_iter().next().map(|parsed| parsed.kind) {
        Some(StatementKind::Query(query, _)) => Ok(*query),
        _ => Err(statement.error(statement.span, "the query implied by the statement cannot be parsed")),
    }
}

/// Puts a relation's name in the placeholder's place.
struct Relation<'a>(&'a Name);

impl VisitorMut for Relation<'_> {
    type Break = ();

    fn pre_visit_relation(&mut self, relation: &mut ast::ObjectName) -> ControlFlow<()> {
        let ident = match self.0.quote {
            Some(quote) => ast::Ident::with_quote(quote, &self.0.value),
            None => ast::Ident::new(&self.0.value),
        };
        *relation = ast::ObjectName::from(vec![ident]);
        ControlFlow::Break(())
    }
}

/// Puts an expression in the placeholder's place.
struct Value(Option<ast::Expr>);

impl VisitorMut for Value {
    type Break = ();

    fn pre_visit_expr(&mut self, expression: &mut ast::Expr) -> ControlFlow<()> {
        let is_placeholder = matches!(expression, ast::Expr::Identifier(ident) if ident.value == PLACEHOLDER);
        if !is_placeholder {
            return ControlFlow::Continue(());
        }
        if let Some(value) = self.0.take() {
            *expression = value;
        }
        ControlFlow::Break(())
    }
}
