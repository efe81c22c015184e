//! Statements that display the catalogue: EXPLAIN, DESCRIBE, SHOW.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, RecordBatch, StringArray};
use datafusion::common::DataFusionError;
use datafusion::logical_expr::LogicalPlan;
use datafusion::sql::sqlparser::ast;
use tidemill_engine::{MemoryBudget, StreamProcessPlan};

use super::{Planner, Reply, max_latency, select_all, select_call};
use crate::connectors::define_sink;
use crate::defined_functions::{Loaded, Meaning};
use crate::logical::{header, is_repeatable};
use crate::query::bound_text::pool_text;
use crate::query::prepared::{Prepared, QueryContext};
use crate::query::run_text::pool_figures;
use crate::relations::named_relations::Relation;
use crate::statement::declared::{ListedOption, OptionGroup, OptionOwner};
use crate::statement::{
    CreateFunction, CreateMaterializedView, CreateSink, CreateView, FunctionBody, FunctionResult, Name,
    ShowKind, SinkInput, Statement, StatementKind, TypedName,
};
use crate::text::TextError;
use crate::text::wording::sql_types;
use crate::translate::{Takes, found_rows, is_static};

/// What a plan that reads only tables reads.
pub(super) fn reads_text(plan: &LogicalPlan, memory: &MemoryBudget) -> Result<String, DataFusionError> {
    let reads = found_rows(plan, memory)?.iter().map(|read| format!("  {read}\n")).collect::<String>();
    Ok(format!("reads only tables, and is answered at once\n{reads}"))
}

impl Planner {
    pub(super) fn explain(
        &self,
        analyze: bool,
        explained: &Statement,
        statement: &Statement,
    ) -> Result<Reply, TextError> {
        let prepare = |planner: &Planner, query: &ast::Query, bound| -> Result<Prepared, TextError> {
            let plan = planner.plan(query, explained)?;
            planner.prepare(&plan, bound, statement).map_err(|error| planner.text_error(&error, explained))
        };
        // What is kept is planned as it runs; its rows are shown as they come, if they are.
        let kept =
            |planner: &Planner, query: &ast::Query, bound, takes: Takes| -> Result<Prepared, TextError> {
                let queries = [("query".to_owned(), planner.plan(query, explained)?)];
                let context = QueryContext::new(&planner.settings, bound, Vec::new());
                // What CREATE refuses is refused here, too.
                let kept = Prepared::together("query", (&queries, &[takes]), context, false)
                    .map_err(|error| planner.text_error(&error, explained))?;
                if takes.changes() { Ok(kept) } else { prepare(planner, query, bound) }
            };
        let prepared = match &explained.kind {
            StatementKind::Query(query, options) => {
                let plan = self.plan_at_versions(query, options, explained)?;
                if is_static(&plan) {
                    let memory = self.settings.memory_of_reader();
                    let reads =
                        reads_text(&plan, &memory).map_err(|error| self.text_error(&error, explained))?;
                    return Ok(Reply::Text(reads));
                }
                let prepared = self.prepare(&plan, max_latency(options)?, statement);
                prepared.map_err(|error| self.text_error(&error, explained))?
            }
            StatementKind::InsertInto { query, options, .. } => prepare(self, query, max_latency(options)?)?,
            StatementKind::CreateView(CreateView { query, .. }) => prepare(self, query, None)?,
            StatementKind::CreateMaterializedView(CreateMaterializedView { query, .. }) => {
                kept(self, query, None, Takes::Changes)?
            }
            StatementKind::CreateSink(create @ CreateSink { input: Some(input), .. }) => {
                let real_time = self.real_time_of(create, explained)?;
                let bound = max_latency(&create.options)?.into_iter().chain(real_time.deadline).min();
                let takes = define_sink(&create.options, &self.catalog.connectors, &self.settings)?.takes;
                let prepared = match input {
                    SinkInput::Query(query) => kept(self, query, bound, takes)?,
                    SinkInput::Relation(name) => kept(self, &select_all(name, explained)?, bound, takes)?,
                };
                Prepared { settings: real_time.settings(&prepared.settings), real_time, ..prepared }
            }
            _ => {
                let error = explained.error(explained.span, "this statement has no plan");
                return Err(error
                    .with_hint("EXPLAIN SELECT ..., CREATE VIEW ..., CREATE SINK ... or INSERT INTO ..."));
            }
        };
        if analyze { Ok(Reply::Analyze(Box::new(prepared))) } else { Ok(Reply::Text(prepared.explain())) }
    }

    /// The plan of a sink or view of the catalogue.
    pub(super) fn explain_output(&self, name: &Name, statement: &Statement) -> Result<Reply, TextError> {
        let is_view = matches!(
            self.catalog.relations.get(name.as_str()),
            Some(Relation::View(view)) if view.materialized.is_none()
        );
        if is_view {
            let plan = self.plan(&select_all(name, statement)?, statement)?;
            let prepared = self.prepare(&plan, None, statement);
            let prepared = prepared.map_err(|error| self.text_error(&error, statement))?;
            return Ok(Reply::Text(prepared.explain()));
        }
        let pipeline = self.pipeline_of(&[name.as_str()]);
        let pipeline = pipeline.map_err(|cause| statement.error(name.span, cause.to_string()))?;
        Ok(Reply::Text(pipeline.explain()))
    }

    pub(super) fn describe(&self, name: &Name, statement: &Statement) -> Result<Reply, TextError> {
        if let Some(function) = self.catalog.defined.get(name.as_str())
            && let StatementKind::CreateFunction(create) = &function.definition.kind
        {
            return Ok(Reply::Rows(described_function(create)));
        }
        let is_generator = self.catalog.relations.get(name.as_str()).is_none()
            && self.catalog.registry.generators.contains_key(name.as_str());
        let query = if is_generator { select_call(name, statement)? } else { select_all(name, statement)? };
        let plan = self.plan(&query, statement)?;
        let fields = plan.schema().fields().clone();
        let names: Vec<String> = fields.iter().map(|field| header(field.name())).collect();
        let types: Vec<String> =
            fields.iter().map(|field| sql_types(&field.data_type().to_string())).collect();
        Ok(Reply::Rows(text_table(&["column", "type"], vec![names, types])))
    }

    /// The result of `SHOW`: names, and further information about each.
    pub fn show(&self, kind: ShowKind) -> RecordBatch {
        let tables = |is_table: bool| {
            let wanted = |relation: &Relation| match relation {
                Relation::Source(source) => source.is_table == is_table,
                Relation::View(_) | Relation::Process(_) => false,
            };
            let names = self.catalog.relations.iter().filter(|(_, relation)| wanted(relation));
            text_table(&["name"], vec![names.map(|(name, _)| name.to_string()).collect()])
        };
        match kind {
            ShowKind::Sources => tables(false),
            ShowKind::Tables => tables(true),
            ShowKind::Views => {
                let views = self.catalog.relations.iter().filter_map(|(name, relation)| match relation {
                    Relation::View(view) => {
                        let kind = if view.materialized.is_some() { "materialized view" } else { "view" };
                        Some((name.to_string(), kind.to_string()))
                    }
                    Relation::Source(_) | Relation::Process(_) => None,
                });
                let (names, kinds) = views.unzip();
                text_table(&["name", "kind"], vec![names, kinds])
            }
            ShowKind::Processes => {
                let sets = self.catalog.relations.iter().filter_map(|(_, relation)| match relation {
                    Relation::Process(set) => Some(set.processes()),
                    _ => None,
                });
                let (names, places) =
                    sets.flatten().map(|process| (process.name.clone(), places_text(process))).unzip();
                text_table(&["name", "places"], vec![names, places])
            }
            ShowKind::Places => {
                let places = self.catalog.places.iter().map(|(name, group)| {
                    let numbers: Vec<String> = group.places().iter().map(u32::to_string).collect();
                    (name.clone(), numbers.join(", "))
                });
                let (names, workers) = places.unzip();
                text_table(&["name", "workers"], vec![names, workers])
            }
            ShowKind::Pools => {
                let rows = self.catalog.pools.iter().map(|(name, pool)| {
                    let workers = pool.settings.workers.to_string();
                    let status = pool.status();
                    let [threads, used, longest, queued, emptied, late] = pool_figures(status.as_ref());
                    let missing = status.map_or(String::new(), |status| status.missing.join("; "));
                    let settings = pool_text(&pool.settings);
                    [name.clone(), workers, settings, threads, used, longest, queued, emptied, late, missing]
                });
                let names = [
                    "name", "workers", "settings", "threads", "used", "longest", "queued", "emptied", "late",
                    "missing",
                ];
                text_rows(names, rows)
            }
            ShowKind::Sinks => {
                let sinks = self.catalog.sinks.iter();
                let (names, connectors) =
                    sinks.map(|(name, sink)| (name.clone(), sink.definition.connector.clone())).unzip();
                text_table(&["name", "connector"], vec![names, connectors])
            }
            ShowKind::Functions => {
                let mut rows: Vec<(String, String)> = Vec::new();
                let mut add = |names: Vec<&String>, kind: &str| {
                    rows.extend(names.into_iter().map(|name| (name.clone(), kind.to_string())));
                };
                let scalar =
                    self.catalog.functions.scalar.iter().filter(|(_, function)| is_repeatable(function));
                add(scalar.map(|(name, _)| name).collect(), "scalar");
                add(self.catalog.functions.aggregate.keys().collect(), "aggregate");
                add(self.catalog.functions.window.keys().collect(), "window");
                add(self.catalog.registry.generators.keys().collect(), "generator");
                add(self.catalog.registry.operators.keys().collect(), "operator");
                rows.extend(self.catalog.defined.iter().map(|(name, function)| {
                    let kind = match function.result {
                        Meaning::Value(_) => "defined scalar",
                        Meaning::Rows(_) => "defined table",
                        Meaning::Loaded(Loaded::Scalar(_)) => "loaded scalar",
                        Meaning::Loaded(Loaded::Aggregate(_)) => "loaded aggregate",
                        Meaning::Loaded(Loaded::Operator(_)) => "loaded operator",
                    };
                    (name.clone(), kind.to_string())
                }));
                rows.sort();
                let (names, kinds) = rows.into_iter().unzip();
                text_table(&["name", "kind"], vec![names, kinds])
            }
            ShowKind::Settings => {
                let rows = self.settings.rows();
                let rows = rows.map(|(name, value, doc)| [name.to_string(), value, without_marks(doc)]);
                text_rows(["name", "value", "meaning"], rows)
            }
            ShowKind::Connectors => {
                let groups = self.option_groups().into_iter();
                let connectors =
                    groups.filter(|group| matches!(group.owner, OptionOwner::Source | OptionOwner::Sink));
                let rows = connectors
                    .map(|group| [group.name, group.owner.name().to_string(), without_marks(&group.doc)]);
                text_rows(["name", "kind", "meaning"], rows)
            }
            ShowKind::Options => {
                let row = |group: &OptionGroup, option: &ListedOption| {
                    let of = format!("{} {}", group.owner.name(), group.name);
                    let (default, doc) = (without_marks(&option.default), without_marks(option.doc));
                    [
                        of.trim_end().to_string(),
                        option.name.to_string(),
                        option.kind.name().to_string(),
                        default,
                        doc,
                    ]
                };
                let groups = self.option_groups();
                let rows = groups
                    .iter()
                    .flat_map(|group| group.options.iter().map(move |option| row(group, option)));
                text_rows(["of", "option", "type", "default", "meaning"], rows)
            }
        }
    }
}

/// Where a process may run.
/// What a function is called with, and what it gives.
fn described_function(create: &CreateFunction) -> RecordBatch {
    let row = |kind: &str, name: &str, data_type: &ast::DataType| {
        [kind.to_owned(), name.to_owned(), data_type.to_string()]
    };
    let typed =
        |kind: &'static str| move |typed: &TypedName| row(kind, typed.name.as_str(), &typed.data_type);
    let input = create.input.iter().flat_map(|input| input.columns.iter().map(typed("input")));
    let parameters = input.chain(create.parameters.iter().map(typed("parameter")));
    let result: Vec<_> = match &create.result {
        FunctionResult::Value((data_type, _)) => vec![row("result", "", data_type)],
        FunctionResult::Rows(columns) => columns.iter().map(typed("column")).collect(),
    };
    let mut listed = [Vec::new(), Vec::new(), Vec::new()];
    let state: &[TypedName] = match &create.body {
        FunctionBody::Code(code) => &code.state,
        FunctionBody::Expression(_) | FunctionBody::Query(_) => &[],
    };
    for row in parameters.chain(result).chain(state.iter().map(typed("state"))) {
        listed.iter_mut().zip(row).for_each(|(column, value)| column.push(value));
    }
    text_table(&["kind", "name", "type"], listed.into())
}

fn places_text(process: &StreamProcessPlan) -> String {
    let choices: Vec<String> = process.places.iter().map(ToString::to_string).collect();
    match (choices.is_empty(), process.required) {
        (true, _) => "anywhere".to_string(),
        (false, true) => format!("at {}", choices.join(", ")),
        (false, false) => format!("preferably {}", choices.join(", ")),
    }
}

/// A line of Markdown as plain text.
fn without_marks(text: &str) -> String {
    text.replace('`', "")
}

/// A table of texts, row by row.
fn text_rows<const N: usize>(names: [&str; N], rows: impl Iterator<Item = [String; N]>) -> RecordBatch {
    let mut columns: [Vec<String>; N] = std::array::from_fn(|_| Vec::new());
    for row in rows {
        columns.iter_mut().zip(row).for_each(|(column, value)| column.push(value));
    }
    text_table(&names, columns.into())
}

/// A table of texts.
fn text_table(names: &[&str], columns: Vec<Vec<String>>) -> RecordBatch {
    let columns = columns.into_iter().map(|values| Arc::new(StringArray::from(values)) as ArrayRef);
    RecordBatch::try_from_iter(names.iter().copied().zip(columns)).expect("columns of equal length")
}
