//! Queries of a pool: the order of their deadlines, as the kernel has it, and what a missed deadline is explained with.

mod kernel;

use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Barrier};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use kernel::{FIFO, ORDINARY, real_time, scheduled};
use tidemill_realtime::{Policy, Pool, PoolQuery, PoolSettings, Role};

const PRIORITY: u32 = 5;

/// A thread of a query, which says its priority whenever it is asked, until it is dropped.
struct Asked {
    ask: Option<Sender<Sender<(u32, u32)>>>,
    thread: Option<JoinHandle<(u32, u32)>>,
}

impl Asked {
    fn start(pool: &Arc<Pool>, name: &str, deadline_ms: Option<u64>) -> Asked {
        let query = PoolQuery::new(pool, name, deadline_ms.map(Duration::from_millis));
        let (ask, asked) = channel::<Sender<(u32, u32)>>();
        let (joined, has_joined) = channel();
        let thread = std::thread::spawn(move || {
            let mut member = query.join(Role::Worker(0)).unwrap();
            joined.send(()).unwrap();
            for answer in asked {
                member.between_activations(|| false);
                answer.send(scheduled()).unwrap();
            }
            drop(member);
            scheduled()
        });
        has_joined.recv().unwrap();
        Asked { ask: Some(ask), thread: Some(thread) }
    }

    fn priority(&self) -> u32 {
        let (answer, answered) = channel();
        self.ask.as_ref().unwrap().send(answer).unwrap();
        let (policy, priority) = answered.recv().unwrap();
        assert_eq!(policy, FIFO);
        priority
    }
}

impl Drop for Asked {
    fn drop(&mut self) {
        drop(self.ask.take());
        assert_eq!(self.thread.take().unwrap().join().unwrap().0, ORDINARY);
    }
}

#[test]
fn queries_go_in_the_order_of_their_deadlines() {
    let settings = PoolSettings { policy: Policy::Fifo { priority: PRIORITY }, ..PoolSettings::new("test") };
    let Some(pool) = real_time(settings) else { return };
    let whenever = Asked::start(&pool, "whenever", None);
    assert_eq!(whenever.priority(), PRIORITY);
    let slow = Asked::start(&pool, "slow", Some(100));
    assert_eq!((slow.priority(), whenever.priority()), (PRIORITY, PRIORITY - 1));
    let fast = Asked::start(&pool, "fast", Some(20));
    let also_fast = Asked::start(&pool, "also fast", Some(20));
    assert_eq!((fast.priority(), also_fast.priority()), (PRIORITY, PRIORITY));
    assert_eq!((slow.priority(), whenever.priority()), (PRIORITY - 1, PRIORITY - 2));
    // Who belongs to no query has the pool's own priority.
    let outside = pool.join(Role::Receiver).unwrap();
    assert_eq!(scheduled(), (FIFO, PRIORITY));
    drop(outside);
    drop((fast, also_fast));
    assert_eq!((slow.priority(), whenever.priority()), (PRIORITY, PRIORITY - 1));
}

#[test]
fn there_are_no_more_levels_than_priorities() {
    let settings = PoolSettings { policy: Policy::Fifo { priority: 2 }, ..PoolSettings::new("test") };
    let Some(pool) = real_time(settings) else { return };
    let queries = [30, 20, 10].map(|deadline_ms| Asked::start(&pool, "query", Some(deadline_ms)));
    assert_eq!(queries.each_ref().map(Asked::priority), [1, 1, 2]);
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
