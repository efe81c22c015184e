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

    /// Whether answers to queries over tables and materialized views that have more than a few megabytes are computed
    /// as they are taken ([`Reply::Batches`](crate::Reply::Batches)). Otherwise every answer is made as a whole, and
    /// counts as a whole against the memory.
    ///
    /// ```
    /// use tidemill_sql::{Planner, Reply, parse};
    /// let mut planner = Planner::new();
    /// planner.set_answers_in_batches(true);
    /// let statement = &parse("SELECT unnest(range(2000000)) AS n", "example").unwrap()[0];
    /// let Ok(Reply::Batches(batches)) = planner.execute(statement) else { panic!("it is large") };
    /// assert_eq!(batches.map(|batch| batch.unwrap().num_rows()).sum::<usize>(), 2_000_000);
    /// ```
    pub fn set_answers_in_batches(&mut self, answers_in_batches: bool) {
        self.answers_in_batches = answers_in_batches;
    }
}
