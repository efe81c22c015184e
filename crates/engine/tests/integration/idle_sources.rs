//! Time with several sources: an idle one holds nothing back, comes back, ends; and each operator's timers
//! follow the sources that its own rows come from.

use crate::fixture;

use crate::fixture::forward::Forward;
use crate::fixture::mixer::{Kind, Mixer};
use crate::fixture::sink::Remember;
use crate::fixture::{COLUMNS, Row, chunk, eventually, schema, watched};
use tidemill_engine::arrow::array::types::UInt32Type;
use tidemill_engine::{
    Chunk, CutLog, CyclePolicy, Engine, Gateway, MemoryCutLog, OperatorPlan, Plan, Running, StreamRef,
    route_by_key,
};

/// Sums in windows of 8 of event time, in 3 partitions, of streams of these sources; its second port has
/// them.
fn windows(name: &str, inputs: &[StreamRef], sources: Vec<usize>) -> OperatorPlan {
    let factory = move |partition| -> Box<dyn tidemill_engine::Operator> {
        Box::new(Mixer::new(Kind::EventTime, partition, sources.clone()))
    };
    let plan = OperatorPlan::new(name, 3, factory).output(schema()).output(schema());
    inputs.iter().fold(plan, |plan, input| plan.input(*input, COLUMNS, route_by_key::<UInt32Type>(0, 3)))
}

/// Two sources, `a` and `b`, into one operator with timers.
fn joint_plan() -> Plan {
    let mut plan = Plan::new("joint");
    let (a, b) = (plan.source("a", [schema()])[0], plan.source("b", [schema()])[0]);
    assert_eq!(plan.sources_of(a), [0]);
    let output = plan.operator(windows("windows", &[a, b], vec![0, 1]));
    assert_eq!(plan.sources_of(output[0]), [0, 1]);
    plan.sink("output", [output[1]]);
    plan
}

fn start(plan: Plan, workers: usize) -> (Running, Remember, MemoryCutLog) {
    let (sink, log) = (Remember::default(), MemoryCutLog::new(1000));
    let cycles = CyclePolicy { wait_max: None, ..CyclePolicy::default() };
    let engine = Engine::new().workers(workers).cycles(cycles).cut_log(log.clone());
    (engine.run(plan, sink.boxed()).unwrap(), sink, log)
}

/// A row of this time; even values count in windows.
fn row(time: i64) -> Row {
    (1, time, 2)
}

fn only(watermark: i64, idle: bool) -> Chunk {
    Chunk { streams: vec![None], events: 0, watermark, arrived_ns: None, idle }
}

/// Pushes a chunk and waits until its cycle is committed. No other cycle may be closed meanwhile: see [`end`].
fn push(gateway: &Gateway, sink: &Remember, chunk: Chunk) {
    let before = sink.committed();
    gateway.push(chunk).unwrap();
    eventually("the cycle", || sink.committed() == before + 1);
}

/// Ends a source, while another one has not ended, and waits until the cycle is committed that says so.
fn end(gateway: Gateway, sink: &Remember) {
    let before = sink.committed();
    drop(gateway);
    eventually("the end of the source", || sink.committed() == before + 1);
}

/// The ends of the windows that came out so far.
fn ends(sink: &Remember, input: usize) -> Vec<i64> {
    sink.rows(input).iter().map(|row| row.1).collect()
}

#[test]
fn an_idle_source_does_not_hold_timers_back_comes_back_and_ends() {
    for workers in [1, 2, 5] {
        watched("idle sources", move || {
            let (mut running, sink, log) = start(joint_plan(), workers);
            let (a, b) = (running.gateway(0).unwrap(), running.gateway(1).unwrap());
            push(&b, &sink, chunk(&[row(1)]));
            push(&a, &sink, chunk(&[row(2), row(30)]));
            assert_eq!(ends(&sink, 0), [0i64; 0], "b is at 1 and holds the window up to 8 back");
            push(&b, &sink, only(1, true));
            assert_eq!(ends(&sink, 0), [8], "b is idle, a is at 30");
            push(&a, &sink, chunk(&[row(40)]));
            assert_eq!(ends(&sink, 0), [8, 32]);

            // It comes back behind the others: time does not go back, but does not advance either.
            push(&b, &sink, Chunk { watermark: 35, ..chunk(&[row(41)]) });
            push(&a, &sink, chunk(&[row(60)]));
            assert_eq!(ends(&sink, 0), [8, 32]);
            push(&b, &sink, only(48, false));
            assert_eq!(ends(&sink, 0), [8, 32, 48]);

            // All idle: none waits for another one.
            push(&b, &sink, only(48, true));
            assert_eq!(ends(&sink, 0), [8, 32, 48], "a is at 60");
            push(&a, &sink, only(1000, true));
            assert_eq!(ends(&sink, 0), [8, 32, 48, 64]);
            // One that comes back behind does not move time back.
            push(&b, &sink, only(70, false));
            assert_eq!(ends(&sink, 0), [8, 32, 48, 64]);
            push(&b, &sink, only(70, true));
            push(&a, &sink, only(0, false));

            // One that has ended counts as complete, and no longer as idle.
            push(&a, &sink, Chunk { watermark: 1000, ..chunk(&[row(1001)]) });
            end(b, &sink);
            push(&a, &sink, chunk(&[row(1010)]));
            assert_eq!(ends(&sink, 0), [8, 32, 48, 64, 1008]);
            drop(a);
            let summary = running.join().unwrap();
            assert_eq!(ends(&sink, 0), [8, 32, 48, 64, 1008, 1016]);
            assert_eq!(summary.per_event.count(), 8);
            let cuts = log.cuts();
            let last = cuts.last().unwrap();
            assert_eq!((last.watermark(), last.idle.clone()), (i64::MAX, vec![false; 2]));
            assert_eq!(cuts[2].idle, [false, true], "the log says who was idle");
        });
    }
}

#[test]
fn a_source_that_has_ended_carries_time_past_one_that_is_idle() {
    for workers in [1, 2, 5] {
        watched("ended beside idle", move || {
            let (mut running, sink, log) = start(joint_plan(), workers);
            let (ended, live) = (running.gateway(0).unwrap(), running.gateway(1).unwrap());
            push(&live, &sink, chunk(&[row(2)]));
            push(&ended, &sink, chunk(&[row(3), row(30)]));
            end(ended, &sink);
            push(&live, &sink, chunk(&[row(9)]));
            assert_eq!(ends(&sink, 0), [8], "the active one alone says how far time is");
            push(&live, &sink, only(9, true));
            assert_eq!(ends(&sink, 0), [8, 16], "as if it had fallen silent before the other one ended");
            push(&live, &sink, chunk(&[row(31), row(41)]));
            assert_eq!(ends(&sink, 0), [8, 16, 32], "and goes on");
            push(&live, &sink, only(41, true));
            drop(live);
            running.join().unwrap();
            assert_eq!(ends(&sink, 0), [8, 16, 32, 48], "all have ended: what is open is written");
            assert_eq!(log.cuts().last().unwrap().watermark(), i64::MAX);
        });
    }
}

#[test]
fn a_source_that_has_ended_carries_time_past_one_that_never_had_a_row() {
    for workers in [1, 2, 5] {
        watched("ended beside silent", move || {
            let (mut running, sink, _) = start(joint_plan(), workers);
            let (ended, silent) = (running.gateway(0).unwrap(), running.gateway(1).unwrap());
            push(&ended, &sink, chunk(&[row(2), row(30)]));
            end(ended, &sink);
            assert_eq!(ends(&sink, 0), [0i64; 0], "it may still have rows of any time");
            silent.push(only(i64::MIN, true)).unwrap();
            eventually("time goes to the end of the other", || ends(&sink, 0) == [8]);
            drop(silent);
            running.join().unwrap();
            assert_eq!(ends(&sink, 0), [8, 32]);
        });
    }
}

#[test]
fn a_source_that_is_idle_from_the_start_and_says_nothing_more_holds_nothing_back() {
    watched("idle from the start", || {
        let (mut running, sink, _) = start(joint_plan(), 2);
        let (a, b) = (running.gateway(0).unwrap(), running.gateway(1).unwrap());
        push(&b, &sink, only(i64::MIN, true));
        push(&a, &sink, chunk(&[row(2), row(30)]));
        assert_eq!(ends(&sink, 0), [8]);
        drop((a, b));
        running.join().unwrap();
        assert_eq!(ends(&sink, 0), [8, 32]);
    });
}

#[test]
fn idleness_after_rows_holds_at_the_end_of_their_chunk_only() {
    let mut plan = Plan::new("divided");
    let streams = [plan.source("a", [schema()])[0], plan.source("b", [schema()])[0]];
    plan.sink("output", streams);
    let (sink, log) = (Remember::default(), MemoryCutLog::new(1000));
    let mut running =
        Engine::new().cycles(CyclePolicy::fixed(2)).cut_log(log.clone()).run(plan, sink.boxed()).unwrap();
    let (a, b) = (running.gateway(0).unwrap(), running.gateway(1).unwrap());
    a.push(Chunk { idle: true, ..chunk(&[row(1), row(2), row(3)]) }).unwrap();
    eventually("a full cycle", || sink.committed() == 1);
    b.push(chunk(&[row(4)])).unwrap();
    eventually("the next", || sink.committed() == 2);
    drop((a, b));
    running.join().unwrap();
    let idle: Vec<bool> = log.cuts().iter().map(|cut| cut.idle[0]).collect();
    assert_eq!(idle, [false, true, false]);
}

#[test]
fn independent_queries_in_one_plan_keep_their_own_time() {
    for workers in [1, 2, 5] {
        watched("two queries", move || {
            let mut plan = Plan::new("two queries");
            let (old, new) = (plan.source("old", [schema()])[0], plan.source("new", [schema()])[0]);
            let of_old = plan.operator(windows("of old", &[old], vec![0]));
            let between = OperatorPlan::new("between", 3, |_| Box::new(Forward::default()))
                .input(new, COLUMNS, route_by_key::<UInt32Type>(0, 3))
                .output(schema());
            let between = plan.operator(between);
            let changed = plan.transform(fixture::reshape::Reshape::Filter.plan(between[0]));
            // Its source is found through an operator and a transform.
            assert_eq!(plan.sources_of(changed), [1]);
            let of_new = plan.operator(windows("of new", &[changed], vec![1]));
            let of_both = plan.operator(windows("of both", &[old, changed], vec![0, 1]));
            plan.sink("output", [of_old[1], of_new[1], of_both[1]]);
            let (mut running, sink, _) = start(plan, workers);
            let (old, new) = (running.gateway(0).unwrap(), running.gateway(1).unwrap());
            // Far ahead of the other, which has said nothing yet.
            let row_of = |key: u32, time: i64| (key, time, 2);
            push(&new, &sink, chunk(&[row_of(0, 1_000_000), row_of(1, 1_000_016)]));
            assert_eq!((ends(&sink, 0), ends(&sink, 1), ends(&sink, 2)), (vec![], vec![1_000_008], vec![]));
            push(&old, &sink, chunk(&[row(1), row(9)]));
            assert_eq!((ends(&sink, 0), ends(&sink, 2)), (vec![8], vec![8]));
            push(&new, &sink, chunk(&[row_of(2, 2_000_000)]));
            assert_eq!((ends(&sink, 0).len(), ends(&sink, 1).len(), ends(&sink, 2).len()), (1, 2, 1));
            end(old, &sink);
            assert_eq!(ends(&sink, 0), [8, 16]);
            drop(new);
            running.join().unwrap();
            assert_eq!(ends(&sink, 1), [1_000_008, 1_000_024, 2_000_008]);
            let mut of_both = ends(&sink, 2);
            of_both.sort();
            assert_eq!(of_both, [8, 16, 1_000_008, 1_000_024, 2_000_008]);
        });
    }
}

#[test]
fn a_cut_says_how_far_chosen_sources_are() {
    let cut = tidemill_engine::Cut {
        watermarks: vec![5, 9, 3],
        idle: vec![false, false, true],
        ..tidemill_engine::Cut::first()
    };
    assert_eq!((cut.watermark(), cut.watermark_of([1]), cut.watermark_of([1, 2])), (5, 9, 9));
    assert_eq!((cut.watermark_of([2]), cut.watermark_of([])), (3, i64::MIN));
    let mut log = MemoryCutLog::new(1);
    log.append(&cut).unwrap();
    assert_eq!(log.cuts(), std::slice::from_ref(&cut));

    let ended = tidemill_engine::Cut { watermarks: vec![i64::MAX, 9, i64::MAX], ..cut };
    assert_eq!((ended.watermark(), ended.watermark_of([0])), (9, i64::MAX));
    let idle = tidemill_engine::Cut { idle: vec![false, true, false], ..ended };
    assert_eq!((idle.watermark(), idle.watermark_of([0, 2])), (9, i64::MAX));

    let then = tidemill_engine::Cut { ended_at: vec![12, i64::MIN, 8], ..idle.clone() };
    assert_eq!((then.watermark(), then.watermark_of([1, 2]), then.watermark_of([0, 2])), (12, 9, i64::MAX));
    let silent = tidemill_engine::Cut { watermarks: vec![5, 9, 3], idle: vec![true; 3], ..idle };
    assert_eq!((silent.watermark(), silent.watermark_of([0, 2])), (9, 5));
    let of_before = tidemill_engine::Cut { stands_still_when_idle: true, ..silent };
    assert_eq!(of_before.watermark(), i64::MIN);
}

/// Sources that fall silent one after the other, and all at once in one cycle.
#[test]
fn it_makes_no_difference_which_source_falls_silent_first() {
    let three = || {
        let mut plan = Plan::new("three");
        let inputs = ["a", "b", "c"].map(|name| plan.source(name, [schema()])[0]);
        let output = plan.operator(windows("windows", &inputs, vec![0, 1, 2]));
        plan.sink("output", [output[1]]);
        plan
    };
    let orders = [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]];
    for workers in [1, 2, 5] {
        for order in orders {
            for at_once in [false, true] {
                watched("falling silent", move || {
                    let policy = CyclePolicy { wait_max: None, ..CyclePolicy::default() };
                    let policy = if at_once { CyclePolicy::fixed(6) } else { policy };
                    let (sink, log) = (Remember::default(), MemoryCutLog::new(1000));
                    let engine = Engine::new().workers(workers).cycles(policy).cut_log(log.clone());
                    let mut running = engine.run(three(), sink.boxed()).unwrap();
                    let gateways = [0, 1, 2].map(|source| running.gateway(source).unwrap());
                    let rows = [[row(1), row(30)], [row(2), row(50)], [row(3), row(11)]];
                    if at_once {
                        for source in order {
                            let silent = Chunk { idle: true, ..chunk(&rows[source]) };
                            gateways[source].push(silent).unwrap();
                        }
                    } else {
                        for source in order {
                            push(&gateways[source], &sink, chunk(&rows[source]));
                        }
                        for source in order {
                            push(&gateways[source], &sink, only(rows[source][1].1, true));
                        }
                    }
                    eventually("all are idle", || ends(&sink, 0) == [8, 16, 32]);
                    drop(gateways);
                    running.join().unwrap();
                    let cut =
                        log.cuts().into_iter().find(|cut| cut.idle == [true; 3]).expect("all were idle");
                    assert_eq!(cut.watermark(), 50);
                    assert_eq!(ends(&sink, 0), [8, 16, 32, 56]);
                });
            }
        }
    }
}

/// Some of three sources fall silent, and the others end: in any order, and all in one cycle. Only the last time counts.
#[test]
fn it_makes_no_difference_which_source_ends_or_falls_silent_first() {
    let orders = [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]];
    // Which of them end, as bits: at least one falls silent.
    for ending in 0..7_u8 {
        for order in orders {
            for at_once in [false, true] {
                watched("ending and falling silent", move || {
                    let ends_itself = |source: usize| ending & (1 << source) != 0;
                    let mut plan = Plan::new("three");
                    let inputs = ["a", "b", "c"].map(|name| plan.source(name, [schema()])[0]);
                    let output = plan.operator(windows("windows", &inputs, vec![0, 1, 2]));
                    plan.sink("output", [output[1]]);
                    let policy = CyclePolicy { wait_max: None, ..CyclePolicy::default() };
                    let policy = if at_once { CyclePolicy::fixed(6) } else { policy };
                    let (sink, log) = (Remember::default(), MemoryCutLog::new(1000));
                    let engine = Engine::new().workers(2).cycles(policy).cut_log(log.clone());
                    let mut running = engine.run(plan, sink.boxed()).unwrap();
                    let mut gateways = [0, 1, 2].map(|source| running.gateway(source));
                    let rows = [[row(1), row(30)], [row(2), row(50)], [row(3), row(11)]];
                    if !at_once {
                        for source in order {
                            push(gateways[source].as_ref().unwrap(), &sink, chunk(&rows[source]));
                        }
                    }
                    for source in order {
                        let gateway = gateways[source].as_ref().unwrap();
                        let idle = !ends_itself(source);
                        match (at_once, idle) {
                            (true, _) => gateway.push(Chunk { idle, ..chunk(&rows[source]) }).unwrap(),
                            (false, true) => gateway.push(only(rows[source][1].1, true)).unwrap(),
                            (false, false) => {}
                        }
                        if !idle {
                            gateways[source] = None;
                        }
                    }
                    eventually("time has come to the last row", || ends(&sink, 0) == [8, 16, 32]);
                    drop(gateways);
                    running.join().unwrap();
                    let reached = |cut: &tidemill_engine::Cut| cut.watermark() == 50;
                    assert!(log.cuts().iter().any(reached), "{ending:03b} {order:?} {at_once}");
                    assert_eq!(ends(&sink, 0), [8, 16, 32, 56]);
                });
            }
        }
    }
}
