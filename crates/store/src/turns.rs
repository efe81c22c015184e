//! Readers take turns, so that a short question does not wait for long ones.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use parking_lot::{Mutex, MutexGuard};
use tidemill_core::Cause;

/// How long a reader computes at first before another one continues, if one waits, and how long at most, once it has been
/// computed for as long. The kernel lets a thread run for some four milliseconds, so more readers than processors would wait
/// for each other longer than that.
const SLICE_MIN: Duration = Duration::from_micros(250);
const SLICE_MAX: Duration = Duration::from_millis(1);
/// How much later a question counts as asked for the time that it was computed.
const LATER: u32 = 8;
const LATER_MAX: Duration = Duration::from_millis(100);
/// After this time without a change, those that compute are taken not to pause, and others are computed beside them.
const STALL: Duration = Duration::from_millis(100);
/// How often the first of those that wait to begin, or to continue, looks whether it was cancelled, or is next by now.
const LOOK: Duration = Duration::from_millis(20);
/// How often the others look whether they were cancelled. A thousand of them take no time that the stream would notice.
const LOOK_BEHIND: Duration = Duration::from_millis(200);

/// So many questions may have begun and not ended. Each holds what it has computed so far, so a thousand of them hold gigabytes, and none
/// ends for long.
const BEGUN_MAX: usize = 64;
/// While there are so many, one more begins after this time without one, so that short questions do not wait for ever for long ones.
const RELIEF: Duration = Duration::from_millis(20);

/// The questions that readers wait for: a few are computed at a time, and the others wait for their turn. One that has
/// been computed for a while lets others continue. First comes the one that would come first if each had come later by eight
/// times as long as it has been computed already, but by no more than 100 ms: a short question is before long ones that came
/// earlier, and a long one, as it waits, before short ones that come later. So nobody waits for ever. What does not pause for
/// long holds up nobody either: others are then computed beside it. While many have begun and not ended, they go first, and only
/// now and then another begins.
///
/// ```
/// use std::time::Duration;
/// use tidemill_store::ReaderTurns;
///
/// let turns = ReaderTurns::new(2, Duration::from_secs(30));
/// let mut turn = turns.begin(&mut || false)?;
/// turn.go_on(&mut || false)?;
/// drop(turn);
/// assert!(turns.begin(&mut || true).is_ok(), "nobody else computes, so it is not asked whether it was cancelled");
/// # Ok::<(), tidemill_core::Cause>(())
/// ```
#[derive(Clone)]
pub struct ReaderTurns {
    shared: Arc<TurnState>,
}

struct TurnState {
    at_once: usize,
    wait_max: Duration,
    stall: Duration,
    begun_max: usize,
    since: Instant,
    queue: Mutex<Queue>,
}

#[derive(Default)]
struct Queue {
    computing: usize,
    /// How many of them do not pause; they count for nothing.
    stalled: usize,
    /// When a turn began or ended last, since the start.
    changed: Duration,
    /// How many have begun and not ended.
    begun: usize,
    /// When the last one began, since the start.
    began: Duration,
    /// Those that wait to begin.
    coming: BTreeMap<TurnKey, Thread>,
    /// Those that wait to continue.
    paused: BTreeMap<TurnKey, Thread>,
    last: u64,
}

/// When a question came, or counts as having come, since the start; a number tells equal ones apart.
type TurnKey = (Duration, u64);

impl Queue {
    fn waiting(&mut self, has_begun: bool) -> &mut BTreeMap<TurnKey, Thread> {
        if has_begun { &mut self.paused } else { &mut self.coming }
    }

    /// Who comes next.
    fn next(&self, begun_max: usize, now: Duration) -> Option<(&TurnKey, &Thread)> {
        let (coming, paused) = (self.coming.first_key_value(), self.paused.first_key_value());
        let is_crowded = self.begun >= begun_max && now.saturating_sub(self.began) < RELIEF;
        match (coming, paused) {
            (Some(coming), Some(paused)) if !is_crowded => {
                Some(if coming.0 < paused.0 { coming } else { paused })
            }
            (Some(coming), None) if !is_crowded => Some(coming),
            (_, paused) => paused,
        }
    }

    fn waiting_count(&self) -> usize {
        self.coming.len() + self.paused.len()
    }
}

impl ReaderTurns {
    /// Lets as many compute at once. Nobody waits longer than `wait_max` for the beginning.
    pub fn new(at_once: usize, wait_max: Duration) -> ReaderTurns {
        ReaderTurns::with_limits(at_once, wait_max, STALL, BEGUN_MAX)
    }

    fn with_limits(at_once: usize, wait_max: Duration, stall: Duration, begun_max: usize) -> ReaderTurns {
        let (since, queue, at_once) = (Instant::now(), Mutex::default(), at_once.max(1));
        ReaderTurns { shared: Arc::new(TurnState { at_once, wait_max, stall, begun_max, since, queue }) }
    }

    /// Waits for a turn, on this thread.
    ///
    /// # Errors
    /// [`Cause::operation`] if it is cancelled meanwhile; [`Cause::resource`] if it has waited too long.
    pub fn begin(&self, is_cancelled: &mut dyn FnMut() -> bool) -> Result<ReaderTurn, Cause> {
        self.shared.wait(None, is_cancelled)?;
        let shared = Arc::clone(&self.shared);
        Ok(ReaderTurn { shared, computes: true, computed: Duration::ZERO, since: Instant::now() })
    }

    /// How many are computed, and how many wait.
    pub fn count(&self) -> (usize, usize) {
        let queue = self.shared.lock();
        (queue.computing, queue.waiting_count())
    }
}

impl TurnState {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock()
    }

    /// Wakes who comes next, and nobody else. It looks for itself whether there is room.
    fn wake_next(&self, queue: &Queue) {
        if let Some((_, thread)) = queue.next(self.begun_max, self.since.elapsed()) {
            thread.unpark();
        }
    }

    /// Waits for a turn of a question that was computed for this time; `None`: it has not begun.
    fn wait(&self, computed: Option<Duration>, is_cancelled: &mut dyn FnMut() -> bool) -> Result<(), Cause> {
        let (begun, has_begun) = (Instant::now(), computed.is_some());
        let mut queue = self.lock();
        queue.last += 1;
        let later = LATER_MAX.min(computed.unwrap_or_default().saturating_mul(LATER));
        let key = (begun - self.since + later, queue.last);
        queue.waiting(has_begun).insert(key, thread::current());
        loop {
            let now = self.since.elapsed();
            if now.saturating_sub(queue.changed) > self.stall {
                queue.stalled = queue.computing;
            }
            let is_next = queue.next(self.begun_max, now).is_some_and(|(next, _)| *next == key);
            if is_next && queue.computing < self.at_once + queue.stalled {
                queue.waiting(has_begun).remove(&key);
                queue.computing += 1;
                queue.changed = now;
                if !has_begun {
                    queue.begun += 1;
                    queue.began = now;
                }
                if queue.computing < self.at_once + queue.stalled {
                    self.wake_next(&queue);
                }
                return Ok(());
            }
            let is_too_late = !has_begun && begun.elapsed() > self.wait_max;
            if is_too_late || is_cancelled() {
                queue.waiting(has_begun).remove(&key);
                self.wake_next(&queue);
                return Err(if is_too_late {
                    busy(queue.computing, queue.waiting_count(), begun.elapsed())
                } else {
                    Cause::operation("the query was cancelled")
                });
            }
            // While many have begun and none of them waits, nobody wakes the first of those that wait to begin.
            let leads = queue.waiting(has_begun).first_key_value().is_some_and(|(first, _)| *first == key);
            drop(queue);
            // An unpark between the two is not lost: the thread then does not park.
            thread::park_timeout(if leads { LOOK } else { LOOK_BEHIND });
            queue = self.lock();
        }
    }

    /// One that computed pauses, or ends.
    fn leave(&self, queue: &mut Queue) {
        queue.computing -= 1;
        queue.stalled = queue.stalled.min(queue.computing);
        queue.changed = self.since.elapsed();
    }
}

fn busy(computing: usize, waiting: usize, time: Duration) -> Cause {
    Cause::resource(format!(
        "the query has waited for {} s and has not begun: {computing} queries are being computed, and {waiting} more \
         wait; try again later, or end a long one: SHOW SESSIONS, CANCEL number",
        time.as_secs()
    ))
}

/// A turn, until it is dropped.
pub struct ReaderTurn {
    shared: Arc<TurnState>,
    /// Otherwise another one has its place.
    computes: bool,
    computed: Duration,
    since: Instant,
}

impl ReaderTurn {
    /// Is called often while it computes. After a while it lets another reader continue, if one waits.
    ///
    /// # Errors
    /// [`Cause::operation`] if it is cancelled while it waits.
    pub fn go_on(&mut self, is_cancelled: &mut dyn FnMut() -> bool) -> Result<(), Cause> {
        let slice = self.since.elapsed();
        if slice < self.computed.clamp(SLICE_MIN, SLICE_MAX) {
            return Ok(());
        }
        self.computed += slice;
        self.since = Instant::now();
        if !self.computes || !self.pause() {
            return Ok(());
        }
        self.shared.wait(Some(self.computed), is_cancelled)?;
        self.computes = true;
        self.since = Instant::now();
        Ok(())
    }

    /// Gives its place to another one, if one waits.
    fn pause(&mut self) -> bool {
        let mut queue = self.shared.lock();
        if queue.next(self.shared.begun_max, self.shared.since.elapsed()).is_none() {
            return false;
        }
        self.shared.leave(&mut queue);
        self.shared.wake_next(&queue);
        self.computes = false;
        true
    }
}

impl Drop for ReaderTurn {
    fn drop(&mut self) {
        let mut queue = self.shared.lock();
        if self.computes {
            self.shared.leave(&mut queue);
        }
        queue.begun -= 1;
        self.shared.wake_next(&queue);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::mpsc::channel;

    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);

    fn begun(turns: &ReaderTurns) -> ReaderTurn {
        turns.begin(&mut || false).unwrap_or_else(|cause| panic!("{cause}"))
    }

    #[test]
    fn a_short_question_goes_before_long_ones_that_came_earlier() {
        let (turns, end) = (ReaderTurns::new(1, HOUR), AtomicBool::new(false));
        let (tell, begins) = channel();
        thread::scope(|scope| {
            for _ in 0..6 {
                let (turns, end, tell) = (turns.clone(), &end, tell.clone());
                scope.spawn(move || {
                    let is_cancelled = &mut || end.load(Ordering::SeqCst);
                    let mut turn = turns.begin(is_cancelled).unwrap_or_else(|cause| panic!("{cause}"));
                    tell.send(()).unwrap_or_else(|_| panic!("nobody counts"));
                    while !end.load(Ordering::SeqCst) && turn.go_on(is_cancelled).is_ok() {
                        std::hint::spin_loop();
                    }
                });
            }
            // What is cancelled before it begins is not what this is about.
            (0..6).for_each(|_| begins.recv().unwrap_or_else(|_| panic!("six begin")));
            // Each of them comes to its end although six others never do.
            (0..20).for_each(|_| drop(begun(&turns)));
            end.store(true, Ordering::SeqCst);
        });
        assert_eq!(turns.count(), (0, 0));
    }

    #[test]
    fn no_more_compute_than_may_and_all_come_to_their_turn() {
        let turns = ReaderTurns::with_limits(2, HOUR, HOUR, 64);
        let computing = std::sync::atomic::AtomicUsize::new(0);
        thread::scope(|scope| {
            for _ in 0..8 {
                let (turns, computing) = (turns.clone(), &computing);
                scope.spawn(move || {
                    for number in 0..200 {
                        let mut turn = begun(&turns);
                        let at_once = computing.fetch_add(1, Ordering::SeqCst) + 1;
                        assert!(at_once <= 2, "{at_once} compute");
                        computing.fetch_sub(1, Ordering::SeqCst);
                        if number % 50 == 0 {
                            turn.since -= SLICE_MAX;
                            turn.go_on(&mut || false).unwrap_or_else(|cause| panic!("{cause}"));
                        }
                    }
                });
            }
        });
        assert_eq!(turns.count(), (0, 0));
    }

    #[test]
    fn who_waits_too_long_or_is_cancelled_is_told() {
        let turns = ReaderTurns::with_limits(2, Duration::ZERO, HOUR, 64);
        let computing = [begun(&turns), begun(&turns)];
        let cause = turns.begin(&mut || false).err().map(|cause| cause.to_string()).unwrap_or_default();
        assert!(cause.contains("2 queries are being computed, and 0 more wait"), "{cause}");
        drop(computing);
        let turns = ReaderTurns::with_limits(1, HOUR, HOUR, 64);
        let computing = begun(&turns);
        let cause = turns.begin(&mut || true).err().map(|cause| cause.to_string());
        assert_eq!(cause.as_deref(), Some("the query was cancelled"));
        drop(computing);
        assert_eq!(turns.count(), (0, 0));
    }

    #[test]
    fn what_does_not_pause_holds_up_nobody() {
        let turns = ReaderTurns::new(1, HOUR);
        let stuck: Vec<_> = (0..3).map(|_| begun(&turns)).collect();
        drop(begun(&turns));
        drop(stuck);
        assert_eq!(turns.count(), (0, 0));
        assert_eq!(turns.shared.lock().stalled, 0);
    }

    #[test]
    fn while_many_have_begun_another_begins_only_now_and_then() {
        let turns = ReaderTurns::with_limits(8, HOUR, HOUR, 2);
        let first = [begun(&turns), begun(&turns)];
        // There is room for six more to compute, but two have begun.
        let start = Instant::now();
        let third = begun(&turns);
        assert!(start.elapsed() >= RELIEF / 2, "it has begun at once");
        drop(first);
        drop(third);
        for _ in 0..100 {
            drop(begun(&turns));
        }
        assert!(start.elapsed() < HOUR / 60);
        let queue = turns.shared.lock();
        assert_eq!((queue.begun, queue.waiting_count()), (0, 0));
    }

    #[test]
    fn those_that_have_begun_go_on_while_there_are_many() {
        let turns = ReaderTurns::with_limits(1, HOUR, HOUR, 1);
        let mut long = begun(&turns);
        thread::scope(|scope| {
            let short = scope.spawn(|| drop(begun(&turns)));
            while turns.count().1 == 0 {
                thread::sleep(Duration::from_millis(1));
            }
            for _ in 0..10 {
                long.since -= SLICE_MAX;
                long.go_on(&mut || false).unwrap_or_else(|cause| panic!("{cause}"));
            }
            drop(long);
            short.join().unwrap_or_else(|_| panic!("it begins"));
        });
        assert_eq!(turns.count(), (0, 0));
    }
}
