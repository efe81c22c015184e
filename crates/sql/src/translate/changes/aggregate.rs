//! GROUP BY over rows that come and go: the old row of a group that has changed goes, the new one comes.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::logical_expr::{Aggregate, Expr, LogicalPlan, lit};
use tidemill_operators::changes::{self, ChangingAggregateSpec, changelog_schema};
use tidemill_operators::{AggregateCall, AggregateSpec};

use super::changing;
use crate::translate::aggregate_functions::{aggregate_call, describe, place};
use crate::translate::columns::schema_of;
use crate::translate::{Relation, Translator, user};

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
        let mut wanted: Vec<Expr> = Vec::new();
        let keys: Vec<usize> =
            aggregate.group_expr.iter().map(|expression| place(&mut wanted, expression)).collect();
        let partitions = self.partitions(keys.len());
        let values_max = self.groups_max(partitions);
        let calls = aggregate
            .aggr_expr
            .iter()
            .map(|expression| aggregate_call(expression, schema, &mut wanted, values_max));
        let calls: Vec<AggregateCall> = calls.collect::<Result<_>>()?;
        // Rows are told apart by their columns, so that those that are merely counted have one, too.
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
            groups_max: self.groups_max(partitions),
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
