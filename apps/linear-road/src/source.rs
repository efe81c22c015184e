//! `linear_road_reports`: the generator's traffic as a source of rows, for queries in SQL.

use std::sync::Arc;
use std::time::Duration;

use tidemill_engine::arrow::array::{
    ArrayRef, Int16Array, Int32Array, Int64Array, RecordBatch, TimestampNanosecondArray,
};
use tidemill_engine::arrow::schema::{DataType, Field, Schema, SchemaRef, TimeUnit};
use tidemill_engine::{Cause, Polled, Progress, Source};

use crate::event::{Event, Report};
use crate::generator::{Generator, GeneratorConfig};

/// Rows of a full batch.
const BATCH_ROWS: usize = 8192;
/// The value of fields that an event does not have.
const UNUSED: i16 = -1;

/// The columns of [`LinearRoadReports`]: the 15 fields of the benchmark's input lines in their order, and
/// `event_time`, the second `time` as a TIMESTAMP in nanoseconds, from 1970 on.
///
/// `time`, `vid`, `xway`, `pos` are INT, `qid` is BIGINT, the others are SMALLINT. `m_init` and `m_end` are
/// the first and last segment of a trip (type 4). Fields that an event does not have are -1.
pub fn linear_road_reports_schema() -> SchemaRef {
    let field = |(name, data_type): (&str, DataType)| Field::new(name, data_type, false);
    let columns = [
        ("type", DataType::Int16),
        ("time", DataType::Int32),
        ("vid", DataType::Int32),
        ("speed", DataType::Int16),
        ("xway", DataType::Int32),
        ("lane", DataType::Int16),
        ("dir", DataType::Int16),
        ("seg", DataType::Int16),
        ("pos", DataType::Int32),
        ("qid", DataType::Int64),
        ("m_init", DataType::Int16),
        ("m_end", DataType::Int16),
        ("dow", DataType::Int16),
        ("tod", DataType::Int16),
        ("day", DataType::Int16),
        ("event_time", DataType::Timestamp(TimeUnit::Nanosecond, None)),
    ];
    Arc::new(Schema::new(columns.into_iter().map(field).collect::<Vec<_>>()))
}

/// Position reports and queries of cars (types 0, 2, 3 and 4), as the generator makes them, as fast as they
/// are taken. Ordered by time; finite.
///
/// ```
/// use std::time::Duration;
/// use tidemill_engine::{Polled, Source};
/// use tidemill_linear_road::generator::GeneratorConfig;
/// use tidemill_linear_road::source::LinearRoadReports;
///
/// let mut reports = LinearRoadReports::new(GeneratorConfig { minutes: 1, ..GeneratorConfig::default() })?;
/// let Polled::Rows(rows) = reports.poll(Duration::ZERO)? else { panic!("there are rows") };
/// assert_eq!(rows.schema().field(2).name(), "vid");
/// # Ok::<(), tidemill_engine::Cause>(())
/// ```
#[derive(Debug)]
pub struct LinearRoadReports {
    generator: Generator,
    schema: SchemaRef,
    /// Events of whole seconds; those before `next` were returned already.
    events: Vec<Event>,
    next: usize,
    done: u64,
}

impl LinearRoadReports {
    /// The traffic of this configuration from second 0 on.
    ///
    /// # Errors
    /// [`Cause::user`] if such traffic is not possible.
    pub fn new(config: GeneratorConfig) -> Result<LinearRoadReports, Cause> {
        let generator =
            Generator::new(config).map_err(|error| Cause::user(error.to_string()).with_source(error))?;
        let schema = linear_road_reports_schema();
        Ok(LinearRoadReports { generator, schema, events: Vec::new(), next: 0, done: 0 })
    }

    /// Makes more seconds until there is a full batch of events, or the run is over.
    fn fill(&mut self) {
        if self.events.len() - self.next >= BATCH_ROWS {
            return;
        }
        self.events.drain(..self.next);
        self.next = 0;
        while self.events.len() < BATCH_ROWS && self.generator.next_second(&mut self.events) {}
    }
}

impl Source for LinearRoadReports {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn poll(&mut self, _wait: Duration) -> Result<Polled, Cause> {
        self.fill();
        let end = self.events.len().min(self.next + BATCH_ROWS);
        let events = &self.events[self.next..end];
        if events.is_empty() {
            return Ok(Polled::Ended);
        }
        let lines = events.iter().map(ReportColumns::of).collect::<Result<Vec<_>, _>>()?;
        self.done += events.len() as u64;
        self.next = end;
        rows(&lines, &self.schema).map(Polled::Rows)
    }

    fn progress(&self) -> Progress {
        Progress { done: self.done, total: None }
    }

    fn is_finite(&self) -> bool {
        true
    }
}

/// An event with all fields of an input line.
struct ReportColumns {
    kind: i16,
    time: i32,
    vid: i32,
    speed: i16,
    xway: i32,
    lane: i16,
    dir: i16,
    seg: i16,
    pos: i32,
    qid: i64,
    m_init: i16,
    m_end: i16,
    dow: i16,
    tod: i16,
    day: i16,
}

impl ReportColumns {
    fn of(event: &Event) -> Result<ReportColumns, Cause> {
        let mut line = ReportColumns::empty(event.time());
        match event {
            Event::Report(report) => {
                line.fill_report(report);
                line.vid = vehicle(report.vid)?;
            }
            Event::Balance(query) => {
                line.vid = vehicle(query.vid)?;
                (line.kind, line.qid) = (2, query.qid as i64);
            }
            Event::Expenditure(query) => {
                line.vid = vehicle(query.vid)?;
                (line.kind, line.qid) = (3, query.qid as i64);
                (line.xway, line.day) = (query.xway.into(), query.day.into());
            }
            Event::TravelTime(query) => {
                line.vid = vehicle(query.vid)?;
                (line.kind, line.qid, line.xway) = (4, query.qid as i64, query.xway.into());
                (line.m_init, line.m_end) = (query.seg_from.into(), query.seg_to.into());
                // A minute of the day is at most 1440.
                (line.dow, line.tod) = (query.day_of_week.into(), query.minute_of_day as i16);
            }
        }
        Ok(line)
    }

    fn empty(time: u16) -> ReportColumns {
        ReportColumns {
            kind: 0,
            time: time.into(),
            vid: UNUSED.into(),
            speed: UNUSED,
            xway: UNUSED.into(),
            lane: UNUSED,
            dir: UNUSED,
            seg: UNUSED,
            pos: UNUSED.into(),
            qid: UNUSED.into(),
            m_init: UNUSED,
            m_end: UNUSED,
            dow: UNUSED,
            tod: UNUSED,
            day: UNUSED,
        }
    }

    fn fill_report(&mut self, report: &Report) {
        (self.speed, self.xway) = (report.speed.into(), report.xway.into());
        (self.lane, self.dir, self.seg) = (report.lane.into(), report.dir.into(), report.seg.into());
        // A position is at most 527,999 ft.
        self.pos = report.pos as i32;
    }
}

fn vehicle(vid: u32) -> Result<i32, Cause> {
    i32::try_from(vid).map_err(|_| {
        Cause::user(format!(
            "linear_road_reports: vehicle id {vid} does not fit into INT; choose fewer expressways or fewer minutes"
        ))
    })
}

/// The columns of a batch.
fn rows(lines: &[ReportColumns], schema: &SchemaRef) -> Result<RecordBatch, Cause> {
    let small = |field: fn(&ReportColumns) -> i16| -> ArrayRef {
        Arc::new(Int16Array::from_iter_values(lines.iter().map(field)))
    };
    let int = |field: fn(&ReportColumns) -> i32| -> ArrayRef {
        Arc::new(Int32Array::from_iter_values(lines.iter().map(field)))
    };
    let event_times = lines.iter().map(|line| i64::from(line.time) * 1_000_000_000);
    let columns = vec![
        small(|line| line.kind),
        int(|line| line.time),
        int(|line| line.vid),
        small(|line| line.speed),
        int(|line| line.xway),
        small(|line| line.lane),
        small(|line| line.dir),
        small(|line| line.seg),
        int(|line| line.pos),
        Arc::new(Int64Array::from_iter_values(lines.iter().map(|line| line.qid))),
        small(|line| line.m_init),
        small(|line| line.m_end),
        small(|line| line.dow),
        small(|line| line.tod),
        small(|line| line.day),
        Arc::new(TimestampNanosecondArray::from_iter_values(event_times)),
    ];
    RecordBatch::try_new(Arc::clone(schema), columns)
        .map_err(|error| Cause::bug(error.to_string()).with_source(error))
}
