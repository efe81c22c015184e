//! The context that DataFusion's planner needs: relations, functions, options.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, FieldRef, SchemaRef};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNodeRecursion};
use datafusion::common::{DFSchema, DataFusionError, Result, SchemaError, TableReference, plan_err};
use datafusion::datasource::cte_worktable::CteWorkTable;
use datafusion::datasource::provider_as_source;
use datafusion::logical_expr::planner::{ContextProvider, ExprPlanner, RelationPlanner};
use datafusion::logical_expr::{
    AggregateUDF, EmptyRelation, Expr, ExprSchemable, HigherOrderUDF, LogicalPlan, LogicalPlanBuilder,
    ScalarUDF, TableSource, WindowUDF,
};
use datafusion::sql::planner::{ParserOptions, PlannerContext};
use datafusion::sql::sqlparser::ast;
use parking_lot::Mutex;
use tidemill_trees::nodes::PlanTree;
use tidemill_trees::planning::{plan_expression, plan_statement};

use super::datafusion_repairs::counted_sets;
use super::datafusion_repairs::spelling::Spelling;
use super::datafusion_repairs::written_numbers::{WRITTEN_NUMBER, written_number};
use super::functions::Functions;
use super::names::{self, Naming};
use super::nodes::map_call::Scopes;
use super::nodes::relations::Relations;
use super::nodes::source_relation::relation_of;
use super::read_names::ReadNames;
use crate::defined_functions::{DefinedFunction, DefinedFunctions, Expansion, TableCall};
use crate::extension::Registry;
use crate::refusal::refuse_at;
use crate::relations::named_relations::{NamedRelations, Relation, ViewDefinition};
use crate::relations::source_definition::{ScannedSource, SourceDefinition};
use crate::relations::stream_process::StreamProcessSet;
use crate::statement::{Options, Statement, expression_of};
use crate::text::TextError;

/// How often a query is planned with changed names before giving up.
const MAX_ATTEMPTS: usize = 200;

/// Opens a relation that is named in quotes, such as a file.
pub(crate) type OpenByName = dyn Fn(&str) -> Option<Result<SourceDefinition>> + Send + Sync;

/// A file that was named in a query, and what is read from it.
type OpenedFile = (String, Arc<SourceDefinition>);

/// A function, its body with the values of a call, and the plan of that.
type PlannedCall = (Arc<DefinedFunction>, ast::Query, LogicalPlan);

/// Plans queries over a catalogue.
pub(crate) struct Provider<'a> {
    pub catalog: &'a NamedRelations,
    pub functions: &'a Functions,
    /// The functions that are defined in SQL.
    pub defined: &'a DefinedFunctions,
    /// What calls of them in FROM give, by the names that stand for the calls.
    rows: BTreeMap<String, LogicalPlan>,
    open_by_name: &'a OpenByName,
    /// The names whose definitions have failed, with the reasons.
    pub failed: BTreeMap<&'a str, &'a str>,
    relations: Vec<Arc<dyn RelationPlanner>>,
    options: ConfigOptions,
    /// Files that were named in queries: each is one source, however often it is named.
    opened: Arc<Mutex<Vec<OpenedFile>>>,
    /// What calls in FROM give, so that a call that occurs again, in whatever function, is planned once.
    planned: Arc<Mutex<Vec<PlannedCall>>>,
    /// The types of the parameters that have no values yet, in their order.
    parameters: Vec<FieldRef>,
    /// The names of relations that queries have read.
    read: ReadNames,
}

impl<'a> Provider<'a> {
    pub fn new(
        catalog: &'a NamedRelations,
        functions: &'a Functions,
        defined: &'a DefinedFunctions,
        registry: &Arc<Registry>,
        open_by_name: &'a OpenByName,
        opens_files: bool,
        read: &ReadNames,
    ) -> Self {
        let relations: Vec<Arc<dyn RelationPlanner>> = vec![Arc::new(Relations {
            registry: Arc::clone(registry),
            loaded: functions.loaded.clone(),
            opens_files,
            processes: processes_of(catalog),
            sub_streams: Scopes::default(),
            read: read.clone(),
        })];
        let mut options = ConfigOptions::default();
        options.sql_parser.collect_spans = true;
        options.sql_parser.map_string_types_to_utf8view = false;
        // Orders that do not show are removed later; those that show are kept.
        options.sql_parser.enable_subquery_sort_elimination = false;
        let (rows, failed) = (BTreeMap::new(), BTreeMap::new());
        let (opened, planned, parameters) = (Arc::default(), Arc::default(), Vec::new());
        Provider {
            catalog,
            functions,
            defined,
            rows,
            open_by_name,
            failed,
            relations,
            options,
            opened,
            planned,
            parameters,
            read: read.clone(),
        }
    }

    /// The same for queries whose parameters have these types, and no values yet.
    pub fn for_parameters(&self, parameters: Vec<FieldRef>) -> Provider<'a> {
        Provider { parameters, ..self.with_functions(self.defined) }
    }

    /// Whether a query has named a file in place of a relation.
    pub fn has_opened_files(&self) -> bool {
        !self.opened.lock().is_empty()
    }

    /// With names whose definitions have failed, for messages.
    pub fn with_failed(self, failed: BTreeMap<&'a str, &'a str>) -> Self {
        Provider { failed, ..self }
    }

    /// The plan of a query as written, and the optimised one.
    pub fn plan(&self, query: &ast::Query) -> Result<(LogicalPlan, LogicalPlan)> {
        match Expansion::of(query, self.defined)? {
            None => self.plan_expanded(query),
            Some(expanded) => self.with_calls(&expanded.calls)?.plan_expanded(&expanded.tree),
        }
    }

    /// The same relations for other functions.
    fn with_functions<'b>(&self, defined: &'b DefinedFunctions) -> Provider<'b>
    where
        'a: 'b,
    {
        Provider {
            catalog: self.catalog,
            functions: self.functions,
            defined,
            rows: BTreeMap::new(),
            open_by_name: self.open_by_name,
            failed: self.failed.clone(),
            relations: self.relations.clone(),
            options: self.options.clone(),
            opened: Arc::clone(&self.opened),
            planned: Arc::clone(&self.planned),
            parameters: self.parameters.clone(),
            read: self.read.clone(),
        }
    }

    /// The same relations, and those that calls in FROM give: each is planned apart, with the functions that its function
    /// knew when it was defined, and without the names that the caller gives to parts of its query.
    fn with_calls(&self, calls: &[TableCall]) -> Result<Provider<'a>> {
        let mut with_calls = self.with_functions(self.defined);
        for call in calls {
            with_calls.rows.insert(call.name.clone(), self.call(call)?);
        }
        Ok(with_calls)
    }

    fn call(&self, TableCall { function, query, place, .. }: &TableCall) -> Result<LogicalPlan> {
        let is_same = |(known, body, _): &&PlannedCall| Arc::ptr_eq(known, function) && body == query;
        if let Some((_, _, plan)) = self.planned.lock().iter().find(is_same) {
            return Ok(plan.clone());
        }
        let within = self.with_functions(&function.uses);
        let (plan, _) = within.plan(query).map_err(|error| {
            let reason = within.text_error(&error, &function.definition);
            let message = format!("function {} cannot be computed: {}", function.name, reason.message);
            let way_out = reason.hint.as_deref();
            refuse_at(*place, message, way_out.unwrap_or("check the arguments and what its definition reads"))
        })?;
        self.planned.lock().push((Arc::clone(function), query.clone(), plan.clone()));
        Ok(plan)
    }

    fn plan_expanded(&self, query: &ast::Query) -> Result<(LogicalPlan, LogicalPlan)> {
        super::limits::query_size::check(query, self.catalog)?;
        super::functions::calls::check(query, self.functions)?;
        let (mut naming, mut spelling) = (Naming::default(), Spelling::default());
        let mut first = None;
        for _ in 0..MAX_ATTEMPTS {
            let error = match self.attempt(query, &naming, &spelling) {
                Ok(plans) => return Ok(plans),
                Err(error) => error,
            };
            let is_repaired = naming.after(&error, query).or_else(|| spelling.after(&error)).is_some();
            // Messages refer to the query as it was written.
            first.get_or_insert(error);
            if !is_repaired {
                break;
            }
        }
        Err(first.unwrap_or_else(|| DataFusionError::Internal("a query was not planned".to_owned())))
    }

    /// The plan of a query as written, not checked and not optimised.
    pub fn unchecked_plan(&self, query: &ast::Query) -> Result<LogicalPlan> {
        if let Some(expanded) = Expansion::of(query, self.defined)? {
            return self.with_calls(&expanded.calls)?.unchecked_plan_expanded(&expanded.tree);
        }
        self.unchecked_plan_expanded(query)
    }

    fn unchecked_plan_expanded(&self, query: &ast::Query) -> Result<LogicalPlan> {
        let mut query = query.clone();
        super::postgres_syntax::postgres_words::translate(&mut query)?;
        let statement = ast::Statement::Query(Box::new(query));
        plan_statement(statement, self, parser_options(), &mut PlannerContext::new())
    }

    fn attempt(
        &self,
        query: &ast::Query,
        naming: &Naming,
        spelling: &Spelling,
    ) -> Result<(LogicalPlan, LogicalPlan)> {
        let mut query = naming.name(query);
        spelling.spell(&mut query);
        super::postgres_syntax::joined_columns::translate(&mut query, &|mut part| {
            translate(&mut part)?;
            Ok(Arc::clone(self.as_written(part)?.schema()))
        })?;
        translate(&mut query)?;
        if let Some(replaced) = super::datafusion_repairs::spelling::with_replaced_columns(&query)
            && let Err(error) = self.as_written(replaced)
            && is_unknown_column(&error)
        {
            return Err(error);
        }
        let written = self.as_written(query)?;
        super::limits::query_size::check_plan(&written)?;
        super::limits::plan_size::check_types(&written)?;
        super::check_order(&written)?;
        let plan = super::datafusion_repairs::distinct_on::without_distinct_on(written.clone())?;
        super::check_repeatable(&plan)?;
        let optimized = super::optimize(plan, &self.options)?;
        super::check_constants(&optimized)?;
        Ok((written, optimized))
    }

    fn as_written(&self, mut query: ast::Query) -> Result<LogicalPlan> {
        let counts_rows = counted_sets::counts_rows(&mut query);
        let types = self.parameters.iter().map(|field| Some(Arc::clone(field))).collect();
        let mut context = PlannerContext::new().with_prepare_param_data_types(types);
        let statement = ast::Statement::Query(Box::new(query));
        let plan = plan_statement(statement, self, parser_options(), &mut context)?;
        if counts_rows { counted_sets::with_copies_counted(plan) } else { Ok(plan) }
    }

    /// The plan of a view in which views that run are read instead of computed again. It was planned when none of them ran.
    fn over_running_views(&self, plan: &LogicalPlan) -> Result<LogicalPlan> {
        let read = plan.clone().rewrite_down_with_subqueries(|node| {
            let LogicalPlan::SubqueryAlias(named) = &node else { return Ok(Transformed::no(node)) };
            let Some(Relation::View(view)) = self.catalog.get(named.alias.table()) else {
                return Ok(Transformed::no(node));
            };
            match &view.rows {
                // Otherwise it is the alias of something else.
                Some(rows) if view.plan == *named.input => {
                    let source = running_view(named.alias.clone(), rows, view)?;
                    let scan = LogicalPlanBuilder::scan(named.alias.clone(), source, None)?.build()?;
                    Ok(Transformed::new(scan, true, TreeNodeRecursion::Jump))
                }
                _ => Ok(Transformed::no(node)),
            }
        });
        read.data()
    }

    /// The type that a declaration denotes.
    pub fn data_type(&self, data_type: &ast::DataType) -> Result<DataType> {
        // The planner reports the type of a cast, and of nothing else.
        let cast = ast::Expr::Cast {
            kind: ast::CastKind::Cast,
            expr: Box::new(ast::Expr::value(ast::Value::Null)),
            data_type: data_type.clone(),
            array: false,
            format: None,
        };
        let schema = DFSchema::empty();
        plan_expression(cast, &schema, self, parser_options())?.get_type(&schema)
    }

    /// Plans the expression that an option holds as text, over the columns of `schema`.
    ///
    /// # Errors
    /// The text is not such an expression; the error stands at the option.
    pub fn expression_of_option(
        &self,
        (options, name): (&Options, &str),
        text: &str,
        schema: &SchemaRef,
        statement: &Statement,
    ) -> std::result::Result<Expr, TextError> {
        let refused = |error: &TextError| {
            options.error(name, error.message.clone()).with_optional_hint(error.hint.clone())
        };
        let written = expression_of(text).map_err(|error| refused(&error))?;
        let columns = DFSchema::try_from(schema.as_ref().clone());
        let planned = columns.and_then(|columns| self.expression(&written, &columns));
        planned.map_err(|error| refused(&self.text_error(&error, statement)))
    }

    /// An expression over a schema, with coerced types.
    pub fn expression(&self, expression: &ast::Expr, schema: &DFSchema) -> Result<Expr> {
        if let Some(expanded) = Expansion::of(expression, self.defined)? {
            return self.with_calls(&expanded.calls)?.expanded_expression(&expanded.tree, schema);
        }
        self.expanded_expression(expression, schema)
    }

    fn expanded_expression(&self, expression: &ast::Expr, schema: &DFSchema) -> Result<Expr> {
        super::functions::calls::check(expression, self.functions)?;
        let expression = self.planned_expression(expression, schema)?;
        // As a plan, for coercion and the check of what no replay could repeat work on plans.
        let empty = LogicalPlan::EmptyRelation(EmptyRelation {
            produce_one_row: true,
            schema: Arc::new(schema.clone()),
        });
        let plan = LogicalPlanBuilder::from(empty).project([expression])?.build()?;
        super::check_repeatable(&plan)?;
        let plan = super::optimize::coerce(plan, &self.options)?;
        super::check_constants(&plan)?;
        Ok(plan.expressions().remove(0).unalias())
    }

    fn planned_expression(&self, expression: &ast::Expr, schema: &DFSchema) -> Result<Expr> {
        let mut spelling = Spelling::default();
        loop {
            let mut expression = expression.clone();
            spelling.spell(&mut expression);
            super::postgres_syntax::postgres_words::translate(&mut expression)?;
            super::functions::times::time_patterns::translate(&mut expression)?;
            super::datafusion_repairs::written_numbers::keep(&mut expression);
            super::postgres_syntax::interval_texts::translate(&mut expression);
            super::functions::field_names::translate(&mut expression);
            super::functions::times::time_zones::translate(&mut expression)?;
            match plan_expression(expression, schema, self, parser_options()) {
                Err(error) if spelling.after(&error).is_some() => {}
                planned => return planned,
            }
        }
    }

    fn opened(&self, name: &str) -> Option<Result<Arc<SourceDefinition>>> {
        let mut opened = self.opened.lock();
        if let Some((_, definition)) = opened.iter().find(|(known, _)| known == name) {
            return Some(Ok(Arc::clone(definition)));
        }
        let definition = match (self.open_by_name)(name)? {
            Ok(definition) => Arc::new(definition),
            Err(error) => return Some(Err(error)),
        };
        opened.push((name.to_owned(), Arc::clone(&definition)));
        Some(Ok(definition))
    }
}

fn processes_of(catalog: &NamedRelations) -> BTreeMap<String, Arc<StreamProcessSet>> {
    let processes = catalog.iter().filter_map(|(name, relation)| match relation {
        Relation::Process(set) => Some((name.to_string(), Arc::clone(set))),
        _ => None,
    });
    processes.collect()
}

fn parser_options() -> ParserOptions {
    ParserOptions { collect_spans: true, map_string_types_to_utf8view: false, ..ParserOptions::default() }
}

/// A view, whose plan replaces its name.
struct View {
    plan: LogicalPlan,
    schema: SchemaRef,
}

fn inlined(plan: &LogicalPlan) -> Arc<dyn TableSource> {
    Arc::new(View { schema: Arc::new(plan.schema().as_arrow().clone()), plan: plan.clone() })
}

/// The rows of a view that runs, with the columns that queries see.
fn running_view(
    name: TableReference,
    rows: &Arc<SourceDefinition>,
    view: &ViewDefinition,
) -> Result<Arc<dyn TableSource>> {
    let scanned = Arc::new(ScannedSource { definition: Arc::clone(rows), late: false });
    match view.point() {
        None => Ok(scanned),
        Some([x, y]) => {
            let scan = LogicalPlanBuilder::scan(name, scanned, None)?.build()?;
            Ok(inlined(&super::functions::place_functions::with_point(scan, [x, y])?))
        }
    }
}

impl TableSource for View {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn get_logical_plan(&self) -> Option<Cow<'_, LogicalPlan>> {
        Some(Cow::Borrowed(&self.plan))
    }
}

impl ContextProvider for Provider<'_> {
    fn get_table_source(&self, name: TableReference) -> Result<Arc<dyn TableSource>> {
        if let Some(plan) = self.rows.get(name.table()) {
            return Ok(inlined(plan));
        }
        self.read.add(name.table());
        match self.catalog.get(name.table()) {
            Some(Relation::Source(definition)) => match &definition.changes {
                None => Ok(Arc::new(ScannedSource { definition: Arc::clone(definition), late: false })),
                Some(changes) => Ok(inlined(&relation_of(definition, changes, name)?)),
            },
            Some(Relation::View(view)) => match &view.rows {
                Some(rows) => running_view(name, rows, view),
                None => Ok(inlined(&self.over_running_views(&view.plan)?)),
            },
            Some(Relation::Process(set)) => Ok(inlined(&set.plan)),
            None => match self.opened(&name.to_string()) {
                Some(definition) => Ok(Arc::new(ScannedSource { definition: definition?, late: false })),
                None => plan_err!("table '{name}' not found"),
            },
        }
    }

    /// What WITH RECURSIVE has found in the step before.
    fn create_cte_work_table(&self, name: &str, schema: SchemaRef) -> Result<Arc<dyn TableSource>> {
        Ok(provider_as_source(Arc::new(CteWorkTable::new(name, schema))))
    }

    fn get_expr_planners(&self) -> &[Arc<dyn ExprPlanner>] {
        &self.functions.planners
    }

    fn get_relation_planners(&self) -> &[Arc<dyn RelationPlanner>] {
        &self.relations
    }

    fn get_function_meta(&self, name: &str) -> Option<Arc<ScalarUDF>> {
        match name {
            names::AS_WRITTEN => Some(Arc::new(names::as_written())),
            WRITTEN_NUMBER => Some(Arc::new(written_number())),
            name => self.functions.scalar.get(name).cloned().or_else(|| self.functions.loaded.scalar(name)),
        }
    }

    fn get_higher_order_meta(&self, _name: &str) -> Option<Arc<HigherOrderUDF>> {
        None
    }

    fn get_aggregate_meta(&self, name: &str) -> Option<Arc<AggregateUDF>> {
        self.functions.aggregate(name)
    }

    fn get_window_meta(&self, name: &str) -> Option<Arc<WindowUDF>> {
        self.functions.window.get(name).cloned()
    }

    fn get_variable_type(&self, _variable_names: &[String]) -> Option<DataType> {
        None
    }

    fn options(&self) -> &ConfigOptions {
        &self.options
    }

    fn udf_names(&self) -> Vec<String> {
        self.functions.scalar.keys().cloned().collect()
    }

    fn higher_order_function_names(&self) -> Vec<String> {
        Vec::new()
    }

    fn udaf_names(&self) -> Vec<String> {
        self.functions.aggregate.keys().cloned().collect()
    }

    fn udwf_names(&self) -> Vec<String> {
        self.functions.window.keys().cloned().collect()
    }
}

/// Says a query in words that DataFusion's planner knows.
fn translate(query: &mut ast::Query) -> Result<()> {
    super::postgres_syntax::postgres_words::translate(query)?;
    super::functions::times::time_patterns::translate(query)?;
    super::datafusion_repairs::written_numbers::keep(query);
    super::postgres_syntax::interval_texts::translate(query);
    super::functions::field_names::translate(query);
    super::functions::times::time_zones::translate(query)?;
    super::datafusion_repairs::series_rows::translate(query);
    Ok(())
}

fn is_unknown_column(error: &DataFusionError) -> bool {
    let DataFusionError::SchemaError(schema, _) = error.find_root() else { return false };
    matches!(schema.as_ref(), SchemaError::FieldNotFound { .. })
}
