//! Filters below users' operators that declare which columns they carry: unwanted rows are dropped before the operator
//! sees them, and before they are split for it.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion::common::{Column, Result};
use datafusion::logical_expr::utils::{conjunction, split_conjunction_owned};
use datafusion::logical_expr::{Expr, Extension, Filter, LogicalPlan, Operator};
use datafusion::optimizer::optimizer::ApplyOrder;
use datafusion::optimizer::{OptimizerConfig, OptimizerRule};

use tidemill_trees::nodes::Tree;

use super::operator_call::OperatorCall;
use super::split_stream::SplitStream;
use crate::logical::node_of;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct SelectBefore;

impl OptimizerRule for SelectBefore {
    fn name(&self) -> &str {
        "select_before"
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        Some(ApplyOrder::TopDown)
    }

    fn supports_rewrite(&self) -> bool {
        true
    }

    fn rewrite(&self, plan: LogicalPlan, _: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        let LogicalPlan::Filter(filter) = &plan else { return Ok(Transformed::no(plan)) };
        let Some(call) = node_of::<OperatorCall>(&filter.input) else { return Ok(Transformed::no(plan)) };
        // Whose turn it is depends on all rows.
        let is_dealt =
            |input: &LogicalPlan| node_of::<SplitStream>(input).is_some_and(|split| split.is_dealt);
        if call.inputs.iter().any(is_dealt) {
            return Ok(Transformed::no(plan));
        }
        let conditions = split_conjunction_owned(filter.predicate.clone());
        let (before, after): (Vec<Expr>, Vec<Expr>) =
            conditions.into_iter().partition(|condition| may_come_before(condition, call));
        let Some(before) = conjunction(before) else { return Ok(Transformed::no(plan)) };
        let selected = |input: &LogicalPlan| select(input, &before);
        let inputs = call.inputs.iter().map(selected).collect::<Result<_>>()?;
        let node = Arc::new(OperatorCall { inputs, ..call.clone() });
        let call = LogicalPlan::Extension(Extension { node });
        Ok(Transformed::yes(match conjunction(after) {
            None => call,
            Some(after) => LogicalPlan::Filter(Filter::try_new(after, Arc::new(call))?),
        }))
    }
}

/// Whether a condition uses only carried columns and cannot fail: the operator may have no result for a row for which
/// it would fail.
fn may_come_before(condition: &Expr, call: &OperatorCall) -> bool {
    let mut may = true;
    let visited = condition.look_through(|part| {
        may &= match part {
            Expr::Column(column) => call.bound.carried.contains(&column.name),
            Expr::BinaryExpr(binary) => {
                binary.op.supports_propagation() || matches!(binary.op, Operator::And | Operator::Or)
            }
            Expr::Literal(..) | Expr::Not(_) | Expr::Between(_) | Expr::InList(_) | Expr::Like(_) => true,
            Expr::IsNull(_) | Expr::IsNotNull(_) | Expr::IsTrue(_) | Expr::IsFalse(_) => true,
            _ => false,
        };
        Ok(if may { TreeNodeRecursion::Continue } else { TreeNodeRecursion::Stop })
    });
    may && visited.is_ok()
}

/// The rows of an input for which a condition on its columns holds; if the input is split, before the split.
fn select(input: &LogicalPlan, condition: &Expr) -> Result<LogicalPlan> {
    if let Some(split) = node_of::<SplitStream>(input) {
        let node = SplitStream { input: select(&split.input, condition)?, ..split.clone() };
        return Ok(LogicalPlan::Extension(Extension { node: Arc::new(node) }));
    }
    let own_column = |part: Expr| match part {
        Expr::Column(column) => {
            let (qualifier, field) = input.schema().qualified_field_with_unqualified_name(&column.name)?;
            Ok(Transformed::yes(Expr::Column(Column::new(qualifier.cloned(), field.name()))))
        }
        other => Ok(Transformed::no(other)),
    };
    let condition = condition.clone().rewrite_up(own_column)?.data;
    Ok(LogicalPlan::Filter(Filter::try_new(condition, Arc::new(input.clone()))?))
}
