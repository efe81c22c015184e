//! Answers over few rows of one table: a physical plan would take longer than they do.

use std::any::Any;
use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, AsArray, RecordBatch, RecordBatchOptions, UInt32Array};
use datafusion::arrow::compute::{
    SortColumn, SortOptions, concat_batches, filter_record_batch, lexsort_to_indices, take_record_batch,
};
use datafusion::catalog::TableProvider;
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
    let rows: usize = batches.iter().map(RecordBatch::num_rows).sum();
    if rows > ROWS_MAX || !scan.filters.is_empty() || scan.fetch.is_some() {
        return Ok(None);
    }
    // A store gives the rows of each chunk by themselves, and none if there are none. One batch is not copied.
    let rows = concat_batches(&table.schema(), batches.iter())?;
    Ok(Some(match &scan.projection {
        Some(columns) => rows.project(columns)?,
        None => rows,
    }))
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

#[cfg(test)]
mod tests {
    use datafusion::arrow::array::Int64Array;
    use datafusion::arrow::datatypes::{DataType, Field, Int64Type, Schema};
    use datafusion::datasource::provider_as_source;
    use datafusion::logical_expr::{LogicalPlanBuilder, col, lit};

    use super::*;

    /// The even rows of a table with these batches.
    fn even(batches: &[&[i64]]) -> Option<Vec<i64>> {
        let schema = Arc::new(Schema::new(vec![Field::new("n", DataType::Int64, false)]));
        let batch = |rows: &&[i64]| {
            let rows: ArrayRef = Arc::new(Int64Array::from(rows.to_vec()));
            RecordBatch::try_new(Arc::clone(&schema), vec![rows]).unwrap()
        };
        let batches = batches.iter().map(batch).collect();
        let table = MemTable::try_new(Arc::clone(&schema), vec![batches]).unwrap();
        let scan = LogicalPlanBuilder::scan("t", provider_as_source(Arc::new(table)), None).unwrap();
        let plan = scan.filter((col("n") % lit(2_i64)).eq(lit(0_i64))).unwrap().build().unwrap();
        answer(&plan).map(|rows| rows.column(0).as_primitive::<Int64Type>().values().to_vec())
    }

    #[test]
    fn rows_of_several_chunks_and_of_none_are_few_too() {
        assert_eq!(even(&[&[1, 2], &[], &[4, 5, 6]]), Some(vec![2, 4, 6]));
        assert_eq!(even(&[]), Some(Vec::new()));
        let many: Vec<i64> = (0..=ROWS_MAX as i64).collect();
        assert_eq!(even(&[&many[..500], &many[500..]]), None);
    }
}
