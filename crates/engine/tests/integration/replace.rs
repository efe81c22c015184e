//! A query that replaces the one of a journal that has lost its first rows: it is refused with the position, or begins with the
//! first row that is left, and has each row from there on once.

use std::ops::RangeInclusive;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use crate::fixture::forward::{plan, plan_without_operators};
use crate::fixture::numbers::{by_partition, expected};
use crate::fixture::world::{Sender, Transactions, World};
use crate::fixture::{eventually, rows_of, watched};
use tidemill_engine::{
    Cause, CycleOutput, Durability, DurableRun, DurableSource, Engine, FeedSettings, Guarantee, Journal,
    Plan, ReplaceFrom, Replacement, Sink, StreamSettings, SyncPolicy, find_replacement, inspect,
};

/// What the sink of the new query has: the numbers of its rows, and its last cycle.
#[derive(Default)]
struct Outside {
    numbers: Vec<u64>,
    committed: Option<u64>,
}

struct Remembering {
    outside: Arc<Mutex<Outside>>,
    pending: Vec<u64>,
}

impl Sink for Remembering {
    fn guarantee(&self) -> Guarantee {
        Guarantee::ExactlyOnce
    }
    fn last_committed(&mut self) -> Result<Option<u64>, Cause> {
        Ok(self.outside.lock().committed)
    }
    fn prepare(&mut self, output: CycleOutput) -> Result<(), Cause> {
        for batch in output.streams.into_iter().flatten() {
            self.pending.extend(rows_of(&batch.rows).iter().map(|(_, _, number)| number));
        }
        Ok(())
    }
    fn commit(&mut self, cycles: RangeInclusive<u64>) -> Result<(), Cause> {
        let mut outside = self.outside.lock();
        outside.numbers.append(&mut self.pending);
        outside.committed = Some(*cycles.end());
        Ok(())
    }
}

fn run(
    (plan, query): (Plan, &str),
    sink: Box<dyn Sink>,
    world: &Arc<Mutex<World>>,
    last: u64,
    journal: Journal,
) -> Result<DurableRun, Cause> {
    let source = DurableSource {
        source: Box::new(Sender::new(world, last).staying()),
        feed: FeedSettings::default(),
        stream: StreamSettings { segment_bytes: 1024, ..StreamSettings::default() },
        sync: SyncPolicy::AtOnce,
    };
    Engine::new().run_durable(plan, vec![sink], vec![source], journal, &durability(query))
}

fn durability(query: &str) -> Durability {
    Durability { snapshot_every: Duration::from_millis(5), ..Durability::new(query) }
}

fn stop(run: DurableRun) {
    run.feeds.iter().for_each(|feed| feed.stop());
    run.running.join().unwrap();
    drop((run.feeds, run.maintenance));
}

fn replacing(folder: &Path, from: ReplaceFrom) -> Result<(Journal, Option<Replacement>), Cause> {
    find_replacement(Journal::open(folder)?, &plan_without_operators(), &[None], &durability("new"), from)
}

fn stream(folder: &Path) -> (u64, u64) {
    let stream = inspect::list(folder).unwrap().streams.remove(0);
    (stream.first, stream.end)
}

#[test]
fn a_journal_without_its_first_rows_is_replaced_from_the_first_that_is_left() {
    watched("a replacement", || {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        let (world, outside): (Arc<Mutex<World>>, Arc<Mutex<Outside>>) = Default::default();
        let of_old = || Box::new(Transactions::new(&world)) as Box<dyn Sink>;
        let of_new =
            || Box::new(Remembering { outside: Arc::clone(&outside), pending: Vec::new() }) as Box<dyn Sink>;
        let old = run((plan(), "old"), of_old(), &world, 100_000, Journal::open(folder).unwrap()).unwrap();
        // A segment may be removed while it is listed.
        let has_lost_rows = || inspect::list(folder).is_ok_and(|listing| listing.streams[0].first > 0);
        eventually("rows are removed", || old.running.has_failed() || has_lost_rows());
        stop(old);

        let (first, end) = stream(folder);
        let (more, still_more) = (end + 100, end + 200);
        let refused = replacing(folder, ReplaceFrom::First).err().expect("rows are gone").to_string();
        assert!(refused.contains(&format!("begins at position {first}; the {first} rows")), "{refused}");
        // The old query is as it was.
        let old = run((plan(), "old"), of_old(), &world, end, Journal::open(folder).unwrap()).unwrap();
        eventually("it has all", || old.running.has_failed() || world.lock().lines.len() as u64 == end);
        stop(old);
        let lines = world.lock().lines.clone();
        assert_eq!(by_partition(lines.iter().map(String::as_str)), expected(end));

        let (journal, found) = replacing(folder, ReplaceFrom::Kept).unwrap();
        let (first, end) = stream(folder);
        let streams = vec![("input".to_owned(), first, end)];
        let new = (Vec::new(), Vec::new());
        let replacement = Replacement { streams, new: new.0, unread: new.1, is_continued: false };
        assert_eq!(found, Some(replacement));
        let new = run((plan_without_operators(), "new"), of_new(), &world, more, journal).unwrap();
        let takeover = new.maintenance.takeover().expect("it replaces a query");
        eventually("it takes over", || new.running.has_failed() || takeover.is_done());
        eventually("it has all", || outside.lock().numbers.len() as u64 == more - first);
        stop(new);
        // Position 0 is number 1.
        assert_eq!(outside.lock().numbers, (first + 1..=more).collect::<Vec<_>>());

        // From now on the folder is that of the new query, and continues as any.
        let old = run((plan(), "old"), of_old(), &world, more, Journal::open(folder).unwrap());
        assert!(old.err().expect("it was replaced").to_string().contains("belongs to a different query"));
        assert!(replacing(folder, ReplaceFrom::First).unwrap().1.is_none(), "it is the same query");
        let new = run(
            (plan_without_operators(), "new"),
            of_new(),
            &world,
            still_more,
            Journal::open(folder).unwrap(),
        )
        .unwrap();
        eventually("it goes on", || {
            new.running.has_failed() || outside.lock().numbers.last() == Some(&still_more)
        });
        stop(new);
        assert_eq!(outside.lock().numbers, (first + 1..=still_more).collect::<Vec<_>>());
        assert_eq!(inspect::verify(folder).unwrap().findings, []);
    });
}
