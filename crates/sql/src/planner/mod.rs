//! A planner: what a statement means under a version of the catalogue, with the settings of a session.

mod define;
mod member;
mod processes;
mod select;
mod show;

use std::sync::Arc;
use std::time::Duration;

use datafusion::arrow::array::{ArrayRef, RecordBatch};
use datafusion::arrow::datatypes::DataType;
use datafusion::common::DataFusionError;
use datafusion::logical_expr::{ColumnarValue, LogicalPlan, Volatility, create_udf};
use datafusion::sql::sqlparser::ast;
use tidemill_engine::Cause;
use tidemill_operators::Aggregate;

use self::select::{select_all, select_call, select_each};
use crate::catalog::{Catalog, Definition};
use crate::connectors::{self, RowFormat, SinkConnector, SourceConnector};
use crate::extension::{Generator, TableOperator};
use crate::logical::{Provider, shown_rows};
use crate::named_relations::Relation;
use crate::pipeline::{Pipeline, Target};
use crate::prepared::{Circumstances, Prepared};
use crate::settings::Settings;
use crate::statement::declared::OptionGroup;
use crate::statement::{Options, Statement, StatementKind, parse};
use crate::text_error::{Names, TextError};
use crate::translate::{is_static, read_static};

/// The result of a statement.
pub enum Reply {
    /// Something was defined or changed; the text says what.
    Done(String),
    /// Rows that are available at once.
    Rows(RecordBatch),
    /// A text to be shown unchanged.
    Text(String),
    /// A query to be started.
    Query(Box<Prepared>),
    /// A query to be started, and then described with its measurements (`EXPLAIN ANALYZE`).
    Analyze(Box<Prepared>),
}

/// Says what a statement means under a version of the catalogue, with the settings of a session. It opens no sink and runs
/// nothing: what it gives is planned.
///
/// A program that runs one query after the other needs no more than a planner of its own; several connections and queries
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
    /// The statements that have changed a setting, so that other processes can repeat them.
    settings_made: Vec<String>,
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
        Planner { catalog, settings, settings_made: Vec::new() }
    }

    /// The version of the catalogue that it plans against, with its own definitions.
    pub fn catalog(&self) -> &Catalog {
        &self.catalog
    }

    /// Plans against another version from here on.
    pub fn set_catalog(&mut self, catalog: Catalog) {
        self.catalog = catalog;
    }

    /// The version of the catalogue that it plans against.
    pub fn into_catalog(self) -> Catalog {
        self.catalog
    }

    /// Executes definitions again, as they were kept. Settings stay as they are.
    ///
    /// # Errors
    /// If one of them gives an error in this program, which may lack a function, or if the definitions do not follow
    /// the version of the catalogue.
    ///
    /// ```
    /// use tidemill_sql::{Planner, parse};
    /// let mut planner = Planner::new();
    /// planner.execute(&parse("CREATE PLACES two (0, 1)", "example").unwrap()[0]).unwrap();
    /// let mut again = Planner::new();
    /// again.replay(planner.catalog().definitions()).unwrap();
    /// assert_eq!(again.catalog().definitions(), planner.catalog().definitions());
    /// ```
    pub fn replay(&mut self, definitions: &[Arc<Definition>]) -> Result<(), Cause> {
        let idle_after = self.settings.idle_after;
        let replayed = definitions.iter().try_for_each(|definition| self.replay_one(definition));
        self.settings.idle_after = idle_after;
        replayed
    }

    fn replay_one(&mut self, definition: &Definition) -> Result<(), Cause> {
        let Definition { version, statement, idle_after } = definition;
        let due = self.catalog.version() + 1;
        if *version != due {
            return Err(Cause::operation(format!(
                "definition {version} of the catalogue stands where {due} is due"
            )));
        }
        self.settings.idle_after = *idle_after;
        let wrong = |error: TextError| {
            Cause::user(format!("definition {version} of the catalogue cannot be executed again: {error}"))
        };
        let name = format!("definition {version}");
        for statement in parse(statement, &name).map_err(wrong)? {
            self.execute(&statement).map_err(wrong)?;
        }
        match self.catalog.version() == *version {
            true => Ok(()),
            false => Err(Cause::operation(format!("definition {version} of the catalogue defines nothing"))),
        }
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
        let function = crate::own_aggregate::OwnAggregate::function(name, arguments, function);
        Arc::make_mut(&mut self.catalog.functions).add_aggregate(Arc::new(function));
    }

    /// Registers an operator, to be called in FROM: `name(TABLE(input), argument => value)`.
    pub fn register_operator(&mut self, name: &str, operator: Arc<dyn TableOperator>) {
        Arc::make_mut(&mut self.catalog.registry).operators.insert(name.to_string(), operator);
    }

    /// Registers a generator of rows, to be called in FROM: `name(argument => value)`.
    pub fn register_generator(&mut self, name: &str, generator: Arc<Generator>) {
        Arc::make_mut(&mut self.catalog.registry).generators.insert(name.to_string(), generator);
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
        let mut groups = connectors::option_groups(&self.catalog.connectors);
        groups.push(Settings::option_group());
        groups
    }

    /// Says what a statement means. A definition is added to its version of the catalogue, and a setting is changed.
    ///
    /// # Errors
    /// The error, with its place.
    pub fn execute(&mut self, statement: &Statement) -> Result<Reply, TextError> {
        let reply = self.reply(statement)?;
        if statement.kind.is_definition() {
            self.catalog.note(&statement.text, self.settings.idle_after);
        } else if let StatementKind::Set { .. } = &statement.kind {
            self.settings_made.push(statement.text.clone());
        }
        Ok(reply)
    }

    fn reply(&mut self, statement: &Statement) -> Result<Reply, TextError> {
        match &statement.kind {
            StatementKind::CreateSource(create) => self.create_source(create, false, statement),
            StatementKind::CreateTable(create) => self.create_source(create, true, statement),
            StatementKind::CreateView(create) => self.create_view(create, statement),
            StatementKind::CreateMaterializedView(create) => self.create_materialized_view(create, statement),
            StatementKind::CreateProcess(create) => self.create_process(create, statement),
            StatementKind::CreatePlaces(create) => self.create_places(create, statement),
            StatementKind::CreateSink(create) => self.create_sink(create, statement),
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
            StatementKind::Drop { kind, name, if_exists } => {
                self.drop_named(*kind, name, *if_exists, statement)
            }
            StatementKind::Explain { analyze, statement: explained } => {
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
        let requests = self.requests();
        match requests.is_empty() {
            true => Ok(None),
            false => self.pipeline_for(requests).map(Some),
        }
    }

    /// As [`pipeline`](Planner::pipeline), with these sinks and materialized views only.
    ///
    /// # Errors
    /// If a sink with an input, or a materialized view, of such a name does not exist, and as `pipeline`.
    pub fn pipeline_of(&self, names: &[&str]) -> Result<Pipeline, Cause> {
        let all = self.requests();
        let missing = names.iter().find(|name| !all.iter().any(|request| request.name == **name));
        if let Some(name) = missing {
            let hint = crate::suggest::closest(name, all.iter().map(|request| request.name.as_str()));
            let hint = hint.map_or(String::new(), |meant| format!("; did you mean '{meant}'?"));
            let message = format!("there is no sink with an input and no materialized view '{name}'{hint}");
            return Err(Cause::user(message));
        }
        if names.is_empty() {
            return Err(Cause::user("name the sinks and materialized views to run"));
        }
        let is_wanted = |request: &Request| names.contains(&request.name.as_str());
        self.pipeline_for(all.into_iter().filter(is_wanted).collect())
    }

    /// What the sinks and materialized views of the catalogue request: the sinks first, each kind by name.
    fn requests(&self) -> Vec<Request> {
        let mut requests = Vec::new();
        for (name, sink) in &self.catalog.sinks {
            for input in &sink.inputs {
                requests.push(Request {
                    name: name.clone(),
                    plan: input.clone(),
                    target: Target::Sink(sink.definition.clone()),
                    max_latency: sink.max_latency,
                });
            }
        }
        for (name, relation) in self.catalog.relations.iter() {
            let Relation::View(view) = relation else { continue };
            let Some(materialized) = &view.materialized else { continue };
            requests.push(Request {
                name: name.to_string(),
                plan: view.plan.clone(),
                target: Target::View(Arc::clone(view)),
                max_latency: materialized.max_latency,
            });
        }
        requests
    }

    fn pipeline_for(&self, requests: Vec<Request>) -> Result<Pipeline, Cause> {
        let max_latency = requests.iter().filter_map(|request| request.max_latency).min();
        let both = requests.into_iter().map(|request| ((request.name, request.plan), request.target));
        let (queries, targets): (Vec<_>, Vec<_>) = both.unzip();
        let circumstances =
            Circumstances { settings: &self.settings, max_latency, instructions: self.instructions(None) };
        Pipeline::new(&queries, targets, circumstances)
    }

    fn with_provider<T>(&self, body: impl FnOnce(&Provider<'_>) -> T) -> T {
        let open = |name: &str| connectors::by_path(name);
        body(&Provider::new(&self.catalog.relations, &self.catalog.functions, &self.catalog.registry, &open))
    }

    fn plan(&self, query: &ast::Query, statement: &Statement) -> Result<LogicalPlan, TextError> {
        self.with_provider(|provider| {
            provider.plan(query).map_err(|error| provider.text_error(&error, statement))
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
        let plan = self.plan(query, statement)?;
        let failed = |error: DataFusionError| self.text_error(&error, statement);
        if is_static(&plan) {
            return read_static(&plan).and_then(shown_rows).map(Reply::Rows).map_err(failed);
        }
        let prepared = self.prepare(&plan, bound, statement).map_err(failed)?;
        Ok(Reply::Query(Box::new(prepared)))
    }

    /// A planned query whose rows are shown. `statement` is what asks for it.
    fn prepare(
        &self,
        plan: &LogicalPlan,
        max_latency: Option<Duration>,
        statement: &Statement,
    ) -> Result<Prepared, DataFusionError> {
        let settings = self.settings_of_query();
        let instructions = self.instructions(Some(statement));
        Prepared::shown(plan, Circumstances { settings: &settings, max_latency, instructions })
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

/// A sink or materialized view that is to run.
struct Request {
    name: String,
    plan: LogicalPlan,
    target: Target,
    max_latency: Option<Duration>,
}

impl Provider<'_> {
    /// The error in a statement, with its place.
    pub(crate) fn text_error(&self, error: &DataFusionError, statement: &Statement) -> TextError {
        let functions = self.functions;
        let names = Names {
            relations: self.catalog.iter().map(|(name, _)| name).collect(),
            functions: functions
                .scalar
                .keys()
                .chain(functions.aggregate.keys())
                .chain(functions.window.keys())
                .map(String::as_str)
                .collect(),
        };
        TextError::from_datafusion(error, statement, &names)
    }
}
