//! Subqueries over PostgreSQL's catalogue in places where the planner takes none: a condition that is a query, and the columns of
//! `SELECT DISTINCT ON`.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Distinct, Expr, Ident, OrderByKind, Query, Select, SelectItem, SetExpr, TableAlias,
    TableFactor, Visitor, VisitorMut,
};

use super::calls::{has_aggregate, reads_catalogue};
use super::columns::column_name;
use super::made::number;
use crate::statement::{StatementKind, parse};
use tidemill_trees::syntax::walk;

/// The name of the rows before one of each group is chosen.
const ROWS: &str = "rows of all";

/// Moves such subqueries to where they can be planned.
pub(super) struct Selects;

impl VisitorMut for Selects {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        if let SetExpr::Select(select) = &mut *query.body
            && let Some(condition) = &mut select.selection
        {
            conditions_exist(condition);
        }
        if let Some(chosen) = chosen_from_rows(query) {
            *query = chosen;
        }
        ControlFlow::Continue(())
    }
}

/// `WHERE (SELECT condition FROM ... WHERE ...)`, whose query has one row at most, becomes `WHERE EXISTS (...)`.
fn conditions_exist(condition: &mut Expr) {
    match condition {
        Expr::BinaryOp { left, op: BinaryOperator::And, right } => {
            conditions_exist(left);
            conditions_exist(right);
        }
        Expr::Subquery(query) => {
            let is_whole = query.with.is_none() && query.limit_clause.is_none() && query.fetch.is_none();
            let SetExpr::Select(select) = &mut *query.body else { return };
            if !is_whole || !reads_catalogue(select) || has_aggregate(select) {
                return;
            }
            let [SelectItem::UnnamedExpr(value) | SelectItem::ExprWithAlias { expr: value, .. }] =
                select.projection.as_mut_slice()
            else {
                return;
            };
            let value = Expr::Nested(Box::new(std::mem::replace(value, number(1))));
            select.selection = Some(match select.selection.take() {
                None => value,
                Some(other) => Expr::BinaryOp {
                    left: Box::new(Expr::Nested(Box::new(other))),
                    op: BinaryOperator::And,
                    right: Box::new(value),
                },
            });
            *condition = Expr::Exists { subquery: query.clone(), negated: false };
        }
        _ => {}
    }
}

/// `SELECT DISTINCT ON (a) a, (SELECT ...) FROM ...` chooses from the rows of the same query without DISTINCT. `None` if it has no
/// subqueries, or if it is distinct or ordered by something other than its columns.
fn chosen_from_rows(query: &Query) -> Option<Query> {
    let SetExpr::Select(select) = &*query.body else { return None };
    let Some(Distinct::On(by)) = &select.distinct else { return None };
    if !has_subquery(select) || query.limit_clause.is_some() || query.fetch.is_some() {
        return None;
    }
    let name = |expression: &Expr| {
        let item = select.projection.iter().find(|item| {
            matches!(item, SelectItem::UnnamedExpr(shown) | SelectItem::ExprWithAlias { expr: shown, .. }
                if shown == expression)
        })?;
        Some(Expr::Identifier(Ident::with_quote('"', column_name(item))))
    };
    let by = by.iter().map(name).collect::<Option<Vec<_>>>()?;
    let mut order = query.order_by.clone();
    if let Some(OrderByKind::Expressions(keys)) = order.as_mut().map(|order| &mut order.kind) {
        for key in keys {
            key.expr = name(&key.expr)?;
        }
    }
    let mut rows = query.clone();
    (rows.with, rows.order_by) = (None, None);
    if let SetExpr::Select(select) = &mut *rows.body {
        select.distinct = None;
    }
    let template = parse("SELECT * FROM placeholder", "template").ok()?.into_iter().next()?;
    let StatementKind::Query(mut chosen, _) = template.kind else { return None };
    if let SetExpr::Select(select) = &mut *chosen.body {
        select.distinct = Some(Distinct::On(by));
        let name = Ident::with_quote('"', ROWS);
        let alias = TableAlias { explicit: true, name, columns: Vec::new(), at: None };
        let subquery = Box::new(rows);
        select.from.first_mut()?.relation =
            TableFactor::Derived { lateral: false, subquery, alias: Some(alias), sample: None };
    }
    chosen.with = query.with.clone();
    chosen.order_by = order;
    Some(*chosen)
}

fn has_subquery(select: &Select) -> bool {
    struct Subqueries;

    impl Visitor for Subqueries {
        type Break = ();

        fn pre_visit_expr(&mut self, expression: &Expr) -> ControlFlow<()> {
            let is_query = matches!(expression, Expr::Subquery(_) | Expr::Exists { .. });
            if is_query { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        }
    }

    walk(&select.projection, &mut Subqueries).is_break()
}
