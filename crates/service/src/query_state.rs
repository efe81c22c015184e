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
    /// It has failed; [`Runtime::wait`](crate::Runtime::wait) says why.
    Failed,
}
