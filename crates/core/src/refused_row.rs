//! Which row a sink's target has refused.

use std::error::Error;

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
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("event {event} of cycle {cycle} caused the row")]
pub struct RefusedRow {
    /// The cycle of the row.
    pub cycle: u64,
    /// The position within the cycle of the event that caused it; the number of events if the end of the cycle did.
    pub event: u32,
}

impl RefusedRow {
    /// The row with the error of the target that refused it: the source of the cause, which keeps both.
    ///
    /// ```
    /// use tidemill_core::error::chain;
    /// use tidemill_core::{Cause, RefusedRow};
    ///
    /// let row = RefusedRow { cycle: 7, event: 3 };
    /// let error = std::io::Error::other("code 23514");
    /// let cause = Cause::user("the value is too small").with_source(row.refused_by(error));
    /// assert_eq!(RefusedRow::of(&cause), Some(row));
    /// assert_eq!(chain(&cause), ["the value is too small", "event 3 of cycle 7 caused the row", "code 23514"]);
    /// ```
    pub fn refused_by(self, error: impl Error + Send + Sync + 'static) -> impl Error + Send + Sync + 'static {
        RefusedBy { row: self, error: Box::new(error) }
    }

    /// The row that is refused, if the cause says so.
    pub fn of(cause: &Cause) -> Option<RefusedRow> {
        let source = cause.source()?;
        source.downcast_ref().copied().or_else(|| Some(source.downcast_ref::<RefusedBy>()?.row))
    }
}

/// A row with the error of the target.
#[derive(Debug, thiserror::Error)]
#[error("{row}")]
struct RefusedBy {
    row: RefusedRow,
    #[source]
    error: Box<dyn Error + Send + Sync>,
}
