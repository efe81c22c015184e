//! Nodes that cannot be turned into a stream.

use datafusion::common::{DataFusionError, JoinType};
use datafusion::logical_expr::LogicalPlan;

use crate::refusal::refuse;

/// The refusal of a node that cannot be turned into a stream.
pub(crate) fn not_streaming(plan: &LogicalPlan) -> DataFusionError {
    match plan {
        LogicalPlan::Limit(limit) if limit.skip.is_some() => refuse(
            "OFFSET skips the first rows in an order, and a stream has no final order",
            "remove OFFSET, or number the rows of each window with ROW_NUMBER() and keep those that you want",
        ),
        LogicalPlan::Limit(_) => refuse(
            "LIMIT inside a query has no meaning for a stream, because a stream has no last row",
            "move LIMIT to the end of the whole query, or number the rows of each window with ROW_NUMBER() and \
             keep the first ones",
        ),
        LogicalPlan::RecursiveQuery(_) => {
            refuse("a recursive query never ends on a stream", "write the necessary steps as views")
        }
        LogicalPlan::Subquery(_) => {
            refuse("a subquery that depends on the outer row cannot run on a stream", "write it as a join")
        }
        LogicalPlan::Distinct(_) => refuse(
            "DISTINCT ON needs an order, and a stream has no final order",
            "use ROW_NUMBER() per window",
        ),
        other => refuse(
            format!("{} cannot run on a stream", other.display()),
            "see the guide on what a continuous query may contain",
        ),
    }
}

/// A join as written.
pub(super) fn join_words(kind: JoinType) -> &'static str {
    match kind {
        JoinType::Inner => "JOIN",
        JoinType::Left => "LEFT JOIN",
        JoinType::Right => "RIGHT JOIN",
        JoinType::Full => "FULL JOIN",
        JoinType::LeftSemi | JoinType::RightSemi => "IN or EXISTS with a subquery",
        JoinType::LeftAnti | JoinType::RightAnti => "NOT IN or NOT EXISTS with a subquery",
        JoinType::LeftMark | JoinType::RightMark => "a subquery inside a condition",
    }
}
