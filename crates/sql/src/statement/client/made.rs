//! Expressions that are put in the place of others.

use datafusion::sql::sqlparser::ast::{
    CastKind, DataType, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArgumentList,
    FunctionArguments, Ident, ObjectName, Value,
};

/// NULL.
pub(crate) fn null() -> Expr {
    Expr::value(Value::Null)
}

/// A text.
pub(crate) fn text(value: &str) -> Expr {
    Expr::value(Value::SingleQuotedString(value.to_owned()))
}

/// A whole number.
pub(crate) fn number(value: usize) -> Expr {
    Expr::value(Value::Number(value.to_string(), false))
}

/// A call of a function.
pub(crate) fn call(name: &str, arguments: Vec<Expr>) -> Expr {
    let args = arguments.into_iter().map(|argument| FunctionArg::Unnamed(FunctionArgExpr::Expr(argument)));
    let list = FunctionArgumentList { duplicate_treatment: None, args: args.collect(), clauses: Vec::new() };
    Expr::Function(Function {
        name: ObjectName::from(vec![Ident::new(name)]),
        uses_odbc_syntax: false,
        parameters: FunctionArguments::None,
        args: FunctionArguments::List(list),
        filter: None,
        null_treatment: None,
        over: None,
        within_group: Vec::new(),
    })
}

/// A cast.
pub(crate) fn cast(expression: Expr, data_type: DataType) -> Expr {
    let (expr, kind) = (Box::new(expression), CastKind::Cast);
    Expr::Cast { kind, expr, data_type, array: false, format: None }
}
