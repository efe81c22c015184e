//! From syntax to plans, for any catalogue.

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, FieldRef, SchemaRef};
use datafusion::common::config::ConfigOptions;
use datafusion::common::file_options::file_type::FileType;
use datafusion::common::{DFSchema, Result, TableReference};
use datafusion::logical_expr::planner::{ContextProvider, ExprPlanner, RelationPlanner, TypePlanner};
use datafusion::logical_expr::{
    AggregateUDF, Expr, HigherOrderUDF, LogicalPlan, ScalarUDF, TableSource, WindowUDF,
};
use datafusion::sql::planner::{ParserOptions, PlannerContext, SqlToRel};
use datafusion::sql::sqlparser::ast;

/// The plan of a statement: names are looked up in the catalogue, and types are not coerced yet. [`plan_expression`]
/// has an example of a catalogue.
///
/// # Errors
/// If the statement means nothing, or something that DataFusion does not know.
pub fn plan_statement(
    statement: ast::Statement,
    catalog: &dyn ContextProvider,
    options: ParserOptions,
    context: &mut PlannerContext,
) -> Result<LogicalPlan> {
    let catalog = AnyCatalog(catalog);
    SqlToRel::new_with_options(&catalog, options).sql_statement_to_plan_with_context(statement, context)
}

/// The expression over columns that a syntax tree stands for: types are not coerced yet.
///
/// ```
/// # use std::sync::Arc;
/// # use datafusion::arrow::datatypes::DataType;
/// # use datafusion::common::config::ConfigOptions;
/// # use datafusion::common::{DFSchema, Result, TableReference, plan_err};
/// # use datafusion::logical_expr::planner::ContextProvider;
/// # use datafusion::logical_expr::{AggregateUDF, HigherOrderUDF, ScalarUDF, TableSource, WindowUDF, lit};
/// # use datafusion::sql::planner::ParserOptions;
/// # use datafusion::sql::sqlparser::{dialect::GenericDialect, parser::Parser};
/// # use tidemill_trees::planning::plan_expression;
/// struct Nothing(ConfigOptions); // A catalogue without tables and functions.
/// # impl ContextProvider for Nothing {
/// #     fn get_table_source(&self, name: TableReference) -> Result<Arc<dyn TableSource>> { plan_err!("no {name}") }
/// #     fn get_function_meta(&self, _: &str) -> Option<Arc<ScalarUDF>> { None }
/// #     fn get_higher_order_meta(&self, _: &str) -> Option<Arc<HigherOrderUDF>> { None }
/// #     fn get_aggregate_meta(&self, _: &str) -> Option<Arc<AggregateUDF>> { None }
/// #     fn get_window_meta(&self, _: &str) -> Option<Arc<WindowUDF>> { None }
/// #     fn get_variable_type(&self, _: &[String]) -> Option<DataType> { None }
/// #     fn options(&self) -> &ConfigOptions { &self.0 }
/// #     fn udf_names(&self) -> Vec<String> { Vec::new() }
/// #     fn higher_order_function_names(&self) -> Vec<String> { Vec::new() }
/// #     fn udaf_names(&self) -> Vec<String> { Vec::new() }
/// #     fn udwf_names(&self) -> Vec<String> { Vec::new() }
/// # }
/// let tree = Parser::new(&GenericDialect {}).try_with_sql("1 + 2").unwrap().parse_expr().unwrap();
/// let (nothing, no_columns) = (Nothing(ConfigOptions::new()), DFSchema::empty());
/// let planned = plan_expression(tree, &no_columns, &nothing, ParserOptions::new())?;
/// assert_eq!(planned, lit(1_i64) + lit(2_i64));
/// # Ok::<(), datafusion::common::DataFusionError>(())
/// ```
///
/// # Errors
/// As [`plan_statement`].
pub fn plan_expression(
    expression: ast::Expr,
    schema: &DFSchema,
    catalog: &dyn ContextProvider,
    options: ParserOptions,
) -> Result<Expr> {
    let catalog = AnyCatalog(catalog);
    SqlToRel::new_with_options(&catalog, options).sql_to_expr(expression, schema, &mut PlannerContext::new())
}

/// The only type of catalogue for which the translation is compiled.
struct AnyCatalog<'a>(&'a dyn ContextProvider);

impl ContextProvider for AnyCatalog<'_> {
    fn get_table_source(&self, name: TableReference) -> Result<Arc<dyn TableSource>> {
        self.0.get_table_source(name)
    }

    fn get_file_type(&self, extension: &str) -> Result<Arc<dyn FileType>> {
        self.0.get_file_type(extension)
    }

    fn get_table_function_source(&self, name: &str, arguments: Vec<Expr>) -> Result<Arc<dyn TableSource>> {
        self.0.get_table_function_source(name, arguments)
    }

    fn create_cte_work_table(&self, name: &str, schema: SchemaRef) -> Result<Arc<dyn TableSource>> {
        self.0.create_cte_work_table(name, schema)
    }

    fn get_expr_planners(&self) -> &[Arc<dyn ExprPlanner>] {
        self.0.get_expr_planners()
    }

    fn get_relation_planners(&self) -> &[Arc<dyn RelationPlanner>] {
        self.0.get_relation_planners()
    }

    fn get_type_planner(&self) -> Option<Arc<dyn TypePlanner>> {
        self.0.get_type_planner()
    }

    fn get_function_meta(&self, name: &str) -> Option<Arc<ScalarUDF>> {
        self.0.get_function_meta(name)
    }

    fn get_higher_order_meta(&self, name: &str) -> Option<Arc<HigherOrderUDF>> {
        self.0.get_higher_order_meta(name)
    }

    fn get_aggregate_meta(&self, name: &str) -> Option<Arc<AggregateUDF>> {
        self.0.get_aggregate_meta(name)
    }

    fn get_window_meta(&self, name: &str) -> Option<Arc<WindowUDF>> {
        self.0.get_window_meta(name)
    }

    fn get_variable_type(&self, names: &[String]) -> Option<DataType> {
        self.0.get_variable_type(names)
    }

    fn get_variable_field(&self, names: &[String]) -> Option<FieldRef> {
        self.0.get_variable_field(names)
    }

    fn options(&self) -> &ConfigOptions {
        self.0.options()
    }

    fn udf_names(&self) -> Vec<String> {
        self.0.udf_names()
    }

    fn higher_order_function_names(&self) -> Vec<String> {
        self.0.higher_order_function_names()
    }

    fn udaf_names(&self) -> Vec<String> {
        self.0.udaf_names()
    }

    fn udwf_names(&self) -> Vec<String> {
        self.0.udwf_names()
    }
}
