//! A planner whose queries take turns with those of others.

use std::sync::Arc;

use super::Planner;
use crate::turns::Turns;

impl Planner {
    /// Lets its queries that are answered at once take turns with those of others. At first they are computed at once.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use tidemill_engine::Cause;
    /// use tidemill_sql::{Planner, Turn, Turns, parse};
    /// struct Closed;
    /// impl Turns for Closed {
    ///     fn begin(&self) -> Result<Box<dyn Turn>, Cause> {
    ///         Err(Cause::resource("nobody may read now"))
    ///     }
    /// }
    /// let mut planner = Planner::new();
    /// planner.set_turns(Arc::new(Closed));
    /// assert!(planner.execute(&parse("SELECT 1 AS one", "example").unwrap()[0]).is_err());
    /// ```
    pub fn set_turns(&mut self, turns: Arc<dyn Turns>) {
        self.turns = turns;
    }
}
