//! The priority of sessions that read: the queries that run by name go first.

use std::sync::mpsc;
use std::thread;

use parking_lot::Mutex;
use tidemill_engine::{Cause, set_niceness};

type Work = Box<dyn FnOnce() + Send>;

/// How much readers leave to the queries that run. Threads have the niceness of the thread that starts them, so what a reader
/// starts for others is started by another thread.
pub(crate) struct ReaderPriority {
    niceness: u8,
    starter: Mutex<mpsc::Sender<Work>>,
}

impl ReaderPriority {
    /// What [`run`](ReaderPriority::run) calls has the niceness of the calling thread. `None`: readers are as urgent as all others, because
    /// that is wanted or there is no thread for it.
    pub fn new(niceness: u8) -> Option<ReaderPriority> {
        if niceness == 0 {
            return None;
        }
        let (starter, works) = mpsc::channel::<Work>();
        let start = move || {
            for work in works {
                // Each has a thread of its own: one that waits for another server must not keep others from starting. If there is none
                // left, `work` is dropped, and whoever waits for it hears of that.
                let _ = thread::Builder::new().name("start of a query".into()).spawn(work);
            }
        };
        let spawned = thread::Builder::new().name("starter".into()).spawn(start);
        spawned.is_ok().then(|| ReaderPriority { niceness, starter: Mutex::new(starter) })
    }

    /// Lets the calling thread be a reader, and what it starts from now on.
    pub fn lower(&self) {
        // Without it, readers are as urgent as all others, and must still be answered.
        if let Err(error) = set_niceness(self.niceness) {
            tracing::debug!(%error, niceness = self.niceness, "a reader keeps its priority");
        }
    }

    /// Calls `work` on another thread, with the priority that readers do not have, and waits for it.
    ///
    /// # Errors
    /// If there is no thread for it, or it panics.
    pub fn run<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> Result<T, Cause> {
        let (done, result) = mpsc::sync_channel(1);
        let work = Box::new(move || drop(done.send(work())));
        let sent = self.starter.lock().send(work);
        sent.map_err(|_| Cause::bug("the thread that starts queries has ended"))?;
        result.recv().map_err(|_| Cause::resource("cannot start a thread for a query, or it panicked"))
    }
}
