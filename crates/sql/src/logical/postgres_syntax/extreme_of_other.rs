//! `max_by(a, b)` and `arg_max(a, b)`: the value of `a` in the row with the largest `b`, the first of several. It is
//! `first_value(a ORDER BY b DESC) FILTER (WHERE b IS NOT NULL)`.

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArgumentClause,
    FunctionArgumentList, FunctionArguments, OrderByExpr, OrderByOptions,
};

use super::syntax::ident;

/// Whether the smallest comes first, for the name of such a function.
pub(crate) fn order(name: &str) -> Option<bool> {
    match name {
        "max_by" | "arg_max" | "argmax" => Some(false),
        "min_by" | "arg_min" | "argmin" => Some(true),
        _ => None,
    }
}

/// What such a call means; `None` if it has other arguments.
pub(crate) fn call(call: &Function, is_ascending: bool) -> Option<Expr> {
    let FunctionArguments::List(list) = &call.args else { return None };
    let [
        value @ FunctionArg::Unnamed(FunctionArgExpr::Expr(_)),
        FunctionArg::Unnamed(FunctionArgExpr::Expr(by)),
    ] = list.args.as_slice()
    else {
        return None;
    };
    if !list.clauses.is_empty() || list.duplicate_treatment.is_some() || call.over.is_some() {
        return None;
    }
    let is_there = Expr::IsNotNull(Box::new(Expr::Nested(Box::new(by.clone()))));
    let filter = match &call.filter {
        None => is_there,
        Some(filter) => Expr::BinaryOp {
            left: Box::new(Expr::Nested(filter.clone())),
            op: BinaryOperator::And,
            right: Box::new(is_there),
        },
    };
    let options = OrderByOptions { asc: Some(is_ascending), nulls_first: None };
    let order = OrderByExpr { expr: by.clone(), options, with_fill: None };
    let args = FunctionArgumentList {
        duplicate_treatment: None,
        args: vec![value.clone()],
        clauses: vec![FunctionArgumentClause::OrderBy(vec![order])],
    };
    Some(Expr::Function(Function {
        name: ident("first_value"),
        args: FunctionArguments::List(args),
        filter: Some(Box::new(filter)),
        ..call.clone()
    }))
}
