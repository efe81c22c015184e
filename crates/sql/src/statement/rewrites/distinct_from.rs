//! `a IS DISTINCT FROM b AND c`: the parser takes all that follows for what `a` is compared with. Here it is read as in PostgreSQL
//! and in the standard, where `IS` binds more closely than `NOT`, `AND` and `OR`.

use std::mem;
use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{BinaryOperator, Expr, UnaryOperator, Value};

use tidemill_trees::syntax::{Node, walk_expressions_mut};

/// Gives each operator the operands that belong to it. What is in parentheses stays.
pub(crate) fn regroup(node: &mut impl Node) {
    let _ = walk_expressions_mut(node, |expression| {
        lift(expression);
        ControlFlow::<()>::Continue(())
    });
}

/// How closely an operator binds.
fn binding(operator: &BinaryOperator) -> u8 {
    match operator {
        BinaryOperator::Or => 1,
        BinaryOperator::And => 2,
        _ => 4,
    }
}

/// The right operand of an operator, and how closely the operator binds.
fn right_operand(expression: &mut Expr) -> Option<(&mut Expr, u8)> {
    match expression {
        Expr::IsDistinctFrom(_, right) | Expr::IsNotDistinctFrom(_, right) => Some((right, 4)),
        Expr::UnaryOp { op: UnaryOperator::Not, expr } => Some((expr, 3)),
        Expr::BinaryOp { op, right, .. } => {
            let binding = binding(op);
            Some((right, binding))
        }
        _ => None,
    }
}

/// Moves an operator under those that bind less closely, and that the parser has read into its right operand.
fn lift(expression: &mut Expr) {
    let nothing = || Expr::value(Value::Null);
    let Some((right, own)) = right_operand(expression) else { return };
    if !matches!(right, Expr::BinaryOp { op, .. } if binding(op) < own) {
        return;
    }
    let mut outer = mem::replace(right, nothing());
    let mut edge = &mut outer;
    while matches!(edge, Expr::BinaryOp { op, .. } if binding(op) < own) {
        let Expr::BinaryOp { left, .. } = edge else { return };
        edge = left;
    }
    *right = mem::replace(edge, nothing());
    *edge = mem::replace(expression, nothing());
    *expression = outer;
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::array::cast::AsArray;

    use crate::{Planner, Reply, divide};

    #[test]
    fn it_binds_more_closely_than_not_and_or() {
        for (condition, expected) in [
            ("false IS NOT DISTINCT FROM true AND false", false),
            ("false IS NOT DISTINCT FROM (true AND false)", true),
            ("true IS DISTINCT FROM true OR true", true),
            ("true AND true IS DISTINCT FROM true OR true", true),
            ("NOT false IS DISTINCT FROM true AND false", false),
            ("false AND true IS DISTINCT FROM false AND true OR true", true),
            ("1 IS DISTINCT FROM 1 OR 2 IS NOT DISTINCT FROM 2 AND 3 IS DISTINCT FROM 4", true),
            ("1 IS DISTINCT FROM 2 AND 'a' IS NOT DISTINCT FROM 'a' || ''", true),
            ("CASE WHEN 1 IS DISTINCT FROM NULL AND false THEN true ELSE false END", false),
        ] {
            let query = format!("SELECT {condition} AS holds");
            let statement = divide(&query, "test").unwrap()[0].read().unwrap();
            let Ok(Reply::Rows(rows)) = Planner::new().execute(&statement) else { panic!("{query}") };
            assert_eq!(rows.column(0).as_boolean().value(0), expected, "{query}");
        }
    }
}
