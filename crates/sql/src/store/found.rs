//! Puts the rows that a query needs in the place of the stores that it reads.

use std::fmt;
use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TransformedResult};
use datafusion::datasource::{MemTable, provider_as_source};
use datafusion::logical_expr::{Expr, Filter, LogicalPlan, LogicalPlanBuilder, TableScan};
use tidemill_engine::bytes_of_rows;
use tidemill_store::{SelectedRows, Selection, StoreReader, Work};

use super::conditions::conditions_of;
use super::nearest::{Nearest, nearest_of};
use super::searched::{Reader, Searched};
use crate::relations::source_definition::scanned;
use tidemill_trees::nodes::Tree;

/// What was read of a store.
#[derive(Clone, Debug)]
pub(crate) struct FoundRows {
    /// The name of the view.
    pub name: String,
    /// The cycles after which its rows are read, for people.
    pub as_of: String,
    /// Whether only the nearest rows were looked for.
    pub is_nearest: bool,
    pub work: Work,
    /// What it may hold of a store of this process.
    shared: Option<SharedRows>,
}

/// Rows that a query shares with a store, until the store drops or replaces them.
#[derive(Clone)]
struct SharedRows {
    reader: StoreReader,
    /// How many rows had been stored when they were found.
    end: u64,
    rows: u64,
    bytes: u64,
}

impl fmt::Debug for SharedRows {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} rows of {} bytes", self.rows, self.bytes)
    }
}

impl FoundRows {
    fn new(searched: &Searched, is_nearest: bool, found: &SelectedRows) -> FoundRows {
        let shared = searched.here().map(|(reader, version)| SharedRows {
            reader: reader.clone(),
            end: version.end(),
            rows: found.batches.iter().map(|batch| batch.num_rows() as u64).sum(),
            bytes: found.batches.iter().map(|batch| bytes_of_rows(batch) as u64).sum(),
        });
        FoundRows {
            name: searched.name().to_owned(),
            as_of: searched.as_of(),
            is_nearest,
            work: found.work,
            shared,
        }
    }

    /// At most how many bytes of these rows the store does not have any more: for each row that it has stored since, it may have
    /// dropped or replaced one.
    pub fn outlived_bytes(&self) -> u64 {
        let Some(shared) = self.shared.as_ref().filter(|shared| shared.rows > 0) else { return 0 };
        let stored_since = shared.reader.latest().end().saturating_sub(shared.end).min(shared.rows);
        (u128::from(shared.bytes) * u128::from(stored_since) / u128::from(shared.rows)) as u64
    }
}

impl fmt::Display for FoundRows {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nearest = if self.is_nearest { ", nearest rows only" } else { "" };
        write!(formatter, "view {} {}: {}{nearest}", self.name, self.as_of, self.work)
    }
}

/// The plan over rows in memory instead of stores, with what was read of each.
///
/// It pauses between the chunks of a store. Rows that it copies count in `memory`.
pub(crate) fn with_found_rows(
    plan: LogicalPlan,
    reads: &mut Vec<FoundRows>,
    reader: &mut Reader<'_>,
) -> Result<LogicalPlan> {
    plan.rewrite_down(|node| match &node {
        LogicalPlan::Limit(limit) => {
            let Some((nearest, scan)) = nearest_of(limit) else { return Ok(Transformed::no(node)) };
            match nearest_rows(&nearest, scan, reader)? {
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
            let Some(rows) = selected_rows(scan, Some(&filter.predicate), reads, reader)? else {
                return Ok(Transformed::no(node));
            };
            let filter = Filter::try_new(filter.predicate.clone(), Arc::new(rows))?;
            Ok(Transformed::yes(LogicalPlan::Filter(filter)))
        }
        LogicalPlan::TableScan(scan) => {
            Ok(selected_rows(scan, None, reads, reader)?.map_or(Transformed::no(node), Transformed::yes))
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
    reader: &mut Reader<'_>,
) -> Result<Option<LogicalPlan>> {
    let Some(searched) = Searched::by(scan, reader)? else { return Ok(None) };
    let selection = Selection {
        columns: scan.projection.clone(),
        ..conditions_of(condition, searched.config(), searched.divider()).selection
    };
    let found = searched.select(&selection, reader)?;
    reads.push(FoundRows::new(&searched, false, &found));
    scan_of_found(scan, &searched, found).map(Some)
}

/// The nearest rows of a store; `None` if there are too few, because rows without a point come after them.
fn nearest_rows(
    nearest: &Nearest,
    scan: &TableScan,
    reader: &mut Reader<'_>,
) -> Result<Option<(LogicalPlan, FoundRows)>> {
    let Some(searched) = Searched::by(scan, reader)? else { return Ok(None) };
    let selection = Selection { columns: scan.projection.clone(), ..nearest.conditions.selection.clone() };
    let found = searched.nearest(nearest.to, nearest.rows_max, &selection, reader)?;
    if found.work.rows_found < nearest.rows_max as u64 {
        return Ok(None);
    }
    let read = FoundRows::new(&searched, true, &found);
    Ok(Some((scan_of_found(scan, &searched, found)?, read)))
}

/// A scan of the rows that were found, with the columns that were asked for.
fn scan_of_found(scan: &TableScan, searched: &Searched, found: SelectedRows) -> Result<LogicalPlan> {
    let schema = match &scan.projection {
        Some(columns) => Arc::new(searched.schema().project(columns)?),
        None => searched.schema(),
    };
    // One partition, so that rows keep their order. They are not copied into one batch: most are shared with the store.
    let table = MemTable::try_new(schema, vec![found.batches])?;
    LogicalPlanBuilder::scan(scan.table_name.clone(), provider_as_source(Arc::new(table)), None)?.build()
}

/// The plan with these rows in the place of its only store.
fn with_rows_in_scan(plan: LogicalPlan, rows: &LogicalPlan) -> Result<LogicalPlan> {
    plan.rewrite_up(|node| {
        let LogicalPlan::TableScan(scan) = &node else { return Ok(Transformed::no(node)) };
        match scanned(scan.source.as_ref()).and_then(|source| source.definition.searched()) {
            Some(_) => Ok(Transformed::yes(rows.clone())),
            None => Ok(Transformed::no(node)),
        }
    })
    .data()
}
