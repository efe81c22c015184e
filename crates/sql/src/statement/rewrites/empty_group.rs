//! `GROUP BY ()`: all rows are one group, which is there without rows, too. The planner knows only aggregates without GROUP BY.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{BinaryOperator, Expr, GroupByExpr, Query, Select, VisitorMut};
use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::parser::Parser;

use tidemill_trees::syntax::walk_mut;

/// Removes empty groups. What counts the rows in their place makes it an aggregate in any case.
pub(crate) fn translate(query: &mut Query) {
    let _ = walk_mut(query, &mut Groups);
}

struct Groups;

impl VisitorMut for Groups {
    type Break = ();

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        let GroupByExpr::Expressions(groups, _) = &mut select.group_by else {
            return ControlFlow::Continue(());
        };
        let written = groups.len();
        groups.retain(|group| !matches!(group, Expr::Tuple(columns) if columns.is_empty()));
        if groups.is_empty() && written > 0 {
            let counted = Parser::new(&GenericDialect {}).try_with_sql("count(*) >= 0");
            let counted = counted.and_then(|mut parser| parser.parse_expr()).ok();
            select.having = match (select.having.take(), counted) {
                (Some(having), Some(counted)) => Some(Expr::BinaryOp {
                    left: Box::new(Expr::Nested(Box::new(having))),
                    op: BinaryOperator::And,
                    right: Box::new(counted),
                }),
                (having, counted) => having.or(counted),
            };
        }
        ControlFlow::Continue(())
    }
}
