//! Turns that count the pauses of a query, and end it at one of them.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tidemill_engine::Cause;
use tidemill_sql::{Turn, Turns};

pub struct Counted {
    pub pauses: Arc<AtomicUsize>,
    /// The pause after this many ends the query.
    pub pauses_max: usize,
}

impl Turns for Counted {
    fn begin(&self) -> Result<Box<dyn Turn>, Cause> {
        Ok(Box::new(Counted { pauses: Arc::clone(&self.pauses), ..*self }))
    }
}

impl Turn for Counted {
    fn go_on(&mut self) -> Result<(), Cause> {
        if self.pauses.fetch_add(1, Ordering::Relaxed) < self.pauses_max {
            Ok(())
        } else {
            Err(Cause::operation("it was cancelled"))
        }
    }
}
