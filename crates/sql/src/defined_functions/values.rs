//! The values of a call: cast to the types of the parameters, and put in their place.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{CastKind, DataType, Expr, Value, ValueWithSpan};

use crate::statement::normal;
use tidemill_trees::syntax::{Node, walk_expressions_mut};

/// `CAST(expression AS type)`.
pub(crate) fn typed(expression: Expr, data_type: &DataType) -> Expr {
    Expr::Cast {
        kind: CastKind::Cast,
        expr: Box::new(expression),
        data_type: data_type.clone(),
        array: false,
        format: None,
    }
}

/// A constant without its cast where it has the declared type anyway: the lengths of windows and the options of generators
/// are read from the text of a query, and no casts are computed there.
pub(super) fn as_written(value: Expr) -> Expr {
    let Expr::Cast { expr, data_type, .. } = &value else { return value };
    let written = match expr.as_ref() {
        Expr::Nested(inner) => inner.as_ref(),
        other => other,
    };
    let is_of_type = match (written, data_type) {
        (Expr::Interval(_), DataType::Interval { .. }) => true,
        (Expr::Value(ValueWithSpan { value, .. }), data_type) => match (value, data_type) {
            (Value::Number(digits, _), DataType::BigInt(_) | DataType::Int8(_)) => {
                digits.parse::<i64>().is_ok()
            }
            (Value::SingleQuotedString(_), DataType::Varchar(None) | DataType::Text) => true,
            (Value::Boolean(_), DataType::Boolean | DataType::Bool) => true,
            _ => false,
        },
        _ => false,
    };
    if is_of_type { written.clone() } else { value }
}

/// Puts values in the place of parameters. A value is not searched for parameters again: it comes from outside.
pub(super) fn with_values(tree: &mut impl Node, parameters: &[(String, DataType)], values: &[Expr]) {
    let _: ControlFlow<()> = walk_expressions_mut(tree, |expression| {
        if let Some(index) = parameter(expression, parameters) {
            *expression = values[index].clone();
        }
        ControlFlow::Continue(())
    });
}

/// Which parameter an expression is.
pub(super) fn parameter(expression: &Expr, parameters: &[(String, DataType)]) -> Option<usize> {
    let Expr::Identifier(ident) = expression else { return None };
    let name = normal(ident);
    parameters.iter().position(|(parameter, _)| *parameter == name)
}
