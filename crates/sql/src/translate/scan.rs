//! Scans: the sources of a run, each declared once with the columns that any query reads.

use std::collections::BTreeSet;
use std::sync::Arc;

use datafusion::arrow::error::ArrowError;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{DFSchema, Result, plan_err};
use datafusion::logical_expr::{Expr, LogicalPlan, TableScan};
use tidemill_connect::memory::PushTarget;
use tidemill_engine::{
    Cause, DurableUse, Expression, FeedSettings, PastSource, Source, SourceKey, SourcePlan, SourceUse,
    StreamRef,
};
use tracing::info;

use super::columns::unique;
use super::not_streaming::not_streaming;
use super::{Kind, Relation, Role, Translator, refuse, scalar_subqueries};
use crate::expressions::compiled::Compiled;
use crate::relations::source_definition::{ScannedSource, SourceDefinition, scanned};
use tidemill_trees::nodes::{PlanTree, Tree};

/// A source of the run.
#[derive(Clone)]
pub(crate) struct UsedSource {
    pub definition: Arc<SourceDefinition>,
    /// The definition's columns that enter the gateway, ascending.
    pub columns: Vec<usize>,
    /// The source's own columns that are read for them, ascending.
    pub raw_columns: Vec<usize>,
    /// How the gateway's columns are computed from these, if they are not the same.
    pub computed: Option<Vec<Compiled>>,
    /// The streams of timely rows and, if anyone reads them, of late rows.
    pub streams: Vec<StreamRef>,
    /// Whether it is known to have no rows, so that a crash can lose none of them.
    pub is_empty: bool,
}

/// A stream that the plan had before its queries were translated, and that they read by name.
#[derive(Clone)]
pub(crate) struct GivenStream {
    /// What the catalogue has under the name. It is never opened.
    pub definition: Arc<SourceDefinition>,
    /// The stream.
    pub relation: Relation,
    /// The stream of rows that came too late, if the plan has it.
    pub late: Option<StreamRef>,
}

impl UsedSource {
    /// Whether it is read from its beginning whenever a query starts.
    pub fn can_start_over(&self) -> bool {
        let definition = &self.definition;
        definition.is_repeatable || definition.starts_over || self.is_empty
    }

    /// The index of the event time among the gateway's columns.
    pub fn event_time(&self) -> Option<tidemill_engine::EventTime> {
        let event_time = self.definition.event_time?;
        let column = self.columns.iter().position(|column| *column == event_time.column)?;
        Some(tidemill_engine::EventTime { column, ..event_time })
    }

    /// Opens it; also says how its rows come in.
    pub fn open(&self) -> std::result::Result<(Box<dyn Source>, FeedSettings), Cause> {
        info!(source = self.definition.name, "source is opened");
        Ok(((self.definition.open)(Some(&self.raw_columns))?, self.settings()))
    }

    /// How its rows come in.
    fn settings(&self) -> FeedSettings {
        let expression = |column: &Compiled| Arc::new(column.clone()) as Arc<dyn Expression>;
        FeedSettings {
            columns: self.computed.as_ref().map(|columns| columns.iter().map(expression).collect()),
            event_time: self.event_time(),
            idle_after: self.definition.idle_after,
            max_ahead: self.definition.max_ahead,
            clock: self.definition.clock.clone(),
        }
    }

    /// How a query reads it from the journal of its pipeline, where it has this name, or from that of its database.
    pub fn past(&self, planned: &SourcePlan, is_of_database: bool) -> std::result::Result<PastSource, Cause> {
        let definition = &self.definition;
        if !is_of_database {
            let raw = definition.raw.project(&self.raw_columns).map_err(of_columns)?;
            let schema = Arc::clone(&planned.streams[0]);
            let (stream, settings) = (planned.name.clone(), self.settings());
            return Ok(PastSource { stream, settings, raw: Arc::new(raw), schema, columns: None });
        }
        let stream = definition.stream_name().ok_or_else(|| {
            Cause::user(format!("source '{}' has no journal, so there is nothing to replay", definition.name))
        })?;
        let schema = unique(&definition.schema);
        let (settings, raw) = (settings_for_all(definition)?, Arc::clone(&definition.raw));
        Ok(PastSource { stream, settings, raw, schema, columns: Some(self.columns.clone()) })
    }

    /// Whether its rows come once, to whoever has it open.
    pub fn is_live(&self) -> bool {
        let definition = &self.definition;
        !(definition.starts_over || definition.is_finite && definition.is_repeatable)
    }

    /// By which queries find it that read it together.
    pub fn key(&self) -> SourceKey {
        SourceKey(Arc::clone(&self.definition) as _)
    }

    /// How a query reads it under the clock of a database: with others, if it cannot be read again.
    pub fn under_clock(&self) -> std::result::Result<SourceUse, Cause> {
        let definition = &self.definition;
        let starts_over = definition.starts_over || (definition.is_finite && definition.is_repeatable);
        let (name, waits_max) = (definition.name.clone(), definition.waits_max);
        let durable = definition.durable.as_ref().zip(definition.stream_name());
        let durable = durable.map(|(durable, stream)| DurableUse {
            stream,
            settings: durable.stream.clone(),
            sync: durable.sync,
            is_transactional: definition.push.as_ref().is_some_and(PushTarget::is_transactional),
        });
        if starts_over && durable.is_none() {
            let used = self.clone();
            let schema = unique(&definition.schema.project(&self.columns).map_err(of_columns)?);
            let columns = (0..self.columns.len()).collect();
            return Ok(SourceUse {
                name,
                key: None,
                waits_max,
                open: Box::new(move || used.open()),
                schema,
                columns,
                durable,
            });
        }
        let (key, schema) = (self.key(), unique(&definition.schema));
        let opened = Arc::clone(definition);
        let open = Box::new(move || open_for_all(&opened));
        Ok(SourceUse {
            name,
            key: Some(key),
            waits_max,
            open,
            schema,
            columns: self.columns.clone(),
            durable,
        })
    }
}

/// Opens a source with all columns, for any query.
fn open_for_all(
    definition: &SourceDefinition,
) -> std::result::Result<(Box<dyn Source>, FeedSettings), Cause> {
    info!(source = definition.name, "source is opened");
    let raw_columns: Vec<usize> = (0..definition.raw.fields().len()).collect();
    Ok(((definition.open)(Some(&raw_columns))?, settings_for_all(definition)?))
}

/// How the rows of a source come in that is read with all columns.
fn settings_for_all(definition: &SourceDefinition) -> std::result::Result<FeedSettings, Cause> {
    let raw_columns: Vec<usize> = (0..definition.raw.fields().len()).collect();
    let compiled = |expressions: &Vec<Expr>| -> Result<Vec<Arc<dyn Expression>>> {
        let raw = DFSchema::try_from(definition.raw.as_ref().clone())?;
        let column = |expression| {
            let column = Compiled::new(expression, &raw)?.over_columns(&raw_columns)?;
            Ok(Arc::new(column) as Arc<dyn Expression>)
        };
        expressions.iter().map(column).collect()
    };
    let columns = definition.computed.as_ref().map(compiled).transpose();
    Ok(FeedSettings {
        columns: columns.map_err(|error| Cause::bug(error.to_string()).with_source(error))?,
        event_time: definition.event_time,
        idle_after: definition.idle_after,
        max_ahead: definition.max_ahead,
        clock: definition.clock.clone(),
    })
}

fn of_columns(error: ArrowError) -> Cause {
    Cause::bug(error.to_string()).with_source(error)
}

/// The definitions that a plan reads, in the order of reading.
pub(super) fn definitions(plan: &LogicalPlan) -> Vec<(*const SourceDefinition, bool)> {
    let mut found = Vec::new();
    let _ = plan.look_through_with_subqueries(|node| {
        if let LogicalPlan::TableScan(scan) = node
            && let Some(source) = scanned(scan.source.as_ref())
        {
            found.push((Arc::as_ptr(&source.definition), source.late));
        }
        Ok(TreeNodeRecursion::Continue)
    });
    found
}

impl Translator {
    /// Declares the sources that the queries read as streams, with the columns that they read, or with all of them.
    pub fn declare_sources(&mut self, queries: &[&LogicalPlan], all_columns: bool) -> Result<()> {
        let mut found: Vec<(ScannedSource, BTreeSet<usize>, bool)> = Vec::new();
        for query in queries {
            scalar_subqueries::refuse_subqueries(query)?;
            query.look_through(|node| {
                if super::is_static(node) {
                    return Ok(TreeNodeRecursion::Jump);
                }
                if matches!(node, LogicalPlan::RecursiveQuery(_)) {
                    return Err(not_streaming(node));
                }
                let LogicalPlan::TableScan(scan) = node else { return Ok(TreeNodeRecursion::Continue) };
                let Some(source) = scanned(scan.source.as_ref()) else {
                    return plan_err!("'{}' does not belong to this catalogue", scan.table_name);
                };
                if let Some(given) = self.given_stream(&source.definition) {
                    return if source.late && given.late.is_none() { Err(refuse(
                            format!("the late rows of '{}' are counted and not kept", source.definition.name),
                            "read late() in the first query that reads a source which SQL declares; the program's own \
                             streams do not keep them",
                        )) } else { Ok(TreeNodeRecursion::Continue) };
                }
                let same = |known: &(ScannedSource, BTreeSet<usize>, bool)| {
                    Arc::ptr_eq(&known.0.definition, &source.definition)
                };
                let index = found.iter().position(same).unwrap_or_else(|| {
                    found.push((source.clone(), BTreeSet::new(), false));
                    found.len() - 1
                });
                let columns = read_columns(scan, &source.definition, all_columns);
                found[index].1.extend(columns);
                found[index].2 |= source.late;
                Ok(TreeNodeRecursion::Continue)
            })?;
        }
        for (source, columns, late) in found {
            self.declare(source.definition, columns, late)?;
        }
        Ok(())
    }

    fn declare(
        &mut self,
        definition: Arc<SourceDefinition>,
        mut columns: BTreeSet<usize>,
        late: bool,
    ) -> Result<()> {
        columns.extend(definition.event_time.map(|event_time| event_time.column));
        if columns.is_empty() {
            // Rows are counted even if no column is read; one column carries them.
            columns.insert(0);
        }
        let columns: Vec<usize> = columns.into_iter().collect();
        let all_columns = || (0..definition.raw.fields().len()).collect::<Vec<_>>();
        let (raw_columns, computed) = match &definition.computed {
            // A journal has all columns, whichever this query reads.
            None if definition.durable.is_some() && columns != all_columns() => {
                let raw = DFSchema::try_from(definition.raw.as_ref().clone())?;
                let column =
                    |column: &usize| Compiled::new(&Expr::Column(raw.columns()[*column].clone()), &raw);
                (all_columns(), Some(columns.iter().map(column).collect::<Result<_>>()?))
            }
            None => (columns.clone(), None),
            Some(expressions) => {
                let raw = DFSchema::try_from(definition.raw.as_ref().clone())?;
                let needed = columns.iter().map(|column| Compiled::new(&expressions[*column], &raw));
                let needed: Vec<Compiled> = needed.collect::<Result<_>>()?;
                let mut read: Vec<usize> = needed.iter().flat_map(Compiled::columns).collect();
                read.sort_unstable();
                read.dedup();
                read.retain(|column| *column < definition.raw.fields().len());
                if read.is_empty() {
                    read.push(0);
                }
                if definition.durable.is_some() {
                    read = all_columns();
                }
                let over = needed.iter().map(|column| column.over_columns(&read));
                let over = over.collect::<Result<Vec<_>>>()?;
                (read, Some(over))
            }
        };
        let schema = unique(&definition.schema.project(&columns)?);
        let streams = vec![schema; 1 + usize::from(late)];
        let streams = self.plan.source(&definition.name, streams);
        let is_empty = false;
        self.sources.push(UsedSource { definition, columns, raw_columns, computed, streams, is_empty });
        Ok(())
    }

    pub(super) fn scan(&mut self, scan: &TableScan) -> Result<Relation> {
        let Some(wanted) = scanned(scan.source.as_ref()) else {
            return plan_err!("'{}' does not belong to this catalogue", scan.table_name);
        };
        if let Some(given) = self.given_stream(&wanted.definition).cloned() {
            let all: Vec<usize> = (0..given.definition.schema.fields().len()).collect();
            let columns = scan.projection.as_ref().unwrap_or(&all);
            let stream = given.late.filter(|_| wanted.late).unwrap_or(given.relation.stream);
            let roles = if wanted.late { vec![Role::None; all.len()] } else { given.relation.roles };
            let ordered = given.relation.ordered && !wanted.late;
            let relation = Relation { stream, roles, ordered, ..given.relation };
            return self.select(relation, columns, &scan.projected_schema);
        }
        let same = |used: &UsedSource| Arc::ptr_eq(&used.definition, &wanted.definition);
        let Some(index) = self.sources.iter().position(same) else {
            return plan_err!(
                "'{}' is read both as a table and as a stream; declare it twice",
                scan.table_name
            );
        };
        let used = &self.sources[index];
        let gateway = self.gateway(index, wanted.late);
        let all: Vec<usize> = (0..used.definition.schema.fields().len()).collect();
        let wanted_columns = scan.projection.as_ref().unwrap_or(&all);
        let place = |column: &usize| used.columns.iter().position(|known| known == column);
        let places: Vec<usize> = wanted_columns.iter().filter_map(place).collect();
        self.select(gateway, &places, &scan.projected_schema)
    }

    /// The rows of a source as they come in, or those that came too late.
    fn gateway(&self, index: usize, late: bool) -> Relation {
        let UsedSource { definition, columns, streams, .. } = &self.sources[index];
        Relation {
            stream: streams[usize::from(late)],
            schema: Arc::clone(self.plan.schema(streams[0]).expect("it was declared")),
            roles: columns.iter().map(|column| role(definition, *column, late)).collect(),
            kind: Kind::Stream,
            sources: vec![self.first_source + index],
            ordered: definition.ordered && !late,
            is_as_of_the_row: false,
            is_finite: definition.is_finite,
            selection: None,
        }
    }

    /// The timely rows of a source of the plan.
    pub(super) fn rows_of_source(&self, source: usize) -> Option<Relation> {
        match source.checked_sub(self.first_source) {
            Some(own) => Some(self.gateway(own, false)),
            None => {
                let mut given = self.given.iter().map(|given| &given.relation);
                given.find(|relation| relation.sources == [source]).cloned()
            }
        }
    }

    /// The sources that were declared with all their columns, for other queries to read.
    pub fn declared(&self) -> Vec<GivenStream> {
        let given = |(index, used): (usize, &UsedSource)| GivenStream {
            definition: Arc::clone(&used.definition),
            relation: self.gateway(index, false),
            late: used.streams.get(1).copied(),
        };
        self.sources.iter().enumerate().map(given).collect()
    }

    /// Whether a source of the plan ends by itself. Of a program's own sources nothing is known.
    pub(super) fn is_finite(&self, source: usize) -> bool {
        let is_given = |given: &GivenStream| given.relation.sources == [source] && given.relation.is_finite;
        match source.checked_sub(self.first_source) {
            Some(own) => self.sources[own].definition.is_finite,
            None => self.given.iter().any(is_given),
        }
    }

    fn given_stream(&self, definition: &Arc<SourceDefinition>) -> Option<&GivenStream> {
        self.given.iter().find(|given| Arc::ptr_eq(&given.definition, definition))
    }
}

fn read_columns(scan: &TableScan, definition: &SourceDefinition, all_columns: bool) -> Vec<usize> {
    match &scan.projection {
        Some(projection) if !all_columns => projection.clone(),
        _ => (0..definition.schema.fields().len()).collect(),
    }
}

/// Late rows have no time: nothing can wait for them.
fn role(definition: &SourceDefinition, column: usize, late: bool) -> Role {
    match definition.event_time {
        Some(event_time) if event_time.column == column && !late => Role::EventTime { delay_ns: 0 },
        _ => Role::None,
    }
}
