//! A planner: what a statement means under a version of the catalogue, with the settings of a session.

mod add_columns;
mod alter;
mod argument_types;
mod cached_plan;
mod deadlines;
mod deep_plans;
mod define;
mod dependencies;
mod embedded;
mod functions;
mod gateways;
mod journaled_types;
mod loaded_functions;
mod member;
mod paths;
mod pools;
mod processes;
mod replay;
mod requests;
mod select;
mod show;
mod signature;
mod take_turns;
mod type_function;

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use datafusion::arrow::array::{ArrayRef, RecordBatch};
use datafusion::arrow::datatypes::{DataType, SchemaRef};
use datafusion::common::DataFusionError;
use datafusion::logical_expr::{ColumnarValue, LogicalPlan, Volatility, create_udf};
use datafusion::sql::sqlparser::ast;
use tidemill_engine::{Cause, MemoryBudget};
use tidemill_operators::Aggregate;

use self::add_columns::add_columns;
use self::alter::{no_changes, no_past};
pub use self::cached_plan::CachedPlan;
use self::deadlines::may_start;
use self::deep_plans::with_deep_stack;
pub use self::embedded::{EmbeddedQueries, EmbeddedQuery, EmbeddedSource, PlanStream, Surroundings};
use self::requests::Request;
use self::select::{select_all, select_call, select_each};
use crate::catalog::{Catalog, Requested};
use crate::connectors::{self, RowFormat, SinkConnector, SourceConnector};
use crate::extension::TableOperator;
use crate::generator::Generator;
use crate::logical::{Provider, ReadNames, shown_rows};
use crate::planning_limits::within;
use crate::query::pipeline::Pipeline;
use crate::query::prepared::{Prepared, QueryContext};
use crate::settings::Settings;
use crate::statement::declared::OptionGroup;
use crate::statement::{Options, Statement, StatementKind, not_given, translated};
use crate::store::{earlier_rows, same_versions};
use crate::text::TextError;
use crate::translate::{
    Answer, RowBatches, is_static, read_as_tables, read_scalar_subqueries, read_static_in_batches,
    read_static_in_turns,
};
use crate::turns::{AtOnce, Turns};

/// The result of a statement. `Q` is a query to be started, and `C` the changes of a materialized view: a planner only plans, and follows
/// no view.
pub enum Reply<Q = Box<Prepared>, C = Infallible> {
    /// Something was defined or changed; the text says what.
    Done(String),
    /// Rows that are available at once.
    Rows(RecordBatch),
    /// Rows that are computed as they are taken; see [`Planner::set_answers_in_batches`].
    Batches(Box<RowBatches>),
    /// A text to be shown unchanged.
    Text(String),
    /// A query to be started.
    Query(Q),
    /// A query to be started, and then described with its measurements (`EXPLAIN ANALYZE`).
    Analyze(Q),
    /// The changes of a materialized view, as they come.
    Changes(C),
}

impl<Q> Reply<Q> {
    /// Returns the reply of whoever makes something else of a planned query, and follows views.
    ///
    /// # Errors
    /// That of `query`.
    ///
    /// ```
    /// use tidemill_sql::{Planner, Reply, parse};
    /// let statement = parse("SELECT value FROM sequence(count => 3)", "example").unwrap().remove(0);
    /// let planned = Planner::new().execute(&statement).unwrap();
    /// let reply: Result<Reply<bool, String>, ()> = planned.with_query(|query| Ok(query.is_finite()));
    /// assert!(matches!(reply, Ok(Reply::Query(true))));
    /// ```
    pub fn with_query<R, C, E>(self, query: impl FnOnce(Q) -> Result<R, E>) -> Result<Reply<R, C>, E> {
        Ok(match self {
            Reply::Done(text) => Reply::Done(text),
            Reply::Rows(rows) => Reply::Rows(rows),
            Reply::Batches(batches) => Reply::Batches(batches),
            Reply::Text(text) => Reply::Text(text),
            Reply::Query(planned) => Reply::Query(query(planned)?),
            Reply::Analyze(planned) => Reply::Analyze(query(planned)?),
        })
    }
}

/// Says what a statement means under a version of the catalogue, with the settings of a session. It opens no sink and runs
/// nothing: what it gives is planned.
///
/// A program that runs one query after the other needs no more than its own planner; several connections and queries
/// share a catalogue through the crate `tidemill-service`.
///
/// ```
/// use tidemill_sql::{Planner, Reply, parse};
/// let mut planner = Planner::new();
/// for statement in parse("SELECT 6 * 7 AS answer", "example").unwrap() {
///     let Ok(Reply::Rows(rows)) = planner.execute(&statement) else { panic!("it is answered at once") };
///     assert_eq!(rows.num_rows(), 1);
/// }
/// ```
pub struct Planner {
    catalog: Catalog,
    settings: Settings,
    /// Whether a query may name a file in place of a relation.
    opens_files: bool,
    /// When its queries may be computed that are answered at once.
    turns: Arc<dyn Turns>,
    /// Whether large answers are computed as they are taken.
    answers_in_batches: bool,
    /// Whether a definition may not break a deadline.
    checks_deadlines: bool,
    /// Whether what others read may not be dropped, nor replaced by something else.
    keeps_dependencies: bool,
    /// What the journal of the database has of sources, by their names there.
    journaled_columns: BTreeMap<String, SchemaRef>,
    /// The relations that the statement has read which is being executed.
    read: ReadNames,
    /// Where relative paths of definitions are that are kept.
    paths_in: Option<std::path::PathBuf>,
}

impl Default for Planner {
    fn default() -> Self {
        Planner::new()
    }
}

impl Planner {
    /// A planner with an empty catalogue: the built-in generators and functions.
    pub fn new() -> Self {
        Planner::at(Catalog::empty(), Settings::default())
    }

    /// A planner at a version of a catalogue.
    pub fn at(catalog: Catalog, settings: Settings) -> Self {
        let turns = Arc::new(AtOnce);
        Planner {
            catalog,
            settings,
            opens_files: true,
            turns,
            answers_in_batches: false,
            checks_deadlines: false,
            keeps_dependencies: true,
            journaled_columns: BTreeMap::new(),
            read: ReadNames::default(),
            paths_in: None,
        }
    }

    /// The version of the catalogue that it plans against, with its own definitions.
    pub fn catalog(&self) -> &Catalog {
        &self.catalog
    }

    /// Plans against another version from here on.
    pub fn set_catalog(&mut self, catalog: Catalog) {
        self.catalog = catalog;
    }

    /// The version that it plans against.
    pub fn into_catalog(self) -> Catalog {
        self.catalog
    }

    /// What the journal of the database has of sources, by their names there. In [definitions that are
    /// replayed](Planner::replay), a column that is FLOAT has 4 bytes if the journal has it so: it was defined before FLOAT meant
    /// DOUBLE.
    pub fn set_journaled_columns(&mut self, columns: BTreeMap<String, SchemaRef>) {
        self.journaled_columns = columns;
    }

    /// The settings.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The settings, for modification.
    pub fn settings_mut(&mut self) -> &mut Settings {
        &mut self.settings
    }

    /// Registers a scalar function: whole columns in, one column out. It must be a pure function of its arguments.
    pub fn register_function(
        &mut self,
        name: &str,
        arguments: Vec<DataType>,
        result: DataType,
        function: impl Fn(&[ArrayRef]) -> Result<ArrayRef, Cause> + Send + Sync + 'static,
    ) {
        let implementation = move |values: &[ColumnarValue]| {
            let arrays = ColumnarValue::values_to_arrays(values)?;
            let computed = function(&arrays);
            let array = computed.map_err(|cause| DataFusionError::Execution(cause.to_string()))?;
            Ok(ColumnarValue::Array(array))
        };
        let function = create_udf(name, arguments, result, Volatility::Immutable, Arc::new(implementation));
        Arc::make_mut(&mut self.catalog.functions).add_scalar(Arc::new(function));
    }

    /// Registers an aggregate function for arguments of these types.
    pub fn register_aggregate(&mut self, name: &str, arguments: Vec<DataType>, function: Arc<dyn Aggregate>) {
        let function = crate::aggregates::own_aggregate::OwnAggregate::function(name, arguments, function);
        Arc::make_mut(&mut self.catalog.functions).add_aggregate(Arc::new(function));
    }

    /// Registers an operator, to be called in FROM: `name(TABLE(input), argument => value)`.
    pub fn register_operator(&mut self, name: &str, operator: Arc<dyn TableOperator>) {
        Arc::make_mut(&mut self.catalog.registry).operators.insert(name.to_string(), operator);
    }

    /// Registers a generator of rows, to be called in FROM: `name(argument => value)`. It replaces one of the same name.
    pub fn register_generator(&mut self, name: &str, generator: Generator) {
        let registry = Arc::make_mut(&mut self.catalog.registry);
        registry.generators.insert(name.to_string(), Arc::new(generator));
        connectors::add_generators(Arc::make_mut(&mut self.catalog.connectors), &registry.generators);
    }

    /// Registers a connector for sources: `CREATE SOURCE ... WITH (connector = 'name', ...)`. It replaces one of the
    /// same name.
    pub fn register_source(&mut self, name: &str, connector: Arc<dyn SourceConnector>) {
        Arc::make_mut(&mut self.catalog.connectors).add_source(name, connector);
    }

    /// Registers a connector for sinks: `CREATE SINK ... WITH (connector = 'name', ...)`. It replaces one of the same
    /// name.
    pub fn register_sink(&mut self, name: &str, connector: Arc<dyn SinkConnector>) {
        Arc::make_mut(&mut self.catalog.connectors).add_sink(name, connector);
    }

    /// Refuses sinks of a connector, for example one that would do more than whoever writes statements may do here. The
    /// reason says what to do instead.
    pub fn refuse_sink(&mut self, connector: &str, reason: &str) {
        Arc::make_mut(&mut self.catalog.connectors).refuse_sink(connector, reason);
    }

    /// Registers a format of rows as text: `WITH (format = 'name', ...)`. It replaces one of the same name; the name is
    /// also the ending of files in a folder.
    pub fn register_format(&mut self, name: &str, format: Arc<dyn RowFormat>) {
        Arc::make_mut(&mut self.catalog.connectors).add_format(name, format);
    }

    /// The names of all settings, for completion.
    pub fn setting_names(&self) -> Vec<String> {
        self.settings.rows().map(|(name, ..)| name.to_string()).collect()
    }

    /// The options of all connectors, formats and settings: what they are called, what they hold, and what they mean.
    pub fn option_groups(&self) -> Vec<OptionGroup> {
        let mut groups =
            connectors::option_groups(&self.catalog.connectors, &self.catalog.registry.generators);
        groups.push(Settings::option_group());
        groups
    }

    /// As [`execute`](Planner::execute), with paths as they are written.
    fn execute_as_written(&mut self, statement: &Statement) -> Result<Reply, TextError> {
        let (stays, is_definition) = (self.catalog.stays(statement), statement.kind.is_definition());
        let before = (is_definition && !stays).then(|| self.catalog.clone());
        drop(self.take_read());
        let mut reply = self
            .within_limits(|planner| planner.reply(statement))
            .map_err(|error| translated(error, statement.span))?;
        if let Some(before) = before {
            if self.is_unchanged(&before, statement) {
                return Ok(reply);
            }
            if let Err(error) = self.check_replaced(&before, statement) {
                self.catalog = before;
                return Err(error);
            }
            if self.checks_deadlines {
                self.keep_deadlines(before, statement, &mut reply)?;
            }
        }
        if is_definition {
            if !stays {
                let read = self.take_read();
                self.catalog.note_uses(statement, read);
            }
            self.catalog.note(statement, self.settings.idle_after);
        }
        Ok(reply)
    }

    /// Works for a statement with enough stack, and within the time and the memory of its session.
    fn within_limits<T>(&mut self, work: impl FnOnce(&mut Planner) -> T) -> T {
        let (turns, memory) = (Arc::clone(&self.turns), self.settings.memory_of_reader());
        with_deep_stack(|| within(&turns, &memory, || work(self)))
    }

    fn reply(&mut self, statement: &Statement) -> Result<Reply, TextError> {
        if let Some((name, place)) = statement.first_parameter() {
            return Err(not_given(statement, &name, place));
        }
        match &statement.kind {
            StatementKind::CreateSource(create) => self.create_source(create, false, statement),
            StatementKind::CreateTable(create) => self.create_source(create, true, statement),
            StatementKind::CreateView(create) => self.create_view(create, statement),
            StatementKind::CreateMaterializedView(create) => self.create_materialized_view(create, statement),
            StatementKind::CreateProcess(create) => self.create_process(create, statement),
            StatementKind::CreatePlaces(create) => self.create_places(create, statement),
            StatementKind::CreatePool(create) => self.create_pool(create, statement),
            StatementKind::CreateSink(create) => self.create_sink(create, statement),
            StatementKind::CreateFunction(create) => self.create_function(create, statement),
            StatementKind::InsertInto { sink, query, options } => {
                self.insert(sink, query, options, statement)
            }
            StatementKind::Query(query, options) => self.query(query, options, statement),
            StatementKind::Set { name, value } => {
                self.settings.set(name.as_str(), value)?;
                Ok(Reply::Done(format!("{} = {}", name, self.settings.show(name.as_str()))))
            }
            StatementKind::Show(kind) => Ok(Reply::Rows(self.show(*kind))),
            StatementKind::Describe(name) => self.describe(name, statement),
            StatementKind::Subscribe(name) => Err(no_changes(name, statement)),
            StatementKind::Stop(_) | StatementKind::Start(_) | StatementKind::Alter(_) => {
                self.refuse_of_query(statement)
            }
            StatementKind::AddColumns(add) => add_columns(self, add, statement),
            StatementKind::Drop { kind, name, if_exists, .. } => {
                self.drop_named(*kind, name, *if_exists, statement)
            }
            StatementKind::ExplainOutput(name) => self.explain_output(name, statement),
            StatementKind::ExplainWhy(_) => Err(no_past(statement)),
            StatementKind::Explain { analyze, statement: explained, .. } => {
                self.explain(*analyze, explained, statement)
            }
        }
    }

    /// Everything that the sinks and materialized views of the catalogue request, planned to run together; `None` if there
    /// is nothing.
    ///
    /// # Errors
    /// If the queries cannot run together.
    pub fn pipeline(&self) -> Result<Option<Pipeline>, Cause> {
        let requests = self.requests()?;
        if requests.is_empty() { Ok(None) } else { self.pipeline_for(requests).and_then(may_start).map(Some) }
    }

    /// As [`pipeline`](Planner::pipeline), with these sinks and materialized views only.
    ///
    /// # Errors
    /// If a sink with an input, or a materialized view, of such a name does not exist, and as `pipeline`.
    pub fn pipeline_of(&self, names: &[&str]) -> Result<Pipeline, Cause> {
        self.requested(names).and_then(|requests| self.pipeline_for(requests)).and_then(may_start)
    }

    fn pipeline_for(&self, requests: Vec<Request>) -> Result<Pipeline, Cause> {
        requests.iter().try_for_each(|request| self.check_entrances(&request.plan))?;
        let max_latency = requests.iter().filter_map(|request| request.max_latency).min();
        let real_time = self.real_time(&requests.iter().map(Request::analysed_sink).collect::<Vec<_>>())?;
        let outputs = || Requested::Outputs(requests.iter().map(|request| request.name.clone()).collect());
        let instructions = self.instructions(outputs);
        // Queries that run together begin together.
        let asked: Vec<_> = requests.iter().map(|request| request.beginning).collect();
        let both = requests.into_iter().map(|request| ((request.name, request.plan), request.target));
        let (queries, targets): (Vec<_>, Vec<_>) = both.unzip();
        let settings = real_time.settings(&self.settings);
        let max_latency = max_latency.into_iter().chain(real_time.deadline).min();
        let context = QueryContext::new(&settings, max_latency, instructions);
        let mut pipeline = with_deep_stack(|| Pipeline::new(&queries, targets, context))?;
        pipeline.begin_at(&asked)?;
        pipeline.prepared.real_time = real_time;
        Ok(pipeline)
    }

    fn with_provider<T>(&self, body: impl FnOnce(&Provider<'_>) -> T) -> T {
        let opens_files = self.opens_files;
        let catalog @ Catalog { relations, functions, defined, registry, .. } = &self.catalog;
        let known = Arc::clone(&catalog.connectors);
        let open = move |name: &str| {
            if opens_files {
                connectors::by_path(name, &known.formats)
            } else {
                connectors::refused_path(name)
            }
        };
        let provider = Provider::new(relations, functions, defined, registry, &open, opens_files, &self.read);
        body(&provider.with_failed(catalog.failed_names()))
    }

    /// The optimised plan of a query.
    fn plan(&self, query: &ast::Query, statement: &Statement) -> Result<LogicalPlan, TextError> {
        Ok(self.plan_as_written(query, statement)?.1)
    }

    /// The plan of a query as written, because a view is optimised together with the query that uses it; and the
    /// optimised plan, which reveals errors where the view is defined.
    fn plan_as_written(
        &self,
        query: &ast::Query,
        statement: &Statement,
    ) -> Result<(LogicalPlan, LogicalPlan), TextError> {
        self.plan_with(query, statement, |_, optimised| Ok(optimised))
    }

    /// As `plan_as_written`. `at_versions` says which versions of views the optimised plan reads, before any of it is read.
    fn plan_with(
        &self,
        query: &ast::Query,
        statement: &Statement,
        at_versions: impl FnOnce(&LogicalPlan, LogicalPlan) -> Result<LogicalPlan, DataFusionError>,
    ) -> Result<(LogicalPlan, LogicalPlan), TextError> {
        self.with_provider(|provider| {
            let planned = provider.plan(query).and_then(|(written, optimised)| {
                let memory = self.settings.memory_of_reader();
                let optimised = at_versions(&written, optimised)?;
                Ok((written, read_as_tables(read_scalar_subqueries(optimised, &memory, &*self.turns)?)?))
            });
            planned.map_err(|error| provider.text_error(&error, statement))
        })
    }

    fn text_error(&self, error: &DataFusionError, statement: &Statement) -> TextError {
        self.with_provider(|provider| provider.text_error(error, statement))
    }

    fn query(
        &self,
        query: &ast::Query,
        options: &Options,
        statement: &Statement,
    ) -> Result<Reply, TextError> {
        options.finish(&["max_latency"])?;
        let bound = max_latency(options)?;
        let plan = self.plan_at_versions(query, options, statement)?;
        let failed = |error: DataFusionError| self.text_error(&error, statement);
        if is_static(&plan) {
            let memory = self.settings.memory_of_reader();
            return self.answer_of(&plan, &memory, statement).map_err(failed);
        }
        let prepared = self.prepare(&plan, bound, statement).map_err(failed)?;
        Ok(Reply::Query(Box::new(prepared)))
    }

    /// The answer to a query that reads only tables and views.
    fn answer_of(
        &self,
        plan: &LogicalPlan,
        memory: &MemoryBudget,
        statement: &Statement,
    ) -> Result<Reply, DataFusionError> {
        let answer = if self.answers_in_batches {
            read_static_in_batches(plan, memory, &self.turns, statement)?
        } else {
            Answer::Whole(read_static_in_turns(plan, memory, &*self.turns)?)
        };
        Ok(match answer {
            Answer::Whole(rows) => Reply::Rows(shown_rows(rows)?),
            Answer::Batches(batches) => Reply::Batches(batches),
        })
    }

    /// The optimised plan of a query over one version of each view that it reads.
    fn plan_at_versions(
        &self,
        query: &ast::Query,
        options: &Options,
        statement: &Statement,
    ) -> Result<LogicalPlan, TextError> {
        let Some(as_of) = options.as_of() else {
            let (_, plan) = self.plan_with(query, statement, |_, optimised| same_versions(optimised))?;
            return Ok(plan);
        };
        let mut is_of_versions = false;
        let planned = self.plan_with(query, statement, |written, optimised| {
            let earlier = earlier_rows(written.clone(), optimised, as_of);
            is_of_versions = earlier.is_err();
            earlier
        });
        match planned {
            Ok((_, plan)) => Ok(plan),
            Err(error) if is_of_versions => {
                let place = options.as_of_span().unwrap_or(statement.span);
                let placed = TextError { problem: error.problem, ..statement.error(place, error.message) };
                Err(placed.with_optional_hint(error.hint))
            }
            Err(error) => Err(error),
        }
    }

    /// A planned query whose rows are shown. `statement` is what asks for it.
    fn prepare(
        &self,
        plan: &LogicalPlan,
        max_latency: Option<Duration>,
        statement: &Statement,
    ) -> Result<Prepared, DataFusionError> {
        self.check_entrances(plan).map_err(|cause| DataFusionError::External(cause.into()))?;
        let settings = self.settings_of_query();
        let instructions = self.instructions(|| Requested::Query(statement.text.clone()));
        let context = QueryContext::new(&settings, max_latency, instructions).in_turns(&self.turns);
        Prepared::shown(plan, context)
    }

    /// The settings for a single query. The rows of kept views are only in this process, and so are queries that may
    /// read them.
    fn settings_of_query(&self) -> Settings {
        let processes = if self.catalog.has_attached_views() { 1 } else { self.settings.processes };
        Settings { processes, ..self.settings.clone() }
    }
}

fn max_latency(options: &Options) -> Result<Option<Duration>, TextError> {
    match options.duration("max_latency")? {
        Some(bound) if bound.is_zero() => {
            Err(options.error("max_latency", "the bound must be longer than 0"))
        }
        bound => Ok(bound),
    }
}
