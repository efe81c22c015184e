//! `ARRAY(SELECT ...)` as clients of PostgreSQL write it over its catalogue.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, OrderByKind, Query,
    SelectItem, SetExpr, TableFactor, Value, VisitorMut,
};

use super::calls::{arguments, has_aggregate, last, reads_catalogue};
use super::made::call;

/// `ARRAY(SELECT ...)` over the catalogue becomes an aggregate. Over anything else it stays, and is refused.
pub(crate) struct Lists;

impl VisitorMut for Lists {
    type Break = ();

    fn post_visit_expr(&mut self, expression: &mut Expr) -> ControlFlow<()> {
        match expression {
            // No relation has any options.
            Expr::BinaryOp { left, op: BinaryOperator::StringConcat, right }
                if listed(right).is_some_and(reads_options) =>
            {
                let options = std::mem::replace(&mut **left, Expr::value(Value::Null));
                *expression = options;
            }
            other => {
                if let Some(list) = listed(other).and_then(list_of) {
                    *other = list;
                }
            }
        }
        ControlFlow::Continue(())
    }
}

/// The query of `ARRAY(SELECT ...)`.
fn listed(expression: &Expr) -> Option<&Query> {
    match expression {
        Expr::Function(Function { name, args: FunctionArguments::Subquery(query), .. })
            if last(name).as_deref() == Some("array") =>
        {
            Some(query)
        }
        _ => None,
    }
}

/// The list of the rows of a query. Where PostgreSQL has an empty list, it is NULL: clients show both as nothing.
fn list_of(query: &Query) -> Option<Expr> {
    let SetExpr::Select(select) = &*query.body else { return None };
    let [SelectItem::UnnamedExpr(value) | SelectItem::ExprWithAlias { expr: value, .. }] =
        select.projection.as_slice()
    else {
        return None;
    };
    // ARRAY(SELECT generate_series(1, n)): the rows of a call are a list already.
    if let Expr::Function(series) = value
        && select.from.is_empty()
        && last(&series.name).as_deref() == Some("generate_series")
    {
        return Some(call("pg_series", arguments(series)?));
    }
    let is_whole = query.with.is_none() && query.limit_clause.is_none() && query.fetch.is_none();
    if !is_whole || select.distinct.is_some() || !reads_catalogue(select) || has_aggregate(select) {
        return None;
    }
    // The order is that of the values, or none that was asked for.
    let is_ordered = query.order_by.as_ref().is_some_and(|order| match &order.kind {
        OrderByKind::Expressions(by) => !matches!(by.as_slice(), [only] if is_first(&only.expr, value)),
        OrderByKind::All(_) => false,
    });
    if is_ordered {
        return None;
    }
    let sorted = query.order_by.is_some();
    let list = call("array_agg", vec![value.clone()]);
    let mut aggregated = query.clone();
    aggregated.order_by = None;
    if let SetExpr::Select(select) = &mut *aggregated.body {
        select.projection = vec![SelectItem::UnnamedExpr(list)];
    }
    let list = Expr::Subquery(Box::new(aggregated));
    Some(if sorted { call("array_sort", vec![list]) } else { list })
}

/// Whether a query is ordered by its only column.
fn is_first(by: &Expr, value: &Expr) -> bool {
    by == value || matches!(by, Expr::Value(number) if number.value == Value::Number("1".to_owned(), false))
}

/// Whether a query reads the options of a relation: `FROM unnest(relation.reloptions)`.
fn reads_options(query: &Query) -> bool {
    let SetExpr::Select(select) = &*query.body else { return false };
    let [from] = select.from.as_slice() else { return false };
    let TableFactor::Table { name, args: Some(arguments), .. } = &from.relation else { return false };
    let is_options = |argument: &FunctionArg| match argument {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::CompoundIdentifier(parts))) => {
            parts.last().is_some_and(|part| part.value.eq_ignore_ascii_case("reloptions"))
        }
        _ => false,
    };
    last(name).as_deref() == Some("unnest") && arguments.args.iter().all(is_options)
}
