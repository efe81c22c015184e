//! A few threads that answer what all sessions ask (decision 0131).

use std::any::Any;
use std::collections::VecDeque;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex, MutexGuard};
use tidemill_engine::{Clock, ThreadTime};

/// Planning takes stack for each level of an expression.
const STACK_BYTES: usize = 16 * 1024 * 1024;
/// While work waits for this long and none begins, one more begins: what keeps its slot for long waits for its client, perhaps.
const RELIEF: Duration = Duration::from_millis(20);
/// A thread that has nothing to do for this long lets others use what is free in its memory.
const QUIET: Duration = Duration::from_millis(200);
/// How long a thread that has nothing to do stays, and the one that relieves.
const STAY: Duration = Duration::from_secs(5);

/// So many threads may keep what they have freed: their next work needs it again.
const KEEPING_THREADS: usize = 32;
/// A thread has freed little before it has worked for this long. If threads are released after a quarter of it, a thousand clients get
/// 11 to 44 % fewer answers to reads by key (decision 0130).
const WORK_UNTIL_RELEASE_NS: u64 = 2_000_000;

/// Something to be done for a session, on a thread that plans and computes. It gives its slot up when it begins to wait.
pub(crate) type Work = Box<dyn FnOnce(&Arc<WorkerSlot>) + Send>;

/// Threads that do what sessions need. Each holds the memory that planning takes, so there are few: only as much is begun as has a slot, and
/// the rest waits in the order in which it came. What waits for something else gives its slot up, and keeps its thread.
#[derive(Clone)]
pub(crate) struct Workers(Arc<WorkersState>);

struct WorkersState {
    /// How many slots there are.
    at_once: usize,
    /// What each thread does at its beginning.
    begin: Box<dyn Fn() + Send + Sync>,
    /// Lets other threads use what is free in the memory of the calling thread.
    release: Option<fn()>,
    state: Mutex<State>,
    /// Work waits, or everything is over.
    changed: Condvar,
}

#[derive(Default)]
struct State {
    is_over: bool,
    /// What has no slot yet.
    waiting: VecDeque<(Instant, Work)>,
    /// What has a slot, and no thread yet.
    begun: VecDeque<(Arc<WorkerSlot>, Work)>,
    slots_taken: usize,
    /// When something was given a slot last.
    begun_last: Option<Instant>,
    /// Threads that have nothing to do; the last one was busy last.
    idle: Vec<Thread>,
    threads: usize,
    /// How many of them have been started or woken, and have not looked for something to do since.
    coming: usize,
    has_relief: bool,
}

/// The slot of some work among what is done at once.
pub(crate) struct WorkerSlot {
    shared: Arc<WorkersState>,
    is_held: AtomicBool,
}

impl WorkerSlot {
    /// Something else may begin: from now on the work waits for others, or takes long.
    pub fn leave(&self) {
        if self.is_held.swap(false, Ordering::Relaxed) {
            let mut state = self.shared.lock();
            state.slots_taken -= 1;
            self.shared.begin_next(&mut state);
        }
    }
}

impl Workers {
    /// Threads that do so many things at once, and more if these wait for something.
    ///
    /// # Errors
    /// If not even one can be started.
    pub fn start(
        at_once: usize,
        begin: impl Fn() + Send + Sync + 'static,
        release: Option<fn()>,
    ) -> io::Result<Workers> {
        let (state, changed) = (Mutex::default(), Condvar::new());
        let shared =
            WorkersState { at_once: at_once.max(1), begin: Box::new(begin), release, state, changed };
        let shared = Arc::new(shared);
        shared.start_thread(&mut shared.lock())?;
        Ok(Workers(shared))
    }

    /// Does something when there is a slot for it.
    pub fn submit(&self, work: Work) {
        let mut state = self.0.lock();
        state.waiting.push_back((Instant::now(), work));
        self.0.begin_next(&mut state);
        if !state.waiting.is_empty() {
            self.0.watch(&mut state);
        }
    }

    /// Ends the threads that have nothing to do, and the others when they have nothing to do any more.
    pub fn end(&self) {
        let mut state = self.0.lock();
        state.is_over = true;
        while self.0.wake_idle(&mut state) {}
        self.0.changed.notify_all();
    }
}

impl WorkersState {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// Begins what waits, as far as there are slots.
    fn begin_next(self: &Arc<Self>, state: &mut State) {
        while state.slots_taken < self.at_once
            && let Some((_, work)) = state.waiting.pop_front()
        {
            self.begin_work(state, work);
        }
    }

    fn begin_work(self: &Arc<Self>, state: &mut State, work: Work) {
        let slot = self.take_slot(state);
        state.begun.push_back((slot, work));
        if state.coming >= state.begun.len() || self.wake_idle(state) {
            return;
        }
        if let Err(error) = self.start_thread(state) {
            tracing::warn!(%error, "cannot start a thread for sessions; they wait for each other");
            self.watch(state);
        }
    }

    fn take_slot(self: &Arc<Self>, state: &mut State) -> Arc<WorkerSlot> {
        state.slots_taken += 1;
        state.begun_last = Some(Instant::now());
        Arc::new(WorkerSlot { shared: Arc::clone(self), is_held: AtomicBool::new(true) })
    }

    /// Wakes the thread that was busy last, whose memory the processors still know; whether there is one.
    fn wake_idle(&self, state: &mut State) -> bool {
        let Some(thread) = state.idle.pop() else { return false };
        state.coming += 1;
        thread.unpark();
        true
    }

    fn start_thread(self: &Arc<Self>, state: &mut State) -> io::Result<()> {
        let shared = Arc::clone(self);
        let thread = thread::Builder::new().name("answer clients".into()).stack_size(STACK_BYTES);
        thread.spawn(move || shared.work())?;
        state.threads += 1;
        state.coming += 1;
        Ok(())
    }

    /// What a thread does.
    fn work(self: Arc<Self>) {
        (self.begin)();
        let (mut done, mut released_ns) = (None, 0);
        while let Some((slot, work)) = self.next(done.take()) {
            if let Err(panic) = catch_unwind(AssertUnwindSafe(|| work(&slot))) {
                tracing::error!(
                    message = message_of(&*panic),
                    "an answer ended with a panic; its session has ended"
                );
            }
            self.release(&mut released_ns);
            done = Some(slot);
        }
    }

    /// With many threads, what is free in the memory of each is for all. `released_ns`: the processor time of the thread when it was last
    /// released.
    fn release(&self, released_ns: &mut u64) {
        let Some(release) = self.release else { return };
        let now_ns = ThreadTime.now_ns();
        if now_ns.saturating_sub(*released_ns) >= WORK_UNTIL_RELEASE_NS
            && self.lock().threads > KEEPING_THREADS
        {
            release();
            *released_ns = now_ns;
        }
    }

    /// What a thread does next, after what it has `done`, if that was anything; `None`: it ends.
    fn next(self: &Arc<Self>, done: Option<Arc<WorkerSlot>>) -> Option<(Arc<WorkerSlot>, Work)> {
        let mut state = self.lock();
        match done {
            Some(slot) if slot.is_held.swap(false, Ordering::Relaxed) => state.slots_taken -= 1,
            Some(_) => {}
            None => state.coming -= 1,
        }
        let since = Instant::now();
        let mut keeps_memory = self.release.is_some();
        loop {
            if let Some(next) = self.take(&mut state) {
                return Some(next);
            }
            let stays = since.elapsed() < STAY || state.threads <= self.at_once;
            if state.is_over || !stays {
                state.threads -= 1;
                return None;
            }
            state.idle.push(thread::current());
            drop(state);
            thread::park_timeout(if keeps_memory { QUIET } else { STAY });
            if keeps_memory && since.elapsed() >= QUIET {
                self.release.iter().for_each(|release| release());
                keeps_memory = false;
            }
            state = self.lock();
            let own = thread::current().id();
            match state.idle.iter().position(|thread| thread.id() == own) {
                Some(at) => drop(state.idle.remove(at)),
                None => state.coming -= 1,
            }
        }
    }

    /// What has a slot already, or may have one now.
    fn take(self: &Arc<Self>, state: &mut State) -> Option<(Arc<WorkerSlot>, Work)> {
        if let Some(begun) = state.begun.pop_front() {
            return Some(begun);
        }
        if state.slots_taken >= self.at_once {
            return None;
        }
        let (_, work) = state.waiting.pop_front()?;
        Some((self.take_slot(state), work))
    }

    /// Has a thread look after what waits.
    fn watch(self: &Arc<Self>, state: &mut State) {
        if state.has_relief {
            return;
        }
        let shared = Arc::clone(self);
        let started = thread::Builder::new().name("relieve clients".into()).spawn(move || shared.relieve());
        match started {
            Ok(_) => state.has_relief = true,
            Err(error) => tracing::debug!(%error, "what waits begins when something else has ended"),
        }
    }

    /// Begins what has waited too long, as long as anything waits now and then.
    fn relieve(self: Arc<Self>) {
        let mut state = self.lock();
        let mut busy = Instant::now();
        while !state.is_over && busy.elapsed() < STAY {
            self.changed.wait_for(&mut state, RELIEF);
            if state.begun.len() > state.coming && state.idle.is_empty() {
                busy = Instant::now();
                let _ = self.start_thread(&mut state);
            }
            let Some((since, _)) = state.waiting.front() else { continue };
            busy = Instant::now();
            let is_recent = state.begun_last.is_some_and(|last| last.elapsed() < RELIEF);
            if since.elapsed() >= RELIEF
                && !is_recent
                && let Some((_, work)) = state.waiting.pop_front()
            {
                self.begin_work(&mut state, work);
            }
        }
        state.has_relief = false;
        // What came while it ended would wait for nobody.
        if !state.waiting.is_empty() && !state.is_over {
            self.watch(&mut state);
        }
    }
}

fn message_of(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("it says nothing")
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;
    use std::sync::mpsc::{Sender, channel};

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(60);

    fn workers(at_once: usize) -> Workers {
        Workers::start(at_once, || {}, None).unwrap()
    }

    /// Work that says that it has begun, and then waits until somebody lets it end.
    fn waiting_work(begun: Sender<Sender<()>>, leaves: bool) -> Work {
        Box::new(move |slot| {
            if leaves {
                slot.leave();
            }
            let (end, ends) = channel();
            begun.send(end).unwrap();
            let _ = ends.recv_timeout(PATIENCE);
        })
    }

    /// Begins this many pieces of work, and returns what lets each piece end.
    fn begin(workers: &Workers, count: usize, leaves: bool) -> Vec<Sender<()>> {
        let (begun, begins) = channel();
        (0..count).for_each(|_| workers.submit(waiting_work(begun.clone(), leaves)));
        (0..count).map(|_| begins.recv_timeout(PATIENCE).unwrap()).collect()
    }

    fn wait_until(is_so: impl Fn() -> bool) {
        let since = Instant::now();
        while !is_so() {
            assert!(since.elapsed() < PATIENCE);
            thread::sleep(Duration::from_millis(1));
        }
    }

    #[test]
    fn no_more_is_done_at_once_than_there_are_slots() {
        let (workers, now, most) = (workers(2), Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let (done, ends) = channel();
        for number in 0..200 {
            let (now, most, done) = (Arc::clone(&now), Arc::clone(&most), done.clone());
            workers.submit(Box::new(move |_| {
                most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                thread::sleep(Duration::from_micros(100));
                now.fetch_sub(1, Ordering::SeqCst);
                done.send(number).unwrap();
            }));
        }
        let mut ended: Vec<usize> = (0..200).map(|_| ends.recv_timeout(PATIENCE).unwrap()).collect();
        ended.sort_unstable();
        assert_eq!(ended, (0..200).collect::<Vec<_>>());
        assert!(most.load(Ordering::SeqCst) <= 2, "{most:?}");
        assert!(workers.0.lock().threads <= 2);
    }

    #[test]
    fn what_leaves_its_slot_lets_others_begin() {
        let workers = workers(1);
        let waiting = begin(&workers, 20, true);
        assert_eq!(workers.0.lock().slots_taken, 0);
        assert!(workers.0.lock().threads >= 20);
        drop(waiting);
    }

    #[test]
    fn what_keeps_its_slot_for_long_does_not_hold_up_others_for_ever() {
        let workers = workers(1);
        let waiting = begin(&workers, 3, false);
        assert_eq!(workers.0.lock().slots_taken, 3);
        drop(waiting);
    }

    #[test]
    fn a_panic_ends_only_its_own_work() {
        let workers = workers(1);
        for _ in 0..3 {
            workers.submit(Box::new(|_| panic!("it is to be seen in the log")));
        }
        let (done, ends) = channel();
        workers.submit(Box::new(move |_| done.send(()).unwrap()));
        ends.recv_timeout(PATIENCE).unwrap();
        // Its slot may not be free yet: the thread gives it up behind the work.
        wait_until(|| workers.0.lock().slots_taken == 0);
    }

    #[test]
    fn threads_end_with_everything() {
        let workers = workers(2);
        let waiting = begin(&workers, 1, true);
        workers.end();
        drop(waiting);
        wait_until(|| workers.0.lock().threads == 0);
    }
}
