//! Turns of queries that are answered at once.

use datafusion::common::DataFusionError;
use tidemill_engine::Cause;

/// Says when a query may be computed that reads only tables and materialized views. Such queries are computed on the thread
/// that asks, beside the running ones; who has several such threads decides here how many compute at a time, and in which
/// order.
///
/// See [`Planner::set_turns`](crate::Planner::set_turns).
pub trait Turns: Send + Sync {
    /// Waits until a query may begin. Its turn ends when the result is dropped.
    ///
    /// # Errors
    /// Why it may not.
    fn begin(&self) -> Result<Box<dyn Turn>, Cause>;

    /// Continues a query that has read its input, with what is answered at its end. It should not wait once more
    /// behind others that have not begun.
    ///
    /// # Errors
    /// Why it may not continue.
    fn resume(&self) -> Result<Box<dyn Turn>, Cause> {
        self.begin()
    }

    /// It is called every few milliseconds on the thread that plans a statement, or on which a function computes for
    /// long. It may wait so that another query continues.
    ///
    /// # Errors
    /// Why the statement ends here.
    fn go_on(&self) -> Result<(), Cause> {
        Ok(())
    }
}

/// A turn of a query.
pub trait Turn {
    /// It is called every few milliseconds of computing, and may wait so that another query continues.
    ///
    /// # Errors
    /// Why the query ends here.
    fn go_on(&mut self) -> Result<(), Cause>;
}

/// Every query is computed at once, until its end.
pub(crate) struct AtOnce;

impl Turns for AtOnce {
    fn begin(&self) -> Result<Box<dyn Turn>, Cause> {
        Ok(Box::new(AtOnce))
    }
}

impl Turn for AtOnce {
    fn go_on(&mut self) -> Result<(), Cause> {
        Ok(())
    }
}

/// A query's error if its turn ends early.
pub(crate) fn turn_refused(cause: Cause) -> DataFusionError {
    DataFusionError::ResourcesExhausted(cause.to_string())
}
