//! Response times on a clock that is moved by hand.

use std::sync::Arc;
use std::time::Duration;

use crate::fixture::forward::plan;
use crate::fixture::sink::Remember;
use crate::fixture::{chunk, eventually, numbered, watched};
use tidemill_engine::{Chunk, CyclePolicy, Engine, Limits, ManualClock, Sink};

const MS: u64 = 1_000_000;

fn about(duration: Duration, ms: u64) -> bool {
    // Three digits is what a histogram keeps.
    duration.abs_diff(Duration::from_millis(ms)) <= Duration::from_micros(ms * 2)
}

#[test]
fn they_are_counted_from_arrival_and_from_the_cut_to_the_commit_by_all_sinks() {
    for workers in [1, 2, 5] {
        watched("response times", move || {
            let clock = Arc::new(ManualClock::default());
            let (quick, slow) = (Remember::default(), Remember::default());
            let mut plan = plan();
            let again = plan.sinks[0].inputs.clone();
            plan.sink("slow", again);
            slow.hold(true);
            let sinks: Vec<Box<dyn Sink>> = vec![Box::new(quick.clone()), Box::new(slow.clone())];
            let engine = Engine::new().workers(workers).cycles(CyclePolicy::fixed(10)).clock(clock.clone());
            let mut running = engine.run(plan, sinks).unwrap();
            let gateway = running.gateway(0).unwrap();

            // Four events at 0 ms, one that waited elsewhere, five at 30 ms: cut at 30 ms, committed at 100 ms.
            gateway.push(chunk(&numbered(0..4))).unwrap();
            clock.advance_ns(20 * MS);
            gateway.push(Chunk { arrived_ns: Some(5 * MS), ..chunk(&numbered(4..5)) }).unwrap();
            clock.advance_ns(10 * MS);
            gateway.push(chunk(&numbered(5..10))).unwrap();
            eventually("the quick sink's commit", || quick.committed() == 1);
            assert_eq!(running.status().per_event.count(), 0, "not committed by all");
            clock.advance_ns(70 * MS);
            slow.hold(false);
            eventually("the slow sink's commit", || running.status().per_event.count() == 10);
            let status = running.status();
            // 100 ms four times, 95 ms, 70 ms five times.
            assert!(about(status.per_event.max(), 100), "{:?}", status.per_event.max());
            assert!(about(status.per_event.quantile(0.5), 70));
            assert!(about(status.per_event.quantile(0.6), 95));
            assert!(about(status.per_event.quantile(0.61), 100));
            assert_eq!(status.per_cycle.count(), 1);
            assert!(about(status.per_cycle.max(), 70), "{:?}", status.per_cycle.max());
            assert_eq!(status.elapsed_ns, 100 * MS);

            // The end is a cycle without events: it counts for nothing, however long ago its chunk arrived.
            gateway
                .push(Chunk {
                    streams: vec![None],
                    events: 0,
                    watermark: 50,
                    arrived_ns: Some(0),
                    idle: false,
                })
                .unwrap();
            clock.advance_ns(500 * MS);
            drop(gateway);
            let summary = running.join().unwrap();
            assert_eq!((summary.per_event.count(), summary.per_cycle.count()), (10, 1));
            assert!(about(summary.per_event.max(), 100), "{:?}", summary.per_event.max());
        });
    }
}

#[test]
fn every_event_of_every_sink_is_counted_once() {
    watched("counts", || {
        for round in 0..40 {
            let mut plan = plan();
            let again = plan.sinks[0].inputs.clone();
            plan.sink("second", again);
            let sinks: Vec<Box<dyn Sink>> =
                vec![Box::new(Remember::default()), Box::new(Remember::default())];
            let limits = Limits { cycles_in_flight_max: 1 + round % 4, ..Limits::default() };
            let engine = Engine::new().workers(2).cycles(CyclePolicy::fixed(10)).limits(limits);
            let mut running = engine.run(plan, sinks).unwrap();
            let gateway = running.gateway(0).unwrap();
            (0..100).for_each(|_| gateway.push(chunk(&numbered(0..10))).unwrap());
            drop(gateway);
            let summary = running.join().unwrap();
            // The two sinks' last commits race: one of them must see both.
            assert_eq!((summary.per_event.count(), summary.per_cycle.count()), (1000, 100));
        }
    });
}
