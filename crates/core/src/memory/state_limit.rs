//! A limit on what an operator may hold, as the reason of a failure.

use std::error::Error as _;

use crate::error::Cause;

/// The limit that an operator's state has reached: the source of its [`Cause`]. The rows of later cycles would reach it, too, until
/// the setting is raised: that changes no result, so a query continues where it was.
///
/// ```
/// use tidemill_core::StateLimit;
/// let cause = StateLimit::MAX_GROUPS.reached("more than 7 groups; raise max_groups");
/// assert_eq!(StateLimit::of(&cause), Some(StateLimit::MAX_GROUPS));
/// assert_eq!(StateLimit::of(&tidemill_core::Cause::resource("the disk is full")), None);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{setting}")]
pub struct StateLimit {
    /// The name of the setting.
    pub setting: &'static str,
}

impl StateLimit {
    /// The limit on groups, keys and distinct values.
    pub const MAX_GROUPS: StateLimit = StateLimit { setting: "max_groups" };
    /// The limit on rows.
    pub const MAX_STATE_ROWS: StateLimit = StateLimit { setting: "max_state_rows" };

    /// The failure of an operator that has reached it. The message names the setting.
    pub fn reached(self, message: impl Into<String>) -> Cause {
        Cause::resource(message.into()).with_source(self)
    }

    /// The limit that a failure is due to.
    pub fn of(cause: &Cause) -> Option<StateLimit> {
        cause.source()?.downcast_ref().copied()
    }
}
