//! A pool of the catalogue: how it is set up, and the running one that queries share.

use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use tidemill_engine::{Cause, Pool, PoolObserver, PoolSettings, PoolStatus};
use tracing::warn;

/// A defined pool. It runs while a query runs in it.
#[derive(Debug)]
pub(crate) struct PoolDefinition {
    pub settings: PoolSettings,
    running: Mutex<Running>,
}

#[derive(Debug, Default)]
struct Running {
    pool: Weak<Pool>,
    observer: Option<PoolObserver>,
    /// What is missing and was logged.
    logged: Vec<String>,
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
        let mut running = self.running.lock();
        if let Some(pool) = running.pool.upgrade() {
            return Ok(pool);
        }
        let pool = Pool::start(self.settings.clone());
        let pool = pool.map_err(|error| Cause::user(error.to_string()).with_source(error))?;
        (running.pool, running.observer) = (Arc::downgrade(&pool), Some(pool.observer()));
        running.log_missing(&self.settings.name, pool.status().missing);
        Ok(pool)
    }

    /// What it has done since it last started; `None` if no query has run in it yet.
    pub fn status(&self) -> Option<PoolStatus> {
        let running = self.running.lock();
        running.observer.as_ref().map(PoolObserver::status)
    }
}

impl Running {
    /// A pool starts again and again; what it does not get is logged once.
    fn log_missing(&mut self, pool: &str, missing: Vec<String>) {
        for reason in missing {
            if !self.logged.contains(&reason) {
                warn!("pool '{pool}' runs without what it asked for: {reason}");
                self.logged.push(reason);
            }
        }
    }
}
