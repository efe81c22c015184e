//! `a = ANY(list)`: DataFusion (55.2) takes a NULL in the list for a value that is not equal, and finds nothing in an empty list only
//! if `a` is not NULL. Its `ALL` is right, so `a = ANY(list)` becomes `NOT a <> ALL(list)`.

use std::mem;
use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{BinaryOperator, Expr, UnaryOperator, Value, ValueWithSpan};

use super::list_text::list_items;
use tidemill_trees::syntax::{Node, walk_expressions_mut};

/// Replaces `ANY` of lists by `ALL`. `ANY` of a subquery stays.
pub(crate) fn translate(node: &mut impl Node) {
    let _ = walk_expressions_mut(node, |expression| {
        if let Expr::AnyOp { left, compare_op, right, .. } = expression
            && let Some(items) = written_items(compare_op, right)
        {
            *expression = compared_with_each(left, compare_op, items, false);
        } else if let Expr::AllOp { left, compare_op, right } = expression
            && let Some(items) = written_items(compare_op, right)
        {
            *expression = compared_with_each(left, compare_op, items, true);
        }
        let Expr::AnyOp { left, compare_op, right, is_some: _ } = expression else {
            return ControlFlow::<()>::Continue(());
        };
        if let Some(opposite) = opposite(compare_op)
            && !matches!(**right, Expr::Subquery(_))
            && !is_without_null(right)
        {
            let nothing = || Box::new(Expr::value(Value::Null));
            let all = Expr::AllOp {
                left: mem::replace(left, nothing()),
                compare_op: opposite,
                right: mem::replace(right, nothing()),
            };
            let not = Expr::UnaryOp { op: UnaryOperator::Not, expr: Box::new(all) };
            *expression = Expr::Nested(Box::new(not));
        }
        ControlFlow::Continue(())
    });
}

/// So many comparisons are written one after the other.
const WRITTEN_MAX: usize = 64;

/// The items of `'{a,b}'`, as PostgreSQL reads a text where it needs a list.
fn written_items(op: &BinaryOperator, list: &Expr) -> Option<Vec<Expr>> {
    let Expr::Value(ValueWithSpan { value: Value::SingleQuotedString(text), .. }) = list else { return None };
    let item = |item: Option<String>| Expr::value(item.map_or(Value::Null, Value::SingleQuotedString));
    let items = list_items(text)?;
    let is_list = matches!(op, BinaryOperator::Eq | BinaryOperator::NotEq);
    (is_list || items.len() <= WRITTEN_MAX).then(|| items.into_iter().map(item).collect())
}

/// A comparison with one or all of some items. Each is a text of the type of the other side.
fn compared_with_each(left: &Expr, op: &BinaryOperator, items: Vec<Expr>, all: bool) -> Expr {
    let nested = |inner: Expr| Expr::Nested(Box::new(inner));
    let is_list = if all { *op == BinaryOperator::NotEq } else { *op == BinaryOperator::Eq };
    if is_list && !items.is_empty() {
        let expr = Box::new(nested(left.clone()));
        return nested(Expr::InList { expr, list: items, negated: all });
    }
    let joined = if all { BinaryOperator::And } else { BinaryOperator::Or };
    let each = items.into_iter().map(|item| {
        nested(Expr::BinaryOp { left: Box::new(nested(left.clone())), op: op.clone(), right: Box::new(item) })
    });
    let both = |one: Expr, other: Expr| Expr::BinaryOp {
        left: Box::new(one),
        op: joined.clone(),
        right: Box::new(other),
    };
    each.reduce(both).map_or_else(|| Expr::value(Value::Boolean(all)), nested)
}

/// The comparison that holds where this one does not.
pub(super) fn opposite(operator: &BinaryOperator) -> Option<BinaryOperator> {
    Some(match operator {
        BinaryOperator::Eq => BinaryOperator::NotEq,
        BinaryOperator::NotEq => BinaryOperator::Eq,
        BinaryOperator::Lt => BinaryOperator::GtEq,
        BinaryOperator::GtEq => BinaryOperator::Lt,
        BinaryOperator::Gt => BinaryOperator::LtEq,
        BinaryOperator::LtEq => BinaryOperator::Gt,
        _ => return None,
    })
}

/// Whether it is a list of constants for which both mean the same: it is compared faster.
fn is_without_null(list: &Expr) -> bool {
    let is_there = |item: &Expr| match item {
        Expr::Value(value) => !matches!(value.value, Value::Null | Value::Placeholder(_)),
        Expr::UnaryOp { op: UnaryOperator::Minus, expr } => matches!(**expr, Expr::Value(_)),
        _ => false,
    };
    matches!(list, Expr::Array(array) if !array.elem.is_empty() && array.elem.iter().all(is_there))
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::array::{Array, cast::AsArray};

    use crate::{Planner, Reply, divide};

    type Value = Option<i64>;
    type Compare = fn(i64, i64) -> bool;

    /// What the standard says: true if one comparison is true, otherwise unknown if one is unknown.
    fn any(left: Value, compare: Compare, list: Option<&[Value]>) -> Option<bool> {
        let mut answer = Some(false);
        for item in list? {
            match left.zip(*item).map(|(left, item)| compare(left, item)) {
                Some(true) => return Some(true),
                Some(false) => {}
                None => answer = None,
            }
        }
        answer
    }

    fn answers(query: &str) -> Vec<Option<bool>> {
        let statement = divide(query, "test").unwrap()[0].read().unwrap();
        let Ok(Reply::Rows(rows)) = Planner::new().execute(&statement) else { panic!("{query}") };
        let held = rows.column(0).as_boolean();
        (0..held.len()).map(|row| held.is_valid(row).then(|| held.value(row))).collect()
    }

    #[test]
    fn unknown_values_are_unknown_in_constants_and_in_columns() {
        let comparisons: [(&str, Compare); 6] = [
            ("=", |a, b| a == b),
            ("<>", |a, b| a != b),
            ("<", |a, b| a < b),
            ("<=", |a, b| a <= b),
            (">", |a, b| a > b),
            (">=", |a, b| a >= b),
        ];
        let lists: [Option<&[Value]>; 7] = [
            None,
            Some(&[]),
            Some(&[None]),
            Some(&[Some(2), None]),
            Some(&[Some(3), None]),
            Some(&[Some(1), Some(3)]),
            Some(&[Some(4), Some(-5)]),
        ];
        let value = |value: Value| value.map_or("CAST(NULL AS BIGINT)".to_owned(), |value| value.to_string());
        let list = |list: Option<&[Value]>| match list {
            None => "CAST(NULL AS BIGINT[])".to_owned(),
            Some([]) => "CAST([] AS BIGINT[])".to_owned(),
            Some(items) => {
                let items = items.iter().map(|item| item.map_or("NULL".to_owned(), |item| item.to_string()));
                format!("[{}]", items.collect::<Vec<_>>().join(", "))
            }
        };
        for (operator, compare) in comparisons {
            for left in [None, Some(2), Some(3)] {
                let expected = lists.map(|list| any(left, compare, list));
                for (given, expected) in lists.iter().zip(expected) {
                    let any = format!("{} {operator} ANY({})", value(left), list(*given));
                    assert_eq!(answers(&format!("SELECT {any}")), [expected], "{any}");
                    let not = expected.map(|holds| !holds);
                    assert_eq!(answers(&format!("SELECT NOT {any} AND true")), [not], "NOT {any}");
                }
                let rows = lists.iter().enumerate().map(|(at, given)| format!("({at}, {})", list(*given)));
                let rows = rows.collect::<Vec<_>>().join(", ");
                let query = format!(
                    "SELECT {} {operator} ANY(items) FROM (VALUES {rows}) AS t(at, items) ORDER BY at",
                    value(left)
                );
                assert_eq!(answers(&query), expected, "{query}");
            }
        }
    }
}
