//! LIMIT at the end of a query: a sink that stops the query when it has enough rows.

use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tidemill_engine::{Cause, CycleOutput, DelegatingSink, Sink};

/// Passes the first rows on.
pub(crate) struct Limited {
    sink: Box<dyn Sink>,
    rows_left: u64,
    reached: Arc<AtomicBool>,
}

impl Limited {
    /// Passes on this many rows, then reports that no more are wanted.
    pub fn new(sink: Box<dyn Sink>, rows: u64, reached: Arc<AtomicBool>) -> Self {
        Limited { sink, rows_left: rows, reached }
    }
}

impl DelegatingSink for Limited {
    fn inner(&self) -> &dyn Sink {
        self.sink.as_ref()
    }

    fn inner_mut(&mut self) -> &mut dyn Sink {
        self.sink.as_mut()
    }

    fn prepare(&mut self, mut output: CycleOutput) -> Result<(), Cause> {
        for batch in output.streams.iter_mut().flatten() {
            let rows = (batch.len() as u64).min(self.rows_left);
            self.rows_left -= rows;
            *batch = batch.slice(0, rows as usize);
        }
        self.sink.prepare(output)
    }

    fn commit(&mut self, cycles: RangeInclusive<u64>) -> Result<(), Cause> {
        self.sink.commit(cycles)?;
        if self.rows_left == 0 {
            self.reached.store(true, Ordering::Release);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use tidemill_engine::Guarantee;

    use super::*;

    /// A sink that waits in `commit` until it is stopped, and stores the number of its last cycle.
    struct Waiting(Arc<AtomicBool>);

    impl Sink for Waiting {
        fn prepare(&mut self, _output: CycleOutput) -> Result<(), Cause> {
            Ok(())
        }
        fn commit(&mut self, _cycles: RangeInclusive<u64>) -> Result<(), Cause> {
            while !self.0.load(Ordering::Acquire) {
                std::thread::yield_now();
            }
            Err(Cause::operation("stopped"))
        }
        fn may_block(&self) -> bool {
            false
        }
        fn guarantee(&self) -> Guarantee {
            Guarantee::ExactlyOnce
        }
        fn last_committed(&mut self) -> Result<Option<u64>, Cause> {
            Ok(Some(41))
        }
        fn stopper(&self) -> Option<Box<dyn Fn() + Send + Sync>> {
            let stopped = Arc::clone(&self.0);
            Some(Box::new(move || stopped.store(true, Ordering::Release)))
        }
    }

    #[test]
    fn what_a_sink_says_about_itself_holds_behind_a_limit() {
        let (reached, waiting) = (Arc::default(), Waiting(Arc::default()));
        let mut limited: Box<dyn Sink> = Box::new(Limited::new(Box::new(waiting), 1, Arc::clone(&reached)));
        assert_eq!(limited.guarantee(), Guarantee::ExactlyOnce);
        assert_eq!(limited.last_committed().unwrap(), Some(41));
        assert!(!limited.may_block(), "it would get a thread that it does not need");

        let stop = limited.stopper().expect("the sink can be stopped");
        let commit = std::thread::spawn(move || limited.commit(0..=0));
        stop();
        assert_eq!(&*commit.join().unwrap().unwrap_err().message, "stopped");
        assert!(!reached.load(Ordering::Acquire), "nothing was committed");
    }
}
