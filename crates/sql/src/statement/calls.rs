//! The functions that a statement calls, by name.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{Expr, Ident, ObjectName, TableFactor, Visitor};

use super::{Statement, parts};
use tidemill_trees::syntax::{Node, walk};

/// The functions of the language that are called in FROM.
pub(crate) const TABLE_FUNCTIONS: [&str; 9] = [
    "tumble",
    "hop",
    "session",
    "late",
    "splitstream",
    "mapstream",
    "mergestream",
    "postfilter",
    "adaptive_regions",
];

/// The names of all functions that a tree calls, once for each call.
pub(crate) fn calls_in(node: &impl Node) -> Vec<String> {
    let mut calls = Calls::default();
    let _ = walk(node, &mut calls);
    calls.0
}

/// The same of all parts of a statement.
pub(super) fn in_statement(statement: &Statement) -> Vec<String> {
    let mut calls = Calls::default();
    let _ = parts::visit(statement, &mut calls);
    calls.0
}

/// The name that is called, as names compare.
pub(crate) fn called(name: &ObjectName) -> Option<String> {
    let [part] = name.0.as_slice() else { return None };
    part.as_ident().map(normal)
}

/// A name as it compares with others.
pub(crate) fn normal(ident: &Ident) -> String {
    match ident.quote_style {
        None => ident.value.to_ascii_lowercase(),
        Some(_) => ident.value.clone(),
    }
}

#[derive(Default)]
struct Calls(Vec<String>);

impl Visitor for Calls {
    type Break = ();

    fn pre_visit_expr(&mut self, expression: &Expr) -> ControlFlow<()> {
        if let Expr::Function(call) = expression {
            self.0.extend(called(&call.name));
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, relation: &TableFactor) -> ControlFlow<()> {
        if let TableFactor::Table { name, args: Some(_), .. } | TableFactor::Function { name, .. } = relation
        {
            self.0.extend(called(name));
        }
        ControlFlow::Continue(())
    }
}
