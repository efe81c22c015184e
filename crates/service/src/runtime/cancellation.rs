//! Asks a session's current query to end, from any thread.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// Cancels what a session waits for. Clones belong to the same session.
///
/// ```
/// use tidemill_service::Cancellation;
/// let cancellation = Cancellation::default();
/// assert_eq!(cancellation.requests(), 0);
/// cancellation.clone().request();
/// assert_eq!(cancellation.requests(), 1);
/// ```
#[derive(Clone, Debug, Default)]
pub struct Cancellation {
    requests: Arc<AtomicU32>,
}

impl Cancellation {
    /// Asks once. The first request lets a query answer what it has taken in; the second one ends it at once.
    pub fn request(&self) {
        self.requests.fetch_add(1, Ordering::SeqCst);
    }

    /// The number of requests since the session was opened. A query counts the requests from its own start.
    pub fn requests(&self) -> u32 {
        self.requests.load(Ordering::SeqCst)
    }

    /// For a statement that begins now.
    pub(crate) fn of_statement(&self) -> StatementCancellation {
        self.of_statement_after(self.requests())
    }

    /// For a statement for which the requests count that came after these.
    pub(crate) fn of_statement_after(&self, requests: u32) -> StatementCancellation {
        StatementCancellation { cancellation: self.clone(), requests }
    }
}

/// The requests of a session that count for one statement: those since it began.
#[derive(Clone, Debug)]
pub(crate) struct StatementCancellation {
    cancellation: Cancellation,
    /// How many there were before.
    requests: u32,
}

impl StatementCancellation {
    pub fn is_cancelled(&self) -> bool {
        self.cancellation.requests() > self.requests
    }
}
