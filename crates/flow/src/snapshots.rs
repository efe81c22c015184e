//! Snapshots of a running query, requested from any thread.

use std::sync::Arc;

use tidemill_core::error::Cause;
use tidemill_core::snapshot::Snapshot;

use crate::error::{Failure, FlowError};
use crate::run_state::RunState;

/// Requests snapshots of a running query.
#[derive(Clone)]
pub struct Snapshots {
    run_state: Arc<RunState>,
    parts: usize,
}

impl Snapshots {
    pub(crate) fn new(run_state: &Arc<RunState>, parts: usize) -> Snapshots {
        Snapshots { run_state: Arc::clone(run_state), parts }
    }

    /// See [`Running::snapshot`](crate::Running::snapshot).
    ///
    /// # Errors
    /// If the query has ended, or stops before the snapshot is complete.
    pub fn take(&self) -> Result<Snapshot, FlowError> {
        let snapshot = self.run_state.take_snapshot(self.parts);
        snapshot.ok_or_else(|| self.run_state.failure().unwrap_or_else(ended_before_snapshot).into())
    }

    /// The state at the end of the last cycle, once the query has ended and if its settings request it. Can be taken
    /// once.
    pub fn of_end(&self) -> Option<Snapshot> {
        self.run_state.snapshots.take_end()
    }

    /// Stops the query.
    pub fn fail(&self, part: &str, cause: Cause) {
        self.run_state.fail(Failure::Engine { part: part.into(), cause });
    }
}

fn ended_before_snapshot() -> Failure {
    let cause = Cause::user(
        "the query has ended and its state is gone; take the snapshot before its last gateway is dropped",
    );
    Failure::Engine { part: "snapshot".into(), cause }
}
