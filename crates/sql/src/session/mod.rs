//! A session: its definitions and registrations, and the effects of statements.

mod define;
mod member;
mod processes;
mod show;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use datafusion::arrow::array::{ArrayRef, RecordBatch};
use datafusion::arrow::datatypes::DataType;
use datafusion::common::DataFusionError;
use datafusion::logical_expr::{ColumnarValue, LogicalPlan, Volatility, create_udf};
use datafusion::sql::sqlparser::ast;
use tidemill_engine::{Cause, PlaceGroup};
use tidemill_operators::Aggregate;

use crate::catalog::{Catalog, Relation, ViewDefinition};
use crate::connectors::{self, ConnectorTable, SinkConnector, SinkDefinition, SourceConnector};
use crate::extension::{Generator, Registry, TableOperator};
use crate::logical::{Functions, Provider, shown_rows};
use crate::pipeline::{Pipeline, Target};
use crate::prepared::{Circumstances, Prepared};
use crate::settings::Settings;
use crate::statement::declared::OptionGroup;
use crate::statement::{Name, Options, Statement, StatementKind};
use crate::text_error::{Names, TextError};
use crate::translate::{is_static, read_static};
use crate::view::ViewHandle;

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

/// A defined sink, and its input.
struct SinkEntry {
    definition: SinkDefinition,
    max_latency: Option<Duration>,
    inputs: Vec<LogicalPlan>,
}

/// See the module.
///
/// ```
/// use tidemill_sql::{Reply, Session, parse};
/// let mut session = Session::new();
/// for statement in parse("SELECT 6 * 7 AS answer", "example").unwrap() {
///     let Ok(Reply::Rows(rows)) = session.execute(&statement) else { panic!("it is answered at once") };
///     assert_eq!(rows.num_rows(), 1);
/// }
/// ```
pub struct Session {
    catalog: Catalog,
    functions: Functions,
    registry: Arc<Registry>,
    connectors: ConnectorTable,
    sinks: BTreeMap<String, SinkEntry>,
    places: BTreeMap<String, PlaceGroup>,
    settings: Settings,
    /// The statements that have defined or changed something, so that other processes can repeat them.
    definitions: Vec<String>,
    has_attached_views: bool,
}

impl Default for Session {
    fn default() -> Self {
        Session::new()
    }
}

impl Session {
    /// A session with the built-in generators and functions.
    pub fn new() -> Self {
        let mut registry = Registry::default();
        connectors::register(&mut registry);
        Session {
            catalog: Catalog::default(),
            functions: Functions::default(),
            registry: Arc::new(registry),
            connectors: connectors::built_in(),
            sinks: BTreeMap::new(),
            places: BTreeMap::new(),
            settings: Settings::default(),
            definitions: Vec::new(),
            has_attached_views: false,
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
        self.functions.add_scalar(Arc::new(function));
    }

    /// Registers an aggregate function for arguments of these types.
    pub fn register_aggregate(&mut self, name: &str, arguments: Vec<DataType>, function: Arc<dyn Aggregate>) {
        let function = crate::own_aggregate::OwnAggregate::function(name, arguments, function);
        self.functions.add_aggregate(Arc::new(function));
    }

    /// Registers an operator, to be called in FROM: `name(TABLE(input), argument => value)`.
    pub fn register_operator(&mut self, name: &str, operator: Arc<dyn TableOperator>) {
        Arc::make_mut(&mut self.registry).operators.insert(name.to_string(), operator);
    }

    /// Registers a generator of rows, to be called in FROM: `name(argument => value)`.
    pub fn register_generator(&mut self, name: &str, generator: Arc<Generator>) {
        Arc::make_mut(&mut self.registry).generators.insert(name.to_string(), generator);
    }

    /// Registers a connector for sources: `CREATE SOURCE ... WITH (connector = 'name', ...)`. It replaces one of the
    /// same name.
    pub fn register_source(&mut self, name: &str, connector: Arc<dyn SourceConnector>) {
        self.connectors.add_source(name, connector);
    }

    /// Registers a connector for sinks: `CREATE SINK ... WITH (connector = 'name', ...)`. It replaces one of the same
    /// name.
    pub fn register_sink(&mut self, name: &str, connector: Arc<dyn SinkConnector>) {
        self.connectors.add_sink(name, connector);
    }

    /// Names of relations and functions, for completion.
    pub fn names(&self) -> Vec<String> {
        let relations = self.catalog.iter().map(|(name, _)| name.to_string());
        let sinks = self.sinks.keys().cloned();
        let functions = self.functions.scalar.keys().chain(self.functions.aggregate.keys()).cloned();
        let registered = self.registry.generators.keys().chain(self.registry.operators.keys()).cloned();
        relations.chain(sinks).chain(functions).chain(registered).collect()
    }

    /// The columns of all sources and views, for completion.
    pub fn column_names(&self) -> Vec<String> {
        let names_of = |plan: &LogicalPlan| {
            plan.schema().fields().iter().map(|field| field.name().clone()).collect::<Vec<_>>()
        };
        let columns = |relation: &Relation| -> Vec<String> {
            match relation {
                Relation::Source(source) => {
                    source.schema.fields().iter().map(|field| field.name().clone()).collect()
                }
                Relation::View(view) => names_of(&view.plan),
                Relation::Process(set) => names_of(&set.plan),
            }
        };
        self.catalog.iter().flat_map(|(_, relation)| columns(relation)).collect()
    }

    /// The names of all settings, for completion.
    pub fn setting_names(&self) -> Vec<String> {
        self.settings.rows().map(|(name, ..)| name.to_string()).collect()
    }

    /// The options of all connectors, formats and settings: what they are called, what they hold, and what they mean.
    pub fn option_groups(&self) -> Vec<OptionGroup> {
        let mut groups = connectors::option_groups(&self.connectors);
        groups.push(Settings::option_group());
        groups
    }

    /// Whether a sink writes to standard output.
    pub fn writes_to_standard_output(&self) -> bool {
        self.sinks.values().any(|sink| sink.definition.connector == "stdout")
    }

    /// Executes a statement.
    ///
    /// # Errors
    /// The error, with its place.
    pub fn execute(&mut self, statement: &Statement) -> Result<Reply, TextError> {
        let reply = self.reply(statement)?;
        if let Reply::Done(_) = &reply {
            self.definitions.push(statement.text.clone());
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

    /// Everything that the sinks and materialized views of the session request, planned to run together; `None` if there
    /// is nothing.
    ///
    /// # Errors
    /// If the queries cannot run together.
    pub fn pipeline(&self) -> Result<Option<Pipeline>, Cause> {
        let (mut queries, mut targets) = (Vec::new(), Vec::new());
        let mut max_latency = None;
        for (name, sink) in &self.sinks {
            max_latency = max_latency.into_iter().chain(sink.max_latency).min();
            for input in &sink.inputs {
                queries.push((name.clone(), input.clone()));
                targets.push(Target::Sink(sink.definition.clone()));
            }
        }
        for (name, relation) in self.catalog.iter() {
            let Relation::View(view) = relation else { continue };
            let Some(materialized) = &view.materialized else { continue };
            max_latency = max_latency.into_iter().chain(materialized.max_latency).min();
            queries.push((name.to_string(), view.plan.clone()));
            targets.push(Target::View);
        }
        if queries.is_empty() {
            return Ok(None);
        }
        let circumstances =
            Circumstances { settings: &self.settings, max_latency, instructions: self.instructions(None) };
        Pipeline::new(&queries, targets, circumstances).map(Some)
    }

    /// From now on, queries that name this view read its rows as they are at that moment instead of computing it again.
    pub fn attach_view(&mut self, view: &ViewHandle) {
        let rows = Arc::new(view.definition());
        let attached = match self.catalog.relation(view.name()) {
            Some(Relation::View(known)) => {
                let known = known.as_ref().clone();
                Relation::View(Arc::new(ViewDefinition { rows: Some(rows), ..known }))
            }
            // It was defined in another session: here it is a table.
            _ => Relation::Source(rows),
        };
        self.catalog.add(view.name(), attached);
        self.has_attached_views = true;
    }

    /// Whether there are sinks or materialized views to run.
    pub fn has_pipeline(&self) -> bool {
        let materialized =
            |relation: &Relation| matches!(relation, Relation::View(view) if view.materialized.is_some());
        self.sinks.values().any(|sink| !sink.inputs.is_empty())
            || self.catalog.iter().any(|(_, relation)| materialized(relation))
    }

    fn with_provider<T>(&self, body: impl FnOnce(&Provider<'_>) -> T) -> T {
        let open = |name: &str| connectors::by_path(name);
        body(&Provider::new(&self.catalog, &self.functions, &self.registry, &open))
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
        let processes = if self.has_attached_views { 1 } else { self.settings.processes };
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

/// `SELECT * FROM name`
fn select_all(name: &Name, statement: &Statement) -> Result<ast::Query, TextError> {
    let quoted = match name.quote {
        Some(quote) => format!("{quote}{}{quote}", name.value),
        None => name.value.clone(),
    };
    select(&quoted, name, statement)
}

/// `SELECT * FROM relation`, with the relation of that name.
fn select(relation: &str, name: &Name, statement: &Statement) -> Result<ast::Query, TextError> {
    let parsed = crate::statement::parse(&format!("SELECT * FROM {relation}"), statement.script().file())?;
    match parsed.into_iter().next().map(|parsed| parsed.kind) {
        Some(StatementKind::Query(query, _)) => Ok(*query),
        _ => Err(statement.error(name.span, format!("'{name}' is no name"))),
    }
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
