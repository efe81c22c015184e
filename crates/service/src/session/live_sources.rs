//! Queries of sessions over sources whose rows come once: they see the rows beside the queries that run, or open the source if
//! they may.

use tidemill_engine::Cause;
use tidemill_sql::Prepared;

use crate::runtime::planned_query::Query;
use crate::{Error, Session};

/// Returns a planned query, which can be started.
///
/// # Errors
/// If it would open a source that the session may not open.
pub(super) fn query(session: &Session, prepared: Prepared) -> Result<Query, Error> {
    let (cancellation, unread) = (session.cancellation(), session.unread_rows());
    let live = prepared.live_sources(session.runtime().clock());
    let unopened = live.iter().find(|(_, is_read)| !is_read).map(|(name, _)| *name);
    if let Some(name) = unopened.filter(|_| !session.opens_sources()) {
        return Err(Error::NotAllowed(may_not_open(name)));
    }
    let shared: Vec<&str> = live.iter().filter(|(_, is_read)| *is_read).map(|(name, _)| *name).collect();
    let notice = (!shared.is_empty()).then(|| {
            format!(
                "the rows of {} go to the queries that run; this one sees those that come from now on, beside them",
                shared.join(", ")
            )
        });
    let clock = notice.is_some().then(|| session.runtime().clock().clone());
    Ok(Query { prepared, cancellation, unread, is_strict: session.is_strict(), clock, notice })
}

fn may_not_open(source: &str) -> Cause {
    Cause::user(format!(
        "only an owner may open source '{source}': nothing reads it, and its rows would be taken from whatever is to \
         read them. Ask for a MATERIALIZED VIEW over it, and read that"
    ))
}
