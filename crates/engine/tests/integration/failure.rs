//! Failures: whatever fails, the query stops with what, where and why; nothing hangs; what was committed
//! stays.

use crate::fixture;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::fixture::forward::{Forward, operator, plan, plan_of};
use crate::fixture::sink::{Remember, SinkFault};
use crate::fixture::{COLUMNS, chunk, numbered, schema, watched};
use tidemill_engine::arrow::array::types::UInt32Type;
use tidemill_engine::{
    Cause, Clock, Cut, CyclePolicy, Engine, Failure, Fault, FlowError, Operator, OperatorPlan, Output, Plan,
    Rows, Sink, Snapshot, SnapshotReader, SnapshotWriter, SplitPlan,
};
use tidemill_testing::random::Random;

/// What an operator does wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wrong {
    Error,
    Panic,
    PanicAtEndOfCycle,
    ErrorAtEndOfCycle,
    NoSuchPort,
    OtherColumns,
    PositionTooLarge,
}

/// Does something wrong at the key 45, which comes in cycle 4 to partition 3 (of 7).
struct Faulty {
    wrong: Wrong,
    seen: bool,
}

impl Operator for Faulty {
    fn rows(&mut self, _input: usize, rows: Rows<'_>, output: &mut Output) -> Result<(), Cause> {
        if !rows.column::<UInt32Type>(0).contains(&45) {
            return Ok(());
        }
        self.seen = true;
        match self.wrong {
            Wrong::Error => return Err(Cause::user("no such car")),
            Wrong::Panic => panic!("no such car"),
            Wrong::NoSuchPort => output.port(1).push(0, (1u32,)),
            Wrong::OtherColumns => output.port(0).push(0, (1u32, 2u32)),
            Wrong::PositionTooLarge => {
                let position = output.end_position() + 1;
                output.port(0).push(position, (1u32, 2i64, 3u64));
            }
            Wrong::PanicAtEndOfCycle | Wrong::ErrorAtEndOfCycle => {}
        }
        Ok(())
    }
    fn end_of_cycle(&mut self, _cut: &Cut, _output: &mut Output) -> Result<(), Cause> {
        match self.wrong {
            Wrong::PanicAtEndOfCycle if self.seen => panic!("no such car"),
            Wrong::ErrorAtEndOfCycle if self.seen => Err(Cause::user("no such car")),
            _ => Ok(()),
        }
    }
    fn snapshot(&self, _writer: &mut SnapshotWriter) {
        panic!("no snapshot of this");
    }
    fn restore(&mut self, reader: &mut SnapshotReader<'_>) -> Result<(), Cause> {
        if reader.u8()? == 0 { panic!("no restore of this") } else { reader.version(7) }
    }
}

fn faulty(wrong: Wrong) -> Plan {
    plan_of(move |_| Box::new(Faulty { wrong, seen: false }))
}

/// Pushes numbered rows for ever in cycles of ten and gives the failure; asserts that nothing hangs.
fn failure_of(what: &str, engine: Engine, plan: Plan, sinks: Vec<Box<dyn Sink>>) -> Failure {
    let mut running = match engine.cycles(CyclePolicy::fixed(10)).run(plan, sinks) {
        Ok(running) => running,
        Err(FlowError::Failed(failure)) => return failure,
        Err(error) => panic!("{what}: {error}"),
    };
    let gateway = running.gateway(0).unwrap();
    watched(what, move || {
        for number in 0.. {
            if gateway.push(chunk(&numbered(number * 10..number * 10 + 10))).is_err() {
                break;
            }
        }
        match running.join() {
            Err(FlowError::Failed(failure)) => failure,
            result => panic!("{:?}", result.map(|_| "an orderly end")),
        }
    })
}

#[test]
fn an_operators_fault_is_named_with_operator_partition_cycle_and_cause() {
    use Wrong::*;
    for wrong in
        [Error, Panic, PanicAtEndOfCycle, ErrorAtEndOfCycle, NoSuchPort, OtherColumns, PositionTooLarge]
    {
        for workers in [1, 2, 5] {
            let sink = Remember::default();
            let failure =
                failure_of("a faulty operator", Engine::new().workers(workers), faulty(wrong), sink.boxed());
            let Failure::Operator(error) = &failure else { panic!("{failure}") };
            assert_eq!(
                (error.operator.as_str(), error.partition, error.cycle),
                ("forward", 3, 4),
                "{wrong:?}"
            );
            match wrong {
                Error | ErrorAtEndOfCycle => assert_eq!(error.cause, Cause::user("no such car")),
                Panic | PanicAtEndOfCycle => assert_eq!(error.cause, Cause::bug("no such car")),
                _ => assert!(error.cause.fault == Fault::Bug),
            }
            assert!(failure.to_string().contains("operator 'forward', partition 3, cycle 4: "));
            assert!(sink.committed() <= 4);
            assert!(!sink.read(|memory| memory.finished));
        }
    }
}

#[test]
fn an_operator_that_no_one_reads_stops_the_query_too_and_its_cycle_is_not_committed() {
    for workers in [1, 2, 5] {
        let mut plan = Plan::new("unread");
        let input = plan.source("input", [schema()]);
        plan.operator(operator("unread", input[0], |_| {
            Box::new(Faulty { wrong: Wrong::Error, seen: false })
        }));
        plan.sink("output", input);
        let sink = Remember::default();
        let failure = failure_of("an unread operator", Engine::new().workers(workers), plan, sink.boxed());
        assert!(
            matches!(&failure, Failure::Operator(error) if error.operator == "unread" && error.cycle == 4)
        );
        assert!(sink.committed() <= 4, "{}", sink.committed());
    }
}

#[test]
fn a_fault_at_the_start_is_named() {
    for workers in [1, 2, 5] {
        let plan = plan_of(
            |partition| if partition == 5 { panic!("no memory") } else { Box::new(Forward::default()) },
        );
        let engine = Engine::new().workers(workers);
        let failure = failure_of("a panicking factory", engine, plan, Remember::default().boxed());
        assert_eq!(failure.to_string(), "operator 'forward', partition 5, cycle 0: this is a bug: no memory");
    }
}

#[test]
fn a_restore_that_fails_is_named() {
    let state = |byte: u8| {
        let mut writer = SnapshotWriter::default();
        writer.u8(byte);
        let partitions = [(2, writer.finish())].into();
        Arc::new(Snapshot { operators: [("forward".to_string(), partitions)].into(), ..Snapshot::default() })
    };
    let mut damaged = Snapshot::clone(&state(1));
    damaged.operators.get_mut("forward").unwrap().get_mut(&2).unwrap()[0] ^= 1;
    for workers in [1, 2, 5] {
        for (state, text) in [
            (state(1), "ends early"),
            (state(0), "no restore of this"),
            (Arc::new(damaged.clone()), "damaged"),
        ] {
            let engine = Engine::new().workers(workers).state(state);
            let failure = failure_of("a restore", engine, faulty(Wrong::Error), Remember::default().boxed());
            let Failure::Operator(error) = &failure else { panic!("{failure}") };
            assert_eq!((error.partition, error.cycle), (2, 0));
            assert!(failure.to_string().contains(text), "{failure}");
        }
    }
}

#[test]
fn a_snapshot_that_panics_is_named() {
    for workers in [1, 2, 5] {
        watched("a panicking snapshot", move || {
            let mut running = Engine::new()
                .workers(workers)
                .run(faulty(Wrong::Error), Remember::default().boxed())
                .unwrap();
            let _gateway = running.gateway(0);
            let Err(FlowError::Failed(Failure::Operator(error))) = running.snapshot() else { panic!() };
            assert_eq!(error.cause, Cause::bug("no snapshot of this"));
            assert!(running.join().is_err());
        });
    }
}

/// Source -> forward -> a second operator with this route -> sink; the first one is routed by key.
fn plan_with_route(route: impl Fn(u32) -> Vec<u32> + Send + Sync + 'static, at_source: bool) -> Plan {
    let route: Box<tidemill_engine::Route> = Box::new(move |rows, destinations| {
        destinations.extend(fixture::rows_of(rows).iter().flat_map(|row| route(row.0)));
    });
    let mut plan = Plan::new("routes");
    let mut stream = plan.source("input", [schema()])[0];
    if !at_source {
        stream = plan.operator(operator("first", stream, |_| Box::new(Forward::default())))[0];
    }
    let second = OperatorPlan::new("second", 3, |_| Box::new(Forward::default()));
    let output = plan.operator(second.input(stream, COLUMNS, route).output(schema()));
    plan.sink("output", output);
    plan
}

#[test]
fn a_route_out_of_range_shows_the_row() {
    let splits = [None, Some(SplitPlan::fsplit(3)), Some(SplitPlan::exptree(3))];
    for (workers, split) in [1, 2, 5].into_iter().flat_map(|n| splits.iter().map(move |split| (n, split))) {
        for at_source in [true, false] {
            let engine = || Engine::new().workers(workers);
            let split = |mut plan: Plan| {
                plan.operators.last_mut().unwrap().inputs[0].split = split.clone();
                plan
            };
            let out_of_range = plan_with_route(|key| vec![if key == 45 { 3 } else { key % 3 }], at_source);
            let failure =
                failure_of("a route", engine(), split(out_of_range), Remember::default().boxed()).to_string();
            assert!(failure.contains("input of operator 'second', cycle 4: "), "{failure}");
            assert!(
                failure.contains("to partition 3, but there are only 3") && failure.contains("45"),
                "{failure}"
            );

            for count in [0, 2] {
                let plan = plan_with_route(move |key| vec![0; if key == 45 { count } else { 1 }], at_source);
                let failure =
                    failure_of("a route", engine(), split(plan), Remember::default().boxed()).to_string();
                assert!(failure.contains("cycle 4") && failure.contains(" destinations for "), "{failure}");
            }

            let panics = plan_with_route(|key| if key == 45 { panic!("no way") } else { vec![0] }, at_source);
            let failure =
                failure_of("a panicking route", engine(), split(panics), Remember::default().boxed())
                    .to_string();
            assert!(failure.contains("'second', cycle 4") && failure.contains("no way"), "{failure}");
        }
    }
}

#[test]
fn a_sinks_fault_is_named_and_what_was_committed_stays() {
    use SinkFault::*;
    for fault in [FailPrepare(3), PanicPrepare(3), FailCommit(3), PanicCommit(3)] {
        for (workers, direct) in [(1, false), (2, false), (5, false), (1, true), (2, true), (5, true)] {
            let faulty = Remember { direct, ..Remember::failing(fault) };
            let healthy = Remember { direct: direct && workers == 2, ..Remember::default() };
            let mut plan = Plan::new("two sinks");
            let input = plan.source("input", [schema()]);
            plan.sink("healthy", input.clone());
            plan.sink("faulty", input);
            let sinks: Vec<Box<dyn Sink>> = vec![Box::new(healthy.clone()), Box::new(faulty.clone())];
            let failure = failure_of("a faulty sink", Engine::new().workers(workers), plan, sinks);
            let Failure::Sink(error) = &failure else { panic!("{failure}") };
            assert_eq!((error.sink.as_str(), error.cycle), ("faulty", faulty.committed()));
            assert!(error.cycle <= 3);
            let text = error.cause.to_string();
            assert!(text.contains("on purpose"), "{text}");
            let kept = faulty.rows(0).len() as u64;
            assert!(kept >= faulty.committed() * 10);
            assert!(!healthy.read(|memory| memory.finished));
        }
    }
}

#[test]
fn a_sink_that_fails_at_the_end_fails_the_query() {
    for fault in [SinkFault::FailFinish, SinkFault::PanicFinish] {
        for (workers, direct) in [(1, false), (2, false), (5, false), (1, true), (2, true), (5, true)] {
            watched("a failing end", move || {
                let sink = Remember { direct, ..Remember::failing(fault) };
                let mut running = Engine::new().workers(workers).run(plan(), sink.boxed()).unwrap();
                running.gateway(0).unwrap().push(chunk(&numbered(0..100))).unwrap();
                let Err(FlowError::Failed(Failure::Sink(error))) = running.join() else { panic!() };
                assert!(error.cause.to_string().contains("finish"));
                assert_eq!(sink.rows(0).len(), 100);
                assert!(sink.committed() > 0);
            });
        }
    }
}

#[test]
fn several_faults_at_once_end_in_one_of_them() {
    for workers in [1, 2, 5] {
        for _ in 0..20 {
            let plan = plan_of(|_| Box::new(Faulty { wrong: Wrong::Panic, seen: false }));
            let sinks = Remember::failing(SinkFault::PanicCommit(2)).boxed();
            failure_of("faults everywhere", Engine::new().workers(workers), plan, sinks);
        }
    }
}

#[test]
fn an_error_in_the_middle_of_everything_never_hangs() {
    let mut random = Random::new(11);
    for round in 0..60 {
        let fail_after = random.below(3000);
        let workers = [1, 2, 5][round % 3];
        let fails = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&fails);
        let plan = plan_of(move |_| Box::new(OnFlag { flag: Arc::clone(&flag) }));
        watched("an error", move || {
            let mut running = Engine::new().workers(workers).run(plan, Remember::default().boxed()).unwrap();
            let gateway = running.gateway(0).unwrap();
            for number in 0.. {
                fails.fetch_or(number == fail_after, Ordering::SeqCst);
                if gateway.push(chunk(&numbered(0..1 + number as u32 % 50))).is_err() {
                    break;
                }
            }
            assert!(matches!(running.join(), Err(FlowError::Failed(Failure::Operator(_)))));
        });
    }
}

struct OnFlag {
    flag: Arc<AtomicBool>,
}

impl Operator for OnFlag {
    fn rows(&mut self, _input: usize, _rows: Rows<'_>, _output: &mut Output) -> Result<(), Cause> {
        if self.flag.load(Ordering::SeqCst) { Err(Cause::user("now")) } else { Ok(()) }
    }
    fn snapshot(&self, _writer: &mut SnapshotWriter) {}
    fn restore(&mut self, _reader: &mut SnapshotReader<'_>) -> Result<(), Cause> {
        Ok(())
    }
}

/// Panics on the engine's own threads, from the thousandth call on.
#[derive(Default)]
struct BrokenClock {
    calls: AtomicU64,
}

impl Clock for BrokenClock {
    fn now_ns(&self) -> u64 {
        let calls = self.calls.fetch_add(1, Ordering::SeqCst);
        let is_worker = std::thread::current().name().is_some_and(|name| name.starts_with("timely"));
        assert!(calls < 1000 || !is_worker, "the clock is broken");
        calls
    }
}

#[test]
fn even_a_panic_of_the_engine_itself_stops_the_query() {
    for workers in [1, 2, 5] {
        for _ in 0..5 {
            let engine = Engine::new().workers(workers).clock(Arc::new(BrokenClock::default()));
            let failure = failure_of("a broken clock", engine, plan(), Remember::default().boxed());
            let Failure::Engine { part, cause } = failure else { panic!("{failure}") };
            assert!(
                part.starts_with("worker ") && cause.to_string().contains("the clock is broken"),
                "{part}: {cause}"
            );
        }
    }
}
