//! Orderly and disorderly stops: nothing is lost in the one, nothing hangs in the other.

use crate::fixture;

use crate::fixture::forward::{Forward, operator, plan, plan_without_operators};
use crate::fixture::mixer::{Kind, Mixer};
use crate::fixture::sink::Remember;
use crate::fixture::{COLUMNS, chunk, numbered, schema, watched};
use tidemill_engine::arrow::array::types::UInt32Type;
use tidemill_engine::{
    Cause, Counter, Cut, CyclePolicy, Engine, Failure, FlowError, MemoryCutLog, OMIT, Operator, OperatorPlan,
    Output, Plan, Rows, Sink, SnapshotReader, SnapshotWriter, route_by_key,
};
use tidemill_testing::random::Random;

#[test]
fn an_orderly_stop_loses_nothing() {
    let mut random = Random::new(5);
    for round in 0..60 {
        let (amount, chunk_size) = (random.below(20_000) as u32, 1 + random.below(3000) as usize);
        let workers = [1, 2, 5][round % 3];
        let cycles = match round % 4 {
            0 => CyclePolicy::default(),
            1 => CyclePolicy::fixed(1 + random.below(500) as u32),
            2 => CyclePolicy { events_max: 2000, wait_max: None, close_when_idle: true },
            _ => CyclePolicy { close_when_idle: false, ..CyclePolicy::default() },
        };
        watched("an orderly stop", move || {
            let sink = Remember::default();
            let mut running = Engine::new()
                .workers(workers)
                .cycles(cycles)
                .run(plan_without_operators(), sink.boxed())
                .unwrap();
            let gateway = running.gateway(0).unwrap();
            for rows in numbered(0..amount).chunks(chunk_size) {
                gateway.push(chunk(rows)).unwrap();
            }
            drop(gateway);
            let summary = running.join().unwrap();
            assert_eq!(sink.rows(0), numbered(0..amount));
            assert!(sink.read(|memory| memory.finished));
            assert!(sink.given().last().unwrap().cut.last);
            assert_eq!(sink.committed(), sink.given().len() as u64);
            let counted = [Counter::EventsIn, Counter::EventsCommitted, Counter::RowsOut]
                .map(|counter| summary.get(counter));
            assert_eq!(counted, [u64::from(amount); 3]);
            assert_eq!(summary.per_event.count(), u64::from(amount));
            assert_eq!(summary.get(Counter::CyclesCommitted), sink.committed());
            assert_eq!(summary.get(Counter::UncommittedBytes), 0);
        });
    }
}

#[test]
fn a_gateway_dropped_at_once_and_one_that_is_never_taken_end_the_query() {
    for workers in [1, 2, 5] {
        for taken in [true, false] {
            watched("an empty input", move || {
                let sink = Remember::default();
                let mut running = Engine::new().workers(workers).run(plan(), sink.boxed()).unwrap();
                if taken {
                    drop(running.gateway(0).unwrap());
                    assert!(running.gateway(0).is_none(), "each gateway is there once");
                }
                running.join().unwrap();
                // One empty cycle says that it was the last.
                assert_eq!(sink.given().len(), 1);
                assert!(sink.read(|memory| memory.finished));
            });
        }
    }
}

#[test]
fn many_short_runs_end() {
    watched("short runs", || {
        for round in 0..300 {
            let sink = Remember::default();
            let mut running = Engine::new().workers(1 + round % 3).run(plan(), sink.boxed()).unwrap();
            let gateway = running.gateway(0).unwrap();
            gateway.push(chunk(&numbered(0..round as u32 % 7))).unwrap();
            drop(gateway);
            running.join().unwrap();
            assert_eq!(sink.rows(0).len(), round % 7);
        }
    });
}

#[test]
fn abort_stops_at_once_and_keeps_what_was_committed() {
    for workers in [1, 2, 5] {
        for round in 0..20 {
            watched("an abort", move || {
                let sink = Remember::default();
                let mut running = Engine::new().workers(workers).run(plan(), sink.boxed()).unwrap();
                let gateway = running.gateway(0).unwrap();
                let thread =
                    std::thread::spawn(move || while gateway.push(chunk(&numbered(0..100))).is_ok() {});
                std::thread::sleep(std::time::Duration::from_micros(round * 200));
                running.abort();
                assert!(running.has_failed());
                thread.join().unwrap();
                assert!(matches!(running.join(), Err(FlowError::Failed(Failure::Aborted))));
                assert!(sink.committed() <= sink.given().len() as u64);
                assert!(!sink.read(|memory| memory.finished));
            });
        }
    }
}

#[test]
fn dropping_a_running_query_stops_it() {
    for workers in [1, 2, 5] {
        watched("a drop", move || {
            let sink = Remember::default();
            let mut running = Engine::new().workers(workers).run(plan(), sink.boxed()).unwrap();
            let gateway = running.gateway(0).unwrap();
            gateway.push(chunk(&numbered(0..10))).unwrap();
            drop(running);
            assert!(gateway.push(chunk(&numbered(0..10))).is_err());
            drop(Engine::new().workers(workers).run(plan(), sink.boxed()).unwrap());
        });
    }
}

#[test]
fn what_waits_for_the_watermark_comes_out_at_the_end() {
    for workers in [1, 2, 5] {
        watched("the end of event time", move || {
            let sink = Remember::default();
            let mut plan = Plan::new("windows");
            let input = plan.source("input", [schema()]);
            plan.source("silent", [schema()]);
            let mixer = OperatorPlan::new("windows", 4, |partition| {
                Box::new(Mixer::new(Kind::EventTime, partition, vec![0]))
            })
            .input(input[0], COLUMNS, route_by_key::<UInt32Type>(0, 4))
            .output(schema())
            .output(schema());
            let ports = plan.operator(mixer);
            plan.sink("windows", [ports[1]]);
            let mut running = Engine::new().workers(workers).run(plan, sink.boxed()).unwrap();
            // Even values at the time 100, not divisible by 5: no row but the windows'.
            running.gateway(0).unwrap().push(chunk(&[(0, 100, 2), (1, 100, 4), (4, 100, 6)])).unwrap();
            running.join().unwrap();
            assert_eq!(sink.rows(0), [(0, 104, 8), (1, 104, 4)]);
        });
    }
}

#[test]
fn rows_that_no_one_reads_and_rows_that_go_nowhere_are_dropped() {
    for workers in [1, 2, 5] {
        watched("unread rows", move || {
            let (sink, other) = (Remember::default(), Remember::default());
            let mut plan = Plan::new("unread");
            let input = plan.source("input", [schema()]);
            // No one reads this at all, nor what the next one reads of it.
            let unread = plan.operator(operator("unread", input[0], |_| Box::new(Forward::default())));
            plan.operator(operator("unread, too", unread[0], |_| Box::new(Forward::default())));
            // Of this one's two ports only the first is read, and of its rows those with an even key.
            let mixer = OperatorPlan::new("mixer", 4, |partition| {
                Box::new(Mixer::new(Kind::EventTime, partition, vec![0]))
            })
            .input(input[0], COLUMNS, route_by_key::<UInt32Type>(0, 4))
            .output(schema())
            .output(schema());
            let ports = plan.operator(mixer);
            let even: Box<tidemill_engine::Route> = Box::new(|rows, destinations| {
                let rows = fixture::rows_of(rows);
                destinations.extend(rows.iter().map(|row| if row.0 % 2 == 0 { row.0 % 3 } else { OMIT }));
            });
            let last = OperatorPlan::new("even", 3, |_| Box::new(Forward::default()));
            let output = plan.operator(last.input(ports[0], COLUMNS, even).output(schema()));
            plan.sink("input", input);
            plan.sink("even", output);
            let log = MemoryCutLog::new(100_000);
            let engine = Engine::new().workers(workers).cycles(CyclePolicy::fixed(100)).cut_log(log.clone());
            let sinks: Vec<Box<dyn Sink>> = vec![Box::new(other.clone()), Box::new(sink.clone())];
            let mut running = engine.run(plan, sinks).unwrap();
            let gateway = running.gateway(0).unwrap();
            (0..200)
                .for_each(|number| gateway.push(chunk(&numbered(number * 50..number * 50 + 50))).unwrap());
            drop(gateway);
            running.join().unwrap();
            assert_eq!(other.rows(0), numbered(0..10_000));
            let rows = sink.rows(0);
            assert!(!rows.is_empty() && rows.iter().all(|row| row.0 % 2 == 0));
        });
    }
}

/// Fails if what it wrote in a cycle is still there in the next.
#[derive(Default)]
struct Unread {
    in_cycle: bool,
}

impl Operator for Unread {
    fn rows(&mut self, _input: usize, rows: Rows<'_>, output: &mut Output) -> Result<(), Cause> {
        if !self.in_cycle && (!output.port(0).is_empty() || !output.port(1).is_empty()) {
            return Err(Cause::bug("the rows of the last cycle are still here"));
        }
        self.in_cycle = true;
        (0..2).for_each(|port| output.port(port).push(rows.positions()[0], (1u32, 2i64, 3u64)));
        Ok(())
    }
    fn end_of_cycle(&mut self, _cut: &Cut, _output: &mut Output) -> Result<(), Cause> {
        self.in_cycle = false;
        Ok(())
    }
    fn snapshot(&self, _writer: &mut SnapshotWriter) {}
    fn restore(&mut self, _reader: &mut SnapshotReader<'_>) -> Result<(), Cause> {
        Ok(())
    }
}

#[test]
fn rows_of_unread_ports_do_not_pile_up() {
    for read in [None, Some(0), Some(1)] {
        watched("unread ports", move || {
            let mut plan = Plan::new("unread ports");
            let input = plan.source("input", [schema()]);
            let unread = OperatorPlan::new("unread", 1, |_| Box::new(Unread::default()))
                .input(input[0], COLUMNS, route_by_key::<UInt32Type>(0, 1))
                .output(schema())
                .output(schema());
            let ports = plan.operator(unread);
            plan.sink("output", [read.map_or(input[0], |port: usize| ports[port])]);
            let engine = Engine::new().cycles(CyclePolicy::fixed(10));
            let mut running = engine.run(plan, Remember::default().boxed()).unwrap();
            let gateway = running.gateway(0).unwrap();
            (0..10).for_each(|_| gateway.push(chunk(&numbered(0..10))).unwrap());
            drop(gateway);
            running.join().unwrap();
        });
    }
}
