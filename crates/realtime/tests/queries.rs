//! Queries of a pool: the order of their deadlines, as the kernel has it, and what a missed deadline is explained with.

mod kernel;

use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Barrier};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use kernel::{ORDINARY, real_time, scheduled};
use tidemill_realtime::{Policy, Pool, PoolQuery, PoolSettings, Role};

/// The number of the policy, as the kernel has it.
const FIFO: u32 = 1;

const PRIORITY: u32 = 5;

/// A thread of a query, which says its priority whenever it is asked, until it is dropped.
struct ProbedThread {
    ask: Option<Sender<Sender<(u32, u32)>>>,
    thread: Option<JoinHandle<(u32, u32)>>,
}

impl ProbedThread {
    fn start(pool: &Arc<Pool>, name: &str, deadline_ms: Option<u64>) -> ProbedThread {
        let query = PoolQuery::new(pool, name, deadline_ms.map(Duration::from_millis));
        let (ask, requests) = channel::<Sender<(u32, u32)>>();
        let (joined, has_joined) = channel();
        let thread = std::thread::spawn(move || {
            let mut member = query.join(Role::Worker(0)).unwrap();
            joined.send(()).unwrap();
            for answer in requests {
                member.between_activations(|| false);
                answer.send(scheduled()).unwrap();
            }
            drop(member);
            scheduled()
        });
        has_joined.recv().unwrap();
        ProbedThread { ask: Some(ask), thread: Some(thread) }
    }

    fn priority(&self) -> u32 {
        let (answer, answered) = channel();
        self.ask.as_ref().unwrap().send(answer).unwrap();
        let (policy, priority) = answered.recv().unwrap();
        assert_eq!(policy, FIFO);
        priority
    }
}

impl Drop for ProbedThread {
    fn drop(&mut self) {
        drop(self.ask.take());
        assert_eq!(self.thread.take().unwrap().join().unwrap().0, ORDINARY);
    }
}

#[test]
fn queries_go_in_the_order_of_their_deadlines() {
    let settings = PoolSettings { policy: Policy::Fifo { priority: PRIORITY }, ..PoolSettings::new("test") };
    let Some(pool) = real_time(settings) else { return };
    let whenever = ProbedThread::start(&pool, "whenever", None);
    assert_eq!(whenever.priority(), PRIORITY);
    let slow = ProbedThread::start(&pool, "slow", Some(100));
    assert_eq!((slow.priority(), whenever.priority()), (PRIORITY, PRIORITY - 1));
    let fast = ProbedThread::start(&pool, "fast", Some(20));
    let also_fast = ProbedThread::start(&pool, "also fast", Some(20));
    assert_eq!((fast.priority(), also_fast.priority()), (PRIORITY, PRIORITY));
    assert_eq!((slow.priority(), whenever.priority()), (PRIORITY - 1, PRIORITY - 2));
    // Who belongs to no query has the pool's own priority.
    let outside = pool.join(Role::Receiver).unwrap();
    assert_eq!(scheduled(), (FIFO, PRIORITY));
    drop(outside);
    drop((fast, also_fast));
    assert_eq!((slow.priority(), whenever.priority()), (PRIORITY, PRIORITY - 1));
}

/// The number of the calling thread.
fn number() -> i32 {
    let link = std::fs::read_link("/proc/thread-self").unwrap();
    link.file_name().unwrap().to_str().unwrap().parse().unwrap()
}

/// (policy, priority) of a thread that does not run, as the kernel says.
fn scheduled_of(thread: i32) -> (u32, u32) {
    let stat = std::fs::read_to_string(format!("/proc/self/task/{thread}/stat")).unwrap();
    let fields: Vec<_> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
    (fields[38].parse().unwrap(), fields[37].parse().unwrap())
}

#[test]
fn a_thread_that_waits_is_taken_in_and_let_go_by_another() {
    let settings = PoolSettings { policy: Policy::Fifo { priority: PRIORITY }, ..PoolSettings::new("test") };
    let Some(pool) = real_time(settings) else { return };
    let (tell, told) = channel();
    let (end, ended) = channel::<()>();
    let waiting = std::thread::spawn(move || {
        tell.send(number()).unwrap();
        let _ = ended.recv();
    });
    let thread = told.recv().unwrap();
    let fast = ProbedThread::start(&pool, "fast", Some(20));
    let slow = PoolQuery::new(&pool, "slow", Some(Duration::from_millis(100)));
    // A member of the query takes it in; both have the query's place in the order.
    let member = slow.join(Role::Receiver).unwrap();
    let taken_in = slow.take_in(thread).unwrap();
    assert_eq!((scheduled_of(thread), scheduled()), ((FIFO, PRIORITY - 1), (FIFO, PRIORITY - 1)));
    assert_eq!(pool.status().members, 3);
    // The order changes for it, too, and for who changes it.
    drop(fast);
    assert_eq!((scheduled_of(thread), scheduled()), ((FIFO, PRIORITY), (FIFO, PRIORITY)));
    drop(taken_in);
    assert_eq!((scheduled_of(thread), scheduled()), ((ORDINARY, 0), (FIFO, PRIORITY)));
    drop(member);
    // An ordinary thread stays one.
    let taken_in = slow.take_in(thread).unwrap();
    assert_eq!((scheduled_of(thread), scheduled()), ((FIFO, PRIORITY), (ORDINARY, 0)));
    drop(taken_in);
    assert_eq!((scheduled_of(thread), scheduled()), ((ORDINARY, 0), (ORDINARY, 0)));
    assert_eq!(pool.status().members, 0);
    drop(end);
    waiting.join().unwrap();
}

#[test]
fn a_thread_of_another_process_is_not_taken_in() {
    let pool = Pool::start(PoolSettings::new("test")).unwrap();
    let query = PoolQuery::new(&pool, "query", None);
    // The first thread of the machine, or of the container.
    let error = query.take_in(1).unwrap_err().to_string();
    assert!(error.contains("thread 1 is not one of this process"), "{error}");
    assert_eq!(pool.status().members, 0);
}

#[test]
fn there_are_no_more_levels_than_priorities() {
    let settings = PoolSettings { policy: Policy::Fifo { priority: 2 }, ..PoolSettings::new("test") };
    let Some(pool) = real_time(settings) else { return };
    let queries = [30, 20, 10].map(|deadline_ms| ProbedThread::start(&pool, "query", Some(deadline_ms)));
    assert_eq!(queries.each_ref().map(ProbedThread::priority), [1, 1, 2]);
}

/// Works for this long.
fn burn(time: Duration) {
    let start = Instant::now();
    while start.elapsed() < time {
        std::hint::spin_loop();
    }
}

#[test]
fn a_miss_names_what_ran_of_the_pool() {
    let pool = Pool::start(PoolSettings::new("test")).unwrap();
    let own = PoolQuery::new(&pool, "alarms", Some(Duration::from_millis(10)));
    let mut member = own.join(Role::Worker(0)).unwrap();
    member.between_activations(|| false);
    let start = Instant::now();
    let (given, done) = (Arc::clone(&pool), Arc::new(Barrier::new(2)));
    let other_done = Arc::clone(&done);
    let other = std::thread::spawn(move || {
        let mut member = PoolQuery::new(&given, "totals", None).join(Role::Worker(0)).unwrap();
        burn(Duration::from_millis(20));
        // One activation has ended, the other one has not.
        member.between_activations(|| false);
        burn(Duration::from_millis(20));
        other_done.wait();
        other_done.wait();
    });
    done.wait();
    burn(Duration::from_millis(5));
    own.count_misses(3);
    let found = own.what_ran(start.elapsed()).unwrap();
    done.wait();
    other.join().unwrap();
    println!("{found}");
    // The thread's clock says how much of these loops was its own; on a busy machine that is little, but not nothing.
    assert!(found.own > Duration::ZERO && found.own <= found.window, "{found:?}");
    let [(name, time)] = found.others.as_slice() else { panic!("{found:?}") };
    assert!(name == "totals" && *time > Duration::ZERO && *time <= found.window, "{found:?}");
    assert_eq!(pool.status().deadline_misses, 3);
    // Before that, nothing of it ran.
    let later = own.what_ran(Duration::ZERO).unwrap();
    assert_eq!((later.own, later.others.len()), (Duration::ZERO, 0));
}

#[test]
fn the_status_can_be_read_after_the_end() {
    let pool = Pool::start(PoolSettings::new("test")).unwrap();
    let observer = pool.observer();
    let mut member = pool.join(Role::Worker(0)).unwrap();
    burn(Duration::from_millis(5));
    member.between_activations(|| false);
    drop((member, pool));
    assert!(observer.status().used > Duration::ZERO && observer.status().members == 0);
}
