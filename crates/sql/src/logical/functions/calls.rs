//! Clauses of calls that the function cannot use: DataFusion's planner ignores them silently.

use std::ops::ControlFlow;

use datafusion::common::{DataFusionError, Result};
use datafusion::sql::sqlparser::ast::{
    DuplicateTreatment, Expr, Function, FunctionArgumentClause, FunctionArgumentList, FunctionArguments,
    GroupByExpr, Select, Visitor, WindowType,
};

use super::Functions;
use crate::defined_functions::shown;
use crate::refusal::refuse_at;
use tidemill_trees::syntax::{Node, walk};

/// Functions over ordered rows for which it matters whether they skip NULL.
const PASS_OVER_NULL: [&str; 5] = ["lag", "lead", "first_value", "last_value", "nth_value"];

/// Checks all calls in a query or an expression.
pub(crate) fn check(node: &impl Node, functions: &Functions) -> Result<()> {
    match walk(node, &mut Calls { functions }) {
        ControlFlow::Break(error) => Err(*error),
        ControlFlow::Continue(()) => Ok(()),
    }
}

struct Calls<'a> {
    functions: &'a Functions,
}

/// The clauses of a call that only some functions can have.
struct CallClauses {
    distinct: bool,
    ordered: bool,
    filtered: bool,
    nulls: bool,
    within_group: bool,
    over: bool,
}

impl CallClauses {
    fn of(call: &Function) -> CallClauses {
        let mut given = CallClauses {
            distinct: false,
            ordered: false,
            filtered: call.filter.is_some(),
            nulls: call.null_treatment.is_some(),
            within_group: !call.within_group.is_empty(),
            over: matches!(call.over, Some(WindowType::WindowSpec(_) | WindowType::NamedWindow(_))),
        };
        if let FunctionArguments::List(FunctionArgumentList { duplicate_treatment, clauses, args: _ }) =
            &call.args
        {
            given.distinct = matches!(duplicate_treatment, Some(DuplicateTreatment::Distinct));
            for clause in clauses {
                given.ordered |= matches!(clause, FunctionArgumentClause::OrderBy(_));
                given.nulls |= matches!(clause, FunctionArgumentClause::IgnoreOrRespectNulls(_));
            }
        }
        given
    }
}

impl Calls<'_> {
    fn call(&self, call: &Function) -> Result<()> {
        let [part] = call.name.0.as_slice() else { return Ok(()) };
        let Some(ident) = part.as_ident() else { return Ok(()) };
        let name = match ident.quote_style {
            None => ident.value.to_ascii_lowercase(),
            Some(_) => ident.value.clone(),
        };
        let given = CallClauses::of(call);
        let refused = |clause: &str, way_out: &str| {
            Err(refuse_at(ident.span, format!("{clause} has no meaning for {}", shown(&name)), way_out))
        };
        let by_row =
            self.functions.scalar.contains_key(&name) || ["unnest", "unnest_outer"].contains(&name.as_str());
        let aggregate = self.functions.aggregate(&name);
        let own = aggregate
            .as_ref()
            .is_some_and(|function| crate::aggregates::own_aggregate::own(function).is_some());
        let only_ordered = given.over && (aggregate.is_none() || PASS_OVER_NULL.contains(&name.as_str()));
        let leave = "remove it";
        if given.over && by_row {
            return refused("OVER", "remove it: the function is computed for each row separately");
        }
        if given.filtered && by_row {
            return refused("FILTER", "write CASE WHEN condition THEN function(...) END");
        }
        if given.filtered && only_ordered {
            return refused("FILTER", "write a subquery with WHERE");
        }
        if given.distinct && (by_row || own || only_ordered) {
            return refused("DISTINCT", leave);
        }
        if given.ordered && (by_row || own) {
            return refused("ORDER BY", leave);
        }
        if given.within_group && by_row {
            return refused("WITHIN GROUP", leave);
        }
        let takes_nulls = PASS_OVER_NULL.contains(&name.as_str());
        if given.nulls && (by_row || own || (given.over && !takes_nulls)) {
            return refused("IGNORE NULLS or RESPECT NULLS", leave);
        }
        Ok(())
    }
}

impl Visitor for Calls<'_> {
    type Break = Box<DataFusionError>;

    /// An aggregate is computed for each group, so it cannot define the groups.
    fn pre_visit_select(&mut self, select: &Select) -> ControlFlow<Self::Break> {
        let GroupByExpr::Expressions(keys, _) = &select.group_by else { return ControlFlow::Continue(()) };
        for key in keys {
            let Expr::Function(Function { name, over: None, .. }) = key else { continue };
            let ident = name.0.first().and_then(|part| part.as_ident()).filter(|_| name.0.len() == 1);
            let Some(ident) = ident else { continue };
            if self.functions.aggregate.contains_key(&ident.value.to_ascii_lowercase()) {
                let message = format!("GROUP BY cannot contain {}, which is an aggregate", ident.value);
                let way_out =
                    "group by columns, or compute the aggregate in a subquery and group by its name";
                return ControlFlow::Break(Box::new(refuse_at(ident.span, message, way_out)));
            }
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expression: &Expr) -> ControlFlow<Self::Break> {
        let Expr::Function(call) = expression else { return ControlFlow::Continue(()) };
        match self.call(call) {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => ControlFlow::Break(Box::new(error)),
        }
    }
}
