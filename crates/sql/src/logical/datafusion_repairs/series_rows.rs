//! `SELECT id, generate_series(1, id)`: a row for each value, as in PostgreSQL. For DataFusion (55.2) it is one row with a list.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Expr, Function, FunctionArg, FunctionArgExpr, FunctionArgumentList, FunctionArguments, Ident, ObjectName,
    Select, SelectItem, VisitorMut,
};
use tidemill_trees::syntax::{Node, walk_mut};

const SERIES: &str = "generate_series";

/// Gives a row for each value of a series that is a column of a query.
pub(crate) fn translate(node: &mut impl Node) {
    let _ = walk_mut(node, &mut Series);
}

struct Series;

impl VisitorMut for Series {
    type Break = ();

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        for item in &mut select.projection {
            match item {
                SelectItem::ExprWithAlias { expr, .. } => as_rows(expr),
                SelectItem::UnnamedExpr(expr) => {
                    let is_series = is_series(expr);
                    as_rows(expr);
                    if is_series {
                        let expr = std::mem::replace(expr, Expr::Identifier(Ident::new(SERIES)));
                        *item = SelectItem::ExprWithAlias { expr, alias: Ident::new(SERIES) };
                    }
                }
                _ => {}
            }
        }
        ControlFlow::Continue(())
    }
}

/// Replaces the series of a column by its rows.
fn as_rows(expression: &mut Expr) {
    if let Some(call) = series_in(expression) {
        let series = std::mem::replace(call, Expr::Identifier(Ident::new(SERIES)));
        *call = Expr::Function(Function {
            name: ObjectName::from(vec![Ident::new("unnest")]),
            uses_odbc_syntax: false,
            parameters: FunctionArguments::None,
            args: FunctionArguments::List(FunctionArgumentList {
                duplicate_treatment: None,
                args: vec![FunctionArg::Unnamed(FunctionArgExpr::Expr(series))],
                clauses: Vec::new(),
            }),
            filter: None,
            null_treatment: None,
            over: None,
            within_group: Vec::new(),
        });
    }
}

/// Finds a series that is a column, or of which a column is computed; the argument of a function stays a list.
fn series_in(expression: &mut Expr) -> Option<&mut Expr> {
    if is_series(expression) {
        return Some(expression);
    }
    match expression {
        Expr::Nested(inner) | Expr::UnaryOp { expr: inner, .. } | Expr::Cast { expr: inner, .. } => {
            series_in(inner)
        }
        Expr::BinaryOp { left, right, .. } => series_in(left).or_else(|| series_in(right)),
        _ => None,
    }
}

fn is_series(expression: &Expr) -> bool {
    matches!(expression, Expr::Function(call) if call.name.to_string().eq_ignore_ascii_case(SERIES))
}
