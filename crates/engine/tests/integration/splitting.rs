//! Splitting a stream: whatever the split plan, the number of workers and the cuts, each partition gets what a
//! naive split gives it, in order, and the output is the same.

use crate::fixture;

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::{Condvar, Mutex};

use crate::fixture::sink::{Given, Remember};
use crate::fixture::{COLUMNS, Row, chunk, eventually, rows_of, schema, watched};
use proptest::prelude::*;
use tidemill_engine::arrow::array::types::{Int64Type, UInt32Type, UInt64Type};
use tidemill_engine::{
    BROADCAST, Cause, Counter, CyclePolicy, Engine, Failure, FlowError, Limits, OMIT, Operator, OperatorPlan,
    Output, Plan, Proportions, Rows, SnapshotReader, SnapshotWriter, SplitPlan, route_by_value,
};
use tidemill_testing::random::Random;

/// The key of a row that goes to all partitions, and of one that goes to none. Others go to the partition of
/// their key.
const TO_ALL: u32 = 100_000;
const TO_NONE: u32 = 100_001;

/// Writes its partition, the event time and the value of each row, until it fails at a value.
struct Tell {
    partition: u32,
    fails_at: Option<u64>,
}

impl Operator for Tell {
    fn rows(&mut self, _input: usize, rows: Rows<'_>, output: &mut Output) -> Result<(), Cause> {
        let (times, values) = (rows.column::<Int64Type>(1), rows.column::<UInt64Type>(2));
        for (row, position) in rows.positions().iter().enumerate() {
            if self.fails_at == Some(values[row]) {
                return Err(Cause::user("it is full"));
            }
            output.port(0).push(*position, (self.partition, times[row], values[row]));
        }
        Ok(())
    }
    fn snapshot(&self, _writer: &mut SnapshotWriter) {}
    fn restore(&mut self, _reader: &mut SnapshotReader<'_>) -> Result<(), Cause> {
        Ok(())
    }
}

/// Source -> an operator that is split so -> sink. `behind`: with an operator between, whose rows are split.
fn plan(partitions: u32, split: Option<SplitPlan>, behind: bool, fails_at: Option<(u32, u64)>) -> Plan {
    let route: Box<tidemill_engine::Route> = Box::new(move |rows, destinations| {
        destinations.extend(rows_of(rows).iter().map(|row| match row.0 {
            TO_ALL => BROADCAST,
            TO_NONE => OMIT,
            key => key,
        }));
    });
    let mut plan = Plan::new("split");
    let mut stream = plan.source("input", [schema()])[0];
    if behind {
        stream = plan.operator(fixture::forward::operator("forward", stream, |_| Box::new(Forward)))[0];
    }
    let tell = move |partition| {
        let fails_at = fails_at.and_then(|(failing, value)| (failing == partition).then_some(value));
        Box::new(Tell { partition, fails_at }) as Box<dyn Operator>
    };
    let mut operator = OperatorPlan::new("tell", partitions, tell).input(stream, COLUMNS, route);
    if let Some(split) = split {
        operator = operator.split(split);
    }
    let output = plan.operator(operator.output(schema()));
    plan.sink("output", output);
    plan
}

/// Hands on what it gets.
struct Forward;

impl Operator for Forward {
    fn rows(&mut self, _input: usize, rows: Rows<'_>, output: &mut Output) -> Result<(), Cause> {
        let keys = rows.column::<UInt32Type>(0);
        let (times, values) = (rows.column::<Int64Type>(1), rows.column::<UInt64Type>(2));
        for (row, position) in rows.positions().iter().enumerate() {
            output.port(0).push(*position, (keys[row], times[row], values[row]));
        }
        Ok(())
    }
    fn snapshot(&self, _writer: &mut SnapshotWriter) {}
    fn restore(&mut self, _reader: &mut SnapshotReader<'_>) -> Result<(), Cause> {
        Ok(())
    }
}

/// Every kind of plan, with windows of this many rows; and none, where every worker splits what it has.
fn all_plans(partitions: u32, splitters: u32, window_rows: u32) -> Vec<Option<SplitPlan>> {
    let parts = Proportions::broadcast_part(0.2).unwrap();
    let plans = [
        SplitPlan::fsplit(partitions),
        SplitPlan::exptree(partitions),
        SplitPlan::maxtree(partitions, parts, 1.0),
        SplitPlan::autosplit(partitions, true),
        SplitPlan::autosplit(partitions, false),
        SplitPlan::parasplit(partitions, splitters),
        SplitPlan::parasplit_tree(partitions, splitters),
    ];
    std::iter::once(None).chain(plans.map(|plan| Some(plan.with_window_rows(window_rows)))).collect()
}

fn run(plan: Plan, rows: &[Row], workers: usize, cycle: u32) -> Result<Vec<Given>, FlowError> {
    let rows = rows.to_vec();
    watched("a split", move || {
        let sink = Remember::default();
        let engine = Engine::new().workers(workers).cycles(CyclePolicy::fixed(cycle));
        let mut running = engine.run(plan, sink.boxed())?;
        let gateway = running.gateway(0).unwrap();
        for rows in rows.chunks(700) {
            if gateway.push(chunk(rows)).is_err() {
                break;
            }
        }
        drop(gateway);
        running.join().map(|_| sink.given())
    })
}

/// Each partition's event times and values, in order.
type SubStreams = BTreeMap<u32, Vec<(i64, u64)>>;

fn sub_streams(given: &[Given]) -> SubStreams {
    let mut streams = SubStreams::new();
    for (_, _, (partition, time, value)) in given.iter().flat_map(|given| &given.streams[0]) {
        streams.entry(*partition).or_default().push((*time, *value));
    }
    streams
}

fn naive(rows: &[Row], partitions: u32) -> SubStreams {
    let mut streams = SubStreams::new();
    for (key, time, value) in rows {
        for partition in 0..partitions {
            if *key == TO_ALL || *key == partition {
                streams.entry(partition).or_default().push((*time, *value));
            }
        }
    }
    streams
}

/// Rows whose event times never go back, of which `broadcast` in 100 go to all partitions and `omit` to none;
/// `hot`: most others go to one partition.
fn random_rows(random: &mut Random, count: u64, partitions: u32, parts: (u64, u64), hot: bool) -> Vec<Row> {
    let mut time = 0;
    let mut row = |number| {
        time += random.below(3) as i64;
        let kind = random.below(100);
        let key = match kind {
            _ if kind < parts.0 => TO_ALL,
            _ if kind < parts.0 + parts.1 => TO_NONE,
            _ if hot && !random.is_once_in(20) => partitions / 2,
            _ => random.below(u64::from(partitions)) as u32,
        };
        (key, time, number)
    };
    (0..count).map(&mut row).collect()
}

/// Runs all plans at 1, 2 and 5 workers; all must give what the naive split gives, and all the same.
fn assert_all_agree(partitions: u32, rows: &[Row], cycle: u32, random: &mut Random, behind: bool) {
    let expected = naive(rows, partitions);
    let mut first: Option<Vec<Given>> = None;
    for workers in [1, 2, 5] {
        let window_rows = [3, 50, 400, 8192][random.below(4) as usize];
        for split in all_plans(partitions, 1 + random.below(6) as u32, window_rows) {
            let given = run(plan(partitions, split.clone(), behind, None), rows, workers, cycle).unwrap();
            let streams = sub_streams(&given);
            assert!(streams == expected, "{split:?} on {workers} workers: the sub-streams are wrong");
            let in_order = |rows: &Vec<(i64, u64)>| rows.is_sorted_by(|a, b| a.0 <= b.0 && a.1 < b.1);
            assert!(streams.values().all(in_order), "{split:?} on {workers} workers: out of order");
            let first = first.get_or_insert_with(|| given.clone());
            assert!(given == *first, "{split:?} on {workers} workers: other output");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 16, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_plan_gives_each_partition_its_rows(seed in any::<u64>()) {
        let mut random = Random::new(seed);
        let most = [4, 40, 512][random.below(3) as usize];
        let partitions = 1 + random.below(most) as u32;
        // A number of broadcasts such that there are at most about 20,000 copies.
        let broadcast = random.below(101).min(4_000 / u64::from(partitions));
        let omit = random.below(101 - broadcast);
        let cycle = [7, 100, 3000][random.below(3) as usize];
        let count = random.below(if cycle == 7 { 200 } else { 2500 });
        let hot = random.is_once_in(3);
        let rows = random_rows(&mut random, count, partitions, (broadcast, omit), hot);
        let behind = random.is_once_in(2);
        assert_all_agree(partitions, &rows, cycle, &mut random, behind);
    }
}

#[test]
fn everything_broadcast_to_many_and_one_hot_partition_of_many() {
    let mut random = Random::new(7);
    for behind in [false, true] {
        let all = random_rows(&mut random, 60, 512, (100, 0), false);
        assert_all_agree(512, &all, 40, &mut random, behind);
        let hot: Vec<Row> = (0..3000).map(|number| (317, number as i64, number)).collect();
        assert_all_agree(512, &hot, 1500, &mut random, behind);
    }
}

#[test]
fn rows_that_partitions_share_come_among_their_own_in_order() {
    let mut random = Random::new(11);
    for (partitions, broadcast, hot) in [(16, 50, false), (5, 95, true), (33, 40, true)] {
        let rows = random_rows(&mut random, 1400, partitions, (broadcast, 4), hot);
        for (cycle, behind) in [(1400, false), (650, true)] {
            assert_all_agree(partitions, &rows, cycle, &mut random, behind);
        }
    }
}

#[test]
fn windows_pass_a_tree_of_window_routers_to_every_splitter() {
    let mut random = Random::new(13);
    let rows = random_rows(&mut random, 3000, 64, (0, 0), false);
    let split = SplitPlan::parasplit_tree(64, 4).with_window_rows(50);
    let (sub_streams_of, status) = watched("a tree of window routers", {
        let (rows, plan) = (rows.clone(), plan(64, Some(split), false, None));
        move || {
            let sink = Remember::default();
            let engine = Engine::new().workers(6).cycles(CyclePolicy::fixed(3000));
            let mut running = engine.run(plan, sink.boxed()).unwrap();
            let gateway = running.gateway(0).unwrap();
            gateway.push(chunk(&rows)).unwrap();
            drop(gateway);
            let status = running.join().unwrap();
            (sub_streams(&sink.given()), status)
        }
    });
    assert!(sub_streams_of == naive(&rows, 64));
    let stages = &status.splits[0].stages;
    let names: Vec<&str> = stages.iter().map(|stage| stage.name.as_str()).collect();
    assert_eq!(names, ["window router", "window routers", "splitters"]);
    assert!(
        stages.iter().all(|stage| (stage.rows_in, stage.rows_out) == (3000, 3000)),
        "{}",
        status.splits[0]
    );
}

#[test]
fn the_cuts_do_not_change_the_sub_streams() {
    let mut random = Random::new(5);
    let rows = random_rows(&mut random, 2000, 33, (3, 5), false);
    for split in all_plans(33, 2, 100) {
        for cycle in [1, 64, 1024, 100_000] {
            let rows = if cycle == 1 { &rows[..100] } else { &rows };
            let given = run(plan(33, split.clone(), false, None), rows, 2, cycle).unwrap();
            assert!(sub_streams(&given) == naive(rows, 33), "{split:?}, cycles of {cycle}");
        }
    }
}

#[test]
fn an_operator_that_fails_in_one_partition_is_named_by_every_plan() {
    let mut random = Random::new(3);
    let mut rows = random_rows(&mut random, 3000, 64, (1, 1), false);
    rows[2024].0 = 41;
    for workers in [1, 2, 5] {
        for split in all_plans(64, 3, 128) {
            let plan = plan(64, split.clone(), false, Some((41, 2024)));
            let error = run(plan, &rows, workers, 500).expect_err("the operator fails");
            let FlowError::Failed(Failure::Operator(error)) = error else { panic!("{error}") };
            assert_eq!((error.operator.as_str(), error.partition, error.cycle), ("tell", 41, 4), "{split:?}");
            assert_eq!(error.cause, Cause::user("it is full"));
        }
    }
}

#[test]
fn a_value_that_is_no_partition_is_an_error_that_shows_the_row_with_every_plan() {
    let mut rows: Vec<Row> = (0..3000).map(|number| (number % 19, i64::from(number), 7)).collect();
    rows[1234].0 = 19;
    for workers in [1, 2, 5] {
        for split in all_plans(19, 3, 128) {
            let mut plan = plan(19, split.clone(), false, None);
            plan.operators[0].inputs[0].route = route_by_value::<UInt32Type>(0).into();
            let error = run(plan, &rows, workers, 500).expect_err("there is no partition 19").to_string();
            assert!(error.contains("input of operator 'tell', cycle 2: "), "{error}");
            let shown = "to partition 19, but there are only 19; the row is key: 19, time: 1234, value: 7";
            assert!(error.contains(shown), "{error}");
        }
    }
}

/// Partition 1 waits until it is let go.
#[derive(Clone, Default)]
struct Gate(Arc<(Mutex<bool>, Condvar)>);

impl Gate {
    fn open(&self) {
        *self.0.0.lock() = true;
        self.0.1.notify_all();
    }
}

struct Slow {
    partition: u32,
    gate: Gate,
}

impl Operator for Slow {
    fn rows(&mut self, _input: usize, _rows: Rows<'_>, _output: &mut Output) -> Result<(), Cause> {
        let (open, changed) = &*self.gate.0;
        if self.partition == 1 {
            changed.wait_while(&mut open.lock(), |open| !*open);
        }
        Ok(())
    }
    fn snapshot(&self, _writer: &mut SnapshotWriter) {}
    fn restore(&mut self, _reader: &mut SnapshotReader<'_>) -> Result<(), Cause> {
        Ok(())
    }
}

#[test]
fn copies_for_a_slow_partition_do_not_pile_up() {
    for split in [None, Some(SplitPlan::exptree(256)), Some(SplitPlan::fsplit(256))] {
        watched("a slow partition", move || {
            let gate = Gate::default();
            let mut plan = plan(256, split, false, None);
            let slow = gate.clone();
            plan.operators[0].factory =
                Arc::new(move |partition| Box::new(Slow { partition, gate: slow.clone() }));
            // A cycle of ten rows, of which one is for the slow partition alone, makes copies of about 55 KB, half
            // of them for the worker that waits.
            let limits =
                Limits { cycles_in_flight_max: 100, uncommitted_bytes_max: 100_000, ..Limits::default() };
            let engine = Engine::new().workers(2).cycles(CyclePolicy::fixed(10)).limits(limits);
            let mut running = engine.run(plan, Remember::default().boxed()).unwrap();
            let gateway = running.gateway(0).unwrap();
            let pusher = std::thread::spawn(move || {
                for number in 0..200 {
                    let to = |row| if row == 0 { 1 } else { TO_ALL };
                    let rows: Vec<Row> = (0..10).map(|row| (to(row), number * 10 + row, 0)).collect();
                    gateway.push(chunk(&rows)).unwrap();
                }
            });
            eventually("no credit", || running.status().get(Counter::Stalls) > 0);
            std::thread::sleep(std::time::Duration::from_millis(50));
            let cut = running.status().get(Counter::CyclesCut);
            gate.open();
            pusher.join().unwrap();
            let summary = running.join().unwrap();
            assert!(cut < 30, "{cut} cycles were closed");
            assert_eq!(summary.get(Counter::EventsCommitted), 2000);
        });
    }
}
