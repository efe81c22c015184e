//! Queries over input that ends, of which a part can only be answered at the end. DataFusion computes that part over
//! the output of the streaming part.

use std::sync::Arc;

use datafusion::arrow::array::{RecordBatch, RecordBatchOptions};
use datafusion::common::tree_node::{Transformed, TransformedResult};
use datafusion::common::{Column, Result, TableReference};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::{Expr, FetchType, LogicalPlan, SkipType, SortExpr};

use tidemill_engine::MemoryBudget;

use crate::logical::ProcessNode;
use crate::query::first_rows::FirstRowsSpec;
use crate::refusal::refuse;
use crate::translate::{Kind, Relation, StateLimits, Translator, is_static, read_static, scan_of};
use crate::turns::Turns;
use tidemill_trees::nodes::{PlanTree, Tree};

/// A query divided into the parts that stream and the rest, which is computed at the end.
#[derive(Clone)]
pub(crate) struct DividedQuery {
    /// The query, in which the streaming parts are scans of tables named by [`part_name`].
    plan: LogicalPlan,
    /// The parts that stream.
    pub parts: Vec<Part>,
    /// The turns of its reader, who may cancel the computing of the rest.
    turns: Arc<dyn Turns>,
}

/// A part of a query that streams.
#[derive(Clone)]
pub(crate) struct Part {
    pub plan: LogicalPlan,
    /// Which of its rows are wanted, if not all.
    pub first: Option<FirstRowsSpec>,
}

/// The rows that a node's reader wants: this many, in this order.
#[derive(Clone, Copy)]
struct RowLimit<'a> {
    count: usize,
    order: &'a [SortExpr],
}

fn part_name(index: usize) -> String {
    format!("streamed part {index}")
}

impl DividedQuery {
    /// Divides a query over input that ends, at the highest nodes that stream.
    pub fn divide(plan: &LogicalPlan, limits: &StateLimits, turns: &Arc<dyn Turns>) -> Result<DividedQuery> {
        let mut divider = PlanDivider { limits, parts: Vec::new() };
        let rest = divider.divide(plan, None)?;
        Ok(DividedQuery { plan: rest, parts: divider.parts, turns: Arc::clone(turns) })
    }

    /// The answer, given the rows of each part.
    pub fn answer(&self, rows: &[RecordBatch], memory: &MemoryBudget) -> Result<RecordBatch> {
        let plan = self.plan.clone().rewrite_up_with_subqueries(|node| {
            let LogicalPlan::TableScan(scan) = &node else { return Ok(Transformed::no(node)) };
            let index = (0..rows.len()).find(|index| part_name(*index) == scan.table_name.table());
            let Some(index) = index else { return Ok(Transformed::no(node)) };
            let rows = rows[index].clone().with_schema(scan.source.schema())?;
            let scan = scan_of(scan.table_name.clone(), rows, scan.projection.clone())?;
            Ok(Transformed::yes(scan.build()?))
        });
        crate::logical::shown_rows(crate::translate::batch_answer(plan.data()?, memory, &*self.turns)?)
    }
}

struct PlanDivider<'a> {
    limits: &'a StateLimits,
    parts: Vec<Part>,
}

impl PlanDivider<'_> {
    /// The plan with its streaming subtrees replaced, each as large as possible.
    fn divide(&mut self, plan: &LogicalPlan, wanted: Option<RowLimit<'_>>) -> Result<LogicalPlan> {
        if matches!(plan, LogicalPlan::EmptyRelation(_) | LogicalPlan::Values(_)) {
            let is_subquery = |part: &Expr| Ok(matches!(part, Expr::ScalarSubquery(_)));
            for value in plan.expressions() {
                if value.contains(is_subquery)? {
                    return Err(refuse(
                        "VALUES cannot contain a subquery",
                        "write a SELECT for each row, with UNION ALL between them",
                    ));
                }
            }
            return Ok(plan.clone());
        }
        if is_static(plan) {
            return table_of(read_static(plan, &self.limits.memory)?, plan, None);
        }
        let translator = Translator::new("part", &[plan], self.limits.clone());
        match translator.and_then(|mut translator| translator.output(plan)) {
            // Without its key no one could tell which rows of a table are the last ones, so what leaves it out is
            // computed at the end.
            Ok(Relation { kind: Kind::Table { keys: None }, .. }) => self.divide_inputs(plan, wanted),
            Ok(relation) => {
                // All upserts of a table are needed to know its last rows.
                let wanted = wanted.filter(|_| relation.is_stream());
                let first =
                    wanted.map(|wanted| FirstRowsSpec::new(wanted.order, wanted.count, plan.schema()));
                self.parts.push(Part { plan: plan.clone(), first: first.transpose()? });
                placeholder(plan, self.parts.len() - 1)
            }
            // What a process cannot stream is computed at the end with the rest; what it can stream runs in its place.
            Err(_) if is_process(plan) => self.divide_inputs(plan, None).map(dissolved),
            Err(error) if plan.inputs().is_empty() || matches!(plan, LogicalPlan::Extension(_)) => Err(error),
            // A reason further down is more specific than this one.
            Err(_) => self.divide_inputs(plan, wanted),
        }
    }

    fn divide_inputs(&mut self, plan: &LogicalPlan, wanted: Option<RowLimit<'_>>) -> Result<LogicalPlan> {
        let wanted = wanted_of_input(plan, wanted);
        let inputs = plan.inputs().into_iter().map(|input| self.divide(input, wanted));
        let inputs = inputs.collect::<Result<Vec<_>>>()?;
        let names = NamePreserver::new(plan);
        let expressions = plan.expressions().into_iter().map(|expression| {
            let name = names.save(&expression);
            Ok(name.restore(self.with_divided_subqueries(expression)?))
        });
        plan.with_new_exprs(expressions.collect::<Result<_>>()?, inputs)
    }

    /// The input of a subquery is divided like the query around it.
    fn with_divided_subqueries(&mut self, expression: Expr) -> Result<Expr> {
        let divided = expression.rewrite_up(|part| {
            let mut part = part;
            let (what, subquery) = match &mut part {
                Expr::ScalarSubquery(subquery) => ("a scalar subquery", subquery),
                Expr::SetComparison(all) => ("the subquery of ANY or ALL", &mut all.subquery),
                // Those of conditions have become joins; no one computes what is left.
                Expr::InSubquery(_) | Expr::Exists(_) => {
                    return Err(refuse(
                        "IN or EXISTS with a subquery is not supported here, because the subquery refers to the \
                         outer row below UNION, LIMIT, or a function with OVER",
                        "refer to the outer row in the WHERE of the subquery, in each part of a UNION with an IN or \
                         EXISTS of its own",
                    ));
                }
                _ => return Ok(Transformed::no(part)),
            };
            if !subquery.outer_ref_columns.is_empty() {
                return Err(refuse(
                    format!("{what} refers to the outer row by something other than equality"),
                    "compute the aggregate in a join of both tables, grouped by the outer row",
                ));
            }
            let divided = self.divide(&subquery.subquery, None)?;
            *subquery = subquery.with_plan(Arc::new(divided));
            Ok(Transformed::yes(part))
        });
        divided.data()
    }
}

/// The rows of its input that a node needs, if not all: LIMIT with or without ORDER BY, and nodes between them that
/// keep each row.
fn wanted_of_input<'a>(plan: &'a LogicalPlan, wanted: Option<RowLimit<'a>>) -> Option<RowLimit<'a>> {
    // Rows that are wanted in an order are selected right below it: other nodes may count or name them differently.
    let wanted = wanted.filter(|wanted| wanted.order.is_empty());
    match plan {
        LogicalPlan::Limit(limit) => {
            let (Ok(SkipType::Literal(skip)), Ok(FetchType::Literal(Some(fetch)))) =
                (limit.get_skip_type(), limit.get_fetch_type())
            else {
                return None;
            };
            let count = wanted.map_or(fetch, |wanted| wanted.count.min(fetch)).saturating_add(skip);
            Some(RowLimit { count, order: &[] })
        }
        LogicalPlan::Sort(sort) => {
            let count = wanted.map(|wanted| wanted.count).into_iter().chain(sort.fetch).min()?;
            Some(RowLimit { count, order: &sort.expr })
        }
        LogicalPlan::Projection(_) | LogicalPlan::SubqueryAlias(_) => wanted,
        _ => None,
    }
}

fn is_process(plan: &LogicalPlan) -> bool {
    let LogicalPlan::Extension(extension) = plan else { return false };
    extension.node.as_any().is::<ProcessNode>()
}

/// The query of a process, without the process.
fn dissolved(plan: LogicalPlan) -> LogicalPlan {
    match plan.inputs().as_slice() {
        [input] => (*input).clone(),
        _ => plan,
    }
}

/// A scan that represents a streaming part, with the part's columns under their own names.
fn placeholder(part: &LogicalPlan, index: usize) -> Result<LogicalPlan> {
    let empty = RecordBatch::new_empty(Arc::new(numbered(part)));
    table_of(empty, part, Some(index))
}

/// The part's columns, named by their indexes because names may occur twice.
fn numbered(part: &LogicalPlan) -> datafusion::arrow::datatypes::Schema {
    let fields = part.schema().fields().iter().enumerate();
    datafusion::arrow::datatypes::Schema::new(
        fields
            .map(|(index, field)| field.as_ref().clone().with_name(format!("c{index}")).with_nullable(true))
            .collect::<Vec<_>>(),
    )
}

/// A scan of rows in memory that looks like the plan it represents.
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
