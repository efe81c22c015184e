//! A durable query on a disk that loses power, again and again: what was acknowledged or committed before is there, once.
//!
//! The disk is in memory; at a loss it keeps what was synced, and of what was only written some, torn, in any order.
//! `TIDEMILL_POWER_LOSSES` says how many queries lose power; a failure prints the seed of its query
//! (`TIDEMILL_POWER_LOSS_FIRST`). The threads' timing is not part of the seed.

#[path = "../../journal/tests/journal/support/fault_disk.rs"]
#[allow(dead_code)]
mod fault_disk;
mod fixture;

use std::ops::RangeInclusive;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use fault_disk::FaultDisk;
use fixture::forward::{Forward, plan_of};
use fixture::numbers::{by_partition, expected, row};
use fixture::{Random, rows_of, schema, watched};
use tidemill_engine::arrow::schema::SchemaRef;
use tidemill_engine::{
    Cause, CycleOutput, CyclePolicy, Durability, DurableRun, DurableSource, Engine, FeedSettings, Guarantee,
    Journal, Polled, Request, Sink, Source, StreamSettings, SyncPolicy,
};

/// What the world outside knows: the sender which requests were acknowledged, the sink what was committed.
#[derive(Default)]
struct World {
    /// All numbers up to this one are acknowledged.
    acknowledged: u64,
    lines: Vec<String>,
    committed: Option<u64>,
}

/// Sends each number as a request, from the first that is not acknowledged.
struct Sender {
    world: Arc<Mutex<World>>,
    first: u64,
    next: u64,
    last: u64,
}

impl Source for Sender {
    fn schema(&self) -> SchemaRef {
        schema()
    }

    fn poll(&mut self, _wait: Duration) -> Result<Polled, Cause> {
        if self.next > self.last {
            return Ok(Polled::Ended);
        }
        self.next += 1;
        if self.next.is_multiple_of(15) {
            // Others have a moment.
            std::thread::sleep(Duration::from_micros(20));
        }
        Ok(Polled::Rows(row(self.next - 1)))
    }

    fn request(&mut self) -> Option<Request> {
        Some(Request { client: "sender".into(), sequence: self.next - 1 })
    }

    fn acknowledge(&mut self, rows: u64) {
        self.world.lock().unwrap().acknowledged = self.first + rows - 1;
    }

    fn is_finite(&self) -> bool {
        true
    }
}

/// Keeps rows and the number of the last cycle together.
struct Transactions {
    world: Arc<Mutex<World>>,
    pending: Vec<String>,
}

impl Sink for Transactions {
    fn guarantee(&self) -> Guarantee {
        Guarantee::ExactlyOnce
    }

    fn last_committed(&mut self) -> Result<Option<u64>, Cause> {
        Ok(self.world.lock().unwrap().committed)
    }

    fn prepare(&mut self, output: CycleOutput) -> Result<(), Cause> {
        for batch in output.streams.into_iter().flatten() {
            self.pending.extend(rows_of(&batch.rows).iter().map(|(key, _, value)| format!("{key} {value}")));
        }
        Ok(())
    }

    fn commit(&mut self, cycles: RangeInclusive<u64>) -> Result<(), Cause> {
        let mut world = self.world.lock().unwrap();
        let next = world.committed.map_or(0, |cycle| cycle + 1);
        assert_eq!(*cycles.start(), next, "cycles are committed once, in order");
        world.lines.append(&mut self.pending);
        world.committed = Some(*cycles.end());
        Ok(())
    }
}

fn start(
    random: &mut Random,
    disk: &FaultDisk,
    world: &Arc<Mutex<World>>,
    last: u64,
) -> Result<DurableRun, Cause> {
    let acknowledged = world.lock().unwrap().acknowledged;
    let first = acknowledged + 1;
    let sender = Sender { world: Arc::clone(world), first, next: first, last };
    let sync = [SyncPolicy::AtOnce, SyncPolicy::Every(Duration::from_micros(200))][random.below(2) as usize];
    let stream = StreamSettings { segment_bytes: 1 << (12 + random.below(5)), ..StreamSettings::default() };
    let source = DurableSource { source: Box::new(sender), feed: FeedSettings::default(), stream, sync };
    let sink = Transactions { world: Arc::clone(world), pending: Vec::new() };
    let durability =
        Durability { snapshot_every: Duration::from_millis(random.below(8)), ..Durability::new("forward") };
    let policy = CyclePolicy { events_max: 1 + random.below(30) as u32, ..CyclePolicy::default() };
    let engine = Engine::new().workers(1 + random.below(2) as usize).cycles(policy);
    let journal = Journal::open_on(Arc::new(disk.clone()), Path::new("/journal"))?;
    let plan = plan_of(|_| Box::new(Forward::default()));
    engine.run_durable(plan, vec![Box::new(sink)], vec![source], journal, &durability)
}

/// One query over several losses of power.
fn powerless(seed: u64) {
    let mut random = Random(seed);
    let mut torn = fault_disk::Random(seed);
    let mut disk = FaultDisk::new();
    let mut world: Arc<Mutex<World>> = Arc::default();
    let last = 200 + random.below(800);
    for _ in 0..1 + random.below(4) {
        let run =
            start(&mut random, &disk, &world, last).unwrap_or_else(|cause| panic!("seed {seed}: {cause}"));
        std::thread::sleep(Duration::from_micros(random.below(15_000)));
        // What the world has seen until now must be on the disk; what comes after is of a time that never was.
        let seen = {
            let world = world.lock().unwrap();
            World { acknowledged: world.acknowledged, lines: world.lines.clone(), committed: world.committed }
        };
        disk = disk.power_loss(&mut torn);
        run.running.abort();
        drop(run);
        world = Arc::new(Mutex::new(seen));
    }
    let run = start(&mut random, &disk, &world, last).unwrap_or_else(|cause| panic!("seed {seed}: {cause}"));
    run.running.join().unwrap_or_else(|error| panic!("seed {seed}: {error}"));
    drop((run.feeds, run.keeper));
    let world = world.lock().unwrap();
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
