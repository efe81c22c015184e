//! Subqueries that depend on the outer row in ways for which DataFusion (55.2) has no join: a value that is not an aggregate, or an aggregate of
//! rows that belong by something else than equality, and references below LIMIT, UNION and OVER.
//!
//! Such a subquery is computed for the distinct values of the outer columns that it reads, all at once ("dependent join"): see
//! `pushed.rs`. A value is then joined with the outer rows; for a predicate, the subquery keeps one condition, which compares those
//! columns with the outer row, and which DataFusion can join.

mod one_value;
mod pushed;
mod references;
mod simple;

use std::cell::Cell;
use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema, JoinType, Result, TableReference};
use datafusion::functions_aggregate::expr_fn::{count, first_value};
use datafusion::logical_expr::expr::{Exists, InSubquery, SetComparison};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::conjunction;
use datafusion::logical_expr::{
    Aggregate, Expr, Join, LogicalPlan, LogicalPlanBuilder, Operator, Projection, Subquery, binary_expr, lit,
};
use tidemill_trees::nodes::{PlanTree, Tree};

use self::one_value::only_value;
use self::pushed::Dependent;
use self::references::{Reference, of_subquery, references};

/// Returns the plan without such subqueries, where that is possible.
pub(crate) fn with_dependent_joins(plan: LogicalPlan) -> Result<LogicalPlan> {
    if !has_references(&plan)? {
        return Ok(plan);
    }
    let unnesting = Unnesting::default();
    plan.rewrite_down_with_subqueries(|node| unnesting.node(node)).data()
}

fn has_references(plan: &LogicalPlan) -> Result<bool> {
    let mut found = false;
    plan.look_through_with_subqueries(|node| {
        found |= node.contains_outer_reference();
        Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    Ok(found)
}

#[derive(Default)]
struct Unnesting {
    /// How many names have been given.
    named: Cell<usize>,
}

impl Unnesting {
    fn node(&self, node: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
        match &node {
            LogicalPlan::Join(join) => self.lateral(join).map(|plan| match plan {
                Some(plan) => Transformed::yes(plan),
                None => Transformed::no(node),
            }),
            LogicalPlan::Projection(_)
            | LogicalPlan::Filter(_)
            | LogicalPlan::Aggregate(_)
            | LogicalPlan::Sort(_)
            | LogicalPlan::Window(_) => self.expressions(node),
            _ => Ok(Transformed::no(node)),
        }
    }

    /// Replaces the subqueries in a node's expressions.
    fn expressions(&self, node: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
        let given = node.inputs()[0].clone();
        let keeps_input =
            matches!(node, LogicalPlan::Filter(_) | LogicalPlan::Sort(_) | LogicalPlan::Window(_));
        let is_joinable = matches!(node, LogicalPlan::Filter(_) | LogicalPlan::Projection(_));
        let is_sort = matches!(node, LogicalPlan::Sort(_));
        let mut input = given.clone();
        let mut is_changed = false;
        let mut values: Vec<(Subquery, Expr)> = Vec::new();
        let names = NamePreserver::new(&node);
        let expressions = node.expressions().into_iter().map(|expression| {
            let name = names.save(&expression);
            let replaced = expression.rewrite_down(|part| match part {
                Expr::ScalarSubquery(subquery)
                    if !(subquery.outer_ref_columns.is_empty()
                        || is_joinable && simple::is_value(&subquery)?) =>
                {
                    if let Some((_, value)) = values.iter().find(|(known, _)| *known == subquery) {
                        return Ok(Transformed::new(value.clone(), true, TreeNodeRecursion::Jump));
                    }
                    let Some((joined, value)) = self.value(&input, given.schema(), &subquery)? else {
                        return Ok(Transformed::no(Expr::ScalarSubquery(subquery)));
                    };
                    input = joined;
                    values.push((subquery, value.clone()));
                    Ok(Transformed::new(value, true, TreeNodeRecursion::Jump))
                }
                Expr::Exists(part) => {
                    let Some(subquery) = self.predicate(&given, &part.subquery, true)? else {
                        return Ok(Transformed::no(Expr::Exists(part)));
                    };
                    Ok(Transformed::yes(Expr::Exists(Exists { subquery, ..part })))
                }
                Expr::InSubquery(part) => {
                    let Some(subquery) = self.predicate(&given, &part.subquery, false)? else {
                        return Ok(Transformed::no(Expr::InSubquery(part)));
                    };
                    Ok(Transformed::yes(Expr::InSubquery(InSubquery { subquery, ..part })))
                }
                Expr::SetComparison(part) => {
                    let Some(subquery) = self.predicate(&given, &part.subquery, false)? else {
                        return Ok(Transformed::no(Expr::SetComparison(part)));
                    };
                    Ok(Transformed::yes(Expr::SetComparison(SetComparison { subquery, ..part })))
                }
                part => Ok(Transformed::no(part)),
            })?;
            is_changed |= replaced.transformed;
            Ok(if replaced.transformed && !is_sort { name.restore(replaced.data) } else { replaced.data })
        });
        let expressions = expressions.collect::<Result<Vec<_>>>()?;
        if !is_changed {
            return Ok(Transformed::no(node));
        }
        let columns = node.schema().columns();
        let replaced = node.with_new_exprs(expressions, vec![input])?;
        if values.is_empty() || !keeps_input {
            return Ok(Transformed::yes(replaced));
        }
        let columns = columns.into_iter().map(Expr::Column).collect();
        Ok(Transformed::yes(LogicalPlan::Projection(Projection::try_new(columns, Arc::new(replaced))?)))
    }

    /// Returns the rows with the value that a subquery has for each of them, and that value; `None`: it cannot be joined.
    fn value(
        &self,
        input: &LogicalPlan,
        given: &DFSchema,
        subquery: &Subquery,
    ) -> Result<Option<(LogicalPlan, Expr)>> {
        let Some((read, dependent)) = self.dependent(input, given, &subquery.subquery)? else {
            return Ok(None);
        };
        let Some(rows) = dependent.pushed(&subquery.subquery)? else { return Ok(None) };
        let has_one_row = subquery.subquery.max_rows().is_some_and(|rows| rows <= 1);
        let rows = if has_one_row { rows } else { with_one_row(rows, dependent.columns().len())? };
        let name = self.name("value");
        let mut selected: Vec<Expr> = dependent
            .columns()
            .into_iter()
            .enumerate()
            .map(|(at, column)| column.alias(format!("k{at}")))
            .collect();
        let value = Column::from(rows.schema().qualified_field(selected.len()));
        selected.push(Expr::Column(value).alias("value"));
        let rows = LogicalPlanBuilder::from(rows).project(selected)?.alias(name.clone())?.build()?;
        let same = read.iter().enumerate().map(|(at, reference)| {
            let key = Expr::Column(Column::new(Some(name.clone()), format!("k{at}")));
            is_same(reference.as_seen_from(given), key)
        });
        let joined = LogicalPlanBuilder::from(input.clone()).join_on(rows, JoinType::Left, same)?.build()?;
        Ok(Some((joined, Expr::Column(Column::new(Some(name), "value")))))
    }

    /// Returns a subquery of a predicate whose only reference to the outer row is a condition on its rows; `None`: it is such a
    /// one, or cannot be made one.
    fn predicate(
        &self,
        input: &LogicalPlan,
        subquery: &Subquery,
        is_exists: bool,
    ) -> Result<Option<Subquery>> {
        if subquery.outer_ref_columns.is_empty() || simple::is_predicate(subquery, is_exists)? {
            return Ok(None);
        }
        let Some((read, dependent)) = self.dependent(input, input.schema(), &subquery.subquery)? else {
            return Ok(None);
        };
        let Some(rows) = dependent.pushed(&subquery.subquery)? else { return Ok(None) };
        let same = read
            .iter()
            .zip(dependent.columns())
            .map(|(reference, column)| is_same(reference.as_outer(), column));
        let keys = dependent.columns().len();
        let own = rows.schema().columns().into_iter().skip(keys).enumerate();
        // What joins rows adds the columns that it compares, under their own names.
        let selected: Vec<Expr> =
            own.map(|(at, column)| Expr::Column(column).alias(format!("v{at}"))).collect();
        let rows = LogicalPlanBuilder::from(rows)
            .filter(conjunction(same).unwrap_or_else(|| lit(true)))?
            .project(selected)?
            .build()?;
        Ok(Some(of_subquery(subquery, rows)?))
    }

    /// Replaces a lateral join for which DataFusion has no other one.
    fn lateral(&self, join: &Join) -> Result<Option<LogicalPlan>> {
        let (subquery, alias) = match join.right.as_ref() {
            LogicalPlan::Subquery(subquery) => (subquery, None),
            LogicalPlan::SubqueryAlias(alias) => match alias.input.as_ref() {
                LogicalPlan::Subquery(subquery) => (subquery, Some(alias.alias.clone())),
                _ => return Ok(None),
            },
            _ => return Ok(None),
        };
        let is_known = matches!(join.join_type, JoinType::Inner | JoinType::Left);
        if !is_known || !join.on.is_empty() || simple::is_lateral(subquery)? {
            return Ok(None);
        }
        let given = join.left.schema();
        let Some((read, dependent)) = self.dependent(&join.left, given, &subquery.subquery)? else {
            return Ok(None);
        };
        let Some(rows) = dependent.pushed(&subquery.subquery)? else { return Ok(None) };
        let rows = match alias {
            Some(alias) => dependent.renamed(rows, &alias)?,
            None => rows,
        };
        let same = read
            .iter()
            .zip(dependent.columns())
            .map(|(reference, column)| is_same(reference.as_seen_from(given), column));
        let conditions = same.chain(join.filter.clone());
        let joined = LogicalPlanBuilder::from(join.left.as_ref().clone())
            .join_on(rows, join.join_type, conditions)?
            .project(join.schema.columns().into_iter().map(Expr::Column))?
            .build()?;
        Ok(Some(joined))
    }

    /// Returns what a plan reads of outer rows, and their distinct values; `None`: it reads nothing, or these cannot be compared.
    fn dependent(
        &self,
        input: &LogicalPlan,
        given: &DFSchema,
        plan: &LogicalPlan,
    ) -> Result<Option<(Vec<Reference>, Dependent)>> {
        let read = references(plan)?;
        // Intervals of one length may be written in several ways.
        if read.is_empty() || read.iter().any(Reference::is_interval) {
            return Ok(None);
        }
        let name = self.name("outer");
        let columns = read
            .iter()
            .enumerate()
            .map(|(at, reference)| reference.as_seen_from(given).alias(format!("c{at}")));
        let domain = LogicalPlanBuilder::from(input.clone())
            .project(columns.collect::<Vec<_>>())?
            .distinct()?
            .alias(name.clone())?
            .build()?;
        Ok(Some((read.clone(), Dependent::new(read, name, domain))))
    }

    fn name(&self, what: &str) -> TableReference {
        self.named.set(self.named.get() + 1);
        TableReference::bare(format!("__{what}_{}", self.named.get()))
    }
}

/// Returns whether two values are the same, NULL included.
fn is_same(one: Expr, other: Expr) -> Expr {
    binary_expr(one, Operator::IsNotDistinctFrom, other)
}

/// Returns the only row for each value of the first columns.
fn with_one_row(rows: LogicalPlan, keys: usize) -> Result<LogicalPlan> {
    let columns = rows.schema().columns();
    let (keys, value) = (&columns[..keys], &columns[keys]);
    let of_rows = vec![
        count(lit(1)).alias("rows"),
        first_value(Expr::Column(value.clone()), Vec::new()).alias("value"),
    ];
    let group = keys.iter().cloned().map(Expr::Column).collect::<Vec<_>>();
    let grouped = LogicalPlan::Aggregate(Aggregate::try_new(Arc::new(rows), group.clone(), of_rows)?);
    let read = |name: &str| Expr::Column(Column::new_unqualified(name));
    let only = only_value().call(vec![read("rows"), read("value")]).alias("value");
    LogicalPlanBuilder::from(grouped).project(group.into_iter().chain([only]))?.build()
}
