//! Tables that do not change while a query runs: read once and completely, then computed by DataFusion.

use std::any::Any;
use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use datafusion::arrow::compute::concat_batches;
use datafusion::arrow::datatypes::{DataType, Float32Type, Float64Type};
use datafusion::arrow::row::{RowConverter, SortField};
use datafusion::arrow::util::display::array_value_to_string;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNodeRecursion};
use datafusion::common::{DataFusionError, Result, ScalarValue, TableReference};
use datafusion::datasource::cte_worktable::CteWorkTable;
use datafusion::datasource::{MemTable, provider_as_source, source_as_provider};
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder, TableScan};
use tidemill_engine::{Cut, Expression, MemoryAccount, MemoryBudget, Polled, bytes_of_rows};

use super::computing::Computing;
use super::row_batches::RowBatches;
use super::{few_rows, refuse};
use crate::expressions::compiled::Compiled;
use crate::limit_reached::limit_reached;
use crate::relations::source_definition::{SourceDefinition, scanned};
use crate::statement::Statement;
use crate::store::{FoundRows, Reader, with_found_rows};
use crate::turns::{AtOnce, Turn, Turns, turn_refused};
use tidemill_trees::nodes::{PlanTree, Tree};

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
    let mut recursive = HashSet::new();
    let _ = plan.look_through_with_subqueries(|node| {
        match node {
            LogicalPlan::RecursiveQuery(query) => {
                recursive.insert(query.name.clone());
            }
            LogicalPlan::TableScan(scan) => {
                // A step of a recursive query has rows only inside of that query.
                let is_step = || is_work_table(scan) && recursive.contains(scan.table_name.table());
                let source = scanned(scan.source.as_ref());
                all &= source.map_or_else(is_step, |source| wanted(&source.definition));
            }
            LogicalPlan::Extension(_) => all = false,
            _ => {}
        }
        Ok(TreeNodeRecursion::Continue)
    });
    all
}

/// Whether a scan reads what WITH RECURSIVE has found in the step before.
fn is_work_table(scan: &TableScan) -> bool {
    source_as_provider(&scan.source).is_ok_and(|provider| {
        let provider: &dyn Any = provider.as_ref();
        provider.is::<CteWorkTable>()
    })
}

/// The rows of a plan that reads only tables.
pub(crate) fn read_static(plan: &LogicalPlan, memory: &MemoryBudget) -> Result<RecordBatch> {
    read_static_in_turns(plan, memory, &AtOnce)
}

/// As `read_static`, in turns with other queries.
pub(crate) fn read_static_in_turns(
    plan: &LogicalPlan,
    memory: &MemoryBudget,
    turns: &dyn Turns,
) -> Result<RecordBatch> {
    let mut turn = turns.begin().map_err(turn_refused)?;
    // What is read stays until the answer is there.
    let mut tables = memory.account();
    let plan = in_memory(plan, &mut Vec::new(), &mut tables, turn.as_mut())?;
    answer_in_turns(plan, memory, turn)
}

/// The plan over rows in memory in the place of the tables and stores that it reads, and what was read of stores.
fn in_memory(
    plan: &LogicalPlan,
    reads: &mut Vec<FoundRows>,
    memory: &mut MemoryAccount,
    turn: &mut dyn Turn,
) -> Result<LogicalPlan> {
    let plan = with_found_rows(with_time_of_day(plan.clone())?, reads, &mut Reader { turn, memory })?;
    let in_memory = plan.rewrite_up(|node| {
        let LogicalPlan::TableScan(scan) = &node else { return Ok(Transformed::no(node)) };
        let Some(source) = scanned(scan.source.as_ref()) else { return Ok(Transformed::no(node)) };
        let rows = read(&source.definition, memory, turn)?;
        let scan = scan_of(scan.table_name.clone(), rows, scan.projection.clone())?;
        Ok(Transformed::yes(scan.build()?))
    });
    in_memory.data()
}

/// What a plan that reads only tables reads of the stores that it names.
pub(crate) fn found_rows(plan: &LogicalPlan, memory: &MemoryBudget) -> Result<Vec<FoundRows>> {
    let (mut reads, mut account) = (Vec::new(), memory.account());
    let mut reader = Reader { turn: &mut AtOnce, memory: &mut account };
    with_found_rows(with_time_of_day(plan.clone())?, &mut reads, &mut reader)?;
    Ok(reads)
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

/// The answer to a query.
pub(crate) enum Answer {
    /// All its rows.
    Whole(RecordBatch),
    /// More than a few megabytes, computed as they are taken.
    Batches(Box<RowBatches>),
}

/// So many bytes of an answer are computed before it is known to be a large one.
const FIRST_BYTES: u64 = 4 << 20;

/// As `read_static_in_turns`. A large answer is not made as a whole.
pub(crate) fn read_static_in_batches(
    plan: &LogicalPlan,
    memory: &MemoryBudget,
    turns: &Arc<dyn Turns>,
    statement: &Statement,
) -> Result<Answer> {
    let mut turn = turns.begin().map_err(turn_refused)?;
    let (mut tables, mut reads) = (memory.account(), Vec::new());
    let plan = in_memory(plan, &mut reads, &mut tables, turn.as_mut())?;
    let mut computing = match begin(plan, memory, turn.as_mut())? {
        Begun::Few(rows) => return Ok(Answer::Whole(rows)),
        Begun::Computing(computing) => computing,
    };
    let mut answer = memory.account();
    let (first, is_all) = take(&mut computing, turn.as_mut(), &mut answer, FIRST_BYTES)?;
    if is_all {
        return computing.whole(&first).map(Answer::Whole);
    }
    let (turns, statement) = (Arc::clone(turns), statement.clone());
    let batches = RowBatches::new((first, answer), computing, turns, (reads, tables), statement)?;
    Ok(Answer::Batches(Box::new(batches)))
}

/// The batches up to the end, or up to the first one behind so many bytes; and whether they are all. What has one
/// batch is always whole.
fn take(
    computing: &mut Computing,
    turn: &mut dyn Turn,
    answer: &mut MemoryAccount,
    bytes_max: u64,
) -> Result<(Vec<RecordBatch>, bool)> {
    let mut batches = Vec::new();
    while let Some(batch) = computing.next(turn)? {
        let is_large = answer.bytes() >= bytes_max;
        answer.grow("the answer", bytes_of_rows(&batch) as u64).map_err(limit_reached)?;
        batches.push(batch);
        if is_large {
            return Ok((batches, false));
        }
    }
    Ok((batches, true))
}

/// DataFusion's answer to a plan over tables in memory, for a query that began before.
pub(crate) fn batch_answer(
    plan: LogicalPlan,
    memory: &MemoryBudget,
    turns: &dyn Turns,
) -> Result<RecordBatch> {
    answer_in_turns(plan, memory, turns.resume().map_err(turn_refused)?)
}

fn answer_in_turns(plan: LogicalPlan, memory: &MemoryBudget, mut turn: Box<dyn Turn>) -> Result<RecordBatch> {
    let mut computing = match begin(plan, memory, turn.as_mut())? {
        Begun::Few(rows) => return Ok(rows),
        Begun::Computing(computing) => computing,
    };
    let mut answer = memory.account();
    let (rows, _) = take(&mut computing, turn.as_mut(), &mut answer, u64::MAX)?;
    computing.whole(&rows)
}

enum Begun {
    /// The rows are there.
    Few(RecordBatch),
    Computing(Computing),
}

fn begin(plan: LogicalPlan, memory: &MemoryBudget, turn: &mut dyn Turn) -> Result<Begun> {
    let plan = with_time_of_day(plan)?;
    turn.go_on().map_err(turn_refused)?;
    if let Some(rows) = few_rows::answer(&plan) {
        memory.account().grow("the answer", bytes_of_rows(&rows) as u64).map_err(limit_reached)?;
        return Ok(Begun::Few(rows));
    }
    Computing::begin(plan, memory, turn).map(Begun::Computing)
}

/// Outside of any cycle, `now()` is the time of day.
fn with_time_of_day(plan: LogicalPlan) -> Result<LogicalPlan> {
    use tidemill_engine::Clock;
    let now_ns = tidemill_engine::SystemClock::since_1970().now_ns() as i64;
    let now = Expr::Literal(ScalarValue::TimestampNanosecond(Some(now_ns), None), None);
    plan.rewrite_up(|node| {
        node.rewrite_expressions(|expression| {
            if !crate::logical::reads_clock(&expression)? {
                return Ok(Transformed::no(expression));
            }
            let name = expression.schema_name().to_string();
            let replaced = crate::logical::with_now(expression, &now)?;
            // Nodes above know the expression by its name.
            Ok(if replaced.transformed && replaced.data.schema_name().to_string() != name {
                replaced.update_data(|expression| expression.alias(name))
            } else {
                replaced
            })
        })
    })
    .data()
}

/// All rows of a table. It may be slow to come: whoever does not want it any more ends that.
fn read(
    definition: &SourceDefinition,
    memory: &mut MemoryAccount,
    turn: &mut dyn Turn,
) -> Result<RecordBatch> {
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
        turn.go_on().map_err(turn_refused)?;
        match source.poll(Duration::from_millis(100)).map_err(failed)? {
            Polled::Rows(batch) | Polled::Request { rows: batch, .. } => {
                rows += batch.num_rows();
                if rows > TABLE_ROWS_MAX {
                    return Err(refuse(
                        format!("table '{}' has more than {TABLE_ROWS_MAX} rows", definition.name),
                        "declare it as a source, and join it within a bound on time",
                    ));
                }
                let batch = in_columns(batch, &computed, definition).map_err(failed)?;
                let table = format!("table '{}'", definition.name);
                memory.grow(&table, bytes_of_rows(&batch) as u64).map_err(limit_reached)?;
                batches.push(batch);
            }
            Polled::Nothing | Polled::Idle => {}
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
        Err(refuse(format!("table '{table}' {what}: {shown}"), "correct the rows, or remove PRIMARY KEY"))
    };
    if let Some(row) = (0..rows.num_rows()).find(|row| keys.columns().iter().any(|key| key.is_null(*row))) {
        return wrong("has a row without a key", row);
    }
    let fields = keys.columns().iter().map(|key| SortField::new(key.data_type().clone()));
    let columns: Vec<ArrayRef> = keys.columns().iter().map(as_key).collect();
    let encoded = RowConverter::new(fields.collect())?.convert_columns(&columns)?;
    let mut known = HashSet::new();
    match encoded.iter().position(|key| !known.insert(key)) {
        Some(row) => wrong("has two rows with the same key", row),
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
