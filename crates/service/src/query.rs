//! A query that runs by name, without anybody who waits for it.

use std::mem;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use tidemill_engine::{Cause, Recovered};
use tidemill_sql::{QueryStatus, RunningQuery, ViewHandle};

/// How often a query's thread looks whether the query has ended.
const LOOK: Duration = Duration::from_millis(5);
/// How many of these looks pass until it looks whether everything was done as it was asked for.
const LOOKS_STRICT: u32 = 10;

/// How far a query is that runs by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueryState {
    /// It takes in rows.
    Running,
    /// It has taken in everything, or was told to stop, and answers the rest.
    Ending,
    /// It has ended.
    Ended,
    /// It has failed; [`Runtime::wait`](crate::Runtime::wait) says why.
    Failed,
}

enum Life {
    /// Boxed, because it is much larger than the others.
    Running(Box<RunningQuery>),
    /// With the last status before.
    Ending(Option<QueryStatus>),
    Ended(Result<QueryStatus, Cause>),
}

/// A query that runs by name. A thread of its own waits for its end.
pub(crate) struct NamedQuery {
    life: Mutex<Life>,
    ended: Condvar,
    /// The names of its outputs.
    pub outputs: Vec<String>,
    pub views: Vec<ViewHandle>,
    pub recovered: Option<Recovered>,
    pub max_latency: Option<Duration>,
}

impl NamedQuery {
    pub fn start(
        name: &str,
        running: RunningQuery,
        outputs: Vec<String>,
        is_strict: bool,
    ) -> Result<Arc<NamedQuery>, Cause> {
        let query = Arc::new(NamedQuery {
            outputs,
            views: running.views().to_vec(),
            recovered: running.recovered().cloned(),
            max_latency: running.max_latency(),
            life: Mutex::new(Life::Running(Box::new(running))),
            ended: Condvar::new(),
        });
        let watched = Arc::clone(&query);
        let thread = thread::Builder::new().name(format!("query {name}"));
        match thread.spawn(move || watched.watch(is_strict)) {
            Ok(_) => Ok(query),
            Err(error) => {
                Err(Cause::resource(format!("no thread can be started for query '{name}': {error}")))
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Life> {
        self.life.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the end of the query, and keeps its outcome.
    fn watch(&self, is_strict: bool) {
        let mut looks = 0;
        let running = loop {
            {
                let mut life = self.lock();
                let Life::Running(running) = &*life else { return };
                if running.has_ended() {
                    let last = running.status();
                    let Life::Running(running) = mem::replace(&mut *life, Life::Ending(last)) else { return };
                    break running;
                }
                let is_due = is_strict && looks % LOOKS_STRICT == 0;
                if is_due && running.status().is_some_and(|status| !status.is_exact()) {
                    running.stop();
                }
            }
            looks += 1;
            thread::sleep(LOOK);
        };
        let outcome = running.wait().map(|(status, _)| status);
        let mut life = self.lock();
        // It may have been abandoned meanwhile.
        if let Life::Ending(_) = &*life {
            *life = Life::Ended(outcome);
        }
        drop(life);
        self.ended.notify_all();
    }

    /// Tells its sources to stop.
    pub fn stop(&self) {
        if let Life::Running(running) = &*self.lock() {
            running.stop();
        }
    }

    /// Ends it at once. Its remaining results are lost.
    pub fn abandon(&self) {
        let mut life = self.lock();
        if let Life::Ended(_) = &*life {
            return;
        }
        let cause = Cause::operation("the query was ended at once; what it had not answered is lost");
        let before = mem::replace(&mut *life, Life::Ended(Err(cause)));
        drop(life);
        // Its threads are joined without the lock.
        drop(before);
        self.ended.notify_all();
    }

    pub fn state(&self) -> QueryState {
        match &*self.lock() {
            Life::Running(_) => QueryState::Running,
            Life::Ending(_) => QueryState::Ending,
            Life::Ended(Ok(_)) => QueryState::Ended,
            Life::Ended(Err(_)) => QueryState::Failed,
        }
    }

    /// Its progress, or its last one; `None` if it has failed.
    pub fn status(&self) -> Option<QueryStatus> {
        match &*self.lock() {
            Life::Running(running) => running.status(),
            Life::Ending(last) => last.clone(),
            Life::Ended(outcome) => outcome.as_ref().ok().cloned(),
        }
    }

    /// Waits for its end, up to a time; `None` if it has not ended by then.
    pub fn wait_for(&self, time: Duration) -> Option<Result<QueryStatus, Cause>> {
        let is_going_on = |life: &mut Life| !matches!(life, Life::Ended(_));
        let waited = self.ended.wait_timeout_while(self.lock(), time, is_going_on);
        let (life, _) = waited.unwrap_or_else(PoisonError::into_inner);
        match &*life {
            Life::Ended(outcome) => Some(outcome.clone()),
            _ => None,
        }
    }
}
