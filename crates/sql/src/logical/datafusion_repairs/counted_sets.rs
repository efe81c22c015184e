//! `INTERSECT ALL` and `EXCEPT ALL` count equal rows. DataFusion (55.2) keeps or removes each row that the other side has at all, so the copies of
//! a row are numbered on both sides, and compared with their numbers.

use std::ops::ControlFlow;
use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TransformedResult};
use datafusion::common::{Column, NullEquality, Result};
use datafusion::functions_window::expr_fn::row_number;
use datafusion::logical_expr::builder::build_join_schema;
use datafusion::logical_expr::{Expr, ExprFunctionExt, Join, JoinType, LogicalPlan, LogicalPlanBuilder};
use datafusion::sql::sqlparser::ast::{Query, SetExpr, SetOperator, SetQuantifier, VisitorMut};
use tidemill_trees::nodes::PlanTree;
use tidemill_trees::syntax::walk_mut;

/// The number of a copy of a row.
const COPY: &str = "$copy";

/// Returns whether a query has `INTERSECT ALL` or `EXCEPT ALL`.
pub(crate) fn counts_rows(query: &mut Query) -> bool {
    walk_mut(query, &mut CountedSets).is_break()
}

struct CountedSets;

impl VisitorMut for CountedSets {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        if is_counted(&query.body) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

fn is_counted(body: &SetExpr) -> bool {
    match body {
        SetExpr::SetOperation { left, op, set_quantifier, right } => {
            let is_all = *op != SetOperator::Union && *set_quantifier == SetQuantifier::All;
            is_all || is_counted(left) || is_counted(right)
        }
        _ => false,
    }
}

/// Returns the plan of such a query, in which copies of rows are counted.
pub(crate) fn with_copies_counted(plan: LogicalPlan) -> Result<LogicalPlan> {
    plan.rewrite_up_with_subqueries(|node| match node {
        LogicalPlan::Join(join) if is_of_all(&join) => counted(join).map(Transformed::yes),
        other => Ok(Transformed::no(other)),
    })
    .data()
}

/// Whether a join compares all columns of two inputs in their order, as set operations do.
fn is_of_all(join: &Join) -> bool {
    let columns = |input: &LogicalPlan| input.schema().columns();
    let (left, right) = (columns(&join.left), columns(&join.right));
    let is_same = |keys: Vec<&Expr>, columns: &[Column]| {
        keys.len() == columns.len()
            && keys.iter().zip(columns).all(|(key, column)| matches!(key, Expr::Column(key) if key == column))
    };
    matches!(join.join_type, JoinType::LeftSemi | JoinType::LeftAnti)
        && join.null_equality == NullEquality::NullEqualsNull
        && join.filter.is_none()
        && !matches!(*join.left, LogicalPlan::Distinct(_))
        && left.last().is_some_and(|last| last.name != COPY)
        && is_same(join.on.iter().map(|(one, _)| one).collect(), &left)
        && is_same(join.on.iter().map(|(_, other)| other).collect(), &right)
}

fn counted(mut join: Join) -> Result<LogicalPlan> {
    let columns: Vec<Expr> = join.left.schema().columns().into_iter().map(Expr::Column).collect();
    join.left = Arc::new(numbered(&join.left)?);
    join.right = Arc::new(numbered(&join.right)?);
    let copy = || Expr::Column(Column::from_name(COPY));
    join.on.push((copy(), copy()));
    join.schema = Arc::new(build_join_schema(join.left.schema(), join.right.schema(), &join.join_type)?);
    LogicalPlanBuilder::from(LogicalPlan::Join(join)).project(columns)?.build()
}

/// The rows with the number of each copy.
fn numbered(input: &LogicalPlan) -> Result<LogicalPlan> {
    let mut columns: Vec<Expr> = input.schema().columns().into_iter().map(Expr::Column).collect();
    let number = row_number().partition_by(columns.clone()).build()?;
    let name = number.schema_name().to_string();
    columns.push(Expr::Column(Column::from_name(name)).alias(COPY));
    LogicalPlanBuilder::from(input.clone()).window([number])?.project(columns)?.build()
}
