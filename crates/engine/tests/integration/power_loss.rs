//! A durable query on a disk that loses power, again and again: what was acknowledged or committed before is there, once.
//!
//! The disk, a slow one sometimes, is in memory; at a loss it keeps what was synced, and of what was only written some, torn, in any order.
//! `TIDEMILL_POWER_LOSSES` says how many queries lose power; a failure prints the seed of its query
//! (`TIDEMILL_POWER_LOSS_FIRST`). The threads' timing is not part of the seed.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use crate::fixture::forward::{Forward, plan_of};
use crate::fixture::numbers::{by_partition, expected};
use crate::fixture::slow_disk::SlowDisk;
use crate::fixture::watched;
use crate::fixture::world::{Sender, Transactions, World};
use tidemill_engine::{
    Cause, CyclePolicy, Durability, DurableRun, DurableSource, Engine, FeedSettings, Journal, StreamSettings,
    SyncPolicy,
};
use tidemill_journal::Medium;
use tidemill_testing::fault_disk::FaultDisk;
use tidemill_testing::random::Random;

fn start(
    random: &mut Random,
    disk: &FaultDisk,
    world: &Arc<Mutex<World>>,
    last: u64,
) -> Result<DurableRun, Cause> {
    let sender = Sender::new(world, last);
    let sync = [SyncPolicy::AtOnce, SyncPolicy::Every(Duration::from_micros(200))][random.below(2) as usize];
    let stream = StreamSettings { segment_bytes: 1 << (12 + random.below(5)), ..StreamSettings::default() };
    let source = DurableSource { source: Box::new(sender), feed: FeedSettings::default(), stream, sync };
    let sink = Transactions::new(world);
    let durability =
        Durability { snapshot_every: Duration::from_millis(random.below(8)), ..Durability::new("forward") };
    let policy = CyclePolicy { events_max: 1 + random.below(30) as u32, ..CyclePolicy::default() };
    let engine = Engine::new().workers(1 + random.below(2) as usize).cycles(policy);
    let medium: Arc<dyn Medium> = if random.is_once_in(4) {
        Arc::new(SlowDisk::new(Arc::new(disk.clone()), Duration::from_micros(random.below(3000))))
    } else {
        Arc::new(disk.clone())
    };
    let journal = Journal::open_on(medium, Path::new("/journal"))?;
    let plan = plan_of(|_| Box::new(Forward::default()));
    engine.run_durable(plan, vec![Box::new(sink)], vec![source], journal, &durability)
}

/// One query over several losses of power.
fn powerless(seed: u64) {
    let mut random = Random::new(seed);
    let mut torn = tidemill_testing::random::Random::new(seed);
    let mut disk = FaultDisk::new();
    let mut world: Arc<Mutex<World>> = Arc::default();
    let last = 200 + random.below(800);
    for _ in 0..1 + random.below(4) {
        let run =
            start(&mut random, &disk, &world, last).unwrap_or_else(|cause| panic!("seed {seed}: {cause}"));
        std::thread::sleep(Duration::from_micros(random.below(15_000)));
        // What the world has seen until now must be on the disk; what comes after is of a time that never was. The world is locked
        // until the disk is read: otherwise a commit could come in between, behind which the journal lets go what this world needs.
        let seen = {
            let now = world.lock();
            disk = disk.power_loss(&mut torn);
            now.seen()
        };
        run.running.abort();
        drop(run);
        world = seen;
    }
    let run = start(&mut random, &disk, &world, last).unwrap_or_else(|cause| panic!("seed {seed}: {cause}"));
    run.running.join().unwrap_or_else(|error| panic!("seed {seed}: {error}"));
    drop((run.feeds, run.maintenance));
    let world = world.lock();
    assert_eq!(world.acknowledged, last, "seed {seed}");
    assert_eq!(by_partition(world.lines.iter().map(String::as_str)), expected(last), "seed {seed}");
}

#[test]
fn what_was_acknowledged_or_committed_before_a_loss_of_power_is_there_once() {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let queries = number("TIDEMILL_POWER_LOSSES").unwrap_or(40);
    let first = number("TIDEMILL_POWER_LOSS_FIRST").unwrap_or(1);
    for seed in first..first + queries {
        watched("a query without power", move || powerless(seed));
    }
}
