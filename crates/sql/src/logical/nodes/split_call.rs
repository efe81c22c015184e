//! `splitstream(...)` and `mergestream(...)` in FROM.

use std::sync::Arc;

use datafusion::common::{Result, plan_err};
use datafusion::logical_expr::planner::RelationPlannerContext;
use datafusion::logical_expr::{Extension, LogicalPlan};
use datafusion::sql::sqlparser::ast::{self, FunctionArg, FunctionArgExpr, TableFactor};

use tidemill_engine::{Cause, SplittersBy};

use super::call_arguments::{external, table_of};
use super::map_call::is_mapped;
use super::operator_call::OperatorCall;
use super::split_stream::{LatticeSplitters, SplitChoice, SplitShape, SplitStream, SplitWindow};
use super::window_assign::WindowAssign;
use crate::arguments::{Arguments, Value, value_of};
use crate::logical::node_of;

const SPLITSTREAM: &str = "splitstream(TABLE(input), 64, route => xway % 64, broadcast => type = 2)";
/// More sub-streams than this are considered a mistake.
const PARTITIONS_MAX: i64 = 65_536;
const PLANS: &[&str] = &["auto", "fsplit", "exptree", "maxtree", "autosplit", "parasplit"];

/// The arguments of a call: a table, the routing functions, and constants.
struct Call {
    table: TableFactor,
    route: Option<ast::Expr>,
    broadcast: Option<ast::Expr>,
    positional: Vec<Value>,
    arguments: Arguments,
}

/// `splitstream(table, q, route => ..., broadcast => ..., plan => 'auto', window => rows, splitters => p, router =>
/// 'tree', rate => 2000000, share => b)`
pub(super) fn splitstream(
    args: Vec<FunctionArg>,
    context: &mut dyn RelationPlannerContext,
) -> Result<LogicalPlan> {
    let call = sort_arguments("splitstream", args)?;
    let partitions = partitions(&call)?;
    let choice = choice(&call.arguments).map_err(external)?;
    if call.route.is_none() && call.broadcast.is_none() {
        return plan_err!("splitstream needs a route, a broadcast or both: {SPLITSTREAM}");
    }
    let input = context.plan(call.table)?;
    let is_dealt = call.route.as_ref().is_some_and(is_round_robin);
    if is_dealt && call.route.as_ref().is_some_and(has_arguments) {
        return plan_err!(
            "round_robin() takes no arguments: splitstream(TABLE(input), 4, route => round_robin())"
        );
    }
    let route = call.route.filter(|_| !is_dealt);
    let mut planned = |expression: Option<ast::Expr>| {
        expression.map(|expression| context.sql_to_expr(expression, input.schema())).transpose()
    };
    let (route, broadcast) = (planned(route)?, planned(call.broadcast)?);
    let node = SplitStream::new(input, route, broadcast, partitions, choice)?;
    let node = SplitStream { is_dealt, ..node };
    Ok(LogicalPlan::Extension(Extension { node: Arc::new(node) }))
}

/// Whether a route is `round_robin()`.
fn is_round_robin(route: &ast::Expr) -> bool {
    let ast::Expr::Function(call) = route else { return false };
    call.name.to_string().eq_ignore_ascii_case("round_robin")
}

/// Whether there is anything but the name and empty parentheses.
fn has_arguments(call: &ast::Expr) -> bool {
    !call.to_string().trim_end().ends_with("()")
}

/// `mergestream(sub-streams)`: their rows as one stream, in the order of the events that caused them.
pub(super) fn mergestream(
    args: Vec<FunctionArg>,
    context: &mut dyn RelationPlannerContext,
) -> Result<LogicalPlan> {
    let call = sort_arguments("mergestream", args)?;
    if !call.positional.is_empty() || call.route.is_some() || call.broadcast.is_some() {
        return plan_err!("mergestream takes sub-streams only: mergestream(operator(splitstream(...)))");
    }
    call.arguments.finish(&[]).map_err(external)?;
    let is_mapped = is_mapped(&call.table);
    let input = context.plan(call.table)?;
    if is_mapped || has_sub_streams(&input) {
        Ok(input)
    } else {
        plan_err!("mergestream unites sub-streams, but got a stream: mergestream(operator(splitstream(...)))")
    }
}

/// Whether rows come from sub-streams: of a split, or of an operator or windows that are applied to each.
pub(crate) fn has_sub_streams(plan: &LogicalPlan) -> bool {
    let is_mapped = |call: &OperatorCall| call.inputs.iter().any(has_sub_streams);
    let is_windowed = |assign: &WindowAssign| has_sub_streams(&assign.input);
    node_of::<SplitStream>(plan).is_some()
        || node_of(plan).is_some_and(is_mapped)
        || node_of(plan).is_some_and(is_windowed)
}

fn sort_arguments(function: &str, args: Vec<FunctionArg>) -> Result<Call> {
    let (mut table, mut route, mut broadcast) = (None, None, None);
    let (mut positional, mut named) = (Vec::new(), Vec::new());
    for arg in args {
        match arg {
            FunctionArg::Named { name, arg: FunctionArgExpr::Expr(arg), .. } => {
                match name.value.to_lowercase().as_str() {
                    "route" => route = Some(arg),
                    "broadcast" => broadcast = Some(arg),
                    name => named.push((name.to_string(), value_of(&arg).map_err(external)?)),
                }
            }
            FunctionArg::Unnamed(FunctionArgExpr::Expr(arg)) => match table_of(&arg, table.is_none()) {
                Some(input) if table.is_none() => table = Some(input),
                Some(_) => return plan_err!("{function} takes one table"),
                None => positional.push(value_of(&arg).map_err(external)?),
            },
            other => return plan_err!("{function}() does not take the argument {other}"),
        }
    }
    let Some(table) = table else {
        return plan_err!("{function} takes a table first, as TABLE(name) or (SELECT ...)");
    };
    Ok(Call { table, route, broadcast, positional, arguments: Arguments::new(function, Vec::new(), named) })
}

fn partitions(call: &Call) -> Result<u32> {
    let named = call.arguments.integer("partitions", 1..=PARTITIONS_MAX).map_err(external)?;
    match (call.positional.as_slice(), named) {
        ([], Some(partitions)) => Ok(partitions as u32),
        ([Value::Integer(partitions)], None) if (1..=PARTITIONS_MAX).contains(partitions) => {
            Ok(*partitions as u32)
        }
        _ => plan_err!("splitstream takes the number of sub-streams, 1 to {PARTITIONS_MAX}: {SPLITSTREAM}"),
    }
}

fn choice(arguments: &Arguments) -> std::result::Result<SplitChoice, Cause> {
    arguments.finish(&["partitions", "plan", "window", "splitters", "router", "rate", "share"])?;
    let share = arguments.number("share", 0.0..=1.0)?;
    let rate = arguments.number("rate", 1.0..=1e12)?;
    let shape = match arguments.text("plan")?.unwrap_or("auto") {
        "auto" => SplitShape::Auto,
        "fsplit" => SplitShape::Fsplit,
        "exptree" => SplitShape::Exptree,
        "autosplit" => SplitShape::Autosplit,
        "parasplit" => lattice(arguments, rate)?,
        "maxtree" => SplitShape::Maxtree(share.ok_or_else(|| {
            arguments.error("maxtree needs the share of the rows that are broadcast: share => 0.005")
        })?),
        other => {
            let plans = PLANS.join(", ");
            return Err(arguments.error(&format!("'{other}' is not a plan; the plans are {plans}")));
        }
    };
    let with_meaning: &[&str] = match shape {
        SplitShape::Parasplit { splitters: LatticeSplitters::By(_), .. } => &["splitters", "router", "rate"],
        SplitShape::Parasplit { .. } => &["splitters", "router"],
        SplitShape::Maxtree(_) => &["share"],
        SplitShape::Auto => &["rate"],
        SplitShape::Fsplit | SplitShape::Exptree | SplitShape::Autosplit => &[],
    };
    let unused = ["splitters", "router", "rate", "share"]
        .into_iter()
        .find(|name| arguments.get(name).is_some() && !with_meaning.contains(name));
    if let Some(name) = unused {
        return Err(arguments.error(&format!("'{name}' has no meaning for this plan")));
    }
    Ok(SplitChoice { shape, window: window(arguments)?, rate })
}

/// The size of the window: a number of rows, or the word that has the engine search it.
fn window(arguments: &Arguments) -> std::result::Result<SplitWindow, Cause> {
    match arguments.get("window") {
        None => Ok(SplitWindow::Default),
        Some(Value::Text(word)) if word == "auto" => Ok(SplitWindow::Searched),
        Some(Value::Integer(rows)) if (1..=1 << 20).contains(rows) => Ok(SplitWindow::Rows(*rows as u32)),
        Some(other) => Err(arguments.wrong("window", other, "a whole number from 1 to 1048576, or 'auto'")),
    }
}

/// A lattice: how many splitters, and whether one window router or a tree of them leads there.
fn lattice(arguments: &Arguments, rate: Option<f64>) -> std::result::Result<SplitShape, Cause> {
    let splitters = match arguments.get("splitters") {
        None => LatticeSplitters::Workers,
        Some(Value::Integer(number)) if (1..=1024).contains(number) => {
            LatticeSplitters::Number(*number as u32)
        }
        Some(Value::Text(rule)) if rule == "heuristic" => LatticeSplitters::By(SplittersBy::Heuristic),
        Some(Value::Text(rule)) if rule == "model" => LatticeSplitters::By(SplittersBy::Model),
        Some(other) => {
            let expected = "a whole number from 1 to 1024, 'heuristic' or 'model'";
            return Err(arguments.wrong("splitters", other, expected));
        }
    };
    if matches!(splitters, LatticeSplitters::By(_)) && rate.is_none() {
        let reason =
            "this number of splitters follows from the rate to reach, in rows per second: rate => 2000000";
        return Err(arguments.error(reason));
    }
    let is_tree = match arguments.text("router")?.unwrap_or("single") {
        "single" => false,
        "tree" => true,
        other => return Err(arguments.wrong("router", &Value::Text(other.into()), "'single' or 'tree'")),
    };
    Ok(SplitShape::Parasplit { splitters, is_tree })
}
