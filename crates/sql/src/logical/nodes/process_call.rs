//! Processes in FROM: one of a set, `name(1)`, and `postfilter((SELECT ...))`.

use std::sync::Arc;

use datafusion::common::{DFSchema, Result, ScalarValue, plan_err};
use datafusion::logical_expr::planner::RelationPlannerContext;
use datafusion::logical_expr::simplify::SimplifyContext;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder};
use datafusion::optimizer::simplify_expressions::ExprSimplifier;
use datafusion::sql::sqlparser::ast::{self, FunctionArg, FunctionArgExpr};

use super::call_arguments::table_of;
use super::process::{Postfilter, PostfilterMark, ProcessNode};
use crate::relations::stream_process::{StreamProcessMember, StreamProcessSet, call_text};

/// How many members of a set are listed in a message.
const MAX_LISTED: usize = 8;

/// `name(parameters)`: one process of a set.
pub(super) fn member(
    set: &StreamProcessSet,
    args: Vec<FunctionArg>,
    context: &mut dyn RelationPlannerContext,
) -> Result<LogicalPlan> {
    let parameters: Vec<ScalarValue> =
        args.into_iter().map(|arg| constant(arg, &set.name, context)).collect::<Result<_>>()?;
    let Some(member) = set.member(&parameters) else {
        let named = |member: &StreamProcessMember| call_text(&set.name, &member.parameters);
        let mut known: Vec<String> = set.members.iter().take(MAX_LISTED).map(named).collect();
        if set.members.len() > MAX_LISTED {
            known.push("...".into());
        }
        return plan_err!(
            "there is no process {}; the processes are {}",
            call_text(&set.name, &parameters),
            known.join(", ")
        );
    };
    LogicalPlanBuilder::from(member.plan.clone()).alias(set.name.as_str())?.build()
}

/// The value of an argument: a constant, computed if necessary.
fn constant(
    arg: FunctionArg,
    process: &str,
    context: &mut dyn RelationPlannerContext,
) -> Result<ScalarValue> {
    let FunctionArg::Unnamed(FunctionArgExpr::Expr(arg)) = arg else {
        return plan_err!("write the parameters of the process set {process} as arguments, in their order");
    };
    let none = Arc::new(DFSchema::empty());
    let expression = context.sql_to_expr(arg, &none)?;
    let simplifier = ExprSimplifier::new(SimplifyContext::builder().with_schema(Arc::clone(&none)).build());
    match simplifier.simplify(simplifier.coerce(expression, &none)?)? {
        Expr::Literal(value, _) => Ok(value),
        other => plan_err!("a parameter of {process} must be a constant, found {other}"),
    }
}

/// `postfilter((SELECT ... FROM process WHERE ...))`
pub(super) fn postfilter(
    args: Vec<FunctionArg>,
    context: &mut dyn RelationPlannerContext,
) -> Result<LogicalPlan> {
    let usage = "postfilter((SELECT n FROM process WHERE n % 2 = 0))";
    let table = match args.as_slice() {
        [FunctionArg::Unnamed(FunctionArgExpr::Expr(arg @ ast::Expr::Subquery(_)))] => table_of(arg, true),
        _ => None,
    };
    let Some(table) = table else { return plan_err!("postfilter takes a query over a process: {usage}") };
    let input = context.plan(table)?;
    check_postfilter(&input, usage)?;
    Ok(Postfilter::plan(PostfilterMark, input))
}

/// Rows are filtered and computed one by one, and come from one process.
fn check_postfilter(plan: &LogicalPlan, usage: &str) -> Result<()> {
    match plan {
        LogicalPlan::Projection(_) | LogicalPlan::Filter(_) | LogicalPlan::SubqueryAlias(_) => {
            check_postfilter(plan.inputs()[0], usage)
        }
        LogicalPlan::Extension(extension) if extension.node.as_any().is::<ProcessNode>() => Ok(()),
        _ => plan_err!("postfilter takes only a SELECT and a WHERE over one process: {usage}"),
    }
}
