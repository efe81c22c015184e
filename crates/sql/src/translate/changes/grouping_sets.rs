//! GROUPING SETS, ROLLUP and CUBE: an aggregate for each set, all of them together.

use datafusion::common::{Column, Result, ScalarValue};
use datafusion::functions_aggregate::expr_fn::count;
use datafusion::logical_expr::{Aggregate, Expr, GroupingSet, LogicalPlan, LogicalPlanBuilder, lit};

use crate::translate::columns::schema_of;
use crate::translate::{Relation, Translator, refuse};

impl Translator {
    /// The groups of all sets. A column that is not part of a set is NULL in its groups, and the column behind those of the groups says which
    /// columns these are, for `grouping()`: a bit for each, that of the first column the highest.
    pub(in crate::translate) fn grouping_sets(
        &mut self,
        aggregate: &Aggregate,
        sets: &GroupingSet,
    ) -> Result<Relation> {
        let all: Vec<Expr> = sets.distinct_expr().into_iter().cloned().collect();
        let mut union: Option<LogicalPlanBuilder> = None;
        for set in sets_of(sets) {
            let part = LogicalPlanBuilder::from(groups_of(aggregate, &all, set)?);
            union = Some(match union {
                None => part,
                Some(others) => others.union(part.build()?)?,
            });
        }
        let union = union.ok_or_else(|| refuse("GROUPING SETS without a set", "write at least one set"))?;
        let groups = self.output(&union.build()?)?;
        Ok(Relation { schema: schema_of(&aggregate.schema), ..groups })
    }
}

fn sets_of(sets: &GroupingSet) -> Vec<Vec<Expr>> {
    match sets {
        GroupingSet::GroupingSets(sets) => sets.clone(),
        GroupingSet::Rollup(columns) => {
            (0..=columns.len()).rev().map(|end| columns[..end].to_vec()).collect()
        }
        GroupingSet::Cube(columns) => {
            let chosen = |mask: usize| {
                let bits = columns.iter().enumerate().filter(|(bit, _)| mask & (1 << bit) == 0);
                bits.map(|(_, column)| column.clone()).collect()
            };
            (0..1_usize << columns.len()).map(chosen).collect()
        }
    }
}

/// The groups of one set, with the columns of all.
fn groups_of(aggregate: &Aggregate, all: &[Expr], set: Vec<Expr>) -> Result<LogicalPlan> {
    // All rows are one group, also if there is none and nothing is computed of it.
    let is_all = set.is_empty() && aggregate.aggr_expr.is_empty();
    let results = if is_all { vec![count(lit(1_i64))] } else { aggregate.aggr_expr.clone() };
    let groups = Aggregate::try_new(aggregate.input.clone(), set.clone(), results)?;
    let (schema, named) = (groups.schema.clone(), &aggregate.schema);
    let column = |place: usize| Expr::Column(Column::from(schema.qualified_field(place)));
    let name = |place: usize| format!("{place} {}", named.field(place).name());
    let mut missing = 0_u64;
    let mut columns = Vec::new();
    for (index, expression) in all.iter().enumerate() {
        missing <<= 1;
        let value = match set.iter().position(|member| member == expression) {
            Some(place) => column(place),
            None => {
                missing |= 1;
                Expr::Literal(ScalarValue::try_from(named.field(index).data_type())?, None)
            }
        };
        columns.push(value.alias(name(index)));
    }
    let which = ScalarValue::UInt64(Some(missing)).cast_to(named.field(all.len()).data_type())?;
    columns.push(Expr::Literal(which, None).alias(name(all.len())));
    let results = (0..aggregate.aggr_expr.len())
        .map(|index| column(set.len() + index).alias(name(all.len() + 1 + index)));
    columns.extend(results);
    LogicalPlanBuilder::from(LogicalPlan::Aggregate(groups)).project(columns)?.build()
}
