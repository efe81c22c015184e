//! Tables that do not change while a query runs: read once and completely, then computed by DataFusion.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use datafusion::arrow::compute::concat_batches;
use datafusion::arrow::datatypes::{DataType, Float32Type, Float64Type};
use datafusion::arrow::row::{RowConverter, SortField};
use datafusion::arrow::util::display::array_value_to_string;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{DataFusionError, Result, ScalarValue, TableReference};
use datafusion::datasource::{MemTable, provider_as_source};
use datafusion::execution::context::{SessionConfig, SessionContext};
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder};
use tidemill_engine::{Cut, Expression, Polled};

use super::refuse;
use crate::definition::{SourceDefinition, scanned};
use crate::expression::Compiled;

/// The most rows that a table may have.
const TABLE_ROWS_MAX: usize = 50_000_000;

/// Whether a plan reads only tables.
pub(crate) fn is_static(plan: &LogicalPlan) -> bool {
    all_scans(plan, |definition| definition.is_table)
}

/// Whether a plan could be read as a table: it ends, and has no event time.
pub(super) fn could_be_static(plan: &LogicalPlan) -> bool {
    all_scans(plan, |definition| {
        definition.is_table
            || (definition.is_finite && definition.is_repeatable && definition.event_time.is_none())
    })
}

fn all_scans(plan: &LogicalPlan, wanted: impl Fn(&SourceDefinition) -> bool) -> bool {
    let mut all = true;
    let _ = plan.apply_with_subqueries(|node| {
        match node {
            LogicalPlan::TableScan(scan) => {
                all &= scanned(scan.source.as_ref()).is_some_and(|source| wanted(&source.definition));
            }
            LogicalPlan::Extension(_) => all = false,
            _ => {}
        }
        Ok(TreeNodeRecursion::Continue)
    });
    all
}

/// The rows of a plan that reads only tables.
pub(crate) fn read_static(plan: &LogicalPlan) -> Result<RecordBatch> {
    let in_memory = plan.clone().transform_up(|node| {
        let LogicalPlan::TableScan(scan) = &node else { return Ok(Transformed::no(node)) };
        let Some(source) = scanned(scan.source.as_ref()) else { return Ok(Transformed::no(node)) };
        let rows = read(&source.definition)?;
        let scan = scan_of(scan.table_name.clone(), rows, scan.projection.clone())?;
        Ok(Transformed::yes(scan.build()?))
    });
    batch_answer(in_memory.data()?)
}

/// A scan of rows in memory.
pub(crate) fn scan_of(
    name: TableReference,
    rows: RecordBatch,
    projection: Option<Vec<usize>>,
) -> Result<LogicalPlanBuilder> {
    let table = MemTable::try_new(rows.schema(), vec![vec![rows]])?;
    LogicalPlanBuilder::scan(name, provider_as_source(Arc::new(table)), projection)
}

/// DataFusion's answer to a plan over tables in memory.
pub(crate) fn batch_answer(plan: LogicalPlan) -> Result<RecordBatch> {
    let plan = crate::logical::with_distinct_keys(with_time_of_day(plan)?)?;
    let plan = crate::distinct_arguments::in_plan(plan)?;
    let plan = crate::logical::for_batch(plan)?;
    let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    let schema = Arc::new(plan.schema().as_arrow().clone());
    let rows = runtime.block_on(async {
        let frame = context().execute_logical_plan(plan).await?;
        frame.collect().await
    })?;
    let schema = rows.first().map_or(schema, RecordBatch::schema);
    Ok(concat_batches(&schema, &rows)?)
}

/// One partition, so that rows come in one order in every run.
fn context() -> SessionContext {
    SessionContext::new_with_config(SessionConfig::new().with_target_partitions(1))
}

/// Outside of any cycle, `now()` is the time of day.
fn with_time_of_day(plan: LogicalPlan) -> Result<LogicalPlan> {
    use tidemill_engine::Clock;
    let now_ns = tidemill_engine::SystemClock::since_1970().now_ns() as i64;
    let now = Expr::Literal(ScalarValue::TimestampNanosecond(Some(now_ns), None), None);
    plan.transform_up(|node| {
        node.map_expressions(|expression| {
            let name = expression.schema_name().to_string();
            let replaced = crate::logical::with_now(expression, &now)?;
            // Nodes above know the expression by its name.
            Ok(match replaced.transformed && replaced.data.schema_name().to_string() != name {
                true => replaced.update_data(|expression| expression.alias(name)),
                false => replaced,
            })
        })
    })
    .data()
}

/// All rows of a table.
fn read(definition: &SourceDefinition) -> Result<RecordBatch> {
    let failed = |cause: tidemill_engine::Cause| {
        DataFusionError::External(format!("table '{}': {cause}", definition.name).into())
    };
    let mut source = (definition.open)(None).map_err(failed)?;
    let computed = match &definition.computed {
        None => None,
        Some(columns) => {
            let raw = datafusion::common::DFSchema::try_from(definition.raw.as_ref().clone())?;
            let columns = columns.iter().map(|column| Compiled::new(column, &raw));
            Some(columns.collect::<Result<Vec<_>>>()?)
        }
    };
    let mut batches = Vec::new();
    let mut rows = 0;
    loop {
        match source.poll(Duration::from_millis(100)).map_err(failed)? {
            Polled::Rows(batch) => {
                rows += batch.num_rows();
                if rows > TABLE_ROWS_MAX {
                    return Err(refuse(
                        format!("table '{}' has more than {TABLE_ROWS_MAX} rows", definition.name),
                        "declare it as a source and join within a time bound",
                    ));
                }
                batches.push(in_columns(batch, &computed, definition).map_err(failed)?);
            }
            Polled::Nothing => {}
            Polled::Ended | Polled::Left => break,
        }
    }
    let faults = source.faults();
    match faults.samples.first() {
        // A table with gaps would silently give wrong joins.
        Some(sample) => Err(DataFusionError::External(
            format!(
                "table '{}' has {} rows that cannot be read, such as: {sample}; correct them, or declare the column as \
                 VARCHAR",
                definition.name, faults.count
            )
            .into(),
        )),
        None => {
            let rows = concat_batches(&definition.schema, &batches)?;
            check_key(&rows, definition)?;
            Ok(rows)
        }
    }
}

/// Checks that no two rows have the same key, and that each has one.
fn check_key(rows: &RecordBatch, definition: &SourceDefinition) -> Result<()> {
    if definition.key.is_empty() {
        return Ok(());
    }
    let keys = rows.project(&definition.key)?;
    let wrong = |what: &str, row: usize| {
        let shown =
            keys.schema_ref().fields().iter().zip(keys.columns()).map(|(field, column)| {
                Ok(format!("{} = {}", field.name(), array_value_to_string(column, row)?))
            });
        let shown = shown.collect::<Result<Vec<_>>>()?.join(", ");
        let table = &definition.name;
        Err(refuse(format!("table '{table}' {what}: {shown}"), "correct the rows, or leave PRIMARY KEY out"))
    };
    if let Some(row) = (0..rows.num_rows()).find(|row| keys.columns().iter().any(|key| key.is_null(*row))) {
        return wrong("has a row without a key", row);
    }
    let fields = keys.columns().iter().map(|key| SortField::new(key.data_type().clone()));
    let columns: Vec<ArrayRef> = keys.columns().iter().map(as_key).collect();
    let encoded = RowConverter::new(fields.collect())?.convert_columns(&columns)?;
    let mut known = HashSet::new();
    match encoded.iter().position(|key| !known.insert(key)) {
        Some(row) => wrong("has two rows of one key", row),
        None => Ok(()),
    }
}

/// The column with equal bits where `=` finds values equal: -0 is 0, and NaN is NaN.
fn as_key(column: &ArrayRef) -> ArrayRef {
    match column.data_type() {
        DataType::Float32 => {
            let normal = |value: f32| if value.is_nan() { f32::NAN } else { value + 0.0 };
            Arc::new(column.as_primitive::<Float32Type>().unary::<_, Float32Type>(normal))
        }
        DataType::Float64 => {
            let normal = |value: f64| if value.is_nan() { f64::NAN } else { value + 0.0 };
            Arc::new(column.as_primitive::<Float64Type>().unary::<_, Float64Type>(normal))
        }
        _ => ArrayRef::clone(column),
    }
}

fn in_columns(
    batch: RecordBatch,
    computed: &Option<Vec<Compiled>>,
    definition: &SourceDefinition,
) -> std::result::Result<RecordBatch, tidemill_engine::Cause> {
    let columns = match computed {
        None => batch.columns().to_vec(),
        Some(computed) => {
            let cut = Cut::first();
            computed
                .iter()
                .map(|column| column.evaluate(&batch, &cut))
                .collect::<std::result::Result<_, _>>()?
        }
    };
    RecordBatch::try_new(Arc::clone(&definition.schema), columns)
        .map_err(|error| tidemill_engine::Cause::user(error.to_string()).with_source(error))
}
