//! Waits until a query that replaces another one, or is replaced, has what came before.

use std::thread;
use std::time::Duration;

use tidemill_engine::Cause;

use crate::backoff::Backoff;
use crate::runtime::query::NamedQuery;
use crate::{QueryState, Runtime};

/// That a new query has caught up is noticed at most this late.
const LOOK_MAX: Duration = Duration::from_millis(20);

/// Lets a query that runs get every cycle that was closed by now, and then end in order, so that its rows are kept as they are after the
/// last one. If the next query computed these cycles, with a shorter `retain` for example, `AS OF` one of them would show other rows
/// than before.
///
/// # Errors
/// If the statement is cancelled, or the runtime is closed, before the query ends.
pub(super) fn end_behind_newest(
    runtime: &Runtime,
    old: &NamedQuery,
    name: &str,
    is_cancelled: &dyn Fn() -> bool,
) -> Result<(), Cause> {
    // A query with cycles of its own has nothing to do with those of the database.
    let newest = runtime.clock().cycle().filter(|_| old.position.is_some());
    let backoff = Backoff::up_to(LOOK_MAX);
    while old.state() == QueryState::Running && old.report(name).cycle < newest {
        if is_cancelled() {
            return Err(stays(name, "the statement was cancelled before it had caught up"));
        }
        thread::sleep(backoff.wait());
    }
    old.close();
    // If the statement is cancelled now, the cycles since its last snapshot are computed again.
    while old.wait_for(LOOK_MAX).is_none() && !is_cancelled() {}
    Ok(())
}

/// Waits until a query has everything that another one has; if it `is_finite`, until it has ended.
pub(super) fn wait_for(
    new: &NamedQuery,
    old: &NamedQuery,
    name: &str,
    is_finite: bool,
    is_cancelled: &dyn Fn() -> bool,
) -> Result<(), Cause> {
    let backoff = Backoff::up_to(LOOK_MAX);
    loop {
        if is_cancelled() {
            return Err(stays(name, "the statement was cancelled before the new query had caught up"));
        }
        let report = new.report(name);
        let is_there = match (report.state, old.state()) {
            (Some(QueryState::Failed), _) => {
                let problem = report.problem.unwrap_or_default();
                return Err(stays(name, &format!("the new query has failed: {problem}")));
            }
            (Some(QueryState::Ended), _) => true,
            _ if is_finite => false,
            (_, QueryState::Running) => report.cycle >= old.report(name).cycle,
            _ => report.lag.cycles == 0,
        };
        if is_there {
            return Ok(());
        }
        thread::sleep(backoff.wait());
    }
}

/// Nothing has changed.
pub(super) fn stays(name: &str, why: &str) -> Cause {
    Cause::operation(format!("'{name}' is not replaced, and continues as it was: {why}"))
}
