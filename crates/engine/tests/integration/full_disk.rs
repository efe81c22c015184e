//! A durable query whose disk is full, a small file system in memory: it says so and holds its sender back; when there is
//! room, it continues, after a restart too, and nothing is lost. Skipped where mounting is not permitted.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use crate::fixture::forward::{Forward, plan_of};
use crate::fixture::numbers::{by_partition, expected};
use crate::fixture::world::{Sender, Transactions, World};
use crate::fixture::{eventually, watched};
use tidemill_engine::{
    Cause, Durability, DurableRun, DurableSource, Engine, FeedSettings, Journal, Sink, StreamSettings,
    SyncPolicy,
};
use tracing::field::Field;
use tracing::span::{Attributes, Id, Record as SpanRecord};
use tracing::{Event, Level, Metadata, Subscriber};

/// The messages of warnings that all threads have logged.
#[derive(Clone, Default)]
struct Messages(Arc<Mutex<String>>);

impl Messages {
    fn of_this_process() -> Messages {
        let messages = Messages::default();
        tracing::subscriber::set_global_default(messages.clone()).expect("the only subscriber");
        messages
    }

    fn has(&self, text: &str) -> bool {
        self.0.lock().contains(text)
    }
}

impl Subscriber for Messages {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= Level::WARN
    }
    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }
    fn record(&self, _: &Id, _: &SpanRecord<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn event(&self, event: &Event<'_>) {
        event.record(&mut |_: &Field, value: &dyn std::fmt::Debug| {
            *self.0.lock() += &format!("{value:?}\n");
        });
    }
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

/// One test at a time: while one starts `mount`, the new process holds the locks of the other one's journal for a moment.
static TURN: Mutex<()> = Mutex::new(());

const LAST: u64 = 3000;
/// The log of cuts reserves 8 MiB of it.
const DISK_BYTES: u64 = 12 << 20;

/// A small file system in memory, until it is dropped.
struct SmallDisk(tempfile::TempDir);

impl SmallDisk {
    /// `None`: this user may not mount one.
    fn mount() -> Option<SmallDisk> {
        let folder = tempfile::tempdir().unwrap();
        let size = format!("size={DISK_BYTES}");
        let mounted =
            Command::new("mount").args(["-t", "tmpfs", "-o", &size, "none"]).arg(folder.path()).output();
        match mounted {
            Ok(output) if output.status.success() => Some(SmallDisk(folder)),
            Ok(output) => {
                println!("skipped: no tmpfs can be mounted: {}", String::from_utf8_lossy(&output.stderr));
                None
            }
            Err(error) => {
                println!("skipped: there is no mount: {error}");
                None
            }
        }
    }

    fn journal(&self) -> PathBuf {
        self.0.path().join("journal")
    }

    fn filler(&self) -> PathBuf {
        self.0.path().join("filler")
    }

    /// Leaves only so much room.
    fn fill(&self, left_bytes: u64) {
        let mut filler = File::create(self.filler()).unwrap();
        while filler.write(&[7; 4096]).is_ok_and(|count| count == 4096) {}
        let bytes = filler.metadata().unwrap().len();
        filler.set_len(bytes.saturating_sub(left_bytes)).unwrap();
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.0.path()).output();
    }
}

fn start(folder: &Path, world: &Arc<Mutex<World>>, last: u64) -> Result<DurableRun, Cause> {
    let source = DurableSource {
        source: Box::new(Sender::new(world, last)),
        feed: FeedSettings::default(),
        stream: StreamSettings { segment_bytes: 64 << 10, ..StreamSettings::default() },
        sync: SyncPolicy::AtOnce,
    };
    let durability = Durability { snapshot_every: Duration::from_millis(10), ..Durability::new("forward") };
    let sinks: Vec<Box<dyn Sink>> = vec![Box::new(Transactions::new(world))];
    let plan = plan_of(|_| Box::new(Forward::default()));
    Engine::new().workers(2).run_durable(plan, sinks, vec![source], Journal::open(folder)?, &durability)
}

/// Runs on a disk that is full until it is held back.
fn held_back(disk: &SmallDisk, world: &Arc<Mutex<World>>) -> DurableRun {
    // Committed rows would be let go, which makes room.
    world.lock().held = true;
    let run = start(&disk.journal(), world, LAST).unwrap();
    eventually("told of the full disk", || {
        let faults = run.feeds[0].status().faults;
        faults.notices.newest().iter().any(|notice| notice.contains("free space there"))
    });
    assert_eq!(run.feeds[0].status().faults.count, 0, "no row is bad because of it");
    let world = world.lock();
    assert!(world.acknowledged < LAST && world.sent < LAST, "{} were acknowledged", world.acknowledged);
    run
}

fn finish(run: DurableRun, world: &Arc<Mutex<World>>) {
    world.lock().held = false;
    run.running.join().unwrap();
    drop((run.feeds, run.maintenance));
    let world = world.lock();
    assert_eq!(world.acknowledged, LAST);
    assert_eq!(by_partition(world.lines.iter().map(String::as_str)), expected(LAST));
}

fn begun(world: &Arc<Mutex<World>>) -> Option<SmallDisk> {
    let disk = SmallDisk::mount()?;
    start(&disk.journal(), world, 100).unwrap().running.join().unwrap();
    disk.fill(200 << 10);
    Some(disk)
}

#[test]
fn it_goes_on_when_there_is_room() {
    let _turn = TURN.lock();
    watched("a full disk", || {
        let log = Messages::of_this_process();
        let world: Arc<Mutex<World>> = Arc::default();
        let Some(disk) = begun(&world) else { return };
        let run = held_back(&disk, &world);
        eventually("logged at its beginning", || log.has("the journal's disk has no space"));
        fs::remove_file(disk.filler()).unwrap();
        eventually("logged at its end", || log.has("the journal's disk has space again"));
        finish(run, &world);
    });
}

#[test]
fn it_goes_on_after_a_restart() {
    let _turn = TURN.lock();
    watched("a full disk", || {
        let mut world: Arc<Mutex<World>> = Arc::default();
        let Some(disk) = begun(&world) else { return };
        for is_still_full in [true, false] {
            let run = held_back(&disk, &world);
            run.running.abort();
            world.lock().held = false;
            drop((run.feeds, run.running.join(), run.maintenance));
            let seen = world.lock().seen();
            world = seen;
            if !is_still_full {
                fs::remove_file(disk.filler()).unwrap();
            }
        }
        finish(start(&disk.journal(), &world, LAST).unwrap(), &world);
    });
}
