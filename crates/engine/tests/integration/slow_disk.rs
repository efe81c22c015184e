//! A durable query on a slow disk, with a sink that is away: intake continues until the journal has reached its limit, then
//! the sender is held back; when the sink is back, nothing is lost.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use crate::fixture::forward::{Forward, plan_of};
use crate::fixture::numbers::{by_partition, expected};
use crate::fixture::slow_disk::SlowDisk;
use crate::fixture::world::{Sender, Transactions, World};
use crate::fixture::{eventually, watched};
use tidemill_engine::{
    Durability, DurableRun, DurableSource, Engine, FeedSettings, Journal, Limits, StreamSettings, SyncPolicy,
    inspect,
};
use tidemill_testing::fault_disk::FaultDisk;

const LAST: u64 = 3000;
const SEGMENT_BYTES: u64 = 16 << 10;
const JOURNAL_BYTES_MAX: u64 = 256 << 10;
/// The most bytes that a row of these tests has in the journal.
const RECORD_BYTES_MAX: u64 = 1024;

fn start(disk: &FaultDisk, world: &Arc<Mutex<World>>, sync: SyncPolicy) -> DurableRun {
    let settings = StreamSettings {
        segment_bytes: SEGMENT_BYTES,
        bytes_max: JOURNAL_BYTES_MAX,
        ..StreamSettings::default()
    };
    let source = DurableSource {
        source: Box::new(Sender::new(world, LAST)),
        feed: FeedSettings::default(),
        stream: settings,
        sync,
    };
    let durability = Durability { snapshot_every: Duration::from_millis(5), ..Durability::new("forward") };
    let medium = SlowDisk::new(Arc::new(disk.clone()), Duration::from_millis(2));
    let journal = Journal::open_on(Arc::new(medium), Path::new("/journal")).unwrap();
    let plan = plan_of(|_| Box::new(Forward::default()));
    let sinks: Vec<Box<dyn tidemill_engine::Sink>> = vec![Box::new(Transactions::new(world))];
    // A sink that is away does not stop the cycles at once.
    let limits = Limits { cycles_in_flight_max: 10_000, ..Limits::default() };
    Engine::new()
        .workers(2)
        .limits(limits)
        .run_durable(plan, sinks, vec![source], journal, &durability)
        .unwrap()
}

/// Waits until the journal is full and has all that was sent; then how much was.
fn when_held_back(disk: &FaultDisk, world: &Arc<Mutex<World>>) -> u64 {
    eventually("the journal is full", || {
        let listing = inspect::list_on(disk, Path::new("/journal")).unwrap();
        let stream = &listing.streams[0];
        stream.bytes >= JOURNAL_BYTES_MAX && stream.end == world.lock().sent
    });
    // Somebody whom nothing holds back would continue meanwhile.
    std::thread::sleep(Duration::from_millis(100));
    world.lock().sent
}

fn held_back_and_going_on(sync: SyncPolicy, restarted: bool) {
    let (disk, mut world) =
        (FaultDisk::new(), Arc::new(Mutex::new(World { held: true, ..World::default() })));
    let mut run = start(&disk, &world, sync);
    let sent = when_held_back(&disk, &world);
    assert!(sent > JOURNAL_BYTES_MAX / RECORD_BYTES_MAX, "{sent} requests are less than the journal takes");
    assert!(sent < LAST, "nobody held the sender back");
    let stream = inspect::list_on(&disk, Path::new("/journal")).unwrap().streams.remove(0);
    assert!(stream.bytes >= JOURNAL_BYTES_MAX, "{} bytes: there was room", stream.bytes);
    assert!(stream.bytes <= JOURNAL_BYTES_MAX + SEGMENT_BYTES, "{} bytes are over the limit", stream.bytes);
    {
        let world = world.lock();
        assert_eq!((world.committed, stream.end), (None, sent));
        assert!(world.acknowledged <= stream.end);
    }
    if restarted {
        run.running.abort();
        world.lock().held = false;
        drop((run.feeds, run.running.join(), run.maintenance));
        let seen = world.lock().seen();
        world = seen;
        run = start(&disk, &world, sync);
    }
    world.lock().held = false;
    run.running.join().unwrap();
    drop((run.feeds, run.maintenance));
    let world = world.lock();
    assert_eq!(world.acknowledged, LAST);
    assert_eq!(by_partition(world.lines.iter().map(String::as_str)), expected(LAST));
}

#[test]
fn intake_goes_on_until_the_limit_and_nothing_is_lost() {
    for sync in [SyncPolicy::AtOnce, SyncPolicy::Every(Duration::from_millis(10))] {
        watched("a slow disk", move || held_back_and_going_on(sync, false));
    }
}

#[test]
fn a_query_that_was_held_back_goes_on_after_a_restart() {
    watched("a slow disk", || held_back_and_going_on(SyncPolicy::AtOnce, true));
}

#[test]
fn what_a_sink_has_not_committed_is_made_again_though_snapshots_are_newer() {
    watched("a sink that is away", || {
        let (disk, world) = (FaultDisk::new(), Arc::new(Mutex::new(World::default())));
        let run = start(&disk, &world, SyncPolicy::AtOnce);
        eventually("some rows are committed", || world.lock().committed > Some(3));
        world.lock().held = true;
        let committed = world.lock().committed;
        eventually("a snapshot is newer", || {
            let listing = inspect::list_on(&disk, Path::new("/journal")).unwrap();
            listing.snapshots.last().copied() > committed.map(|cycle| cycle + 1)
        });
        // The sink is gone for good: what it does from here on, nobody sees.
        let seen = world.lock().seen();
        run.running.abort();
        world.lock().held = false;
        drop((run.feeds, run.running.join(), run.maintenance));

        let run = start(&disk, &seen, SyncPolicy::AtOnce);
        run.running.join().unwrap();
        drop((run.feeds, run.maintenance));
        let world = seen.lock();
        assert_eq!(by_partition(world.lines.iter().map(String::as_str)), expected(LAST));
    });
}
