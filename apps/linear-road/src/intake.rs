//! Converts events to the columns that the query's source takes.

use std::ops::Range;
use std::sync::Arc;

use tidemill_engine::arrow::array::types::{UInt8Type, UInt16Type, UInt32Type, UInt64Type};
use tidemill_engine::arrow::array::{ArrayRef, ArrowPrimitiveType, PrimitiveArray, RecordBatch};
use tidemill_engine::arrow::schema::SchemaRef;
use tidemill_engine::{Batch, Chunk};

use crate::event::{BalanceQuery, Event, ExpenditureQuery, Report};
use crate::schema;

/// Events in columns, until they are taken as a [`Chunk`].
///
/// ```
/// use tidemill_linear_road::event::{BalanceQuery, Event};
/// use tidemill_linear_road::intake::EventColumns;
/// let mut columns = EventColumns::default();
/// columns.push(&Event::Balance(BalanceQuery { time: 3, vid: 7, qid: 0 }));
/// let chunk = columns.take();
/// assert_eq!((chunk.events, chunk.watermark), (1, 3));
/// assert!(columns.is_empty());
/// ```
#[derive(Debug, Default)]
pub struct EventColumns {
    events: u32,
    last_time: u16,
    reports: Reports,
    balances: Vec<(u32, BalanceQuery)>,
    expenditures: Vec<(u32, ExpenditureQuery)>,
}

/// Position reports in columns.
#[derive(Clone, Debug, Default)]
pub(crate) struct Reports {
    pub positions: Vec<u32>,
    pub time: Vec<u16>,
    pub vid: Vec<u32>,
    pub speed: Vec<u8>,
    pub xway: Vec<u16>,
    pub lane: Vec<u8>,
    pub dir: Vec<u8>,
    pub seg: Vec<u8>,
    pub pos: Vec<u32>,
}

impl EventColumns {
    /// Appends an event.
    #[inline]
    pub fn push(&mut self, event: &Event) {
        let position = self.events;
        match event {
            Event::Report(report) => self.reports.push(position, report),
            Event::Balance(query) => self.balances.push((position, *query)),
            Event::Expenditure(query) => self.expenditures.push((position, *query)),
            Event::TravelTime(_) => {}
        }
        self.last_time = event.time();
        self.events += 1;
    }

    /// The number of events.
    pub fn len(&self) -> usize {
        self.events as usize
    }

    /// Whether there are no events.
    pub fn is_empty(&self) -> bool {
        self.events == 0
    }

    /// Takes the events out, to be pushed into the source's gateway.
    pub fn take(&mut self) -> Chunk {
        let EventColumns { events, last_time, reports, balances, expenditures } = std::mem::take(self);
        let streams = vec![reports.into_batch(), balance_batch(&balances), expenditure_batch(&expenditures)];
        Chunk { streams, events, watermark: i64::from(last_time), arrived_ns: None, idle: false }
    }
}

impl Reports {
    #[inline]
    pub fn push(&mut self, position: u32, report: &Report) {
        self.positions.push(position);
        self.time.push(report.time);
        self.vid.push(report.vid);
        self.speed.push(report.speed);
        self.xway.push(report.xway);
        self.lane.push(report.lane);
        self.dir.push(report.dir);
        self.seg.push(report.seg);
        self.pos.push(report.pos);
    }

    pub fn with_capacity(rows: usize) -> Self {
        Reports {
            positions: Vec::with_capacity(rows),
            time: Vec::with_capacity(rows),
            vid: Vec::with_capacity(rows),
            speed: Vec::with_capacity(rows),
            xway: Vec::with_capacity(rows),
            lane: Vec::with_capacity(rows),
            dir: Vec::with_capacity(rows),
            seg: Vec::with_capacity(rows),
            pos: Vec::with_capacity(rows),
        }
    }

    /// Appends `rows` of other reports with shifted ids and mapped positions.
    pub fn extend_shifted(
        &mut self,
        from: &Reports,
        rows: Range<usize>,
        vid_shift: u32,
        xway_shift: u16,
        position: impl Fn(u32) -> u32,
    ) {
        self.positions.extend(from.positions[rows.clone()].iter().map(|base| position(*base)));
        self.time.extend_from_slice(&from.time[rows.clone()]);
        self.vid.extend(from.vid[rows.clone()].iter().map(|vid| vid + vid_shift));
        self.speed.extend_from_slice(&from.speed[rows.clone()]);
        self.xway.extend(from.xway[rows.clone()].iter().map(|xway| xway + xway_shift));
        self.lane.extend_from_slice(&from.lane[rows.clone()]);
        self.dir.extend_from_slice(&from.dir[rows.clone()]);
        self.seg.extend_from_slice(&from.seg[rows.clone()]);
        self.pos.extend_from_slice(&from.pos[rows]);
    }

    pub fn into_batch(self) -> Option<Batch> {
        let columns = vec![
            array::<UInt16Type>(self.time),
            array::<UInt32Type>(self.vid),
            array::<UInt8Type>(self.speed),
            array::<UInt16Type>(self.xway),
            array::<UInt8Type>(self.lane),
            array::<UInt8Type>(self.dir),
            array::<UInt8Type>(self.seg),
            array::<UInt32Type>(self.pos),
        ];
        batch(schema::reports(), columns, self.positions)
    }
}

/// Balance queries, each with its position.
pub(crate) fn balance_batch(queries: &[(u32, BalanceQuery)]) -> Option<Batch> {
    let columns = vec![
        array::<UInt16Type>(queries.iter().map(|(_, query)| query.time).collect()),
        array::<UInt32Type>(queries.iter().map(|(_, query)| query.vid).collect()),
        array::<UInt64Type>(queries.iter().map(|(_, query)| query.qid).collect()),
    ];
    batch(schema::balance_queries(), columns, queries.iter().map(|(position, _)| *position).collect())
}

/// Expenditure queries, each with its position.
pub(crate) fn expenditure_batch(queries: &[(u32, ExpenditureQuery)]) -> Option<Batch> {
    let columns = vec![
        array::<UInt16Type>(queries.iter().map(|(_, query)| query.time).collect()),
        array::<UInt32Type>(queries.iter().map(|(_, query)| query.vid).collect()),
        array::<UInt16Type>(queries.iter().map(|(_, query)| query.xway).collect()),
        array::<UInt64Type>(queries.iter().map(|(_, query)| query.qid).collect()),
        array::<UInt8Type>(queries.iter().map(|(_, query)| query.day).collect()),
    ];
    batch(schema::expenditure_queries(), columns, queries.iter().map(|(position, _)| *position).collect())
}

fn array<T: ArrowPrimitiveType>(values: Vec<T::Native>) -> ArrayRef {
    Arc::new(PrimitiveArray::<T>::new(values.into(), None))
}

fn batch(schema: SchemaRef, columns: Vec<ArrayRef>, positions: Vec<u32>) -> Option<Batch> {
    if positions.is_empty() {
        return None;
    }
    let rows = RecordBatch::try_new(schema, columns).expect("the columns are built for this schema");
    Some(Batch::from_source(rows, positions.into()))
}
