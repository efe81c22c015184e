//! Before a view gets other options, it has what came before.

use std::thread;

use tidemill_engine::Cause;

use crate::backoff::Backoff;
use crate::lifecycle::replacement::{LOOK_MAX, stays};
use crate::runtime::query::NamedQuery;
use crate::{QueryState, Runtime};

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
    // Whoever has no backoff any more gets the cycles since its last snapshot computed again.
    while old.wait_for(LOOK_MAX).is_none() && !is_cancelled() {}
    Ok(())
}
