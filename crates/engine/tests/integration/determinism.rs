//! Random plans give what a naive oracle gives for the same cuts, at any number of workers and however their
//! inputs are split; and the same rows at any cuts, where only event time counts.

use std::sync::Arc;
use std::time::Duration;

use crate::fixture::mixer::Kind;
use crate::fixture::oracle::{Event, Spec, random_chunks, random_events, random_split};
use crate::fixture::sink::{Given, Remember};
use crate::fixture::{Row, watched};
use proptest::prelude::*;
use tidemill_engine::{Chunk, Cut, CyclePolicy, Engine, Limits, ManualClock, MemoryCutLog, Plan, Sink};
use tidemill_testing::random::Random;

/// Runs a plan on chunks, pushed by one thread per source; gives the logged cuts and what each sink was
/// given.
fn run(
    spec: &Spec,
    chunks: &[Vec<Chunk>],
    workers: usize,
    cycles: CyclePolicy,
) -> (Vec<Cut>, Vec<Vec<Given>>) {
    run_plan(spec, spec.plan(), chunks, workers, cycles)
}

fn run_plan(
    spec: &Spec,
    plan: Plan,
    chunks: &[Vec<Chunk>],
    workers: usize,
    cycles: CyclePolicy,
) -> (Vec<Cut>, Vec<Vec<Given>>) {
    let (spec, chunks) = (spec.clone(), chunks.to_vec());
    watched("a random plan", move || {
        // Neither who calls the sinks nor whether workers look out for work makes a difference.
        let (direct, spin) = (workers == 2, Duration::from_micros(if workers == 2 { 100 } else { 0 }));
        let sink = |_| Remember { direct, ..Remember::default() };
        let sinks: Vec<Remember> = spec.sinks.iter().map(sink).collect();
        let log = MemoryCutLog::new(1_000_000);
        let mut running = Engine::new()
            .workers(workers)
            .spin(spin)
            .cycles(cycles)
            .limits(Limits { cycles_in_flight_max: 3, ..Limits::default() })
            .cut_log(log.clone())
            .clock(Arc::new(ManualClock::default()))
            .run(plan, sinks.iter().map(|sink| Box::new(sink.clone()) as Box<dyn Sink>).collect())
            .unwrap();
        std::thread::scope(|scope| {
            for (source, chunks) in chunks.into_iter().enumerate() {
                let gateway = running.gateway(source).unwrap();
                scope.spawn(move || chunks.into_iter().for_each(|chunk| gateway.push(chunk).unwrap()));
            }
        });
        running.join().unwrap();
        sinks.iter().for_each(|sink| assert_eq!(sink.committed(), log.cuts().len() as u64));
        (log.cuts(), sinks.iter().map(Remember::given).collect())
    })
}

/// Random events of each source, and chunks of them, after which sources may count as idle.
fn input(
    random: &mut Random,
    sources: usize,
    events_max: u64,
    idle: bool,
) -> (Vec<Vec<Event>>, Vec<Vec<Chunk>>) {
    let events: Vec<_> = (0..sources)
        .map(|_| {
            let count = random.below(events_max) as usize;
            random_events(random, count)
        })
        .collect();
    let chunks = events.iter().map(|events| random_chunks(random, events, idle)).collect();
    (events, chunks)
}

/// The plan with a random split of each input: another shape for each, or that of every worker for itself.
fn with_random_splits(mut plan: Plan, random: &mut Random) -> Plan {
    for operator in &mut plan.operators {
        for input in &mut operator.inputs {
            input.split = (!random.is_once_in(5)).then(|| random_split(random, operator.partitions));
        }
    }
    plan
}

fn sorted_rows(given: &[Vec<Given>]) -> Vec<Vec<Row>> {
    let rows_of = |sink: &Vec<Given>, input: usize| {
        let streams = sink.iter().flat_map(|given| &given.streams[input]);
        let mut rows: Vec<Row> = streams.map(|placed| placed.2).collect();
        rows.sort();
        rows
    };
    let inputs = |sink: &Vec<Given>| 0..sink.first().map_or(0, |given| given.streams.len());
    given.iter().flat_map(|sink| inputs(sink).map(|input| rows_of(sink, input)).collect::<Vec<_>>()).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_same_cuts_give_the_same_output_at_any_number_of_workers(seed in any::<u64>()) {
        let mut random = Random::new(seed);
        let spec = Spec::random(&mut random, Kind::Order, 1);
        let (cycle, events_max) =
            [(3, 300), (40, 3000), (700, 5000), (1500, 5000), (60_000, 5000)][random.below(5) as usize];
        let (events, chunks) = input(&mut random, 1, events_max, true);
        let (cuts, given) = run(&spec, &chunks, 1, CyclePolicy::fixed(cycle));
        prop_assert!(given == spec.expected(&events, &cuts), "the oracle gives something else");
        for workers in [2, 5] {
            let (other_cuts, other) = run(&spec, &chunks, workers, CyclePolicy::fixed(cycle));
            prop_assert_eq!(&other_cuts, &cuts);
            prop_assert!(other == given, "{} workers give something else", workers);
        }
    }

    #[test]
    fn however_the_inputs_are_split_the_output_is_the_same(seed in any::<u64>()) {
        let mut random = Random::new(seed);
        let spec = Spec::random(&mut random, Kind::Order, 1);
        let (cycle, events_max) = [(40, 1000), (1500, 5000), (60_000, 5000)][random.below(3) as usize];
        let (events, chunks) = input(&mut random, 1, events_max, true);
        for workers in [1, 2, 5] {
            let plan = with_random_splits(spec.plan(), &mut random);
            let (cuts, given) = run_plan(&spec, plan, &chunks, workers, CyclePolicy::fixed(cycle));
            prop_assert!(given == spec.expected(&events, &cuts), "{} workers give something else", workers);
        }
    }

    #[test]
    fn several_gateways_and_adaptive_cycles_give_what_their_cuts_say(seed in any::<u64>()) {
        let mut random = Random::new(seed);
        let spec = Spec::random(&mut random, Kind::Order, 2);
        let (events, chunks) = input(&mut random, 2, 3000, true);
        for workers in [1, 2, 5] {
            let policy = CyclePolicy { events_max: 1 + random.below(2000) as u32, ..CyclePolicy::default() };
            let (cuts, given) = run(&spec, &chunks, workers, policy);
            let last: Vec<u64> = events.iter().map(|events| events.len() as u64).collect();
            prop_assert_eq!(&cuts.last().unwrap().positions, &last);
            prop_assert!(given == spec.expected(&events, &cuts), "the oracle gives something else");
        }
    }

    #[test]
    fn over_event_time_the_rows_do_not_depend_on_the_cuts(seed in any::<u64>()) {
        let mut random = Random::new(seed);
        let spec = Spec::random(&mut random, Kind::EventTime, 2);
        let (events, chunks) = input(&mut random, 2, 2000, false);
        let all = Cut {
            positions: events.iter().map(|events| events.len() as u64).collect(),
            watermarks: vec![i64::MAX; 2],
            last: true,
            ..Cut::first()
        };
        let expected = sorted_rows(&spec.expected(&events, &[all]));
        for (workers, cycle) in [(2, 50), (1, 333), (2, 100_000)] {
            let (_, given) = run(&spec, &chunks, workers, CyclePolicy::fixed(cycle));
            prop_assert!(sorted_rows(&given) == expected, "cycles of {} give something else", cycle);
        }
    }
}
