//! Nodes that write a replicated log and commit it to a sink, while nodes crash, pause and lose disks, and the network cuts,
//! delays, loses, doubles and reorders what they send. Production code makes the decisions; here they are carried out on one
//! thread, and everything is derived from one number.
//!
//! `TIDEMILL_SIMULATION_SEED=n` runs one schedule, as a failure says; `TIDEMILL_SIMULATION_SCHEDULES=n` that number of schedules.

mod ledger;
mod message;
mod node;
mod rules;
mod sink;
mod world;

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use rules::Rule;
use world::{Counts, World};

/// For every change.
const SCHEDULES: u64 = 2000;

/// How many schedules may pass until one finds that a rule is left out.
const SCHEDULES_UNTIL_FOUND: u64 = 5000;

/// What the schedules must come by, or they show nothing.
const SEEN: [&str; 26] = [
    "appends refused",
    "changes refused",
    "crashes",
    "disks lost",
    "epochs opened",
    "gaps refused",
    "messages into a cut",
    "messages lost",
    "messages that come twice",
    "one-way cuts",
    "outages of the coordinator",
    "partitions",
    "pauses",
    "proposals that came too late",
    "records behind an end removed",
    "refused by the sink",
    "rows acknowledged",
    "schedules that came to their end",
    "seals",
    "seals given up",
    "seals without a reason",
    "tails copied",
    "two crashes at once",
    "waits for enough nodes",
    "writers deposed",
    "writers that stall",
];

fn number(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name}={text} is not a number")))
}

fn fails(seed: u64, broken: Option<Rule>, is_traced: bool) -> (bool, World) {
    let mut world = World::new(seed, broken, is_traced);
    let has_failed = catch_unwind(AssertUnwindSafe(|| world.run())).is_err();
    (has_failed, world)
}

/// Runs a schedule. If it fails, it runs again, which gives the same, and its steps are printed.
fn simulate(seed: u64) -> Counts {
    let (has_failed, world) = fails(seed, None, false);
    if !has_failed {
        return world.counts;
    }
    let (has_failed, world) = fails(seed, None, true);
    let again = if has_failed { "" } else { " (but not when it was run again)" };
    panic!(
        "schedule {seed} fails{again}; TIDEMILL_SIMULATION_SEED={seed} repeats it. Its steps:\n{}",
        world.trace.unwrap_or_default().join("\n")
    );
}

#[test]
fn whatever_fails_no_acknowledged_row_is_lost_and_one_leader_commits() {
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

/// The simulation can fail: each rule, left out, is missed by some schedule.
#[test]
fn a_rule_that_is_left_out_is_found() {
    let next = AtomicUsize::new(0);
    let some = || {
        let rules = || Rule::ALL.get(next.fetch_add(1, Ordering::Relaxed));
        std::iter::from_fn(rules).filter(|rule| found(**rule).is_none()).collect::<Vec<_>>()
    };
    let missed: Vec<&Rule> = on_each_core(some).into_iter().flatten().collect();
    assert!(missed.is_empty(), "no schedule finds that these rules are left out: {missed:?}");
}

fn found(rule: Rule) -> Option<u64> {
    let found = (1..=SCHEDULES_UNTIL_FOUND).find(|seed| fails(*seed, Some(rule), false).0);
    println!("{rule:?}: found by schedule {found:?}");
    found
}

fn on_each_core<T: Send>(run: impl Fn() -> T + Sync) -> Vec<T> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(&run)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap_or_else(|panic| resume_unwind(panic))).collect()
    })
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
            of_one.into_iter().for_each(|(what, count)| *counts.entry(what).or_default() += count);
        }
    };
    let mut counts = Counts::new();
    for (what, count) in on_each_core(some).into_iter().flatten() {
        *counts.entry(what).or_default() += count;
    }
    counts
}
