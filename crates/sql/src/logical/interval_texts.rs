//! Intervals that are written as PostgreSQL writes them (`INTERVAL '1 day 02:03:04'`), in the units that the planner reads.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{DataType, Expr, Value, ValueWithSpan};
use tidemill_connect::formats::interval_in_units;

use tidemill_trees::syntax::{Node, walk_expressions_mut};

/// Writes the constants that are intervals in units.
pub(super) fn translate(node: &mut impl Node) {
    let _ = walk_expressions_mut(node, |expression| {
        match expression {
            Expr::Interval(interval) if interval.leading_field.is_none() => in_units(&mut interval.value),
            Expr::Cast { expr, data_type: DataType::Interval { .. }, .. } => in_units(expr),
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
