//! Which versions a query reads: one of each store, however often it names it, and all at one cycle.

use std::sync::Arc;

use datafusion::arrow::datatypes::DataType;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNodeRecursion};
use datafusion::common::{DataFusionError, Result, ScalarValue};
use datafusion::logical_expr::{LogicalPlan, TableSource};
use tidemill_engine::Cause;
use tidemill_store::{StoreReader, Version};

use super::one_cycle::versions_at_one_cycle;
use crate::logical::tree::PlanTree;
use crate::refusal::refuse;
use crate::relations::source_definition::{ScannedSource, SourceDefinition, scanned};
use crate::relations::stored_rows::StoredRows;
use crate::statement::AsOf;

/// The plan over the newest cycle that all views have which it names.
pub(crate) fn same_versions(plan: LogicalPlan) -> Result<LogicalPlan> {
    let stores = stores_of(&plan)?;
    let versions = versions_at_one_cycle(&stores);
    let version = |stored: &StoredRows| {
        let known = stores.iter().zip(&versions).find(|(known, _)| known.reader().is_of(stored.reader()));
        let version = known.map_or_else(|| stored.version(), |(_, version)| version.clone());
        version.map_err(|cause| DataFusionError::External(cause.into()))
    };
    at_versions(plan, version).map(|(plan, _)| plan)
}

/// The stores that a plan names, each once.
fn stores_of(plan: &LogicalPlan) -> Result<Vec<StoredRows>> {
    let mut stores: Vec<StoredRows> = Vec::new();
    plan.look_through_with_subqueries(|node| {
        if let LogicalPlan::TableScan(scan) = node
            && let Some(source) = scanned(scan.source.as_ref())
            && let Some(stored) = &source.definition.stored
            && !stores.iter().any(|known| known.reader().is_of(stored.reader()))
        {
            stores.push(stored.clone());
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(stores)
}

/// The stores of these views at one cycle, for all queries of a transaction.
pub(crate) fn pinned(stores: &[StoredRows]) -> Vec<StoredRows> {
    let versions = versions_at_one_cycle(stores);
    stores.iter().zip(versions).map(|(stored, version)| stored.at(version)).collect()
}

/// The plan over earlier versions. The plan as written says what is read, even if no row can meet the conditions.
pub(crate) fn earlier_rows(written: LogicalPlan, plan: LogicalPlan, as_of: &AsOf) -> Result<LogicalPlan> {
    let earlier = |plan| at_versions(plan, |stored| version_of(stored, as_of));
    let (_, stores) = earlier(written)?;
    let (plan, _) = earlier(plan)?;
    match stores {
        0 => Err(refuse(
            "AS OF in a query that reads no materialized view that runs",
            "remove AS OF, or start the view and name it in FROM",
        )),
        _ => Ok(plan),
    }
}

fn version_of(stored: &StoredRows, as_of: &AsOf) -> Result<Version> {
    let reader = stored.reader();
    let failed = |cause: Cause| DataFusionError::External(cause.into());
    match as_of {
        AsOf::Cycle(cycle) if has_nothing_until(stored, *cycle) => {
            reader.before_cycle(cycle.saturating_add(1)).map_err(failed)
        }
        AsOf::Cycle(cycle) => reader.as_of_cycle(*cycle).map_err(failed),
        AsOf::Time(text) => {
            let Some(column) = reader.config().time else {
                return Err(refuse(
                    "AS OF a time in a view whose rows have no event time",
                    "write AS OF CYCLE n, or name the column with the time: WITH (time = 'column')",
                ));
            };
            let data_type = reader.config().schema.field(column).data_type();
            let time = ScalarValue::from(text.as_str()).cast_to(data_type)?.cast_to(&DataType::Int64)?;
            match time {
                ScalarValue::Int64(Some(time)) => {
                    reader.as_of_time(time).map_err(|cause| failed(readable(cause, reader)))
                }
                _ => Err(refuse(
                    format!("'{text}' is not a time"),
                    "write AS OF TIMESTAMP '2026-01-31 12:00:00'",
                )),
            }
        }
    }
}

/// Whether this cycle of the database comes after the last one with rows of a view's sources, and no other is to come before it: then
/// the view is the same as after that last one.
fn has_nothing_until(stored: &StoredRows, cycle: u64) -> bool {
    let newest = stored.reader().cycles().map(|(_, newest)| newest);
    // Of a view whose query has ended, it is not known at which cycle.
    let reached = stored.clock().reached(stored.reader());
    newest.is_some_and(|newest| cycle > newest) && cycle < reached && reached < u64::MAX
}

/// The store says times in its own units.
fn readable(cause: Cause, reader: &StoreReader) -> Cause {
    let earliest = reader.cycles().map(|(oldest, newest)| {
        format!(
            "the rows of that time are no longer kept, or have not arrived yet; the cycles {oldest} to {newest} can be \
             read: AS OF CYCLE {oldest}"
        )
    });
    earliest.map_or(cause, Cause::user)
}

/// The plan with each store at one version, and the number of stores.
fn at_versions(
    plan: LogicalPlan,
    version: impl Fn(&StoredRows) -> Result<Version>,
) -> Result<(LogicalPlan, usize)> {
    let mut chosen: Vec<(StoreReader, Version)> = Vec::new();
    let plan = plan.rewrite_down_with_subqueries(|node| {
        let LogicalPlan::TableScan(scan) = &node else { return Ok(Transformed::no(node)) };
        let Some(source) = scanned(scan.source.as_ref()) else { return Ok(Transformed::no(node)) };
        let Some(stored) = &source.definition.stored else { return Ok(Transformed::no(node)) };
        let known = chosen.iter().find(|(reader, _)| reader.is_of(stored.reader()));
        let version = match known {
            Some((_, version)) => version.clone(),
            None => {
                let version = version(stored)?;
                chosen.push((stored.reader().clone(), version.clone()));
                version
            }
        };
        let stored = Some(stored.at(Ok(version)));
        let definition = Arc::new(SourceDefinition { stored, ..source.definition.as_ref().clone() });
        let mut scan = scan.clone();
        scan.source = Arc::new(ScannedSource { definition, late: source.late }) as Arc<dyn TableSource>;
        Ok(Transformed::yes(LogicalPlan::TableScan(scan)))
    });
    Ok((plan.data()?, chosen.len()))
}
