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
        if self.phase != Phase::Running {
            return self.phase;
        }
        if self.running.has_ended() {
            self.phase = Phase::TakenIn;
            return self.phase;
        }
        if self.cancellation.requests() > self.followed {
            self.followed += 1;
            match self.is_interrupted {
                true => self.phase = Phase::Abandoned,
                false => {
                    self.is_interrupted = true;
                    self.running.stop();
                }
            }
        }
        if self.is_strict && self.running.status().is_some_and(|status| !status.is_exact()) {
            self.is_strict = false;
            self.running.stop();
        }
        self.phase
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
        let Execution { running, cancellation, followed, is_interrupted, phase, .. } = self;
        if phase == Phase::Abandoned {
            return Ok(QueryEnd::Abandoned);
        }
        // On its own thread, because the wait itself cannot be interrupted.
        let waiting = thread::Builder::new().name("last results".into()).spawn(move || running.wait());
        let waiting = waiting.map_err(|error| Cause::resource(format!("cannot start a thread: {error}")))?;
        while !waiting.is_finished() {
            look();
            if cancellation.requests() > followed {
                return Ok(QueryEnd::Abandoned);
            }
            thread::sleep(LOOK);
        }
        let ended = waiting.join().unwrap_or_else(|_| Err(Cause::bug("the query's thread panicked")));
        let (status, answer) = ended?;
        Ok(QueryEnd::Finished { status: Box::new(status), answer, is_interrupted })
    }
}
