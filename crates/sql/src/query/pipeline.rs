//! Queries that run together and write to sinks and views of their own.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use datafusion::logical_expr::{Expr, LogicalPlan};
use tidemill_connect::memory::PushTarget;
use tidemill_engine::{Beginning, Cause, DatabaseClock, Durability, SinkQuery};

use tidemill_operators::changes::changelog_schema;

use crate::connectors::{OpenSink, SinkDefinition};
use crate::query::prepared::{Output, Prepared, QueryContext};
use crate::relations::named_relations::{Materialized, Retained, ViewDefinition};
use crate::settings::Settings;
use crate::translate::{Takes, UsedSource};

/// Where the rows of an output go.
#[derive(Clone)]
pub(crate) enum OutputTarget {
    /// To a sink.
    Sink(SinkDefinition),
    /// Into memory, where they can be read, for this view.
    View(Arc<ViewDefinition>),
}

impl OutputTarget {
    fn takes(&self) -> Takes {
        match self {
            OutputTarget::Sink(sink) => sink.takes,
            OutputTarget::View(_) => Takes::Changes,
        }
    }
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
    pub(crate) targets: Vec<OutputTarget>,
    pub(crate) durable: Option<DurableRunPlan>,
    /// What it computes, see [`Pipeline::computation`].
    computation: String,
    /// Whether one of its queries says where to begin.
    says_where_to_begin: bool,
}

/// Where a durable pipeline has its journal, and what it depends on there.
pub(crate) struct DurableRunPlan {
    pub folder: PathBuf,
    pub durability: Durability,
    /// Where it begins under a clock that has a journal.
    pub beginning: Beginning,
}

impl Pipeline {
    /// Plans queries, each with its name and target.
    pub(crate) fn new(
        queries: &[(String, LogicalPlan)],
        targets: Vec<OutputTarget>,
        context: QueryContext<'_>,
    ) -> Result<Pipeline, Cause> {
        let takes: Vec<Takes> = targets.iter().map(OutputTarget::takes).collect();
        let prepared = Prepared::together("pipeline", (queries, &takes), context, false)
            .map_err(|error| Cause::user(crate::expressions::compiled::plain(&error)).with_source(error))?;
        let durable = durable(&prepared, queries)?;
        let computation = computation(&prepared, queries, &targets);
        Ok(Pipeline { prepared, targets, durable, computation, says_where_to_begin: false })
    }

    /// Begins where its queries ask for. One that asks for nothing has the earliest rows if all its sources are files, as it has
    /// without a journal.
    pub(crate) fn begin_at(&mut self, asked: &[Option<Beginning>]) -> Result<(), Cause> {
        if let Some(durable) = &mut self.durable {
            for (sink, asked) in durable.durability.sinks.iter_mut().zip(asked) {
                sink.from_earliest = *asked == Some(Beginning::Earliest);
            }
        }
        let asked: Vec<Beginning> = asked.iter().flatten().copied().collect();
        self.says_where_to_begin = !asked.is_empty();
        let sources = &self.prepared.dataflow.sources;
        let is_earliest = match asked.as_slice() {
            [] => self.starts_over(),
            asked => asked.contains(&Beginning::Earliest),
        };
        if !is_earliest {
            return Ok(());
        }
        let cannot = |source: &&UsedSource| source.definition.durable.is_none() && !source.can_start_over();
        if let Some(source) = sources.iter().find(cannot) {
            return Err(Cause::user(format!(
                "start = 'earliest' needs the rows of before, but source '{}' has no journal; add durable = true to \
                 the source, or remove start",
                source.definition.name
            )));
        }
        if let Some(durable) = &mut self.durable {
            durable.beginning = Beginning::Earliest;
        }
        Ok(())
    }

    /// Its outputs.
    pub fn outputs(&self) -> &[Output] {
        self.prepared.outputs()
    }

    /// The bound on the time from arrival to result.
    pub fn max_latency(&self) -> Option<Duration> {
        self.prepared.max_latency()
    }

    /// Its settings.
    pub fn settings(&self) -> &Settings {
        self.prepared.settings()
    }

    /// The folder of its journal, if it is durable.
    pub fn journal(&self) -> Option<&Path> {
        self.durable.as_ref().map(|durable| durable.folder.as_path())
    }

    /// Whether it runs under the clock of a database that has a journal, which has its rows and cuts, too.
    pub fn is_under(&self, clock: &DatabaseClock) -> bool {
        self.durable.is_some() && clock.is_journaled() && !self.prepared.has_own_clock()
    }

    /// What it computes, as text: its queries, what its sources' rows mean, and by what its views find rows. Two pipelines over
    /// the same catalogue with the same text have the same state and give the same rows. What is not in it may change while
    /// state is kept: where rows go, and how many of them stay.
    pub fn computation(&self) -> &str {
        &self.computation
    }

    /// Whether one of its queries says where to begin (`start`).
    pub fn says_where_to_begin(&self) -> bool {
        self.says_where_to_begin
    }

    /// Where it begins if it is durable and has not run; `None`: it is not durable.
    pub fn beginning(&self) -> Option<Beginning> {
        self.durable.as_ref().map(|durable| durable.beginning)
    }

    /// If it is durable and has not run, it begins there, whatever its queries say.
    pub fn set_beginning(&mut self, beginning: Beginning) {
        if let Some(durable) = &mut self.durable {
            durable.beginning = beginning;
        }
    }

    /// The tables that it reads, by the names of their sources, and what its queries are called among those that read them.
    pub fn tables(&self) -> (Vec<String>, &[String]) {
        let dataflow = &self.prepared.dataflow;
        let of_table =
            |source: &&UsedSource| source.definition.push.as_ref().is_some_and(PushTarget::is_transactional);
        let tables = dataflow.sources.iter().filter(of_table).map(|source| source.definition.name.clone());
        (tables.collect(), &dataflow.readers)
    }

    /// Whether all its sources are read from their beginning whenever it starts, as files are.
    pub fn starts_over(&self) -> bool {
        self.prepared.dataflow.sources.iter().all(UsedSource::can_start_over)
    }

    /// Whether all its sources end by themselves.
    pub fn is_finite(&self) -> bool {
        self.prepared.dataflow.sources.iter().all(|source| source.is_empty || source.definition.is_finite)
    }

    /// Whether it would have a clock of its own in a database, and sources of its own with it.
    pub fn has_own_clock(&self) -> bool {
        self.prepared.has_own_clock()
    }

    /// The names of the sources that it reads, each with whether it ends by itself.
    pub fn sources(&self) -> Vec<(&str, bool)> {
        let sources = self.prepared.dataflow.sources.iter();
        sources.map(|source| (source.definition.name.as_str(), source.definition.is_finite)).collect()
    }

    /// The names of the outputs whose last column is the weight of each row: sinks with `emit = 'changes'`.
    pub fn weighted_outputs(&self) -> Vec<String> {
        let both = self.prepared.outputs.iter().zip(&self.targets);
        let weighted = both.filter(|(_, target)| target.takes() == Takes::WeightedRows);
        weighted.map(|(output, _)| output.name.clone()).collect()
    }

    /// The same pipeline, whose rows go to the sinks that this opens in place of its own; it keeps no journal. Its views stay.
    #[must_use]
    pub fn with_sinks(mut self, open: &Arc<OpenSink>) -> Pipeline {
        for target in &mut self.targets {
            if let OutputTarget::Sink(sink) = target {
                sink.open = Arc::clone(open);
            }
        }
        Pipeline { durable: None, ..self }
    }

    /// Its queries without their targets: their rows go to sinks of the caller's, and no journal is kept. Rows that come and go have their
    /// weight, `$weight`, as one more column: +n for rows that come, -n for rows that go.
    pub fn into_prepared(self) -> Prepared {
        let mut prepared = self.prepared;
        for output in prepared.outputs.iter_mut().filter(|output| output.is_changing) {
            output.schema = changelog_schema(&output.schema);
            output.is_changing = false;
        }
        prepared
    }
}

/// See [`Pipeline::computation`].
fn computation(prepared: &Prepared, queries: &[(String, LogicalPlan)], targets: &[OutputTarget]) -> String {
    let mut text = text_of(queries);
    let _ = writeln!(text, "{} partitions", prepared.settings.partitions);
    for target in targets {
        if let OutputTarget::View(view) = target
            && let Some(Materialized { key, retained, .. }) = &view.materialized
        {
            let Retained {
                time: _,
                bytes_max: _,
                versions_max: _,
                fragments: _,
                key: found_by,
                time_column,
                point,
            } = retained;
            let _ = writeln!(text, "rows by {key:?}, {found_by:?}, {time_column:?}, {point:?}");
        }
    }
    for source in &prepared.dataflow.sources {
        let definition = &source.definition;
        let _ = writeln!(text, "source {} {:?}", definition.name, definition.stream_name());
        meaning(source).iter().for_each(|line| {
            let _ = writeln!(text, "{line}");
        });
    }
    text
}

/// The queries as text.
fn text_of(queries: &[(String, LogicalPlan)]) -> String {
    queries.iter().map(|(name, plan)| format!("{name}: {}\n", plan.display_indent())).collect()
}

/// How queries are durable, if their sources are.
fn durable(prepared: &Prepared, queries: &[(String, LogicalPlan)]) -> Result<Option<DurableRunPlan>, Cause> {
    let is_durable = |source: &UsedSource| source.definition.durable.is_some();
    let sources = &prepared.dataflow.sources;
    let Some(durable) = sources.iter().find(|source| is_durable(source)) else { return Ok(None) };
    if let Some(volatile) = sources.iter().find(|source| !is_durable(source) && !source.is_empty) {
        let (durable, volatile) = (&durable.definition.name, &volatile.definition.name);
        return Err(Cause::user(format!(
            "source '{durable}' is durable, but source '{volatile}' of the same pipeline is not, so its rows \
             would be missing after a crash; add durable = true to '{volatile}', or run it in a separate \
             pipeline"
        )));
    }
    let Some(folder) = &prepared.settings.journal else {
        let name = &durable.definition.name;
        return Err(Cause::user(format!(
            "source '{name}' is durable, so the pipeline needs a journal; name its folder: SET journal = \
             'folder'"
        )));
    };
    let durability = Durability::new(text_of(queries));
    let snapshot_every = prepared.settings.snapshot_every;
    let meaning = sources.iter().flat_map(meaning).collect();
    let sinks = queries.iter().zip(prepared.outputs());
    let sinks = sinks.map(|((_, plan), output)| SinkQuery {
        text: plan.display_indent().to_string(),
        is_table: output.table_key.is_some() || output.is_changing,
        from_earliest: false,
    });
    let durability = Durability { snapshot_every, meaning, sinks: sinks.collect(), ..durability };
    Ok(Some(DurableRunPlan { folder: folder.clone(), durability, beginning: Beginning::Current }))
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
