//! Event time of a source with connections: what is late and how far it is, as the plain oracle says, however the rows come
//! in batches; and the same once more from what is journaled with them, wherever a replay begins.

pub mod oracle;

use std::sync::Arc;
use std::time::Duration;

use oracle::Oracle;
use proptest::prelude::*;
use tidemill_core::arrow::array::cast::AsArray;
use tidemill_core::arrow::array::types::UInt64Type;
use tidemill_core::arrow::array::{RecordBatch, TimestampNanosecondArray, UInt64Array};
use tidemill_core::arrow::schema::{DataType, Field, Schema, SchemaRef, TimeUnit};
use tidemill_core::error::Cause;
use tidemill_core::{Heard, Polled, Source, Stretch};
use tidemill_flow::Chunk;

use crate::chunk_builder::ChunkBuilder;
use crate::connection_times::ConnectionTimes;
use crate::feed_settings::{EventTime, FeedSettings};

fn schema() -> SchemaRef {
    let time = DataType::Timestamp(TimeUnit::Nanosecond, None);
    let fields = [("id", DataType::UInt64), ("time", time)];
    Arc::new(Schema::new(fields.map(|(name, kind)| Field::new(name, kind, false)).to_vec()))
}

/// A source that is only asked to watch.
struct Silence;

impl Source for Silence {
    fn schema(&self) -> SchemaRef {
        schema()
    }
    fn poll(&mut self, _wait: Duration) -> Result<Polled, Cause> {
        Ok(Polled::Ended)
    }
    fn is_finite(&self) -> bool {
        true
    }
}

/// What happens to one of a few connections.
#[derive(Clone, Copy, Debug)]
enum Event {
    Opens(u8),
    Closes(u8),
    FallsSilent(u8),
    /// A row, and whether it is admitted.
    Row(u8, i64, bool),
    /// The rows so far are a batch.
    Batch,
    /// The source is idle.
    Rests,
}

fn event() -> impl Strategy<Value = Event> {
    let connection = || 0u8..5;
    prop_oneof![
        2 => connection().prop_map(Event::Opens),
        1 => connection().prop_map(Event::Closes),
        1 => connection().prop_map(Event::FallsSilent),
        12 => (connection(), -50i64..50, prop::bool::weighted(0.9))
            .prop_map(|(connection, time, is_in)| Event::Row(connection, time, is_in)),
        3 => Just(Event::Batch),
        1 => Just(Event::Rests),
    ]
}

/// A batch as it went to the gateway: rows, what is journaled with them, and the result.
struct Taken {
    rows: RecordBatch,
    stretches: Vec<Stretch>,
    /// The watermark before it, and after its rows.
    before: i64,
    after: i64,
    late: Vec<u64>,
}

struct Run {
    connections: ConnectionTimes,
    intake: ChunkBuilder,
    oracle: Oracle,
    /// Which connections are open, and the number of each.
    open: Vec<Option<u64>>,
    next_number: u64,
    next_row: u64,
    heard: Vec<Heard>,
    /// Rows of the batch, whether they are in, and which of these the oracle finds late.
    rows: Vec<(u64, i64, bool)>,
    late: Vec<u64>,
    watermark: i64,
    taken: Vec<Taken>,
}

fn settings(delay_ns: i64) -> FeedSettings {
    FeedSettings { event_time: Some(EventTime { column: 1, delay_ns }), ..FeedSettings::default() }
}

fn intake(delay_ns: i64) -> ChunkBuilder {
    ChunkBuilder::new(&settings(delay_ns), &[schema(), schema()])
}

fn batch_of(rows: &[(u64, i64)]) -> RecordBatch {
    let ids = Arc::new(UInt64Array::from_iter_values(rows.iter().map(|row| row.0))) as _;
    let times = Arc::new(TimestampNanosecondArray::from_iter_values(rows.iter().map(|row| row.1))) as _;
    RecordBatch::try_new(schema(), vec![ids, times]).unwrap()
}

/// The numbers of the rows that came late.
fn late_of(chunk: &Chunk) -> Vec<u64> {
    let late = chunk.streams[1].as_ref();
    late.map_or(Vec::new(), |late| late.rows.column(0).as_primitive::<UInt64Type>().values().to_vec())
}

impl Run {
    fn new(delay_ns: i64) -> Run {
        Run {
            connections: ConnectionTimes::watch(&mut Silence, &settings(delay_ns), i64::MIN).unwrap(),
            intake: intake(delay_ns),
            oracle: Oracle::new(delay_ns, i64::MIN),
            open: vec![None; 5],
            next_number: 0,
            next_row: 0,
            heard: Vec::new(),
            rows: Vec::new(),
            late: Vec::new(),
            watermark: i64::MIN,
            taken: Vec::new(),
        }
    }

    fn happens(&mut self, event: Event) {
        match event {
            Event::Opens(connection) => {
                self.number(connection);
            }
            Event::Closes(connection) => {
                if let Some(number) = self.open[connection as usize].take() {
                    self.heard.push(Heard::Closed(number));
                    self.oracle.closes(number);
                }
            }
            Event::FallsSilent(connection) => {
                if let Some(number) = self.open[connection as usize] {
                    self.heard.push(Heard::Silent(number));
                    self.oracle.falls_silent(number);
                }
            }
            Event::Row(connection, ahead, is_in) => self.row(connection, ahead, is_in),
            Event::Batch => self.batch(),
            Event::Rests => {
                self.batch();
                self.connections.hear_nothing(Vec::new(), true);
                self.oracle.rests();
                self.look();
            }
        }
    }

    fn number(&mut self, connection: u8) -> u64 {
        if let Some(number) = self.open[connection as usize] {
            return number;
        }
        self.next_number += 1;
        self.open[connection as usize] = Some(self.next_number);
        self.heard.push(Heard::Opened(self.next_number));
        self.oracle.opens(self.next_number);
        self.next_number
    }

    fn row(&mut self, connection: u8, ahead: i64, is_in: bool) {
        let number = self.number(connection);
        // Some connections run ahead of others by more than the delay.
        let time_ns = self.next_row as i64 * 3 + i64::from(connection) * 20 + ahead;
        self.heard.push(Heard::Rows { connection: number, rows: 1 });
        self.rows.push((self.next_row, time_ns, is_in));
        if is_in && self.oracle.row(number, time_ns) {
            self.late.push(self.next_row);
        }
        self.next_row += 1;
    }

    /// What has happened is told, as after a poll.
    fn batch(&mut self) {
        let (heard, all) = (std::mem::take(&mut self.heard), std::mem::take(&mut self.rows));
        let late = std::mem::take(&mut self.late);
        let admitted: Vec<_> = all.iter().filter(|row| row.2).map(|row| (row.0, row.1)).collect();
        let rows = batch_of(&admitted);
        let stretches = self.connections.hear(heard, &rows, |row| all[row].2).unwrap();
        if rows.num_rows() > 0 {
            let before = self.watermark;
            let chunk = self.intake.take_stretches(&rows, &stretches).unwrap();
            assert_eq!(late_of(&chunk), late);
            let after = chunk.watermark;
            self.watermark = after;
            self.taken.push(Taken { rows, stretches, before, after, late });
        }
        self.look();
    }

    fn look(&mut self) {
        assert_eq!(self.connections.time_ns(), self.oracle.time_ns);
        if self.intake.raise(self.connections.time_ns()) {
            self.watermark = self.intake.without_rows(false).watermark;
        }
        let delay_ns = self.intake_delay();
        let expected = self.oracle.time_ns;
        let expected = if expected > i64::MIN { expected - delay_ns } else { i64::MIN };
        assert_eq!(self.watermark, expected, "how far the source is");
    }

    fn intake_delay(&self) -> i64 {
        self.oracle.delay_ns()
    }

    /// A replay that begins with each of the batches decides as the run did.
    fn replay(&self) {
        for first in 0..self.taken.len() {
            let mut intake = intake(self.intake_delay()).resumed(self.taken[first].before);
            for taken in &self.taken[first..] {
                let chunk = intake.take_stretches(&taken.rows, &taken.stretches).unwrap();
                assert_eq!((late_of(&chunk), chunk.watermark), (taken.late.clone(), taken.after));
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn time_is_that_of_the_connection_that_is_furthest_behind(
        delay_ns in prop_oneof![Just(0i64), 0..60i64],
        events in prop::collection::vec(event(), 0..120),
    ) {
        let mut run = Run::new(delay_ns);
        events.into_iter().for_each(|event| run.happens(event));
        run.batch();
        run.replay();
    }
}

#[test]
fn connections_that_come_and_go_without_a_gap_do_not_hold_time() {
    let mut run = Run::new(0);
    for round in 0..20u8 {
        // Each is opened before the one before it has sent its row.
        run.happens(Event::Opens((round + 1) % 5));
        run.happens(Event::Row(round % 5, 0, true));
        run.happens(Event::Batch);
        run.happens(Event::Closes((round + 4) % 5));
    }
    run.batch();
    assert!(run.oracle.time_ns > 17 * 3, "time has stayed at {}", run.oracle.time_ns);
}

#[test]
fn a_source_without_connections_is_as_far_as_its_largest_row() {
    let mut intake = intake(10);
    let rows = batch_of(&[(0, 100), (1, 89), (2, 90), (3, 120), (4, 109), (5, 110)]);
    let chunk = intake.take(&rows).unwrap();
    assert_eq!((late_of(&chunk), chunk.watermark), (vec![1, 4], 110));
}
