//! `IN`, `ANY` and `ALL` of a subquery, with their three values. DataFusion (55.2) has semi and anti joins for them, and a column
//! that says whether a row was found: true or false, and never NULL. So what decides about NULL becomes a condition of its own:
//! whether the value is NULL and there are rows, and whether one of the rows is NULL.

use std::cell::Cell;
use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema, Result, ScalarValue, TableReference};
use datafusion::logical_expr::expr::{Case, Exists, InSubquery, SetComparison, SetQuantifier};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::{conjunction, merge_schema, split_conjunction_owned};
use datafusion::logical_expr::{
    BinaryExpr, Cast, Expr, ExprSchemable, Filter, LogicalPlan, LogicalPlanBuilder, Operator, Projection,
    SkipType, Subquery, binary_expr, lit, not, when,
};

use super::scalar_rows::OneRow;
use crate::refusal::refuse;
use tidemill_trees::nodes::{PlanTree, Tree};

/// The plan in which such predicates are NULL where they should be. Those within conditions become joins later; others are
/// `EXISTS`.
pub(crate) fn with_three_values(plan: LogicalPlan) -> Result<LogicalPlan> {
    let predicates = Predicates::default();
    plan.rewrite_up_with_subqueries(|node| match node {
        LogicalPlan::Filter(filter) => predicates.filter(filter),
        LogicalPlan::SubqueryAlias(alias) if refers_outside(&alias.input) => {
            renamed(alias.input.as_ref().clone(), &alias.alias).map(Transformed::yes)
        }
        node if has_predicate(&node)? => {
            let schema = merge_schema(&node.inputs());
            let names = NamePreserver::new(&node);
            node.rewrite_expressions(|expression| {
                let name = names.save(&expression);
                let replaced = predicates.value(expression, Context::of_value(&schema))?;
                Ok(Transformed::yes(name.restore(replaced)))
            })
        }
        node => Ok(Transformed::no(node)),
    })
    .data()
}

/// Whether an input other than a lateral one refers to outer rows.
fn refers_outside(input: &LogicalPlan) -> bool {
    !matches!(input, LogicalPlan::Subquery(_)) && !input.all_out_ref_exprs().is_empty()
}

/// The same rows under another name. DataFusion adds columns below an alias without telling the alias.
fn renamed(plan: LogicalPlan, name: &TableReference) -> Result<LogicalPlan> {
    let columns = plan.schema().iter().map(|(qualifier, field)| {
        let column = Expr::Column(Column::new(qualifier.cloned(), field.name()));
        column.alias_qualified(Some(name.clone()), field.name())
    });
    let columns = columns.collect();
    Ok(LogicalPlan::Projection(Projection::try_new(columns, Arc::new(plan))?))
}

/// Whether an expression is a predicate over a subquery.
pub(super) fn is_predicate(expression: &Expr) -> bool {
    matches!(expression, Expr::InSubquery(_) | Expr::Exists(_) | Expr::SetComparison(_))
}

/// Whether one of a node's expressions contains such a predicate.
pub(super) fn has_predicate(node: &LogicalPlan) -> Result<bool> {
    let mut found = false;
    node.look_through_expressions(|expression| {
        found |= expression.contains(|part| Ok(is_predicate(part)))?;
        Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    Ok(found)
}

/// Where a part of an expression is.
#[derive(Clone, Copy)]
struct Context<'a> {
    /// The columns of the outer rows.
    schema: &'a DFSchema,
    /// Whether it makes no difference if the part is NULL or false.
    false_is_null: bool,
    /// Whether the part is a condition by itself.
    is_alone: bool,
    /// Whether the part belongs to a condition.
    in_condition: bool,
}

impl<'a> Context<'a> {
    fn of_condition(schema: &'a DFSchema) -> Self {
        Context { schema, false_is_null: true, is_alone: true, in_condition: true }
    }

    fn of_value(schema: &'a DFSchema) -> Self {
        Context { schema, false_is_null: false, is_alone: false, in_condition: false }
    }

    /// Of what is within another part, which distinguishes all three values.
    fn within(self) -> Self {
        Context { false_is_null: false, is_alone: false, ..self }
    }
}

#[derive(Default)]
struct Predicates {
    /// How many subqueries have got names so far.
    named: Cell<usize>,
}

impl Predicates {
    fn filter(&self, filter: Filter) -> Result<Transformed<LogicalPlan>> {
        let schema = merge_schema(&[&filter.input]);
        let conditions = split_conjunction_owned(filter.predicate.clone()).into_iter();
        let conditions: Vec<Expr> = conditions
            .map(|condition| self.value(condition, Context::of_condition(&schema)))
            .collect::<Result<_>>()?;
        match conjunction(conditions) {
            Some(predicate) if predicate != filter.predicate => {
                Ok(Transformed::yes(LogicalPlan::Filter(Filter::try_new(predicate, filter.input)?)))
            }
            _ => Ok(Transformed::no(LogicalPlan::Filter(filter))),
        }
    }

    /// A part of an expression.
    fn value(&self, part: Expr, context: Context<'_>) -> Result<Expr> {
        match part {
            Expr::BinaryExpr(BinaryExpr { left, op: op @ (Operator::And | Operator::Or), right }) => {
                let context = Context { is_alone: context.is_alone && op == Operator::And, ..context };
                let left = Box::new(self.value(*left, context)?);
                let right = Box::new(self.value(*right, context)?);
                Ok(Expr::BinaryExpr(BinaryExpr { left, op, right }))
            }
            Expr::Not(part) if context.false_is_null => match *part {
                Expr::Not(part) => self.value(*part, context),
                Expr::InSubquery(part) => {
                    let part = InSubquery { negated: !part.negated, ..part };
                    self.value(Expr::InSubquery(part), context)
                }
                part => match three_valued(&part) {
                    // Neither true nor NULL.
                    Some((found, unknown)) => {
                        let found = self.value(not(found.clone()), context)?;
                        Ok(found.and(self.value(not(unknown.clone()), context)?))
                    }
                    None => Ok(not(self.value(part, context.within())?)),
                },
            },
            Expr::Exists(part) => exists_rows(part),
            Expr::InSubquery(part) => {
                let InSubquery { expr, subquery, negated } = part;
                let compared = Compared { value: *expr, op: Operator::Eq, subquery };
                self.compared(compared, negated, context)
            }
            Expr::SetComparison(SetComparison { expr, subquery, op, quantifier }) => {
                let is_all = quantifier == SetQuantifier::All;
                // All rows compare so if none compares otherwise.
                let (op, negated) = match op.negate() {
                    Some(opposite) if is_all => (opposite, true),
                    _ if is_all => {
                        return Err(refuse(
                            format!("{op} ALL (SELECT ...) is not supported"),
                            "compare with =, <>, <, <=, > or >=",
                        ));
                    }
                    _ => (op, false),
                };
                self.compared(Compared { value: *expr, op, subquery }, negated, context)
            }
            part if context.false_is_null && three_valued(&part).is_some() => {
                let found = three_valued(&part).map(|(found, _)| found.clone());
                self.value(found.unwrap_or(part), context)
            }
            part => part
                .rewrite_children(|child| Ok(Transformed::yes(self.value(child, context.within())?)))
                .data(),
        }
    }

    /// Whether a value compares so with any row of a subquery.
    fn compared(&self, compared: Compared, negated: bool, context: Context<'_>) -> Result<Expr> {
        let Compared { value, op, subquery } = &compared;
        let is_correlated = !subquery.outer_ref_columns.is_empty();
        let is_joined = context.is_alone && !negated && !is_correlated;
        if !is_joined && let Some(row) = OneRow::of(subquery)? {
            // Joined rows would not tell an aggregate of no rows from no row.
            let same = binary_expr(value.clone(), *op, Expr::ScalarSubquery(row.rows));
            let same = match row.is_there {
                None => same,
                Some(is_there) => when(is_there, same).otherwise(lit(false))?,
            };
            return Ok(if negated { not(same) } else { same });
        }
        let keeps_in = *op == Operator::Eq && context.in_condition;
        // DataFusion knows about NULL where a column, and nothing else, is compared with the rows of another table.
        let knows_null = context.is_alone && !is_correlated && !value.column_refs().is_empty();
        if keeps_in && context.false_is_null && (!negated || knows_null) {
            return Ok(Expr::InSubquery(InSubquery::new(Box::new(value.clone()), subquery.clone(), negated)));
        }
        let found = if keeps_in && !negated {
            Expr::InSubquery(InSubquery::new(Box::new(value.clone()), subquery.clone(), false))
        } else {
            self.found(&compared, context.schema)?
        };
        if context.false_is_null && !negated {
            return Ok(found);
        }
        let unknown = self.unknown(&compared, context.schema)?;
        if context.false_is_null {
            let neither = unknown.into_iter().map(|unknown| self.negated(unknown));
            return Ok(conjunction([not(found)].into_iter().chain(neither)).unwrap_or_default());
        }
        let found = match unknown.into_iter().reduce(Expr::or) {
            None => found,
            Some(unknown) => {
                when(found, lit(true)).when(unknown, lit(ScalarValue::Boolean(None))).otherwise(lit(false))?
            }
        };
        Ok(if negated { not(found) } else { found })
    }

    /// Whether a comparison is true for one of the rows.
    fn found(&self, compared: &Compared, schema: &DFSchema) -> Result<Expr> {
        let value = as_outer(compared.value.clone(), schema)?;
        self.rows_where(&compared.subquery, |column| binary_expr(value, compared.op, column))
    }

    /// When a comparison is NULL for one of the rows.
    fn unknown(&self, compared: &Compared, schema: &DFSchema) -> Result<Vec<Expr>> {
        let Compared { value, subquery, .. } = compared;
        let mut unknown = Vec::new();
        if value.nullable(schema).unwrap_or(true) {
            let rows = Exists { subquery: subquery.clone(), negated: false };
            unknown.push(value.clone().is_null().and(exists_rows(rows)?));
        }
        if subquery.subquery.schema().field(0).is_nullable() {
            unknown.push(self.rows_where(subquery, Expr::is_null)?);
        }
        Ok(unknown)
    }

    /// The negation of what is never NULL.
    fn negated(&self, part: Expr) -> Expr {
        match part {
            Expr::BinaryExpr(BinaryExpr { left, op: Operator::And, right }) => {
                self.negated(*left).or(self.negated(*right))
            }
            Expr::IsNull(part) => Expr::IsNotNull(part),
            Expr::Exists(exists) => Expr::Exists(Exists { negated: !exists.negated, ..exists }),
            part => not(part),
        }
    }

    /// Whether a subquery has rows for which a condition on its column is true.
    fn rows_where(&self, subquery: &Subquery, condition: impl FnOnce(Expr) -> Expr) -> Result<Expr> {
        check_limits(subquery)?;
        self.named.set(self.named.get() + 1);
        let name = TableReference::bare(format!("__compared_{}", self.named.get()));
        // Under a name of its own, the column cannot be taken for one of the outer rows.
        let rows = renamed(subquery.subquery.as_ref().clone(), &name)?;
        let column = Column::from(rows.schema().qualified_field(0));
        let plan = LogicalPlanBuilder::from(rows).filter(condition(Expr::Column(column)))?.build()?;
        let outer_ref_columns = plan.all_out_ref_exprs();
        let subquery = Subquery { subquery: Arc::new(plan), outer_ref_columns, ..subquery.clone() };
        Ok(Expr::Exists(Exists { subquery, negated: false }))
    }
}

/// A value and the rows that it is compared with.
struct Compared {
    value: Expr,
    op: Operator,
    subquery: Subquery,
}

/// The conditions under which a predicate is true and NULL, if it was written as such: a comparison of several columns with those
/// of a subquery.
fn three_valued(part: &Expr) -> Option<(&Expr, &Expr)> {
    let Expr::Case(Case { expr: None, when_then_expr, else_expr: Some(otherwise) }) = part else {
        return None;
    };
    let [(found, is_true), (unknown, is_null)] = when_then_expr.as_slice() else { return None };
    let is_null = match is_null.as_ref() {
        Expr::Cast(Cast { expr, .. }) => expr,
        other => other,
    };
    let fits = is_constant(is_true, true)
        && is_constant(otherwise, false)
        && matches!(is_null, Expr::Literal(value, _) if value.is_null())
        && matches!(found.as_ref(), Expr::Exists(_));
    fits.then_some((found, unknown))
}

fn is_constant(value: &Expr, wanted: bool) -> bool {
    matches!(value, Expr::Literal(ScalarValue::Boolean(Some(given)), _) if *given == wanted)
}

/// `EXISTS`, which is true whatever the only row of an aggregate contains.
fn exists_rows(exists: Exists) -> Result<Expr> {
    let Exists { subquery, negated } = exists;
    if subquery.outer_ref_columns.is_empty() {
        return Ok(Expr::Exists(Exists { subquery, negated }));
    }
    if let Some(row) = OneRow::of(&subquery)? {
        let is_there = row.is_there.unwrap_or_else(|| lit(true));
        return Ok(if negated { not(is_there) } else { is_there });
    }
    check_offsets(&subquery)?;
    Ok(Expr::Exists(Exists { subquery, negated }))
}

/// DataFusion removes LIMIT and OFFSET below a condition that refers to the outer row.
fn check_limits(subquery: &Subquery) -> Result<()> {
    check_each_limit(subquery, |_| true)
}

/// LIMIT makes no difference to `EXISTS`, unlike OFFSET.
fn check_offsets(subquery: &Subquery) -> Result<()> {
    check_each_limit(subquery, |skip| !matches!(skip, SkipType::Literal(0)))
}

fn check_each_limit(subquery: &Subquery, wrong: impl Fn(SkipType) -> bool) -> Result<()> {
    subquery.subquery.look_through(|node| {
        if let LogicalPlan::Limit(limit) = node
            && wrong(limit.get_skip_type()?)
            && !node.all_out_ref_exprs().is_empty()
        {
            return Err(refuse(
                "LIMIT and OFFSET in a subquery cannot count the rows of each outer row",
                "number them in a subquery, ROW_NUMBER() OVER (PARTITION BY ... ORDER BY ...), and compare the number",
            ));
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(())
}

/// An expression over the outer rows, as a subquery sees it.
fn as_outer(value: Expr, schema: &DFSchema) -> Result<Expr> {
    if value.contains(|part| Ok(is_predicate(part) || matches!(part, Expr::ScalarSubquery(_))))? {
        return Err(refuse(
            "a subquery cannot be compared with the rows of another one here",
            "compute the first in a subquery of FROM, and give it a name",
        ));
    }
    value
        .rewrite_up(|part| match part {
            Expr::Column(column) => {
                let field = Arc::clone(schema.qualified_field_from_column(&column)?.1);
                Ok(Transformed::yes(Expr::OuterReferenceColumn(field, column)))
            }
            part => Ok(Transformed::no(part)),
        })
        .data()
}
