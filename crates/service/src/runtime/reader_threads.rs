//! Threads of readers, and threads of what runs for all.

use tidemill_engine::Cause;

use crate::Runtime;

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
    ///     Session::new(&runtime).catalog().has_pipeline()
    /// };
    /// assert!(!std::thread::spawn(serve).join().unwrap(), "no query runs yet");
    /// ```
    pub fn be_reader(&self) {
        if let Some(priority) = &self.readers().priority {
            priority.lower();
        }
    }

    /// Starts something that runs for all, whoever starts it.
    pub(crate) fn start_for_all<T: Send + 'static>(
        &self,
        start: impl FnOnce() -> Result<T, Cause> + Send + 'static,
    ) -> Result<T, Cause> {
        match &self.readers().priority {
            Some(priority) => priority.run(start)?,
            None => start(),
        }
    }
}
