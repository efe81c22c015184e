//! What a subquery reads of the rows outside of it.

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, FieldRef};
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Column, DFSchema, Result};
use datafusion::logical_expr::expr::{Exists, InSubquery, SetComparison};
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{Expr, LogicalPlan, Subquery};
use tidemill_trees::nodes::{PlanTree, Tree};

/// A column of outer rows that a subquery reads.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Reference {
    pub field: FieldRef,
    pub column: Column,
}

impl Reference {
    /// Returns the reference in a subquery.
    pub fn as_outer(&self) -> Expr {
        Expr::OuterReferenceColumn(Arc::clone(&self.field), self.column.clone())
    }

    /// Returns the column where the rows have it; elsewhere it belongs to rows that are further outside.
    pub fn as_seen_from(&self, rows: &DFSchema) -> Expr {
        if rows.has_column(&self.column) { Expr::Column(self.column.clone()) } else { self.as_outer() }
    }

    pub fn is_interval(&self) -> bool {
        matches!(self.field.data_type(), DataType::Interval(_))
    }
}

/// Returns what a plan reads of the rows outside of it, each column once.
pub(super) fn references(plan: &LogicalPlan) -> Result<Vec<Reference>> {
    let mut found = Vec::new();
    plan.look_through(|node| {
        let rows = merge_schema(&node.inputs());
        node.look_through_expressions(|expression| {
            expression.look_through(|part| {
                if let Expr::OuterReferenceColumn(field, column) = part {
                    add(&mut found, Reference { field: Arc::clone(field), column: column.clone() });
                }
                if let Some(inner) = subquery_of(part) {
                    let of_inner = references(&inner.subquery)?.into_iter();
                    of_inner
                        .filter(|reference| !rows.has_column(&reference.column))
                        .for_each(|reference| add(&mut found, reference));
                }
                Ok(TreeNodeRecursion::Continue)
            })
        })
    })?;
    Ok(found)
}

fn add(found: &mut Vec<Reference>, reference: Reference) {
    if found.iter().all(|known| known.column != reference.column) {
        found.push(reference);
    }
}

/// Returns the subquery of an expression that is one.
pub(super) fn subquery_of(part: &Expr) -> Option<&Subquery> {
    match part {
        Expr::ScalarSubquery(subquery)
        | Expr::Exists(Exists { subquery, .. })
        | Expr::InSubquery(InSubquery { subquery, .. })
        | Expr::SetComparison(SetComparison { subquery, .. }) => Some(subquery),
        _ => None,
    }
}

/// Returns a subquery with another plan.
pub(super) fn of_subquery(subquery: &Subquery, plan: LogicalPlan) -> Result<Subquery> {
    let outer_ref_columns = references(&plan)?.iter().map(Reference::as_outer).collect();
    Ok(Subquery { subquery: Arc::new(plan), outer_ref_columns, ..subquery.clone() })
}
