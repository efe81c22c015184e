//! Snapshots while the stream flows: a run that continues from one gives what the run without a break gives.

use crate::fixture;

use std::sync::Arc;
use std::time::Duration;

use crate::fixture::forward::{plan, plan_without_operators};
use crate::fixture::mixer::Kind;
use crate::fixture::oracle::{Spec, one_chunk, random_events};
use crate::fixture::sink::{Placed, Remember};
use crate::fixture::{chunk, numbered, watched};
use tidemill_engine::{
    Cause, Chunk, Counter, Cut, CutLog, CyclePolicy, Engine, FlowError, Limits, MemoryCutLog, Plan, Running,
    Sink, Snapshot,
};
use tidemill_testing::random::Random;

/// Starts a plan with one-chunk cycles, so that the cuts of a run and of its two parts are the same.
fn start(spec: &Spec, workers: usize, state: Option<Snapshot>) -> (Running, Vec<Remember>) {
    start_plan(spec, spec.plan(), workers, state)
}

fn start_plan(spec: &Spec, plan: Plan, workers: usize, state: Option<Snapshot>) -> (Running, Vec<Remember>) {
    let sinks: Vec<Remember> = spec.sinks.iter().map(|_| Remember::default()).collect();
    let boxed = sinks.iter().map(|sink| Box::new(sink.clone()) as Box<dyn Sink>).collect();
    let mut engine = Engine::new().workers(workers).cycles(CyclePolicy::fixed(100));
    if let Some(state) = state {
        engine = engine.state(Arc::new(state));
    }
    (engine.run(plan, boxed).unwrap(), sinks)
}

/// The plan of a later version, in which each operator has another name.
fn renamed(mut plan: Plan) -> Plan {
    for operator in &mut plan.operators {
        let now = format!("renamed {}", operator.name);
        let former = std::mem::replace(&mut operator.name, now);
        operator.former_names.extend(["another".to_owned(), former]);
    }
    plan
}

fn streams_of(sink: &Remember) -> Vec<Vec<Vec<Placed>>> {
    let given = sink.given().into_iter().map(|given| given.streams);
    // Empty cycles are where the one run ends and the other begins.
    given.filter(|streams| streams.iter().any(|stream| !stream.is_empty())).collect()
}

fn push_all(running: &mut Running, chunks: &[Chunk]) {
    let gateway = running.gateway(0).unwrap();
    chunks.iter().for_each(|chunk| gateway.push(chunk.clone()).unwrap());
}

#[test]
fn a_run_that_goes_on_from_a_snapshot_gives_the_rest() {
    let mut random = Random::new(23);
    for round in 0..30 {
        let spec = Spec::random(&mut random, Kind::Order, 1).without_cycle_numbers();
        let events = random_events(&mut random, 2000);
        let chunks: Vec<Chunk> = events.chunks(100).map(one_chunk).collect();
        let at = random.below(20) as usize;
        let (before, after) = ([1, 2, 5][round % 3], [5, 1, 3][round / 3 % 3]);
        watched("a snapshot", move || {
            let (mut whole, expected) = start(&spec, 2, None);
            push_all(&mut whole, &chunks);
            whole.join().unwrap();

            let (mut first, first_sinks) = start(&spec, before, None);
            let gateway = first.gateway(0).unwrap();
            chunks[..at].iter().for_each(|chunk| gateway.push(chunk.clone()).unwrap());
            let snapshot = first.snapshot().unwrap();
            assert_eq!(snapshot.operators.len(), spec.operators());
            first.abort();
            drop(gateway);
            let _ = first.join();

            let plan = if round % 2 == 0 { spec.plan() } else { renamed(spec.plan()) };
            let (mut second, second_sinks) = start_plan(&spec, plan, after, Some(snapshot.clone()));
            push_all(&mut second, &chunks[at..]);
            second.join().unwrap();
            for ((expected, first), second) in expected.iter().zip(&first_sinks).zip(&second_sinks) {
                // The aborted run may not have got to its end; what it gave is right.
                let (whole, parts, rest) = (streams_of(expected), streams_of(first), streams_of(second));
                assert!(whole.starts_with(&parts) && parts.len() <= snapshot.cycle as usize + 1);
                assert!(whole.ends_with(&rest), "the second run gives something else");
                assert!(parts.len() + rest.len() <= whole.len());
            }
        });
    }
}

#[test]
fn a_snapshot_holds_every_event_that_was_pushed_before_and_the_stream_goes_on() {
    for workers in [1, 2, 5] {
        watched("snapshots in a flow", move || {
            let sink = Remember::default();
            let limits = Limits { cycles_in_flight_max: 2, ..Limits::default() };
            let engine = Engine::new().workers(workers).cycles(CyclePolicy::fixed(64)).limits(limits);
            let mut running = engine.run(plan(), sink.boxed()).unwrap();
            let gateway = running.gateway(0).unwrap();
            let mut last = None;
            for number in 0..40 {
                gateway.push(chunk(&numbered(number * 100..number * 100 + 100))).unwrap();
                let snapshot = running.snapshot().unwrap();
                let seen = snapshot.operators["forward"]
                    .values()
                    .map(|bytes| u64::from_le_bytes(bytes[1..9].try_into().unwrap()));
                assert_eq!(seen.sum::<u64>(), u64::from(number) * 100 + 100);
                assert_eq!(snapshot.operators["forward"].len(), 7);
                assert!(last < Some(snapshot.cycle));
                last = Some(snapshot.cycle);
            }
            drop(gateway);
            running.join().unwrap();
            assert_eq!(sink.rows(0).len(), 4000);
        });
    }
}

#[test]
fn snapshots_of_several_threads_do_not_disturb_each_other() {
    watched("many who ask", || {
        let sink = Remember::default();
        let mut running = Engine::new().workers(2).run(plan(), sink.boxed()).unwrap();
        let gateway = running.gateway(0).unwrap();
        gateway.push(chunk(&numbered(0..70))).unwrap();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    (0..25)
                        .for_each(|_| assert_eq!(running.snapshot().unwrap().operators["forward"].len(), 7))
                });
            }
        });
        drop(gateway);
        running.join().unwrap();
    });
}

#[test]
fn a_snapshot_of_a_query_without_operators_is_empty() {
    watched("no operators", || {
        let mut running = Engine::new().run(plan_without_operators(), Remember::default().boxed()).unwrap();
        let gateway = running.gateway(0).unwrap();
        assert!(running.snapshot().unwrap().operators.is_empty());
        assert_eq!(running.snapshot().unwrap().cycle, 1);
        drop(gateway);
        running.join().unwrap();
    });
}

/// A log of a slow disk.
#[derive(Clone)]
struct SlowLog(MemoryCutLog);

impl CutLog for SlowLog {
    fn append(&mut self, cut: &Cut) -> Result<(), Cause> {
        std::thread::sleep(Duration::from_millis(5));
        self.0.append(cut)
    }
}

#[test]
fn the_cut_of_a_snapshot_is_logged_before_anyone_has_the_snapshot() {
    watched("a slow log", || {
        let log = MemoryCutLog::new(100);
        let engine = Engine::new().cut_log(SlowLog(log.clone()));
        let mut running = engine.run(plan_without_operators(), Remember::default().boxed()).unwrap();
        let gateway = running.gateway(0).unwrap();
        for cycle in 0..10 {
            assert_eq!(running.snapshot().unwrap().cycle, cycle);
            assert_eq!(log.cuts().len() as u64, cycle + 1);
        }
        drop(gateway);
        running.join().unwrap();
    });
}

#[test]
fn a_snapshot_of_a_query_that_has_ended_is_an_error() {
    for workers in [1, 2, 5] {
        watched("an ended query", move || {
            let sink = Remember::default();
            let mut running = Engine::new().workers(workers).run(plan(), sink.boxed()).unwrap();
            drop(running.gateway(0));
            fixture::eventually("the end", || sink.read(|memory| memory.finished));
            let Err(FlowError::Failed(error)) = running.snapshot() else { panic!("a snapshot of nothing") };
            assert!(error.to_string().contains("has ended"), "{error}");
            running.join().unwrap();
        });
    }
}

#[test]
fn a_snapshot_that_races_the_end_or_an_abort_does_not_hang() {
    for round in 0..150 {
        watched("a race", move || {
            let mut running =
                Engine::new().workers(1 + round % 3).run(plan(), Remember::default().boxed()).unwrap();
            let gateway = running.gateway(0).unwrap();
            gateway.push(chunk(&numbered(0..100))).unwrap();
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    std::thread::sleep(Duration::from_micros(round as u64 * 7 % 300));
                    if round % 2 == 0 { running.abort() } else { drop(gateway) }
                });
                let _ = running.snapshot();
            });
            assert_eq!(running.join().is_ok(), round % 2 == 1);
        });
    }
}

#[test]
fn a_snapshot_waits_for_a_slow_sink() {
    watched("a slow sink", || {
        let sink = Remember::default();
        sink.hold(true);
        let limits = Limits { cycles_in_flight_max: 1, ..Limits::default() };
        let engine = Engine::new().cycles(CyclePolicy::fixed(10)).limits(limits);
        let mut running = engine.run(plan(), sink.boxed()).unwrap();
        let gateway = running.gateway(0).unwrap();
        gateway.push(chunk(&numbered(0..50))).unwrap();
        std::thread::scope(|scope| {
            let snapshot = scope.spawn(|| running.snapshot().unwrap());
            fixture::eventually("a stall", || running.status().get(Counter::Stalls) > 0);
            assert!(!snapshot.is_finished());
            sink.hold(false);
            assert_eq!(snapshot.join().unwrap().cycle, 4);
        });
        drop(gateway);
        running.join().unwrap();
    });
}
