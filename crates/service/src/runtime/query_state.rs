//! How far a query is.

/// How far a query is that runs by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueryState {
    /// It takes in rows.
    Running,
    /// It has taken in everything, or was told to stop, and answers the rest.
    Ending,
    /// It has ended.
    Ended,
    /// It was stopped, and continues when it is told to.
    Stopped,
    /// It has failed; [`Runtime::wait`](crate::Runtime::wait) says why.
    Failed,
}

impl QueryState {
    /// Its name.
    ///
    /// ```
    /// assert_eq!(tidemill_service::QueryState::Stopped.name(), "stopped");
    /// ```
    pub fn name(self) -> &'static str {
        match self {
            QueryState::Running => "running",
            QueryState::Ending => "ending",
            QueryState::Ended => "ended",
            QueryState::Stopped => "stopped",
            QueryState::Failed => "failed",
        }
    }
}
