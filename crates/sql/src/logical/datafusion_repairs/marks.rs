//! Predicates over subqueries outside of conditions, such as `SELECT id IN (SELECT ...)`. DataFusion (55.2) computes them only in
//! WHERE. Here each becomes a column that says for each row whether the subquery has rows.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TransformedResult};
use datafusion::common::{Column, JoinType, Result, TableReference};
use datafusion::logical_expr::expr::Exists;
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::{conjunction, expr_to_columns, split_conjunction_owned};
use datafusion::logical_expr::{
    Expr, Filter, Join, LogicalPlan, LogicalPlanBuilder, Projection, Subquery, lit, not,
};
use datafusion::optimizer::decorrelate::PullUpCorrelatedExpr;

use super::subquery_predicates::{has_predicate, is_predicate};
use crate::refusal::refuse;
use tidemill_trees::nodes::{PlanTree, Tree};

/// The column of a mark join, as DataFusion names it.
const MARK: &str = "mark";

/// The plan with such predicates only in WHERE and in SELECT: those of ORDER BY, GROUP BY, and of the arguments of functions are
/// computed before, and those of JOIN ... ON after the rows have met.
pub(crate) fn with_predicates_selected(plan: LogicalPlan) -> Result<LogicalPlan> {
    let named = Cell::new(0);
    plan.rewrite_up_with_subqueries(|node| {
        let is_apart = matches!(
            node,
            LogicalPlan::Aggregate(_) | LogicalPlan::Window(_) | LogicalPlan::Sort(_) | LogicalPlan::Join(_)
        );
        if !is_apart || !has_predicate(&node)? {
            return Ok(Transformed::no(node));
        }
        match node {
            LogicalPlan::Join(join) => after_join(join),
            node => selected_before(node, &named),
        }
    })
    .data()
}

/// The predicates of an inner join as a condition on its rows.
fn after_join(join: Join) -> Result<Transformed<LogicalPlan>> {
    if join.join_type != JoinType::Inner {
        return Err(refuse(
            "a subquery inside the condition of an outer join is not supported",
            "compute it in a subquery of FROM: LEFT JOIN (SELECT *, x IN (SELECT ...) AS found FROM t) AS t ON ... \
             AND t.found",
        ));
    }
    let conditions = join.filter.clone().map(split_conjunction_owned).unwrap_or_default();
    let (mut after, mut on) = (Vec::new(), Vec::new());
    for condition in conditions {
        let is_after = condition.contains(|part| Ok(is_predicate(part)))?;
        if is_after { after.push(condition) } else { on.push(condition) }
    }
    let joined = LogicalPlan::Join(Join { filter: conjunction(on), ..join });
    match conjunction(after) {
        None => Ok(Transformed::no(joined)),
        Some(after) => Ok(Transformed::yes(LogicalPlan::Filter(Filter::try_new(after, Arc::new(joined))?))),
    }
}

/// The node over input that has the predicates as columns.
fn selected_before(node: LogicalPlan, named: &Cell<usize>) -> Result<Transformed<LogicalPlan>> {
    let columns = node.schema().columns();
    let keeps_columns = matches!(node, LogicalPlan::Window(_) | LogicalPlan::Sort(_));
    let is_sort = matches!(node, LogicalPlan::Sort(_));
    let input = node.inputs()[0].clone();
    let mut selected: Vec<Expr> = input.schema().columns().into_iter().map(Expr::Column).collect();
    let mut computed: Vec<(Expr, Expr)> = Vec::new();
    let names = NamePreserver::new(&node);
    let expressions = node.expressions().into_iter().map(|expression| {
        let name = names.save(&expression);
        let replaced = expression.rewrite_down(|part| {
            if !is_predicate(&part) {
                return Ok(Transformed::no(part));
            }
            if let Some((_, column)) = computed.iter().find(|(known, _)| *known == part) {
                return Ok(Transformed::yes(column.clone()));
            }
            named.set(named.get() + 1);
            let column = format!("__predicate_{}", named.get());
            selected.push(part.clone().alias(&column));
            let column = Expr::Column(Column::new_unqualified(column));
            computed.push((part, column.clone()));
            Ok(Transformed::yes(column))
        })?;
        Ok(if replaced.transformed && !is_sort { name.restore(replaced.data) } else { replaced.data })
    });
    let expressions = expressions.collect::<Result<Vec<_>>>()?;
    let input = LogicalPlan::Projection(Projection::try_new(selected, Arc::new(input))?);
    let node = node.with_new_exprs(expressions, vec![input])?;
    if !keeps_columns {
        return Ok(Transformed::yes(node));
    }
    let columns = columns.into_iter().map(Expr::Column).collect();
    Ok(Transformed::yes(LogicalPlan::Projection(Projection::try_new(columns, Arc::new(node))?)))
}

/// The plan in which SELECT reads `EXISTS` from columns of joins.
pub(crate) fn with_marks(plan: LogicalPlan) -> Result<LogicalPlan> {
    let named = Cell::new(0);
    plan.rewrite_up_with_subqueries(|node| {
        let LogicalPlan::Projection(projection) = &node else { return Ok(Transformed::no(node)) };
        if !has_predicate(&node)? {
            return Ok(Transformed::no(node));
        }
        let mut input = projection.input.as_ref().clone();
        let mut marks: Vec<(Subquery, Expr)> = Vec::new();
        let names = NamePreserver::new(&node);
        let expressions = projection.expr.iter().cloned().map(|expression| {
            let name = names.save(&expression);
            let replaced = expression.rewrite_up(|part| {
                let Expr::Exists(Exists { subquery, negated }) = part else {
                    return Ok(Transformed::no(part));
                };
                let known = marks.iter().find(|(known, _)| *known == subquery).map(|(_, mark)| mark.clone());
                let mark = match known {
                    Some(mark) => mark,
                    None => {
                        named.set(named.get() + 1);
                        let name = format!("__marked_{}", named.get());
                        input = marked(&input, &subquery, &name)?;
                        let mark = Expr::Column(Column::new(Some(name), MARK));
                        marks.push((subquery, mark.clone()));
                        mark
                    }
                };
                Ok(Transformed::yes(if negated { not(mark) } else { mark }))
            })?;
            Ok(name.restore(replaced.data))
        });
        let expressions = expressions.collect::<Result<Vec<_>>>()?;
        let projection = Projection::try_new(expressions, Arc::new(input))?;
        Ok(Transformed::yes(LogicalPlan::Projection(projection)))
    })
    .data()
}

/// The rows with one more column: whether a subquery has rows for each of them.
fn marked(input: &LogicalPlan, subquery: &Subquery, name: &str) -> Result<LogicalPlan> {
    let mut pull_up = PullUpCorrelatedExpr::new().with_exists_sub_query(true);
    let rows = pulled_up(subquery.subquery.as_ref().clone(), &mut pull_up)?;
    if !pull_up.can_pull_up {
        return Err(refuse(
            "this subquery refers to the outer row in a place from which no join can be made",
            "refer to the outer row only in the WHERE of the subquery, and not below UNION, LIMIT or a function \
             with OVER",
        ));
    }
    let outer: BTreeSet<Column> = pull_up.correlated_subquery_cols_map.into_values().flatten().collect();
    let rows = LogicalPlanBuilder::from(rows).alias(name)?.build()?;
    let condition = conjunction(pull_up.join_filters).unwrap_or_else(|| lit(true));
    let condition = condition.rewrite_up(|part| match part {
        Expr::Column(column) if outer.contains(&column) => {
            Ok(Transformed::yes(Expr::Column(Column::new(Some(TableReference::bare(name)), column.name))))
        }
        part => Ok(Transformed::no(part)),
    })?;
    let mut read = Default::default();
    expr_to_columns(&condition.data, &mut read)?;
    let columns: Vec<Expr> = rows
        .schema()
        .columns()
        .into_iter()
        .filter(|column| read.contains(column))
        .map(Expr::Column)
        .collect();
    let rows =
        if columns.is_empty() { rows } else { LogicalPlanBuilder::from(rows).project(columns)?.build()? };
    LogicalPlanBuilder::from(input.clone()).join_on(rows, JoinType::LeftMark, Some(condition.data))?.build()
}

/// The plan without its references to outer rows, which the rewriter keeps.
pub(super) fn pulled_up(plan: LogicalPlan, pull_up: &mut PullUpCorrelatedExpr) -> Result<LogicalPlan> {
    use datafusion::common::tree_node::TreeNode;
    plan.rewrite(pull_up).data()
}
