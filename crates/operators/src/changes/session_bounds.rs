//! The sessions of rows that come and go: the start or the end of the session to which each row of a partition belongs.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::TimestampNanosecondType;
use arrow_array::{Array, ArrayRef, RecordBatch, TimestampNanosecondArray};
use arrow_schema::DataType;
use tidemill_core::PartitionFunction;
use tidemill_core::error::Cause;

/// Which bound of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionBound {
    /// The time of its first row.
    Start,
    /// The time of its last row plus the gap.
    End,
}

/// A bound of the session of each row. Rows that are at most the gap apart are of one session. As a [`PartitionFunction`] it
/// gets the rows of one key in the order of their times.
///
/// ```
/// use std::sync::Arc;
/// use tidemill_core::PartitionFunction;
/// use tidemill_core::arrow::array::{ArrayRef, RecordBatch, TimestampNanosecondArray};
/// use tidemill_operators::changes::{SessionBound, SessionBounds};
///
/// let times = |times: Vec<i64>| Arc::new(TimestampNanosecondArray::from(times)) as ArrayRef;
/// let rows = RecordBatch::try_from_iter([("at", times(vec![1, 4, 10, 10]))]).unwrap();
/// let data_type = rows.column(0).data_type().clone();
/// let bounds = |bound| SessionBounds { time: 0, gap_ns: 5, bound, data_type: data_type.clone() }.evaluate(&rows).unwrap();
/// assert_eq!(&bounds(SessionBound::Start), &times(vec![1, 1, 10, 10]));
/// assert_eq!(&bounds(SessionBound::End), &times(vec![9, 9, 15, 15]));
/// ```
#[derive(Clone, Debug)]
pub struct SessionBounds {
    /// The column with the times, of the type `data_type`. None of them is NULL.
    pub time: usize,
    /// The longest time between two rows of a session.
    pub gap_ns: i64,
    /// The bound.
    pub bound: SessionBound,
    /// Timestamps in nanoseconds.
    pub data_type: DataType,
}

impl PartitionFunction for SessionBounds {
    fn data_type(&self) -> DataType {
        self.data_type.clone()
    }

    fn evaluate(&self, partition: &RecordBatch) -> Result<ArrayRef, Cause> {
        let times = partition.column(self.time);
        let times =
            times.as_primitive_opt::<TimestampNanosecondType>().filter(|times| times.null_count() == 0);
        let times = times.ok_or_else(|| Cause::bug("sessions are of timestamps without NULLs"))?.values();
        let mut bounds = Vec::with_capacity(times.len());
        for session in times.chunk_by(|before, next| next.saturating_sub(*before) <= self.gap_ns) {
            let (Some(first), Some(last)) = (session.first(), session.last()) else { continue };
            let bound = match self.bound {
                SessionBound::Start => *first,
                SessionBound::End => last.saturating_add(self.gap_ns),
            };
            bounds.resize(bounds.len() + session.len(), bound);
        }
        let zone = match &self.data_type {
            DataType::Timestamp(_, zone) => zone.clone(),
            _ => None,
        };
        Ok(Arc::new(TimestampNanosecondArray::from(bounds).with_timezone_opt(zone)))
    }
}
