//! A pool of the catalogue: how it is set up, and the running one that queries share.

use std::sync::{Arc, Mutex, PoisonError, Weak};

use tidemill_engine::{Cause, Pool, PoolObserver, PoolSettings, PoolStatus};

/// A defined pool. It runs while a query runs in it.
#[derive(Debug)]
pub(crate) struct PoolDefinition {
    pub settings: PoolSettings,
    running: Mutex<(Weak<Pool>, Option<PoolObserver>)>,
}

impl PoolDefinition {
    pub fn new(settings: PoolSettings) -> Self {
        PoolDefinition { settings, running: Mutex::default() }
    }

    /// The running pool: that of another query, if there is one.
    ///
    /// # Errors
    /// If it cannot get what it asks for.
    pub fn start(&self) -> Result<Arc<Pool>, Cause> {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(pool) = running.0.upgrade() {
            return Ok(pool);
        }
        let pool = Pool::start(self.settings.clone());
        let pool = pool.map_err(|error| Cause::user(error.to_string()).with_source(error))?;
        *running = (Arc::downgrade(&pool), Some(pool.observer()));
        Ok(pool)
    }

    /// What it has done since it last started; `None` if no query has run in it yet.
    pub fn status(&self) -> Option<PoolStatus> {
        let running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        running.1.as_ref().map(PoolObserver::status)
    }
}
