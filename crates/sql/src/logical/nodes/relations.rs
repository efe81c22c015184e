//! Functions in FROM: windows, late rows, generators, and the user's operators.

use std::collections::BTreeMap;
use std::sync::Arc;

use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::{Column, ExprSchema, Result, TableReference, plan_err};
use datafusion::logical_expr::planner::{
    PlannedRelation, RelationPlanner, RelationPlannerContext, RelationPlanning,
};
use datafusion::logical_expr::{Expr, Extension, LogicalPlan, LogicalPlanBuilder};
use datafusion::sql::sqlparser::ast::{self, FunctionArg, FunctionArgExpr, TableFactor};
use tidemill_operators::WINDOWS_OF_ROW_MAX;

use super::adaptive_regions;
use super::as_of_the_row::{AsOfTheRow, RowMoment};
use super::call_arguments::{external, is_ordered, table_of};
use super::count_windows::{CountWindowsNode, key_columns, row_window, rows_of};
use super::empty_windows::{EMPTY, empty_windows};
use super::local_windows::local_windows;
use super::map_call::{self, Scopes};
use super::operator_call::OperatorCall;
use super::process_call;
use super::split_call::{self, has_sub_streams};
use super::split_stream::SplitStream;
use super::window_assign::{WindowAssign, WindowKind};
use crate::arguments::{Arguments, Value, value_of};
use crate::defined_functions::{LoadedFunctions, shown};
use crate::extension::{BoundCall, BoundOperator, Registry};
use crate::logical::node_of;
use crate::logical::read_names::ReadNames;
use crate::refusal::refuse;
use crate::relations::source_definition::{ScannedSource, scanned};
use crate::relations::stream_process::StreamProcessSet;
use crate::statement::{TABLE_FUNCTIONS, system_time};

/// See the module.
#[derive(Debug)]
pub(crate) struct Relations {
    pub registry: Arc<Registry>,
    /// Operators whose code is loaded, by their names in plans.
    pub loaded: LoadedFunctions,
    /// Whether functions may read files.
    pub opens_files: bool,
    /// The sets of processes, by name.
    pub processes: BTreeMap<String, Arc<StreamProcessSet>>,
    /// The sub-streams that can be named where `mapstream` applies a query to them.
    pub sub_streams: Scopes,
    /// The names of relations that queries have read.
    pub read: ReadNames,
}

/// A call in FROM, with its arguments sorted by kind.
struct Call {
    name: String,
    tables: Vec<TableFactor>,
    /// Expressions that are not constants: columns.
    expressions: Vec<ast::Expr>,
    /// The columns of `key => ...`.
    key: Option<ast::Expr>,
    arguments: Arguments,
}

impl RelationPlanner for Relations {
    fn plan_relation(
        &self,
        mut relation: TableFactor,
        context: &mut dyn RelationPlannerContext,
    ) -> Result<RelationPlanning> {
        if system_time::take(&mut relation) {
            let alias = match &relation {
                TableFactor::Table { alias, .. } => alias.clone(),
                _ => None,
            };
            let table = context.plan(relation)?;
            return Ok(RelationPlanning::Planned(Box::new(PlannedRelation::new(
                AsOfTheRow::plan(RowMoment, table),
                alias,
            ))));
        }
        let (name, args, alias) = match relation {
            TableFactor::Table { name, args: Some(args), alias, .. } => (name, args.args, alias),
            TableFactor::Function { name, args, alias, .. } => (name, args, alias),
            other => return Ok(self.sub_stream(other, context)),
        };
        let name = match name.0.last().and_then(|part| part.as_ident()) {
            Some(ident) => context.normalize_ident(ident.clone()),
            None => return plan_err!("'{name}' is not the name of a function"),
        };
        let plan = match name.as_str() {
            "splitstream" => split_call::splitstream(args, context)?,
            "mapstream" => map_call::mapstream(args, &self.sub_streams, context)?,
            "mergestream" => split_call::mergestream(args, context)?,
            "postfilter" => process_call::postfilter(args, context)?,
            name if self.processes.contains_key(name) => {
                self.read.add(name);
                process_call::member(&self.processes[name], args, context)?
            }
            _ => self.plan_call(sort_arguments(name, args)?, context)?,
        };
        Ok(RelationPlanning::Planned(Box::new(PlannedRelation::new(plan, alias))))
    }
}

impl Relations {
    /// The sub-stream that a relation names, if it does.
    fn sub_stream(&self, relation: TableFactor, context: &dyn RelationPlannerContext) -> RelationPlanning {
        if let TableFactor::Table { name, alias, args: None, .. } = &relation
            && let [ast::ObjectNamePart::Identifier(ident)] = name.0.as_slice()
            && let Some(plan) = self.sub_streams.find(&context.normalize_ident(ident.clone()))
        {
            return RelationPlanning::Planned(Box::new(PlannedRelation::new(plan, alias.clone())));
        }
        RelationPlanning::Original(Box::new(relation))
    }

    fn plan_call(&self, call: Call, context: &mut dyn RelationPlannerContext) -> Result<LogicalPlan> {
        match call.name.as_str() {
            "tumble" | "hop" | "session" => windows(call, context),
            "late" => late(call, context),
            "adaptive_regions" => regions(call, context),
            name if self.is_operator(name) => self.operator(call, context),
            name if self.registry.generators.contains_key(name) => self.generator(&call),
            name => {
                let own = TABLE_FUNCTIONS.into_iter();
                let registered = self.registry.generators.keys().chain(self.registry.operators.keys());
                let known: Vec<&str> = own.chain(registered.map(String::as_str)).collect();
                plan_err!("Invalid table function '{name}': there are {}", known.join(", "))
            }
        }
    }

    fn generator(&self, call: &Call) -> Result<LogicalPlan> {
        if !call.tables.is_empty() || !call.expressions.is_empty() {
            return plan_err!("{}() takes only constants, not tables or columns", call.name);
        }
        let generator = &self.registry.generators[&call.name];
        if generator.opens_files() && !self.opens_files {
            return plan_err!(
                "{}() would read files, and you may not open files of the server's machine",
                call.name
            );
        }
        let definition = generator.call(&call.arguments).map_err(external)?;
        let source = Arc::new(ScannedSource { definition: Arc::new(definition), late: false });
        LogicalPlanBuilder::scan(TableReference::bare(call.name.as_str()), source, None)?.build()
    }

    fn operator(&self, call: Call, context: &mut dyn RelationPlannerContext) -> Result<LogicalPlan> {
        let is_mapped = call.tables.iter().any(map_call::is_mapped);
        let inputs: Vec<LogicalPlan> =
            call.tables.into_iter().map(|table| context.plan(table)).collect::<Result<_>>()?;
        let is_beyond =
            |input: &LogicalPlan| has_sub_streams(input) && node_of::<SplitStream>(input).is_none();
        if is_mapped || inputs.iter().any(is_beyond) {
            return Err(refuse(
                format!("{}() can be applied only to sub-streams as they were split", shown(&call.name)),
                "unite them first: operator(mergestream(...)), or split the result again",
            ));
        }
        let schemas: Vec<_> =
            inputs.iter().map(|input| Arc::new(input.schema().as_arrow().clone())).collect();
        if inputs.is_empty() || !call.expressions.is_empty() {
            return plan_err!(
                "{}() takes tables, as TABLE(name) or (SELECT ...), then constants",
                shown(&call.name)
            );
        }
        let bound = self.bound(&call.name, &schemas, &call.arguments)?;
        let node = OperatorCall::new(&call.name, inputs, &call.arguments, Arc::new(bound))?;
        Ok(LogicalPlan::Extension(Extension { node: Arc::new(node) }))
    }
}

impl Relations {
    fn is_operator(&self, name: &str) -> bool {
        self.registry.operators.contains_key(name) || self.loaded.operator(name).is_some()
    }

    fn bound(&self, name: &str, inputs: &[SchemaRef], arguments: &Arguments) -> Result<BoundCall> {
        if let Some(loaded) = self.loaded.operator(name) {
            return loaded.bind(inputs, arguments).map_err(external);
        }
        let bound = self.registry.operators[name].bind(inputs, arguments).map_err(external)?;
        check_carried(name, &bound, inputs)?;
        Ok(bound.into())
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
                "{name}() declares that it carries '{column}', but its output and all inputs do not have it \
                 with one type"
            );
        }
    }
    Ok(())
}

/// Tables, columns and constants of a call, each in their order.
fn sort_arguments(name: String, args: Vec<FunctionArg>) -> Result<Call> {
    let (mut tables, mut expressions) = (Vec::new(), Vec::new());
    let (mut positional, mut named, mut key) = (Vec::new(), Vec::new(), None);
    for arg in args {
        let (arg_name, arg) = match arg {
            FunctionArg::Unnamed(FunctionArgExpr::Expr(arg)) => (None, arg),
            FunctionArg::Named { name, arg: FunctionArgExpr::Expr(arg), .. } => {
                (Some(name.value.to_lowercase()), arg)
            }
            other => return plan_err!("{}() does not take the argument {other}", shown(&name)),
        };
        match (arg_name, arg) {
            (Some(arg_name), arg) if takes_key(&name) && arg_name == "key" => key = Some(arg),
            (Some(arg_name), arg) => named.push((arg_name, value_of(&arg).map_err(external)?)),
            (None, arg) => match table_of(&arg, tables.is_empty()) {
                Some(table) => tables.push(table),
                None => match value_of(&arg) {
                    Ok(value) => positional.push(value),
                    Err(wrong) if matches!(arg, ast::Expr::Interval(_)) => {
                        return plan_err!("{}(): {wrong}", shown(&name));
                    }
                    Err(_) => expressions.push(arg),
                },
            },
        }
    }
    let arguments = Arguments::new(shown(&name), positional, named);
    Ok(Call { name, tables, expressions, key, arguments })
}

/// Whether `key => ...` names columns.
fn takes_key(function: &str) -> bool {
    ["tumble", "hop", "session"].contains(&function)
}

/// Windows by time, or by count if a number of rows is given.
fn windows(call: Call, context: &mut dyn RelationPlannerContext) -> Result<LogicalPlan> {
    if call.expressions.iter().any(|argument| rows_of(argument).is_some()) {
        windows_by_count(call, context)
    } else if call.key.is_some() {
        Err(refuse(
            "key => ... is for windows by count; windows by time are the same for all keys",
            "write the key in GROUP BY",
        ))
    } else {
        windows_by_time(call, context)
    }
}

/// `tumble(table, [time,] ROWS 100, key => page)` and `hop(table, [time,] ROWS 10, ROWS 100)`
fn windows_by_count(mut call: Call, context: &mut dyn RelationPlannerContext) -> Result<LogicalPlan> {
    let usage = match call.name.as_str() {
        "tumble" => "tumble(TABLE(clicks), ROWS 100), with key => page for windows of each page",
        "hop" => "hop(TABLE(clicks), ROWS 10, ROWS 100): slide, then size",
        _ => {
            return Err(refuse(
                "a session ends with a gap in time, and not after a number of rows",
                "use tumble or hop with ROWS",
            ));
        }
    };
    if call.arguments.get(EMPTY).is_some() {
        return Err(refuse(
            "a window by count is complete when its last row has come, so none is empty",
            "use a window by time with empty => true",
        ));
    }
    call.arguments.check_names(&[]).map_err(external)?;
    let (rows, mut times): (Vec<_>, Vec<_>) =
        call.expressions.into_iter().partition(|argument| rows_of(argument).is_some());
    if call.tables.len() != 1 || times.len() > 1 || !call.arguments.positional().is_empty() {
        return plan_err!("write {} by count as {usage}", call.name);
    }
    let rows: Vec<u32> = rows.iter().filter_map(rows_of).collect::<Result<_>>()?;
    let window = row_window(&call.name, &rows, usage)?;
    if is_ordered(&call.tables[0]) {
        return Err(refuse(
            "ORDER BY in a subquery has no effect on a window by count",
            "name the event time to count rows in its order: tumble((SELECT ...), event_time, ROWS 100)",
        ));
    }
    let is_mapped = map_call::is_mapped(&call.tables[0]);
    let input = context.plan(call.tables.remove(0))?;
    if is_mapped || has_sub_streams(&input) {
        return Err(refuse(
            "windows by count of a sub-stream need its rows alone",
            "make them there: mapstream(splitstream(...), (SELECT ... FROM tumble(TABLE(sub), ROWS 100) ...))",
        ));
    }
    let keys = key_columns(call.key, &input, context)?;
    let time = match times.pop() {
        None => None,
        Some(time) => match context.sql_to_expr(descriptor(time), input.schema())? {
            Expr::Column(time) => Some(time),
            other => return plan_err!("{} needs a column as event time, found {other}", call.name),
        },
    };
    let node = CountWindowsNode::new(input, keys, time, window)?;
    Ok(LogicalPlan::Extension(Extension { node: Arc::new(node) }))
}

fn windows_by_time(mut call: Call, context: &mut dyn RelationPlannerContext) -> Result<LogicalPlan> {
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
    let is_mapped = map_call::is_mapped(&call.tables[0]);
    let input = context.plan(call.tables.remove(0))?;
    if call.name == "session" && (is_mapped || has_sub_streams(&input)) {
        return Err(refuse(
            "the sessions of a sub-stream are known only where its rows are grouped",
            "group them there: mapstream(splitstream(...), (SELECT ... FROM session(TABLE(sub), ...) GROUP BY ...))",
        ));
    }
    let time = context.sql_to_expr(descriptor(call.expressions.remove(0)), input.schema())?;
    let Expr::Column(time) = time else {
        return plan_err!("{} needs a column as event time, found {time}", call.name);
    };
    call.arguments.check_names(&["slide", "size", "gap", "offset", EMPTY]).map_err(external)?;
    let lengths_ns = intervals(&call, usage)?;
    let kind = match (call.name.as_str(), lengths_ns.as_slice()) {
        ("tumble", [size_ns]) => WindowKind::Tumble { size_ns: *size_ns, offset_ns: 0 },
        ("tumble", [size_ns, offset_ns]) => WindowKind::Tumble { size_ns: *size_ns, offset_ns: *offset_ns },
        ("hop", [slide_ns, size_ns]) if size_ns >= slide_ns => {
            WindowKind::Hop { size_ns: *size_ns, slide_ns: *slide_ns, offset_ns: 0 }
        }
        ("session", [gap_ns]) => WindowKind::Session { gap_ns: *gap_ns },
        _ => return plan_err!("write {} as {usage}", call.name),
    };
    check_window_column(&input, &time)?;
    check_windows_of_row(kind)?;
    let kind = local_windows(kind, input.schema().field_from_column(&time)?.data_type(), &time.name)?;
    let empty = empty_windows(&call.arguments, kind)?;
    let node = WindowAssign::new(input, time, kind, empty)?;
    Ok(LogicalPlan::Extension(Extension { node: Arc::new(node) }))
}

/// Reported here, with the place of the call, and not only by the operator.
fn check_windows_of_row(kind: WindowKind) -> Result<()> {
    let WindowKind::Hop { size_ns, slide_ns, .. } = kind else { return Ok(()) };
    let windows = size_ns / slide_ns;
    if windows <= WINDOWS_OF_ROW_MAX {
        Ok(())
    } else {
        plan_err!(
            "hop puts each row into {windows} windows, but at most {WINDOWS_OF_ROW_MAX} are allowed; use a \
             longer slide or a smaller size"
        )
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
        Value::Interval(length_ns) => plan_err!(
            "{} takes intervals longer than 0, and an offset that is not negative, found INTERVAL '{}': {usage}",
            call.name,
            crate::text::duration::display_ns(*length_ns)
        ),
        Value::Text(text) => {
            plan_err!("{} takes an interval; write INTERVAL before the text: INTERVAL '{text}'", call.name)
        }
        value => plan_err!("{} takes intervals, found {value}: {usage}", call.name),
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
            let late = ScannedSource { definition: Arc::clone(&source.definition), late: true };
            LogicalPlanBuilder::scan(TableReference::bare("late"), Arc::new(late), None)?.build()
        }
        _ => plan_err!("'{}' has no watermark, so none of its rows is ever late", scan.table_name),
    }
}
