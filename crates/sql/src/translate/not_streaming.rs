//! Nodes that cannot be turned into a stream.

use datafusion::common::{DataFusionError, JoinType};
use datafusion::logical_expr::LogicalPlan;

use crate::refusal::refuse;

/// The refusal of a node that cannot be turned into a stream.
pub(crate) fn not_streaming(plan: &LogicalPlan) -> DataFusionError {
    match plan {
        LogicalPlan::Limit(limit) if limit.skip.is_some() => refuse(
            "OFFSET leaves out the first rows of an order that a stream does not have",
            "leave OFFSET out, or number the rows of each window with ROW_NUMBER() and keep those that you want",
        ),
        LogicalPlan::Limit(_) => refuse(
            "LIMIT inside of a query has no meaning for a stream, of which no row is the last",
            "put LIMIT at the end of the whole query, or number the rows of each window with ROW_NUMBER() and keep the \
             first ones",
        ),
        LogicalPlan::RecursiveQuery(_) => {
            refuse("a recursive query never ends on a stream", "write the steps that you need as views")
        }
        LogicalPlan::Subquery(_) => refuse(
            "a subquery that depends on the row around it cannot run on a stream",
            "write it as a join",
        ),
        LogicalPlan::Unnest(_) => refuse("UNNEST is not there yet on streams", "unnest in the source"),
        LogicalPlan::Distinct(_) => {
            refuse("DISTINCT ON has no order on a stream", "use ROW_NUMBER() per window")
        }
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
        JoinType::LeftMark | JoinType::RightMark => "a subquery within a condition",
    }
}
