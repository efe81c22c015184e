//! Pieces of syntax that are put in the place of others.

use datafusion::sql::sqlparser::ast::{Array, Expr, Ident, ObjectName};

/// A list of expressions.
pub(crate) fn array(items: Vec<Expr>) -> Expr {
    Expr::Array(Array { elem: items, named: true })
}

/// The name of a function or column.
pub(crate) fn ident(name: &str) -> ObjectName {
    ObjectName::from(vec![Ident::new(name)])
}
