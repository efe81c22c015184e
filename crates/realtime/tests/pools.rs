//! Pools on this machine. What the kernel says about a thread (`/proc/thread-self`) is the judge.
//!
//! Tests that need real-time privileges say that they are skipped where there are none. No test runs at real-time priority for
//! longer than it has to, and loops there are bounded.

mod kernel;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use kernel::{ORDINARY, real_time, scheduled, unless_refused};
use tidemill_realtime::analysis::DeferrableServer;
use tidemill_realtime::{Affinity, Policy, Pool, PoolSettings, Role, WhenEmpty};

/// Numbers of policies as the kernel has them.
const FIFO: u32 = 1;
const ROUND_ROBIN: u32 = 2;
const IDLE: u32 = 5;
const DEADLINE: u32 = 6;

/// The calling thread's cores, as the kernel lists them.
fn cores() -> String {
    let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("Cpus_allowed_list:")).unwrap();
    line.split_whitespace().nth(1).unwrap().to_owned()
}

/// A core that the process may use.
fn first_core() -> usize {
    cores().split([',', '-']).next().unwrap().parse().unwrap()
}

fn settings(policy: Policy) -> PoolSettings {
    PoolSettings { policy, ..PoolSettings::new("test") }
}

const PRIORITY: u32 = 3;

#[test]
fn a_member_has_the_policy_and_leaves_it() {
    for (policy, expected) in [
        (Policy::Fifo { priority: PRIORITY }, (FIFO, PRIORITY)),
        (Policy::RoundRobin { priority: PRIORITY }, (ROUND_ROBIN, PRIORITY)),
    ] {
        let Some(pool) = real_time(settings(policy)) else { return };
        let before = (scheduled(), cores());
        let member = pool.join(Role::Worker(0)).unwrap();
        assert_eq!(scheduled(), expected);
        // Threads that it starts are ordinary.
        assert_eq!(std::thread::spawn(scheduled).join().unwrap(), (ORDINARY, 0));
        drop(member);
        assert_eq!((scheduled(), cores()), before);
        assert_eq!(pool.status().members, 0);
    }
}

#[test]
fn a_member_that_panics_is_ordinary_again() {
    let Some(pool) = real_time(settings(Policy::Fifo { priority: PRIORITY })) else { return };
    let panicked = std::panic::catch_unwind(|| {
        let _member = pool.join(Role::Worker(0)).unwrap();
        panic!("on purpose");
    });
    assert!(panicked.is_err());
    assert_eq!((scheduled().0, pool.status().members), (ORDINARY, 0));
}

#[test]
fn the_kernel_serves_a_deadline_pool() {
    let budget = Some(DeferrableServer { capacity_ns: 2_000_000, period_ns: 100_000_000 });
    let Some(pool) = real_time(PoolSettings { budget, ..settings(Policy::Deadline) }) else { return };
    let Some(member) = unless_refused(pool.join(Role::Worker(0))) else { return };
    assert_eq!(scheduled().0, DEADLINE);
    drop(member);
    // A thread that reads a source would take a budget of its own.
    let _receiver = pool.join(Role::Receiver).unwrap();
    assert_eq!(scheduled().0, ORDINARY);
}

#[test]
fn workers_are_bound_to_cores() {
    let core = first_core();
    let all = cores();
    let bound = |affinity, cores_of_worker| {
        let bound = PoolSettings {
            cores: vec![core],
            affinity,
            cores_of_worker,
            workers: 2,
            ..settings(Policy::Other)
        };
        Pool::start(bound).unwrap()
    };
    for affinity in [Affinity::Global, Affinity::Partitioned] {
        let pool = bound(affinity, BTreeMap::new());
        let member = pool.join(Role::Worker(1)).unwrap();
        assert_eq!(cores(), core.to_string());
        drop(member);
        assert_eq!(cores(), all);
    }
    let every: Vec<usize> = (0..4096).filter(|core| is_listed(&all, *core)).collect();
    let pool = bound(Affinity::Semi, BTreeMap::from([(1, every)]));
    let on = |worker| {
        let _member = pool.join(Role::Worker(worker)).unwrap();
        cores()
    };
    assert_eq!((on(0), on(1)), (core.to_string(), all));
}

fn is_listed(list: &str, core: usize) -> bool {
    list.split(',').any(|range| {
        let mut ends = range.split('-').map(|end| end.parse::<usize>().unwrap());
        let first = ends.next().unwrap();
        (first..=ends.next().unwrap_or(first)).contains(&core)
    })
}

#[test]
fn what_cannot_be_had_is_an_error_or_is_said() {
    let absent = PoolSettings { cores: vec![1000], ..settings(Policy::Other) };
    let error = Pool::start(absent.clone()).unwrap_err();
    assert!(
        error.to_string().starts_with("pool 'test': its threads cannot run on core 1000 alone: "),
        "{error}"
    );
    assert!(error.reason.ends_with("or set best_effort = true to run without it"), "{error}");
    let pool = Pool::start(PoolSettings { best_effort: true, ..absent }).unwrap();
    let missing = pool.status().missing;
    assert!(missing.len() == 1 && missing[0].contains("core 1000"), "{missing:?}");
}

#[test]
fn settings_that_contradict_each_other_are_refused() {
    let budget = Some(DeferrableServer { capacity_ns: 1_000_000, period_ns: 10_000_000 });
    let base = settings(Policy::Other);
    let wrong = [
        (PoolSettings { workers: 0, ..base.clone() }, "0 workers"),
        (settings(Policy::Fifo { priority: 100 }), "choose 1 to 99"),
        (PoolSettings { budget, ..settings(Policy::Fifo { priority: 99 }) }, "choose 1 to 98"),
        (settings(Policy::Deadline), "needs a budget"),
        (PoolSettings { budget, cores: vec![0], ..settings(Policy::Deadline) }, "cannot be bound to cores"),
        (PoolSettings { affinity: Affinity::Partitioned, ..base.clone() }, "must name them"),
        (
            PoolSettings { cores_of_worker: BTreeMap::from([(0, vec![0])]), ..base.clone() },
            "only with affinity 'semi'",
        ),
        (
            PoolSettings {
                budget: Some(DeferrableServer { capacity_ns: 1, period_ns: 10_000_000 }),
                ..base.clone()
            },
            "at least 0.1 ms",
        ),
        (
            PoolSettings { budget: Some(DeferrableServer { capacity_ns: 1_000_000, period_ns: 1 }), ..base },
            "from 1 ms to 10 s",
        ),
    ];
    for (settings, expected) in wrong {
        let error = Pool::start(settings).unwrap_err();
        assert!(error.reason.contains(expected), "{error}");
    }
}

/// Works until this holds, for at most a while; whether it did.
fn work_until(mut done: impl FnMut() -> bool) -> bool {
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(30) {
        if done() {
            return true;
        }
    }
    false
}

#[test]
fn an_empty_budget_takes_the_priority_away_and_a_full_one_gives_it_back() {
    let budget = Some(DeferrableServer { capacity_ns: 5_000_000, period_ns: 50_000_000 });
    let Some(pool) = real_time(PoolSettings { budget, ..settings(Policy::Fifo { priority: PRIORITY }) })
    else {
        return;
    };
    let member = pool.join(Role::Worker(0)).unwrap();
    // In the middle of an activation: the pool is told nothing.
    assert!(work_until(|| scheduled() == (ORDINARY, 0)));
    assert!(work_until(|| scheduled() == (FIFO, PRIORITY)));
    assert!(pool.status().emptied > 0);
    println!("{:?}", pool.status());
    drop(member);
    assert_eq!(scheduled().0, ORDINARY);
}

#[test]
fn a_pool_that_pauses_waits_between_activations() {
    let budget = Some(DeferrableServer { capacity_ns: 2_000_000, period_ns: 40_000_000 });
    let paused = PoolSettings { budget, when_empty: WhenEmpty::Pause, ..settings(Policy::Other) };
    let pool = Pool::start(paused).unwrap();
    let mut member = pool.join(Role::Worker(0)).unwrap();
    // Without a privilege a thread could not come back: then it does not give way, and the pool says so.
    let may_idle = match pool.status().missing.as_slice() {
        [] => true,
        [missing] => !missing.contains("do not give way to all others"),
        more => panic!("{more:?}"),
    };
    let while_empty = if may_idle { IDLE } else { ORDINARY };
    assert!(work_until(|| pool.status().is_empty && scheduled().0 == while_empty));
    member.between_activations(|| false);
    assert!(pool.status().emptied > 0 && pool.status().used > Duration::ZERO);
    assert!(work_until(|| scheduled().0 == ORDINARY));
}

/// Holds with and without a privilege: what an activation uses after the budget is empty comes on top, once in each period.
#[test]
fn a_pool_that_pauses_uses_its_budgets_and_no_more_than_an_activation_in_each_period() {
    let (capacity, period) = (Duration::from_millis(2), Duration::from_millis(20));
    let paused = PoolSettings { when_empty: WhenEmpty::Pause, ..settings(Policy::Other) };
    let start = Instant::now();
    let pool = Pool::start(paused.with_budget(capacity, period)).unwrap();
    let mut member = pool.join(Role::Worker(0)).unwrap();
    while pool.status().emptied < 20 {
        assert!(start.elapsed() < Duration::from_secs(60), "the budget is never empty: {:?}", pool.status());
        let sum: u64 = (0..100_000).map(std::hint::black_box).sum();
        assert!(sum > 0);
        member.between_activations(|| false);
    }
    let (status, periods) = (pool.status(), start.elapsed().div_duration_f64(period).ceil() as u32 + 1);
    let most = (capacity + status.overrun + status.longest_activation) * periods;
    assert!(status.used <= most, "{:?} in {periods} periods: {status:?}", status.used);
}

/// The state of a thread, as the kernel says.
fn state(thread: &str) -> char {
    let stat = std::fs::read_to_string(format!("/proc/self/task/{thread}/stat")).unwrap();
    stat.rsplit(')').next().unwrap().trim().chars().next().unwrap()
}

/// Uses up the budget, and then asks between two activations; whether the budget was empty when that returned. What the kernel
/// says of the thread meanwhile goes to `look`.
fn empty_after_asking(when_empty: WhenEmpty, period_ms: u64, look: impl Fn(&Pool, &str)) -> bool {
    let budget = Some(DeferrableServer { capacity_ns: 500_000, period_ns: period_ms * 1_000_000 });
    let pool = Pool::start(PoolSettings { budget, when_empty, ..settings(Policy::Other) }).unwrap();
    let (given, (named, name)) = (Arc::clone(&pool), std::sync::mpsc::channel());
    let worker = std::thread::spawn(move || {
        let mut member = given.join(Role::Worker(0)).unwrap();
        assert!(work_until(|| given.status().is_empty));
        let link = std::fs::read_link("/proc/thread-self").unwrap();
        named.send(link.file_name().unwrap().to_str().unwrap().to_owned()).unwrap();
        member.between_activations(|| false);
        given.status().is_empty
    });
    look(&pool, &name.recv().unwrap());
    worker.join().unwrap()
}

#[test]
fn a_pool_that_pauses_sleeps_until_its_budget_is_refilled() {
    let is_empty = empty_after_asking(WhenEmpty::Pause, 3000, |pool, thread| {
        // Asleep, unless the kernel was so late that the budget is full again.
        assert!(work_until(|| state(thread) == 'S' || !pool.status().is_empty));
    });
    assert!(!is_empty, "it went on without a budget");
    // With the other choice, it continues at once.
    assert!(empty_after_asking(WhenEmpty::Ordinary, 10_000, |_, _| ()));
}

#[test]
fn nobody_waits_for_the_budget_of_a_pool_that_has_ended() {
    let budget = Some(DeferrableServer { capacity_ns: 100_000, period_ns: 10_000_000_000 });
    let paused = PoolSettings { budget, when_empty: WhenEmpty::Pause, ..settings(Policy::Other) };
    let pool = Pool::start(paused).unwrap();
    let joined = Arc::clone(&pool);
    let worker = std::thread::spawn(move || {
        let mut member = joined.join(Role::Worker(0)).unwrap();
        assert!(work_until(|| joined.status().is_empty));
        drop(joined);
        member.between_activations(|| false);
    });
    assert!(work_until(|| pool.status().is_empty));
    drop(pool);
    worker.join().unwrap();
}
