//! What is outside of the query and survives its crashes: clients that send again what was not acknowledged, and sinks.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tidemill_core::arrow::array::{RecordBatch, TimestampNanosecondArray, UInt64Array};
use tidemill_core::arrow::schema::{DataType, Field, Schema, SchemaRef, TimeUnit};
use tidemill_core::error::Cause;
use tidemill_core::{CycleOutput, Guarantee, Heard, Polled, Request, Sink, Source};

use super::oracle::Out;
use crate::durable::SyncPolicy;
use tidemill_testing::random::Random;

/// An event. Its time is a function of its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    pub id: u64,
    pub time_ns: i64,
}

impl Row {
    /// The event of a number whose time is about `near_ns`.
    fn new(id: u64, near_ns: u64) -> Row {
        Row { id, time_ns: (near_ns + Random::new(id).below(25)) as i64 }
    }
}

pub fn schema() -> SchemaRef {
    let time = DataType::Timestamp(TimeUnit::Nanosecond, None);
    let fields = [("id", DataType::UInt64), ("time", time)];
    Arc::new(Schema::new(fields.map(|(name, data_type)| Field::new(name, data_type, false)).to_vec()))
}

fn batch_of(rows: &[Row]) -> RecordBatch {
    let ids = Arc::new(UInt64Array::from_iter_values(rows.iter().map(|row| row.id))) as _;
    let times = Arc::new(TimestampNanosecondArray::from_iter_values(rows.iter().map(|row| row.time_ns))) as _;
    RecordBatch::try_new(schema(), vec![ids, times]).unwrap()
}

/// What a source does after a crash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Clients send numbered requests again from the first that is not acknowledged, or from before.
    Requests,
    /// It gives all rows again.
    Repeatable,
    /// What it gave is gone.
    Plain,
}

struct Client {
    next: u64,
    last: u64,
    acknowledged: u64,
}

/// Who sent some rows: client and number.
type Sender = (usize, u64);

/// What is answered once the rows count as acknowledged.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Answer {
    Taken,
    /// The number is behind this one.
    Behind(u64),
}

/// What a poll has brought.
pub struct LastPoll {
    pub heard: Vec<Heard>,
    pub gave_rows: bool,
}

pub struct SourceWorld {
    pub kind: Kind,
    pub sync: SyncPolicy,
    /// Whether the source ends when it has given all.
    pub ends: bool,
    clients: Vec<Client>,
    next: u64,
    total: u64,
    /// What this run was given and has not acknowledged, and how many rows it has.
    given: Vec<(Vec<Row>, Option<Sender>, Answer)>,
    rows_acknowledged: u64,
    pub last_given: Vec<Row>,
    /// What the last poll has brought; `None` once that was looked at.
    pub last_poll: Option<LastPoll>,
    last_sender: Option<Sender>,
    /// The numbers of all acknowledged rows, and those since this was last looked at.
    pub acknowledged: BTreeSet<u64>,
    pub newly_acknowledged: Vec<u64>,
    /// How many requests were refused, since this was last looked at.
    pub refused: u64,
}

impl SourceWorld {
    pub fn random(random: &mut Random, is_synced: bool, is_long: bool) -> SourceWorld {
        let kind = [Kind::Requests, Kind::Repeatable, Kind::Plain][random.below(3) as usize];
        let interval = Duration::from_millis(random.below(40));
        let length = if is_long { 4 } else { 1 };
        let sync = match random.below(8) {
            _ if !is_synced => SyncPolicy::Never,
            0 => SyncPolicy::Never,
            1..=3 => SyncPolicy::Every(interval),
            _ => SyncPolicy::AtOnce,
        };
        let client = |last| Client { next: 1, last, acknowledged: 0 };
        SourceWorld {
            kind,
            sync,
            ends: false,
            clients: (0..1 + random.below(3)).map(|_| client(length * (3 + random.below(15)))).collect(),
            next: 0,
            total: length * (10 + random.below(100)),
            given: Vec::new(),
            rows_acknowledged: 0,
            last_given: Vec::new(),
            last_poll: None,
            last_sender: None,
            acknowledged: BTreeSet::new(),
            newly_acknowledged: Vec::new(),
            refused: 0,
        }
    }

    /// The query restarts.
    pub fn reopened(&mut self, random: &mut Random) {
        self.given.clear();
        self.last_poll = None;
        self.rows_acknowledged = 0;
        if self.kind == Kind::Repeatable {
            self.next = 0;
        }
        for client in &mut self.clients {
            client.next = (client.acknowledged + 1).saturating_sub(random.below(3)).max(1);
        }
    }

    fn request_rows(client: usize, sequence: u64) -> Vec<Row> {
        let first = (client as u64) << 40 | sequence << 8;
        (0..1 + Random::new(first).below(6)).map(|index| Row::new(first + index, sequence * 10)).collect()
    }

    /// What the source has next; nothing if it pauses.
    fn give(&mut self, random: &mut Random) -> Option<Vec<Row>> {
        match self.kind {
            Kind::Requests => {
                let waiting = |client: &usize| self.clients[*client].next <= self.clients[*client].last;
                let waiting: Vec<usize> = (0..self.clients.len()).filter(waiting).collect();
                let number = *waiting.get(random.below(waiting.len() as u64) as usize)?;
                let client = &mut self.clients[number];
                if random.is_once_in(10) {
                    // It has waited too long for an answer.
                    client.next = client.next.min(client.acknowledged + 1);
                }
                self.last_sender = Some((number, client.next));
                client.next += 1;
                Some(SourceWorld::request_rows(number, client.next - 1))
            }
            Kind::Repeatable | Kind::Plain => {
                self.last_sender = None;
                let end = self.total.min(self.next + 1 + random.below(6));
                let rows: Vec<Row> = (self.next..end).map(|id| Row::new(id, id * 3)).collect();
                self.next = end;
                (!rows.is_empty()).then_some(rows)
            }
        }
    }

    /// Whether it has given all.
    fn is_over(&self) -> bool {
        match self.kind {
            Kind::Requests => self.clients.iter().all(|client| client.next > client.last),
            Kind::Repeatable | Kind::Plain => self.next == self.total,
        }
    }

    fn acknowledge(&mut self, rows: u64) {
        while self.rows_acknowledged < rows {
            assert!(!self.given.is_empty(), "more rows are acknowledged than were given");
            let (batch, sender, answer) = self.given.remove(0);
            self.rows_acknowledged += batch.len() as u64;
            assert!(self.rows_acknowledged <= rows, "a part of a batch is acknowledged");
            if let (Some((client, _)), Answer::Behind(last)) = (sender, answer) {
                let client = &mut self.clients[client];
                client.next = client.next.max(last + 1);
                client.acknowledged = client.acknowledged.max(last);
                self.refused += 1;
                continue;
            }
            self.newly_acknowledged.extend(batch.iter().map(|row| row.id));
            if let Some((client, sequence)) = sender {
                let acknowledged = &mut self.clients[client].acknowledged;
                *acknowledged = sequence.max(*acknowledged);
            }
        }
    }

    /// The rows that were given last are not taken: once they are acknowledged, their client hears that `last` was.
    fn refuse(&mut self, last: u64) {
        let (_, sender, answer) = self.given.last_mut().expect("rows were given");
        let (_, sequence) = sender.expect("they are of a request");
        assert!(sequence < last, "{sequence} is no less than {last}");
        *answer = Answer::Behind(last);
    }

    /// Whether a source that has ended is in the journal as it must be: all of it, once, in its order. If
    /// power `was_lost`, one that is never synced may lack what it has acknowledged.
    pub fn check_complete(&self, journal: &[Row], was_lost: bool) {
        let ids: Vec<u64> = journal.iter().map(|row| row.id).collect();
        let mut sorted = ids.clone();
        sorted.sort_unstable();
        match self.kind {
            Kind::Repeatable => assert_eq!(ids, (0..self.total).collect::<Vec<_>>(), "rows of the source"),
            Kind::Plain => assert!(ids.windows(2).all(|pair| pair[0] < pair[1]), "each row once: {ids:?}"),
            Kind::Requests => {
                let clients = self.clients.iter().enumerate();
                let all = clients.flat_map(|(client, state)| {
                    (1..=state.last).flat_map(move |sequence| SourceWorld::request_rows(client, sequence))
                });
                let mut all: Vec<u64> = all.map(|row| row.id).collect();
                if was_lost && self.sync == SyncPolicy::Never {
                    all.retain(|id| sorted.binary_search(id).is_ok());
                }
                assert!(sorted == all, "each request once: {sorted:?}, of {all:?}");
            }
        }
    }
}

/// A sink: one that remembers its last cycle, or one whose commits we note.
pub struct SinkWorld {
    pub remembers: bool,
    /// It receives one row out of this many, so that some cycles, or most, have none for it.
    rows_each: u64,
    /// The last cycle that it was given.
    pub committed: Option<u64>,
    /// The last cycle that it would tell a run which began now. It records cycles without rows at times only.
    pub recorded: Option<u64>,
    /// All that it was given, commit by commit.
    pub cycles: Vec<(u64, Vec<Out>)>,
    /// Whether it is away: it says nothing, and takes nothing.
    pub is_away: bool,
}

impl SinkWorld {
    pub fn random(random: &mut Random) -> SinkWorld {
        let remembers = !random.is_once_in(3);
        let rows_each = [1, 4, 60, u64::MAX][random.below(4) as usize];
        SinkWorld {
            remembers,
            rows_each,
            committed: None,
            recorded: None,
            cycles: Vec::new(),
            is_away: false,
        }
    }

    /// What it is given of the results of all cycles.
    pub fn rows_of(&self, results: &[Out]) -> Vec<Out> {
        results.iter().filter(|row| self.rows_each == 1 || row.order % self.rows_each == 0).cloned().collect()
    }

    /// The query restarts: what was not recorded comes again, and had no rows.
    pub fn reopened(&mut self, is_away: bool) {
        self.is_away = is_away;
        if self.remembers {
            self.committed = self.recorded;
            let lost = self.cycles.extract_if(.., |(cycle, _)| Some(*cycle) > self.recorded);
            let rows: Vec<Out> = lost.flat_map(|(_, rows)| rows).collect();
            assert_eq!(rows, [], "rows of a cycle that is not recorded");
        }
    }

    pub fn commit(
        &mut self,
        cycles: RangeInclusive<u64>,
        results: Vec<(u64, Vec<Out>)>,
        random: &mut Random,
    ) {
        let next = self.committed.map_or(0, |cycle| cycle + 1);
        let fits = if self.remembers { *cycles.start() == next } else { *cycles.start() <= next };
        assert!(fits, "cycles {cycles:?} are committed where {next} is due");
        let given: Vec<u64> = results.iter().map(|(cycle, _)| *cycle).collect();
        assert_eq!(given, cycles.clone().collect::<Vec<_>>(), "what is committed was prepared");
        let rows: Vec<_> = results.into_iter().map(|(cycle, rows)| (cycle, self.rows_of(&rows))).collect();
        assert!(!self.is_away, "a sink that is away is given something");
        self.committed = Some(*cycles.end());
        if rows.iter().any(|(_, rows)| !rows.is_empty()) || random.is_once_in(20) {
            self.record();
        }
        self.cycles.extend(rows);
    }

    pub fn record(&mut self) {
        self.recorded = self.committed;
    }

    pub fn unrecorded(&self) -> Option<u64> {
        (self.recorded < self.committed).then(|| self.recorded.map_or(0, |cycle| cycle + 1))
    }

    /// What it has of each cycle: what came last.
    pub fn last_given(&self) -> BTreeMap<u64, &Vec<Out>> {
        self.cycles.iter().map(|(cycle, outputs)| (*cycle, outputs)).collect()
    }
}

pub struct World {
    pub sources: Vec<SourceWorld>,
    pub sinks: Vec<SinkWorld>,
}

/// The source as the query sees it.
pub struct SimulatedSource {
    pub world: Arc<Mutex<World>>,
    pub index: usize,
    pub random: Random,
    /// The connections that are open, and how many there were.
    pub open: Vec<u64>,
    pub opened: u64,
}

impl SimulatedSource {
    /// What is heard with this many rows: connections come, go and fall silent between them.
    fn hear(&mut self, rows: usize) -> Vec<Heard> {
        let mut heard = Vec::new();
        for row in 0..=rows {
            if self.random.is_once_in(6) && self.open.len() < 4 {
                self.open(&mut heard);
            }
            if !self.open.is_empty() && self.random.is_once_in(8) {
                let at = self.random.below(self.open.len() as u64) as usize;
                heard.push(if self.random.is_once_in(2) {
                    Heard::Silent(self.open[at])
                } else {
                    Heard::Closed(self.open.swap_remove(at))
                });
            }
            if row < rows {
                if self.open.is_empty() {
                    self.open(&mut heard);
                }
                // Most rows come over one of them, and the others fall behind.
                let at =
                    if self.random.is_once_in(8) { self.random.below(self.open.len() as u64) } else { 0 };
                let connection = self.open[at as usize];
                heard.push(Heard::Rows { connection, rows: 1 });
            }
        }
        heard
    }

    fn open(&mut self, heard: &mut Vec<Heard>) {
        self.opened += 1;
        self.open.push(self.opened);
        heard.push(Heard::Opened(self.opened));
    }
}

impl Source for SimulatedSource {
    fn schema(&self) -> SchemaRef {
        schema()
    }

    fn poll(&mut self, _wait: Duration) -> Result<Polled, Cause> {
        let world = Arc::clone(&self.world);
        let source = &mut world.lock().sources[self.index];
        let rows = if self.random.is_once_in(4) { None } else { source.give(&mut self.random) };
        // One that gives the same rows again has no connections.
        let heard = match source.kind {
            Kind::Repeatable => Vec::new(),
            Kind::Requests | Kind::Plain => self.hear(rows.as_ref().map_or(0, Vec::len)),
        };
        let has_ended = rows.is_none() && source.ends && source.is_over();
        source.last_poll = (!has_ended).then_some(LastPoll { heard, gave_rows: rows.is_some() });
        match rows {
            Some(rows) => {
                source.last_given.clone_from(&rows);
                source.given.push((rows, source.last_sender, Answer::Taken));
                let rows = batch_of(&source.last_given);
                Ok(match source.last_sender {
                    None => Polled::Rows(rows),
                    Some((client, sequence)) => {
                        let request = Request { client: format!("client {client}"), sequence };
                        Polled::Request { rows, request }
                    }
                })
            }
            None if has_ended => Ok(Polled::Ended),
            None => Ok(Polled::Nothing),
        }
    }

    fn connections(&mut self) -> Vec<Heard> {
        let world = self.world.lock();
        world.sources[self.index].last_poll.as_ref().map_or(Vec::new(), |poll| poll.heard.clone())
    }

    fn refuse(&mut self, last: u64) {
        self.world.lock().sources[self.index].refuse(last);
    }

    fn acknowledge(&mut self, rows: u64) {
        self.world.lock().sources[self.index].acknowledge(rows);
    }

    fn is_repeatable(&self) -> bool {
        self.world.lock().sources[self.index].kind == Kind::Repeatable
    }

    fn is_finite(&self) -> bool {
        true
    }
}

/// The sink as a query that begins asks it how far it is. What it is given goes to its [`SinkWorld`], step by step.
pub struct SimulatedSink {
    pub world: Arc<Mutex<World>>,
    pub index: usize,
}

impl Sink for SimulatedSink {
    fn guarantee(&self) -> Guarantee {
        if self.world.lock().sinks[self.index].remembers {
            Guarantee::ExactlyOnce
        } else {
            Guarantee::AtLeastOnce
        }
    }

    fn last_committed(&mut self) -> Result<Option<u64>, Cause> {
        let sink = &self.world.lock().sinks[self.index];
        assert!(!sink.is_away, "a sink that is away is asked how far it is");
        Ok(sink.recorded)
    }

    fn away(&self) -> Option<Cause> {
        let is_away = self.world.lock().sinks[self.index].is_away;
        is_away.then(|| Cause::operation("the sink is away"))
    }

    fn prepare(&mut self, _output: CycleOutput) -> Result<(), Cause> {
        Err(Cause::bug("a simulated sink is no part of a running dataflow"))
    }

    fn commit(&mut self, _cycles: RangeInclusive<u64>) -> Result<(), Cause> {
        Err(Cause::bug("a simulated sink is no part of a running dataflow"))
    }
}
