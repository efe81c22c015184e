//! Puts the rows that a query needs in the place of the stores that it reads.

use std::fmt;
use std::sync::Arc;

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::compute::concat_batches;
use datafusion::common::tree_node::{Transformed, TransformedResult};
use datafusion::common::{DataFusionError, Result};
use datafusion::datasource::{MemTable, provider_as_source};
use datafusion::logical_expr::{Expr, Filter, LogicalPlan, LogicalPlanBuilder, TableScan};
use tidemill_engine::Cause;
use tidemill_store::{Pause, SelectedRows, Selection, Version, Work};

use super::conditions::conditions_of;
use super::nearest::{Nearest, nearest_of};
use crate::logical::tree::Tree;
use crate::relations::source_definition::scanned;
use crate::relations::stored_rows::StoredRows;
use crate::turns::{Turn, turn_refused};

/// What was read of a store.
#[derive(Clone, Debug)]
pub(crate) struct FoundRows {
    /// The name of the view.
    pub name: String,
    /// The cycle after which its rows are read.
    pub cycle: Option<u64>,
    /// Whether only the nearest rows were looked for.
    pub is_nearest: bool,
    pub work: Work,
}

impl fmt::Display for FoundRows {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cycle =
            self.cycle.map_or("before the first cycle".to_owned(), |cycle| format!("as of cycle {cycle}"));
        let nearest = if self.is_nearest { ", nearest rows only" } else { "" };
        write!(formatter, "view {} {cycle}: {}{nearest}", self.name, self.work)
    }
}

/// The plan over rows in memory instead of stores, with what was read of each.
///
/// It pauses between the chunks of a store.
pub(crate) fn with_found_rows(
    plan: LogicalPlan,
    reads: &mut Vec<FoundRows>,
    turn: &mut dyn Turn,
) -> Result<LogicalPlan> {
    plan.rewrite_down(|node| match &node {
        LogicalPlan::Limit(limit) => {
            let Some((nearest, scan)) = nearest_of(limit) else { return Ok(Transformed::no(node)) };
            match nearest_rows(&nearest, scan, turn)? {
                Some((rows, read)) => {
                    reads.push(read);
                    Ok(Transformed::yes(with_rows_in_scan(node.clone(), &rows)?))
                }
                None => Ok(Transformed::no(node)),
            }
        }
        LogicalPlan::Filter(filter) => {
            let LogicalPlan::TableScan(scan) = filter.input.as_ref() else {
                return Ok(Transformed::no(node));
            };
            let Some(rows) = selected_rows(scan, Some(&filter.predicate), reads, turn)? else {
                return Ok(Transformed::no(node));
            };
            let filter = Filter::try_new(filter.predicate.clone(), Arc::new(rows))?;
            Ok(Transformed::yes(LogicalPlan::Filter(filter)))
        }
        LogicalPlan::TableScan(scan) => {
            Ok(selected_rows(scan, None, reads, turn)?.map_or(Transformed::no(node), Transformed::yes))
        }
        _ => Ok(Transformed::no(node)),
    })
    .data()
}

/// The rows of a store that a condition may select, as a scan; `None` if the scan is not of a store.
fn selected_rows(
    scan: &TableScan,
    condition: Option<&Expr>,
    reads: &mut Vec<FoundRows>,
    turn: &mut dyn Turn,
) -> Result<Option<LogicalPlan>> {
    let Some((stored, version)) = store_of(scan)? else { return Ok(None) };
    let name = stored.name().to_owned();
    let selection = Selection {
        columns: scan.projection.clone(),
        ..conditions_of(condition, version.config(), stored.divider()).selection
    };
    let found = with_pauses(&name, turn, |pause| version.select_with_pauses(&selection, pause))?;
    reads.push(FoundRows { name, cycle: version.cycle(), is_nearest: false, work: found.work });
    scan_of_found(scan, &version, found).map(Some)
}

/// The nearest rows of a store; `None` if there are too few, because rows without a point come after them.
fn nearest_rows(
    nearest: &Nearest,
    scan: &TableScan,
    turn: &mut dyn Turn,
) -> Result<Option<(LogicalPlan, FoundRows)>> {
    let Some((stored, version)) = store_of(scan)? else { return Ok(None) };
    let name = stored.name().to_owned();
    let selection = Selection { columns: scan.projection.clone(), ..nearest.conditions.selection.clone() };
    let found = with_pauses(&name, turn, |pause| {
        version.nearest_with_pauses(nearest.to, nearest.rows_max, &selection, pause)
    })?;
    if found.work.rows_found < nearest.rows_max as u64 {
        return Ok(None);
    }
    let read = FoundRows { name, cycle: version.cycle(), is_nearest: true, work: found.work };
    Ok(Some((scan_of_found(scan, &version, found)?, read)))
}

/// What a search of a view finds. If its turn ends meanwhile, that is the error.
fn with_pauses(
    name: &str,
    turn: &mut dyn Turn,
    search: impl FnOnce(&mut Pause<'_>) -> Result<SelectedRows, Cause>,
) -> Result<SelectedRows> {
    let mut refused = None;
    let found = search(&mut || turn.go_on().inspect_err(|cause| refused = Some(cause.clone())));
    match refused {
        Some(cause) => Err(turn_refused(cause)),
        None => found.map_err(|cause| failed(name, cause)),
    }
}

fn store_of(scan: &TableScan) -> Result<Option<(StoredRows, Version)>> {
    let Some(source) = scanned(scan.source.as_ref()) else { return Ok(None) };
    let Some(stored) = &source.definition.stored else { return Ok(None) };
    let version = stored.version().map_err(|cause| failed(stored.name(), cause))?;
    Ok(Some((stored.clone(), version)))
}

/// A scan of the rows that were found, with the columns that were asked for.
fn scan_of_found(scan: &TableScan, version: &Version, found: SelectedRows) -> Result<LogicalPlan> {
    let schema = match &scan.projection {
        Some(columns) => Arc::new(version.schema().project(columns)?),
        None => version.schema(),
    };
    // One batch, so that rows keep their order.
    let rows: RecordBatch = match found.batches.as_slice() {
        [one] => one.clone(),
        several => concat_batches(&schema, several)?,
    };
    let table = MemTable::try_new(schema, vec![vec![rows]])?;
    LogicalPlanBuilder::scan(scan.table_name.clone(), provider_as_source(Arc::new(table)), None)?.build()
}

/// The plan with these rows in the place of its only store.
fn with_rows_in_scan(plan: LogicalPlan, rows: &LogicalPlan) -> Result<LogicalPlan> {
    plan.rewrite_up(|node| {
        let LogicalPlan::TableScan(scan) = &node else { return Ok(Transformed::no(node)) };
        match store_of(scan)? {
            Some(_) => Ok(Transformed::yes(rows.clone())),
            None => Ok(Transformed::no(node)),
        }
    })
    .data()
}

fn failed(name: &str, cause: Cause) -> DataFusionError {
    DataFusionError::External(format!("view '{name}': {cause}").into())
}
