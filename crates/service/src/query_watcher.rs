//! One thread that notices the ends of all queries of a database.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex, MutexGuard};
use tidemill_engine::Cause;

use crate::backoff::Backoff;

/// What is done when a query has ended.
pub(crate) type Completion = Box<dyn FnOnce() + Send>;

/// What a look at a query finds.
pub(crate) enum Looked {
    GoesOn,
    /// It has ended, and this is left to do, if anything is.
    Over(Option<Completion>),
}

/// Looks at queries until they have ended. Its thread ends with the last of them.
#[derive(Clone, Default)]
pub(crate) struct QueryWatcher(Arc<Shared>);

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    watched: Vec<Watched>,
    has_thread: bool,
}

struct Watched {
    look: Box<dyn FnMut() -> Looked + Send>,
    /// The longest wait between two looks.
    longest: Duration,
    backoff: Backoff,
    due: Instant,
}

impl Watched {
    fn look_soon(&mut self) {
        (self.backoff, self.due) = (Backoff::new(), Instant::now());
    }
}

impl QueryWatcher {
    /// Calls `look` now and then, at least this often, until it is over; then does what is left to do on a thread of its own.
    ///
    /// # Errors
    /// If there is no thread to watch.
    pub fn watch(
        &self,
        longest: Duration,
        look: impl FnMut() -> Looked + Send + 'static,
    ) -> Result<(), Cause> {
        let mut state = self.0.lock();
        if !state.has_thread {
            let shared = Arc::clone(&self.0);
            let thread = thread::Builder::new().name("watch queries".into());
            thread.spawn(move || shared.run()).map_err(|error| {
                Cause::resource(format!("cannot start a thread for queries: {error}")).with_source(error)
            })?;
            state.has_thread = true;
        }
        let (backoff, due) = (Backoff::new(), Instant::now());
        state.watched.push(Watched { look: Box::new(look), longest, backoff, due });
        drop(state);
        self.0.changed.notify_all();
        Ok(())
    }

    /// Looks at all queries soon: one of them was told to end.
    pub fn look_soon(&self) {
        self.0.lock().watched.iter_mut().for_each(Watched::look_soon);
        self.0.changed.notify_all();
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    fn run(&self) {
        let mut state = self.lock();
        loop {
            let over = state.look();
            if !over.is_empty() {
                drop(state);
                over.into_iter().for_each(complete);
                state = self.lock();
                continue;
            }
            let Some(due) = state.watched.iter().map(|watched| watched.due).min() else {
                state.has_thread = false;
                return;
            };
            let wait = due.saturating_duration_since(Instant::now());
            self.changed.wait_for(&mut state, wait);
        }
    }
}

impl State {
    /// Looks at those that are due. Returns what is left to do of those that have ended.
    fn look(&mut self) -> Vec<Completion> {
        let (now, mut over) = (Instant::now(), Vec::new());
        self.watched.retain_mut(|watched| {
            if watched.due > now {
                return true;
            }
            match (watched.look)() {
                Looked::GoesOn => {
                    watched.due = now + watched.backoff.wait().min(watched.longest);
                    true
                }
                Looked::Over(completion) => {
                    over.extend(completion);
                    false
                }
            }
        });
        over
    }
}

/// Does what is left to do on a thread of its own, because it may take long, or here if there is none.
fn complete(completion: Completion) {
    let shared = Arc::new(Mutex::new(Some(completion)));
    let own = Arc::clone(&shared);
    let take = |shared: &Mutex<Option<Completion>>| shared.lock().take();
    let body = move || take(&own).into_iter().for_each(|completion| completion());
    if let Err(error) = thread::Builder::new().name("end of a query".into()).spawn(body) {
        tracing::warn!(%error, "the ends of queries wait for each other");
        take(&shared).into_iter().for_each(|completion| completion());
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::mpsc::channel;

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(60);

    #[test]
    fn each_end_is_noticed_once_and_none_waits_for_another() {
        let watcher = QueryWatcher::default();
        let (ended, ends) = channel();
        let (go, goes) = channel::<()>();
        let mut goes = Some(goes);
        let over: Vec<_> = (0..3).map(|_| Arc::new(AtomicBool::new(false))).collect();
        for (number, over) in over.iter().enumerate() {
            let (over, ended) = (Arc::clone(over), ended.clone());
            // The first one takes long to end.
            let waits = goes.take();
            let mut completion = Some(Box::new(move || {
                if let Some(waits) = waits {
                    let _ = waits.recv_timeout(PATIENCE);
                }
                ended.send(number).unwrap();
            }) as Completion);
            let look = move || {
                if over.load(Ordering::SeqCst) { Looked::Over(completion.take()) } else { Looked::GoesOn }
            };
            watcher.watch(PATIENCE, look).unwrap();
        }
        let end = |number: usize| {
            over[number].store(true, Ordering::SeqCst);
            watcher.look_soon();
        };
        end(0);
        end(2);
        assert_eq!(ends.recv_timeout(PATIENCE), Ok(2));
        go.send(()).unwrap();
        assert_eq!(ends.recv_timeout(PATIENCE), Ok(0));
        end(1);
        assert_eq!(ends.recv_timeout(PATIENCE), Ok(1));
        let since = Instant::now();
        while watcher.0.lock().has_thread {
            assert!(since.elapsed() < PATIENCE, "its thread stays");
            thread::sleep(Duration::from_millis(1));
        }
        assert!(watcher.0.lock().watched.is_empty() && ends.try_recv().is_err());
    }
}
