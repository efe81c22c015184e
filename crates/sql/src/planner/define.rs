//! Statements that define and drop things.

use std::collections::HashSet;
use std::sync::Arc;

use datafusion::arrow::datatypes::Schema;
use datafusion::logical_expr::LogicalPlan;
use datafusion::sql::sqlparser::ast;

use super::{Planner, Reply, max_latency, select_all};
use crate::catalog::SinkEntry;
use crate::connectors;
use crate::definition::SourceDefinition;
use crate::logical::{Key, LastOfKey, shown};
use crate::named_relations::{Materialized, Relation, ViewDefinition};
use crate::prepared::{Circumstances, Prepared};
use crate::statement::{
    CreateMaterializedView, CreateSink, CreateSource, CreateView, Name, Options, RelationKind, SinkInput,
    Statement,
};
use crate::text_error::TextError;

impl Planner {
    pub(super) fn create_source(
        &mut self,
        create: &CreateSource,
        is_table: bool,
        statement: &Statement,
    ) -> Result<Reply, TextError> {
        if self.exists(&create.name, create.if_not_exists, create.or_replace, statement)? {
            return Ok(Reply::Done(format!("'{}' is there already", create.name)));
        }
        if let Some(name) = create.key.first().filter(|_| !is_table) {
            let error = statement
                .error(name.span, "a stream has no key: rows are added to it, and none replaces another");
            return Err(error.with_hint(
                "leave PRIMARY KEY out; CREATE MATERIALIZED VIEW name PRIMARY KEY (key) AS SELECT ... keeps the last \
                 row of each key, and a TABLE has a key",
            ));
        }
        let mut definition: SourceDefinition = self.with_provider(|provider| {
            let (registry, table) = (&self.catalog.registry, &self.catalog.connectors);
            connectors::define_source(create, is_table, statement, provider, registry, table, &self.settings)
        })?;
        let key = create.key.iter().map(|name| column_of(&definition.schema, name, statement));
        definition.key = key.collect::<Result<_, _>>()?;
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
            || self.catalog.sinks.contains_key(name.as_str());
        match taken {
            true if if_not_exists => Ok(true),
            true if !or_replace => {
                let error = statement.error(name.span, format!("there is a '{name}' already"));
                Err(error.with_hint("choose another name, or write CREATE OR REPLACE"))
            }
            _ => Ok(false),
        }
    }

    pub(super) fn create_view(
        &mut self,
        create: &CreateView,
        statement: &Statement,
    ) -> Result<Reply, TextError> {
        if self.exists(&create.name, create.if_not_exists, create.or_replace, statement)? {
            return Ok(Reply::Done(format!("'{}' is there already", create.name)));
        }
        if create.options.get("max_latency").is_some() {
            let error =
                create.options.error("max_latency", "a view does not run by itself, so it has no bound");
            return Err(error.with_hint("state max_latency where rows leave: on the sink, or on the SELECT"));
        }
        create.options.finish(&[])?;
        // Optimised once, so that errors are found here and not where it is used.
        let (plan, _) = self.with_provider(|provider| {
            provider.plan_view(&create.query).map_err(|error| provider.text_error(&error, statement))
        })?;
        check_names(&create.name, &plan, statement)?;
        self.add_view(&create.name, plan, None);
        Ok(Reply::Done(format!("view {} created", create.name)))
    }

    fn add_view(&mut self, name: &Name, plan: LogicalPlan, materialized: Option<Materialized>) {
        let view = ViewDefinition { plan, materialized, rows: None };
        self.catalog.relations.add(name.as_str(), Relation::View(Arc::new(view)));
    }

    /// The key that identifies a view's rows, if one is given. A view without a key is kept completely, and an
    /// aggregate without a window has its own.
    fn view_key(
        &self,
        create: &CreateMaterializedView,
        plan: &LogicalPlan,
        statement: &Statement,
    ) -> Result<Option<Vec<usize>>, TextError> {
        let check = [(create.name.value.clone(), plan.clone())];
        let prepared = Prepared::together("check", &check, Circumstances::of_check(&self.settings), false)
            .map_err(|error| self.text_error(&error, statement))?;
        if create.key.is_empty() {
            return Ok(None);
        }
        let output = &prepared.outputs[0];
        let key = create.key.iter().map(|name| column_of(&output.schema, name, statement));
        let key: Vec<usize> = key.collect::<Result<_, _>>()?;
        let Some(own) = &output.table_key else { return Ok(Some(key)) };
        let own = own.clone().unwrap_or_default();
        if own.len() == key.len() && own.iter().all(|column| key.contains(column)) {
            return Ok(None);
        }
        let names = own.iter().map(|column| output.schema.field(*column).name().as_str());
        let names = names.collect::<Vec<_>>().join(", ");
        let error = statement.error(create.key[0].span, "the view has another key: what it is grouped by");
        Err(error.with_hint(format!("leave PRIMARY KEY out, or write PRIMARY KEY ({names})")))
    }

    pub(super) fn create_materialized_view(
        &mut self,
        create: &CreateMaterializedView,
        statement: &Statement,
    ) -> Result<Reply, TextError> {
        if self.exists(&create.name, create.if_not_exists, create.or_replace, statement)? {
            return Ok(Reply::Done(format!("'{}' is there already", create.name)));
        }
        create.options.finish(&["max_latency"])?;
        let max_latency = max_latency(&create.options)?;
        let plan = self.plan(&create.query, statement)?;
        check_names(&create.name, &plan, statement)?;
        // The key is part of the view, so that it means the same before the pipeline runs, in it, and afterwards.
        let plan = match self.view_key(create, &plan, statement)? {
            Some(key) => LastOfKey::plan(Key(key), plan),
            None => plan,
        };
        self.add_view(&create.name, plan, Some(Materialized { max_latency }));
        Ok(Reply::Done(format!("materialized view {} created", create.name)))
    }

    pub(super) fn create_sink(
        &mut self,
        create: &CreateSink,
        statement: &Statement,
    ) -> Result<Reply, TextError> {
        if self.exists(&create.name, create.if_not_exists, create.or_replace, statement)? {
            return Ok(Reply::Done(format!("'{}' is there already", create.name)));
        }
        let definition = connectors::define_sink(&create.options, &self.catalog.connectors)?;
        let max_latency = max_latency(&create.options)?;
        let inputs = match &create.input {
            None => Vec::new(),
            Some(SinkInput::Query(query)) => vec![self.sink_input(query, statement)?],
            Some(SinkInput::Relation(name)) => {
                vec![self.sink_input(&select_all(name, statement)?, statement)?]
            }
        };
        self.catalog.sinks.insert(create.name.value.clone(), SinkEntry { definition, max_latency, inputs });
        Ok(Reply::Done(format!("sink {} created", create.name)))
    }

    /// The plan of a sink's input, checked.
    pub(super) fn sink_input(
        &self,
        query: &ast::Query,
        statement: &Statement,
    ) -> Result<LogicalPlan, TextError> {
        let plan = self.plan(query, statement)?;
        let check = [("check".into(), plan.clone())];
        Prepared::together("check", &check, Circumstances::of_check(&self.settings), false)
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
        let plan = self.sink_input(query, statement)?;
        let names: Vec<String> = self.catalog.sinks.keys().cloned().collect();
        let Some(entry) = self.catalog.sinks.get_mut(sink.as_str()) else {
            let error = statement.error(sink.span, format!("there is no sink '{sink}'"));
            return Err(match crate::suggest::closest(sink.as_str(), names.iter().map(String::as_str)) {
                Some(meant) => error.with_hint(format!("did you mean {meant}?")),
                None => {
                    error.with_hint("define it first: CREATE SINK name WITH (connector = 'file', path = ...)")
                }
            });
        };
        if !entry.inputs.is_empty() {
            let error = statement.error(sink.span, format!("'{sink}' has an input already"));
            return Err(error.with_hint("unite both with UNION ALL, or define a second sink"));
        }
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
        let is_there = match (kind, self.catalog.relations.get(name.as_str())) {
            (RelationKind::Sink, _) => self.catalog.sinks.contains_key(name.as_str()),
            (RelationKind::Places, _) => self.catalog.places.contains_key(name.as_str()),
            (RelationKind::Process, Some(Relation::Process(_))) => true,
            (RelationKind::Source | RelationKind::Table, Some(Relation::Source(source))) => {
                source.is_table == (kind == RelationKind::Table)
            }
            (RelationKind::View, Some(Relation::View(view))) => view.materialized.is_none(),
            (RelationKind::MaterializedView, Some(Relation::View(view))) => view.materialized.is_some(),
            _ => false,
        };
        let what = kind.keyword().to_lowercase();
        let none = if kind == RelationKind::Places { "are" } else { "is" };
        let missing = format!("there {none} no {what} '{name}'");
        match is_there {
            false if if_exists => Ok(Reply::Done(missing)),
            false => Err(statement.error(name.span, missing)),
            true => {
                match kind {
                    RelationKind::Places => drop(self.catalog.places.remove(name.as_str())),
                    RelationKind::Sink => drop(self.catalog.sinks.remove(name.as_str())),
                    _ => drop(self.catalog.relations.remove(name.as_str())),
                }
                Ok(Reply::Done(format!("{what} {name} dropped")))
            }
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
    Err(error.with_hint("give one another name with AS"))
}

/// The index of a column.
fn column_of(schema: &Schema, name: &Name, statement: &Statement) -> Result<usize, TextError> {
    let names = schema.fields().iter().map(|field| field.name().as_str());
    let index = name.meant(names.clone()).and_then(|meant| schema.index_of(meant).ok());
    index.ok_or_else(|| {
        let error = statement.error(name.span, format!("there is no column '{name}'"));
        match crate::suggest::closest(name.as_str(), names) {
            Some(meant) => error.with_hint(format!("did you mean {meant}?")),
            None => error,
        }
    })
}
