//! Specifies running functions and their arguments.

use arrow_array::ArrayRef;
use arrow_schema::SchemaRef;

use crate::watermark::{LateRows, WatermarkSpec};

/// What to compute.
#[derive(Clone, Debug)]
pub struct OverSpec {
    /// The columns of the rows.
    pub schema: SchemaRef,
    /// The columns of `PARTITION BY`; NULL is a value like any other.
    pub keys: Vec<usize>,
    /// The column of `ORDER BY`, the event time.
    pub event_time: usize,
    /// The functions, each of which adds a column.
    pub functions: Vec<FunctionSpec>,
    /// Whether the rows come in event-time order. They are then processed as they come, unless a function's frame may
    /// include later rows with equal event time ([`Frame::Range`]).
    pub ordered: bool,
    /// Which watermark counts.
    pub watermark: WatermarkSpec,
    /// The largest number of rows and keys that a partition holds.
    pub rows_max: usize,
    /// Counts the rows left out because they came after the watermark or have no event time.
    pub late: LateRows,
}

/// A function and the name of its column.
#[derive(Clone, Debug)]
pub struct FunctionSpec {
    /// The name of the column.
    pub name: String,
    /// The function.
    pub function: Function,
}

/// A running function.
#[derive(Clone, Debug)]
pub enum Function {
    /// `ROW_NUMBER()`: `UInt64`, from 1.
    RowNumber,
    /// `RANK()`: `UInt64`; rows of equal event time have the number of the first of them.
    Rank,
    /// `DENSE_RANK()`: `UInt64`; as rank, without gaps.
    DenseRank,
    /// `LAG(column, rows, default)`: the value that many rows before, with 0 for the row itself.
    Lag {
        /// The column.
        column: usize,
        /// How many rows before.
        rows: usize,
        /// One value of the column's type, for rows without a row that far back; `None`: NULL.
        default: Option<ArrayRef>,
    },
    /// `FIRST_VALUE(column)` of the frame.
    FirstValue {
        /// The column.
        column: usize,
        /// The frame.
        frame: Frame,
    },
    /// `LAST_VALUE(column)` of the frame.
    LastValue {
        /// The column.
        column: usize,
        /// The frame.
        frame: Frame,
    },
    /// `NTH_VALUE(column, n)` of the frame; NULL if it has fewer rows.
    NthValue {
        /// The column.
        column: usize,
        /// Which row, from 1.
        n: usize,
        /// The frame.
        frame: Frame,
    },
    /// An aggregate of the frame's rows.
    Aggregate {
        /// Which one.
        aggregate: RunningAggregate,
        /// The column; `None` for `COUNT(*)`.
        column: Option<usize>,
        /// `FILTER (WHERE ...)`: a Boolean column; rows where it is not true do not count.
        filter: Option<usize>,
        /// The frame.
        frame: Frame,
    },
}

/// The aggregates that run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunningAggregate {
    /// The number of rows, or of values that are not NULL: `Int64`.
    Count,
    /// The sum: `Int64` of signed integers, `UInt64` of unsigned, `Float64` of floats, a decimal of decimals.
    Sum,
    /// The mean: `Float64`, a decimal of decimals.
    Avg,
    /// The smallest value.
    Min,
    /// The largest value.
    Max,
}

/// The rows of a key that a function sees: from the frame's start to the current row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Frame {
    /// `ROWS BETWEEN n PRECEDING AND CURRENT ROW`; `None`: `UNBOUNDED PRECEDING`.
    Rows {
        /// The number of rows before the current one.
        preceding: Option<usize>,
    },
    /// `RANGE BETWEEN INTERVAL ... PRECEDING AND CURRENT ROW`, which includes all rows with the current row's event
    /// time. Without a bound, this is SQL's default frame.
    Range {
        /// The nanoseconds before the current row's event time, inclusive; `None`: `UNBOUNDED PRECEDING`.
        preceding_ns: Option<i64>,
    },
}

impl Function {
    /// Whether its result for a row depends on later rows with the same event time.
    pub(super) fn has_peers(&self) -> bool {
        let frame = match self {
            Function::FirstValue { frame, .. }
            | Function::LastValue { frame, .. }
            | Function::NthValue { frame, .. }
            | Function::Aggregate { frame, .. } => frame,
            Function::RowNumber | Function::Rank | Function::DenseRank | Function::Lag { .. } => {
                return false;
            }
        };
        matches!(frame, Frame::Range { .. })
    }
}
