//! `FROM unnest(list) WITH ORDINALITY` is `FROM unnest(list, generate_series(1, array_length(list)))`.

use datafusion::common::Result;
use datafusion::sql::sqlparser::ast::{
    CastKind, DataType, Expr, FunctionArg, FunctionArgExpr, Ident, Spanned, TableAlias, TableAliasColumnDef,
    TableFactor, Value,
};

use super::syntax::{call, ident};
use crate::refusal::refuse_at;

/// Numbers the rows of lists, if a query asks for it.
///
/// # Errors
/// If it asks for the numbers of other rows.
pub(super) fn rows(table: &mut TableFactor) -> Result<()> {
    let place = table.span();
    match table {
        TableFactor::UNNEST { alias, array_exprs, with_ordinality, .. } if *with_ordinality => {
            *with_ordinality = false;
            let lengths: Vec<FunctionArg> = array_exprs.iter().map(length).map(argument).collect();
            let longest = match lengths.as_slice() {
                [_] => lengths,
                _ => vec![argument(call(ident("greatest"), lengths))],
            };
            let first = argument(number("1"));
            array_exprs.push(call(ident("generate_series"), [vec![first], longest].concat()));
            let alias = alias.get_or_insert_with(|| TableAlias {
                explicit: true,
                name: Ident::new("unnest"),
                columns: Vec::new(),
                at: None,
            });
            let of_list = if array_exprs.len() == 2 { alias.name.clone() } else { Ident::new("unnest") };
            for name in (alias.columns.len()..array_exprs.len()).map(|place| {
                if place + 1 == array_exprs.len() { Ident::new("ordinality") } else { of_list.clone() }
            }) {
                alias.columns.push(TableAliasColumnDef { name, data_type: None });
            }
            Ok(())
        }
        TableFactor::Table { with_ordinality: true, .. }
        | TableFactor::Function { with_ordinality: true, .. } => Err(refuse_at(
            place,
            "WITH ORDINALITY numbers the items of lists only",
            "the window function row_number numbers other rows",
        )),
        _ => Ok(()),
    }
}

/// The number of items of a list.
fn length(list: &Expr) -> Expr {
    let length = call(ident("array_length"), vec![argument(list.clone()), argument(number("1"))]);
    Expr::Cast {
        kind: CastKind::Cast,
        expr: Box::new(length),
        data_type: DataType::BigInt(None),
        array: false,
        format: None,
    }
}

fn argument(value: Expr) -> FunctionArg {
    FunctionArg::Unnamed(FunctionArgExpr::Expr(value))
}

fn number(digits: &str) -> Expr {
    Expr::value(Value::Number(digits.to_owned(), false))
}
