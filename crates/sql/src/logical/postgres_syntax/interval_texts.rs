//! Intervals that are written as PostgreSQL writes them (`INTERVAL '1 day 02:03:04'`), in the units that the planner reads.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{DataType, Expr, UnaryOperator, Value, ValueWithSpan};
use tidemill_connect::formats::interval_in_units;

use tidemill_trees::syntax::{Node, walk_expressions_mut};

/// Writes the constants that are intervals in units. DataFusion (55.2) gives a minus before an interval only to the first of its units,
/// unless there are parentheses.
pub(crate) fn translate(node: &mut impl Node) {
    let _ = walk_expressions_mut(node, |expression| {
        match expression {
            Expr::Interval(interval) if interval.leading_field.is_none() => in_units(&mut interval.value),
            Expr::Cast { expr, data_type: DataType::Interval { .. }, .. } => in_units(expr),
            Expr::UnaryOp { op: UnaryOperator::Minus, expr } if has_units(expr) => {
                let interval = std::mem::replace(expr, Box::new(Expr::value(Value::Null)));
                **expr = Expr::Nested(interval);
            }
            _ => {}
        }
        ControlFlow::<()>::Continue(())
    });
}

fn in_units(constant: &mut Expr) {
    if let Expr::Value(ValueWithSpan { value: Value::SingleQuotedString(text), span: _ }) = constant
        && let Some(units) = interval_in_units(text)
    {
        *text = units;
    }
}

/// Tells whether it is an interval of several units.
fn has_units(expression: &Expr) -> bool {
    let Expr::Interval(interval) = expression else { return false };
    match interval.value.as_ref() {
        Expr::Value(ValueWithSpan { value: Value::SingleQuotedString(text), span: _ }) => {
            text.contains(':')
                || text
                    .split(|char: char| char.is_ascii_digit())
                    .filter(|unit| unit.contains(char::is_alphabetic))
                    .count()
                    > 1
        }
        _ => false,
    }
}
