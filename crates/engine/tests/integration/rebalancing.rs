//! Partitions move between workers while the query runs: whenever and wherever they do, the output is that of a run in which
//! they stay.

use crate::fixture;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use crate::fixture::forward::{self, Forward};
use crate::fixture::mixer::Kind;
use crate::fixture::oracle::{Spec, one_chunk, random_chunks, random_events, random_split};
use crate::fixture::processes::{self, processes, token};
use crate::fixture::sink::{Given, Remember};
use crate::fixture::{Row, chunk, eventually, numbered, watched};
use proptest::prelude::*;
use tidemill_engine::{
    AutoSplit, Cause, Chunk, Clock, Counter, CyclePolicy, Engine, Failure, FlowError, ManualClock, Operator,
    Output, Plan, Rebalancing, Rows, Running, Sink, Snapshot, SnapshotReader, SnapshotWriter, Status,
    StreamProcessPlan, ThreadTime,
};
use tidemill_testing::random::Random;

fn at_random(random: &mut Random) -> Rebalancing {
    Rebalancing::Random { seed: random.next(), every_cycles: 1 + random.below(3) }
}

/// The plan with other splits, trees among them, which may change.
fn with_random_splits(spec: &Spec, random: &mut Random) -> Plan {
    let mut plan = spec.plan();
    for operator in &mut plan.operators {
        for input in &mut operator.inputs {
            input.split = Some(random_split(random, operator.partitions));
            input.auto_split = random.is_once_in(2).then(AutoSplit::by_hand);
        }
    }
    plan
}

/// Where each partition is after these moves, each of which must begin where the last one of the partition has ended.
fn check_moves(status: &Status, workers: u32) {
    let mut worker_of: BTreeMap<(&str, u32), u32> = BTreeMap::new();
    for one in &status.moves {
        let place =
            worker_of.entry((&one.operator, one.partition)).or_insert_with(|| one.partition % workers);
        assert_eq!((*place, one.from != one.to), (one.from, true), "{one:?}");
        assert!(one.to < workers);
        *place = one.to;
    }
    assert!(status.moves.windows(2).all(|pair| pair[0].first_cycle <= pair[1].first_cycle));
}

fn engine(workers: usize, cycle: u32) -> Engine {
    Engine::new().workers(workers).cycles(CyclePolicy::fixed(cycle)).clock(Arc::new(ManualClock::default()))
}

/// Starts a plan with sinks that remember.
fn start(engine: Engine, spec: &Spec, plan: Plan) -> (Running, Vec<Remember>) {
    let sinks: Vec<Remember> = spec.sinks.iter().map(|_| Remember::default()).collect();
    let boxed = sinks.iter().map(|sink| Box::new(sink.clone()) as Box<dyn Sink>).collect();
    (engine.run(plan, boxed).unwrap(), sinks)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 30, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn random_moves_in_stateful_queries_change_no_output(seed in any::<u64>()) {
        let mut random = Random::new(seed);
        let kind = if random.is_once_in(2) { Kind::Order } else { Kind::EventTime };
        let spec = Spec::random(&mut random, kind, 1);
        let (cycle, events_max) = [(10, 1500), (100, 5000), (1500, 20_000)][random.below(3) as usize];
        let count = 5 * cycle as usize + random.below(events_max) as usize;
        let events = random_events(&mut random, count);
        let chunks = random_chunks(&mut random, &events, true);
        for workers in [1, 2, 5] {
            let (rebalancing, plan) = (at_random(&mut random), with_random_splits(&spec, &mut random));
            let (chunks, of_spec) = (chunks.clone(), spec.clone());
            let (given, status) = watched("random moves", move || {
                let (mut running, sinks) =
                    start(engine(workers, cycle).rebalancing(rebalancing), &of_spec, plan);
                let gateway = running.gateway(0).unwrap();
                chunks.into_iter().for_each(|chunk| gateway.push(chunk).unwrap());
                drop(gateway);
                let status = running.join().unwrap();
                (sinks.iter().map(Remember::given).collect::<Vec<Vec<Given>>>(), status)
            });
            let cuts: Vec<_> = given[0].iter().map(|given| given.cut.clone()).collect();
            let expected = spec.expected(std::slice::from_ref(&events), &cuts);
            prop_assert!(given == expected, "{} workers give something else", workers);
            check_moves(&status, workers as u32);
            let moves = status.get(Counter::PartitionMoves);
            prop_assert!(status.moves.len() as u64 == moves.min(256));
            prop_assert!(workers > 1 || moves == 0);
        }
    }
}

/// Pushes one chunk per cycle.
fn push_all(running: &mut Running, chunks: &[Chunk]) -> Status {
    let gateway = running.gateway(0).unwrap();
    chunks.iter().for_each(|chunk| gateway.push(chunk.clone()).unwrap());
    drop(gateway);
    running.observer().status()
}

type Streams = Vec<Vec<fixture::sink::Placed>>;

/// What a sink was given in cycles with rows: empty ones are where one run ends and the next begins.
fn with_rows(sink: &Remember) -> Vec<Streams> {
    let given = sink.given().into_iter().map(|given| given.streams);
    given.filter(|streams| streams.iter().any(|stream| !stream.is_empty())).collect()
}

/// Snapshots have each partition once, at the end of the same cycle, wherever it is on its way: a run that continues from one
/// gives the rest of what a run gives that was not broken off.
#[test]
fn a_run_continues_from_a_snapshot_that_was_taken_while_partitions_moved() {
    let mut random = Random::new(29);
    let mut moves = 0;
    for round in 0..20 {
        let spec = Spec::random(&mut random, Kind::Order, 1).without_cycle_numbers();
        let events = random_events(&mut random, 2000);
        let chunks: Vec<Chunk> = events.chunks(100).map(one_chunk).collect();
        let at = 1 + random.below(19) as usize;
        let (before, after) = ([2, 5, 3][round % 3], [5, 1, 2][round / 3 % 3]);
        let often = |random: &mut Random| Rebalancing::Random { seed: random.next(), every_cycles: 1 };
        let (first_moves, second_moves) = (often(&mut random), often(&mut random));
        moves += watched("a snapshot between moves", move || {
            let (mut whole, expected) =
                start(engine(2, 100).rebalancing(Rebalancing::Off), &spec, spec.plan());
            push_all(&mut whole, &chunks);
            assert_eq!(whole.join().unwrap().get(Counter::PartitionMoves), 0);

            let (mut first, first_sinks) =
                start(engine(before, 100).rebalancing(first_moves), &spec, spec.plan());
            let gateway = first.gateway(0).unwrap();
            chunks[..at].iter().for_each(|chunk| gateway.push(chunk.clone()).unwrap());
            let snapshot: Snapshot = first.snapshot().unwrap();
            let moves = first.status().get(Counter::PartitionMoves);
            first.abort();
            drop(gateway);
            let _ = first.join();
            for operator in &spec.plan().operators {
                let partitions: Vec<u32> = snapshot.operators[&operator.name].keys().copied().collect();
                assert_eq!(partitions, (0..operator.partitions).collect::<Vec<_>>());
            }

            let engine = engine(after, 100).rebalancing(second_moves).state(Arc::new(snapshot));
            let (mut second, second_sinks) = start(engine, &spec, spec.plan());
            push_all(&mut second, &chunks[at..]);
            second.join().unwrap();
            for ((expected, first), second) in expected.iter().zip(&first_sinks).zip(&second_sinks) {
                let (whole, parts, rest) = (with_rows(expected), with_rows(first), with_rows(second));
                assert!(whole.starts_with(&parts), "the first run gives something else");
                assert!(whole.ends_with(&rest), "the second run gives something else");
                assert!(parts.len() + rest.len() <= whole.len());
            }
            moves
        });
    }
    assert!(moves > 20, "{moves} moves");
}

#[test]
fn a_failure_between_moves_is_told_and_ends_all_workers() {
    for deed in ["fail", "panic"] {
        for seed in 0..10 {
            let failure = watched("a failure between moves", move || {
                let sink = Remember::default();
                let rebalancing = Rebalancing::Random { seed, every_cycles: 1 };
                let engine = engine(3, 100).rebalancing(rebalancing);
                let mut running =
                    engine.run(processes::plan(&format!("at 2023 {deed}")), sink.boxed()).unwrap();
                let gateway = running.gateway(0).unwrap();
                for number in 0..30 {
                    if gateway.push(chunk(&numbered(number * 100..number * 100 + 100))).is_err() {
                        break;
                    }
                }
                drop(gateway);
                let Err(FlowError::Failed(failure)) = running.join() else { panic!("it does not fail") };
                assert!(sink.committed() <= 20);
                failure
            });
            let Failure::Operator(error) = failure else { panic!("another failure: {failure}") };
            assert_eq!((error.operator.as_str(), error.partition, error.cycle), ("forward", 2023 % 7, 20));
        }
    }
}

/// Holds up whoever passes, until it is opened.
#[derive(Default)]
struct Gate {
    is_open: Mutex<bool>,
    opened: Condvar,
    waiting: AtomicUsize,
}

impl Gate {
    fn pass(&self) {
        self.waiting.fetch_add(1, Ordering::SeqCst);
        let mut is_open = self.is_open.lock();
        while !*is_open {
            self.opened.wait(&mut is_open);
        }
        self.waiting.fetch_sub(1, Ordering::SeqCst);
    }

    fn open(&self) {
        *self.is_open.lock() = true;
        self.opened.notify_all();
    }
}

/// Forwards. A partition with a gate waits there with its first rows.
struct Gated {
    forward: Forward,
    gate: Option<Arc<Gate>>,
    living: Arc<AtomicUsize>,
}

impl Operator for Gated {
    fn rows(&mut self, input: usize, rows: Rows<'_>, output: &mut Output) -> Result<(), Cause> {
        if let Some(gate) = self.gate.take() {
            gate.pass();
        }
        self.forward.rows(input, rows, output)
    }
    fn snapshot(&self, writer: &mut SnapshotWriter) {
        self.forward.snapshot(writer);
    }
    fn restore(&mut self, reader: &mut SnapshotReader<'_>) -> Result<(), Cause> {
        self.forward.restore(reader)
    }
}

impl Drop for Gated {
    fn drop(&mut self) {
        self.living.fetch_sub(1, Ordering::SeqCst);
    }
}

/// The number of the chunk that is held up, of four chunks that make a cycle each.
const HELD: u32 = 1;

/// Two operators of seven partitions, on two workers. In the second cycle, some partitions of both change their workers, and
/// partition 1 of the first operator is held up on its new one. Partition 1 of the second operator is then on its way there.
fn held_up(gate: &Arc<Gate>, living: &Arc<AtomicUsize>) -> (Running, Remember) {
    let (of_plan, alive) = (Arc::clone(gate), Arc::clone(living));
    let mut plan = Plan::new("held up");
    let input = plan.source("input", [fixture::schema()]);
    let gated = move |name: &str, is_held: bool| {
        let (of_plan, alive) = (Arc::clone(&of_plan), Arc::clone(&alive));
        forward::operator(name, input[0], move |partition| {
            alive.fetch_add(1, Ordering::SeqCst);
            let gate = (is_held && partition == 1).then(|| Arc::clone(&of_plan));
            Box::new(Gated { forward: Forward::default(), gate, living: Arc::clone(&alive) })
        })
    };
    let (first, second) = (plan.operator(gated("first", true)), plan.operator(gated("second", false)));
    plan.sink("output", [first, second].concat());
    let sink = Remember::default();
    let mut running = engine(2, 100).run(plan, sink.boxed()).unwrap();
    let gateway = running.gateway(0).unwrap();
    let push = |number: u32| gateway.push(chunk(&rows_of_chunk(number))).unwrap();
    (0..HELD).for_each(push);
    eventually("the cycles before", || sink.committed() == u64::from(HELD));
    for operator in ["first", "second"] {
        [(0, 1), (1, 0), (2, 1)]
            .iter()
            .for_each(|(partition, to)| running.move_partition(operator, *partition, *to).unwrap());
    }
    (HELD..4).for_each(push);
    eventually("a partition at the gate", || gate.waiting.load(Ordering::SeqCst) == 1);
    (running, sink)
}

/// The first chunk has no row for partition 1.
fn rows_of_chunk(number: u32) -> Vec<Row> {
    let rows = numbered(number * 100..number * 100 + 100);
    rows.into_iter()
        .map(|row| if number < HELD && row.0 % 7 == 1 { (row.0 + 1, row.1, row.2) } else { row })
        .collect()
}

#[test]
fn what_is_held_up_while_partitions_move_is_done_by_the_right_worker() {
    watched("a partition that is held up", || {
        let (gate, living): (Arc<Gate>, Arc<AtomicUsize>) = (Arc::default(), Arc::default());
        let (running, sink) = held_up(&gate, &living);
        assert_eq!(sink.committed(), u64::from(HELD));
        gate.open();
        let status = running.join().unwrap();
        let still = Remember::default();
        let mut other = engine(1, 100).run(forward::plan(), still.boxed()).unwrap();
        let gateway = other.gateway(0).unwrap();
        (0..4).for_each(|number| gateway.push(chunk(&rows_of_chunk(number))).unwrap());
        drop(gateway);
        other.join().unwrap();
        assert_eq!([sink.rows(0), sink.rows(1)], [still.rows(0), still.rows(0)]);
        let of_cycle = status.moves.iter().map(|one| (one.partition, one.from, one.to, one.first_cycle));
        let expected = [(0, 0, 1), (1, 1, 0), (2, 0, 1)].map(|(p, from, to)| (p, from, to, u64::from(HELD)));
        assert_eq!(of_cycle.collect::<Vec<_>>(), [expected, expected].concat());
        assert_eq!(living.load(Ordering::SeqCst), 0);
    });
}

#[test]
fn a_query_that_is_stopped_while_partitions_are_on_their_way_ends_and_frees_them() {
    for _ in 0..20 {
        watched("stopped between workers", || {
            let (gate, living): (Arc<Gate>, Arc<AtomicUsize>) = (Arc::default(), Arc::default());
            let (running, _) = held_up(&gate, &living);
            let observer = running.observer();
            running.abort();
            gate.open();
            assert!(matches!(running.join(), Err(FlowError::Failed(Failure::Aborted))));
            assert_eq!(observer.status().moves.len(), 6);
            assert_eq!(living.load(Ordering::SeqCst), 0, "someone who only watches keeps no state");
        });
    }
}

/// With real clocks, five workers on fewer cores are seldom done with a cycle at the same time.
#[test]
fn cycles_wait_for_partitions_until_those_before_are_done() {
    watched("many moves", || {
        let engine = Engine::new().workers(5).cycles(CyclePolicy::fixed(500));
        let engine = engine.rebalancing(Rebalancing::Random { seed: 5, every_cycles: 1 });
        let (sink, mut pushed) = (Remember::default(), 0);
        let mut running = engine.run(forward::plan(), sink.boxed()).unwrap();
        let gateway = running.gateway(0).unwrap();
        while pushed < 200 || running.status().get(Counter::HandoverTime) == 0 {
            gateway.push(chunk(&numbered(pushed * 500..pushed * 500 + 500))).unwrap();
            pushed += 1;
        }
        drop(gateway);
        running.join().unwrap();
        let mut seen = [0; 7];
        for (number, (key, _, value)) in (0..).zip(sink.rows(0)) {
            let seen: &mut u64 = &mut seen[number as usize % 7];
            assert_eq!((key, value), (number, u64::from(number) + *seen));
            *seen += 1;
        }
        assert_eq!(seen.iter().sum::<u64>(), u64::from(pushed) * 500);
    });
}

#[test]
fn moves_that_cannot_be_are_refused_with_the_reason() {
    watched("refused moves", || {
        let sink = Remember::default();
        let running = engine(2, 100).run(forward::plan(), sink.boxed()).unwrap();
        let refused = |running: &Running, operator: &str, partition, worker| {
            let Err(FlowError::Settings(reason)) = running.move_partition(operator, partition, worker) else {
                panic!("it is not refused")
            };
            reason
        };
        assert!(refused(&running, "backward", 0, 1).contains("the plan has no such operator"));
        assert!(refused(&running, "forward", 7, 1).contains("it has 7 partitions; choose 0 to 6"));
        assert!(refused(&running, "forward", 6, 2).contains("the query has 2 workers; choose 0 to 1"));
        running.move_partition("forward", 6, 0).unwrap();
        assert_eq!(running.join().unwrap().moves, [], "it is there already");

        let mut plan = Plan::new("placed");
        let input = plan.source("input", [fixture::schema()]);
        let process = plan.stream_process(StreamProcessPlan::new("p"));
        let operator = forward::operator("forward", input[0], |_| Box::new(Forward::default()));
        let output = plan.operator(operator.stream_process(process));
        plan.sink("output", output);
        let running = engine(2, 100).run(plan, sink.boxed()).unwrap();
        assert!(refused(&running, "forward", 0, 1).contains("it belongs to a stream process"));
        running.abort();

        let token = token();
        let engine = engine(1, 100).processes(processes(2, "forward", &token));
        let engine = engine.rebalancing(Rebalancing::Random { seed: 3, every_cycles: 1 });
        let mut running = engine.run(processes::plan("forward"), Remember::default().boxed()).unwrap();
        assert!(refused(&running, "forward", 0, 1).contains("a query over several processes"));
        let gateway = running.gateway(0).unwrap();
        (0..20).for_each(|number| {
            gateway.push(chunk(&numbered(number * 100..number * 100 + 100))).unwrap();
        });
        drop(gateway);
        assert_eq!(running.join().unwrap().get(Counter::PartitionMoves), 0);
    });
}

/// Forwards, and takes processor time for each row.
struct Expensive(Forward);

/// What a row costs.
const ROW_NS: u64 = 50_000;

impl Operator for Expensive {
    fn rows(&mut self, input: usize, rows: Rows<'_>, output: &mut Output) -> Result<(), Cause> {
        let end_ns = ThreadTime.now_ns() + ROW_NS * rows.len() as u64;
        while ThreadTime.now_ns() < end_ns {}
        self.0.rows(input, rows, output)
    }
    fn snapshot(&self, writer: &mut SnapshotWriter) {
        self.0.snapshot(writer);
    }
    fn restore(&mut self, reader: &mut SnapshotReader<'_>) -> Result<(), Cause> {
        self.0.restore(reader)
    }
}

/// All rows are of partitions 0, 2 and 4, which are on worker 0. The clock of the decisions goes as fast as the rows cost.
fn run_skewed(rebalancing: Rebalancing, until_moved: bool) -> (Vec<Row>, Status) {
    watched("a skewed load", move || {
        let plan = forward::plan_of(|_| Box::new(Expensive(Forward::default())));
        let (sink, clock) = (Remember::default(), Arc::new(ManualClock::default()));
        let engine = engine(2, 60).clock(Arc::clone(&clock) as Arc<dyn Clock>).rebalancing(rebalancing);
        let mut running = engine.run(plan, sink.boxed()).unwrap();
        let gateway = running.gateway(0).unwrap();
        let row = |number: u32| (2 * (number % 3), i64::from(number), u64::from(number));
        let mut cycles = 0;
        while cycles < 40 || (until_moved && running.status().moves.is_empty()) {
            let rows: Vec<Row> = (cycles * 60..cycles * 60 + 60).map(row).collect();
            gateway.push(chunk(&rows)).unwrap();
            cycles += 1;
            eventually("the cycle", || sink.committed() == u64::from(cycles));
            clock.advance_ns(60 * ROW_NS);
        }
        drop(gateway);
        let status = running.join().unwrap();
        (sink.rows(0), status)
    })
}

#[test]
fn partitions_with_much_work_leave_a_worker_that_has_all_of_it() {
    let every = Duration::from_nanos(600 * ROW_NS);
    let (moved_rows, status) = run_skewed(Rebalancing::Measured { every }, true);
    let moved = &status.moves[0];
    assert_eq!((moved.from, moved.to, moved.partition % 2), (0, 1, 0), "{:?}", status.moves);
    let (still_rows, still) = run_skewed(Rebalancing::Off, false);
    assert_eq!(still.moves, []);
    let both = moved_rows.len().min(still_rows.len());
    assert!(both >= 2400 && moved_rows[..both] == still_rows[..both]);
}
