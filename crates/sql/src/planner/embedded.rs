//! Queries within a plan that a program builds: they read its streams by name, and their rows are a stream of it.

use std::collections::HashSet;
use std::sync::Arc;

use datafusion::arrow::datatypes::{Field, Schema, SchemaRef};
use datafusion::common::DataFusionError;
use datafusion::logical_expr::LogicalPlan;
use tidemill_engine::{
    Cause, EventTime, FaultLog, FeedSettings, Plan, Source, StreamRef, StreamSettings, SyncPolicy,
};
use tidemill_operators::FailedResults;
use tidemill_operators::watermark::LateRows;

use super::Planner;
use crate::logical::header;
use crate::relations::named_relations::Relation;
use crate::relations::source_definition::SourceDefinition;
use crate::split_profiles::requested_splits;
use crate::statement::{Statement, StatementKind, parse};
use crate::text::TextError;
use crate::translate::{self, GivenStream, Kind, Role, StateLimits, Translator, UsedSource};

/// Queries in SQL that are added to a plan which a program builds. They read the program's streams and the sources that
/// they declare themselves.
///
/// ```
/// use std::sync::Arc;
/// use tidemill_engine::Plan;
/// use tidemill_engine::arrow::schema::{DataType, Field, Schema};
/// use tidemill_sql::{EmbeddedQueries, PlanStream, Surroundings};
///
/// let schema = Arc::new(Schema::new(vec![Field::new("value", DataType::Int64, false)]));
/// let mut plan = Plan::new("squares");
/// let values = plan.source("values", [Arc::clone(&schema)])[0];
/// let mut queries = EmbeddedQueries::new();
/// let values = PlanStream { sources: vec![0], ..PlanStream::new(values, &schema) };
/// queries.define("numbers", &values).unwrap();
/// let text = "SELECT value * value AS square FROM numbers";
/// let query = queries.add(text, &plan, &Surroundings::default()).unwrap();
/// assert_eq!(query.stream.schema.field(0).name(), "square");
/// assert_eq!((plan.transforms.len(), query.plan.transforms.len()), (0, 1));
/// ```
#[derive(Default)]
pub struct EmbeddedQueries {
    planner: Planner,
    given: Vec<GivenStream>,
}

/// A stream of a plan, with what queries have to know about it.
#[derive(Clone, Debug)]
pub struct PlanStream {
    /// The stream.
    pub stream: StreamRef,
    /// Its columns.
    pub schema: SchemaRef,
    /// The sources of the plan from which its rows come, by number.
    pub sources: Vec<usize>,
    /// The columns that are event times, and how far each may be behind the watermark of the sources, in nanoseconds.
    pub times: Vec<(usize, i64)>,
    /// A column with the start of a session. It may lie any time back.
    pub session_start: Option<usize>,
    /// If a row replaces the previous one with the same key: the indexes of the key's columns. `Some(None)`: the key is
    /// not among the columns.
    pub table_key: Option<Option<Vec<usize>>>,
}

/// The part of a plan's circumstances that its queries share with the rest of it.
#[derive(Clone, Debug)]
pub struct Surroundings {
    /// Logical partitions of each operator with keys.
    pub partitions: u32,
    /// The most groups that an aggregation may hold.
    pub groups_max: usize,
    /// Counts rows that operators drop because they are late.
    pub late: LateRows,
    /// Records rows that cannot be computed, and results that are NULL because they cannot be represented.
    pub faults: FaultLog,
}

/// A plan with one more query in it.
pub struct EmbeddedQuery {
    /// The plan. Streams that were there before are the same.
    pub plan: Plan,
    /// The rows of the query.
    pub stream: PlanStream,
    /// The sources that the query has added at the end of the plan's, opened.
    pub sources: Vec<EmbeddedSource>,
}

/// A source that a query has added.
pub struct EmbeddedSource {
    /// The source.
    pub source: Box<dyn Source>,
    /// How its rows come in.
    pub feed: FeedSettings,
    /// The limits of its journal, in a durable query.
    pub stream: StreamSettings,
    /// When its journal is synced.
    pub sync: SyncPolicy,
}

impl PlanStream {
    /// A stream of a plan, of which only the columns are known.
    pub fn new(stream: StreamRef, schema: &SchemaRef) -> PlanStream {
        let (sources, times) = (Vec::new(), Vec::new());
        PlanStream {
            stream,
            schema: Arc::clone(schema),
            sources,
            times,
            session_start: None,
            table_key: None,
        }
    }

    fn roles(&self) -> Vec<Role> {
        let delay = |column| self.times.iter().find(|(time, _)| *time == column);
        let role = |column| {
            delay(column).map_or(Role::None, |(_, delay_ns)| Role::EventTime { delay_ns: *delay_ns })
        };
        (0..self.schema.fields().len()).map(role).collect()
    }
}

impl Default for Surroundings {
    fn default() -> Self {
        let (late, faults) = (LateRows::default(), FaultLog::default());
        Surroundings { partitions: 16, groups_max: 10_000_000, late, faults }
    }
}

impl EmbeddedQueries {
    /// No stream has a name yet.
    pub fn new() -> Self {
        EmbeddedQueries::default()
    }

    /// The planner of the queries, for functions, operators and connectors of the program's own, and for settings.
    pub fn planner(&mut self) -> &mut Planner {
        &mut self.planner
    }

    /// Gives a stream of the plan a name, by which the queries read it.
    ///
    /// # Errors
    /// If something has the name already.
    pub fn define(&mut self, name: &str, stream: &PlanStream) -> Result<(), Cause> {
        if self.planner.catalog.relations.get(name).is_some() {
            return Err(Cause::user(format!("'{name}' already exists; choose another name")));
        }
        let schema = translate::unique(&stream.schema);
        let open =
            |_: Option<&[usize]>| Err(Cause::bug("a stream of the plan is there and cannot be opened"));
        let event_time =
            stream.times.first().map(|(column, delay_ns)| EventTime { column: *column, delay_ns: *delay_ns });
        let definition = SourceDefinition::new(name, Arc::clone(&schema), Arc::new(open));
        let definition = Arc::new(SourceDefinition { event_time, ..definition });
        let kind = match &stream.table_key {
            None => Kind::Stream,
            Some(keys) => Kind::Table { keys: keys.clone() },
        };
        let relation = translate::Relation {
            stream: stream.stream,
            schema,
            roles: stream.roles(),
            kind,
            sources: stream.sources.clone(),
            ordered: false,
            is_as_of_the_row: false,
            is_finite: false,
            selection: None,
        };
        self.planner.catalog.relations.add(name, Relation::Source(Arc::clone(&definition)));
        self.given.push(GivenStream { definition, relation, late: None });
        Ok(())
    }

    /// Adds a query to a plan: one `SELECT`, behind any statements that define what it reads. If that fails, nothing
    /// has changed.
    ///
    /// # Errors
    /// What is wrong with the text, with the place; or that a source cannot be opened.
    pub fn add(&mut self, text: &str, plan: &Plan, around: &Surroundings) -> Result<EmbeddedQuery, Cause> {
        let before = self.planner.catalog.clone();
        let added = self.try_add(text, plan, around);
        if added.is_err() {
            self.planner.set_catalog(before);
        }
        added
    }

    fn try_add(&mut self, text: &str, plan: &Plan, around: &Surroundings) -> Result<EmbeddedQuery, Cause> {
        let statements = parse(text, "query")?;
        let Some((query, definitions)) = statements.split_last() else {
            return Err(Cause::user("the text is empty; write a query: SELECT ... FROM ..."));
        };
        for statement in definitions {
            check_definition(statement)?;
            self.planner.execute(statement)?;
        }
        let logical = self.logical_plan(query)?;
        let failed = |error: DataFusionError| Cause::from(self.planner.text_error(&error, query));
        let mut translator = Translator::within(plan.clone(), self.given.clone(), self.limits(around));
        translator.faults = around.faults.clone();
        translator.late = around.late.clone();
        translator.failed_results = FailedResults::Null(around.faults.clone());
        // With all columns, so that later queries can read the same source.
        translator.declare_sources(&[&logical], true).map_err(failed)?;
        let relation = translator.output(&logical).map_err(failed)?;
        let schema = named(&logical, &relation.schema, query)?;
        let declared = translator.declared();
        let splits = std::mem::take(&mut translator.splits);
        requested_splits(&mut translator.plan, splits, self.planner.settings.split_profiles.as_deref());
        let sources = translator.sources.iter().map(opened).collect::<Result<_, Cause>>()?;
        self.given.extend(declared);
        Ok(EmbeddedQuery { plan: translator.plan, stream: described(&relation, schema), sources })
    }

    fn logical_plan(&self, query: &Statement) -> Result<LogicalPlan, TextError> {
        let StatementKind::Query(parsed, options) = &query.kind else {
            let error = query.error(query.span, "a query is missing here; its rows are the stream");
            return Err(
                error.with_hint("end the text with SELECT ... FROM ...; the program writes rows to sinks")
            );
        };
        if options.get("max_latency").is_some() {
            let error = options.error("max_latency", "the program chooses when cycles close");
            return Err(error.with_hint("remove max_latency, and set the cycles on the engine"));
        }
        options.finish(&[])?;
        self.planner.plan(parsed, query)
    }

    fn limits(&self, around: &Surroundings) -> StateLimits {
        let settings = &self.planner.settings;
        StateLimits {
            partitions: around.partitions,
            groups_max: around.groups_max,
            rows_max: settings.max_state_rows,
            workers: u32::try_from(settings.workers.max(1)).unwrap_or(u32::MAX),
            memory: settings.memory_of_query(),
        }
    }
}

/// Only what says what queries read can stand before them: nothing runs besides the program's own plan.
fn check_definition(statement: &Statement) -> Result<(), TextError> {
    match statement.kind {
        StatementKind::CreateSource(_)
        | StatementKind::CreateTable(_)
        | StatementKind::CreateView(_)
        | StatementKind::CreateFunction(_)
        | StatementKind::CreateProcess(_)
        | StatementKind::CreatePlaces(_)
        | StatementKind::CreatePool(_)
        | StatementKind::Set { .. }
        | StatementKind::Drop { .. } => Ok(()),
        _ => {
            let error = statement
                .error(statement.span, "this is not allowed in a text that returns a stream to a program");
            Err(error.with_hint(
                "define sources, tables and views, and end with one SELECT; the program writes its rows to sinks",
            ))
        }
    }
}

/// The columns of a query's rows, with the names that the query gives them.
fn named(query: &LogicalPlan, schema: &Schema, statement: &Statement) -> Result<SchemaRef, TextError> {
    let names = query.schema().fields().iter().map(|field| header(field.name()));
    let named = |(field, name): (&Arc<Field>, String)| field.as_ref().clone().with_name(name);
    let fields: Vec<Field> = schema.fields().iter().zip(names).map(named).collect();
    let mut names = HashSet::new();
    if let Some(twice) = fields.iter().map(Field::name).find(|name| !names.insert(*name)) {
        let place = statement.find_name(twice).unwrap_or(statement.span);
        let error = statement.error(place, format!("two columns of the stream have the name `{twice}`"));
        return Err(error.with_hint("rename one of them with AS"));
    }
    Ok(Arc::new(Schema::new(fields)))
}

fn described(relation: &translate::Relation, schema: SchemaRef) -> PlanStream {
    let roles = || relation.roles.iter().enumerate();
    let is_session_start = |role: &Role| match role {
        Role::WindowStart(window) => window.size_ns().is_none(),
        _ => false,
    };
    PlanStream {
        stream: relation.stream,
        schema,
        sources: relation.sources.clone(),
        times: roles().filter_map(|(column, role)| Some((column, role.time_delay_ns()?))).collect(),
        session_start: roles().find(|(_, role)| is_session_start(role)).map(|(column, _)| column),
        table_key: match &relation.kind {
            // Programs take rows and upserts.
            Kind::Stream | Kind::Changing => None,
            Kind::Table { keys } => Some(keys.clone()),
        },
    }
}

fn opened(used: &UsedSource) -> Result<EmbeddedSource, Cause> {
    let (source, feed) = used.open()?;
    let durable = used.definition.durable.clone().unwrap_or_default();
    Ok(EmbeddedSource { source, feed, stream: durable.stream, sync: durable.sync })
}
