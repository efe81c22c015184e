//! A durable query that is stopped normally keeps its last state: the next start has nothing to recompute. A stop that
//! comes while logged cuts are being replayed waits for them, and is a normal stop, too.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use crate::fixture::forward::{Forward, plan_of};
use crate::fixture::numbers::{by_partition, expected};
use crate::fixture::world::{Sender, Transactions, World};
use crate::fixture::{eventually, watched};
use tidemill_engine::{
    Counter, Durability, DurableRun, DurableSource, Engine, FeedSettings, Journal, Recovered, Sink,
    StreamSettings, SyncPolicy,
};

const LAST: u64 = 3000;

fn start(folder: &Path, world: &Arc<Mutex<World>>, last: u64) -> DurableRun {
    let source = DurableSource {
        source: Box::new(Sender::new(world, last).staying()),
        feed: FeedSettings::default(),
        stream: StreamSettings::default(),
        sync: SyncPolicy::AtOnce,
    };
    // No snapshot but that of the end.
    let durability = Durability { snapshot_every: Duration::from_secs(3600), ..Durability::new("forward") };
    let sinks: Vec<Box<dyn Sink>> = vec![Box::new(Transactions::new(world))];
    let plan = plan_of(|_| Box::new(Forward::default()));
    let journal = Journal::open(folder).unwrap();
    Engine::new().workers(2).run_durable(plan, sinks, vec![source], journal, &durability).unwrap()
}

/// Lets it come to its end in order.
fn stop(run: DurableRun) -> tidemill_engine::Status {
    run.feeds.iter().for_each(|feed| feed.stop());
    eventually("the feeds end", || run.feeds.iter().all(|feed| feed.status().ended));
    let status = run.running.join().unwrap();
    drop((run.feeds, run.maintenance));
    status
}

fn lines(world: &Arc<Mutex<World>>) -> usize {
    world.lock().lines.len()
}

#[test]
fn a_stop_leaves_nothing_to_be_made_again() {
    watched("stops in order", || {
        let folder = tempfile::tempdir().unwrap();
        let world: Arc<Mutex<World>> = Arc::default();
        for last in [LAST / 2, LAST] {
            let run = start(folder.path(), &world, last);
            let Recovered { snapshot, cycles, events, .. } = run.recovered.clone();
            assert_eq!((snapshot.is_some(), cycles, events), (last == LAST, 0, 0));
            eventually("all is answered", || lines(&world) == last as usize);
            let status = stop(run);
            assert_eq!(status.get(Counter::RowsOut), LAST / 2, "rows of this run");
        }
        let lines = world.lock().lines.clone();
        assert_eq!(by_partition(lines.iter().map(String::as_str)), expected(LAST));
    });
}

#[test]
fn a_stop_while_cuts_are_made_again_is_in_order() {
    watched("a stop during a replay", || {
        let folder = tempfile::tempdir().unwrap();
        let world: Arc<Mutex<World>> = Arc::default();
        let run = start(folder.path(), &world, LAST);
        eventually("all is answered", || lines(&world) == LAST as usize);
        run.running.abort();
        drop((run.feeds, run.running.join(), run.maintenance));

        let run = start(folder.path(), &world, LAST);
        let again = run.recovered.clone();
        assert!(again.cycles > 0 && again.events == LAST, "{again:?}");
        let status = stop(run);
        // The sink has them all, and they arrived in another run.
        assert_eq!((status.get(Counter::RowsOut), status.per_event.count()), (0, 0));

        let run = start(folder.path(), &world, LAST);
        assert_eq!((run.recovered.cycles, run.recovered.events), (0, 0));
        stop(run);
        let lines = world.lock().lines.clone();
        assert_eq!(by_partition(lines.iter().map(String::as_str)), expected(LAST));
    });
}
