//! Sessions that read tables and materialized views take turns.

use std::collections::BTreeSet;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tidemill_engine::Cause;
use tidemill_sql::{Turn, Turns};

use crate::Cancellation;

/// How long a query computes before another one continues, if one waits.
const SLICE: Duration = Duration::from_millis(20);
/// After this time without a change, those that compute are taken not to pause, and others are computed beside them.
const STALL: Duration = Duration::from_millis(100);
/// The longest that a query waits for its beginning.
const WAIT_MAX: Duration = Duration::from_secs(30);
/// How often a query that waits looks whether it was cancelled.
const LOOK: Duration = Duration::from_millis(20);

/// The queries over tables and materialized views that sessions wait for: as many compute at a time as there are processors,
/// and the others wait for their turn. A query that has computed for a while lets others continue. First comes the one that would
/// come first if each had come as much later as it has computed already: a short query is before long ones that came earlier, and a
/// long one, as it waits, before short ones that come later. So nobody waits for ever. What does not
/// pause for long holds up nobody either: others are then computed beside it.
pub(crate) struct Readers {
    at_once: usize,
    wait_max: Duration,
    since: Instant,
    queue: Mutex<Queue>,
    changed: Condvar,
}

#[derive(Default)]
struct Queue {
    computing: usize,
    /// How many of them do not pause; they count for nothing.
    stalled: usize,
    /// When a turn began or ended last, since the start.
    changed: Duration,
    /// When they came, and for how long they have computed; a number tells equal ones apart.
    waiting: BTreeSet<(Duration, u64)>,
    last: u64,
}

impl Default for Readers {
    fn default() -> Self {
        Readers::new(std::thread::available_parallelism().map_or(2, usize::from), WAIT_MAX)
    }
}

impl Readers {
    pub fn new(at_once: usize, wait_max: Duration) -> Readers {
        let (queue, changed) = (Mutex::default(), Condvar::new());
        Readers { at_once: at_once.max(1), wait_max, since: Instant::now(), queue, changed }
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a turn of a query that has computed for this time.
    fn wait(&self, computed: Duration, asked: &Asked) -> Result<(), Cause> {
        let begun = Instant::now();
        let mut queue = self.lock();
        queue.last += 1;
        let key = (begun - self.since + computed, queue.last);
        queue.waiting.insert(key);
        loop {
            if self.since.elapsed().saturating_sub(queue.changed) > STALL {
                queue.stalled = queue.computing;
            }
            if queue.computing < self.at_once + queue.stalled && queue.waiting.first() == Some(&key) {
                queue.waiting.remove(&key);
                queue.computing += 1;
                queue.changed = self.since.elapsed();
                // There may be room for the next one, too.
                self.changed.notify_all();
                return Ok(());
            }
            let is_too_late = computed.is_zero() && begun.elapsed() > self.wait_max;
            if asked.is_cancelled() || is_too_late {
                queue.waiting.remove(&key);
                self.changed.notify_all();
                return Err(match is_too_late {
                    true => busy(queue.computing, queue.waiting.len(), begun.elapsed()),
                    false => cancelled(),
                });
            }
            queue = self.changed.wait_timeout(queue, LOOK).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn leave(&self) {
        let mut queue = self.lock();
        queue.computing -= 1;
        queue.stalled = queue.stalled.min(queue.computing);
        queue.changed = self.since.elapsed();
        drop(queue);
        self.changed.notify_all();
    }
}

fn busy(computing: usize, waiting: usize, time: Duration) -> Cause {
    Cause::resource(format!(
        "the query has waited for {} s without its turn: {computing} queries are being computed, and {waiting} more \
         wait; try again later, or CANCEL long ones",
        time.as_secs()
    ))
}

fn cancelled() -> Cause {
    Cause::operation("the query was cancelled")
}

/// The cancellations of a session that count for a query.
struct Asked {
    cancellation: Cancellation,
    requests: u32,
}

impl Asked {
    fn is_cancelled(&self) -> bool {
        self.cancellation.requests() > self.requests
    }
}

/// The turns of a session's queries.
pub(crate) struct SessionTurns {
    pub readers: Arc<Readers>,
    pub cancellation: Cancellation,
}

impl Turns for SessionTurns {
    fn begin(&self) -> Result<Box<dyn Turn>, Cause> {
        let (cancellation, requests) = (self.cancellation.clone(), self.cancellation.requests());
        let asked = Asked { cancellation, requests };
        self.readers.wait(Duration::ZERO, &asked)?;
        let readers = Some(Arc::clone(&self.readers));
        Ok(Box::new(SessionTurn { readers, asked, computed: Duration::ZERO, since: Instant::now() }))
    }
}

struct SessionTurn {
    /// `None`: it has no turn.
    readers: Option<Arc<Readers>>,
    asked: Asked,
    computed: Duration,
    since: Instant,
}

impl Turn for SessionTurn {
    fn go_on(&mut self) -> Result<(), Cause> {
        if self.asked.is_cancelled() {
            return Err(cancelled());
        }
        let slice = self.since.elapsed();
        if slice < SLICE {
            return Ok(());
        }
        self.computed += slice;
        self.since = Instant::now();
        let Some(readers) = self.readers.take_if(|readers| !readers.lock().waiting.is_empty()) else {
            return Ok(());
        };
        readers.leave();
        readers.wait(self.computed, &self.asked)?;
        self.readers = Some(readers);
        self.since = Instant::now();
        Ok(())
    }
}

impl Drop for SessionTurn {
    fn drop(&mut self) {
        if let Some(readers) = &self.readers {
            readers.leave();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;
    use std::thread;

    use super::*;

    fn turns(readers: &Arc<Readers>) -> SessionTurns {
        SessionTurns { readers: Arc::clone(readers), cancellation: Cancellation::default() }
    }

    #[test]
    fn a_short_query_goes_before_long_ones_that_came_earlier() {
        let readers = Arc::new(Readers::new(1, Duration::from_secs(3600)));
        let (stop, stopped) = (Cancellation::default(), Cancellation::default());
        let (begun, begins) = channel();
        let long = |cancellation: &Cancellation| {
            let turns = SessionTurns { readers: Arc::clone(&readers), cancellation: cancellation.clone() };
            let begun = begun.clone();
            thread::spawn(move || {
                let mut turn = turns.begin().unwrap_or_else(|cause| panic!("{cause}"));
                begun.send(()).unwrap();
                while turn.go_on().is_ok() {
                    thread::sleep(Duration::from_millis(1));
                }
            })
        };
        let threads: Vec<_> =
            [&stop, &stopped].iter().flat_map(|one| [long(one), long(one), long(one)]).collect();
        // What is cancelled before it begins is not what this is about.
        threads.iter().for_each(|_| begins.recv().unwrap());
        // Each of them comes to its end although six others never do.
        for _ in 0..20 {
            drop(turns(&readers).begin().unwrap_or_else(|cause| panic!("{cause}")));
        }
        stop.request();
        stopped.request();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        let queue = readers.lock();
        assert_eq!((queue.computing, queue.waiting.len()), (0, 0));
    }

    #[test]
    fn no_more_compute_than_may_and_who_waits_too_long_is_told() {
        let readers = Arc::new(Readers::new(2, Duration::ZERO));
        let (first, second) = (turns(&readers).begin().ok(), turns(&readers).begin().ok());
        assert!(first.is_some() && second.is_some());
        let cause = turns(&readers).begin().err().expect("there is no room");
        assert!(cause.to_string().contains("2 queries are being computed, and 0 more wait"), "{cause}");
        let cancelled = turns(&readers);
        let (told, end) = channel();
        let cancellation = cancelled.cancellation.clone();
        let thread = thread::spawn(move || told.send(cancelled.begin().err().map(|cause| cause.to_string())));
        cancellation.request();
        assert!(end.recv().unwrap().is_some());
        thread.join().unwrap().unwrap();
        drop(first);
        assert!(turns(&readers).begin().is_ok());
    }

    #[test]
    fn what_does_not_pause_holds_up_nobody() {
        let readers = Arc::new(Readers::new(1, Duration::from_secs(3600)));
        let begun = |_| turns(&readers).begin().unwrap_or_else(|cause| panic!("{cause}"));
        let stuck: Vec<_> = (0..3).map(begun).collect();
        drop(turns(&readers).begin().unwrap_or_else(|cause| panic!("{cause}")));
        drop(stuck);
        let queue = readers.lock();
        assert_eq!((queue.computing, queue.stalled, queue.waiting.len()), (0, 0, 0));
    }
}
