//! The past of a query whose journal loses its beginning: what is gone is refused with the state from which a replay can
//! begin, and what is there is given again, cycle by cycle, also while the query runs.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use crate::fixture::forward::{Forward, plan_of};
use crate::fixture::world::{Sender, World};
use crate::fixture::{eventually, watched};
use tidemill_engine::arrow::array::RecordBatch;
use tidemill_engine::{
    Cause, CycleOutput, Durability, DurableRun, DurableSource, Engine, FeedSettings, Guarantee, Journal,
    Past, PastQuery, PastSource, PastStart, Sink, StreamSettings, SyncPolicy,
};

/// What the sink got in each cycle.
type Cycles = Arc<Mutex<BTreeMap<u64, Vec<RecordBatch>>>>;

struct Remembering(Cycles);

impl Sink for Remembering {
    fn guarantee(&self) -> Guarantee {
        Guarantee::ExactlyOnce
    }
    fn last_committed(&mut self) -> Result<Option<u64>, Cause> {
        Ok(self.0.lock().last_key_value().map(|(cycle, _)| *cycle))
    }
    fn prepare(&mut self, output: CycleOutput) -> Result<(), Cause> {
        let rows = output.streams.into_iter().flatten().filter(|batch| !batch.is_empty());
        let rows = rows.map(|batch| batch.rows).collect();
        self.0.lock().insert(output.cut.cycle, rows);
        Ok(())
    }
    fn commit(&mut self, _cycles: RangeInclusive<u64>) -> Result<(), Cause> {
        Ok(())
    }
}

fn durability(snapshot_every: Duration) -> Durability {
    Durability { snapshot_every, ..Durability::new("forward") }
}

fn start(
    folder: &Path,
    world: &Arc<Mutex<World>>,
    cycles: &Cycles,
    (last, snapshot_every): (u64, Duration),
) -> DurableRun {
    let plan = plan_of(|_| Box::new(Forward::default()));
    let source = DurableSource {
        source: Box::new(Sender::new(world, last).staying()),
        feed: FeedSettings::default(),
        stream: StreamSettings { segment_bytes: 1024, ..StreamSettings::default() },
        sync: SyncPolicy::AtOnce,
    };
    let sinks: Vec<Box<dyn Sink>> = vec![Box::new(Remembering(Arc::clone(cycles)))];
    let (journal, durability) = (Journal::open(folder).unwrap(), durability(snapshot_every));
    Engine::new().run_durable(plan, sinks, vec![source], journal, &durability).unwrap()
}

/// The cycle of the state with which a replay began, and what each cycle gave.
type Replayed = (Option<u64>, BTreeMap<u64, Vec<RecordBatch>>);

fn replay(folder: &Path, start: PastStart, workers: usize) -> Result<Replayed, Cause> {
    let plan = plan_of(|_| Box::new(Forward::default()));
    let schema = Arc::clone(&plan.sources[0].streams[0]);
    let source = PastSource {
        stream: plan.sources[0].name.clone(),
        settings: FeedSettings::default(),
        raw: Arc::clone(&schema),
        schema,
        columns: None,
    };
    let durability = durability(Duration::from_secs(1));
    let query = PastQuery { plan, sources: vec![source], durability, is_other: false, keeps_state: false };
    let mut run = Engine::new().workers(workers).run_past(&Past::open(folder)?, query, start, None)?;
    let mut cycles = BTreeMap::new();
    while let Some(mut cycle) = run.next_cycle()? {
        cycles.insert(cycle.cut.cycle, cycle.outputs.remove(0));
    }
    Ok((run.after(), cycles))
}

#[test]
fn what_is_gone_is_refused_and_the_rest_is_given_again() {
    watched("a replay of what is left", || {
        let folder = tempfile::tempdir().unwrap();
        let (world, cycles): (Arc<Mutex<World>>, Cycles) = Default::default();
        let streams = folder.path().join("streams");
        let first = || {
            let stream = std::fs::read_dir(&streams).unwrap().next().unwrap().unwrap().path();
            std::fs::read_dir(stream).unwrap().map(|entry| entry.unwrap().file_name()).min().unwrap()
        };
        let run = start(folder.path(), &world, &cycles, (100_000, Duration::from_millis(5)));
        let begins_with = first();
        eventually("rows are removed", || first() > begins_with);
        // Meanwhile rows are removed, so it may be refused; it is never wrong.
        let beside: Vec<_> =
            (0..5).filter_map(|_| replay(folder.path(), PastStart::Before(u64::MAX), 2).ok()).collect();
        assert!(!run.running.has_failed());
        run.feeds.iter().for_each(|feed| feed.stop());
        run.running.join().unwrap();
        drop((run.feeds, run.maintenance));
        let known = cycles.lock().clone();
        for (_, replayed) in beside {
            replayed
                .iter()
                .for_each(|(cycle, rows)| assert_eq!(known.get(cycle), Some(rows), "cycle {cycle}"));
        }

        // More cycles, behind the last state.
        let before = known.len();
        let run = start(folder.path(), &world, &cycles, (200_000, Duration::from_secs(3600)));
        eventually("more cycles are there", || cycles.lock().len() > before + 10);
        run.running.abort();
        let _ = run.running.join();
        drop((run.feeds, run.maintenance));
        let known = cycles.lock().clone();

        let refused =
            replay(folder.path(), PastStart::Beginning, 1).expect_err("its beginning is gone").to_string();
        assert!(refused.contains("before position") && refused.contains("are gone"), "{refused}");
        let state = refused.split("--from-snapshot=").nth(1).and_then(|rest| rest.split(' ').next());
        let state: u64 = state.and_then(|state| state.parse().ok()).expect("it names a state");
        for workers in [1, 2, 3] {
            let (after, replayed) = replay(folder.path(), PastStart::After(state), workers).unwrap();
            assert_eq!(after, Some(state));
            assert!(replayed.len() > 5, "{} cycles", replayed.len());
            // The sink may not have had the last ones when the run was broken off.
            let (last, _) = known.last_key_value().unwrap();
            let rest: BTreeMap<_, _> =
                known.range(state + 1..).map(|(cycle, rows)| (*cycle, rows.clone())).collect();
            let replayed: BTreeMap<_, _> = replayed.into_iter().filter(|(cycle, _)| cycle <= last).collect();
            assert!(replayed == rest, "{workers} workers");
        }
    });
}
