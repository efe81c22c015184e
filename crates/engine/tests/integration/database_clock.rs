//! Queries under one clock: a slow one lags, falls out of the ring, or holds back a source that can wait.

use std::ops::RangeInclusive;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use tidemill_engine::arrow::array::{Int64Array, RecordBatch};
use tidemill_engine::arrow::schema::{DataType, Field, Schema, SchemaRef};
use tidemill_engine::{
    Beginning, Cause, ClockRun, Counter, CycleOutput, CyclePolicy, DatabaseClock, Durability, DurableUse,
    Engine, FeedSettings, Journal, Plan, Polled, QueryFolder, Sink, Source, SourceKey, SourceUse,
    StreamSettings, SyncPolicy,
};

/// The longest that anything here may take.
const PATIENCE: Duration = Duration::from_secs(120);
const ROWS_OF_BATCH: i64 = 1024;
const RING_BYTES: u64 = 1 << 20;

fn schema() -> SchemaRef {
    Arc::new(Schema::new(vec![Field::new("n", DataType::Int64, false)]))
}

/// Numbers from 0, in batches.
struct Numbers {
    next: i64,
    end: i64,
    fails: bool,
}

impl Source for Numbers {
    fn schema(&self) -> SchemaRef {
        schema()
    }

    fn poll(&mut self, _: Duration) -> Result<Polled, Cause> {
        if self.next == self.end {
            return if self.fails { Err(Cause::operation("the wire is cut")) } else { Ok(Polled::Ended) };
        }
        let rows: Int64Array = (self.next..self.next + ROWS_OF_BATCH).collect();
        self.next += ROWS_OF_BATCH;
        Ok(Polled::Rows(RecordBatch::try_new(schema(), vec![Arc::new(rows)]).unwrap()))
    }

    fn is_finite(&self) -> bool {
        true
    }
}

/// What a source gives, and how long it waits for a query that is slower than others.
#[derive(Clone, Copy)]
struct Given {
    batches: i64,
    waits_max: Duration,
    fails: bool,
}

impl Given {
    fn live(batches: i64) -> Given {
        Given { batches, waits_max: Duration::ZERO, fails: false }
    }

    fn stored(batches: i64) -> Given {
        Given { waits_max: Duration::MAX, ..Given::live(batches) }
    }
}

/// Sums what comes; blocks while it is closed.
#[derive(Clone, Default)]
struct Gate {
    state: Arc<(Mutex<GateState>, Condvar)>,
}

#[derive(Default)]
struct GateState {
    is_closed: bool,
    rows: i64,
    sum: i64,
    pending: Vec<i64>,
}

impl Gate {
    fn closed() -> Gate {
        let gate = Gate::default();
        gate.state.0.lock().is_closed = true;
        gate
    }

    fn open(&self) {
        self.state.0.lock().is_closed = false;
        self.state.1.notify_all();
    }

    fn read(&self) -> (i64, i64) {
        let state = self.state.0.lock();
        (state.rows, state.sum)
    }
}

impl Sink for Gate {
    fn prepare(&mut self, output: CycleOutput) -> Result<(), Cause> {
        let mut state = self.state.0.lock();
        for batch in output.streams.into_iter().flatten() {
            let numbers = batch.rows.column(0).as_any().downcast_ref::<Int64Array>().unwrap();
            state.pending.extend(numbers.values());
        }
        Ok(())
    }

    fn commit(&mut self, _: RangeInclusive<u64>) -> Result<(), Cause> {
        let mut state = self.state.0.lock();
        while state.is_closed {
            self.state.1.wait(&mut state);
        }
        let pending = std::mem::take(&mut state.pending);
        state.rows += pending.len() as i64;
        state.sum += pending.iter().sum::<i64>();
        Ok(())
    }
}

fn plan() -> Plan {
    let mut plan = Plan::new("sum");
    let numbers = plan.source("numbers", [schema()]);
    plan.sink("gate", numbers);
    plan
}

fn source_use(key: &SourceKey, given: Given) -> SourceUse {
    let Given { batches, waits_max, fails } = given;
    let open = move || {
        let source = Numbers { next: 0, end: batches * ROWS_OF_BATCH, fails };
        Ok((Box::new(source) as Box<dyn Source>, FeedSettings::default()))
    };
    SourceUse {
        name: "numbers".into(),
        key: Some(key.clone()),
        waits_max,
        open: Box::new(open),
        schema: schema(),
        columns: vec![0],
        durable: None,
    }
}

fn engine() -> Engine {
    Engine::new().cycles(CyclePolicy { events_max: 4096, ..CyclePolicy::default() })
}

fn run(clock: &DatabaseClock, key: &SourceKey, source: Given, gate: &Gate) -> ClockRun {
    let used = source_use(key, source);
    engine().run_under(clock, plan(), vec![Box::new(gate.clone())], vec![used]).unwrap()
}

/// Two queries over one source, which begin with its first row.
fn two(clock: &DatabaseClock, source: Given, gates: [&Gate; 2]) -> [ClockRun; 2] {
    let key = SourceKey(Arc::new(()));
    let held = clock.hold();
    let runs = gates.map(|gate| run(clock, &key, source, gate));
    assert_eq!(clock.sources(), 1);
    drop(held);
    runs
}

fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < PATIENCE, "{what}");
        thread::sleep(Duration::from_millis(1));
    }
}

/// Waits until the source gives no more rows to a query that takes all it gets.
fn until_held_back(fast: &Gate) {
    until("the source is held back", || {
        let before = fast.read();
        thread::sleep(Duration::from_millis(50));
        before.0 > 0 && before == fast.read()
    });
}

/// The number and the sum of the rows of this many batches.
fn all(batches: i64) -> (i64, i64) {
    let rows = batches * ROWS_OF_BATCH;
    (rows, rows * (rows - 1) / 2)
}

#[test]
fn a_query_that_falls_out_of_the_ring_of_a_live_source_stops_and_the_other_goes_on() {
    let clock = DatabaseClock::new(RING_BYTES);
    let (fast, slow) = (Gate::default(), Gate::closed());
    // 8 MiB, eight times what the ring has.
    let [of_fast, of_slow] = two(&clock, Given::live(1024), [&fast, &slow]);
    of_fast.running.join().unwrap();
    assert_eq!(fast.read(), all(1024));
    slow.open();
    let error = of_slow.running.join().map(drop).unwrap_err().to_string();
    assert!(error.contains("more than 1 MiB of rows behind other queries"), "{error}");
    assert!(slow.read().0 < all(1024).0);
}

#[test]
fn a_source_that_can_wait_waits_for_the_slowest_query() {
    let clock = DatabaseClock::new(RING_BYTES);
    let (fast, slow) = (Gate::default(), Gate::closed());
    let [of_fast, of_slow] = two(&clock, Given::stored(1024), [&fast, &slow]);
    until_held_back(&fast);
    assert!(fast.read().0 < all(1024).0, "the ring holds an eighth");
    slow.open();
    of_fast.running.join().unwrap();
    of_slow.running.join().unwrap();
    assert_eq!([fast.read(), slow.read()], [all(1024); 2]);
}

#[test]
fn senders_are_held_back_by_a_query_that_takes_rows_again_in_time() {
    let clock = DatabaseClock::new(RING_BYTES);
    let (fast, slow) = (Gate::default(), Gate::closed());
    let given = Given { waits_max: PATIENCE, ..Given::live(1024) };
    let [of_fast, of_slow] = two(&clock, given, [&fast, &slow]);
    until_held_back(&fast);
    slow.open();
    of_fast.running.join().unwrap();
    of_slow.running.join().unwrap();
    assert_eq!([fast.read(), slow.read()], [all(1024); 2]);
}

#[test]
fn senders_are_held_back_once_however_many_queries_have_stopped_taking_rows() {
    let clock = DatabaseClock::new(RING_BYTES);
    let waits_max = Duration::from_millis(500);
    let (fast, stuck) = (Gate::default(), [(); 3].map(|()| Gate::closed()));
    let key = SourceKey(Arc::new(()));
    let held = clock.hold();
    let given = Given { waits_max, ..Given::live(1024) };
    let [of_fast, of_stuck @ ..] =
        [&fast, &stuck[0], &stuck[1], &stuck[2]].map(|gate| run(&clock, &key, given, gate));
    let begun = Instant::now();
    drop(held);
    of_fast.running.join().unwrap();
    assert!(begun.elapsed() >= waits_max);
    assert_eq!(fast.read(), all(1024));
    for (gate, run) in stuck.iter().zip(of_stuck) {
        gate.open();
        let error = run.running.join().map(drop).unwrap_err().to_string();
        assert!(error.contains("more than 1 MiB of rows behind other queries"), "{error}");
    }
}

#[test]
fn a_slow_query_within_the_ring_lags_and_has_every_row_in_the_end() {
    let clock = DatabaseClock::new(RING_BYTES);
    let (fast, slow) = (Gate::default(), Gate::closed());
    let [of_fast, of_slow] = two(&clock, Given::live(64), [&fast, &slow]);
    until("the fast one has every row", || fast.read() == all(64));
    assert_eq!(slow.read(), (0, 0));
    slow.open();
    of_fast.running.join().unwrap();
    of_slow.running.join().unwrap();
    assert_eq!(slow.read(), all(64));
}

#[test]
fn a_source_that_fails_fails_all_its_queries_behind_its_last_row() {
    let clock = DatabaseClock::new(RING_BYTES);
    let (one, other) = (Gate::default(), Gate::default());
    let [of_one, of_other] = two(&clock, Given { fails: true, ..Given::live(8) }, [&one, &other]);
    for run in [of_one, of_other] {
        let error = run.running.join().map(drop).unwrap_err().to_string();
        assert!(error.contains("source 'numbers'") && error.contains("the wire is cut"), "{error}");
    }
    until("the source is closed", || clock.sources() == 0);
}

#[test]
fn a_query_that_is_stopped_ends_at_a_cut_with_everything_before_it() {
    let clock = DatabaseClock::new(RING_BYTES);
    let (one, other) = (Gate::default(), Gate::default());
    let [of_one, of_other] = two(&clock, Given::stored(4096), [&one, &other]);
    until("rows come", || one.read().0 > 0);
    of_one.feeds[0].stop();
    of_one.running.join().unwrap();
    let (rows, sum) = one.read();
    assert_eq!(sum, rows * (rows - 1) / 2, "it has the first rows, without a gap");
    of_other.running.join().unwrap();
    assert_eq!(other.read(), all(4096));
}

#[test]
fn queries_over_different_sources_leave_out_each_others_cycles_and_count_their_own() {
    let clock = DatabaseClock::new(RING_BYTES);
    let (one, other) = (Gate::default(), Gate::default());
    let held = clock.hold();
    let runs = [&one, &other].map(|gate| run(&clock, &SourceKey(Arc::new(())), Given::stored(2048), gate));
    assert_eq!(clock.sources(), 2);
    drop(held);
    for run in runs {
        let status = run.running.join().unwrap();
        let counted = status.get(Counter::CyclesCommitted);
        assert_eq!((status.sinks[0].cycles_committed, status.sinks[0].cycles_waiting), (counted, 0));
    }
    assert_eq!([one.read(), other.read()], [all(2048); 2]);
}

/// Two durable queries over a source that ends while the slow one has taken no more than its first cycles.
fn durable_to_the_end(ring_bytes_max: u64) {
    let folder = tempfile::tempdir().unwrap();
    let clock = DatabaseClock::journaled(folder.path(), ring_bytes_max).unwrap();
    let (fast, slow) = (Gate::default(), Gate::closed());
    let key = SourceKey(Arc::new(0_u8));
    // A cycle has four batches; the last one has three, and the end of the source.
    let policy = CyclePolicy::fixed(4 * ROWS_OF_BATCH as u32);
    let held = clock.hold();
    let runs = [("fast", &fast), ("slow", &slow)].map(|(name, gate)| {
        let (settings, sync) = (StreamSettings::default(), SyncPolicy::AtOnce);
        let durable = Some(DurableUse { stream: "numbers".into(), settings, sync, is_transactional: false });
        let used = SourceUse { durable, ..source_use(&key, Given::live(67)) };
        let query = QueryFolder {
            name: name.into(),
            journal: Journal::open(&folder.path().join(name)).unwrap(),
            durability: Durability::new("sum"),
            beginning: Beginning::Earliest,
        };
        let engine = Engine::new().cycles(policy.clone());
        engine.run_durable_under(&clock, plan(), vec![Box::new(gate.clone())], vec![used], query).unwrap()
    });
    drop(held);
    until("the fast one has every row", || fast.read() == all(67));
    slow.open();
    for run in runs {
        run.run.running.join().unwrap();
    }
    assert_eq!([fast.read(), slow.read()], [all(67); 2], "with a ring of {ring_bytes_max} bytes");
}

#[test]
fn a_durable_query_that_falls_out_of_the_ring_has_every_row_of_a_source_that_has_ended() {
    let cycle_bytes = 4 * (8 * ROWS_OF_BATCH as u64 + 128);
    // In one of these rings there is no room for the last cycle alone.
    (3..=17).for_each(|cycles| durable_to_the_end(cycles * cycle_bytes + cycle_bytes / 2));
}

/// A sink that fails over its first cycle.
struct Broken;

impl Sink for Broken {
    fn prepare(&mut self, _: CycleOutput) -> Result<(), Cause> {
        Err(Cause::user("it cannot be written"))
    }

    fn commit(&mut self, _: RangeInclusive<u64>) -> Result<(), Cause> {
        Ok(())
    }
}

/// Starts a durable query over a source with five batches.
fn durable(
    clock: &DatabaseClock,
    folder: &Path,
    key: &SourceKey,
    name: &str,
    sink: Box<dyn Sink>,
) -> ClockRun {
    let (settings, sync) = (StreamSettings::default(), SyncPolicy::AtOnce);
    let durable = Some(DurableUse { stream: "numbers".into(), settings, sync, is_transactional: false });
    let used = SourceUse { durable, ..source_use(key, Given::live(5)) };
    let query = QueryFolder {
        name: name.into(),
        journal: Journal::open(&folder.join(name)).unwrap(),
        durability: Durability::new("sum"),
        beginning: Beginning::Earliest,
    };
    engine().run_durable_under(clock, plan(), vec![sink], vec![used], query).unwrap().run
}

#[test]
fn a_query_that_fails_at_once_does_not_keep_another_from_reading_its_source() {
    let folder = tempfile::tempdir().unwrap();
    let key = SourceKey(Arc::new(0_u8));
    for run in 0..2 {
        let clock = DatabaseClock::journaled(folder.path(), RING_BYTES).unwrap();
        let held = clock.hold();
        let broken = durable(&clock, folder.path(), &key, "broken", Box::new(Broken));
        if run == 1 {
            // It has rows in the journal, and fails before anything is read.
            until("it has failed", || clock.sources() == 0);
        }
        let gate = Gate::default();
        let name = format!("good {run}");
        let good = durable(&clock, folder.path(), &key, &name, Box::new(gate.clone()));
        drop(held);
        assert!(broken.running.join().is_err());
        good.running.join().unwrap();
        assert!(gate.read().0 >= all(5).0, "{:?}", gate.read());
    }
}
