//! `ORDER BY st_distance(point, ...) LIMIT n`: only the nearest rows are read.

use datafusion::common::tree_node::{Transformed, TransformedResult};
use datafusion::logical_expr::{Expr, FetchType, Limit, LogicalPlan, SkipType, SortExpr, TableScan};
use tidemill_store::StoreConfig;

use super::conditions::{Conditions, conditions_of, distance_to, without_alias};
use crate::relations::source_definition::scanned;
use tidemill_trees::nodes::Tree;

/// The rows of a scan that a query wants: the nearest to a point.
pub(super) struct Nearest {
    pub to: (f64, f64),
    pub rows_max: usize,
    pub conditions: Conditions,
}

/// The nearest rows that a LIMIT asks for, and the scan that reads them. `None` if it asks for something else.
pub(super) fn nearest_of(limit: &Limit) -> Option<(Nearest, &TableScan)> {
    let (Ok(SkipType::Literal(skip)), Ok(FetchType::Literal(Some(fetch)))) =
        (limit.get_skip_type(), limit.get_fetch_type())
    else {
        return None;
    };
    let mut plan = limit.input.as_ref();
    while let LogicalPlan::Projection(projection) = plan {
        plan = &projection.input;
    }
    let LogicalPlan::Sort(sort) = plan else { return None };
    let [SortExpr { expr, asc: true, nulls_first: false }] = sort.expr.as_slice() else { return None };
    let mut by = expr.clone();
    let mut plan = sort.input.as_ref();
    loop {
        match plan {
            LogicalPlan::Projection(projection) => {
                by = below(by, &projection.expr, plan)?;
                plan = &projection.input;
            }
            LogicalPlan::SubqueryAlias(alias) => {
                let columns = alias.input.schema().columns();
                by = below(by, &columns.into_iter().map(Expr::Column).collect::<Vec<_>>(), plan)?;
                plan = &alias.input;
            }
            _ => break,
        }
    }
    let (condition, scan) = match plan {
        LogicalPlan::Filter(filter) => match filter.input.as_ref() {
            LogicalPlan::TableScan(scan) => (Some(&filter.predicate), scan),
            _ => return None,
        },
        LogicalPlan::TableScan(scan) => (None, scan),
        _ => return None,
    };
    let source = scanned(scan.source.as_ref())?;
    let (config, divider) = source.definition.searched()?;
    config.point?;
    let conditions = conditions_of(condition, config, divider);
    let to = distance_of(&by, config)?;
    // A condition that is tested afterwards would leave too few.
    conditions.is_exact.then_some((Nearest { to, rows_max: skip.saturating_add(fetch), conditions }, scan))
}

fn distance_of(by: &Expr, config: &StoreConfig) -> Option<(f64, f64)> {
    let Expr::ScalarFunction(call) = without_alias(by) else { return None };
    if call.func.name() != "st_distance" {
        return None;
    }
    distance_to(&call.args, config)
}

/// The expression over the input of a plan whose columns are these expressions.
fn below(by: Expr, columns: &[Expr], plan: &LogicalPlan) -> Option<Expr> {
    let replaced = by.rewrite_up(|part| {
        let Expr::Column(column) = &part else { return Ok(Transformed::no(part)) };
        let Some(at) = plan.schema().maybe_index_of_column(column) else { return Ok(Transformed::no(part)) };
        Ok(Transformed::yes(without_alias(&columns[at]).clone()))
    });
    replaced.data().ok()
}
