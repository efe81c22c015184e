//! `a = ANY($1)`: the parameter is a list of what `a` is.

use std::mem;
use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{Expr, Query, Value, ValueWithSpan};

use super::number;
use tidemill_trees::syntax::walk_expressions_mut;

/// Compares with each parameter that is a list as if it was one of the list's values, so that the planner finds out its type.
/// Returns the numbers of these parameters.
pub(crate) fn compared_lists(query: &mut Query) -> Vec<usize> {
    let mut lists = Vec::new();
    let _ = walk_expressions_mut(query, |expression| {
        let (Expr::AnyOp { left, compare_op, right, .. } | Expr::AllOp { left, compare_op, right }) =
            expression
        else {
            return ControlFlow::<()>::Continue(());
        };
        if let Expr::Value(ValueWithSpan { value: Value::Placeholder(name), .. }) = right.as_ref() {
            lists.extend(number(name));
            let nothing = || Box::new(Expr::value(Value::Null));
            let (left, right) = (mem::replace(left, nothing()), mem::replace(right, nothing()));
            *expression = Expr::BinaryOp { left, op: compare_op.clone(), right };
        }
        ControlFlow::Continue(())
    });
    lists
}
