//! The commit protocol of durable queries, simulated: thousands of schedules, each a random order of steps with faults
//! and crashes, on one thread, all derived from one number. Production code makes the decisions: feeds, guard,
//! maintenance, recovery and the journal, on a disk that loses what was not synced. Only the dataflow between them is a
//! different one.
//!
//! `TIDEMILL_SIMULATION_SEED=n` runs one schedule, as a failure says; `TIDEMILL_SIMULATION_SCHEDULES=n` that number of schedules.

mod flow;
mod ledger;
mod oracle;
mod process;
mod schedule;
mod steps;
mod times;
mod world;

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicU64, Ordering};

use schedule::{Counts, Schedule};

/// For every change.
const SCHEDULES: u64 = 2000;

/// What the schedules must come by, or they show nothing.
const SEEN: [&str; 27] = [
    "commits that waited for rows",
    "crashes of a start",
    "crashes while rows are left out",
    "cycles made again",
    "rows left out",
    "rows that cannot be left out",
    "states removed for a row",
    "kills",
    "losses of power",
    "refused numbers",
    "refused, for rows are lost that nobody synced",
    "schedules that came to their end",
    "sinks that came later",
    "sinks that came later, and had some cycles",
    "sinks that came later, and had what is lost",
    "snapshots",
    "snapshots without room",
    "starts from a snapshot",
    "starts that forget cuts",
    "starts without the last cuts",
    "steps with rows removed",
    "stopped by a failure",
    "stopped by a full disk",
    "stops",
    "stops with all answered",
    "time that went on without rows",
    "writes that wait for room",
];

fn number(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name}={text} is no number")))
}

/// Runs a schedule. If it fails, it runs again, which gives the same, and its steps are printed.
fn simulate(seed: u64) -> Counts {
    let mut schedule = Schedule::new(seed, false);
    if catch_unwind(AssertUnwindSafe(|| schedule.run())).is_ok() {
        return schedule.counts;
    }
    let mut schedule = Schedule::new(seed, true);
    let failed = catch_unwind(AssertUnwindSafe(|| schedule.run())).is_err();
    let steps = schedule.trace.unwrap_or_default();
    let again = if failed { "" } else { " (but not when it was run again)" };
    panic!(
        "schedule {seed} fails{again}; TIDEMILL_SIMULATION_SEED={seed} repeats it. Its steps:\n{}",
        steps.join("\n")
    );
}

#[test]
fn whatever_fails_and_whenever_nothing_is_lost_and_nothing_comes_twice() {
    if let Some(seed) = number("TIDEMILL_SIMULATION_SEED") {
        println!("{:?}", simulate(seed));
        return;
    }
    let schedules = number("TIDEMILL_SIMULATION_SCHEDULES").unwrap_or(SCHEDULES);
    let counts = simulate_all(schedules);
    println!("{schedules} schedules: {counts:#?}");
    for what in SEEN {
        assert!(schedules < SCHEDULES || counts.contains_key(what), "no schedule comes by '{what}'");
    }
}

/// Runs the schedules from 1 on, some on each core.
fn simulate_all(schedules: u64) -> Counts {
    let next = AtomicU64::new(1);
    let some = || {
        let mut counts = Counts::new();
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed > schedules {
                return counts;
            }
            let of_one = catch_unwind(|| simulate(seed)).unwrap_or_else(|panic| {
                next.store(schedules + 1, Ordering::Relaxed);
                resume_unwind(panic)
            });
            add(&mut counts, of_one);
        }
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(some)).collect();
        let mut counts = Counts::new();
        for thread in threads {
            add(&mut counts, thread.join().unwrap_or_else(|panic| resume_unwind(panic)));
        }
        counts
    })
}

fn add(counts: &mut Counts, others: Counts) {
    others.into_iter().for_each(|(what, count)| *counts.entry(what).or_default() += count);
}
