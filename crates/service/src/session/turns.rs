//! When the queries of a session are planned and computed.

use std::sync::Arc;

use tidemill_sql::Turns;

use crate::Session;

impl Session {
    /// The turns of its queries that are answered at once, with those of all sessions; for a planner that works for it.
    pub fn turns(&self) -> Arc<dyn Turns> {
        self.runtime().turns(&self.cancellation())
    }

    /// From now on, its queries ignore the first `requests` requests to cancel, and no others: a statement that has waited for its thread is
    /// cancelled by what came meanwhile. Otherwise each query counts from its own beginning.
    ///
    /// ```
    /// use tidemill_service::{Runtime, Session};
    /// use tidemill_sql::Planner;
    /// let session = Session::new(&Runtime::new(Planner::new()));
    /// session.count_cancellations_after(session.cancellation().requests());
    /// ```
    pub fn count_cancellations_after(&self, requests: u32) {
        self.turns.count_cancellations_after(requests);
    }

    /// What is called, on the thread that computes, when a query of its is planned and computed for some milliseconds already; once for each
    /// query. Whoever answers many sessions on a few threads begins something else then.
    ///
    /// ```
    /// use tidemill_service::{Runtime, Session};
    /// use tidemill_sql::Planner;
    /// let mut session = Session::new(&Runtime::new(Planner::new()));
    /// session.set_when_long(Some(std::sync::Arc::new(|| println!("this takes long"))));
    /// ```
    pub fn set_when_long(&mut self, hook: Option<Arc<dyn Fn() + Send + Sync>>) {
        self.turns.set_when_long(hook);
    }
}
