//! Queries that run together and write to sinks and views of their own.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use datafusion::logical_expr::{Expr, LogicalPlan};
use tidemill_engine::{Cause, Durability};

use crate::connectors::SinkDefinition;
use crate::named_relations::ViewDefinition;
use crate::prepared::{Circumstances, Output, Prepared};
use crate::translate::UsedSource;

/// Where the rows of an output go.
#[derive(Clone)]
pub(crate) enum Target {
    /// To a sink.
    Sink(SinkDefinition),
    /// Into memory, where they can be read, for this view.
    View(Arc<ViewDefinition>),
}

/// Queries that were checked and planned to run together, with the sinks and views that they write to. As with
/// [`Prepared`], nothing of them is open.
///
/// ```
/// use tidemill_sql::{Planner, parse};
/// let mut planner = Planner::new();
/// let script = "CREATE MATERIALIZED VIEW parity AS
///     SELECT value % 2 AS odd, count(*) AS n FROM sequence(count => 9) GROUP BY 1";
/// for statement in parse(script, "example").unwrap() {
///     planner.execute(&statement).unwrap_or_else(|error| panic!("{error}"));
/// }
/// let pipeline = planner.pipeline().unwrap().expect("there is a view");
/// assert_eq!(pipeline.outputs()[0].name, "parity");
/// let running = pipeline.open().unwrap().start().unwrap();
/// let parity = running.views()[0].clone();
/// running.wait().unwrap();
/// assert_eq!(parity.read().unwrap().num_rows(), 2);
/// ```
pub struct Pipeline {
    pub(crate) prepared: Prepared,
    /// One for each output.
    pub(crate) targets: Vec<Target>,
    pub(crate) durable: Option<DurableRunPlan>,
}

/// Where a durable pipeline has its journal, and what it depends on there.
pub(crate) struct DurableRunPlan {
    pub folder: PathBuf,
    pub durability: Durability,
}

impl Pipeline {
    /// Plans queries, each with its name and target.
    pub(crate) fn new(
        queries: &[(String, LogicalPlan)],
        targets: Vec<Target>,
        circumstances: Circumstances<'_>,
    ) -> Result<Pipeline, Cause> {
        let prepared = Prepared::together("pipeline", queries, circumstances, false)
            .map_err(|error| Cause::user(crate::expression::plain(&error)).with_source(error))?;
        let durable = durable(&prepared, queries)?;
        let view = targets.iter().position(|target| matches!(target, Target::View(_)));
        if let (Some(_), Some(at)) = (&durable, view) {
            let (view, _) = &queries[at];
            return Err(Cause::user(format!(
                "materialized view '{view}' reads a durable source; views are not kept over a crash yet: write to a \
                 sink instead, or run the view in a pipeline of its own over a source without durable = true"
            )));
        }
        Ok(Pipeline { prepared, targets, durable })
    }

    /// Its outputs.
    pub fn outputs(&self) -> &[Output] {
        self.prepared.outputs()
    }

    /// The bound on the time from arrival to result.
    pub fn max_latency(&self) -> Option<Duration> {
        self.prepared.max_latency()
    }

    /// The folder of its journal, if it is durable.
    pub fn journal(&self) -> Option<&Path> {
        self.durable.as_ref().map(|durable| durable.folder.as_path())
    }

    /// Its queries without their targets: their rows go to sinks of the caller's, and no journal is kept.
    pub fn into_prepared(self) -> Prepared {
        self.prepared
    }
}

/// How queries are durable, if their sources are.
fn durable(prepared: &Prepared, queries: &[(String, LogicalPlan)]) -> Result<Option<DurableRunPlan>, Cause> {
    let is_durable = |source: &UsedSource| source.definition.durable.is_some();
    let sources = &prepared.dataflow.sources;
    let Some(durable) = sources.iter().find(|source| is_durable(source)) else { return Ok(None) };
    if let Some(volatile) = sources.iter().find(|source| !is_durable(source) && !source.is_empty) {
        let (durable, volatile) = (&durable.definition.name, &volatile.definition.name);
        return Err(Cause::user(format!(
            "source '{durable}' is durable and source '{volatile}' of the same pipeline is not: after a crash its \
             rows would be missing; add durable = true to '{volatile}', or run it in a pipeline of its own"
        )));
    }
    let Some(folder) = &prepared.settings.journal else {
        let name = &durable.definition.name;
        return Err(Cause::user(format!(
            "source '{name}' is durable, so say where its journal is: SET journal = 'folder'"
        )));
    };
    let text = queries.iter().map(|(name, plan)| format!("{name}: {}\n", plan.display_indent()));
    let durability = Durability::new(text.collect::<String>());
    let snapshot_every = prepared.settings.snapshot_every;
    let meaning = sources.iter().flat_map(meaning).collect();
    let durability = Durability { snapshot_every, meaning, ..durability };
    Ok(Some(DurableRunPlan { folder: folder.clone(), durability }))
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
