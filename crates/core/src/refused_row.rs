//! Which row a sink's target has refused.

use std::error::Error as _;

use thiserror::Error;

use crate::error::Cause;

/// The row at which a sink fails because its target refuses it: the source of the sink's [`Cause`]. A sink commits
/// several cycles at once, so its failure alone does not say which one the row is in.
///
/// ```
/// use tidemill_core::{Cause, RefusedRow};
///
/// let row = RefusedRow { cycle: 7, event: 3 };
/// let cause = Cause::user("the message is too large").with_source(row);
/// assert_eq!(RefusedRow::of(&cause), Some(row));
/// assert_eq!(RefusedRow::of(&Cause::user("there is no such topic")), None);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("event {event} of cycle {cycle} caused the row")]
pub struct RefusedRow {
    /// The cycle of the row.
    pub cycle: u64,
    /// The position within the cycle of the event that caused it; the number of events if the end of the cycle did.
    pub event: u32,
}

impl RefusedRow {
    /// The row that is refused, if the cause says so.
    pub fn of(cause: &Cause) -> Option<RefusedRow> {
        cause.source()?.downcast_ref().copied()
    }
}
