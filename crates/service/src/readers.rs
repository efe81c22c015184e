//! Sessions that read tables and materialized views take turns.

use std::time::Duration;

use tidemill_engine::Cause;
use tidemill_sql::{ReaderTurn, ReaderTurns, Turn, Turns};

use crate::Cancellation;

/// The longest that a query waits for its beginning.
const WAIT_MAX: Duration = Duration::from_secs(30);

/// The turns of a database's readers: as many compute at a time as there are processors.
pub(crate) fn reader_turns() -> ReaderTurns {
    ReaderTurns::new(std::thread::available_parallelism().map_or(2, usize::from), WAIT_MAX)
}

/// The cancellations of a session that count for a query.
struct Asked {
    cancellation: Cancellation,
    requests: u32,
}

impl Asked {
    fn is_cancelled(&self) -> bool {
        self.cancellation.requests() > self.requests
    }
}

/// The turns of a session's queries.
pub(crate) struct SessionTurns {
    pub readers: ReaderTurns,
    pub cancellation: Cancellation,
}

impl Turns for SessionTurns {
    fn begin(&self) -> Result<Box<dyn Turn>, Cause> {
        let (cancellation, requests) = (self.cancellation.clone(), self.cancellation.requests());
        let asked = Asked { cancellation, requests };
        let turn = self.readers.begin(&mut || asked.is_cancelled())?;
        Ok(Box::new(SessionTurn { turn, asked }))
    }
}

struct SessionTurn {
    turn: ReaderTurn,
    asked: Asked,
}

impl Turn for SessionTurn {
    fn go_on(&mut self) -> Result<(), Cause> {
        if self.asked.is_cancelled() {
            return Err(Cause::operation("the query was cancelled"));
        }
        self.turn.go_on(&mut || self.asked.is_cancelled())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_ends_at_its_next_pause_once_it_is_cancelled() {
        let turns = SessionTurns { readers: reader_turns(), cancellation: Cancellation::default() };
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
}
