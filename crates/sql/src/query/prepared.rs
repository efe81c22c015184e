//! A query that was checked and planned: its plan, sources and outputs. Nothing of it is open yet.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::common::Result;
use datafusion::logical_expr::{FetchType, LogicalPlan, SkipType};
use tidemill_engine::{CyclePolicy, FaultLog, MemoryBudget, Plan};

use crate::logical::{check_clock_conditions, header, is_finite};
use crate::query::divided_query::DividedQuery;
use crate::query::real_time::RealTime;
use crate::query::unselected_key::WithKey;
use crate::refusal::refuse;
use crate::relations::source_changes::reader_of;
use crate::settings::Settings;
use crate::split_profiles::{RequestedSplits, requested_splits};
use crate::translate::{
    Kind, Relation, Role, StateLimits, Takes, Translator, UsedSource, WEIGHT_COLUMN, with_values_joined,
};
use crate::turns::{AtOnce, Turns};
use tidemill_operators::FailedResults;
use tidemill_operators::watermark::LateRows;

/// One output of a query.
#[derive(Clone, Debug)]
pub struct Output {
    /// The name of the sink or view.
    pub name: String,
    /// The columns.
    pub schema: SchemaRef,
    /// For a table (an aggregate without a window): the indexes of its key's columns; a row replaces the previous one
    /// with the same key. `Some` without indexes: the key is not among the columns.
    pub table_key: Option<Option<Vec<usize>>>,
    /// Whether its rows come and go: each has a weight behind the columns.
    pub is_changing: bool,
    /// How many columns at the end were not selected, and belong to the key.
    pub unselected: usize,
    /// The index of the column with the event time, if there is one.
    pub event_time: Option<usize>,
}

/// A query that was checked and planned, and nothing more: nothing of it is open, and nothing runs. Its rows go to sinks
/// of the caller's. What writes to sinks of its own is a [`Pipeline`](crate::Pipeline).
pub struct Prepared {
    pub(crate) dataflow: Dataflow,
    pub(crate) outputs: Vec<Output>,
    pub(crate) answer: Answer,
    pub(crate) settings: Settings,
    pub(crate) max_latency: Option<Duration>,
    /// What it may hold while it runs.
    pub(crate) memory: MemoryBudget,
    pub(crate) real_time: RealTime,
    /// How other processes make the same plan, see [`Planner::run_member`](crate::Planner::run_member).
    pub(crate) instructions: Vec<u8>,
}

/// What the engine runs for a query, and what it reports beside the rows.
pub(crate) struct Dataflow {
    pub plan: Plan,
    pub sources: Vec<UsedSource>,
    /// The inputs for which the query requests a split.
    pub splits: RequestedSplits,
    /// The worker of each process of the plan.
    pub places: Vec<u32>,
    /// Rows for which an expression could not be computed.
    pub faults: FaultLog,
    /// Results that could not be represented and are NULL.
    pub null_results: FaultLog,
    pub late: LateRows,
    /// What each query is called among those that read a table.
    pub readers: Vec<String>,
}

/// When the answer to a query is there.
pub(crate) enum Answer {
    /// All rows of the outputs, as they come.
    Rows,
    /// The first rows of the output.
    First(u64),
    /// One table, when all input has ended.
    AtEnd(Box<DividedQuery>),
}

/// The circumstances of a query, on which its answer does not depend.
pub(crate) struct QueryContext<'a> {
    pub settings: &'a Settings,
    pub max_latency: Option<Duration>,
    /// See [`Prepared`].
    pub instructions: Vec<u8>,
    /// What it may hold.
    pub memory: MemoryBudget,
    /// The turns of its reader, who may cancel what is computed at its end.
    pub turns: Arc<dyn Turns>,
}

impl<'a> QueryContext<'a> {
    /// Those of a query with these settings.
    pub fn new(settings: &'a Settings, max_latency: Option<Duration>, instructions: Vec<u8>) -> Self {
        let memory = settings.memory_of_query();
        QueryContext { settings, max_latency, instructions, memory, turns: Arc::new(AtOnce) }
    }

    /// With the turns of a reader.
    pub fn in_turns(self, turns: &Arc<dyn Turns>) -> Self {
        QueryContext { turns: Arc::clone(turns), ..self }
    }

    /// Those of a query that is only checked or shown, and never runs.
    pub fn of_check(settings: &'a Settings) -> Self {
        QueryContext::new(settings, None, Vec::new())
    }
}

impl Prepared {
    /// Several queries that run together, each with its output, and with what takes its rows. The flag says whether a result that cannot be
    /// represented ends them with an error; otherwise it becomes NULL and is reported.
    pub(crate) fn together(
        name: &str,
        (queries, takes): (&[(String, LogicalPlan)], &[Takes]),
        context: QueryContext<'_>,
        ends_with_error: bool,
    ) -> Result<Prepared> {
        let (dataflow, outputs) = translated(name, (queries, takes), &context, ends_with_error)?;
        let prepared = Prepared::new(dataflow, outputs, Answer::Rows, context);
        // A row is written when it passes; only what is replaced by key would have to be taken back.
        for (((_, query), takes), output) in queries.iter().zip(takes).zip(&prepared.outputs) {
            if !takes.changes() && output.table_key.is_some() && !prepared.is_finite() {
                check_clock_conditions(query)?;
            }
        }
        Ok(prepared)
    }

    /// One query whose rows are shown. Over input that ends, the parts that cannot stream are answered at the end.
    pub(crate) fn shown(query: &LogicalPlan, context: QueryContext<'_>) -> Result<Prepared> {
        let (inner, rows_max) = without_limit(query);
        // Input that ends can be queried again, with a wider type; a stream continues.
        let ends_with_error = is_finite(query);
        let queries = [("query".to_string(), inner.clone())];
        match translated("query", (&queries, &[Takes::Rows]), &context, ends_with_error) {
            Ok((dataflow, outputs)) if outputs[0].table_key.is_none() => {
                let answer = rows_max.map_or(Answer::Rows, Answer::First);
                Ok(Prepared::new(dataflow, outputs, answer, context))
            }
            Ok(translated) if !is_finite(query) && rows_max.is_none() => {
                Prepared::changing(query, translated, context)
            }
            Err(error) if !is_finite(query) => Err(error),
            Ok(_) if !is_finite(query) => Err(refuse(
                "LIMIT on a table (an aggregate without a window) whose input never ends",
                "remove LIMIT, or group by a window",
            )),
            other => {
                // What it has of tables is read again.
                drop(other);
                Prepared::finished(query, context)
            }
        }
    }

    /// A query over endless input whose answer is a table. Its key comes along, selected or not.
    fn changing(
        query: &LogicalPlan,
        (dataflow, outputs): (Dataflow, Vec<Output>),
        context: QueryContext<'_>,
    ) -> Result<Prepared> {
        let is_without_key = outputs[0].table_key == Some(None);
        let keyed = is_without_key.then(|| WithKey::add(query, &limits(&context))).transpose()?.flatten();
        let Some(WithKey { query, added, .. }) = keyed else {
            return Ok(Prepared::new(dataflow, outputs, Answer::Rows, context));
        };
        let queries = [("query".to_string(), query)];
        let (dataflow, mut outputs) = translated("query", (&queries, &[Takes::Rows]), &context, false)?;
        outputs[0].unselected = added;
        Ok(Prepared::new(dataflow, outputs, Answer::Rows, context))
    }

    /// A query that is answered when its input has ended.
    fn finished(query: &LogicalPlan, context: QueryContext<'_>) -> Result<Prepared> {
        let finish = DividedQuery::divide(query, &limits(&context), &context.turns)?;
        let parts = finish.parts.iter().enumerate();
        let parts: Vec<(String, LogicalPlan)> =
            parts.map(|(index, part)| (format!("part {index}"), part.plan.clone())).collect();
        let takes = vec![Takes::Rows; parts.len()];
        let (dataflow, outputs) = translated("query", (&parts, &takes), &context, true)?;
        Ok(Prepared::new(dataflow, outputs, Answer::AtEnd(Box::new(finish)), context))
    }

    fn new(dataflow: Dataflow, outputs: Vec<Output>, answer: Answer, context: QueryContext<'_>) -> Prepared {
        let QueryContext { settings, max_latency, instructions, memory, .. } = context;
        let max_latency = max_latency.or(settings.max_latency);
        let (settings, real_time) = (settings.clone(), RealTime::default());
        Prepared { dataflow, outputs, answer, settings, max_latency, memory, real_time, instructions }
    }

    /// Its outputs. A query that is answered at its end has none.
    pub fn outputs(&self) -> &[Output] {
        match self.answer {
            Answer::AtEnd(_) => &[],
            Answer::Rows | Answer::First(_) => &self.outputs,
        }
    }

    /// Whether its answer comes only when all input has ended.
    pub fn is_answered_at_end(&self) -> bool {
        matches!(self.answer, Answer::AtEnd(_))
    }

    /// Whether all of its input ends.
    pub fn is_finite(&self) -> bool {
        self.dataflow.sources.iter().all(|source| source.definition.is_finite)
    }

    /// The bound on the time from arrival to result.
    pub fn max_latency(&self) -> Option<Duration> {
        self.max_latency
    }

    /// Its settings.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// When its cycles close. An event waits at most a fifth of the bound for its cycle; the rest is for the work, and
    /// for the cycle that is being processed when it comes.
    pub fn cycles(&self) -> CyclePolicy {
        self.real_time.cycles(self.cycles_without_analysis())
    }

    /// When they close as long as no analysis says something else.
    pub(crate) fn cycles_without_analysis(&self) -> CyclePolicy {
        if self.settings.cycle_fixed {
            return CyclePolicy::fixed(self.settings.cycle_events);
        }
        let wait = self.max_latency.map_or(Duration::from_millis(5), |bound| bound / 5);
        let (events_max, wait_max) = (self.settings.cycle_events, Some(wait));
        CyclePolicy { events_max, wait_max, close_when_idle: true }
    }
}

/// The plan of queries that run together, and their outputs.
fn translated(
    name: &str,
    (queries, takes): (&[(String, LogicalPlan)], &[Takes]),
    context: &QueryContext<'_>,
    ends_with_error: bool,
) -> Result<(Dataflow, Vec<Output>)> {
    let plans = queries.iter().zip(takes).map(|((_, plan), takes)| {
        if takes.changes() {
            with_values_joined(plan.clone()).map(Cow::Owned)
        } else {
            Ok(Cow::Borrowed(plan))
        }
    });
    let plans: Vec<Cow<'_, LogicalPlan>> = plans.collect::<Result<_>>()?;
    let borrowed: Vec<&LogicalPlan> = plans.iter().map(Cow::as_ref).collect();
    let mut translator = Translator::new(name, &borrowed, limits(context))?;
    let null_results = FaultLog::default();
    translator.failed_results =
        if ends_with_error { FailedResults::Stop } else { FailedResults::Null(null_results.clone()) };
    let mut outputs = Vec::new();
    let mut readers = Vec::new();
    for (((name, written), query), takes) in queries.iter().zip(&plans).zip(takes) {
        translator.takes_changes = takes.changes();
        translator.reader = reader_of(name, written);
        readers.push(translator.reader.clone());
        let relation = translator.output(query)?;
        let relation = match takes {
            Takes::Rows | Takes::Changes => relation,
            Takes::WeightedRows => translator.weighted(relation)?,
        };
        translator.plan.sink(name, [relation.stream]);
        let output = output(name, query, &relation);
        outputs.push(if *takes == Takes::WeightedRows { with_weight(output)? } else { output });
    }
    let places = translator.places()?;
    let splits =
        requested_splits(&mut translator.plan, translator.splits, context.settings.split_profiles.as_deref());
    let Translator { mut plan, sources, faults, late, .. } = translator;
    plan.left_out.faults.extend([faults.clone(), null_results.clone()]);
    plan.left_out.rows.push(late.counter());
    Ok((Dataflow { plan, sources, splits, places, faults, null_results, late, readers }, outputs))
}

fn limits(context: &QueryContext<'_>) -> StateLimits {
    let settings = context.settings;
    StateLimits {
        partitions: settings.partitions,
        groups_max: settings.max_groups,
        rows_max: settings.max_state_rows,
        workers: u32::try_from(settings.workers.max(1) * settings.processes).unwrap_or(u32::MAX),
        memory: context.memory.clone(),
    }
}

fn output(name: &str, query: &LogicalPlan, relation: &Relation) -> Output {
    let names = query.schema().fields().iter().map(|field| header(field.name()));
    let fields = relation.schema.fields().iter().zip(names);
    let fields: Vec<Field> = fields.map(|(field, name)| field.as_ref().clone().with_name(name)).collect();
    let table_key = match &relation.kind {
        Kind::Stream | Kind::Changing => None,
        Kind::Table { keys } => Some(keys.clone()),
    };
    let is_changing = relation.is_changing();
    let event_time = relation.roles.iter().position(|role| matches!(role, Role::EventTime { .. }));
    let schema = Arc::new(Schema::new(fields));
    Output { name: name.to_string(), schema, table_key, is_changing, unselected: 0, event_time }
}

/// The output whose last column is the weight of each row.
fn with_weight(output: Output) -> Result<Output> {
    if output.schema.column_with_name(WEIGHT_COLUMN).is_some() {
        return Err(refuse(
            format!(
                "the query has a column `{WEIGHT_COLUMN}`, which is the name of the weights of its changes"
            ),
            "rename it with AS",
        ));
    }
    let weight = Arc::new(Field::new(WEIGHT_COLUMN, DataType::Int64, false));
    let fields = output.schema.fields().iter().cloned().chain([weight]);
    let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
    Ok(Output { schema, is_changing: false, ..output })
}

/// A query without its final LIMIT, and that limit.
fn without_limit(query: &LogicalPlan) -> (&LogicalPlan, Option<u64>) {
    let LogicalPlan::Limit(limit) = query else { return (query, None) };
    match (limit.get_skip_type(), limit.get_fetch_type()) {
        (Ok(SkipType::Literal(0)), Ok(FetchType::Literal(Some(rows)))) => (&limit.input, Some(rows as u64)),
        _ => (query, None),
    }
}
