//! GROUP BY over rows that come and go: the old row of a group that has changed goes, the new one comes.

use std::sync::Arc;

use datafusion::arrow::compute::SortOptions;
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::{Aggregate, Expr, LogicalPlan, lit};
use tidemill_operators::changes::{self, ChangingAggregateSpec, changelog_schema};
use tidemill_operators::{AggregateCall, AggregateSpec};

use super::changing;
use super::open_windows::with_sessions;
use super::ordered_aggregate::OrderedAggregate;
use crate::translate::aggregate_functions::{
    Call, aggregate_call, aggregate_function, call_of, describe, has_order, place,
};
use crate::translate::columns::schema_of;
use crate::translate::{Relation, Translator, refuse, user};

impl Translator {
    /// The groups of a relation, of which each has one row.
    pub(in crate::translate) fn changing_aggregate(
        &mut self,
        aggregate: &Aggregate,
        (input, input_plan): (Relation, &LogicalPlan),
        filters: &[Expr],
    ) -> Result<Relation> {
        let input = self.changelog(input)?;
        let schema = input_plan.schema();
        let input = with_sessions(self, input, schema, &aggregate.group_expr)?;
        let mut wanted: Vec<Expr> = Vec::new();
        let keys: Vec<usize> =
            aggregate.group_expr.iter().map(|expression| place(&mut wanted, expression)).collect();
        let partitions = self.partitions(keys.len());
        let groups_max = self.groups_max(partitions);
        let calls = aggregate.aggr_expr.iter().map(|expression| {
            if has_order(expression) {
                ordered_call(expression, schema, &mut wanted, groups_max)
            } else {
                aggregate_call(expression, schema, &mut wanted, groups_max)
            }
        });
        let calls: Vec<AggregateCall> = calls.collect::<Result<_>>()?;
        // Operators tell rows apart by their columns, so rows that are only counted need one as well.
        if wanted.is_empty() {
            wanted.push(lit(true));
        }
        let rows = self.compute(input, schema, filters, &wanted, None)?;
        let output = schema_of(&aggregate.schema);
        let spec = AggregateSpec {
            keys: keys.clone(),
            calls,
            names: output.fields().iter().map(|field| field.name().clone()).collect(),
            input: Arc::clone(&rows.schema),
            partial_input: false,
            groups_max,
        };
        let name = describe(&spec, "changes");
        let spec =
            ChangingAggregateSpec { spec, changes: rows.is_changing(), rows_max: self.rows_max(partitions) };
        changes::Aggregate::new(&spec).map_err(user)?;
        let written = changelog_schema(&output);
        let (failed, faults) = (self.failed_results.clone(), self.faults.clone());
        let stream = self.operator(&name, &[(rows.stream, keys)], partitions, written, move |_| {
            let groups = changes::Aggregate::new(&spec).expect("checked when it was planned");
            Box::new(groups.failed_results(failed.clone()).faults(faults.clone()))
        });
        Ok(changing(rows, stream, output))
    }
}

/// A call whose arguments have an order: the keys of the order come behind them.
fn ordered_call(
    expression: &Expr,
    schema: &DFSchema,
    wanted: &mut Vec<Expr>,
    values_max: usize,
) -> Result<AggregateCall> {
    let mut function = aggregate_function(expression)?;
    if function.params.distinct {
        return Err(refuse(
            format!("DISTINCT with ORDER BY in {} is not supported here", function.func.name()),
            "select the distinct rows in a sub-query of FROM",
        ));
    }
    let order = std::mem::take(&mut function.params.order_by);
    let filter = function.params.filter.as_deref().map(|filter| place(wanted, filter));
    let Call { function, arguments } = call_of(&function, schema, values_max)?;
    let keys = order.iter().map(|by| SortOptions { descending: !by.asc, nulls_first: by.nulls_first });
    let function = Arc::new(OrderedAggregate::new(function, keys.collect()));
    let arguments = arguments.iter().chain(order.iter().map(|by| &by.expr));
    let arguments = arguments.map(|argument| place(wanted, argument)).collect();
    Ok(AggregateCall { function, arguments, filter })
}
