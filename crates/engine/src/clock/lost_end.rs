//! That the end of a source's journal is lost, proven by a query which has committed what is not there any more. Other queries
//! that read the source have not come so far, and would run as if nothing had happened.

use std::collections::BTreeSet;

use parking_lot::Mutex;
use tidemill_core::error::Cause;

/// What was proven.
#[derive(Default)]
pub(super) struct LostEnds(Mutex<Vec<LostEnd>>);

struct LostEnd {
    /// The places of the sources of the query that proves it.
    sources: BTreeSet<usize>,
    query: String,
    reason: String,
}

impl LostEnds {
    /// A query has committed cycles that the journal does not have. It reads these sources.
    pub fn prove(&self, query: &str, sources: impl IntoIterator<Item = usize>, cause: &Cause) {
        let sources = sources.into_iter().collect();
        let (query, reason) = (query.to_owned(), cause.to_string());
        self.0.lock().push(LostEnd { sources, query, reason });
    }

    /// Refuses a query that reads one of these sources, if a query has proven that the end of one of them is lost.
    pub fn check(&self, sources: impl IntoIterator<Item = usize>) -> Result<(), Cause> {
        let lost = self.0.lock();
        let mut sources = sources.into_iter();
        match sources.find_map(|source| lost.iter().find(|lost| lost.sources.contains(&source))) {
            None => Ok(()),
            Some(LostEnd { query, reason, .. }) => Err(Cause::operation(format!(
                "it reads a source of '{query}', which proves that the end of the journal is lost, so rows that \
                 senders were told are safe would be missing here, too: {reason}"
            ))),
        }
    }

    /// A query does not prove anything any more.
    pub fn forget(&self, query: &str) {
        self.0.lock().retain(|lost| lost.query != query);
    }
}
