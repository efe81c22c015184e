//! Finds the bound on the difference of two streams' event times in a join's conditions.

use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::logical_expr::utils::{conjunction, split_conjunction};
use datafusion::logical_expr::{BinaryExpr, Expr, Join, Operator};

use super::{Relation, as_column};

/// `left.time - right.time` is in `[low_ns, high_ns]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TimeBound {
    pub left_time: usize,
    pub right_time: usize,
    pub low_ns: i64,
    pub high_ns: i64,
    /// By how much the later of both may be behind the watermark.
    pub delay_ns: i64,
    /// The other conditions. Those on the two times are left out: the operator compares the times without computing
    /// sums that may overflow, such as `b.at + INTERVAL '5 seconds'` at the end of time.
    pub rest: Option<Expr>,
}

/// A column of one side plus a duration.
struct ShiftedColumn {
    is_left: bool,
    column: usize,
    by_ns: i64,
}

/// The bound that the conditions state; `None` if it is not bounded on both ends. `left` and `right` are the sides as
/// the operator sees them; `swapped` if they are reversed in the join.
pub(super) fn time_bound(
    join: &Join,
    swapped: bool,
    left: &Relation,
    left_schema: &DFSchema,
    right: &Relation,
    right_schema: &DFSchema,
) -> Result<Option<TimeBound>> {
    // Equal times are a bound of 0: windows that are joined by their ends.
    for (one, other) in &join.on {
        let (l, r) = if swapped { (other, one) } else { (one, other) };
        if let (Some(left_time), Some(right_time)) = (as_column(l, left_schema), as_column(r, right_schema))
            && let (Some(left_delay_ns), Some(right_delay_ns)) =
                (left.roles[left_time].time_delay_ns(), right.roles[right_time].time_delay_ns())
        {
            let delay_ns = left_delay_ns.max(right_delay_ns);
            let rest = join.filter.clone();
            return Ok(Some(TimeBound { left_time, right_time, low_ns: 0, high_ns: 0, delay_ns, rest }));
        }
    }
    let Some(filter) = &join.filter else { return Ok(None) };
    // The columns on the left and on the right, and the bound.
    type Bound = Option<(usize, usize, i64)>;
    let (mut low, mut high): (Bound, Bound) = (None, None);
    let shifted = |expression: &Expr| shifted(expression, left, left_schema, right, right_schema);
    for condition in split_conjunction(filter) {
        for (smaller, larger, strict) in inequalities(condition) {
            let (Some(smaller), Some(larger)) = (shifted(&smaller), shifted(&larger)) else { continue };
            let strict_ns = i64::from(strict);
            match (smaller.is_left, larger.is_left) {
                // left + a <= right + b: left - right <= b - a
                (true, false) => {
                    let bound_ns = larger.by_ns.saturating_sub(smaller.by_ns).saturating_sub(strict_ns);
                    let tighter = high.is_none_or(|(_, _, known)| bound_ns < known);
                    if tighter {
                        high = Some((smaller.column, larger.column, bound_ns));
                    }
                }
                // right + a <= left + b: left - right >= a - b
                (false, true) => {
                    let bound_ns = smaller.by_ns.saturating_sub(larger.by_ns).saturating_add(strict_ns);
                    let tighter = low.is_none_or(|(_, _, known)| bound_ns > known);
                    if tighter {
                        low = Some((larger.column, smaller.column, bound_ns));
                    }
                }
                _ => {}
            }
        }
    }
    let (Some(low), Some(high)) = (low, high) else { return Ok(None) };
    if (low.0, low.1) != (high.0, high.1) {
        return Ok(None);
    }
    let (left_time, right_time, low_ns, high_ns) = (low.0, low.1, low.2, high.2);
    let delay = |relation: &Relation, column: usize| relation.roles[column].time_delay_ns().unwrap_or(0);
    let delay_ns = delay(left, left_time).max(delay(right, right_time));
    let is_of_times = |side: &ShiftedColumn| side.column == if side.is_left { left_time } else { right_time };
    let is_kept = |condition: &&Expr| -> bool {
        let bounds = inequalities(condition).into_iter().map(|(smaller, larger, _)| {
            let (smaller, larger) = (shifted(&smaller)?, shifted(&larger)?);
            let is_bound = smaller.is_left != larger.is_left && is_of_times(&smaller) && is_of_times(&larger);
            is_bound.then_some(())
        });
        let bounds: Option<Vec<()>> = bounds.collect();
        bounds.is_none_or(|bounds| bounds.is_empty())
    };
    let rest = conjunction(split_conjunction(filter).into_iter().filter(is_kept).cloned());
    Ok(Some(TimeBound { left_time, right_time, low_ns, high_ns, delay_ns, rest }))
}

/// The inequalities `smaller <= larger` (or `<`) that a condition states.
fn inequalities(condition: &Expr) -> Vec<(Expr, Expr, bool)> {
    match condition {
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => {
            let (left, right) = (left.as_ref().clone(), right.as_ref().clone());
            match op {
                Operator::LtEq => vec![(left, right, false)],
                Operator::Lt => vec![(left, right, true)],
                Operator::GtEq => vec![(right, left, false)],
                Operator::Gt => vec![(right, left, true)],
                Operator::Eq => vec![(left.clone(), right.clone(), false), (right, left, false)],
                _ => Vec::new(),
            }
        }
        Expr::Between(between) if !between.negated => {
            let value = between.expr.as_ref().clone();
            let (low, high) = (between.low.as_ref().clone(), between.high.as_ref().clone());
            vec![(low, value.clone(), false), (value, high, false)]
        }
        _ => Vec::new(),
    }
}

/// An event time of either side, plus or minus a constant.
fn shifted(
    expression: &Expr,
    left: &Relation,
    left_schema: &DFSchema,
    right: &Relation,
    right_schema: &DFSchema,
) -> Option<ShiftedColumn> {
    match expression {
        Expr::BinaryExpr(BinaryExpr { left: base, op, right: by }) => {
            let Expr::Literal(length, _) = by.as_ref() else { return None };
            let by_ns = length_ns(length)?;
            let base = shifted(base, left, left_schema, right, right_schema)?;
            match op {
                Operator::Plus => Some(ShiftedColumn { by_ns: base.by_ns.checked_add(by_ns)?, ..base }),
                Operator::Minus => Some(ShiftedColumn { by_ns: base.by_ns.checked_sub(by_ns)?, ..base }),
                _ => None,
            }
        }
        column => {
            let find = |relation: &Relation, schema: &DFSchema, is_left: bool| {
                let column = as_column(column, schema)?;
                relation.roles[column].time_delay_ns()?;
                Some(ShiftedColumn { is_left, column, by_ns: 0 })
            };
            find(left, left_schema, true).or_else(|| find(right, right_schema, false))
        }
    }
}

fn length_ns(value: &ScalarValue) -> Option<i64> {
    crate::logical::length_ns(value).ok()
}
