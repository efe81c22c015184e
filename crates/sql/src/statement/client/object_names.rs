//! The types by which PostgreSQL's catalogue names its objects: `'prices'::regclass`, `relnamespace::regnamespace`. A value of such a
//! type is a number that is shown as a name. Here a number is a number and a name is a text, so each use says which of them is meant.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    self, ArrayElemTypeDef, BinaryOperator, DataType, Expr, Value, VisitorMut,
};

use super::calls::last;
use super::made::{call, cast, null};

/// Columns of functions. Elsewhere they are numbers that are shown as names, here they are names.
const FUNCTION_COLUMNS: [&str; 10] = [
    "typinput",
    "typoutput",
    "typreceive",
    "typsend",
    "typmodin",
    "typmodout",
    "typanalyze",
    "typsubscript",
    "amhandler",
    "aggfnoid",
];

/// Puts numbers in the place of names that are compared with numbers, and names in the place of numbers that are shown.
pub(super) struct ObjectNames;

impl VisitorMut for ObjectNames {
    type Break = ();

    fn pre_visit_expr(&mut self, expression: &mut Expr) -> ControlFlow<()> {
        match expression {
            Expr::BinaryOp { left, op, right } if is_comparison(op) => {
                compare(left, right);
                compare(right, left);
            }
            Expr::InList { expr, list, .. } => list.iter_mut().for_each(|item| compare(item, expr)),
            Expr::Cast { expr, data_type, .. } if is_number(data_type) => {
                if let Some(number) = number_of(expr) {
                    *expression = number;
                } else if is_function_column(expr) {
                    **expr = call("to_regproc", vec![std::mem::replace(&mut **expr, null())]);
                }
            }
            Expr::Cast { expr, data_type, .. } if is_list_of_types(data_type) => {
                *expression = call("type_names", vec![std::mem::replace(&mut **expr, null())]);
            }
            Expr::Cast { expr, data_type, .. } => {
                if let Some(name) = kind_of(data_type).and_then(|kind| name_of(kind, expr)) {
                    *expression = name;
                }
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }
}

/// One side of a comparison becomes a number if the other one is a number.
fn compare(side: &mut Expr, other: &Expr) {
    if is_function_column(side) && (is_number_literal(other) || is_oid(other)) {
        *side = call("to_regproc", vec![std::mem::replace(side, null())]);
    } else if !is_name(other)
        && let Some(number) = number_of(side)
    {
        *side = number;
    }
}

/// The number of an object that is named: `'pg_catalog.int4'::regtype`.
fn number_of(expression: &Expr) -> Option<Expr> {
    let Expr::Cast { expr, data_type, .. } = expression else { return None };
    let kind = kind_of(data_type)?;
    if is_text(expr) {
        let text = cast(expr.as_ref().clone(), DataType::Varchar(None));
        return Some(call(&format!("to_{kind}"), vec![text]));
    }
    Some(if is_function_column(expr) {
        call("to_regproc", vec![expr.as_ref().clone()])
    } else {
        expr.as_ref().clone()
    })
}

/// The name of an object whose number is given: `relnamespace::regnamespace`.
fn name_of(kind: &str, expression: &Expr) -> Option<Expr> {
    let is_named = match column(expression) {
        Some(column) => column.ends_with("name") || is_function_column(expression),
        None => !is_number_literal(expression),
    };
    if is_named {
        return None;
    }
    let number = expression.clone();
    Some(match kind {
        "regtype" => call("format_type", vec![number, null()]),
        "regrole" => call("pg_get_userbyid", vec![number]),
        "regnamespace" => call("regnamespace_name", vec![number]),
        "regproc" => call("regproc_name", vec![number]),
        _ => return None,
    })
}

/// The type of objects that a type is, in small letters.
fn kind_of(data_type: &DataType) -> Option<&'static str> {
    let name = match data_type {
        DataType::Regclass => return Some("regclass"),
        DataType::Custom(name, _) => last(name)?,
        _ => return None,
    };
    let kinds = ["regclass", "regtype", "regproc", "regprocedure", "regnamespace", "regrole"];
    let known = kinds.into_iter().find(|kind| *kind == name)?;
    Some(if known == "regprocedure" { "regproc" } else { known })
}

fn is_list_of_types(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Array(ArrayElemTypeDef::SquareBracket(item, _)) if kind_of(item) == Some("regtype"))
}

fn is_number(data_type: &DataType) -> bool {
    match data_type {
        DataType::BigInt(_)
        | DataType::Int(_)
        | DataType::Integer(_)
        | DataType::Int8(_)
        | DataType::Int4(_) => true,
        DataType::Custom(name, _) => {
            last(name).is_some_and(|name| ["oid", "int8", "int4", "xid"].contains(&name.as_str()))
        }
        _ => false,
    }
}

fn is_comparison(op: &BinaryOperator) -> bool {
    matches!(op, BinaryOperator::Eq | BinaryOperator::NotEq)
        || matches!(op, BinaryOperator::PGCustomBinaryOperator(parts)
            if parts.last().is_some_and(|part| part == "=" || part == "<>"))
}

/// Whether an expression is a text that is given: a constant, a parameter, or a name that is put together.
fn is_text(expression: &Expr) -> bool {
    match expression {
        Expr::Value(ast::ValueWithSpan { value, .. }) => {
            matches!(value, Value::SingleQuotedString(_) | Value::Placeholder(_))
        }
        Expr::Cast { expr, .. } | Expr::Nested(expr) => is_text(expr),
        Expr::BinaryOp { op: BinaryOperator::StringConcat, .. } => true,
        Expr::Function(call) => {
            last(&call.name).is_some_and(|name| ["concat", "format", "quote_ident"].contains(&name.as_str()))
        }
        _ => false,
    }
}

/// Whether an expression is a name, so that what is compared with it is one, too.
fn is_name(expression: &Expr) -> bool {
    match expression {
        Expr::Cast { expr, data_type, .. } => {
            !is_number(data_type) && (is_text(expr) || kind_of(data_type).is_some())
        }
        other => is_text(other) || is_function_column(other),
    }
}

fn is_number_literal(expression: &Expr) -> bool {
    matches!(expression, Expr::Value(ast::ValueWithSpan { value: Value::Number(..), .. }))
}

fn column(expression: &Expr) -> Option<String> {
    let column = match expression {
        Expr::Identifier(column) => column,
        Expr::CompoundIdentifier(parts) => parts.last()?,
        _ => return None,
    };
    Some(column.value.to_ascii_lowercase())
}

fn is_oid(expression: &Expr) -> bool {
    column(expression).is_some_and(|column| column.ends_with("oid"))
}

fn is_function_column(expression: &Expr) -> bool {
    column(expression).is_some_and(|column| FUNCTION_COLUMNS.contains(&column.as_str()))
}
