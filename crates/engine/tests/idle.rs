//! Several engines in one process, and what they cost while nothing happens.

#[path = "integration/fixture/mod.rs"]
mod fixture;

use std::time::Duration;

use fixture::forward::plan;
use fixture::processes::{living, processes, token};
use fixture::sink::Remember;
use fixture::{chunk, numbered, watched};
use tidemill_engine::{CyclePolicy, Engine, Failure, FlowError};

/// The processor time that this process has used, in hundredths of a second; `None` where it is not told.
fn used() -> Option<u64> {
    used_by("self")
}

/// The processor time of a process.
fn used_by(process: &str) -> Option<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    // Fields 14 and 15 of the file: user and system time; the first two are before the bracket.
    Some(fields.get(11)?.parse::<u64>().ok()? + fields.get(12)?.parse::<u64>().ok()?)
}

// One test (beside the one that does nothing), so that no other one's work counts.
#[test]
fn engines_live_side_by_side_and_an_idle_one_parks() {
    let sinks: Vec<Remember> = (0..4).map(|_| Remember::default()).collect();
    watched("several engines", move || {
        let mut running: Vec<_> = sinks
            .iter()
            .enumerate()
            .map(|(index, sink)| Engine::new().workers(1 + index % 3).run(plan(), sink.boxed()).unwrap())
            .collect();
        let gateways: Vec<_> = running.iter_mut().map(|running| running.gateway(0).unwrap()).collect();
        for number in 0..20 {
            for (index, gateway) in gateways.iter().enumerate() {
                gateway.push(chunk(&numbered(number * 10..number * 10 + 10 + index as u32))).unwrap();
            }
        }
        running[3].abort();
        let ends: Vec<_> = gateways
            .into_iter()
            .zip(running)
            .map(|(gateway, running)| {
                drop(gateway);
                running.join()
            })
            .collect();
        assert!(ends[..3].iter().all(Result::is_ok));
        assert!(matches!(ends[3], Err(FlowError::Failed(Failure::Aborted))));
        for (index, sink) in sinks[..3].iter().enumerate() {
            assert_eq!(sink.rows(0).len(), 20 * (10 + index));
        }
    });

    let waits = CyclePolicy { wait_max: None, ..CyclePolicy::default() };
    for (cycles, spin_ms) in [(CyclePolicy::default(), 0), (CyclePolicy::fixed(10), 20), (waits, 20)] {
        watched("an idle engine", move || {
            // One that looks out for work before it parks does park in the end.
            let sink = Remember { direct: spin_ms > 0, ..Remember::default() };
            let engine = Engine::new().workers(2).spin(Duration::from_millis(spin_ms)).cycles(cycles);
            let mut running = engine.run(plan(), sink.boxed()).unwrap();
            let gateway = running.gateway(0).unwrap();
            gateway.push(chunk(&numbered(0..10))).unwrap();
            fixture::eventually("the rows", || sink.committed() > 0);
            let Some(before) = used() else { return println!("skipped: no /proc/self/stat here") };
            std::thread::sleep(Duration::from_secs(1));
            let used = used().unwrap() - before;
            assert!(used < 20, "an idle engine used {used} % of a core");
            drop(gateway);
            running.join().unwrap();
        });
    }

    // Nor do several processes do anything, before the first rows or after them.
    watched("idle processes", || {
        let (token, sink) = (token(), Remember::default());
        let engine = Engine::new().workers(2).processes(processes(3, "forward", &token));
        let mut running = engine.run(plan(), sink.boxed()).unwrap();
        let gateway = running.gateway(0).unwrap();
        running.wait_until_ready().unwrap();
        let all = || {
            let others = living(&token).into_iter().filter_map(|pid| used_by(&pid.to_string()));
            used().into_iter().chain(others).collect::<Vec<_>>()
        };
        for rows in [0..10, 10..500] {
            let before = all();
            assert_eq!(before.len(), 3);
            std::thread::sleep(Duration::from_secs(1));
            for (process, (before, after)) in before.into_iter().zip(all()).enumerate() {
                assert!(after - before < 20, "process {process} used {} % of a core", after - before);
            }
            gateway.push(chunk(&numbered(rows.clone()))).unwrap();
            fixture::eventually("the rows", || sink.rows(0).len() == rows.end as usize);
        }
        drop(gateway);
        running.join().unwrap();
    });

    // Held back by a sink, it parks as well.
    watched("a stalled engine", || {
        let sink = Remember::default();
        sink.hold(true);
        let mut running =
            Engine::new().workers(2).cycles(CyclePolicy::fixed(1)).run(plan(), sink.boxed()).unwrap();
        let gateway = running.gateway(0).unwrap();
        gateway.push(chunk(&numbered(0..100))).unwrap();
        fixture::eventually("a stall", || running.status().get(tidemill_engine::Counter::Stalls) > 0);
        if let Some(before) = used() {
            std::thread::sleep(Duration::from_secs(1));
            let used = used().unwrap() - before;
            assert!(used < 20, "a stalled engine used {used} % of a core");
        }
        sink.hold(false);
        drop(gateway);
        running.join().unwrap();
    });
}
