//! Queries of a database on a disk that loses power, again and again. What each file has of its last writes is random, so the log
//! of cuts names rows that are lost, and rows are there whose cuts are lost. Then every query has, cycle by cycle, what a naive
//! computation gives over the rows up to the cut; queries agree on where a source is at a cut; and nothing is missing that was
//! acknowledged or committed. A query does not come back in every run.
//!
//! `TIDEMILL_POWER_LOSSES` says how many databases lose power; a failure prints the seed of its database
//! (`TIDEMILL_POWER_LOSS_FIRST`). The threads' timing is not part of the seed.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use crate::fixture::slow_disk::SlowDisk;
use crate::fixture::{eventually, watched};
use tidemill_engine::arrow::array::cast::AsArray;
use tidemill_engine::arrow::array::types::{TimestampNanosecondType, UInt32Type, UInt64Type};
use tidemill_engine::arrow::array::{RecordBatch, TimestampNanosecondArray, UInt32Array, UInt64Array};
use tidemill_engine::arrow::schema::{DataType, Field, Schema, SchemaRef, TimeUnit};
use tidemill_engine::{
    Beginning, Cause, Cut, CycleOutput, CyclePolicy, DatabaseClock, Durability, DurableClockRun, DurableUse,
    Engine, EventTime, FeedSettings, Guarantee, Journal, Operator, OperatorPlan, Output, Plan, Polled,
    QueryFolder, Request, Rows, Sink, SnapshotReader, SnapshotWriter, Source, SourceKey, SourceUse,
    StreamSettings, SyncPolicy, route_by_key,
};
use tidemill_journal::{Epoch, Medium};
use tidemill_testing::fault_disk::FaultDisk;
use tidemill_testing::random::Random;

const FOLDER: &str = "/database";
/// How many databases lose power, if nothing else is said.
const DATABASES: u64 = 30;
const SOURCES: usize = 2;
/// The sources of each query.
const QUERIES: [&[usize]; 3] = [&[0], &[1], &[0, 1]];
const PARTITIONS: u32 = 3;
const DELAY_NS: i64 = 10;

/// The event time of a number. Some are late.
fn time_of(number: u64) -> i64 {
    (number * 3 + Random::new(number).below(25)) as i64
}

/// For each number up to `last` whether it is late: row by row, as it is defined.
fn late(last: u64) -> Vec<bool> {
    let mut largest = i64::MIN;
    let mut is_late = |number| {
        let time = time_of(number);
        let is_late = largest > i64::MIN && time < largest - DELAY_NS;
        largest = largest.max(time);
        is_late
    };
    (1..=last).map(&mut is_late).collect()
}

fn schema() -> SchemaRef {
    let time = DataType::Timestamp(TimeUnit::Nanosecond, None);
    let field = |name: &str, data_type| Field::new(name, data_type, false);
    Arc::new(Schema::new(vec![
        field("partition", DataType::UInt32),
        field("number", DataType::UInt64),
        field("time", time),
    ]))
}

fn row(number: u64) -> RecordBatch {
    let columns = vec![
        Arc::new(UInt32Array::from(vec![number as u32 % PARTITIONS])) as _,
        Arc::new(UInt64Array::from(vec![number])) as _,
        Arc::new(TimestampNanosecondArray::from(vec![time_of(number)])) as _,
    ];
    RecordBatch::try_new(schema(), columns).unwrap()
}

/// What the operator gives for a row: its input, which is twice the place of its source in the query, plus one if it is late;
/// its number; how many rows of the input its partition has seen before.
type Given = (u32, u64, u64);

/// How far each source was read, and the rows of a cycle.
type OfCycle = (Vec<u64>, Vec<Given>);

/// A row that is in time, but behind what an earlier cut has said of its source.
const BEHIND: u32 = 100;

#[derive(Default)]
struct Tally {
    seen: BTreeMap<u32, u64>,
    watermarks: Vec<i64>,
}

impl Operator for Tally {
    fn rows(&mut self, input: usize, rows: Rows<'_>, output: &mut Output) -> Result<(), Cause> {
        let (numbers, times) = (rows.column::<UInt64Type>(0), rows.column::<TimestampNanosecondType>(1));
        let watermark = self.watermarks.get(input / 2).copied().unwrap_or(i64::MIN);
        for at in 0..rows.len() {
            let seen = self.seen.entry(input as u32).or_default();
            let is_behind = input.is_multiple_of(2) && times[at] < watermark;
            let kind = if is_behind { BEHIND } else { input as u32 };
            output.port(0).push(rows.positions()[at], (kind, numbers[at], *seen));
            *seen += 1;
        }
        Ok(())
    }

    fn end_of_cycle(&mut self, cut: &Cut, _output: &mut Output) -> Result<(), Cause> {
        self.watermarks.clone_from(&cut.watermarks);
        Ok(())
    }

    fn snapshot(&self, writer: &mut SnapshotWriter) {
        writer.u8(1);
        (0..2 * SOURCES as u32).for_each(|input| writer.u64(self.seen.get(&input).copied().unwrap_or(0)));
        let watermark = |source| self.watermarks.get(source).copied().unwrap_or(i64::MIN);
        (0..SOURCES).for_each(|source| writer.u64(watermark(source) as u64));
    }

    fn restore(&mut self, reader: &mut SnapshotReader<'_>) -> Result<(), Cause> {
        reader.version(1)?;
        for input in 0..2 * SOURCES as u32 {
            self.seen.insert(input, reader.u64()?);
        }
        self.watermarks.clear();
        for _ in 0..SOURCES {
            self.watermarks.push(reader.u64()? as i64);
        }
        Ok(())
    }
}

/// What the world outside knows.
#[derive(Clone, Default)]
struct World {
    /// Of each source, all numbers up to this one are acknowledged.
    acknowledged: [u64; SOURCES],
    sinks: [SinkWorld; QUERIES.len()],
}

/// What a sink was given: of each cycle, where the query's sources are at its end, and the rows.
#[derive(Clone, Default)]
struct SinkWorld {
    committed: Option<u64>,
    cycles: BTreeMap<u64, OfCycle>,
}

/// Sends each number as a request, from the first that is not acknowledged.
struct Sender {
    world: Arc<Mutex<World>>,
    source: usize,
    first: u64,
    next: u64,
    last: u64,
}

impl Source for Sender {
    fn schema(&self) -> SchemaRef {
        schema()
    }

    fn poll(&mut self, _: Duration) -> Result<Polled, Cause> {
        if self.next > self.last {
            return Ok(Polled::Ended);
        }
        if Random::new(self.next).is_once_in(9) {
            std::thread::sleep(Duration::from_micros(30));
        }
        self.next += 1;
        let request = Request { client: "sender".into(), sequence: self.next - 1 };
        Ok(Polled::Request { rows: row(self.next - 1), request })
    }

    fn acknowledge(&mut self, rows: u64) {
        self.world.lock().acknowledged[self.source] = self.first + rows - 1;
    }

    fn is_finite(&self) -> bool {
        true
    }
}

/// Keeps rows and the number of the last cycle together, or has the number noted by the engine.
struct Transactions {
    world: Arc<Mutex<World>>,
    query: usize,
    remembers: bool,
    pending: Vec<(u64, OfCycle)>,
}

impl Sink for Transactions {
    fn guarantee(&self) -> Guarantee {
        if self.remembers { Guarantee::ExactlyOnce } else { Guarantee::AtLeastOnce }
    }

    fn last_committed(&mut self) -> Result<Option<u64>, Cause> {
        Ok(self.world.lock().sinks[self.query].committed)
    }

    fn prepare(&mut self, output: CycleOutput) -> Result<(), Cause> {
        let mut rows: Vec<Given> = Vec::new();
        for batch in output.streams.into_iter().flatten() {
            let kinds = batch.rows.column(0).as_primitive::<UInt32Type>().values().to_vec();
            let column = |at| batch.rows.column(at).as_primitive::<UInt64Type>().values().to_vec();
            let numbers = kinds.into_iter().zip(column(1)).zip(column(2));
            rows.extend(numbers.map(|((kind, number), seen)| (kind, number, seen)));
        }
        rows.sort_unstable();
        self.pending.push((output.cut.cycle, (output.cut.positions.clone(), rows)));
        Ok(())
    }

    fn commit(&mut self, cycles: RangeInclusive<u64>) -> Result<(), Cause> {
        let mut world = self.world.lock();
        let sink = &mut world.sinks[self.query];
        assert!(
            !self.remembers || Some(*cycles.start()) > sink.committed,
            "{cycles:?} after {:?}",
            sink.committed
        );
        for (cycle, given) in self.pending.drain(..) {
            let before = sink.cycles.insert(cycle, given.clone());
            let is_same = before.as_ref().is_none_or(|before| !self.remembers && *before == given);
            assert!(is_same, "cycle {cycle} comes again, with {given:?} instead of {before:?}");
        }
        sink.committed = Some(*cycles.end());
        Ok(())
    }
}

fn plan(query: usize) -> Plan {
    let mut plan = Plan::new(format!("query {query}"));
    let output = Arc::new(Schema::new(vec![
        Field::new("kind", DataType::UInt32, false),
        Field::new("number", DataType::UInt64, false),
        Field::new("seen", DataType::UInt64, false),
    ]));
    let mut operator = OperatorPlan::new("tally", PARTITIONS, |_| Box::<Tally>::default());
    for source in QUERIES[query] {
        for stream in plan.source(format!("source {source}"), [schema(), schema()]) {
            let route = route_by_key::<UInt32Type>(0, PARTITIONS);
            operator = operator.input(stream, &["number", "time"], route);
        }
    }
    let output = plan.operator(operator.output(output));
    plan.sink("output", output);
    plan
}

/// What stays the same over the losses of power of a database.
struct Setting {
    last: [u64; SOURCES],
    remembers: [bool; QUERIES.len()],
    /// Whether the first source is never synced.
    is_never: bool,
}

fn start(
    random: &mut Random,
    setting: &Setting,
    disk: &FaultDisk,
    world: &Arc<Mutex<World>>,
    queries: &[usize],
) -> Result<Vec<DurableClockRun>, Cause> {
    let medium: Arc<dyn Medium> = if random.is_once_in(3) {
        Arc::new(SlowDisk::new(Arc::new(disk.clone()), Duration::from_micros(random.below(2000))))
    } else {
        Arc::new(disk.clone())
    };
    let ring_bytes = 1 << (10 + random.below(14));
    let clock = DatabaseClock::journaled_on(Arc::clone(&medium), Path::new(FOLDER), ring_bytes)?;
    let keys: Vec<SourceKey> = (0..SOURCES).map(|_| SourceKey(Arc::new(0_u8))).collect();
    (0..QUERIES.len()).for_each(|query| clock.expect(&format!("q{query}")));
    let held = clock.hold();
    let mut runs = Vec::new();
    for query in queries.iter().copied() {
        let used = |source: &usize| source_use(random, setting, world, (*source, &keys[*source]));
        let sources = QUERIES[query].iter().map(used).collect();
        let policy = CyclePolicy { events_max: 1 + random.below(30) as u32, ..CyclePolicy::default() };
        let folder = QueryFolder {
            name: format!("q{query}"),
            journal: Journal::open_on(
                Arc::clone(&medium),
                &Path::new(FOLDER).join(format!("query-q{query}")),
            )?,
            durability: Durability {
                snapshot_every: Duration::from_millis(random.below(6)),
                ..Durability::new("tally")
            },
            beginning: Beginning::Earliest,
        };
        let (world, pending) = (Arc::clone(world), Vec::new());
        let sink = Transactions { world, query, remembers: setting.remembers[query], pending };
        let engine = Engine::new().workers(1 + random.below(2) as usize).cycles(policy);
        runs.push(engine.run_durable_under(&clock, plan(query), vec![Box::new(sink)], sources, folder)?);
    }
    drop(held);
    Ok(runs)
}

fn source_use(
    random: &mut Random,
    setting: &Setting,
    world: &Arc<Mutex<World>>,
    (source, key): (usize, &SourceKey),
) -> SourceUse {
    let (world, last) = (Arc::clone(world), setting.last[source]);
    let open = move || {
        let first = world.lock().acknowledged[source] + 1;
        let sender = Sender { world, source, first, next: first, last };
        let event_time = Some(EventTime { column: 2, delay_ns: DELAY_NS });
        Ok((Box::new(sender) as Box<dyn Source>, FeedSettings { event_time, ..FeedSettings::default() }))
    };
    let sync = match random.below(4) {
        _ if setting.is_never && source == 0 => SyncPolicy::Never,
        0 => SyncPolicy::AtOnce,
        _ => SyncPolicy::Every(Duration::from_micros(200 << random.below(6))),
    };
    let settings = if setting.is_never {
        StreamSettings::default()
    } else {
        StreamSettings { segment_bytes: 1 << (10 + random.below(5)), ..StreamSettings::default() }
    };
    SourceUse {
        name: format!("source {source}"),
        key: Some(key.clone()),
        waits_max: Duration::ZERO,
        open: Box::new(open),
        schema: schema(),
        columns: vec![0, 1, 2],
        durable: Some(DurableUse { stream: format!("s{source}"), settings, sync, is_transactional: false }),
    }
}

/// What the world has seen when the disk stops. It must be on the disk; what comes later is of a time that never was. The world is
/// locked until the disk stands still: otherwise a sink could commit a cycle in between, and the journal note it, which this
/// world has never seen.
fn stop(world: &Mutex<World>, disk: &FaultDisk) -> World {
    let world = world.lock();
    disk.halt(0);
    world.clone()
}

/// A query has, cycle by cycle, what the rows up to the cut give.
fn check(query: usize, sink: &SinkWorld, late: &[Vec<bool>]) {
    let sources = QUERIES[query];
    let mut before = vec![0; sources.len()];
    let mut seen = BTreeMap::<(u32, u64), u64>::new();
    for (cycle, (positions, given)) in &sink.cycles {
        let mut expected: Vec<Given> = Vec::new();
        for (at, source) in sources.iter().enumerate() {
            assert!(
                before[at] <= positions[at],
                "query {query}, cycle {cycle}: {before:?}, then {positions:?}"
            );
            for number in before[at] + 1..=positions[at] {
                let input = at as u32 * 2 + u32::from(late[*source][number as usize - 1]);
                let seen = seen.entry((input, number % u64::from(PARTITIONS))).or_default();
                expected.push((input, number, *seen));
                *seen += 1;
            }
        }
        expected.sort_unstable();
        assert_eq!(*given, expected, "query {query}, cycle {cycle}, {before:?} to {positions:?}");
        before.clone_from(positions);
    }
}

/// Where a source is at a cut is the same for all queries that have the cycle.
fn check_agreement(world: &World) {
    for (one, sources) in QUERIES.iter().enumerate() {
        for (at, source) in sources.iter().enumerate() {
            let others = QUERIES.iter().enumerate().filter(|(other, _)| *other != one);
            for (other, theirs) in others {
                let Some(place) = theirs.iter().position(|theirs| theirs == source) else { continue };
                let other = &world.sinks[other];
                for (cycle, (positions, _)) in &world.sinks[one].cycles {
                    if other.committed >= Some(*cycle) {
                        let last = other.cycles.range(..=cycle).next_back();
                        let there = last.map_or(0, |(_, (positions, _))| positions[place]);
                        assert_eq!(positions[at], there, "source {source} at cycle {cycle}");
                    }
                }
            }
        }
    }
}

/// One database over several losses of power; how often rows were lost that cuts name.
fn powerless(seed: u64) -> usize {
    let mut random = Random::new(seed);
    let mut torn = tidemill_testing::random::Random::new(seed);
    let mut disk = FaultDisk::new();
    let mut world: Arc<Mutex<World>> = Arc::default();
    let last = [0, 1].map(|_| 100 + random.below(500));
    let remembers = [0, 1, 2].map(|_| !random.is_once_in(3));
    let setting = Setting { last, remembers, is_never: false };
    let late: Vec<Vec<bool>> = last.iter().map(|last| late(*last)).collect();
    for _ in 0..1 + random.below(5) {
        // One that cannot be started has kept what is compared with the journal of a later time.
        let queries: Vec<usize> = (0..QUERIES.len()).filter(|_| !random.is_once_in(4)).collect();
        let runs = start(&mut random, &setting, &disk, &world, &queries)
            .unwrap_or_else(|cause| panic!("seed {seed}: {cause}"));
        std::thread::sleep(Duration::from_micros(random.below(12_000)));
        let seen = stop(&world, &disk);
        disk = if random.is_once_in(5) { disk.killed() } else { disk.power_loss(&mut torn) };
        runs.iter().for_each(|run| run.run.running.abort());
        drop(runs);
        seen.sinks.iter().enumerate().for_each(|(query, sink)| check(query, sink, &late));
        check_agreement(&seen);
        world = Arc::new(Mutex::new(seen));
    }
    let runs = start(&mut random, &setting, &disk, &world, &[0, 1, 2])
        .unwrap_or_else(|cause| panic!("seed {seed}: {cause}"));
    for DurableClockRun { run, maintenance, .. } in runs {
        run.running.join().unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        drop((run.feeds, maintenance));
    }
    let world = world.lock();
    assert_eq!(world.acknowledged, last, "seed {seed}");
    for (query, sink) in world.sinks.iter().enumerate() {
        check(query, sink, &late);
        let (positions, _) = sink.cycles.values().next_back().expect("a cycle");
        let ends: Vec<u64> = QUERIES[query].iter().map(|source| last[*source]).collect();
        assert_eq!(*positions, ends, "seed {seed}: query {query}");
    }
    check_agreement(&world);
    let epochs = Journal::open_on(Arc::new(disk), Path::new(FOLDER)).unwrap().epochs().unwrap();
    epochs.iter().filter(|epoch| matches!(epoch, Epoch::Lost(_))).count()
}

#[test]
fn every_query_has_what_the_rows_give_that_are_left_after_losses_of_power() {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let databases = number("TIDEMILL_POWER_LOSSES").unwrap_or(DATABASES);
    let first = number("TIDEMILL_POWER_LOSS_FIRST").unwrap_or(1);
    let lose = |seed| watched("a database without power", move || powerless(seed));
    let lost: usize = (first..first + databases).map(lose).sum();
    println!("rows that cuts name were lost {lost} times");
    assert!(lost > 0 || databases < DATABASES, "no cut has named rows that were lost");
}

/// A source that is never synced has lost rows of which a query has committed results; whether it was so. That query is refused, also
/// once other rows have come in their place, and the others continue.
fn lost_commits(seed: u64) -> bool {
    let mut random = Random::new(seed);
    let disk = FaultDisk::new();
    let world: Arc<Mutex<World>> = Arc::default();
    let setting = Setting { last: [1500, 100], remembers: [true; 3], is_never: true };
    let runs = start(&mut random, &setting, &disk, &world, &[0, 1, 2]).unwrap();
    let rows_of =
        |sink: &SinkWorld| sink.cycles.values().next_back().map_or(0, |(positions, _)| positions[0]);
    eventually("some rows are committed", || rows_of(&world.lock().sinks[0]) > 100);
    let seen = stop(&world, &disk);
    let disk = disk.power_loss(&mut tidemill_testing::random::Random::new(seed));
    runs.iter().for_each(|run| run.run.running.abort());
    drop(runs);
    let (committed, world) = (seen.sinks[0].committed, Arc::new(Mutex::new(seen)));
    let Err(refused) = start(&mut random, &setting, &disk, &world, &[0]).map(drop) else { return false };
    let text = format!("sink 'output' has committed cycle {}, but the journal", committed.unwrap());
    assert!(refused.to_string().contains(&text), "{refused}");
    // The source is read by another query, and all of its rows come once more.
    world.lock().acknowledged[0] = 0;
    world.lock().sinks[2] = SinkWorld::default();
    let journal = Journal::open_on(Arc::new(disk.clone()), &Path::new(FOLDER).join("query-q2")).unwrap();
    journal.clear().unwrap();
    drop(journal);
    let run = start(&mut random, &setting, &disk, &world, &[2]).unwrap().remove(0);
    run.run.running.join().unwrap();
    drop((run.run.feeds, run.maintenance));
    let refused = start(&mut random, &setting, &disk, &world, &[0]).map(drop).unwrap_err().to_string();
    assert!(refused.contains(&text), "{refused}");
    check(2, &world.lock().sinks[2], &[late(1500), late(100)]);
    true
}

#[test]
fn a_query_that_has_committed_what_is_lost_is_refused_for_good() {
    let is_lost = |seed| watched("a source that is never synced", move || lost_commits(seed));
    assert!((1..=12).any(is_lost), "nothing was lost");
}
