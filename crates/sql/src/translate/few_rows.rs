//! Answers over few rows of one table: a physical plan would take longer than they do.

use std::any::Any;
use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, AsArray, RecordBatch, RecordBatchOptions, UInt32Array};
use datafusion::arrow::compute::{
    SortColumn, SortOptions, filter_record_batch, lexsort_to_indices, take_record_batch,
};
use datafusion::common::{DFSchema, Result, plan_err};
use datafusion::datasource::{MemTable, source_as_provider};
use datafusion::logical_expr::{
    Expr, FetchType, Filter, Limit, LogicalPlan, Projection, SkipType, Sort, SortExpr, TableScan,
};
use tidemill_engine::Cut;

use crate::expressions::compiled::Compiled;
use crate::logical::as_key;

/// The most rows of the table.
const ROWS_MAX: usize = 1024;

/// The rows of a plan over a table in memory that has few rows, if the plan does no more than select, compute, sort and limit
/// them. `None`: DataFusion is to answer, and to say what is wrong if something is. Of rows that an order leaves equal, those come
/// first that came first before.
pub(super) fn answer(plan: &LogicalPlan) -> Option<RecordBatch> {
    rows_of(plan).ok().flatten()
}

fn rows_of(plan: &LogicalPlan) -> Result<Option<RecordBatch>> {
    let (input, step): (_, &dyn Fn(RecordBatch) -> Result<RecordBatch>) = match plan {
        LogicalPlan::TableScan(scan) => return scanned(scan),
        LogicalPlan::SubqueryAlias(alias) => return rows_of(&alias.input),
        LogicalPlan::Filter(filter) => (&filter.input, &|rows| selected(filter, &rows)),
        LogicalPlan::Projection(projection) => (&projection.input, &|rows| computed(projection, &rows)),
        LogicalPlan::Sort(sort) => (&sort.input, &|rows| sorted(sort, &rows)),
        LogicalPlan::Limit(limit) => {
            let Some((skip, fetch)) = bounds(limit) else { return Ok(None) };
            return Ok(rows_of(&limit.input)?.map(|rows| {
                let skip = skip.min(rows.num_rows());
                rows.slice(skip, fetch.min(rows.num_rows() - skip))
            }));
        }
        _ => return Ok(None),
    };
    rows_of(input)?.map(step).transpose()
}

fn scanned(scan: &TableScan) -> Result<Option<RecordBatch>> {
    let Ok(provider) = source_as_provider(&scan.source) else { return Ok(None) };
    let provider: &dyn Any = provider.as_ref();
    let Some(table) = provider.downcast_ref::<MemTable>() else { return Ok(None) };
    let [partition] = table.batches.as_slice() else { return Ok(None) };
    let Ok(batches) = partition.try_read() else { return Ok(None) };
    match batches.as_slice() {
        [rows] if rows.num_rows() <= ROWS_MAX && scan.filters.is_empty() && scan.fetch.is_none() => {
            Ok(Some(match &scan.projection {
                Some(columns) => rows.project(columns)?,
                None => rows.clone(),
            }))
        }
        _ => Ok(None),
    }
}

fn selected(filter: &Filter, rows: &RecordBatch) -> Result<RecordBatch> {
    let selected = values(&filter.predicate, filter.input.schema(), rows)?;
    match selected.as_boolean_opt() {
        Some(selected) => Ok(filter_record_batch(rows, selected)?),
        None => plan_err!("a condition is not a truth value"),
    }
}

fn computed(projection: &Projection, rows: &RecordBatch) -> Result<RecordBatch> {
    let columns =
        projection.expr.iter().map(|expression| values(expression, projection.input.schema(), rows));
    let options = RecordBatchOptions::new().with_row_count(Some(rows.num_rows()));
    let schema = Arc::clone(projection.schema.inner());
    Ok(RecordBatch::try_new_with_options(schema, columns.collect::<Result<_>>()?, &options)?)
}

fn sorted(sort: &Sort, rows: &RecordBatch) -> Result<RecordBatch> {
    let schema = sort.input.schema();
    let key = |SortExpr { expr, asc, nulls_first }: &SortExpr| {
        let values = values(&as_key(expr.clone(), schema), schema, rows)?;
        let options = SortOptions { descending: !asc, nulls_first: *nulls_first };
        Ok(SortColumn { values, options: Some(options) })
    };
    let mut keys = sort.expr.iter().map(key).collect::<Result<Vec<_>>>()?;
    let places = UInt32Array::from_iter_values(0..rows.num_rows() as u32);
    keys.push(SortColumn { values: Arc::new(places), options: None });
    Ok(take_record_batch(rows, &lexsort_to_indices(&keys, sort.fetch)?)?)
}

/// How many rows a LIMIT passes over, and how many it gives then.
fn bounds(limit: &Limit) -> Option<(usize, usize)> {
    let (Ok(SkipType::Literal(skip)), Ok(FetchType::Literal(fetch))) =
        (limit.get_skip_type(), limit.get_fetch_type())
    else {
        return None;
    };
    Some((skip, fetch.unwrap_or(usize::MAX)))
}

fn values(expression: &Expr, schema: &DFSchema, rows: &RecordBatch) -> Result<ArrayRef> {
    Compiled::new(expression, schema)?.values(rows, &Cut::first())
}
