//! Pieces of syntax that are put in the place of others.

use datafusion::sql::sqlparser::ast::{
    Array, Expr, Function, FunctionArg, FunctionArgumentList, FunctionArguments, Ident, ObjectName,
};

/// A list of expressions.
pub(crate) fn array(items: Vec<Expr>) -> Expr {
    Expr::Array(Array { elem: items, named: true })
}

/// The name of a function or column.
pub(crate) fn ident(name: &str) -> ObjectName {
    ObjectName::from(vec![Ident::new(name)])
}

/// A call of a function.
pub(super) fn call(name: ObjectName, args: Vec<FunctionArg>) -> Expr {
    let list = FunctionArgumentList { duplicate_treatment: None, args, clauses: Vec::new() };
    Expr::Function(Function {
        name,
        uses_odbc_syntax: false,
        parameters: FunctionArguments::None,
        args: FunctionArguments::List(list),
        filter: None,
        null_treatment: None,
        over: None,
        within_group: Vec::new(),
    })
}
