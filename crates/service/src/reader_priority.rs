//! The priority of sessions that read: the queries that run by name go first.

use std::sync::{Mutex, PoisonError, mpsc};
use std::thread;

use tidemill_engine::{Cause, set_niceness};

use crate::Runtime;

type Work = Box<dyn FnOnce() + Send>;

/// How much readers leave to the queries that run. Threads have the niceness of the thread that starts them, so what a reader
/// starts for others is started by a thread that is no reader.
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
        // Without it, readers are as urgent as all others, which is no reason not to answer.
        if let Err(error) = set_niceness(self.niceness) {
            tracing::debug!(%error, niceness = self.niceness, "a reader keeps its priority");
        }
    }

    /// Calls `work` on another thread, which is no reader, and waits for it.
    ///
    /// # Errors
    /// If there is no thread for it, or it panics.
    pub fn run<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> Result<T, Cause> {
        let (done, result) = mpsc::sync_channel(1);
        let work = Box::new(move || drop(done.send(work())));
        let sent = self.starter.lock().unwrap_or_else(PoisonError::into_inner).send(work);
        sent.map_err(|_| Cause::bug("the thread that starts queries has ended"))?;
        result.recv().map_err(|_| Cause::resource("cannot start a thread for a query, or it panicked"))
    }
}

impl Runtime {
    /// The calling thread is one of a reader from now on, and so are those that it starts: they leave the processors to queries that
    /// run by name, as far as [`readers_niceness`](tidemill_sql::Settings::readers_niceness) says. Queries that it starts by name are no
    /// readers.
    ///
    /// ```
    /// use tidemill_service::{Runtime, Session};
    /// use tidemill_sql::Planner;
    /// let mut planner = Planner::new();
    /// planner.settings_mut().readers_niceness = 10;
    /// let runtime = Runtime::new(planner);
    /// let serve = move || {
    ///     runtime.be_reader();
    ///     Session::new(&runtime).catalog().views().len()
    /// };
    /// assert_eq!(std::thread::spawn(serve).join().unwrap(), 0);
    /// ```
    pub fn be_reader(&self) {
        if let Some(priority) = self.reader_priority() {
            priority.lower();
        }
    }

    /// Starts something that runs for all, whoever starts it.
    pub(crate) fn start_for_all<T: Send + 'static>(
        &self,
        start: impl FnOnce() -> Result<T, Cause> + Send + 'static,
    ) -> Result<T, Cause> {
        match self.reader_priority() {
            Some(priority) => priority.run(start)?,
            None => start(),
        }
    }
}
