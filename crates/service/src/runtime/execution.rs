//! A query that a session waits for.

use std::thread;
use std::time::Duration;

use tidemill_engine::Cause;
use tidemill_engine::arrow::array::RecordBatch;
use tidemill_sql::{QueryStatus, RunningQuery};

use crate::Cancellation;

/// How often a wait looks whether it was cancelled.
const LOOK: Duration = Duration::from_millis(1);

/// How far a query is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// It takes in rows.
    Running,
    /// It has taken in everything, or was asked to stop; [`Execution::finish`] waits for its last results.
    TakenIn,
    /// Nobody waits for its remaining results; [`Execution::finish`] ends it at once.
    Abandoned,
}

/// How a query ended.
pub enum QueryEnd {
    /// With its last status, and with its answer if that comes at the end.
    Finished {
        /// The last status.
        status: Box<QueryStatus>,
        /// The answer, if the query has no outputs.
        answer: Option<RecordBatch>,
        /// Whether it was asked to stop before its input ended.
        is_interrupted: bool,
    },
    /// At once, on request. Its remaining results are lost.
    Abandoned,
}

/// A running query, whose caller waits for it. Dropping it ends the query at once.
///
/// See [`Query::start`](crate::Query::start).
pub struct Execution {
    running: RunningQuery,
    cancellation: Cancellation,
    /// The requests that were there before it began, or were followed.
    followed: u32,
    is_interrupted: bool,
    phase: Phase,
    /// Whether it is to stop at what cannot be done as it was asked for.
    is_strict: bool,
}

impl Execution {
    pub(crate) fn new(running: RunningQuery, cancellation: Cancellation, is_strict: bool) -> Execution {
        let followed = cancellation.requests();
        Execution { running, cancellation, followed, is_interrupted: false, phase: Phase::Running, is_strict }
    }

    /// The running query.
    pub fn running(&self) -> &RunningQuery {
        &self.running
    }

    /// Whether it was asked to stop before its input ended.
    pub fn is_interrupted(&self) -> bool {
        self.is_interrupted
    }

    /// Follows requests to stop, and says how far it is. Call it every few milliseconds.
    pub fn advance(&mut self) -> Phase {
        if self.phase == Phase::TakenIn && self.is_given_up() {
            self.phase = Phase::Abandoned;
        }
        if self.phase != Phase::Running {
            return self.phase;
        }
        if self.running.has_ended() {
            self.phase = Phase::TakenIn;
            return self.phase;
        }
        if self.is_given_up() {
            self.followed += 1;
            if self.is_interrupted {
                self.phase = Phase::Abandoned
            } else {
                self.is_interrupted = true;
                self.running.stop();
            }
        }
        if self.is_strict && self.running.status().is_some_and(|status| !status.is_exact()) {
            self.is_strict = false;
            self.running.stop();
        }
        self.phase
    }

    /// Whether there was another request since the last one that was followed.
    fn is_given_up(&self) -> bool {
        self.cancellation.requests() > self.followed
    }

    /// Waits until there is nothing to wait for but the answer, if it comes at the end; at most for some time. Returns whether that is so.
    pub(crate) fn wait_for_end(&self, time_max: Duration) -> bool {
        self.running.wait_for_end(time_max)
    }

    /// Waits for the end, and computes the answer if it comes then; a cancellation ends that, too.
    pub(crate) fn end(self) -> Result<QueryEnd, Cause> {
        if self.phase == Phase::Abandoned || self.is_given_up() {
            return Ok(QueryEnd::Abandoned);
        }
        let Execution { running, is_interrupted, .. } = self;
        let (status, answer) = running.wait()?;
        Ok(QueryEnd::Finished { status: Box::new(status), answer, is_interrupted })
    }

    /// Waits for the last results, unless it is asked to end at once meanwhile.
    ///
    /// # Errors
    /// Why the query failed.
    pub fn finish(self) -> Result<QueryEnd, Cause> {
        self.finish_while(|| {})
    }

    /// As [`finish`](Execution::finish). `look` is called every millisecond, and may request the cancellation.
    ///
    /// # Errors
    /// As `finish`.
    pub fn finish_while(self, mut look: impl FnMut()) -> Result<QueryEnd, Cause> {
        if self.phase == Phase::Abandoned {
            return Ok(QueryEnd::Abandoned);
        }
        let (cancellation, followed) = (self.cancellation.clone(), self.followed);
        let mut is_given_up = || {
            look();
            cancellation.requests() > followed
        };
        while !self.wait_for_end(LOOK) {
            if is_given_up() {
                return Ok(QueryEnd::Abandoned);
            }
        }
        if !self.running.is_answered_at_end() {
            return self.end();
        }
        // On its own thread: this one looks meanwhile.
        let waiting = thread::Builder::new().name("last results".into()).spawn(move || self.end());
        let waiting = waiting.map_err(|error| Cause::resource(format!("cannot start a thread: {error}")))?;
        while !waiting.is_finished() {
            if is_given_up() {
                return Ok(QueryEnd::Abandoned);
            }
            thread::sleep(LOOK);
        }
        waiting.join().unwrap_or_else(|_| Err(Cause::bug("the query's thread panicked")))
    }
}
