//! A source that follows a script, and what comes of it at the gateway.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam_channel::{RecvTimeoutError, TryRecvError};
use parking_lot::Mutex;
use tidemill_core::arrow::array::{RecordBatch, TimestampNanosecondArray};
use tidemill_core::arrow::schema::{DataType, Field, Schema, SchemaRef, TimeUnit};
use tidemill_core::error::Cause;
use tidemill_core::{Clock, Heard, ManualClock, Polled, Source};
use tidemill_flow::{Chunk, Stopped};
use tidemill_journal::{Journal, Positions, StreamSettings};

use crate::durable::feed_start::FeedStart;
use crate::durable::{DurableSource, SyncPolicy, feed, write};
use crate::feed_entry::{ChunkReceiver, End};
use crate::feed_settings::{EventTime, FeedSettings};
use crate::feed_state::FeedState;
use crate::feeder::Feeder;

pub const IDLE_AFTER_MS: u64 = 1000;

/// What happens at the source.
#[derive(Clone, Debug)]
pub enum Event {
    /// Rows of these times come over no connection.
    Rows(Vec<i64>),
    /// Rows without event time come.
    Refused(usize),
    /// A row of this time comes over a connection, which is opened if it is not open.
    Of(u64, i64),
    Closes(u64),
    FallsSilent(u64),
    /// Nothing comes for this many milliseconds.
    Waits(u64),
    /// The source is left, without having ended.
    Leaves,
}

#[derive(Clone, Debug)]
pub struct Script {
    pub events: Vec<Event>,
    /// How long the query holds back whoever pushes.
    pub push_takes: Duration,
}

impl Script {
    /// How it ends.
    fn end(&self) -> End {
        if self.events.iter().any(|event| matches!(event, Event::Leaves)) { End::Stop } else { End::Source }
    }
}

/// What came to the gateway.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fed {
    pub events: u32,
    pub watermark: i64,
    pub is_idle: bool,
}

/// A moment that only the script moves.
#[derive(Clone)]
struct Time {
    base: Instant,
    clock: Arc<ManualClock>,
}

impl Time {
    fn new() -> Time {
        Time { base: Instant::now(), clock: Arc::default() }
    }

    fn now(&self) -> Instant {
        self.base + Duration::from_nanos(self.clock.now_ns())
    }

    fn goes_on(&self, duration: Duration) {
        self.clock.advance_ns(duration.as_nanos() as u64);
    }

    /// Waits as the script says next. The source then has nothing.
    fn waits(&self, events: &Mutex<VecDeque<Event>>) {
        if let Some(Event::Waits(wait_ms)) = events.lock().front() {
            self.goes_on(Duration::from_millis(*wait_ms));
        }
    }
}

struct Scripted {
    events: Arc<Mutex<VecDeque<Event>>>,
    open: Vec<u64>,
    heard: Vec<Heard>,
}

fn schema() -> SchemaRef {
    let kind = DataType::Timestamp(TimeUnit::Nanosecond, None);
    Arc::new(Schema::new(vec![Field::new("time", kind, true)]))
}

fn batch(times: Vec<Option<i64>>) -> Polled {
    let times = Arc::new(TimestampNanosecondArray::from(times)) as _;
    Polled::Rows(RecordBatch::try_new(schema(), vec![times]).unwrap())
}

impl Source for Scripted {
    fn schema(&self) -> SchemaRef {
        schema()
    }

    fn poll(&mut self, _wait: Duration) -> Result<Polled, Cause> {
        let next = self.events.lock().pop_front();
        Ok(match next {
            None => Polled::Ended,
            Some(Event::Rows(times)) => batch(times.into_iter().map(Some).collect()),
            Some(Event::Refused(rows)) => batch(vec![None; rows]),
            Some(Event::Of(connection, time)) => {
                if !self.open.contains(&connection) {
                    self.open.push(connection);
                    self.heard.push(Heard::Opened(connection));
                }
                self.heard.push(Heard::Rows { connection, rows: 1 });
                batch(vec![Some(time)])
            }
            Some(Event::Closes(connection)) => {
                if self.open.contains(&connection) {
                    self.open.retain(|open| *open != connection);
                    self.heard.push(Heard::Closed(connection));
                }
                Polled::Nothing
            }
            Some(Event::FallsSilent(connection)) => {
                if self.open.contains(&connection) {
                    self.heard.push(Heard::Silent(connection));
                }
                Polled::Nothing
            }
            Some(Event::Waits(_)) => Polled::Nothing,
            Some(Event::Leaves) => Polled::Left,
        })
    }

    fn connections(&mut self) -> Vec<Heard> {
        std::mem::take(&mut self.heard)
    }

    fn is_finite(&self) -> bool {
        false
    }
}

/// A gateway that keeps what comes, after a while.
#[derive(Clone)]
struct Kept {
    chunks: Arc<Mutex<Vec<Chunk>>>,
    time: Time,
    push_takes: Duration,
}

impl ChunkReceiver for Kept {
    fn push(&self, chunk: Chunk) -> Result<(), Stopped> {
        self.time.goes_on(self.push_takes);
        self.chunks.lock().push(chunk);
        Ok(())
    }

    fn now_ns(&self) -> u64 {
        self.time.clock.now_ns()
    }
}

impl Kept {
    fn fed(&self) -> Vec<Fed> {
        let chunks = self.chunks.lock();
        let fed =
            |chunk: &Chunk| Fed { events: chunk.events, watermark: chunk.watermark, is_idle: chunk.idle };
        chunks.iter().map(fed).collect()
    }
}

fn settings() -> FeedSettings {
    FeedSettings {
        event_time: Some(EventTime { column: 0, delay_ns: 0 }),
        idle_after: Some(Duration::from_millis(IDLE_AFTER_MS)),
        ..FeedSettings::default()
    }
}

type Events = Arc<Mutex<VecDeque<Event>>>;

fn parts(script: &Script) -> (Box<dyn Source>, Events, Kept, Time) {
    let time = Time::new();
    let events = Arc::new(Mutex::new(script.events.iter().cloned().collect::<VecDeque<_>>()));
    let source = Scripted { events: Arc::clone(&events), open: Vec::new(), heard: Vec::new() };
    let kept = Kept { chunks: Arc::default(), time: time.clone(), push_takes: script.push_takes };
    (Box::new(source), events, kept, time)
}

/// What comes of the script without a journal.
pub fn fed_directly(script: &Script) -> Vec<Fed> {
    let (source, events, kept, time) = parts(script);
    let streams = [schema(), schema()];
    let state = Arc::new(FeedState::default());
    let receiver = (kept.clone(), &streams[..]);
    let mut feeder = Feeder::new(source, receiver, &settings(), time.now(), state);
    loop {
        time.waits(&events);
        if let Some(end) = feeder.step(|| time.now()).unwrap() {
            assert_eq!(end, script.end());
            return kept.fed();
        }
    }
}

/// What comes of the script through a journal, when the forwarder looks after each step of the writer.
pub fn fed_through_a_journal(script: &Script) -> Vec<Fed> {
    let (source, events, kept, time) = parts(script);
    let streams = [schema(), schema()];
    let folder = tempfile::tempdir().unwrap();
    let journal = Journal::open(folder.path()).unwrap();
    let stream = StreamSettings::default();
    let ends = journal.stream("s", schema(), &stream).unwrap();
    let source = DurableSource { source, feed: settings(), stream, sync: SyncPolicy::Never };
    let start = FeedStart {
        position: 0,
        watermark: i64::MIN,
        replay_end: 0,
        replay_watermark: i64::MIN,
        skipped: Positions::default(),
        now: time.now(),
        clock: Arc::clone(&time.clock) as _,
    };
    let (writer, mut forwarder) =
        feed::parts(source, ends, (kept.clone(), &streams[..]), (4, &Arc::default()), start);
    let mut writer = Some(writer);
    loop {
        time.waits(&events);
        let step = writer.as_mut().map(|writer| writer.step(time.now()).unwrap());
        if let Some(write::Step::Ended(at_end)) = step {
            assert_eq!(at_end, script.end() == End::Source);
            writer = None;
        }
        let received = forwarder.queue.try_recv().map_err(|error| match error {
            TryRecvError::Empty => RecvTimeoutError::Timeout,
            TryRecvError::Disconnected => RecvTimeoutError::Disconnected,
        });
        match forwarder.step(received).unwrap() {
            Some(end) => {
                assert_eq!(end, End::Source, "it forwards all that was taken in");
                return kept.fed();
            }
            None => {
                forwarder.look_ahead(time.now()).unwrap();
                forwarder.entry.look_idle(time.now()).unwrap();
            }
        }
    }
}
