//! Functions in FROM: windows, late rows, generators, and the user's operators.

use std::collections::BTreeMap;
use std::sync::Arc;

use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::{Column, DataFusionError, ExprSchema, Result, TableReference, plan_err};
use datafusion::logical_expr::planner::{
    PlannedRelation, RelationPlanner, RelationPlannerContext, RelationPlanning,
};
use datafusion::logical_expr::{Expr, Extension, LogicalPlan, LogicalPlanBuilder};
use datafusion::sql::sqlparser::ast::{self, FunctionArg, FunctionArgExpr, TableFactor};
use tidemill_engine::Cause;
use tidemill_operators::WINDOWS_OF_ROW_MAX;

use super::adaptive_regions;
use super::operator_call::OperatorCall;
use super::process_call;
use super::split_call;
use super::window_assign::{WindowAssign, WindowKind};
use crate::arguments::{Arguments, Value, value_of};
use crate::definition::{Scanned, scanned};
use crate::extension::{BoundOperator, Registry};
use crate::process::StreamProcessSet;

/// See the module.
#[derive(Debug)]
pub(crate) struct Relations {
    pub registry: Arc<Registry>,
    /// The sets of processes, by name.
    pub processes: BTreeMap<String, Arc<StreamProcessSet>>,
}

/// The built-in table functions.
const OWN: [&str; 8] =
    ["tumble", "hop", "session", "late", "splitstream", "mergestream", "postfilter", "adaptive_regions"];

/// A call in FROM, with its arguments sorted by kind.
struct Call {
    name: String,
    tables: Vec<TableFactor>,
    /// Expressions that are not constants: columns.
    expressions: Vec<ast::Expr>,
    arguments: Arguments,
}

impl RelationPlanner for Relations {
    fn plan_relation(
        &self,
        relation: TableFactor,
        context: &mut dyn RelationPlannerContext,
    ) -> Result<RelationPlanning> {
        let (name, args, alias) = match relation {
            TableFactor::Table { name, args: Some(args), alias, .. } => (name, args.args, alias),
            TableFactor::Function { name, args, alias, .. } => (name, args, alias),
            other => return Ok(RelationPlanning::Original(Box::new(other))),
        };
        let name = match name.0.last().and_then(|part| part.as_ident()) {
            Some(ident) => context.normalize_ident(ident.clone()),
            None => return plan_err!("'{name}' is no name of a function"),
        };
        let plan = match name.as_str() {
            "splitstream" => split_call::splitstream(args, context)?,
            "mergestream" => split_call::mergestream(args, context)?,
            "postfilter" => process_call::postfilter(args, context)?,
            name if self.processes.contains_key(name) => {
                process_call::member(&self.processes[name], args, context)?
            }
            _ => self.plan_call(sort_arguments(name, args)?, context)?,
        };
        Ok(RelationPlanning::Planned(Box::new(PlannedRelation::new(plan, alias))))
    }
}

impl Relations {
    fn plan_call(&self, call: Call, context: &mut dyn RelationPlannerContext) -> Result<LogicalPlan> {
        match call.name.as_str() {
            "tumble" | "hop" | "session" => windows(call, context),
            "late" => late(call, context),
            "adaptive_regions" => regions(call, context),
            name if self.registry.operators.contains_key(name) => self.operator(call, context),
            name if self.registry.generators.contains_key(name) => self.generator(&call),
            name => {
                let own = OWN.into_iter();
                let registered = self.registry.generators.keys().chain(self.registry.operators.keys());
                let known: Vec<&str> = own.chain(registered.map(String::as_str)).collect();
                plan_err!("Invalid table function '{name}': there are {}", known.join(", "))
            }
        }
    }

    fn generator(&self, call: &Call) -> Result<LogicalPlan> {
        if !call.tables.is_empty() || !call.expressions.is_empty() {
            return plan_err!("{}() takes constants only, no tables and no columns", call.name);
        }
        let definition = self.registry.generators[&call.name](&call.arguments).map_err(external)?;
        let source = Arc::new(Scanned { definition: Arc::new(definition), late: false });
        LogicalPlanBuilder::scan(TableReference::bare(call.name.as_str()), source, None)?.build()
    }

    fn operator(&self, call: Call, context: &mut dyn RelationPlannerContext) -> Result<LogicalPlan> {
        let inputs: Vec<LogicalPlan> =
            call.tables.into_iter().map(|table| context.plan(table)).collect::<Result<_>>()?;
        let schemas: Vec<_> =
            inputs.iter().map(|input| Arc::new(input.schema().as_arrow().clone())).collect();
        if inputs.is_empty() || !call.expressions.is_empty() {
            return plan_err!("{}() takes tables, as TABLE(name) or (SELECT ...), then constants", call.name);
        }
        let bound = self.registry.operators[&call.name].bind(&schemas, &call.arguments).map_err(external)?;
        check_carried(&call.name, &bound, &schemas)?;
        let node = OperatorCall::new(&call.name, inputs, Arc::new(bound))?;
        Ok(LogicalPlan::Extension(Extension { node: Arc::new(node) }))
    }
}

/// Columns that an operator carries are the same in its output and in all inputs.
fn check_carried(name: &str, bound: &BoundOperator, inputs: &[SchemaRef]) -> Result<()> {
    let type_in = |schema: &SchemaRef, column: &str| {
        schema.field_with_name(column).ok().map(|field| field.data_type().clone())
    };
    for column in &bound.carried {
        let wanted = type_in(&bound.output, column);
        if wanted.is_none() || inputs.iter().any(|input| type_in(input, column) != wanted) {
            return plan_err!(
                "{name}() says that it carries '{column}', which is not in its output and all inputs with one type"
            );
        }
    }
    Ok(())
}

pub(super) fn external(cause: Cause) -> DataFusionError {
    DataFusionError::Plan(cause.to_string())
}

/// Tables, columns and constants of a call, each in their order.
fn sort_arguments(name: String, args: Vec<FunctionArg>) -> Result<Call> {
    let (mut tables, mut expressions) = (Vec::new(), Vec::new());
    let (mut positional, mut named) = (Vec::new(), Vec::new());
    for arg in args {
        let (arg_name, arg) = match arg {
            FunctionArg::Unnamed(FunctionArgExpr::Expr(arg)) => (None, arg),
            FunctionArg::Named { name, arg: FunctionArgExpr::Expr(arg), .. } => {
                (Some(name.value.to_lowercase()), arg)
            }
            other => return plan_err!("{name}() does not take the argument {other}"),
        };
        match (arg_name, arg) {
            (Some(arg_name), arg) => named.push((arg_name, value_of(&arg).map_err(external)?)),
            (None, arg) => match table_of(&arg, tables.is_empty()) {
                Some(table) => tables.push(table),
                None => match value_of(&arg) {
                    Ok(value) => positional.push(value),
                    Err(wrong) if matches!(arg, ast::Expr::Interval(_)) => {
                        return plan_err!("{name}(): {wrong}");
                    }
                    Err(_) => expressions.push(arg),
                },
            },
        }
    }
    let arguments = Arguments::new(&name, positional, named);
    Ok(Call { name, tables, expressions, arguments })
}

/// The relation that an argument denotes: `TABLE(name)`, `(SELECT ...)`, or a name where a table comes first.
pub(super) fn table_of(argument: &ast::Expr, first: bool) -> Option<TableFactor> {
    match argument {
        ast::Expr::Subquery(subquery) => Some(TableFactor::Derived {
            lateral: false,
            subquery: subquery.clone(),
            alias: None,
            sample: None,
        }),
        ast::Expr::Function(function) if function.name.to_string().eq_ignore_ascii_case("table") => {
            let ast::FunctionArguments::List(list) = &function.args else { return None };
            let [FunctionArg::Unnamed(FunctionArgExpr::Expr(inner))] = list.args.as_slice() else {
                return None;
            };
            table_of(inner, true)
        }
        // Within TABLE(...): a generator, or another function of tables.
        ast::Expr::Function(function) if first => {
            let ast::FunctionArguments::List(list) = &function.args else { return None };
            let args = ast::TableFunctionArgs { args: list.args.clone(), settings: None };
            Some(named_table(function.name.clone(), Some(args)))
        }
        ast::Expr::Identifier(name) if first => Some(named_table(vec![name.clone()].into(), None)),
        ast::Expr::CompoundIdentifier(names) if first => Some(named_table(names.clone().into(), None)),
        ast::Expr::Nested(inner) => table_of(inner, first),
        _ => None,
    }
}

fn named_table(name: ast::ObjectName, args: Option<ast::TableFunctionArgs>) -> TableFactor {
    TableFactor::Table {
        name,
        alias: None,
        args,
        with_hints: Vec::new(),
        version: None,
        with_ordinality: false,
        partitions: Vec::new(),
        json_path: None,
        sample: None,
        index_hints: Vec::new(),
    }
}

fn windows(mut call: Call, context: &mut dyn RelationPlannerContext) -> Result<LogicalPlan> {
    let usage = match call.name.as_str() {
        "tumble" => "tumble(TABLE(clicks), event_time, INTERVAL '10 seconds')",
        "hop" => {
            "hop(TABLE(clicks), event_time, INTERVAL '5 seconds', INTERVAL '1 minute'): slide, then size"
        }
        _ => "session(TABLE(clicks), event_time, INTERVAL '5 minutes'): the gap",
    };
    if call.tables.len() != 1 || call.expressions.len() != 1 {
        return plan_err!("{} takes a table, its event time and intervals: {usage}", call.name);
    }
    let input = context.plan(call.tables.remove(0))?;
    let time = context.sql_to_expr(descriptor(call.expressions.remove(0)), input.schema())?;
    let Expr::Column(time) = time else {
        return plan_err!("{} needs a column as event time, found {time}", call.name);
    };
    let lengths_ns = intervals(&call, usage)?;
    let kind = match (call.name.as_str(), lengths_ns.as_slice()) {
        ("tumble", [size_ns]) => WindowKind::Tumble { size_ns: *size_ns, offset_ns: 0 },
        ("tumble", [size_ns, offset_ns]) => WindowKind::Tumble { size_ns: *size_ns, offset_ns: *offset_ns },
        ("hop", [slide_ns, size_ns]) if size_ns >= slide_ns => {
            WindowKind::Hop { size_ns: *size_ns, slide_ns: *slide_ns, offset_ns: 0 }
        }
        ("session", [gap_ns]) => WindowKind::Session { gap_ns: *gap_ns },
        _ => return plan_err!("{} is written {usage}", call.name),
    };
    check_window_column(&input, &time)?;
    check_windows_of_row(kind)?;
    let node = WindowAssign::new(input, time, kind)?;
    Ok(LogicalPlan::Extension(Extension { node: Arc::new(node) }))
}

/// Reported here, with the place of the call, and not only by the operator.
fn check_windows_of_row(kind: WindowKind) -> Result<()> {
    let WindowKind::Hop { size_ns, slide_ns, .. } = kind else { return Ok(()) };
    let windows = size_ns / slide_ns;
    match windows <= WINDOWS_OF_ROW_MAX {
        true => Ok(()),
        false => plan_err!(
            "hop puts each row into {windows} windows, and {WINDOWS_OF_ROW_MAX} are allowed: take a longer slide or a \
             smaller size"
        ),
    }
}

/// `DESCRIPTOR(column)`, the standard's notation, denotes the column.
fn descriptor(expression: ast::Expr) -> ast::Expr {
    if let ast::Expr::Function(function) = &expression
        && function.name.to_string().eq_ignore_ascii_case("descriptor")
        && let ast::FunctionArguments::List(list) = &function.args
        && let [FunctionArg::Unnamed(FunctionArgExpr::Expr(inner))] = list.args.as_slice()
    {
        return inner.clone();
    }
    expression
}

fn intervals(call: &Call, usage: &str) -> Result<Vec<i64>> {
    let mut named = Vec::new();
    for name in ["slide", "size", "gap", "offset"] {
        let Some(length_ns) = call.arguments.interval_ns(name).map_err(external)? else { continue };
        if length_ns <= 0 && name != "offset" {
            return plan_err!("{} takes a {name} longer than 0: {usage}", call.name);
        }
        named.push(length_ns);
    }
    let positional = call.arguments.positional().iter().map(|value| match value {
        Value::Interval(length_ns) if *length_ns > 0 => Ok(*length_ns),
        value => plan_err!("{} takes intervals longer than 0, found {value}: {usage}", call.name),
    });
    positional.chain(named.into_iter().map(Ok)).collect()
}

fn check_window_column(input: &LogicalPlan, time: &Column) -> Result<()> {
    use datafusion::arrow::datatypes::DataType;
    match input.schema().field_from_column(time)?.data_type() {
        DataType::Timestamp(_, _) => Ok(()),
        other => plan_err!(
            "windows need a timestamp, but {time} is {other}; declare a computed column in the source, such as \
             `event_time AS to_timestamp_seconds({})`",
            time.name
        ),
    }
}

/// `adaptive_regions(table, time, coordinates..., every => ...)`
fn regions(mut call: Call, context: &mut dyn RelationPlannerContext) -> Result<LogicalPlan> {
    let known = ["method", "levels", "least", "history", "every", "points_max"];
    call.arguments.finish(&known).map_err(external)?;
    if call.tables.len() != 1 {
        return plan_err!("adaptive_regions takes one table");
    }
    let input = context.plan(call.tables.remove(0))?;
    adaptive_regions::plan(input, call.expressions, &call.arguments, context)
}

/// `late(TABLE(source))`: the rows that came too late.
fn late(mut call: Call, context: &mut dyn RelationPlannerContext) -> Result<LogicalPlan> {
    if call.tables.len() != 1 || !call.expressions.is_empty() {
        return plan_err!("late takes a source: SELECT * FROM late(TABLE(clicks))");
    }
    let plan = context.plan(call.tables.remove(0))?;
    let LogicalPlan::TableScan(scan) = &plan else {
        return plan_err!("late takes a source, not a view or a query: late(TABLE(clicks))");
    };
    match scanned(scan.source.as_ref()) {
        Some(source) if source.definition.event_time.is_some() => {
            let late = Scanned { definition: Arc::clone(&source.definition), late: true };
            LogicalPlanBuilder::scan(TableReference::bare("late"), Arc::new(late), None)?.build()
        }
        _ => plan_err!("'{}' has no watermark, so nothing is ever late", scan.table_name),
    }
}
