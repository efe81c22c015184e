//! A query that is ready to run, with its plan, sources and outputs.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use datafusion::arrow::datatypes::{Field, Schema, SchemaRef};
use datafusion::common::Result;
use datafusion::logical_expr::{Expr, FetchType, LogicalPlan, SkipType};
use tidemill_engine::{Cause, CyclePolicy, Durability, FaultLog, Journal, Plan};

use crate::finish::{Finish, is_finite};
use crate::logical::header;
use crate::settings::Settings;
use crate::split_profiles::{AskedSplits, asked};
use crate::translate::{Kind, Relation, StateLimits, Translator, UsedSource};
use crate::view::ViewHandle;
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
}

/// See the module.
pub struct Prepared {
    pub(crate) plan: Plan,
    pub(crate) sources: Vec<UsedSource>,
    pub(crate) outputs: Vec<Output>,
    /// Rows for which an expression could not be computed.
    pub(crate) faults: FaultLog,
    /// Results that could not be represented and are NULL.
    pub(crate) null_results: FaultLog,
    pub(crate) late: LateRows,
    pub(crate) finish: Option<Finish>,
    pub(crate) rows_max: Option<u64>,
    pub(crate) settings: Settings,
    pub(crate) max_latency: Option<Duration>,
    pub(crate) views: Vec<ViewHandle>,
    /// Where and how it is durable, if it is.
    pub(crate) durability: Option<(PathBuf, Durability)>,
    /// Its journal, once opened.
    pub(crate) journal: Option<Journal>,
    /// The inputs for which the query requests a split.
    pub(crate) splits: AskedSplits,
    /// The worker of each process of the plan.
    pub(crate) places: Vec<u32>,
    /// How other processes make the same plan, see [`Session::run_member`](crate::Session::run_member).
    pub(crate) instructions: String,
}

impl Prepared {
    /// Several queries that run together, each with its output. The flag says whether a result that cannot be
    /// represented ends them with an error; otherwise it becomes NULL and is reported.
    pub(crate) fn pipeline(
        name: &str,
        queries: &[(String, LogicalPlan)],
        settings: &Settings,
        max_latency: Option<Duration>,
        ends_with_error: bool,
    ) -> Result<Prepared> {
        let plans: Vec<&LogicalPlan> = queries.iter().map(|(_, plan)| plan).collect();
        let mut translator = Translator::new(name, &plans, limits(settings))?;
        let null_results = FaultLog::default();
        translator.failed_results = match ends_with_error {
            true => FailedResults::Stop,
            false => FailedResults::Null(null_results.clone()),
        };
        let mut outputs = Vec::new();
        for (name, query) in queries {
            let relation = translator.output(query)?;
            translator.plan.sink(name, [relation.stream]);
            outputs.push(output(name, query, &relation));
        }
        let places = translator.places()?;
        let splits = asked(&mut translator.plan, translator.splits, settings.split_profiles.as_deref());
        Ok(Prepared {
            plan: translator.plan,
            sources: translator.sources,
            outputs,
            faults: translator.faults,
            null_results,
            late: translator.late,
            finish: None,
            rows_max: None,
            settings: settings.clone(),
            max_latency: max_latency.or(settings.max_latency),
            views: Vec::new(),
            durability: None,
            journal: None,
            splits,
            places,
            instructions: String::new(),
        })
    }

    /// One query whose rows are shown. Over input that ends, the parts that cannot stream are answered at the end.
    pub(crate) fn shown(
        query: &LogicalPlan,
        settings: &Settings,
        max_latency: Option<Duration>,
    ) -> Result<Prepared> {
        let (inner, rows_max) = without_limit(query);
        let name = "query".to_string();
        // Input that ends can be queried again, with a wider type; a stream continues.
        let ends_with_error = is_finite(query);
        let queries = [(name, inner.clone())];
        let streamed = Prepared::pipeline("query", &queries, settings, max_latency, ends_with_error);
        match streamed {
            Ok(prepared) if prepared.outputs[0].table_key.is_none() => Ok(Prepared { rows_max, ..prepared }),
            Ok(prepared) if !is_finite(query) && rows_max.is_none() => Ok(prepared),
            Err(error) if !is_finite(query) => Err(error),
            Ok(_) if !is_finite(query) => Err(crate::refusal::refuse(
                "LIMIT on a table (an aggregate without a window) whose input never ends",
                "leave LIMIT out, or group by a window",
            )),
            _ => Prepared::finished(query, settings, max_latency),
        }
    }

    /// A query that is answered when its input has ended.
    fn finished(query: &LogicalPlan, settings: &Settings, max_latency: Option<Duration>) -> Result<Prepared> {
        let finish = Finish::divide(query, &limits(settings))?;
        let parts = finish.parts.iter().enumerate();
        let parts: Vec<(String, LogicalPlan)> =
            parts.map(|(index, part)| (format!("part {index}"), part.plan.clone())).collect();
        let prepared = Prepared::pipeline("query", &parts, settings, max_latency, true)?;
        Ok(Prepared { finish: Some(finish), ..prepared })
    }

    /// Makes it durable, if its sources are.
    pub(crate) fn made_durable(mut self, queries: &[(String, LogicalPlan)]) -> Result<Prepared, Cause> {
        let is_durable = |source: &UsedSource| source.definition.durable.is_some();
        let Some(durable) = self.sources.iter().find(|source| is_durable(source)) else { return Ok(self) };
        if let Some(volatile) = self.sources.iter().find(|source| !is_durable(source) && !source.is_empty) {
            let (durable, volatile) = (&durable.definition.name, &volatile.definition.name);
            return Err(Cause::user(format!(
                "source '{durable}' is durable and source '{volatile}' of the same pipeline is not: after a crash its \
                 rows would be missing; add durable = true to '{volatile}', or run it in a pipeline of its own"
            )));
        }
        let Some(folder) = &self.settings.journal else {
            let name = &durable.definition.name;
            return Err(Cause::user(format!(
                "source '{name}' is durable, so say where its journal is: SET journal = 'folder'"
            )));
        };
        let text = queries.iter().map(|(name, plan)| format!("{name}: {}\n", plan.display_indent()));
        let durability = Durability::new(text.collect::<String>());
        let snapshot_every = self.settings.snapshot_every;
        let meaning = self.sources.iter().flat_map(meaning).collect();
        let durability = Durability { snapshot_every, meaning, ..durability };
        self.durability = Some((folder.clone(), durability));
        Ok(self)
    }

    /// Opens the journal, if it is durable; from then on no other run of it can start. This happens before sinks are
    /// opened, because opening a sink may end an earlier run in favour of a later one.
    pub(crate) fn open_journal(&mut self) -> Result<(), Cause> {
        if let Some((folder, _)) = &self.durability {
            self.journal = Some(Journal::open(folder)?);
        }
        Ok(())
    }

    /// The folder of its journal, if it is durable.
    pub fn journal(&self) -> Option<&Path> {
        self.durability.as_ref().map(|(folder, _)| folder.as_path())
    }

    /// Whether it resumes after a crash.
    pub fn is_durable(&self) -> bool {
        self.durability.is_some()
    }

    /// Its outputs. A query that is answered at its end has none.
    pub fn outputs(&self) -> &[Output] {
        match self.finish {
            Some(_) => &[],
            None => &self.outputs,
        }
    }

    /// Whether its answer comes only when all input has ended.
    pub fn is_answered_at_end(&self) -> bool {
        self.finish.is_some()
    }

    /// Whether all of its input ends.
    pub fn is_finite(&self) -> bool {
        self.sources.iter().all(|source| source.definition.is_finite)
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
        if self.settings.cycle_fixed {
            return CyclePolicy::fixed(self.settings.cycle_events);
        }
        let wait = self.max_latency.map_or(Duration::from_millis(5), |bound| bound / 5);
        CyclePolicy { events_max: self.settings.cycle_events, wait_max: Some(wait), close_when_idle: true }
    }
}

/// The meaning of the rows in a source's journal for the query: how the columns that it reads are computed from them.
fn meaning(source: &UsedSource) -> Vec<String> {
    let definition = &source.definition;
    let computed = definition.computed.as_deref().unwrap_or_default();
    let column = |index: &usize| {
        let (field, expression) = (definition.schema.field(*index), computed.get(*index)?);
        let is_own = matches!(expression, Expr::Column(column) if column.name() == field.name());
        (!is_own).then(|| format!("column {} of {}: {expression}", field.name(), definition.name))
    };
    let mut lines: Vec<String> = source.columns.iter().filter_map(column).collect();
    if definition.ordered {
        lines.push(format!("{} comes in the order of event time", definition.name));
    }
    lines
}

fn limits(settings: &Settings) -> StateLimits {
    StateLimits {
        partitions: settings.partitions,
        groups_max: settings.max_groups,
        rows_max: settings.max_state_rows,
        workers: u32::try_from(settings.workers.max(1) * settings.processes).unwrap_or(u32::MAX),
    }
}

fn output(name: &str, query: &LogicalPlan, relation: &Relation) -> Output {
    let names = query.schema().fields().iter().map(|field| header(field.name()));
    let fields = relation.schema.fields().iter().zip(names);
    let fields: Vec<Field> = fields.map(|(field, name)| field.as_ref().clone().with_name(name)).collect();
    let table_key = match &relation.kind {
        Kind::Stream => None,
        Kind::Table { keys } => Some(keys.clone()),
    };
    Output { name: name.to_string(), schema: Arc::new(Schema::new(fields)), table_key }
}

/// A query without its final LIMIT, and that limit.
fn without_limit(query: &LogicalPlan) -> (&LogicalPlan, Option<u64>) {
    let LogicalPlan::Limit(limit) = query else { return (query, None) };
    match (limit.get_skip_type(), limit.get_fetch_type()) {
        (Ok(SkipType::Literal(0)), Ok(FetchType::Literal(Some(rows)))) => (&limit.input, Some(rows as u64)),
        _ => (query, None),
    }
}
