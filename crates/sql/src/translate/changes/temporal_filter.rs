//! Conditions on `now()`: a row comes in and leaves while time passes.

use std::sync::Arc;

use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::utils::{conjunction, split_conjunction};
use datafusion::logical_expr::{Expr, Filter, Join, JoinType, LogicalPlan};
use tidemill_engine::Expression;
use tidemill_operators::changes::{TemporalFilter, TemporalFilterSpec, changelog_schema};

use super::changing;
use crate::expressions::compiled::Compiled;
use crate::expressions::or_null::OrNull;
use crate::logical::{KEPT_TRUE, moments, reads_clock, without_lengths};
use crate::translate::columns::spread;
use crate::translate::{Relation, Translator, column_at, refuse, user};

/// Divides conditions into those on `now()` and others.
fn on_the_clock(filters: &[Expr]) -> Result<(Vec<Expr>, Vec<Expr>)> {
    let (mut clock, mut others) = (Vec::new(), Vec::new());
    for condition in filters.iter().flat_map(split_conjunction) {
        let part = if reads_clock(condition)? { &mut clock } else { &mut others };
        part.push(condition.clone());
    }
    Ok((clock, others))
}

/// The rows of a relation while conditions on `now()` are true. They are kept as long as that may change.
fn while_true(
    translator: &mut Translator,
    relation: Relation,
    schema: &DFSchema,
    conditions: Vec<Expr>,
) -> Result<Relation> {
    let relation = translator.with_known_bounds(relation, schema)?;
    let relation = translator.changelog(relation)?;
    let Some(condition) = conjunction(conditions) else { return Ok(relation) };
    let moments = moments(&condition, schema)?;
    let compiled = moments.iter().map(|moment| {
        Ok(Arc::new(OrNull::value(Compiled::new(&moment.instant(), schema)?)) as Arc<dyn Expression>)
    });
    let partitions = translator.limits.partitions;
    let spec = TemporalFilterSpec {
        schema: Arc::clone(&relation.schema),
        changes: relation.is_changing(),
        moments: compiled.collect::<Result<_>>()?,
        condition: Arc::new(OrNull::condition(Compiled::new(&condition, schema)?, translator.faults.clone())),
        rows_max: translator.rows_max(partitions),
    };
    TemporalFilter::new(spec.clone()).map_err(user)?;
    let mut until: Vec<&str> = moments.iter().map(|moment| moment.text.as_str()).collect();
    until.dedup();
    let name = format!(
        "while {}; keeps rows until {}",
        without_lengths(condition.clone())?,
        until.join(" and until ")
    );
    let written = changelog_schema(&relation.schema);
    let inputs = [(relation.stream, spread(&relation.schema))];
    let faults = translator.faults.clone();
    let stream = translator.operator(&name, &inputs, partitions, written, move |_| {
        let filter = TemporalFilter::new(spec.clone()).expect("checked when it was planned");
        Box::new(filter.faults(faults.clone()))
    });
    if let Some(operator) = translator.plan.operators.last_mut() {
        operator.has_clock_timers = true;
    }
    let schema = Arc::clone(&relation.schema);
    Ok(changing(relation, stream, schema))
}

/// A join of which conditions on `now()` stand behind it; `None` if it has none, or only rows that come are wanted.
pub(super) fn join_while_true(translator: &mut Translator, join: &Join) -> Result<Option<Relation>> {
    let (clock, others) = on_the_clock(join.filter.as_slice())?;
    let Some(condition) = conjunction(clock).filter(|_| translator.takes_changes) else { return Ok(None) };
    if join.join_type != JoinType::Inner {
        return Err(refuse(
            "now() advances, and a condition on it in a join of this kind concerns both sides",
            KEPT_TRUE,
        ));
    }
    let joined = Join { filter: conjunction(others), ..join.clone() };
    let filter = Filter::try_new(condition, Arc::new(LogicalPlan::Join(joined)))?;
    translator.filter(&filter).map(Some)
}

/// The rows of a relation for which other conditions hold, while those on `now()` are true; `None` if there is none on `now()`.
pub(super) fn filtered_while_true(
    translator: &mut Translator,
    relation: &Relation,
    schema: &DFSchema,
    filters: &[Expr],
) -> Result<Option<Relation>> {
    let (clock, others) = on_the_clock(filters)?;
    if clock.is_empty() || !translator.takes_changes {
        return Ok(None);
    }
    let all: Vec<Expr> = (0..schema.fields().len()).map(|index| column_at(schema, index)).collect();
    let rows = translator.compute(relation.clone(), schema, &others, &all, Some(schema))?;
    while_true(translator, rows, schema, clock).map(Some)
}
