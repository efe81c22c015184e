//! Queries over input that ends, of which a part can only be answered at the end: that part runs in DataFusion over
//! the rows that the streaming part has left.

use std::sync::Arc;

use datafusion::arrow::array::{RecordBatch, RecordBatchOptions};
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, Result, TableReference};
use datafusion::logical_expr::{Expr, LogicalPlan};

use crate::logical::ProcessNode;
use crate::translate::{Kind, Relation, StateLimits, Translator, is_static, read_static, scan_of};

/// A query divided into what streams and what is left for the end.
#[derive(Clone)]
pub(crate) struct Finish {
    /// The query; the streaming parts are scans of tables named by [`part_name`].
    plan: LogicalPlan,
    /// What streams.
    pub parts: Vec<LogicalPlan>,
}

fn part_name(index: usize) -> String {
    format!("streamed part {index}")
}

impl Finish {
    /// Divides a query over input that ends, as far up as it streams.
    pub fn divide(plan: &LogicalPlan, limits: &StateLimits) -> Result<Finish> {
        let mut parts = Vec::new();
        let rest = divide(plan, limits, &mut parts)?;
        Ok(Finish { plan: rest, parts })
    }

    /// The answer, given the rows of each part.
    pub fn answer(&self, rows: &[RecordBatch]) -> Result<RecordBatch> {
        let plan = self.plan.clone().transform_up(|node| {
            let LogicalPlan::TableScan(scan) = &node else { return Ok(Transformed::no(node)) };
            let index = (0..rows.len()).find(|index| part_name(*index) == scan.table_name.table());
            let Some(index) = index else { return Ok(Transformed::no(node)) };
            let rows = rows[index].clone().with_schema(scan.source.schema())?;
            let scan = scan_of(scan.table_name.clone(), rows, scan.projection.clone())?;
            Ok(Transformed::yes(scan.build()?))
        });
        crate::translate::batch_answer(plan.data()?)
    }
}

/// The plan with its streaming subtrees replaced; each is as large as it can be.
fn divide(plan: &LogicalPlan, limits: &StateLimits, parts: &mut Vec<LogicalPlan>) -> Result<LogicalPlan> {
    if is_static(plan) {
        return table_of(read_static(plan)?, plan, None);
    }
    let streams = Translator::new("part", &[plan], limits.clone()).and_then(|mut translator| {
        let relation = translator.output(plan)?;
        Ok((relation, translator.joins_as_of))
    });
    match streams {
        // At the end the whole table is known, and each row is joined with its last ones.
        Ok((_, true)) => divide_inputs(plan, limits, parts),
        // Without its key no one could tell which rows of a table are the last ones: what leaves it out comes at the end.
        Ok((Relation { kind: Kind::Table { keys: None }, .. }, _)) => divide_inputs(plan, limits, parts),
        Ok(_) => {
            parts.push(plan.clone());
            placeholder(plan, parts.len() - 1)
        }
        // What a process cannot stream is computed at the end with the rest, and what it can runs in its place.
        Err(_) if is_process(plan) => divide_inputs(plan, limits, parts).map(dissolved),
        Err(error) if plan.inputs().is_empty() || matches!(plan, LogicalPlan::Extension(_)) => Err(error),
        // A reason further down says more than this one.
        Err(_) => divide_inputs(plan, limits, parts),
    }
}

fn is_process(plan: &LogicalPlan) -> bool {
    let LogicalPlan::Extension(extension) = plan else { return false };
    extension.node.as_any().is::<ProcessNode>()
}

/// What a process computes, without the process.
fn dissolved(plan: LogicalPlan) -> LogicalPlan {
    match plan.inputs().as_slice() {
        [input] => (*input).clone(),
        _ => plan,
    }
}

fn divide_inputs(
    plan: &LogicalPlan,
    limits: &StateLimits,
    parts: &mut Vec<LogicalPlan>,
) -> Result<LogicalPlan> {
    let inputs = plan.inputs().into_iter().map(|input| divide(input, limits, parts));
    plan.with_new_exprs(plan.expressions(), inputs.collect::<Result<Vec<_>>>()?)
}

/// A scan that stands for a streaming part, with the part's columns under their own names.
fn placeholder(part: &LogicalPlan, index: usize) -> Result<LogicalPlan> {
    let empty = RecordBatch::new_empty(Arc::new(numbered(part)));
    table_of(empty, part, Some(index))
}

/// The part's columns, named by their numbers, for names may occur twice.
fn numbered(part: &LogicalPlan) -> datafusion::arrow::datatypes::Schema {
    let fields = part.schema().fields().iter().enumerate();
    datafusion::arrow::datatypes::Schema::new(
        fields
            .map(|(index, field)| field.as_ref().clone().with_name(format!("c{index}")).with_nullable(true))
            .collect::<Vec<_>>(),
    )
}

/// A scan of rows in memory that looks like the plan it stands for.
fn table_of(rows: RecordBatch, plan: &LogicalPlan, index: Option<usize>) -> Result<LogicalPlan> {
    // Not `with_schema`, which wants the same names.
    let options = RecordBatchOptions::new().with_row_count(Some(rows.num_rows()));
    let schema = Arc::new(numbered(plan));
    let rows = RecordBatch::try_new_with_options(schema, rows.columns().to_vec(), &options)?;
    let name = index.map_or("static part".to_string(), part_name);
    let scan = scan_of(TableReference::bare(name.clone()), rows, None)?;
    let columns = plan.schema().iter().enumerate().map(|(index, (qualifier, field))| {
        let column = Expr::Column(Column::new(Some(TableReference::bare(name.clone())), format!("c{index}")));
        column.alias_qualified(qualifier.cloned(), field.name())
    });
    scan.project(columns.collect::<Vec<_>>())?.build()
}

/// Whether all of a plan's input ends.
pub(crate) fn is_finite(plan: &LogicalPlan) -> bool {
    let mut finite = true;
    let _ = plan.apply(|node| {
        if let LogicalPlan::TableScan(scan) = node
            && let Some(source) = crate::definition::scanned(scan.source.as_ref())
        {
            finite &= source.definition.is_finite;
        }
        Ok(TreeNodeRecursion::Continue)
    });
    finite
}
