//! Statements that define and drop things.

use std::collections::HashSet;
use std::sync::Arc;

use datafusion::arrow::datatypes::Schema;
use datafusion::logical_expr::LogicalPlan;
use datafusion::sql::sqlparser::ast;
use tidemill_connect::memory::PushTarget;
use tidemill_engine::Beginning;

use super::journaled_types::as_journaled;
use super::{Planner, Reply, max_latency, select_all};
use crate::catalog::SinkEntry;
use crate::connectors;
use crate::logical::{Key, LastOfKey, shown, with_point};
use crate::query::prepared::{Output, Prepared, QueryContext};
use crate::query::retained::{self, VIEW_OPTIONS};
use crate::relations::named_relations::{Materialized, Relation, ViewDefinition};
use crate::relations::source_changes::SourceChanges;
use crate::relations::source_definition::SourceDefinition;
use crate::statement::{
    CreateMaterializedView, CreateSink, CreateSource, CreateView, Name, Options, RelationKind, SinkInput,
    Statement,
};
use crate::text::{Problem, TextError};
use crate::translate::Takes;

impl Planner {
    pub(super) fn create_source(
        &mut self,
        create: &CreateSource,
        is_table: bool,
        statement: &Statement,
    ) -> Result<Reply, TextError> {
        if self.exists(&create.name, create.if_not_exists, create.or_replace, statement)? {
            return Ok(Reply::Done(format!("'{}' already exists", create.name)));
        }
        let create = &*as_journaled(self, create);
        let mut definition: SourceDefinition = self.with_provider(|provider| {
            let table = &self.catalog.connectors;
            connectors::define_source(create, is_table, statement, provider, table, &self.settings)
        })?;
        let is_upserted = matches!(definition.changes, Some(SourceChanges::Upsert { .. }));
        let is_of_table = definition.push.as_ref().is_some_and(PushTarget::is_transactional);
        if let Some(column) = create.columns.iter().find(|column| column.default.is_some() && !is_of_table) {
            let error = statement.error(column.span, "only the columns of a table have defaults");
            return Err(error.with_hint("compute it in a view: coalesce(column, value)"));
        }
        if let Some(name) = create.key.first().filter(|_| !is_table && !is_upserted && !is_of_table) {
            let error = statement
                .error(name.span, "a stream has no key, because its rows are only added and never replaced");
            return Err(error.with_hint(
                "remove PRIMARY KEY; or add changes = 'upsert', if a row replaces the one with the same key; or \
                 declare a TABLE with a key",
            ));
        }
        if is_table
            && let Some(changes) = create.options.get("changes").filter(|_| definition.changes.is_some())
        {
            let error = statement
                .error(changes.value_span, "a table is read to its end once, so its rows do not change");
            return Err(error.with_hint("declare it as a SOURCE, or remove changes"));
        }
        if is_table && !definition.is_finite {
            let message =
                format!("'{}' would never be complete: a table is read to its end once", create.name);
            let error = statement.error(create.name.span, message).of(Problem::NotSupported);
            return Err(error.with_hint(
                "these rows have no end, so declare them as a SOURCE; a MATERIALIZED VIEW over it with a PRIMARY KEY \
                 keeps the last row of each key",
            ));
        }
        let key = create.key.iter().map(|name| column_of(&definition.schema, name, statement));
        definition.key = key.collect::<Result<_, _>>()?;
        if self.is_defined_so(create, &definition, statement) {
            return Ok(Reply::Done(format!("'{}' is defined so already, and stays as it is", create.name)));
        }
        if let Some(durable) = &mut definition.durable {
            durable.version = self.catalog.version() + 1;
        }
        self.catalog.relations.add(create.name.as_str(), Relation::Source(Arc::new(definition)));
        let kind = if is_table { "table" } else { "source" };
        Ok(Reply::Done(format!("{kind} {} created", create.name)))
    }

    /// Whether a name is taken and the statement permits that; an error if it is taken and the statement does not.
    pub(super) fn exists(
        &self,
        name: &Name,
        if_not_exists: bool,
        or_replace: bool,
        statement: &Statement,
    ) -> Result<bool, TextError> {
        let taken = self.catalog.relations.get(name.as_str()).is_some()
            || self.catalog.sinks.contains_key(name.as_str())
            || self.catalog.failed(RelationKind::View, name.as_str()).is_some();
        if taken && if_not_exists {
            Ok(true)
        } else if taken && !or_replace {
            let error = statement.error(name.span, format!("'{name}' already exists"));
            Err(error.of(Problem::Exists).with_hint("choose another name, or write CREATE OR REPLACE"))
        } else if self.is_defined(RelationKind::Function, name.as_str()) {
            let error = statement.error(name.span, format!("'{name}' is a function"));
            Err(error.of(Problem::Exists).with_hint("choose another name, or drop the function first"))
        } else {
            Ok(false)
        }
    }

    pub(super) fn create_view(
        &mut self,
        create: &CreateView,
        statement: &Statement,
    ) -> Result<Reply, TextError> {
        if self.exists(&create.name, create.if_not_exists, create.or_replace, statement)? {
            return Ok(Reply::Done(format!("'{}' already exists", create.name)));
        }
        if create.options.get("max_latency").is_some() {
            let error = create
                .options
                .error("max_latency", "a view does not run by itself, so it has no latency bound");
            return Err(error.with_hint("set max_latency on the sink or on the SELECT"));
        }
        create.options.finish(&[])?;
        // Optimised once, so that errors are found here and not where it is used.
        let (plan, _) = self.plan_as_written(&create.query, statement)?;
        check_names(&create.name, &plan, statement)?;
        self.add_view(&create.name, plan, None);
        Ok(Reply::Done(format!("view {} created", create.name)))
    }

    fn add_view(&mut self, name: &Name, plan: LogicalPlan, materialized: Option<Materialized>) {
        let view = ViewDefinition { plan, materialized, rows: None };
        self.catalog.relations.add(name.as_str(), Relation::View(Arc::new(view)));
    }

    /// What a view's query gives, checked.
    fn checked_output(&self, plan: &LogicalPlan, statement: &Statement) -> Result<Output, TextError> {
        let check = [("check".into(), plan.clone())];
        let check = (&check[..], &[Takes::Changes][..]);
        let prepared = Prepared::together("check", check, QueryContext::of_check(&self.settings), false)
            .map_err(|error| self.text_error(&error, statement))?;
        Ok(prepared.outputs[0].clone())
    }

    pub(super) fn create_materialized_view(
        &mut self,
        create: &CreateMaterializedView,
        statement: &Statement,
    ) -> Result<Reply, TextError> {
        if self.exists(&create.name, create.if_not_exists, create.or_replace, statement)? {
            return Ok(Reply::Done(format!("'{}' already exists", create.name)));
        }
        create.options.finish(&VIEW_OPTIONS)?;
        let max_latency = max_latency(&create.options)?;
        let plan = self.plan(&create.query, statement)?;
        check_names(&create.name, &plan, statement)?;
        let mut output = self.checked_output(&plan, statement)?;
        // The key is part of the view, so that it means the same before the pipeline runs, in it, and afterwards.
        let stored = match view_key(create, &output, statement)? {
            Some(key) => {
                output.table_key = Some(Some(key.clone()));
                LastOfKey::plan(Key(key), plan)
            }
            None => plan,
        };
        let retained =
            self.with_provider(|provider| retained::read(&create.options, &output, provider, statement))?;
        let beginning = beginning(&create.options)?;
        let plan = match retained.point {
            Some(point) => with_point(stored.clone(), point),
            None => Ok(stored.clone()),
        };
        let plan = plan.map_err(|error| self.text_error(&error, statement))?;
        let gateways = self.view_gateways(&stored, &output, &retained, statement)?;
        let key = output.table_key.flatten();
        self.add_view(
            &create.name,
            plan,
            Some(Materialized { stored, key, retained, gateways, max_latency, beginning }),
        );
        Ok(Reply::Done(format!("materialized view {} created", create.name)))
    }

    pub(super) fn create_sink(
        &mut self,
        create: &CreateSink,
        statement: &Statement,
    ) -> Result<Reply, TextError> {
        if self.exists(&create.name, create.if_not_exists, create.or_replace, statement)? {
            return Ok(Reply::Done(format!("'{}' already exists", create.name)));
        }
        let definition = connectors::define_sink(&create.options, &self.catalog.connectors, &self.settings)?;
        let max_latency = max_latency(&create.options)?;
        let contract = self.contract(&create.options)?;
        let beginning = beginning(&create.options)?;
        let inputs = match &create.input {
            None => Vec::new(),
            Some(SinkInput::Query(query)) => vec![self.sink_input(query, definition.takes, statement)?],
            Some(SinkInput::Relation(name)) => {
                vec![self.sink_input(&select_all(name, statement)?, definition.takes, statement)?]
            }
        };
        let gateways = self.sink_gateways(&inputs, &definition.connector, statement)?;
        let entry = SinkEntry { definition, max_latency, contract, beginning, inputs, gateways };
        Arc::make_mut(&mut self.catalog.sinks).insert(create.name.value.clone(), entry);
        Ok(Reply::Done(format!("sink {} created", create.name)))
    }

    /// The plan of a sink's input, checked.
    pub(super) fn sink_input(
        &self,
        query: &ast::Query,
        takes: Takes,
        statement: &Statement,
    ) -> Result<LogicalPlan, TextError> {
        let plan = self.plan(query, statement)?;
        let check = [("check".into(), plan.clone())];
        let check = (&check[..], &[takes][..]);
        Prepared::together("check", check, QueryContext::of_check(&self.settings), false)
            .map_err(|error| self.text_error(&error, statement))?;
        Ok(plan)
    }

    pub(super) fn insert(
        &mut self,
        sink: &Name,
        query: &ast::Query,
        options: &Options,
        statement: &Statement,
    ) -> Result<Reply, TextError> {
        options.finish(&["max_latency"])?;
        let bound = max_latency(options)?;
        let names: Vec<String> = self.catalog.sinks.keys().cloned().collect();
        let known = self.catalog.sinks.get(sink.as_str()).map(|entry| &entry.definition);
        let plan = self.sink_input(query, known.map_or(Takes::Rows, |known| known.takes), statement)?;
        let connector = known.map(|known| known.connector.clone());
        let gateways =
            self.sink_gateways(std::slice::from_ref(&plan), &connector.unwrap_or_default(), statement)?;
        let Some(entry) = Arc::make_mut(&mut self.catalog.sinks).get_mut(sink.as_str()) else {
            if self.catalog.push_target(sink.as_str()).is_some() {
                let message = format!("'{sink}' is a source, whose rows come from clients of a server");
                let hint = "insert them with psql or another client of PostgreSQL; see tidemill serve";
                return Err(statement.error(sink.span, message).with_hint(hint));
            }
            let error = statement.error(sink.span, format!("there is no sink '{sink}'"));
            return Err(match crate::closest(sink.as_str(), names.iter().map(String::as_str)) {
                Some(meant) => error.with_hint(format!("did you mean {meant}?")),
                None => {
                    error.with_hint("define it first: CREATE SINK name WITH (connector = 'file', path = ...)")
                }
            });
        };
        if !entry.inputs.is_empty() {
            let error = statement.error(sink.span, format!("'{sink}' already has an input"));
            return Err(error.with_hint("combine both inputs with UNION ALL, or define a second sink"));
        }
        entry.gateways = gateways;
        entry.inputs.push(plan);
        entry.max_latency = entry.max_latency.into_iter().chain(bound).min();
        Ok(Reply::Done(format!("a query writes to {sink}")))
    }

    pub(super) fn drop_named(
        &mut self,
        kind: RelationKind,
        name: &Name,
        if_exists: bool,
        statement: &Statement,
    ) -> Result<Reply, TextError> {
        let what = kind.keyword().to_lowercase();
        let none = if kind == RelationKind::Places { "are" } else { "is" };
        let missing = format!("there {none} no {what} '{name}'");
        if !self.is_defined(kind, name.as_str()) {
            if if_exists {
                return Ok(Reply::Done(missing));
            }
            let hint =
                self.kind_of(name.as_str()).map(|kind| format!("write DROP {} {name}", kind.keyword()));
            let error = statement.error(name.span, missing).of(Problem::UnknownRelation);
            return Err(error.with_optional_hint(hint));
        }
        match kind {
            RelationKind::Places => drop(self.catalog.places.remove(name.as_str())),
            RelationKind::Function => {
                self.check_unused(kind, name, statement)?;
                drop(self.catalog.defined.remove(name.as_str()));
            }
            RelationKind::Pool => {
                if let Some(sink) = self.user_of_pool(name.as_str()) {
                    let message = format!("sink '{sink}' runs in pool '{name}'");
                    return Err(statement.error(name.span, message).with_hint("drop the sink first"));
                }
                drop(self.catalog.pools.remove(name.as_str()));
            }
            RelationKind::Sink => drop(Arc::make_mut(&mut self.catalog.sinks).remove(name.as_str())),
            _ => {
                self.check_unused(kind, name, statement)?;
                drop(self.catalog.relations.remove(name.as_str()));
            }
        }
        self.catalog.forget_failed(kind, name.as_str());
        Ok(Reply::Done(format!("{what} {name} dropped")))
    }
}

impl Planner {
    /// Whether something of this kind has this name, or would have it if its definition had not failed.
    pub(super) fn is_defined(&self, kind: RelationKind, name: &str) -> bool {
        let failed = self.catalog.failed(kind, name).and_then(|failed| failed.defines.as_ref());
        let is_there = match (kind, self.catalog.relations.get(name)) {
            (RelationKind::Sink, _) => self.catalog.sinks.contains_key(name),
            (RelationKind::Function, _) => self.catalog.defined.contains_key(name),
            (RelationKind::Pool, _) => self.catalog.pools.contains_key(name),
            (RelationKind::Places, _) => self.catalog.places.contains_key(name),
            (RelationKind::Process, Some(Relation::Process(_))) => true,
            (RelationKind::Source | RelationKind::Table, Some(Relation::Source(source))) => {
                source.is_table == (kind == RelationKind::Table)
            }
            (RelationKind::View, Some(Relation::View(view))) => view.materialized.is_none(),
            (RelationKind::MaterializedView, Some(Relation::View(view))) => view.materialized.is_some(),
            _ => false,
        };
        is_there || failed.is_some_and(|(own, _)| *own == kind)
    }

    /// What has this name.
    pub(super) fn kind_of(&self, name: &str) -> Option<RelationKind> {
        let kinds = [
            RelationKind::Source,
            RelationKind::Table,
            RelationKind::View,
            RelationKind::MaterializedView,
            RelationKind::Process,
            RelationKind::Sink,
            RelationKind::Pool,
            RelationKind::Places,
        ];
        kinds.into_iter().find(|kind| self.is_defined(*kind, name))
    }
}

/// Where a query of a server is to begin: `start = 'earliest'` or `'now'`.
fn beginning(options: &Options) -> Result<Option<Beginning>, TextError> {
    match options.text("start")? {
        None => Ok(None),
        Some("now") => Ok(Some(Beginning::Current)),
        Some("earliest") => Ok(Some(Beginning::Earliest)),
        Some(other) => {
            let error = options.error("start", format!("no query can start at '{other}'"));
            Err(error.with_hint(
                "write start = 'earliest' for all rows that the journal still has, or start = 'now'",
            ))
        }
    }
}

/// A view's columns are found by their names.
fn check_names(view: &Name, plan: &LogicalPlan, statement: &Statement) -> Result<(), TextError> {
    let mut names = HashSet::new();
    let mut fields = plan.schema().fields().iter().map(|field| shown(field.name()));
    let Some(twice) = fields.find(|name| !names.insert(*name)) else { return Ok(()) };
    let place = statement.find_name(twice).unwrap_or(view.span);
    let error = statement.error(place, format!("two columns of view {view} have the name `{twice}`"));
    Err(error.with_hint("rename one of them with AS"))
}

/// The index of a column.
fn column_of(schema: &Schema, name: &Name, statement: &Statement) -> Result<usize, TextError> {
    let names = schema.fields().iter().map(|field| field.name().as_str());
    let index = name.meant(names.clone()).and_then(|meant| schema.index_of(meant).ok());
    index.ok_or_else(|| {
        let error = statement.error(name.span, format!("there is no column '{name}'"));
        match crate::closest(name.as_str(), names) {
            Some(meant) => error.with_hint(format!("did you mean {meant}?")),
            None => error,
        }
    })
}

/// The key that identifies a view's rows, if one is given. A view without a key is kept completely, and an aggregate
/// without a window has its own.
fn view_key(
    create: &CreateMaterializedView,
    output: &Output,
    statement: &Statement,
) -> Result<Option<Vec<usize>>, TextError> {
    if create.key.is_empty() {
        return Ok(None);
    }
    let key = create.key.iter().map(|name| column_of(&output.schema, name, statement));
    let key: Vec<usize> = key.collect::<Result<_, _>>()?;
    if output.is_changing {
        let message =
            "the rows of this view come and go by themselves, so no key says which of them is the last";
        return Err(statement.error(create.key[0].span, message).with_hint("remove PRIMARY KEY"));
    }
    let Some(own) = &output.table_key else { return Ok(Some(key)) };
    let own = own.clone().unwrap_or_default();
    if own.len() == key.len() && own.iter().all(|column| key.contains(column)) {
        return Ok(None);
    }
    let names = own.iter().map(|column| output.schema.field(*column).name().as_str());
    let names = names.collect::<Vec<_>>().join(", ");
    let error = statement.error(create.key[0].span, "the key of this view is what it is grouped by");
    Err(error.with_hint(format!("remove PRIMARY KEY, or write PRIMARY KEY ({names})")))
}
