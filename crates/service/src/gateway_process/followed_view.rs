//! A view of this gateway, for a subscriber in its server.

use std::time::UNIX_EPOCH;

use tidemill_engine::Cause;
use tidemill_sql::{ViewChanges, ViewHandle};
use tidemill_store::remote::{Changes, FollowPosition, ViewFollower};

use crate::Runtime;
use crate::runtime::subscription::{Future, failed, gone};

/// Follows a view as a subscriber of this process would.
pub(super) struct FollowedView {
    runtime: Runtime,
    view: ViewHandle,
    changes: ViewChanges,
    history: u64,
}

impl FollowedView {
    /// Follows a view from its rows, or from a place on. `own_history` is that of this process.
    pub fn new(
        runtime: &Runtime,
        name: &str,
        after: Option<FollowPosition>,
        own_history: u64,
    ) -> Result<FollowedView, Cause> {
        let view = runtime.running_view(name);
        let view = view.ok_or_else(|| Cause::operation(format!("view '{name}' does not run there")))?;
        let history = runtime.lasting_history(name).unwrap_or(own_history);
        let changes = match after {
            None => view.changes(),
            Some(place) if place.history == history => view.changes_after(place.cycle),
            Some(_) if runtime.is_lasting(name) => return Err(has_other_history(name)),
            Some(_) => return Err(has_begun_again(name)),
        };
        Ok(FollowedView { runtime: runtime.clone(), view, changes, history })
    }
}

impl ViewFollower for FollowedView {
    fn next_changes(&mut self) -> Result<Changes, Cause> {
        // Before the last look at the rows: what came until the end is given.
        let future = self.runtime.future_of(&self.view);
        let rows = self.changes.next_rows()?;
        let is_over = match future {
            _ if rows.is_some() => false,
            Future::Open => false,
            Future::Over => true,
            Future::Gone => return Err(gone(self.view.name())),
            Future::Failed(cause) => return Err(failed(self.view.name(), cause)),
        };
        let place = self.changes.given().map(|cycle| FollowPosition { history: self.history, cycle });
        Ok(Changes { rows, place, is_over })
    }
}

impl Runtime {
    /// What tells the cycles of a view from those of another history: when its journal was made. `None`: a later process does not
    /// continue them, or the file system does not say that time.
    fn lasting_history(&self, view: &str) -> Option<u64> {
        let journal = self.clock().journal_folder().filter(|_| self.is_lasting(view))?;
        let created = journal.metadata().and_then(|metadata| metadata.created()).ok()?;
        let created = created.duration_since(UNIX_EPOCH).ok()?;
        u64::try_from(created.as_nanos()).ok()
    }

    /// Whether a later process continues the cycles of a view.
    fn is_lasting(&self, view: &str) -> bool {
        self.query_of_output(view).flatten().is_some_and(|query| self.has_state(&query))
    }
}

fn has_other_history(name: &str) -> Cause {
    Cause::operation(format!(
        "its process was started again, and when the journal of view '{name}' was made is another time, or the file \
         system does not say it; so its cycles may be others than before. SUBSCRIBE TO it again for the rows that it \
         has now"
    ))
}

fn has_begun_again(name: &str) -> Cause {
    Cause::operation(format!(
        "its process was started again, and view '{name}' began again with it, because its sources are not durable; \
         SUBSCRIBE TO it again for the rows that it has now, or let its sources keep theirs: durable = true"
    ))
}
