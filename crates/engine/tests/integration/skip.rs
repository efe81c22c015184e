//! Rows that a query cannot get past: the failure says which rows were at hand, and once they are left out all other rows
//! have the results that they would have without them, whatever interrupts the query from then on.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use crate::fixture::forward::{Forward, plan_of};
use crate::fixture::numbers::{by_partition, row};
use crate::fixture::world::{Sender, Transactions, World};
use crate::fixture::{eventually, rows_of, watched};
use tidemill_engine::arrow::array::types::UInt64Type;
use tidemill_engine::{
    Cause, Cut, CyclePolicy, Durability, DurableRun, DurableSource, Engine, FeedSettings, FlowError, Journal,
    Operator, Output, Plan, Positions, Rows, Sink, Skip, SnapshotReader, SnapshotWriter, StreamSettings,
    SyncPolicy, find_skip,
};

const LAST: u64 = 300;

/// [`Forward`], which cannot get past some numbers.
struct Refusing {
    forward: Forward,
    refused: &'static [u64],
}

impl Operator for Refusing {
    fn rows(&mut self, input: usize, rows: Rows<'_>, output: &mut Output) -> Result<(), Cause> {
        if let Some(value) = rows.column::<UInt64Type>(2).iter().find(|value| self.refused.contains(value)) {
            return Err(Cause::user(format!("{value} is unlucky")));
        }
        self.forward.rows(input, rows, output)
    }
    fn end_of_cycle(&mut self, cut: &Cut, output: &mut Output) -> Result<(), Cause> {
        self.forward.end_of_cycle(cut, output)
    }
    fn snapshot(&self, writer: &mut SnapshotWriter) {
        self.forward.snapshot(writer);
    }
    fn restore(&mut self, reader: &mut SnapshotReader<'_>) -> Result<(), Cause> {
        self.forward.restore(reader)
    }
}

fn plan(refused: &'static [u64]) -> Plan {
    plan_of(move |_| Box::new(Refusing { forward: Forward::default(), refused }))
}

fn source(world: &Arc<Mutex<World>>, last: u64) -> DurableSource {
    DurableSource {
        source: Box::new(Sender::new(world, last)),
        feed: FeedSettings::default(),
        stream: StreamSettings { segment_bytes: 1024, ..StreamSettings::default() },
        sync: SyncPolicy::AtOnce,
    }
}

fn durability() -> Durability {
    Durability { snapshot_every: Duration::from_millis(10), ..Durability::new("forward") }
}

fn start(folder: &Path, world: &Arc<Mutex<World>>, refused: &'static [u64], workers: usize) -> DurableRun {
    let sinks: Vec<Box<dyn Sink>> = vec![Box::new(Transactions::new(world))];
    let policy = CyclePolicy { events_max: 40, ..CyclePolicy::default() };
    let engine = Engine::new().workers(workers).cycles(policy);
    let journal = Journal::open(folder).unwrap();
    engine.run_durable(plan(refused), sinks, vec![source(world, LAST)], journal, &durability()).unwrap()
}

/// Lets it come to its end, which is a failure; the rows that may be the reason.
fn fails(run: DurableRun) -> Positions {
    let FlowError::Failed(failure) = run.running.join().unwrap_err() else { panic!("it could not start") };
    assert!(failure.to_string().contains("is unlucky"), "{failure}");
    let suspects = run.maintenance.suspects(&failure);
    drop((run.feeds, run.maintenance));
    suspects["input"].clone()
}

fn skip(folder: &Path, world: &Arc<Mutex<World>>, positions: &Positions) -> Result<Skip, Cause> {
    let mut sinks: Vec<Box<dyn Sink>> = vec![Box::new(Transactions::new(world))];
    let journal = Journal::open(folder)?;
    let (plan, sources) = (plan(&[]), [source(world, 0)]);
    let found = find_skip(&plan, &mut sinks, &sources, &journal, &durability(), ("input", positions))?;
    found.carry_out(&journal)?;
    Ok(found)
}

/// What the numbers give without some of them.
fn expected(without: &[u64]) -> BTreeMap<u32, Vec<String>> {
    let mut partitions: BTreeMap<u32, Vec<String>> = BTreeMap::new();
    for number in (1..=LAST).filter(|number| !without.contains(number)) {
        let (key, _, value) = rows_of(&row(number))[0];
        let rows = partitions.entry(key % 7).or_default();
        rows.push(format!("{key} {}", value + rows.len() as u64));
    }
    partitions
}

#[test]
fn what_is_left_out_costs_no_other_row() {
    for workers in [1, 2, 5] {
        watched("rows are left out", move || {
            let folder = tempfile::tempdir().unwrap();
            let world: Arc<Mutex<World>> = Arc::default();
            let refused = &[100, 101, 200];
            let mut left_out = Vec::new();
            while left_out.len() < refused.len() {
                let found_in = |suspects: &Positions| -> Vec<u64> {
                    let is_suspected = |number: &u64| !suspects.within(number - 1..*number).is_empty();
                    refused.iter().copied().filter(is_suspected).collect()
                };
                // However often it is started, it ends there. Of two rows for two workers, either may be the first.
                let suspects = fails(start(folder.path(), &world, refused, workers));
                let again = fails(start(folder.path(), &world, refused, workers));
                assert!(
                    if workers == 1 { again == suspects } else { !found_in(&again).is_empty() },
                    "{again}"
                );
                let found = found_in(&suspects);
                assert!(!found.is_empty() && suspects.count() <= 40, "{suspects}");
                let positions = found.iter().map(|number| number - 1..*number).collect();
                let skipped = skip(folder.path(), &world, &positions).unwrap();
                assert_eq!((&skipped.positions, skipped.known), (&positions, 0));
                left_out.extend(found);
                // Killed as soon as it runs: what was asked for holds.
                let broken_off = start(folder.path(), &world, refused, workers);
                broken_off.running.abort();
                drop((broken_off.feeds, broken_off.running, broken_off.maintenance));
                assert_eq!(skip(folder.path(), &world, &positions).unwrap().known, positions.count());
            }
            let run = start(folder.path(), &world, refused, workers);
            run.running.join().unwrap();
            drop((run.feeds, run.maintenance));
            let world = world.lock();
            assert_eq!(by_partition(world.lines.iter().map(String::as_str)), expected(&left_out));
        });
    }
}

#[test]
fn what_every_state_has_stays() {
    watched("rows that are in all states", || {
        let folder = tempfile::tempdir().unwrap();
        let world: Arc<Mutex<World>> = Arc::default();
        let run = start(folder.path(), &world, &[], 2);
        run.running.join().unwrap();
        drop((run.feeds, run.maintenance));
        let refused = |positions: std::ops::Range<u64>| {
            skip(folder.path(), &world, &[positions].into_iter().collect()).unwrap_err().to_string()
        };
        let text = refused(LAST - 1..LAST);
        assert!(text.contains("is part of every remaining state"), "{text}");
        assert!(refused(0..1).contains("no longer exists"), "{}", refused(0..1));
        assert!(
            refused(LAST..LAST + 1).contains(&format!("position {LAST} of 'input' does not exist")),
            "{}",
            refused(LAST..LAST + 1)
        );
        assert_eq!(Journal::open(folder.path()).unwrap().skips().unwrap(), Default::default());
    });
}

#[test]
fn positions_behind_the_end_of_a_journal_are_not_left_out_of_what_comes_there() {
    watched("a journal that has lost its end", || {
        let folder = tempfile::tempdir().unwrap();
        let world: Arc<Mutex<World>> = Arc::default();
        // As a loss of the journal's end would leave it.
        let journal = Journal::open(folder.path()).unwrap();
        let beyond = std::iter::once(3..5).collect();
        journal.set_skips(&[("input".to_owned(), beyond)].into()).unwrap();
        drop(journal);
        let run = start(folder.path(), &world, &[], 2);
        assert_eq!(run.recovered.skips, Default::default());
        run.running.join().unwrap();
        drop((run.feeds, run.maintenance));
        eventually("all is there", || world.lock().lines.len() as u64 == LAST);
        let world = world.lock();
        assert_eq!(by_partition(world.lines.iter().map(String::as_str)), expected(&[]));
    });
}
