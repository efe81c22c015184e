//! What the functions of FROM read from their arguments.

use datafusion::common::DataFusionError;
use datafusion::sql::sqlparser::ast::{self, FunctionArg, FunctionArgExpr, TableFactor};
use tidemill_engine::Cause;

/// An argument that a function does not take.
pub(super) fn external(cause: Cause) -> DataFusionError {
    DataFusionError::Plan(cause.to_string())
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
            file_of(inner).or_else(|| table_of(inner, true))
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

/// Whether a relation is a subquery with an order.
pub(super) fn is_ordered(relation: &TableFactor) -> bool {
    matches!(relation, TableFactor::Derived { subquery, .. } if subquery.order_by.is_some())
}

/// The file of `TABLE('clicks.csv')`.
fn file_of(argument: &ast::Expr) -> Option<TableFactor> {
    let ast::Expr::Value(value) = argument else { return None };
    let ast::Value::SingleQuotedString(path) = &value.value else { return None };
    let name = ast::Ident::with_quote_and_span('\'', value.span, path.clone());
    Some(named_table(vec![name].into(), None))
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
