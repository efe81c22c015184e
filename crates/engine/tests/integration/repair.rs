//! A sink that is behind every state of its journal: the start is refused and names the way out, which brings the sink to
//! the oldest state, says so, and is all that it takes.

use std::ops::RangeInclusive;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use crate::fixture::forward::{Forward, plan_of};
use crate::fixture::world::{Sender, World};
use crate::fixture::{eventually, watched};
use tidemill_engine::{
    Cause, CycleOutput, Durability, DurableRun, DurableSource, Engine, FeedSettings, Guarantee, Journal,
    Repair, Sink, StreamSettings, SyncPolicy, find_repair,
};

/// What a sink outside knows: its last cycle, and the ranges that it was given.
#[derive(Default)]
struct Outside {
    committed: Option<u64>,
    ranges: Vec<RangeInclusive<u64>>,
}

struct Remembering(Arc<Mutex<Outside>>);

impl Sink for Remembering {
    fn guarantee(&self) -> Guarantee {
        Guarantee::ExactlyOnce
    }
    fn last_committed(&mut self) -> Result<Option<u64>, Cause> {
        Ok(self.0.lock().committed)
    }
    fn prepare(&mut self, _output: CycleOutput) -> Result<(), Cause> {
        Ok(())
    }
    fn commit(&mut self, cycles: RangeInclusive<u64>) -> Result<(), Cause> {
        let mut outside = self.0.lock();
        outside.committed = Some(*cycles.end());
        outside.ranges.push(cycles);
        Ok(())
    }
}

fn source(world: &Arc<Mutex<World>>, last: u64) -> DurableSource {
    DurableSource {
        source: Box::new(Sender::new(world, last).staying()),
        feed: FeedSettings::default(),
        stream: StreamSettings { segment_bytes: 1024, ..StreamSettings::default() },
        sync: SyncPolicy::AtOnce,
    }
}

fn durability() -> Durability {
    Durability { snapshot_every: Duration::from_millis(5), ..Durability::new("forward") }
}

fn start(
    folder: &Path,
    world: &Arc<Mutex<World>>,
    outside: &Arc<Mutex<Outside>>,
    last: u64,
) -> Result<DurableRun, Cause> {
    let plan = plan_of(|_| Box::new(Forward::default()));
    let sinks: Vec<Box<dyn Sink>> = vec![Box::new(Remembering(Arc::clone(outside)))];
    let sources = vec![source(world, last)];
    Engine::new().run_durable(plan, sinks, sources, Journal::open(folder)?, &durability())
}

fn stop(run: DurableRun) {
    run.feeds.iter().for_each(|feed| feed.stop());
    run.running.join().unwrap();
    drop((run.feeds, run.maintenance));
}

fn repair(folder: &Path, outside: &Arc<Mutex<Outside>>) -> Result<Option<Repair>, Cause> {
    let plan = plan_of(|_| Box::new(Forward::default()));
    let mut sinks: Vec<Box<dyn Sink>> = vec![Box::new(Remembering(Arc::clone(outside)))];
    let journal = Journal::open(folder)?;
    let found = find_repair(&plan, &mut sinks, &[source(&Arc::default(), 0)], &journal, &durability())?;
    found.iter().try_for_each(|repair| repair.carry_out(&journal))?;
    Ok(found)
}

#[test]
fn a_sink_behind_every_state_is_brought_to_the_oldest() {
    watched("a repair", || {
        let folder = tempfile::tempdir().unwrap();
        let (world, outside): (Arc<Mutex<World>>, Arc<Mutex<Outside>>) = Default::default();
        let segments = folder.path().join("streams");
        let first = || {
            let stream = std::fs::read_dir(&segments).unwrap().next().unwrap().unwrap().path();
            std::fs::read_dir(stream).unwrap().map(|entry| entry.unwrap().file_name()).min().unwrap()
        };
        let run = start(folder.path(), &world, &outside, 100_000).unwrap();
        let begins_with = first();
        eventually("rows are removed", || first() > begins_with);
        stop(run);
        assert_eq!(repair(folder.path(), &outside).unwrap(), None, "it can go on");

        // As if a backup of the sink had been brought back.
        let last = outside.lock().committed.replace(0).unwrap();
        let refused =
            start(folder.path(), &world, &outside, 100_000).err().expect("it cannot go on").to_string();
        assert!(refused.contains("journal repair") && refused.contains("The state after cycle"), "{refused}");
        let found = repair(folder.path(), &outside).unwrap().expect("something is to be done");
        let behind: Vec<_> = found.behind.iter().map(|(_, cycle)| *cycle).collect();
        assert_eq!(behind, [Some(0)]);
        assert!(found.snapshot <= last && refused.starts_with(&found.reason), "{found:?}");
        assert_eq!(repair(folder.path(), &outside).unwrap(), None, "it has helped");

        outside.lock().ranges.clear();
        let run = start(folder.path(), &world, &outside, 100_000).unwrap();
        eventually("it goes on", || run.running.has_failed() || !outside.lock().ranges.is_empty());
        stop(run);
        let first = *outside.lock().ranges[0].start();
        assert_eq!(first, found.snapshot + 1, "what comes behind the state is given to the sink");

        // The note has served its turn and is gone: a sink that forgets all is not taken for one that has it.
        stop(start(folder.path(), &world, &outside, 100_000).unwrap());
        outside.lock().committed = None;
        assert!(start(folder.path(), &world, &outside, 100_000).is_err());
    });
}
