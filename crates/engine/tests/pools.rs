//! Queries in pools: the same bytes in any of them, from every policy an orderly end, and no thread left at real-time priority.
//!
//! Pools that need privileges are skipped where there are none, and the tests say so. Priorities are low, budgets and the
//! kernel's throttling bound what runs.

#[path = "integration/fixture/mod.rs"]
mod fixture;

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use fixture::forward::plan;
use fixture::mixer::Kind;
use fixture::oracle::{Spec, random_chunks, random_events};
use fixture::sink::{Remember, SinkFault};
use fixture::{chunk, eventually, numbered, watched};
use tidemill_engine::analysis::{CostModel, DeferrableServer};
use tidemill_engine::{
    Affinity, Chunk, Counter, CyclePolicy, Engine, Failure, FlowError, Limits, ManualClock, MemoryCutLog,
    Policy, Pool, PoolSettings, Sink, WhenEmpty, WorkerProcesses,
};
use tidemill_testing::random::Random;

const WORKERS: usize = 2;

/// Whether the kernel refuses the threads of a pool. Without a privilege it does; and some kernels lose count of what deadline
/// threads had that have ended (`total_bw` in `/sys/kernel/debug/sched/debug` falls below zero), and refuse all later ones.
fn is_refused(reason: &str) -> bool {
    reason.contains("not permitted") || reason.contains("resource busy")
}

/// A pool, unless this machine does not grant it.
fn granted(settings: PoolSettings) -> Option<Arc<Pool>> {
    match Pool::start(settings) {
        Ok(pool) => Some(pool),
        Err(error) if is_refused(&error.reason) => {
            println!("skipped: {error}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

fn settings(policy: Policy) -> PoolSettings {
    PoolSettings { policy, workers: WORKERS, lock_memory: may_lock_memory(), ..PoolSettings::new("test") }
}

/// Whether this process may lock its memory. If so, all pools here do.
fn may_lock_memory() -> bool {
    static MAY: OnceLock<bool> = OnceLock::new();
    *MAY.get_or_init(|| {
        let tried = Pool::start(PoolSettings { lock_memory: true, ..PoolSettings::new("test") });
        if let Err(error) = &tried {
            println!("memory is not locked: {error}");
        }
        tried.is_ok()
    })
}

/// A core that this process may use.
fn a_core() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("Cpus_allowed_list:")).unwrap();
    let list = line.split_whitespace().nth(1).unwrap();
    list.split([',', '-']).next().unwrap().parse().unwrap()
}

/// Pools of each policy, affinity and budget.
fn pools() -> Vec<PoolSettings> {
    let fifo = || settings(Policy::Fifo { priority: 2 });
    let bound = |affinity| PoolSettings { affinity, cores: vec![a_core()], ..fifo() };
    let budget = |capacity_us: u64, period_us: u64| {
        Some(DeferrableServer { capacity_ns: capacity_us * 1000, period_ns: period_us * 1000 })
    };
    // Small budgets are empty most of the time.
    let small =
        |when_empty, policy| PoolSettings { budget: budget(500, 3000), when_empty, ..settings(policy) };
    let of_budgets = [Policy::Other, Policy::Fifo { priority: 2 }, Policy::RoundRobin { priority: 2 }]
        .into_iter()
        .flat_map(|policy| {
            [WhenEmpty::Ordinary, WhenEmpty::Pause].map(|when_empty| small(when_empty, policy))
        });
    let without = [
        settings(Policy::Other),
        fifo(),
        settings(Policy::RoundRobin { priority: 2 }),
        PoolSettings { budget: budget(10_000, 50_000), ..settings(Policy::Deadline) },
        bound(Affinity::Global),
        bound(Affinity::Partitioned),
        PoolSettings { cores_of_worker: BTreeMap::from([(1, vec![a_core()])]), ..bound(Affinity::Semi) },
    ];
    let kernel = PoolSettings { budget: budget(1000, 3000), ..settings(Policy::Deadline) };
    without.into_iter().chain(of_budgets).chain([kernel]).collect()
}

/// The threads of this process that the kernel does not schedule as ordinary ones, except those with these names.
fn promoted() -> Vec<String> {
    let mut promoted = Vec::new();
    for task in std::fs::read_dir("/proc/self/task").unwrap().flatten() {
        // A thread may end while it is looked at.
        let Ok(stat) = std::fs::read_to_string(task.path().join("stat")) else { continue };
        let (name, rest) = stat.rsplit_once(')').unwrap();
        let policy = rest.split_whitespace().nth(38).unwrap();
        if policy != "0" {
            promoted.push(format!("{name}): policy {policy}"));
        }
    }
    promoted
}

/// A thread that was joined is still listed for a moment.
fn assert_none_is_promoted() {
    eventually("no thread is promoted", || promoted().is_empty());
}

/// Serialises tests that look at all threads of this process.
static ALONE: parking_lot::Mutex<()> = parking_lot::Mutex::new(());

fn alone() -> parking_lot::MutexGuard<'static, ()> {
    ALONE.lock()
}

#[test]
fn the_output_is_the_same_in_every_pool() {
    let _alone = alone();
    let mut random = Random::new(17);
    let spec = Spec::random(&mut random, Kind::Order, 1);
    let events = random_events(&mut random, 4000);
    let chunks: Vec<Chunk> = random_chunks(&mut random, &events, true);
    let mut tried = 0;
    for pool in pools() {
        let what = format!("{pool:?}");
        let Some(pool) = granted(pool) else { continue };
        let (spec, chunks, events) = (spec.clone(), chunks.clone(), events.clone());
        watched("a query in a pool", move || {
            let sinks: Vec<Remember> = spec.sinks.iter().map(|_| Remember::default()).collect();
            let log = MemoryCutLog::new(1_000_000);
            let engine = Engine::new().pool(&pool).cycles(CyclePolicy::fixed(60)).cut_log(log.clone());
            let engine = engine.clock(Arc::new(ManualClock::default()));
            let boxed = sinks.iter().map(|sink| Box::new(sink.clone()) as Box<dyn Sink>).collect();
            let mut running = engine.run(spec.plan(), boxed).unwrap();
            running.wait_until_ready().unwrap();
            let gateway = running.gateway(0).unwrap();
            // The thread that pushes may be a member, too.
            let member = gateway.pool_entry().join();
            assert!(pool.status().members > WORKERS);
            chunks.into_iter().for_each(|chunk| gateway.push(chunk).unwrap());
            drop((member, gateway));
            let status = running.join().unwrap();
            assert!(status.pool.unwrap().used > Duration::ZERO);
            assert_eq!(pool.status().members, 0);
            let given: Vec<_> = sinks.iter().map(Remember::given).collect();
            assert!(given == spec.expected(&[events], &log.cuts()), "{what} gives something else");
        });
        assert_none_is_promoted();
        tried += 1;
    }
    println!("{tried} of {} pools", pools().len());
    assert!(tried >= 2);
}

/// How a query of a pool may end.
#[derive(Clone, Copy, Debug)]
enum End {
    Complete,
    Aborted,
    SinkFails,
    SinkPanics,
}

#[test]
fn queries_snapshot_and_end_in_every_pool_and_no_thread_is_left_at_real_time_priority() {
    let _alone = alone();
    let mut tried = 0;
    for pool in pools() {
        let Some(pool) = granted(pool) else { continue };
        for end in [End::Complete, End::Aborted, End::SinkFails, End::SinkPanics] {
            let given = Arc::clone(&pool);
            watched("a query that ends", move || run_to(end, &given));
            // Without the pool's own thread, which has a priority of its own.
            eventually("no member is promoted", || {
                promoted().iter().all(|thread| thread.contains("(pool-budget)"))
            });
            assert_eq!(pool.status().members, 0, "{end:?}");
        }
        drop(pool);
        assert_none_is_promoted();
        tried += 1;
    }
    println!("{tried} of {} pools", pools().len());
    assert!(tried >= 2);
}

fn run_to(end: End, pool: &Arc<Pool>) {
    let fault = match end {
        End::Complete | End::Aborted => None,
        End::SinkFails => Some(SinkFault::FailPrepare(1)),
        End::SinkPanics => Some(SinkFault::PanicCommit(1)),
    };
    let sink = Remember { fault, ..Remember::default() };
    let mut running = Engine::new().pool(pool).run(plan(), sink.boxed()).unwrap();
    running.wait_until_ready().unwrap();
    let gateway = running.gateway(0).unwrap();
    let push = |number: u32| gateway.push(chunk(&numbered(number * 10..number * 10 + 10)));
    if fault.is_some() {
        // A cycle takes in as much as is there: only the failure says that the second one was closed.
        assert!((0..1_000_000).any(|number| push(number).is_err()));
        drop(gateway);
        assert!(matches!(running.join(), Err(FlowError::Failed(Failure::Sink(_)))));
        return;
    }
    (0..20).for_each(|number| push(number).unwrap());
    assert!(!running.snapshot().unwrap().operators.is_empty());
    if let End::Aborted = end {
        running.abort();
        assert!(matches!(running.join(), Err(FlowError::Failed(Failure::Aborted))));
        return;
    }
    (20..30).for_each(|number| push(number).unwrap());
    drop(gateway);
    running.join().unwrap();
    assert_eq!(sink.rows(0).len(), 300);
}

#[test]
fn all_threads_of_a_query_are_promoted() {
    let _alone = alone();
    for policy in [Policy::Fifo { priority: 2 }, Policy::RoundRobin { priority: 2 }] {
        let Some(pool) = granted(settings(policy)) else { return };
        watched("a query", move || {
            let running = Engine::new().pool(&pool).run(plan(), Remember::default().boxed()).unwrap();
            running.wait_until_ready().unwrap();
            eventually("all members are promoted", || {
                let members = pool.status().members;
                members > WORKERS && promoted().len() == members
            });
            drop(running);
        });
        assert_none_is_promoted();
    }
}

#[test]
fn a_starved_pool_slows_only_itself() {
    let _alone = alone();
    let budget = Some(DeferrableServer { capacity_ns: 100_000, period_ns: 10_000_000_000 });
    for policy in [Policy::Other, Policy::Fifo { priority: 2 }, Policy::RoundRobin { priority: 2 }] {
        let starved = PoolSettings { budget, when_empty: WhenEmpty::Pause, ..settings(policy) };
        let Some(starved) = granted(starved) else { continue };
        beside_a_starved_pool(starved);
        assert_none_is_promoted();
    }
}

/// A query in an ordinary pool runs as if the starved one were not there, and that one can be stopped.
fn beside_a_starved_pool(starved: Arc<Pool>) {
    watched("two pools", move || {
        let free = Pool::start(settings(Policy::Other)).unwrap();
        let (slow_sink, sink) = (Remember::default(), Remember::default());
        let mut slow = Engine::new().pool(&starved).run(plan(), slow_sink.boxed()).unwrap();
        let slow_gateway = slow.gateway(0).unwrap();
        let pushing = std::thread::spawn(move || {
            // Until its queue is full.
            for number in 0..100_000 {
                if slow_gateway.push(chunk(&numbered(number * 10..number * 10 + 10))).is_err() {
                    break;
                }
            }
        });
        eventually("the budget is empty", || starved.status().is_empty);
        let mut running = Engine::new().pool(&free).run(plan(), sink.boxed()).unwrap();
        let gateway = running.gateway(0).unwrap();
        for number in 0..100 {
            gateway.push(chunk(&numbered(number * 10..number * 10 + 10))).unwrap();
        }
        drop(gateway);
        running.join().unwrap();
        assert_eq!(sink.rows(0).len(), 1000);
        // It stops at once, with its budget empty.
        slow.abort();
        drop((slow, starved));
        pushing.join().unwrap();
    });
}

#[test]
fn late_answers_are_counted() {
    for (deadline, late) in [(Duration::ZERO, 30), (Duration::from_secs(3600), 0)] {
        // While threads join the pool, its trace is in use, and nobody waits for it: such an answer is not explained.
        eventually("a late answer is explained", || {
            let sink = Remember::default();
            let pool = Pool::start(settings(Policy::Other)).unwrap();
            let engine = Engine::new().pool(&pool).deadline(deadline);
            let mut running = engine.run(plan(), sink.boxed()).unwrap();
            let gateway = running.gateway(0).unwrap();
            gateway.push(chunk(&numbered(0..30))).unwrap();
            drop(gateway);
            let status = running.join().unwrap();
            assert_eq!((status.get(Counter::DeadlineMisses), pool.status().deadline_misses), (late, late));
            assert_eq!(status.misses.iter().map(|miss| miss.late).sum::<u64>(), late);
            let Some(miss) = status.misses.first() else { return true };
            let Some(found) = &miss.what_ran else { return false };
            assert_eq!((found.window, found.others.len()), (miss.latency, 0));
            true
        });
    }
}

#[test]
fn a_pool_has_its_own_number_of_workers_and_one_process() {
    let pool = Pool::start(settings(Policy::Other)).unwrap();
    let refused = |engine: Engine| match engine.run(plan(), Remember::default().boxed()) {
        Err(FlowError::Settings(reason)) => reason,
        _ => panic!("not refused"),
    };
    assert_eq!(refused(Engine::new().pool(&pool).workers(3)), "pool 'test' has 2 workers, not 3");
    let several = refused(Engine::new().pool(&pool).processes(WorkerProcesses::new(2)));
    assert_eq!(several, "pool 'test': a query in a pool runs in one process, not in several");
}

#[test]
fn cycles_that_cost_more_than_was_stated_are_counted() {
    let of_event = |event_ns| Some(CostModel { batch_ns: 0, event_ns });
    for (stated, exceeded) in [(of_event(0), 20), (of_event(3_600_000_000_000), 0), (None, 0)] {
        let sink = Remember::default();
        let limits = Limits { cycles_in_flight_max: 1, ..Limits::default() };
        let engine = Engine::new().measure_costs(stated).limits(limits).cycles(CyclePolicy::fixed(10));
        let mut running = engine.run(plan(), sink.boxed()).unwrap();
        let gateway = running.gateway(0).unwrap();
        (0..21).for_each(|number| gateway.push(chunk(&numbered(number * 10..number * 10 + 10))).unwrap());
        drop(gateway);
        let status = running.join().unwrap();
        // The first one is not known to have been alone.
        assert_eq!((status.get(Counter::CostsExceeded), status.costs.exceeded), (exceeded, exceeded));
        let size = &status.costs.by_events[&16];
        assert!(size.whole > Duration::ZERO && status.costs.per_event <= size.whole / 10);
        assert_eq!((status.costs.cycles, size.events_min), (20, 10));
        // Each part of the plan has a cost, and they are not more than the whole unless they came in different cycles.
        assert_eq!((status.costs.parts.as_slice(), size.parts.len()), (&["forward".to_owned()][..], 1));
        assert!(size.parts[0] > Duration::ZERO && size.parts[0] <= size.whole);
        assert!(size.together() >= size.whole && size.together() >= size.parts[0] + size.rest);
        assert_eq!(status.costs.worst_cases(), [(10, size.together())]);
        if let Some(worst) = &status.costs.worst {
            assert_eq!((worst.events, worst.stated, worst.cost), (10, Duration::ZERO, size.whole));
        }
    }
}

#[test]
fn the_rule_by_which_cycles_close_can_change_while_a_query_runs() {
    let sink = Remember::default();
    let log = MemoryCutLog::new(100);
    let engine = Engine::new().cycles(CyclePolicy::fixed(1_000_000)).cut_log(log.clone());
    let mut running = engine.run(plan(), sink.boxed()).unwrap();
    running.wait_until_ready().unwrap();
    let gateway = running.gateway(0).unwrap();
    gateway.push(chunk(&numbered(0..12))).unwrap();
    // A rule that cannot be followed changes nothing.
    assert!(running.set_cycles(CyclePolicy::fixed(0)).is_err());
    running.set_cycles(CyclePolicy::fixed(5)).unwrap();
    eventually("two cycles are full", || running.status().get(Counter::CyclesCommitted) == 2);
    running.set_cycles(CyclePolicy::fixed(2)).unwrap();
    eventually("the rest is one", || running.status().get(Counter::CyclesCommitted) == 3);
    drop(gateway);
    running.join().unwrap();
    assert_eq!(sink.rows(0).len(), 12);
    let ends: Vec<u64> = log.cuts().iter().map(|cut| cut.positions[0]).collect();
    assert_eq!(ends[..3], [5, 10, 12]);
}

#[test]
fn two_queries_in_one_deadline_pool_both_answer() {
    let _alone = alone();
    let budget = Some(DeferrableServer { capacity_ns: 20_000_000, period_ns: 50_000_000 });
    let Some(pool) = granted(PoolSettings { budget, ..settings(Policy::Deadline) }) else { return };
    watched("two queries", move || {
        let start = |deadline_ms: u64| {
            let sink = Remember::default();
            let engine = Engine::new().pool(&pool).deadline(Duration::from_millis(deadline_ms));
            let started = engine.run(plan(), sink.boxed());
            match started.and_then(|running| running.wait_until_ready().map(|()| running)) {
                Ok(running) => Some((running, sink)),
                Err(error) if is_refused(&error.to_string()) => {
                    println!("skipped: {error}");
                    None
                }
                Err(error) => panic!("{error}"),
            }
        };
        let push = |running: &mut tidemill_engine::Running| {
            let gateway = running.gateway(0).unwrap();
            (0..50).for_each(|number| gateway.push(chunk(&numbered(number * 10..number * 10 + 10))).unwrap());
        };
        let Some((mut one, one_sink)) = start(10) else { return };
        let Some((mut other, other_sink)) = start(1000) else { return };
        // Workers only: threads of sinks are ordinary here.
        eventually("all workers are promoted", || promoted().len() == 2 * WORKERS);
        push(&mut one);
        one.join().unwrap();
        // The other one has its budget back, and one that comes then gets its part.
        let Some((mut third, third_sink)) = start(20) else { return };
        push(&mut other);
        push(&mut third);
        other.join().unwrap();
        third.join().unwrap();
        for sink in [one_sink, other_sink, third_sink] {
            assert_eq!(sink.rows(0).len(), 500);
        }
        assert_eq!(pool.status().members, 0);
    });
    assert_none_is_promoted();
}
