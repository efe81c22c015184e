//! Turns an optimised logical plan into the plan that runs: sources, transforms, operators. One file per kind of node.

mod adaptive_regions;
mod aggregate;
mod aggregate_functions;
mod as_of_the_row;
pub(crate) mod changelog;
mod changes;
mod columns;
mod computing;
mod constant;
mod count_windows;
pub(crate) mod distinct_arguments;
mod empty_windows;
mod few_rows;
pub(crate) mod foreign_aggregate;
mod join;
mod last_of_key;
mod lookup;
mod memory_pool;
mod not_streaming;
mod operator_call;
mod over;
mod own_rows;
mod passed_rows;
mod process;
mod project;
mod read_as_tables;
mod relation;
mod row_batches;
mod scalar_subqueries;
mod scan;
mod small_batches;
mod sort;
mod split_stream;
mod static_table;
mod sub_stream;
mod time_bound;
mod top;
mod union;
mod unnest;
mod window_assign;

use std::collections::BTreeMap;
use std::sync::Arc;

use datafusion::common::{Column, DFSchema, DataFusionError, Result};
use datafusion::logical_expr::{Expr, FetchType, Limit, LogicalPlan};
use tidemill_engine::{
    Cause, FaultLog, MemoryBudget, Operator, OperatorPlan, Plan, StreamRef, TransformPlan,
};
use tidemill_operators::watermark::{LateRows, WatermarkSpec};
use tidemill_operators::{FailedResults, partition_limit};

pub(crate) use changelog::{Takes, WEIGHT_COLUMN};
pub(crate) use changes::with_values_joined;
pub(crate) use columns::unique;
pub(crate) use read_as_tables::read_as_tables;
pub(crate) use relation::{Kind, Relation, Role, Selection, Window};
pub use row_batches::RowBatches;
pub(crate) use scalar_subqueries::read_scalar_subqueries;
pub(crate) use scan::{GivenStream, UsedSource};
pub(crate) use static_table::{
    Answer, batch_answer, found_rows, is_static, read_static, read_static_in_batches, read_static_in_turns,
    scan_of,
};

use crate::logical::check_clock_conditions;
use crate::refusal::refuse;
use crate::relations::stream_process::StreamProcess;
use crate::split_profiles::SplitTexts;

/// The bounds on a query's state, and how it is divided.
#[derive(Clone, Debug)]
pub(crate) struct StateLimits {
    /// Logical partitions of each operator with keys.
    pub partitions: u32,
    /// The most groups that an aggregation may hold, in all partitions together.
    pub groups_max: usize,
    /// The most rows that a join, a running function or a buffer may hold, in all partitions together.
    pub rows_max: usize,
    /// Worker threads: the number of splitters that share a stream, unless the query says otherwise. No result depends
    /// on it.
    pub workers: u32,
    /// The memory for tables that are read completely.
    pub memory: MemoryBudget,
}

/// What a translation depends on beside the plan.
#[derive(Clone, Copy, PartialEq, Eq)]
struct TranslatedFor {
    /// The process of which it is part.
    process: Option<usize>,
    takes_changes: bool,
}

/// Translates the queries of one run into one plan.
pub(crate) struct Translator {
    pub plan: Plan,
    pub sources: Vec<UsedSource>,
    /// The number of the first of them in the plan; the ones before it are not of these queries.
    first_source: usize,
    /// Streams that the plan has already, and that the queries read by name.
    given: Vec<GivenStream>,
    /// Rows for which an expression could not be computed.
    pub faults: FaultLog,
    /// What happens to results that cannot be represented.
    pub failed_results: FailedResults,
    pub late: LateRows,
    /// How operator inputs with manual splits are split, as text: by the operator's name and the input's number.
    pub splits: SplitTexts,
    limits: StateLimits,
    windows: u32,
    operators: usize,
    /// Whether rows of the query that is translated may also go again. Otherwise only such queries have a translation whose rows come
    /// and, in tables, are replaced.
    pub takes_changes: bool,
    /// The [reader](crate::relations::source_changes::reader_of) that the query is which is translated.
    pub reader: String,
    /// What was translated already: a view that is used twice runs once.
    done: Vec<(TranslatedFor, LogicalPlan, Relation)>,
    /// The nodes being translated, each within the one before it, with the number of operators that it has so far.
    nodes: Vec<(LogicalPlan, usize)>,
    /// The process being translated, by its number in the plan.
    process: Option<usize>,
    /// The processes translated so far: one that is used twice runs once.
    processes: Vec<(Arc<StreamProcess>, Relation)>,
    /// Streams that processes receive: the process, its input, and the received stream.
    received: BTreeMap<(usize, StreamRef), StreamRef>,
}

impl Translator {
    /// A translator for these queries, which declares their sources.
    pub fn new(name: &str, queries: &[&LogicalPlan], limits: StateLimits) -> Result<Self> {
        let mut translator = Translator::within(Plan::new(name), Vec::new(), limits);
        translator.declare_sources(queries, false)?;
        Ok(translator)
    }

    /// A translator that adds to a plan. Its sources are still to be declared.
    pub fn within(plan: Plan, given: Vec<GivenStream>, limits: StateLimits) -> Self {
        Translator {
            first_source: plan.sources.len(),
            given,
            // Operators that the plan has already keep their names.
            operators: plan.operators.len(),
            plan,
            sources: Vec::new(),
            faults: FaultLog::default(),
            failed_results: FailedResults::default(),
            late: LateRows::default(),
            splits: BTreeMap::new(),
            limits,
            windows: 0,
            takes_changes: false,
            reader: String::new(),
            done: Vec::new(),
            nodes: Vec::new(),
            process: None,
            processes: Vec::new(),
            received: BTreeMap::new(),
        }
    }

    /// The stream of a logical plan, with its columns in the plan's order.
    pub fn relation(&mut self, plan: &LogicalPlan) -> Result<Relation> {
        let wanted_for = TranslatedFor { process: self.process, takes_changes: self.takes_changes };
        let is_same = |(known_in, known, _): &&(TranslatedFor, LogicalPlan, Relation)| {
            *known_in == wanted_for && known == plan && same_scans(known, plan)
        };
        if let Some((.., done)) = self.done.iter().find(is_same) {
            return Ok(done.clone());
        }
        self.nodes.push((plan.clone(), 0));
        let relation = self.translate(plan);
        self.nodes.pop();
        let relation = relation?;
        self.done.push((wanted_for, plan.clone(), relation.clone()));
        Ok(relation)
    }

    /// The stream of a logical plan as seen from outside: window bounds are computed.
    pub fn output(&mut self, plan: &LogicalPlan) -> Result<Relation> {
        let relation = self.relation(plan)?;
        self.with_known_bounds(relation, plan.schema())
    }

    /// Whether a plan reads only tables, and once. What is read once has one time; where rows may go, a condition on the clock is followed.
    fn is_read_once(&self, plan: &LogicalPlan) -> bool {
        is_static(plan) && !(self.takes_changes && check_clock_conditions(plan).is_err())
    }

    fn translate(&mut self, plan: &LogicalPlan) -> Result<Relation> {
        if self.is_read_once(plan) {
            return self.constant(plan);
        }
        match plan {
            LogicalPlan::TableScan(scan) => self.scan(scan),
            LogicalPlan::SubqueryAlias(alias) => self.relation(&alias.input),
            LogicalPlan::Projection(projection) => match self.top(projection)? {
                Some(top) => Ok(top),
                None => self.projection(projection),
            },
            LogicalPlan::Filter(filter) => match self.top_of_filter(filter)? {
                Some(top) => Ok(top),
                None => self.filter(filter),
            },
            LogicalPlan::Aggregate(aggregate) => self.aggregate(aggregate),
            LogicalPlan::Window(window) => self.over(window),
            LogicalPlan::Join(join) => self.join(join),
            LogicalPlan::Union(union) => self.union(union),
            LogicalPlan::Sort(sort) => self.sort(sort),
            LogicalPlan::Unnest(unnest) => self.unnest(unnest),
            LogicalPlan::Limit(limit) if is_nothing(limit) => self.nothing(plan.schema()),
            LogicalPlan::Limit(limit) if self.takes_changes => self.limit(limit),
            LogicalPlan::Extension(extension) => self.extension(extension.node.as_ref()),
            other => Err(not_streaming::not_streaming(other)),
        }
    }

    /// Adds an operator that reads these streams completely, each routed by some of its columns; its state is limited
    /// per partition.
    fn operator(
        &mut self,
        name: &str,
        inputs: &[(StreamRef, Vec<usize>)],
        partitions: u32,
        output: arrow_schema::SchemaRef,
        factory: impl Fn(u32) -> Box<dyn Operator> + Send + Sync + 'static,
    ) -> StreamRef {
        let mut operator = self.numbered(name, partitions, factory).output(output);
        for (stream, keys) in inputs {
            let schema = Arc::clone(self.plan.schema(*stream).expect("the stream was made before"));
            let names: Vec<&str> = schema.fields().iter().map(|field| field.name().as_str()).collect();
            let route = tidemill_engine::route_by_hash(keys.clone(), partitions);
            operator = operator.input(*stream, &names, route);
        }
        self.plan.operator(operator)[0]
    }

    /// An operator that has no inputs and outputs yet. The number makes its name stable, because snapshots find
    /// operators by name.
    fn numbered(
        &mut self,
        name: &str,
        partitions: u32,
        factory: impl Fn(u32) -> Box<dyn Operator> + Send + Sync + 'static,
    ) -> OperatorPlan {
        let short = shortened(name);
        let number = loop {
            self.operators += 1;
            let numbered = format!("{} {short}", self.operators);
            if self.plan.operators.iter().all(|operator| operator.name != numbered) {
                break self.operators;
            }
        };
        let identity = self.identity();
        let mut operator = OperatorPlan::new(format!("{number} {short}"), partitions, factory);
        if short != name {
            operator.former_names.push(format!("{number} {name}"));
        }
        OperatorPlan { stream_process: self.process, identity, ..operator }
    }

    /// What the next operator computes, whatever else is in the plan: the node that it is for, and its number among the
    /// operators of that node.
    fn identity(&mut self) -> Option<String> {
        let process =
            self.process.map_or("", |process| self.plan.stream_processes[process].name.as_str()).to_owned();
        let (node, operators) = self.nodes.last_mut()?;
        *operators += 1;
        Some(format!("{:016x} {operators}", checksum(&format!("{process}\n{}", node.display_indent()))))
    }

    /// States another name that the operator which was added last had in earlier versions.
    fn formerly(&mut self, name: &str) {
        if let Some(operator) = self.plan.operators.last_mut() {
            let number = operator.name.split(' ').next().unwrap_or_default();
            operator.former_names.push(format!("{number} {name}"));
        }
    }

    /// Adds a transform. A process first receives what it transforms, because transforms run where the rows are.
    fn transform(
        &mut self,
        name: impl Into<String>,
        input: StreamRef,
        output: arrow_schema::SchemaRef,
        factory: impl Fn() -> Box<dyn tidemill_engine::Transform> + Send + Sync + 'static,
    ) -> StreamRef {
        let (input, name) = (self.received(input), shortened(&name.into()));
        self.plan.transform(TransformPlan::new(name, input, output, factory))
    }

    /// The number of partitions of an operator with these keys.
    fn partitions(&self, keys: usize) -> u32 {
        if keys == 0 { 1 } else { self.limits.partitions }
    }

    fn rows_max(&self, partitions: u32) -> usize {
        partition_limit(self.limits.rows_max, partitions)
    }

    fn groups_max(&self, partitions: u32) -> usize {
        partition_limit(self.limits.groups_max, partitions)
    }

    fn watermark(&self, relation: &Relation, delay_ns: i64) -> WatermarkSpec {
        WatermarkSpec { sources: relation.sources.clone(), delay_ns }
    }
}

/// The longest name of an operator or a transform.
const NAME_BYTES_MAX: usize = 4000;

/// A name that a message can show, although constants of megabytes may be in it. It is as stable as the whole one.
fn shortened(name: &str) -> String {
    if name.len() > NAME_BYTES_MAX {
        format!("{}... ({:016x})", &name[..name.floor_char_boundary(NAME_BYTES_MAX)], checksum(name))
    } else {
        name.to_owned()
    }
}

/// FNV-1a, which stays the same in all versions.
fn checksum(text: &str) -> u64 {
    let mixed = |sum: u64, byte: u8| (sum ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    text.bytes().fold(0xcbf2_9ce4_8422_2325, mixed)
}

/// Whether a limit allows no row.
fn is_nothing(limit: &Limit) -> bool {
    matches!(limit.get_fetch_type(), Ok(FetchType::Literal(Some(0))))
}

/// The index of the column that an expression denotes, under any alias.
pub(crate) fn as_column(expression: &Expr, schema: &DFSchema) -> Option<usize> {
    match expression {
        Expr::Column(column) => schema.maybe_index_of_column(column),
        Expr::Alias(alias) => as_column(&alias.expr, schema),
        _ => None,
    }
}

/// The column with an index, as an expression.
pub(crate) fn column_at(schema: &DFSchema, index: usize) -> Expr {
    Expr::Column(Column::from(schema.qualified_field(index)))
}

/// What an operator says against its specification, as an error of the query.
fn user(cause: Cause) -> DataFusionError {
    DataFusionError::Plan(cause.to_string())
}

/// Whether two equal plans read the same sources: DataFusion compares them by name.
fn same_scans(one: &LogicalPlan, other: &LogicalPlan) -> bool {
    scan::definitions(one).eq(&scan::definitions(other))
}
