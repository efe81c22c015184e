//! Bounds: a slow sink holds the intake back, and no row is lost.

use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use crate::fixture::forward::{Forward, operator, plan_without_operators};
use crate::fixture::sink::Remember;
use crate::fixture::{chunk, eventually, numbered, schema, watched};
use tidemill_engine::{
    Cause, Counter, Cut, CutLog, CyclePolicy, Engine, FlowError, Limits, MemoryBudget, Operator, Output,
    Plan, Rows, Running, SnapshotReader, SnapshotWriter,
};

/// Counts the cuts.
#[derive(Clone, Default)]
struct Count(Arc<AtomicU64>);

impl CutLog for Count {
    fn append(&mut self, _cut: &Cut) -> Result<(), Cause> {
        self.0.fetch_add(1, Ordering::SeqCst);
        Ok(())
    }
}

/// The chunks pushed so far by a thread that pushes `chunks` chunks of ten rows.
fn push_in_background(running: &mut Running, chunks: u32) -> (Arc<AtomicU64>, std::thread::JoinHandle<()>) {
    let (gateway, pushed) = (running.gateway(0).unwrap(), Arc::new(AtomicU64::new(0)));
    let counter = Arc::clone(&pushed);
    let thread = std::thread::spawn(move || {
        for number in 0..chunks {
            gateway.push(chunk(&numbered(number * 10..number * 10 + 10))).unwrap();
            counter.fetch_add(1, Ordering::SeqCst);
        }
    });
    (pushed, thread)
}

/// Asserts that a number reaches this range and stays in it.
fn assert_reaches(number: &AtomicU64, expected: RangeInclusive<u64>) {
    eventually("a number that is reached", || number.load(Ordering::SeqCst) >= *expected.start());
    std::thread::sleep(Duration::from_millis(50));
    let reached = number.load(Ordering::SeqCst);
    assert!(expected.contains(&reached), "{reached} is not in {expected:?}");
}

#[test]
fn cycles_in_flight_and_the_gateways_queue_are_bounded() {
    for workers in [1, 2, 5] {
        for cycles_in_flight_max in [1, 2, 7] {
            watched("a blocked sink", move || {
                let (sink, cuts) = (Remember::default(), Count::default());
                sink.hold(true);
                let limits = Limits { cycles_in_flight_max, gateway_batches_max: 4, ..Limits::default() };
                let engine = Engine::new().workers(workers).cycles(CyclePolicy::fixed(10)).limits(limits);
                let engine = engine.cut_log(cuts.clone());
                let mut running = engine.run(plan_without_operators(), sink.boxed()).unwrap();
                let (pushed, thread) = push_in_background(&mut running, 500);
                // In flight, two in the queue, and those that the cutter holds: one at least, one more than two at most.
                assert_reaches(&pushed, cycles_in_flight_max + 2 + 1..=cycles_in_flight_max + 4 + 1);
                assert_reaches(&cuts.0, cycles_in_flight_max..=cycles_in_flight_max);
                eventually("a stall", || running.status().get(Counter::Stalls) > 0);
                assert_eq!(sink.committed(), 0);
                sink.hold(false);
                thread.join().unwrap();
                running.join().unwrap();
                assert_eq!(sink.rows(0), numbered(0..5000));
            });
        }
    }
}

#[test]
fn a_blocked_sink_holds_up_another_only_when_it_is_too_far_behind() {
    for (workers, direct) in [(1, false), (2, false), (2, true)] {
        watched("a blocked sink beside another", move || {
            let (slow, quick, cuts) = (Remember::default(), Remember::default(), Count::default());
            let quick = Remember { direct, ..quick };
            slow.hold(true);
            let mut plan = Plan::new("two");
            let input = plan.source("input", [schema()]);
            plan.sink("slow", input.clone());
            plan.sink("quick", input);
            let limits = Limits { cycles_in_flight_max: 3, cycles_behind_max: 40, ..Limits::default() };
            let engine = Engine::new().workers(workers).cycles(CyclePolicy::fixed(10)).limits(limits);
            let sinks = [slow.boxed(), quick.boxed()].into_iter().flatten().collect();
            let mut running = engine.cut_log(cuts.clone()).run(plan, sinks).unwrap();
            let (_, thread) = push_in_background(&mut running, 500);
            assert_reaches(&cuts.0, 40..=40);
            eventually("the quick sink has them all", || quick.committed() == 40);
            assert_eq!(slow.committed(), 0);
            slow.hold(false);
            thread.join().unwrap();
            running.join().unwrap();
            assert_eq!((slow.rows(0), quick.rows(0)), (numbered(0..5000), numbered(0..5000)));
        });
    }
}

#[test]
fn uncommitted_bytes_are_bounded() {
    for workers in [1, 2] {
        watched("a blocked sink", move || {
            let (sink, cuts) = (Remember::default(), Count::default());
            sink.hold(true);
            // More than one cycle's ten rows of 20 bytes and a position, far less than a hundred cycles'.
            let limits = Limits {
                uncommitted_bytes_max: 4000,
                cycles_in_flight_max: 1000,
                // All that is pushed fits the queue.
                gateway_batches_max: 120,
                ..Limits::default()
            };
            let engine = Engine::new().workers(workers).cycles(CyclePolicy::fixed(10)).limits(limits);
            let mut running =
                engine.cut_log(cuts.clone()).run(plan_without_operators(), sink.boxed()).unwrap();
            let gateway = running.gateway(0).unwrap();
            let bytes = || running.status().get(Counter::UncommittedBytes);
            for number in 0..60 {
                let before = bytes();
                gateway.push(chunk(&numbered(number * 10..number * 10 + 10))).unwrap();
                // So that no more than one cycle is on its way when the limit is looked at.
                eventually("a cycle at the sink, or the limit", || bytes() > before || before >= 4000);
            }
            std::thread::sleep(Duration::from_millis(50));
            assert!(cuts.0.load(Ordering::SeqCst) < 40, "{} cycles were cut", cuts.0.load(Ordering::SeqCst));
            assert!((4000..8000).contains(&bytes()), "not passed by more than was on its way: {}", bytes());
            sink.hold(false);
            drop(gateway);
            let summary = running.join().unwrap();
            assert_eq!(summary.get(Counter::UncommittedBytes), 0);
            assert_eq!(sink.rows(0), numbered(0..600));
        });
    }
}

#[test]
fn results_that_wait_for_a_sink_count_against_the_memory() {
    watched("a blocked sink in little memory", || {
        let (sink, cuts, memory) = (Remember::default(), Count::default(), MemoryBudget::new(4000));
        sink.hold(true);
        let limits = Limits { cycles_in_flight_max: 1000, gateway_batches_max: 120, ..Limits::default() };
        let engine = Engine::new().cycles(CyclePolicy::fixed(10)).limits(limits).memory(memory.clone());
        let mut running = engine.cut_log(cuts.clone()).run(plan_without_operators(), sink.boxed()).unwrap();
        let gateway = running.gateway(0).unwrap();
        let bytes = || running.status().get(Counter::UncommittedBytes);
        for number in 0..60 {
            let before = bytes();
            gateway.push(chunk(&numbered(number * 10..number * 10 + 10))).unwrap();
            eventually("a cycle at the sink, or the limit", || bytes() > before || before >= 4000);
        }
        std::thread::sleep(Duration::from_millis(50));
        assert!(cuts.0.load(Ordering::SeqCst) < 40, "{} cycles were cut", cuts.0.load(Ordering::SeqCst));
        assert!((4000..8000).contains(&memory.held()), "{}", memory.held());
        // It waits for the sink, and does not fail.
        sink.hold(false);
        drop(gateway);
        running.join().unwrap();
        assert_eq!((memory.held(), sink.rows(0)), (0, numbered(0..600)));
    });
}

#[test]
fn a_result_larger_than_the_limit_passes_alone() {
    watched("large results", || {
        let sink = Remember::default();
        let limits = Limits { uncommitted_bytes_max: 1, cycles_in_flight_max: 1, ..Limits::default() };
        let engine = Engine::new().workers(2).cycles(CyclePolicy::fixed(1000)).limits(limits);
        let mut running = engine.run(plan_without_operators(), sink.boxed()).unwrap();
        let (_, thread) = push_in_background(&mut running, 1000);
        thread.join().unwrap();
        running.join().unwrap();
        assert_eq!(sink.rows(0), numbered(0..10_000));
    });
}

#[test]
fn a_push_that_waits_ends_when_the_query_stops() {
    watched("a waiting push", || {
        let sink = Remember::default();
        sink.hold(true);
        let limits = Limits { cycles_in_flight_max: 1, gateway_batches_max: 1, ..Limits::default() };
        let engine = Engine::new().cycles(CyclePolicy::fixed(10)).limits(limits);
        let mut running = engine.run(plan_without_operators(), sink.boxed()).unwrap();
        let gateway = running.gateway(0).unwrap();
        let thread = std::thread::spawn(move || while gateway.push(chunk(&numbered(0..10))).is_ok() {});
        eventually("a stall", || running.status().get(Counter::Stalls) > 0);
        running.abort();
        thread.join().unwrap();
        sink.hold(false);
        assert!(matches!(running.join(), Err(FlowError::Failed(tidemill_engine::Failure::Aborted))));
    });
}

/// Waits in `rows` while the flag is set.
struct Held(Arc<AtomicBool>);

impl Operator for Held {
    fn rows(&mut self, _input: usize, _rows: Rows<'_>, _output: &mut Output) -> Result<(), Cause> {
        while self.0.load(Ordering::SeqCst) {
            std::thread::yield_now();
        }
        Ok(())
    }
    fn snapshot(&self, _writer: &mut SnapshotWriter) {}
    fn restore(&mut self, _reader: &mut SnapshotReader<'_>) -> Result<(), Cause> {
        Ok(())
    }
}

#[test]
fn no_cycle_is_committed_before_an_operator_that_no_one_reads_is_done_with_it() {
    for workers in [2, 5] {
        watched("a slow operator that no one reads", move || {
            let (sink, held) = (Remember::default(), Arc::new(AtomicBool::new(true)));
            let mut plan = Plan::new("unread");
            let input = plan.source("input", [schema()]);
            let flag = Arc::clone(&held);
            plan.operator(operator("held", input[0], move |partition| match partition {
                // On the second worker, while the first one feeds the sink.
                1 => Box::new(Held(Arc::clone(&flag))),
                _ => Box::new(Forward::default()),
            }));
            plan.sink("output", input);
            let mut running = Engine::new()
                .workers(workers)
                .cycles(CyclePolicy::fixed(10))
                .run(plan, sink.boxed())
                .unwrap();
            let (_, thread) = push_in_background(&mut running, 20);
            std::thread::sleep(Duration::from_millis(100));
            assert_eq!(sink.committed(), 0);
            held.store(false, Ordering::SeqCst);
            thread.join().unwrap();
            running.join().unwrap();
            assert_eq!(sink.rows(0), numbered(0..200));
        });
    }
}
