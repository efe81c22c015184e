//! A durable query whose clock leaps, and has gone back when the query is started again: the rows are the same, and
//! nothing waits for times to come.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;

use crate::fixture::forward::{Forward, plan_of};
use crate::fixture::numbers::{by_partition, expected};
use crate::fixture::world::{Sender, Transactions, World};
use crate::fixture::{eventually, watched};
use tidemill_engine::{
    Clock, CyclePolicy, Durability, DurableRun, DurableSource, Engine, FeedSettings, Journal, StreamSettings,
    SyncPolicy,
};
use tidemill_testing::fault_disk::FaultDisk;
use tidemill_testing::random::Random;

const LAST: u64 = 600;
const HOUR_NS: u64 = 3_600_000_000_000;
const YEAR_NS: u64 = 8766 * HOUR_NS;

/// A clock that advances by a microsecond whenever it is read, and sometimes by an hour.
struct LeapingClock {
    now_ns: AtomicU64,
    leaps: bool,
}

impl Clock for LeapingClock {
    fn now_ns(&self) -> u64 {
        let before = self.now_ns.load(Ordering::SeqCst);
        let by_ns = if self.leaps && before.is_multiple_of(97) { HOUR_NS + 1 } else { 1000 };
        self.now_ns.fetch_add(by_ns, Ordering::SeqCst)
    }
}

fn start(
    disk: &FaultDisk,
    sender: Sender,
    world: &Arc<Mutex<World>>,
    clock: LeapingClock,
    wait: Duration,
) -> DurableRun {
    let source = DurableSource {
        source: Box::new(sender),
        feed: FeedSettings::default(),
        stream: StreamSettings { segment_bytes: 1 << 16, ..StreamSettings::default() },
        sync: SyncPolicy::AtOnce,
    };
    let durability = Durability { snapshot_every: Duration::from_millis(5), ..Durability::new("forward") };
    let journal = Journal::open_on(Arc::new(disk.clone()), Path::new("/journal")).unwrap();
    // Only time closes a cycle that is not full.
    let cycles = CyclePolicy { events_max: 40, wait_max: Some(wait), close_when_idle: false };
    let engine = Engine::new().workers(2).cycles(cycles).clock(Arc::new(clock));
    let sinks: Vec<Box<dyn tidemill_engine::Sink>> = vec![Box::new(Transactions::new(world))];
    let plan = plan_of(|_| Box::new(Forward::default()));
    engine.run_durable(plan, sinks, vec![source], journal, &durability).unwrap()
}

fn leaping(seed: u64) {
    let mut random = Random::new(seed);
    let (disk, mut world) = (FaultDisk::new(), Arc::new(Mutex::new(World::default())));
    for run in 0..4 {
        let now_ns = [50 * YEAR_NS, YEAR_NS, 120 * YEAR_NS, 1][random.below(4) as usize];
        let clock = LeapingClock { now_ns: AtomicU64::new(now_ns), leaps: random.is_once_in(2) };
        let started = start(&disk, Sender::new(&world, LAST), &world, clock, Duration::from_micros(5));
        if run == 3 {
            started.running.join().unwrap();
            break;
        }
        std::thread::sleep(Duration::from_micros(random.below(8000)));
        started.running.abort();
        drop((started.feeds, started.running.join(), started.maintenance));
        let seen = world.lock().seen();
        world = seen;
    }
    let world = world.lock();
    assert_eq!(by_partition(world.lines.iter().map(String::as_str)), expected(LAST), "seed {seed}");
}

#[test]
fn rows_do_not_depend_on_the_clock() {
    for seed in 1..=10 {
        watched("a leaping clock", move || leaping(seed));
    }
}

fn still(now_ns: u64) -> LeapingClock {
    LeapingClock { now_ns: AtomicU64::new(now_ns), leaps: false }
}

#[test]
fn events_that_arrived_later_than_now_do_not_wait_until_then() {
    watched("events of the future", || {
        let (disk, world) = (FaultDisk::new(), Arc::new(Mutex::new(World::default())));
        let few = 30;
        let sender = || Sender::new(&world, few).staying();
        let run = start(&disk, sender(), &world, still(50 * YEAR_NS), Duration::from_secs(3600));
        eventually("acknowledged", || world.lock().acknowledged == few);
        run.running.abort();
        drop((run.feeds, run.running.join(), run.maintenance));
        assert_eq!(world.lock().committed, None);

        let run = start(&disk, sender(), &world, still(YEAR_NS), Duration::from_millis(1));
        eventually("committed", || world.lock().lines.len() as u64 == few);
        drop((run.feeds, run.running.abort(), run.running.join(), run.maintenance));
    });
}
