//! Cuts: when cycles close, what the log sees, and how chunks are divided.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use crate::fixture::forward::{plan, plan_without_operators};
use crate::fixture::sink::Remember;
use crate::fixture::{batch, chunk, eventually, numbered, schema, watched};
use tidemill_engine::{
    Cause, Chunk, Counter, Cut, CutLog, CyclePolicy, Engine, Failure, FlowError, Limits, ManualClock,
    MemoryCutLog, Plan, Running,
};
use tidemill_testing::random::Random;

/// Several sources, whose rows all go to one sink.
fn plan_of_sources(sources: usize) -> Plan {
    let mut plan = Plan::new("sources");
    let names = (0..sources).map(|source| format!("source {source}"));
    let streams = names.flat_map(|name| plan.source(&name, [schema()])).collect::<Vec<_>>();
    plan.sink("output", streams);
    plan
}

/// Runs chunks through and gives the cuts.
fn cuts_of(chunks: Vec<Chunk>, workers: usize, cycles: CyclePolicy) -> Vec<Cut> {
    watched("cuts", move || {
        let log = MemoryCutLog::new(100_000);
        let engine = Engine::new().workers(workers).cycles(cycles).cut_log(log.clone());
        let mut running = engine.run(plan(), Remember::default().boxed()).unwrap();
        let gateway = running.gateway(0).unwrap();
        chunks.into_iter().for_each(|chunk| gateway.push(chunk).unwrap());
        drop(gateway);
        running.join().unwrap();
        log.cuts()
    })
}

#[test]
fn cycles_of_fixed_size_have_exactly_that_size() {
    for (events, size) in [(0, 10), (1, 10), (10, 10), (11, 10), (995, 100), (1000, 100), (5, 1)] {
        for chunk_size in [1, 7, 10, 2000] {
            let rows = numbered(0..events);
            let chunks: Vec<Chunk> = rows.chunks(chunk_size).map(chunk).collect();
            let cuts = cuts_of(chunks, 2, CyclePolicy::fixed(size));
            let mut positions: Vec<u64> = cuts.iter().map(|cut| cut.positions[0]).collect();
            let full: Vec<u64> =
                (1..).map(|n| n * u64::from(size)).take_while(|n| *n <= u64::from(events)).collect();
            // The last cycle has the rest, which may be nothing.
            assert_eq!(positions.pop(), Some(u64::from(events)));
            let rest =
                if u64::from(events) % u64::from(size) == 0 && positions.len() < full.len() { 1 } else { 0 };
            assert_eq!(positions, full[..full.len() - rest], "{events} events, chunks of {chunk_size}");
            assert!(cuts.iter().enumerate().all(|(index, cut)| cut.cycle == index as u64));
            assert_eq!(cuts.iter().filter(|cut| cut.last).count(), 1);
            assert!(cuts.last().unwrap().last);
        }
    }
}

#[test]
fn a_cut_within_a_chunk_does_not_move_the_watermark() {
    let cuts = cuts_of(vec![chunk(&numbered(0..25)), chunk(&numbered(25..30))], 1, CyclePolicy::fixed(10));
    let watermarks: Vec<i64> = cuts.iter().map(|cut| cut.watermarks[0]).collect();
    assert_eq!(watermarks[..3], [i64::MIN, i64::MIN, 29]);
    // At the end everything that waits for the watermark comes out.
    assert_eq!(cuts.last().unwrap().watermark(), i64::MAX);
}

#[test]
fn a_cycle_closes_when_its_oldest_event_has_waited() {
    watched("waiting", || {
        let sink = Remember::default();
        let wait_max = Some(Duration::from_millis(5));
        let cycles = CyclePolicy { events_max: 1000, wait_max, close_when_idle: false };
        let mut running = Engine::new().workers(2).cycles(cycles).run(plan(), sink.boxed()).unwrap();
        let gateway = running.gateway(0).unwrap();
        for number in 0..3 {
            gateway.push(chunk(&numbered(number..number + 1))).unwrap();
            eventually("commit after waiting", || sink.committed() == u64::from(number) + 1);
        }
        assert_eq!(running.status().get(Counter::CutsByWait), 3);
        assert_eq!(running.status().get(Counter::CutsByIdle), 0);
    });
}

#[test]
fn periodic_cycles_close_at_multiples_of_the_wait_since_the_start() {
    watched("periodic cycles", || {
        let (sink, log, clock) =
            (Remember::default(), MemoryCutLog::new(100), Arc::new(ManualClock::default()));
        let ms = 1_000_000;
        clock.advance_ns(5 * ms);
        let wait_max = Some(Duration::from_millis(10));
        let cycles = CyclePolicy { events_max: 1000, wait_max, close_when_idle: false };
        let engine = Engine::new().cycles(cycles).periodic().clock(clock.clone()).cut_log(log.clone());
        let mut running = engine.run(plan(), sink.boxed()).unwrap();
        running.wait_until_ready().unwrap();
        let gateway = running.gateway(0).unwrap();
        // The start is at 5 ms. Nothing is closed at 15 and 25 ms, for nothing waits.
        let mut now = 5;
        for (number, (pushed, closed)) in [(8, 15), (31, 35), (35, 45), (64, 65)].into_iter().enumerate() {
            clock.advance_ns((pushed - now) * ms);
            gateway.push(chunk(&numbered(number as u32..number as u32 + 1))).unwrap();
            clock.advance_ns((closed - pushed) * ms);
            eventually("a cycle closes", || sink.committed() == number as u64 + 1);
            now = closed;
        }
        let closed: Vec<u64> = log.cuts().iter().map(|cut| cut.closed_at_ns / ms).collect();
        assert_eq!(closed, [15, 35, 45, 65]);
        assert_eq!(running.status().get(Counter::CutsByWait), 4);
    });
}

#[test]
fn waiting_for_ever_is_not_an_overflow() {
    let cycles = CyclePolicy { events_max: 10, wait_max: Some(Duration::MAX), close_when_idle: false };
    assert_eq!(cuts_of(vec![chunk(&numbered(0..25))], 1, cycles).len(), 3);
}

#[test]
fn an_idle_engine_closes_a_cycle_at_once() {
    watched("idleness", || {
        let sink = Remember::default();
        let cycles = CyclePolicy { events_max: 1000, wait_max: None, close_when_idle: true };
        let mut running = Engine::new().workers(2).cycles(cycles).run(plan(), sink.boxed()).unwrap();
        let gateway = running.gateway(0).unwrap();
        for number in 0..50 {
            gateway.push(chunk(&numbered(number..number + 1))).unwrap();
            eventually("commit when idle", || sink.committed() == u64::from(number) + 1);
        }
        // Nothing but a watermark is something, too.
        gateway
            .push(Chunk { streams: vec![None], events: 0, watermark: 99, arrived_ns: None, idle: false })
            .unwrap();
        eventually("commit of a watermark", || sink.committed() == 51);
        assert_eq!(sink.given()[50].cut.watermarks, [99]);
        assert_eq!(running.status().get(Counter::CutsByIdle), 51);
    });
}

/// A log that asserts that the sinks know nothing of a cycle that it has not seen.
struct Before {
    sink: Remember,
    seen: Arc<Mutex<Vec<Cut>>>,
}

impl CutLog for Before {
    fn append(&mut self, cut: &Cut) -> Result<(), Cause> {
        std::thread::yield_now();
        let prepared = self.sink.read(|memory| memory.prepared.len()) as u64;
        if prepared > cut.cycle {
            return Err(Cause::bug(format!("{prepared} cycles were processed before cut {}", cut.cycle)));
        }
        self.seen.lock().push(cut.clone());
        Ok(())
    }
}

#[test]
fn the_log_sees_each_cut_before_its_cycle_is_processed_and_positions_add_up() {
    watched("several gateways", || {
        let mut random = Random::new(7);
        for workers in [1, 2, 5] {
            let (sink, seen) = (Remember::default(), Arc::default());
            let log = Before { sink: sink.clone(), seen: Arc::clone(&seen) };
            let cycles = CyclePolicy { events_max: 50, ..CyclePolicy::default() };
            let mut running = Engine::new()
                .workers(workers)
                .cycles(cycles)
                .cut_log(log)
                .run(plan_of_sources(3), sink.boxed())
                .unwrap();
            let amounts: Vec<u32> = (0..3).map(|_| random.below(3000) as u32).collect();
            std::thread::scope(|scope| {
                for (source, amount) in amounts.iter().enumerate() {
                    let (gateway, sizes) = (running.gateway(source).unwrap(), 1 + random.below(90) as usize);
                    scope.spawn(move || {
                        numbered(0..*amount)
                            .chunks(sizes)
                            .for_each(|rows| gateway.push(chunk(rows)).unwrap());
                    });
                }
            });
            running.join().unwrap();
            let cuts = seen.lock().clone();
            assert_eq!(
                cuts.iter().map(|cut| cut.cycle).collect::<Vec<_>>(),
                (0..cuts.len() as u64).collect::<Vec<_>>()
            );
            let mut before = vec![0; 3];
            for (cut, given) in cuts.iter().zip(sink.given()) {
                let events = cut.positions.iter().zip(&before).map(|(now, before)| now - before);
                let rows: Vec<u64> = given.streams.iter().map(|stream| stream.len() as u64).collect();
                assert_eq!(events.collect::<Vec<_>>(), rows);
                assert!(rows.iter().sum::<u64>() <= 50);
                before.clone_from(&cut.positions);
            }
            assert_eq!(before, amounts.iter().map(|amount| u64::from(*amount)).collect::<Vec<_>>());
            for (source, amount) in amounts.iter().enumerate() {
                assert_eq!(sink.rows(source), numbered(0..*amount), "in order and whole");
            }
        }
    });
}

#[test]
fn a_busy_gateway_does_not_starve_another() {
    watched("a busy gateway", || {
        let sink = Remember::default();
        let mut plan = Plan::new("two");
        let mut streams = plan.source("busy", [schema()]);
        streams.extend(plan.source("calm", [schema()]));
        plan.sink("output", streams);
        // Ten cycles for each chunk of the busy one, so that taking turns by cycles would always favour it.
        let limits = Limits { cycles_in_flight_max: 1, ..Limits::default() };
        let engine = Engine::new().cycles(CyclePolicy::fixed(10)).limits(limits);
        sink.hold(true);
        let mut running = engine.run(plan, sink.boxed()).unwrap();
        let (busy, calm) = (running.gateway(0).unwrap(), running.gateway(1).unwrap());
        for _ in 0..30 {
            busy.push(chunk(&numbered(0..100))).unwrap();
        }
        calm.push(chunk(&numbered(0..5))).unwrap();
        sink.hold(false);
        eventually("all cycles", || sink.committed() >= 300);
        let first = sink.given().iter().position(|given| !given.streams[1].is_empty()).unwrap();
        assert!(first <= 20, "the calm gateway waited for {first} cycles");
        drop((busy, calm));
        running.join().unwrap();
    });
}

#[test]
fn busy_gateways_share_the_room_of_cycles() {
    for (sources, size) in [(2, 10), (3, 10), (3, 2)] {
        watched("busy gateways", move || {
            let sink = Remember::default();
            sink.hold(true);
            let limits = Limits { cycles_in_flight_max: 1, ..Limits::default() };
            let engine = Engine::new().cycles(CyclePolicy::fixed(size)).limits(limits);
            let mut running = engine.run(plan_of_sources(sources), sink.boxed()).unwrap();
            for source in 0..sources {
                running.gateway(source).unwrap().push(chunk(&numbered(0..100))).unwrap();
            }
            sink.hold(false);
            running.join().unwrap();
            // The first one may have been closed before all had come.
            let shared = &sink.given()[1..16];
            let rows = |source: usize| shared.iter().map(|given| given.streams[source].len()).sum();
            let rows: Vec<usize> = (0..sources).map(rows).collect();
            let part = size as usize / sources;
            assert!(
                shared.iter().all(|given| given.streams.iter().all(|rows| rows.len() >= part)),
                "each has its part"
            );
            let [least, most] = [rows.iter().min(), rows.iter().max()].map(Option::unwrap);
            assert!(most - least <= size as usize, "{rows:?} rows in cycles of {size}");
        });
    }
}

/// Runs cycles of 3 events while the first one is held until everything has been sent; gives the cuts.
fn held_until(sources: usize, send: impl Fn(&mut Running) + Send + 'static) -> Vec<Cut> {
    watched("a held cycle", move || {
        let (sink, log) = (Remember::default(), MemoryCutLog::new(100));
        sink.hold(true);
        let limits = Limits { cycles_in_flight_max: 1, ..Limits::default() };
        let engine = Engine::new().cycles(CyclePolicy::fixed(3)).limits(limits).cut_log(log.clone());
        let mut running = engine.run(plan_of_sources(sources), sink.boxed()).unwrap();
        send(&mut running);
        sink.hold(false);
        running.join().unwrap();
        log.cuts()
    })
}

fn watermark(watermark: i64) -> Chunk {
    Chunk { streams: vec![None], events: 0, watermark, arrived_ns: None, idle: true }
}

#[test]
fn a_watermark_behind_a_full_cycle_is_of_the_next_one_however_early_it_comes() {
    for round in 0..60 {
        let cuts = held_until(1, move |running| {
            let gateway = running.gateway(0).unwrap();
            let events = |events| Chunk { watermark: 0, ..chunk(&numbered(events)) };
            let behind = [events(3..6), watermark(1000), watermark(2000), events(6..13), watermark(3000)];
            gateway.push(events(0..3)).unwrap();
            for chunk in behind {
                // Some are taken over one by one, others together.
                std::thread::sleep(Duration::from_micros(50 * (round % 4)));
                gateway.push(chunk).unwrap();
            }
        });
        let seen: Vec<_> =
            cuts.iter().map(|cut| (cut.positions[0], cut.watermarks[0], cut.idle[0])).collect();
        let last = (13, i64::MAX, false);
        assert_eq!(seen, [(3, 0, false), (6, 0, false), (9, 2000, false), (12, 2000, false), last]);
    }
}

#[test]
fn a_watermark_is_not_put_off_by_a_source_that_fills_all_cycles() {
    let cuts = held_until(2, |running| {
        let (busy, quiet) = (running.gateway(0).unwrap(), running.gateway(1).unwrap());
        busy.push(chunk(&numbered(0..30))).unwrap();
        quiet.push(watermark(1000)).unwrap();
        eventually("a stall", || running.status().get(Counter::Stalls) > 0);
    });
    // By then it may have ended.
    assert!(cuts[2].watermarks[1] >= 1000 && !cuts[2].last, "{cuts:?}");
}

/// Fails, or panics, at a cycle.
struct Failing {
    at: u64,
    panics: bool,
}

impl CutLog for Failing {
    fn append(&mut self, cut: &Cut) -> Result<(), Cause> {
        assert!(!(self.panics && cut.cycle == self.at), "the log panics on purpose");
        if cut.cycle == self.at { Err(Cause::operation("the disk is full")) } else { Ok(()) }
    }
}

#[test]
fn a_failing_log_stops_the_query_before_the_cycle_is_processed() {
    for (workers, panics) in [(1, false), (2, false), (5, false), (1, true), (2, true)] {
        watched("a failing log", move || {
            let sink = Remember::default();
            let engine = Engine::new().workers(workers).cycles(CyclePolicy::fixed(10));
            let mut running = engine.cut_log(Failing { at: 3, panics }).run(plan(), sink.boxed()).unwrap();
            let gateway = running.gateway(0).unwrap();
            while gateway.push(chunk(&numbered(0..10))).is_ok() {}
            let Err(FlowError::Failed(Failure::Engine { part, cause })) = running.join() else { panic!() };
            assert_eq!(part, "cut log");
            let message = if panics { "the log panics on purpose" } else { "the disk is full" };
            assert!(cause.to_string().contains(message), "{cause}");
            assert!(sink.given().len() <= 3);
        });
    }
}

#[test]
fn a_chunk_larger_than_a_cycle_is_divided_in_all_its_streams() {
    let mut random = Random::new(3);
    for _ in 0..20 {
        let (mut plan, sink) = (Plan::new("divided"), Remember::default());
        let streams = plan.source("input", [schema(), schema()]);
        plan.sink("output", streams);
        let size = 1 + random.below(40) as u32;
        let mut running =
            Engine::new().workers(2).cycles(CyclePolicy::fixed(size)).run(plan, sink.boxed()).unwrap();
        let gateway = running.gateway(0).unwrap();
        let (mut first, mut second) = (Vec::new(), Vec::new());
        for (position, row) in numbered(0..333).into_iter().enumerate() {
            // An event may be in no stream, in both, and more than once in one.
            (0..random.below(3)).for_each(|_| first.push((position as u32, row)));
            (0..random.below(2)).for_each(|_| second.push((position as u32, row)));
        }
        let streams = vec![Some(batch(&first)), Some(batch(&second))];
        gateway.push(Chunk { streams, events: 333, watermark: 0, arrived_ns: None, idle: false }).unwrap();
        drop(gateway);
        running.join().unwrap();
        for (input, sent) in [first, second].iter().enumerate() {
            let given = sink.given();
            let places = given
                .iter()
                .flat_map(|given| given.streams[input].iter().map(move |placed| (given.cut.cycle, *placed)));
            let got: Vec<_> =
                places.map(|(cycle, (position, _, row))| (cycle as u32 * size + position, row)).collect();
            assert_eq!(&got, sent);
        }
    }
}

#[test]
fn watermarks_alone_do_not_pile_up_while_no_cycle_is_closed() {
    watched("watermarks", || {
        let (sink, log) = (Remember::default(), MemoryCutLog::new(10));
        let engine = Engine::new().cycles(CyclePolicy::fixed(10)).cut_log(log.clone());
        let mut running = engine.run(plan_without_operators(), sink.boxed()).unwrap();
        let gateway = running.gateway(0).unwrap();
        gateway.push(chunk(&numbered(0..9))).unwrap();
        for watermark in 0..10_000 {
            gateway
                .push(Chunk { streams: vec![None], events: 0, watermark, arrived_ns: None, idle: false })
                .unwrap();
        }
        gateway.push(chunk(&numbered(9..10))).unwrap();
        eventually("the full cycle", || sink.committed() == 1);
        drop(gateway);
        assert_eq!(running.join().unwrap().per_event.count(), 10);
        // They joined the chunk before: its end is where they hold.
        assert_eq!(log.cuts()[0].watermarks, [9999]);
    });
}

#[test]
fn a_cycle_may_have_more_chunks_than_sixteen_bits_count() {
    watched("many chunks", || {
        for workers in [1, 2] {
            let sink = Remember::default();
            let cycles = CyclePolicy::fixed(70_000);
            let mut running =
                Engine::new().workers(workers).cycles(cycles).run(plan(), sink.boxed()).unwrap();
            let gateway = running.gateway(0).unwrap();
            let rows = numbered(0..70_000);
            rows.iter().for_each(|row| gateway.push(chunk(&[*row])).unwrap());
            drop(gateway);
            running.join().unwrap();
            // Seven partitions, each of which adds the number of rows that it saw before.
            let expected = rows.into_iter().map(|(key, time, value)| (key, time, value + u64::from(key) / 7));
            assert_eq!(sink.rows(0), expected.collect::<Vec<_>>());
        }
    });
}
