//! Another split plan while the query runs: whenever it takes over, the output is that of a run without.

use crate::fixture;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::fixture::mixer::Kind;
use crate::fixture::oracle::{Spec, random_chunks, random_events, random_split};
use crate::fixture::sink::{Given, Remember};
use crate::fixture::{chunk, eventually, forward, numbered, watched};
use proptest::prelude::*;
use tidemill_engine::{
    AutoSplit, Chunk, Counter, Cut, CyclePolicy, Engine, FlowError, Gateway, LatticeRule, ManualClock,
    MemoryCutLog, Plan, Proportions, Replan, Resume, RouterCosts, Running, Shape, Sink, SplitChange,
    SplitPlan, SplitProfile, SplitterCosts, SplittersBy, Status,
};
use tidemill_testing::random::Random;

/// Every input of every operator may change its split.
fn changeable(mut plan: Plan) -> Plan {
    let inputs = plan.operators.iter_mut().flat_map(|operator| &mut operator.inputs);
    inputs.for_each(|input| input.auto_split = Some(AutoSplit::by_hand()));
    plan
}

/// Operators by name, number of inputs, and partitions.
type Operators = [(String, usize, u32)];

/// Changes the split of a random input.
fn change(running: &Running, operators: &Operators, random: &mut Random) {
    let (name, inputs, partitions) = &operators[random.below(operators.len() as u64) as usize];
    let input = random.below(*inputs as u64) as usize;
    running.replan(name, input, random_split(random, *partitions)).unwrap();
}

/// Does so every now and then, until told to stop.
fn keep_changing(running: &Running, operators: &Operators, mut random: Random, stop: &AtomicBool) {
    while !stop.load(Ordering::SeqCst) {
        change(running, operators, &mut random);
        std::thread::sleep(Duration::from_micros(random.below(300)));
    }
}

/// Runs a plan whose splits change all the time; gives what each sink was given, and the status at the end.
fn run_changing(
    spec: &Spec,
    chunks: &[Vec<Chunk>],
    workers: usize,
    cycle: u32,
    seed: u64,
) -> (Vec<Vec<Given>>, Status) {
    let (spec, chunks) = (spec.clone(), chunks.to_vec());
    watched("changing splits", move || {
        let sinks: Vec<Remember> = spec.sinks.iter().map(|_| Remember::default()).collect();
        let plan = changeable(spec.plan());
        let operators: Vec<_> = plan
            .operators
            .iter()
            .map(|operator| (operator.name.clone(), operator.inputs.len(), operator.partitions))
            .collect();
        let mut running = Engine::new()
            .workers(workers)
            .cycles(CyclePolicy::fixed(cycle))
            .clock(Arc::new(ManualClock::default()))
            .run(plan, sinks.iter().map(|sink| Box::new(sink.clone()) as Box<dyn Sink>).collect())
            .unwrap();
        let gateway = running.gateway(0).unwrap();
        let stop = AtomicBool::new(false);
        change(&running, &operators, &mut Random::new(!seed));
        std::thread::scope(|scope| {
            scope.spawn(|| keep_changing(&running, &operators, Random::new(seed), &stop));
            chunks[0].iter().for_each(|chunk| gateway.push(chunk.clone()).unwrap());
            stop.store(true, Ordering::SeqCst);
        });
        drop(gateway);
        let status = running.join().unwrap();
        (sinks.iter().map(Remember::given).collect(), status)
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn random_changes_in_stateful_queries_change_no_output(seed in any::<u64>()) {
        let mut random = Random::new(seed);
        let spec = Spec::random(&mut random, Kind::Order, 1);
        let (cycle, events_max) = [(10, 1500), (100, 5000), (1500, 20_000)][random.below(3) as usize];
        let count = random.below(events_max) as usize;
        let events = random_events(&mut random, count);
        let chunks = vec![random_chunks(&mut random, &events, true)];
        for workers in [1, 2, 5] {
            let (given, status) = run_changing(&spec, &chunks, workers, cycle, random.next());
            // Each cycle's cut is what the sinks were given, so the oracle needs no log.
            let cuts: Vec<_> = given[0].iter().map(|given| given.cut.clone()).collect();
            let expected = spec.expected(std::slice::from_ref(&events), &cuts);
            prop_assert!(given == expected, "{} workers give something else", workers);
            prop_assert!(!status.replans.is_empty());
        }
    }
}

/// Runs the plan of `forward` until all was taken, and calls `meanwhile` before the end.
fn run_forward(
    auto: Option<AutoSplit>,
    rows: u32,
    meanwhile: impl FnOnce(&Running) + Send + 'static,
) -> Status {
    run_split(Engine::new(), None, auto, rows, meanwhile)
}

/// The same by a plan, if one is given.
fn run_split(
    engine: Engine,
    split: Option<SplitPlan>,
    auto: Option<AutoSplit>,
    rows: u32,
    meanwhile: impl FnOnce(&Running) + Send + 'static,
) -> Status {
    watched("forward", move || {
        let mut plan = forward::plan();
        plan.operators[0].inputs[0].split = split;
        plan.operators[0].inputs[0].auto_split = auto;
        let sink = Remember::default();
        let engine = engine.workers(2).cycles(CyclePolicy { events_max: 2000, ..CyclePolicy::default() });
        let mut running = engine.run(plan, sink.boxed()).unwrap();
        let gateway = running.gateway(0).unwrap();
        let all = numbered(0..rows);
        all.chunks(1000).take(rows as usize / 2000).for_each(|rows| gateway.push(chunk(rows)).unwrap());
        meanwhile(&running);
        all.chunks(1000).skip(rows as usize / 2000).for_each(|rows| gateway.push(chunk(rows)).unwrap());
        drop(gateway);
        let status = running.join().unwrap();
        assert_eq!(sink.rows(0).len(), rows as usize);
        status
    })
}

#[test]
fn a_change_is_told_with_its_first_cycle_and_what_was_measured_is_of_the_new_plan() {
    let plan = SplitPlan::exptree(7);
    let wanted = plan.clone();
    let status = run_forward(Some(AutoSplit::by_hand()), 40_000, move |running| {
        let refused = |operator: &str, input, plan: SplitPlan| {
            let Err(FlowError::Settings(reason)) = running.replan(operator, input, plan) else { panic!() };
            reason
        };
        assert!(refused("backward", 0, wanted.clone()).contains("the plan has no such input"));
        assert!(refused("forward", 1, wanted.clone()).contains("the plan has no such input"));
        assert!(refused("forward", 0, SplitPlan::fsplit(8)).contains("for 8 partitions"));
        let deep = SplitPlan { shape: Shape::Tree { fan_outs: vec![2; 5] }, ..SplitPlan::fsplit(7) };
        assert!(refused("forward", 0, deep).contains("the tree has 5 levels"));
        eventually("the first half", || running.status().get(Counter::EventsCommitted) == 20_000);
        running.replan("forward", 0, wanted).unwrap();
    });
    let [Replan { operator, input: 0, first_cycle, plan: taken }] = &status.replans[..] else { panic!() };
    assert!(operator == "forward" && *taken == plan && *first_cycle > 0);
    let split = &status.splits[0];
    assert_eq!(split.plan, plan);
    let names: Vec<&str> = split.stages.iter().map(|stage| stage.name.as_str()).collect();
    assert_eq!(names, ["window router", "splitters of level 1", "splitters of level 2"]);
    assert_eq!(split.stages[2].rows_out, 20_000, "{split}");
    assert!(
        split.to_string().starts_with(
            "operator 'forward', input 0: tree of fan-outs 2, 4 to 7 partitions; processor time\n"
        )
    );
}

#[test]
fn a_change_is_logged_in_its_cut_and_a_replay_makes_it_again() {
    let events: Vec<_> = numbered(0..4000).chunks(100).map(chunk).collect();
    let run = |log: &MemoryCutLog, resume: Resume, plan: Option<SplitPlan>| {
        let mut forward = forward::plan();
        forward.operators[0].inputs[0].auto_split = Some(AutoSplit::by_hand());
        let cycles = CyclePolicy { events_max: 100, ..CyclePolicy::default() };
        let engine = Engine::new().workers(2).cycles(cycles).cut_log(log.clone()).resume(resume);
        let mut running = engine.run(forward, Remember::default().boxed()).unwrap();
        let gateway = running.gateway(0).unwrap();
        for (index, chunk) in events.iter().enumerate() {
            if let (20, Some(plan)) = (index, &plan) {
                running.replan("forward", 0, plan.clone()).unwrap();
            }
            gateway.push(chunk.clone()).unwrap();
        }
        drop(gateway);
        running.join().unwrap().replans
    };
    let (log, again) = (MemoryCutLog::new(1000), MemoryCutLog::new(1000));
    let plan = SplitPlan::exptree(7);
    let fresh = || Resume { sinks: vec![0], ..Resume::default() };
    let replans = run(&log, fresh(), Some(plan.clone()));
    let changes: Vec<_> = log
        .cuts()
        .into_iter()
        .flat_map(|cut| cut.splits.into_iter().map(move |change| (cut.cycle, change)))
        .collect();
    let change = SplitChange { operator: "forward".into(), input: 0, plan: plan.to_bytes() };
    assert_eq!(changes, [(replans[0].first_cycle, change)]);
    assert_eq!(run(&again, Resume { replay: log.cuts(), ..fresh() }, None), replans);
}

#[test]
fn a_fixed_split_does_not_change() {
    let status = run_forward(None, 4000, |running| {
        let Err(error) = running.replan("forward", 0, SplitPlan::fsplit(7)) else { panic!() };
        assert!(error.to_string().contains("auto_split"), "{error}");
    });
    assert!(status.replans.is_empty());
}

#[test]
fn the_engine_chooses_by_what_it_measures() {
    let auto = AutoSplit { every: Some(Duration::from_millis(5)), ..AutoSplit::default() };
    let status = run_forward(Some(auto), 40_000, |running| {
        eventually("a choice", || running.status().splits[0].choice.is_some());
    });
    let choice = status.splits[0].choice.as_ref().unwrap();
    assert!(choice.predictions.iter().all(|prediction| prediction.plan.validate(7).is_ok()));
    assert!(status.splits[0].to_string().contains("by the model, for the split and the operator alone: "));
}

/// What an earlier run has measured.
fn measured_before() -> SplitProfile {
    SplitProfile {
        splitter: SplitterCosts { consume_ns: 20.0, process_ns: 3.0, emit_ns: 5.0 },
        router: RouterCosts { read_ns: 0.0, split_ns: 0.0, emit_ns: 100.0 },
        parts: Proportions::counted(1, 0, 0),
        query_ns: 1.0,
    }
}

#[test]
fn what_an_earlier_run_has_measured_is_there_before_the_first_cycle() {
    let profile = measured_before();
    let auto =
        AutoSplit { profile: Some(profile), every: Some(Duration::from_secs(1000)), ..AutoSplit::default() };
    let status = run_split(Engine::new(), Some(SplitPlan::exptree(7)), Some(auto), 4000, |_| ());
    let [Replan { first_cycle: 0, plan, .. }] = &status.replans[..] else { panic!("{:?}", status.replans) };
    assert_eq!(plan, &status.splits[0].choice.as_ref().unwrap().prediction().plan);
    assert_ne!(plan, &SplitPlan::exptree(7));
}

#[test]
fn a_rule_says_how_many_splitters_a_lattice_has_whatever_else_would_be_faster() {
    let profile = measured_before();
    for (splitters, is_tree) in [(SplittersBy::Model, false), (SplittersBy::Heuristic, true)] {
        // One splitter reaches a row per second, on any machine.
        let auto = AutoSplit {
            profile: Some(profile),
            every: Some(Duration::from_secs(1000)),
            ..AutoSplit::by_rule(LatticeRule { splitters, is_tree }, 1.0)
        };
        let first = SplitPlan::exptree(7).with_window_rows(300);
        let status = run_split(Engine::new(), Some(first), Some(auto.clone()), 4000, |_| ());
        let [Replan { first_cycle: 0, plan, .. }] = &status.replans[..] else {
            panic!("{:?}", status.replans)
        };
        assert_eq!(plan, &SplitPlan::parasplit(7, 1).with_window_rows(300));
        // What follows the rule stays.
        let status = run_split(Engine::new(), Some(plan.clone()), Some(auto), 4000, |_| ());
        assert!(status.replans.is_empty(), "{:?}", status.replans);
        assert_eq!(&status.splits[0].choice.as_ref().unwrap().prediction().plan, plan);
    }
}

#[test]
fn a_given_plan_is_measured_if_that_is_asked_for_however_short_the_query_is() {
    let given = SplitPlan::exptree(7);
    let status = run_split(Engine::new(), Some(given.clone()), None, 2000, |_| ());
    assert!(status.splits[0].choice.is_none() && status.splits[0].profile.is_none());
    let status = run_split(Engine::new().profile_splits(), Some(given.clone()), None, 2000, |_| ());
    let split = &status.splits[0];
    assert_eq!((&split.plan, &split.choice.as_ref().unwrap().prediction().plan), (&given, &given));
    assert_eq!(split.profile.unwrap().parts, Proportions::counted(1, 0, 0));
    let text = split.to_string();
    assert!(text.contains("predicted") && text.contains("not chosen: "), "{text}");
    // What no one has asked for is not measured.
    let status = run_split(Engine::new().profile_splits(), None, None, 2000, |_| ());
    assert!(status.splits[0].profile.is_none());
}

#[test]
fn a_stage_and_its_prediction_are_both_processor_time() {
    // The engine's clock stands still, as it would for a cost that is taken from it.
    let engine = Engine::new().profile_splits().clock(Arc::new(ManualClock::default()));
    let status = run_split(engine, Some(SplitPlan::exptree(7)), None, 2000, |_| ());
    let split = &status.splits[0];
    assert!(split.stages.iter().all(|stage| stage.time_ns > 0), "{split}");
    let SplitterCosts { consume_ns, process_ns, emit_ns } = split.profile.unwrap().splitter;
    assert!(consume_ns + process_ns + emit_ns > 0.0, "{split}");
}

/// How often a search looks at cycles: seldom enough that each time there are some, also where other programs run. It gives up
/// otherwise, and rests.
const LOOKS_EVERY: Option<Duration> = Some(Duration::from_millis(20));

/// Pushes the rows of some cycles.
fn push_cycles(gateway: &Gateway, rows: u32) -> u32 {
    let end = rows + 4000;
    numbered(rows..end).chunks(1000).for_each(|rows| gateway.push(chunk(rows)).unwrap());
    end
}

/// Searches the window of a split while rows come, until sizes have been compared. Gives the plan it began with, what the sink
/// got, how many rows there were, and the status at the end.
fn search_window(workers: usize, split: SplitPlan) -> (Vec<fixture::Row>, u32, Status) {
    watched("searching a window", move || {
        let mut plan = forward::plan();
        plan.operators[0].inputs[0].split = Some(split);
        plan.operators[0].inputs[0].auto_split =
            Some(AutoSplit { every: LOOKS_EVERY, ..AutoSplit::only_window() });
        let sink = Remember::default();
        let mut running = Engine::new()
            .workers(workers)
            .cycles(CyclePolicy { events_max: 2000, ..CyclePolicy::default() })
            .run(plan, sink.boxed())
            .unwrap();
        let gateway = running.gateway(0).unwrap();
        let mut rows = 0;
        eventually("a comparison", || {
            rows = push_cycles(&gateway, rows);
            running.status().splits[0].window.is_some()
        });
        drop(gateway);
        let status = running.join().unwrap();
        (sink.rows(0), rows, status)
    })
}

#[test]
fn a_window_is_searched_in_turns_and_no_row_depends_on_it() {
    // With one worker, only a tree deals windows.
    for (workers, split) in
        [(1, SplitPlan::exptree(7)), (2, SplitPlan::fsplit(7)), (5, SplitPlan::parasplit_tree(7, 4))]
    {
        let split = split.with_window_rows(256);
        let (written, rows, status) = search_window(workers, split.clone());
        // A partition has the numbers with one remainder, and adds how many it has seen.
        let expected: Vec<_> =
            (0..rows).map(|n| (n, i64::from(n), u64::from(n) + u64::from(n / 7))).collect();
        assert!(written == expected, "{workers} workers write other rows");
        let sizes: Vec<u32> = status.replans.iter().map(|replan| replan.plan.window_rows).collect();
        // The first and its neighbours take turns, three times.
        assert!([128, 256, 512].iter().all(|size| sizes.contains(size)) && sizes.len() >= 8, "{sizes:?}");
        assert!(status.replans.iter().all(|replan| replan.plan.differs_by_window(&split)));
        // The work of all sizes is in the same stages.
        assert_eq!(status.splits[0].stages[0].rows_in, u64::from(rows));
        let comparison = status.splits[0].window.clone().unwrap();
        assert!(comparison.costs_ns.len() > 1 && comparison.costs_ns.iter().all(|(_, ns)| *ns > 0.0));
        let text = status.splits[0].to_string();
        assert!(text.contains("processor time while running: W = "), "{text}");
    }
}

#[test]
fn a_window_stays_if_no_windows_are_dealt_or_its_size_is_given() {
    let every = Some(Duration::from_millis(1));
    let all_split = SplitPlan::parasplit(7, 2).with_window_rows(256);
    let given = SplitPlan::fsplit(7).with_window_rows(256);
    for (split, searches_window) in [(all_split, true), (given, false)] {
        let auto = AutoSplit { every, searches_window, ..AutoSplit::only_window() };
        let status = run_split(Engine::new(), Some(split.clone()), Some(auto), 200_000, |running| {
            eventually("a look", || running.status().splits[0].choice.is_some());
        });
        assert!(status.replans.is_empty(), "{:?}", status.replans);
        assert_eq!((&status.splits[0].plan, &status.splits[0].window), (&split, &None));
    }
}

/// A search that begins with 256 rows.
fn searched_plan() -> Plan {
    let mut plan = forward::plan();
    plan.operators[0].inputs[0].split = Some(SplitPlan::exptree(7).with_window_rows(256));
    plan.operators[0].inputs[0].auto_split =
        Some(AutoSplit { every: LOOKS_EVERY, ..AutoSplit::only_window() });
    plan
}

/// Pushes rows until sizes around 100 rows have been compared, which no search reaches from 256.
fn search_around_100(running: &Running, gateway: &Gateway, mut rows: u32) {
    eventually("a comparison around 100 rows", || {
        rows = push_cycles(gateway, rows);
        let window = running.status().splits[0].window.clone();
        window.is_some_and(|window| window.costs_ns.iter().any(|(rows, _)| *rows == 100))
    });
}

#[test]
fn the_search_goes_on_from_a_window_that_the_program_sets() {
    watched("another window", || {
        let cycles = CyclePolicy { events_max: 2000, ..CyclePolicy::default() };
        let engine = Engine::new().workers(2).cycles(cycles);
        let mut running = engine.run(searched_plan(), Remember::default().boxed()).unwrap();
        let gateway = running.gateway(0).unwrap();
        let mut rows = 0;
        eventually("a turn with another size", || {
            rows = push_cycles(&gateway, rows);
            !running.status().replans.is_empty()
        });
        running.replan("forward", 0, SplitPlan::exptree(7).with_window_rows(100)).unwrap();
        search_around_100(&running, &gateway, rows);
        drop(gateway);
        running.join().unwrap();
    });
}

#[test]
fn the_search_begins_after_a_replay_with_the_window_that_was_logged_last() {
    watched("a replayed window", || {
        let change = SplitChange {
            operator: "forward".into(),
            input: 0,
            plan: SplitPlan::exptree(7).with_window_rows(100).to_bytes(),
        };
        // Long enough for a search to begin before the last cut.
        let last = 19;
        let cut = |cycle: u64| Cut {
            cycle,
            positions: vec![(cycle + 1) * 2000],
            watermarks: vec![i64::MIN],
            splits: if cycle == last { vec![change.clone()] } else { Vec::new() },
            ..Cut::first()
        };
        let resume = Resume { replay: (0..=last).map(cut).collect(), sinks: vec![0], ..Resume::default() };
        let cycles = CyclePolicy { events_max: 2000, ..CyclePolicy::default() };
        let engine = Engine::new().workers(2).cycles(cycles).resume(resume);
        let mut running = engine.run(searched_plan(), Remember::default().boxed()).unwrap();
        let gateway = running.gateway(0).unwrap();
        for cycle in 0..last {
            gateway.push(chunk(&numbered(cycle as u32 * 2000..(cycle as u32 + 1) * 2000))).unwrap();
            std::thread::sleep(Duration::from_millis(5));
        }
        eventually("the cuts before", || running.status().committed_end == last);
        search_around_100(&running, &gateway, last as u32 * 2000);
        let replans = running.status().replans;
        assert_eq!((replans[0].first_cycle, replans[0].plan.window_rows), (last, 100));
        assert!([50, 200].contains(&replans[1].plan.window_rows), "{replans:?}");
        drop(gateway);
        running.join().unwrap();
    });
}
