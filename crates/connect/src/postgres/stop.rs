//! Ends a wait from another thread.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Ends a sink's wait for a server that does not answer, from another thread.
#[derive(Clone, Debug, Default)]
pub struct PostgresStop(Arc<AtomicBool>);

impl PostgresStop {
    /// The waiting commit fails, and so does each later one.
    pub fn stop(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}
