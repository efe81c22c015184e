//! An interrupted run resumes from a snapshot, or from the beginning, over the logged cuts. Together the runs give what
//! the oracle gives for all cuts, cycle by cycle, and no sink gets a cycle twice.

use crate::fixture;

use std::sync::Arc;
use std::time::Duration;

use crate::fixture::mixer::Kind;
use crate::fixture::oracle::{Event, Spec, random_chunks, random_events};
use crate::fixture::sink::{Given, Remember};
use crate::fixture::{chunk, numbered, watched};
use proptest::prelude::*;
use tidemill_engine::{
    Chunk, Cut, CyclePolicy, Engine, FlowError, Limits, MemoryCutLog, Plan, Rebalancing, Resume, Running,
    Sink, Snapshot,
};
use tidemill_testing::random::Random;

fn engine(random: &mut Random, log: &MemoryCutLog) -> Engine {
    let policy = CyclePolicy { events_max: 1 + random.below(300) as u32, ..CyclePolicy::default() };
    let limits = Limits { cycles_in_flight_max: 1 + random.below(6), ..Limits::default() };
    let engine = Engine::new().workers(1 + random.below(4) as usize).cycles(policy).limits(limits);
    let rebalancing = if random.is_once_in(2) {
        Rebalancing::Random { seed: random.next(), every_cycles: 1 + random.below(4) }
    } else {
        Rebalancing::Off
    };
    engine.cut_log(log.clone()).rebalancing(rebalancing)
}

fn start(engine: Engine, spec: &Spec) -> (Running, Vec<Remember>) {
    let sinks: Vec<Remember> = spec.sinks.iter().map(|_| Remember::default()).collect();
    let boxed = sinks.iter().map(|sink| Box::new(sink.clone()) as Box<dyn Sink>).collect();
    (engine.run(spec.plan(), boxed).unwrap(), sinks)
}

/// What an interrupted run leaves behind.
struct Left {
    cuts: Vec<Cut>,
    snapshot: Option<Snapshot>,
    sinks: Vec<Remember>,
}

/// Runs until somewhere in the middle.
fn broken_off(random: &mut Random, spec: &Spec, chunks: &[Vec<Chunk>]) -> Left {
    let log = MemoryCutLog::new(1_000_000);
    let (mut running, sinks) = start(engine(random, &log), spec);
    let mut snapshot = None;
    let gateways: Vec<_> = (0..spec.sources).map(|source| running.gateway(source).unwrap()).collect();
    let most = chunks.iter().map(Vec::len).max().unwrap_or(0);
    for index in 0..random.below(most as u64 + 1) as usize {
        for (gateway, chunks) in gateways.iter().zip(chunks) {
            if let Some(chunk) = chunks.get(index) {
                gateway.push(chunk.clone()).unwrap();
            }
        }
        if random.is_once_in(10) {
            snapshot = Some(running.snapshot().unwrap());
        }
    }
    std::thread::sleep(Duration::from_micros(random.below(3000)));
    running.abort();
    drop(gateways);
    let _ = running.join();
    Left { cuts: log.cuts(), snapshot, sinks }
}

/// Resumes through all logged cuts, to the end.
fn go_on(random: &mut Random, spec: &Spec, chunks: &[Vec<Chunk>], left: &Left) -> (Vec<Cut>, Vec<Remember>) {
    let first_new: Vec<u64> = left.sinks.iter().map(Remember::committed).collect();
    let oldest = first_new.iter().min().copied().unwrap_or(0);
    let snapshot = left.snapshot.clone().filter(|snapshot| snapshot.cycle < oldest);
    let after = snapshot.as_ref().map(|snapshot| left.cuts[snapshot.cycle as usize].clone());
    let positions = after.as_ref().map_or(vec![0; spec.sources], |cut| cut.positions.clone());
    let first = after.as_ref().map_or(0, |cut| cut.cycle as usize + 1);
    let resume = Resume { after, replay: left.cuts[first..].to_vec(), sinks: first_new };
    let log = MemoryCutLog::new(1_000_000);
    let mut engine = engine(random, &log).resume(resume);
    if let Some(snapshot) = snapshot {
        engine = engine.state(Arc::new(snapshot));
    }
    let (mut running, sinks) = start(engine, spec);
    std::thread::scope(|scope| {
        for (source, chunks) in chunks.iter().enumerate() {
            let (gateway, rest) = (running.gateway(source).unwrap(), behind(chunks, positions[source]));
            scope.spawn(move || rest.into_iter().for_each(|chunk| gateway.push(chunk).unwrap()));
        }
    });
    running.join().unwrap();
    (log.cuts(), sinks)
}

/// The chunks from a position on.
fn behind(chunks: &[Chunk], position: u64) -> Vec<Chunk> {
    let mut left = position;
    let rest = chunks.iter().filter_map(|chunk| {
        let skipped = left.min(u64::from(chunk.events));
        left -= skipped;
        match skipped {
            0 => Some(chunk.clone()),
            skipped => chunk.clone().split_at(skipped as u32).1,
        }
    });
    rest.collect()
}

/// Without what may differ when a cut is replayed.
fn plain(given: impl IntoIterator<Item = Given>) -> Vec<Given> {
    let plain = given.into_iter().map(|mut given| {
        (given.cut.snapshot, given.cut.last, given.cut.closed_at_ns) = (false, false, 0);
        given
    });
    plain.collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 80, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_run_that_was_broken_off_goes_on_as_if_it_had_not_been(seed in any::<u64>()) {
        let mut random = Random::new(seed);
        let sources = 1 + random.below(2) as usize;
        let spec = Spec::random(&mut random, Kind::Order, sources);
        let events: Vec<Vec<Event>> = (0..sources).map(|_| {
            let count = random.below(3000) as usize;
            random_events(&mut random, count)
        }).collect();
        let chunks: Vec<_> = events.iter().map(|events| random_chunks(&mut random, events, true)).collect();
        let (spec, (cuts, left, sinks)) = watched("going on", move || {
            let left = broken_off(&mut random, &spec, &chunks);
            let (new_cuts, sinks) = go_on(&mut random, &spec, &chunks, &left);
            let cuts: Vec<Cut> = left.cuts.iter().cloned().chain(new_cuts).collect();
            (spec, (cuts, left, sinks))
        });
        let expected = spec.expected(&events, &cuts);
        for ((expected, before), after) in expected.into_iter().zip(&left.sinks).zip(&sinks) {
            let committed = before.committed();
            let first: Vec<Given> = before.given().into_iter().take(committed as usize).collect();
            let all = plain(first.into_iter().chain(after.given()));
            prop_assert!(all == plain(expected), "the oracle gives something else");
        }
    }
}

#[test]
fn events_that_were_cut_and_are_gone_are_an_error() {
    watched("a short input", || {
        let cut = Cut { positions: vec![50], watermarks: vec![7], ..Cut::first() };
        let resume = Resume { replay: vec![cut], sinks: vec![0], ..Resume::default() };
        let sink = Remember::default();
        let mut running = Engine::new().resume(resume).run(fixture::forward::plan(), sink.boxed()).unwrap();
        let gateway = running.gateway(0).unwrap();
        gateway.push(chunk(&numbered(0..49))).unwrap();
        drop(gateway);
        let error = running.join().unwrap_err().to_string();
        assert!(error.contains("position 49") && error.contains("[50]"), "{error}");
        assert_eq!(sink.given().len(), 0);
    });
}

#[test]
fn cuts_that_do_not_follow_each_other_are_refused() {
    let cut = |cycle, position| Cut { cycle, positions: vec![position], watermarks: vec![0], ..Cut::first() };
    let after = Some(cut(3, 30));
    for replay in [
        vec![cut(5, 40)],
        vec![cut(4, 20)],
        vec![cut(4, 40), cut(4, 50)],
        vec![Cut { positions: vec![], ..cut(4, 40) }],
    ] {
        let resume = Resume { after: after.clone(), replay, sinks: vec![4] };
        let started = Engine::new().resume(resume).run(fixture::forward::plan(), Remember::default().boxed());
        assert!(matches!(started, Err(FlowError::Settings(_))));
    }
}

/// While cuts are replayed, a source falls silent. Nothing may be taken for a replayed cut that only a later one can
/// have, or the source would hold time back until its next row.
#[test]
fn silence_that_is_heard_while_cuts_are_replayed_counts_afterwards() {
    watched("silence during a replay", || {
        let mut plan = Plan::new("two sources");
        let streams = ["silent", "other"].map(|name| plan.source(name, [fixture::schema()])[0]);
        plan.sink("both", streams);
        let cut = |cycle: u64, positions: [u64; 2]| Cut {
            cycle,
            positions: positions.to_vec(),
            watermarks: vec![10, 10],
            idle: vec![false, false],
            ..Cut::first()
        };
        let resume = Resume { after: None, replay: vec![cut(0, [2, 1]), cut(1, [2, 2])], sinks: vec![0] };
        let log = MemoryCutLog::new(100);
        let policy = CyclePolicy { events_max: 4, ..CyclePolicy::default() };
        let engine = Engine::new().workers(1).cycles(policy).cut_log(log.clone()).resume(resume);
        let sink = Remember::default();
        let mut running = engine.run(plan, sink.boxed()).unwrap();
        let (silent, other) = (running.gateway(0).unwrap(), running.gateway(1).unwrap());
        silent.push(chunk(&numbered(1..3))).unwrap();
        // Before the other source has what the replayed cuts need.
        silent.push(Chunk { events: 0, watermark: 50, idle: true, ..chunk(&[]) }).unwrap();
        other.push(chunk(&numbered(3..4))).unwrap();
        fixture::eventually("the first replayed cycle", || sink.committed() >= 1);
        other.push(chunk(&numbered(4..5))).unwrap();
        fixture::eventually("the second replayed cycle", || sink.committed() >= 2);
        fixture::eventually("the silence", || {
            log.cuts().iter().any(|cut| cut.cycle >= 2 && cut.idle[0] && cut.watermarks[0] == 50)
        });
        drop((silent, other));
        running.join().unwrap();
    });
}
