//! Sessions that read tables and materialized views take turns.

use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Mutex, MutexGuard};
use tidemill_engine::Cause;
use tidemill_sql::{ReaderTurn, ReaderTurns, Statement, StatementKind, Turn, Turns};

use crate::Cancellation;
use crate::runtime::cancellation::StatementCancellation;
use crate::runtime::reader_priority::ReaderPriority;

/// The longest that a query waits for its beginning.
const WAIT_MAX: Duration = Duration::from_secs(30);

/// What is planned and computed for longer than this is long.
const LONG: Duration = Duration::from_millis(4);

/// What is called when a query turns out to be long.
pub(crate) type LongHook = Arc<dyn Fn() + Send + Sync>;

/// What the readers of a database share.
pub(crate) struct Readers {
    pub turns: ReaderTurns,
    /// `None`: they are as urgent as all others.
    pub priority: Option<ReaderPriority>,
}

impl Readers {
    pub fn new(niceness: u8) -> Readers {
        Readers { turns: reader_turns(), priority: ReaderPriority::new(niceness) }
    }
}

/// The turns of a database's readers: as many compute at a time as there are processors.
fn reader_turns() -> ReaderTurns {
    ReaderTurns::new(std::thread::available_parallelism().map_or(2, usize::from), WAIT_MAX)
}

/// The turns of a session's queries.
pub(crate) struct SessionTurns {
    readers: ReaderTurns,
    cancellation: Cancellation,
    /// The turn of a query that is being planned.
    planned: Mutex<Option<SessionTurn>>,
    when_long: Mutex<Option<LongHook>>,
    /// How often the session had been cancelled when its statement came; `None`: a query counts from its own beginning.
    cancelled_before: Mutex<Option<u32>>,
}

impl SessionTurns {
    pub fn new(readers: ReaderTurns, cancellation: Cancellation) -> SessionTurns {
        let (planned, when_long, cancelled_before) = Default::default();
        SessionTurns { readers, cancellation, planned, when_long, cancelled_before }
    }

    /// Waits until a query may be planned. What is computed for it at once has the same turn. To plan a query that reads few
    /// rows takes longer than to read them: without turns, a thousand clients would plan at the same time, and the stream
    /// would share the processors with all of them.
    ///
    /// # Errors
    /// If the query is cancelled meanwhile, or has waited too long.
    pub fn begin_planning(&self) -> Result<Planning<'_>, Cause> {
        let turn = self.turn()?;
        *self.planned() = Some(turn);
        Ok(Planning(self))
    }

    fn turn(&self) -> Result<SessionTurn, Cause> {
        let cancellation = self.of_statement();
        let turn = self.readers.begin(&mut || cancellation.is_cancelled())?;
        let when_long = self.when_long().clone();
        Ok(SessionTurn { turn, cancellation, since: Instant::now(), when_long })
    }

    fn of_statement(&self) -> StatementCancellation {
        let before = *self.cancelled_before.lock();
        before.map_or_else(
            || self.cancellation.of_statement(),
            |before| self.cancellation.of_statement_after(before),
        )
    }

    /// How many requests to cancel the statement that is executed ignores.
    pub fn cancelled_before(&self) -> u32 {
        self.cancelled_before.lock().unwrap_or_else(|| self.cancellation.requests())
    }

    /// From now on, queries ignore the first `requests` requests to cancel, and no others.
    pub fn count_cancellations_after(&self, requests: u32) {
        *self.cancelled_before.lock() = Some(requests);
    }

    /// What is called once for each query that is long, from now on.
    pub fn set_when_long(&self, hook: Option<LongHook>) {
        *self.when_long() = hook;
    }

    fn when_long(&self) -> MutexGuard<'_, Option<LongHook>> {
        self.when_long.lock()
    }

    fn planned(&self) -> MutexGuard<'_, Option<SessionTurn>> {
        self.planned.lock()
    }
}

/// A query is being planned. When it is dropped, so is the turn, unless something is computed in it.
pub(crate) struct Planning<'a>(&'a SessionTurns);

impl Drop for Planning<'_> {
    fn drop(&mut self) {
        drop(self.0.planned().take());
    }
}

/// Waits until a query may be planned; other statements need no turn.
pub(crate) fn planning<'a>(
    turns: &'a SessionTurns,
    statement: &Statement,
) -> Result<Option<Planning<'a>>, Cause> {
    match statement.kind {
        StatementKind::Query(..) => turns.begin_planning().map(Some),
        _ => Ok(None),
    }
}

impl Turns for SessionTurns {
    fn begin(&self) -> Result<Box<dyn Turn>, Cause> {
        let planned = self.planned().take();
        Ok(Box::new(planned.map_or_else(|| self.turn(), Ok)?))
    }

    fn resume(&self) -> Result<Box<dyn Turn>, Cause> {
        Ok(Box::new(ResumedTurn(self.of_statement())))
    }

    fn go_on(&self) -> Result<(), Cause> {
        match &mut *self.planned() {
            Some(turn) => turn.go_on(),
            None => ResumedTurn(self.of_statement()).go_on(),
        }
    }
}

/// The turn of a query that waits for nobody any more.
struct ResumedTurn(StatementCancellation);

impl Turn for ResumedTurn {
    fn go_on(&mut self) -> Result<(), Cause> {
        if self.0.is_cancelled() { Err(Cause::operation("the query was cancelled")) } else { Ok(()) }
    }
}

struct SessionTurn {
    turn: ReaderTurn,
    cancellation: StatementCancellation,
    since: Instant,
    when_long: Option<LongHook>,
}

impl Turn for SessionTurn {
    fn go_on(&mut self) -> Result<(), Cause> {
        if self.cancellation.is_cancelled() {
            return Err(Cause::operation("the query was cancelled"));
        }
        if self.when_long.is_some()
            && self.since.elapsed() >= LONG
            && let Some(hook) = self.when_long.take()
        {
            hook();
        }
        self.turn.go_on(&mut || self.cancellation.is_cancelled())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_ends_at_its_next_pause_once_it_is_cancelled() {
        let turns = SessionTurns::new(reader_turns(), Cancellation::default());
        turns.cancellation.request();
        // A request from before counts for nothing.
        let mut turn = turns.begin().unwrap_or_else(|cause| panic!("{cause}"));
        assert_eq!(turn.go_on(), Ok(()));
        turns.cancellation.request();
        assert_eq!(
            turn.go_on().map_err(|cause| cause.to_string()),
            Err("the query was cancelled".to_owned())
        );
        drop(turn);
        assert_eq!(turns.readers.count(), (0, 0));
    }

    #[test]
    fn what_was_cancelled_before_its_turn_does_not_begin() {
        let turns = SessionTurns::new(ReaderTurns::new(1, WAIT_MAX), Cancellation::default());
        turns.cancellation.request();
        turns.count_cancellations_after(1);
        let first = turns.begin().unwrap_or_else(|cause| panic!("{cause}"));
        turns.cancellation.request();
        let cause = turns.begin().err().map(|cause| cause.to_string());
        assert_eq!(cause.as_deref(), Some("the query was cancelled"));
        drop(first);
    }

    #[test]
    fn it_is_told_once_that_a_query_is_long() {
        let turns = SessionTurns::new(reader_turns(), Cancellation::default());
        let (long, said) = std::sync::mpsc::channel();
        turns.set_when_long(Some(Arc::new(move || long.send(()).unwrap())));
        let mut turn = turns.begin().unwrap_or_else(|cause| panic!("{cause}"));
        for _ in 0..3 {
            std::thread::sleep(LONG);
            turn.go_on().unwrap_or_else(|cause| panic!("{cause}"));
        }
        assert_eq!(said.try_iter().count(), 1);
    }

    #[test]
    fn a_query_is_planned_and_computed_in_one_turn() {
        let turns = SessionTurns::new(ReaderTurns::new(1, WAIT_MAX), Cancellation::default());
        let computing = || turns.readers.count().0;
        let planning = turns.begin_planning().unwrap_or_else(|cause| panic!("{cause}"));
        assert_eq!(computing(), 1);
        let turn = turns.begin().unwrap_or_else(|cause| panic!("{cause}"));
        assert_eq!(computing(), 1);
        drop(turn);
        // A second part of the query, such as a subquery, has a turn of its own.
        let turn = turns.begin().unwrap_or_else(|cause| panic!("{cause}"));
        assert_eq!(computing(), 1);
        drop((turn, planning));
        assert_eq!(computing(), 0);
        // Nothing may be computed in it: the query reads a stream, or is wrong.
        drop(turns.begin_planning());
        assert_eq!(computing(), 0);
    }
}
