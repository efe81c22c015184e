//! Intake: from a source's rows to a gateway's chunk. It decides row by row whether a row is late, against the largest
//! event time that came before it. So lateness does not depend on where cycles are cut.

use std::sync::Arc;

use arrow_select::concat::concat_batches;
use arrow_select::filter::filter_record_batch;
use tidemill_core::arrow::array::cast::AsArray;
use tidemill_core::arrow::array::types::TimestampNanosecondType;
use tidemill_core::arrow::array::{Array, BooleanArray, RecordBatch, RecordBatchOptions};
use tidemill_core::arrow::schema::SchemaRef;
use tidemill_core::error::Cause;
use tidemill_core::{Batch, Cut, Expression, Faults};
use tidemill_flow::Chunk;

use crate::feed::FeedSettings;

/// The event time of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventTime {
    /// Its column, a timestamp in nanoseconds.
    pub column: usize,
    /// A row is late if its event time is more than this behind the largest one before it.
    pub delay_ns: i64,
}

/// Makes chunks of a gateway from the rows of its source: computes their columns, and decides row by row which are late.
/// A [`Feed`](crate::Feed) does this for a source; a program that pushes rows itself does it here.
///
/// ```
/// use std::sync::Arc;
/// use tidemill_engine::arrow::array::{RecordBatch, TimestampNanosecondArray};
/// use tidemill_engine::{EventTime, FeedSettings, Intake};
///
/// let times = Arc::new(TimestampNanosecondArray::from(vec![100, 250, 120])) as _;
/// let rows = RecordBatch::try_from_iter([("time", times)]).unwrap();
/// let event_time = Some(EventTime { column: 0, delay_ns: 50 });
/// let settings = FeedSettings { event_time, ..FeedSettings::default() };
/// let mut intake = Intake::new(&settings, &[rows.schema()]);
/// let chunk = intake.take(&rows).unwrap();
/// assert_eq!((chunk.events, chunk.watermark, intake.late()), (3, 200, 1));
/// ```
pub struct Intake {
    columns: Option<Vec<Arc<dyn Expression>>>,
    event_time: Option<EventTime>,
    schema: SchemaRef,
    keeps_late: bool,
    latest_ns: i64,
    late: u64,
    faults: Faults,
    /// The cut for computing intake expressions, which depend on no cut.
    cut: Cut,
}

/// What is to become of each row.
enum Sorted {
    AllInTime,
    Mixed { in_time: BooleanArray, late: BooleanArray },
}

impl Intake {
    /// For a gateway with these streams.
    pub fn new(settings: &FeedSettings, streams: &[SchemaRef]) -> Self {
        Intake {
            columns: settings.columns.clone(),
            event_time: settings.event_time,
            schema: Arc::clone(&streams[0]),
            keeps_late: streams.len() > 1,
            latest_ns: i64::MIN,
            late: 0,
            faults: Faults::default(),
            cut: Cut::first(),
        }
    }

    /// For a gateway that resumes: the event time up to which it was complete.
    pub(crate) fn resumed(mut self, watermark: i64) -> Self {
        if let Some(event_time) = self.event_time.filter(|_| watermark > i64::MIN) {
            self.latest_ns = watermark.saturating_add(event_time.delay_ns);
        }
        self
    }

    /// The number of late rows so far.
    pub fn late(&self) -> u64 {
        self.late
    }

    /// The unusable rows since this was last asked.
    pub fn faults(&mut self) -> Faults {
        std::mem::take(&mut self.faults)
    }

    /// The chunk of some rows.
    ///
    /// # Errors
    /// If a column cannot be computed for a reason that is not a single row's.
    pub fn take(&mut self, rows: &RecordBatch) -> Result<Chunk, Cause> {
        let events = rows.num_rows() as u32;
        let (rows, positions) = match self.computed(rows) {
            Err(Cause::User(_)) => self.computed_row_by_row(rows)?,
            rows => (rows?, (0..events).collect()),
        };
        let (in_time, late) = match self.sort(&rows)? {
            Sorted::AllInTime => (Batch::from_source(rows, positions.into()), None),
            Sorted::Mixed { in_time, late } => {
                (chosen(&rows, &positions, &in_time)?, Some(chosen(&rows, &positions, &late)?))
            }
        };
        let mut streams = vec![Some(in_time)];
        if self.keeps_late {
            streams.push(late.filter(|late| !late.is_empty()));
        }
        Ok(Chunk { streams, events, watermark: self.watermark_ns(), arrived_ns: None, idle: false })
    }

    /// A chunk that reports the source as idle.
    pub fn idle(&self) -> Chunk {
        let streams = vec![None; 1 + usize::from(self.keeps_late)];
        Chunk { streams, events: 0, watermark: self.watermark_ns(), arrived_ns: None, idle: true }
    }

    fn watermark_ns(&self) -> i64 {
        match self.event_time {
            Some(event_time) if self.latest_ns > i64::MIN => {
                // The largest of all says that the source has ended, which a row cannot say.
                self.latest_ns.saturating_sub(event_time.delay_ns).min(i64::MAX - 1)
            }
            _ => i64::MIN,
        }
    }

    fn computed(&self, rows: &RecordBatch) -> Result<RecordBatch, Cause> {
        let columns = match &self.columns {
            None => rows.columns().to_vec(),
            Some(columns) => {
                let computed = columns.iter().map(|column| column.evaluate(rows, &self.cut));
                computed.collect::<Result<_, _>>()?
            }
        };
        let options = RecordBatchOptions::new().with_row_count(Some(rows.num_rows()));
        let mut declared = columns.iter().zip(self.schema.fields());
        let lacks_values = declared.any(|(column, field)| !field.is_nullable() && column.null_count() > 0);
        RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options).map_err(|error| {
            let text = format!("a source's rows are not as they were declared: {error}");
            if lacks_values { Cause::User(text) } else { Cause::Bug(text) }
        })
    }

    /// The rows whose columns can be computed, and their positions. The others are counted and left out. They are found
    /// by bisection, so that one of them costs little.
    fn computed_row_by_row(&mut self, rows: &RecordBatch) -> Result<(RecordBatch, Vec<u32>), Cause> {
        let (mut parts, mut positions) = (Vec::new(), Vec::new());
        let mut waiting = vec![(0, rows.num_rows())];
        while let Some((start, end)) = waiting.pop() {
            match self.computed(&rows.slice(start, end - start)) {
                Ok(part) => {
                    parts.push(part);
                    positions.extend(start as u32..end as u32);
                }
                Err(cause @ Cause::User(_)) if end - start == 1 => {
                    self.faults
                        .add(format!("a row was left out, for its columns cannot be computed: {cause}"));
                }
                Err(Cause::User(_)) => {
                    let middle = start + (end - start) / 2;
                    // The first half comes off first.
                    waiting.extend([(middle, end), (start, middle)]);
                }
                Err(cause) => return Err(cause),
            }
        }
        let rows = concat_batches(&self.schema, &parts).map_err(|error| Cause::Bug(error.to_string()))?;
        Ok((rows, positions))
    }

    /// Decides row by row which rows are late, and which have no event time at all.
    fn sort(&mut self, rows: &RecordBatch) -> Result<Sorted, Cause> {
        let Some(event_time) = self.event_time else { return Ok(Sorted::AllInTime) };
        let column = rows.column(event_time.column);
        let Some(times) = column.as_primitive_opt::<TimestampNanosecondType>() else {
            let found = column.data_type();
            return Err(Cause::Bug(format!("the event time is {found} and not a timestamp in nanoseconds")));
        };
        let before_ns = self.latest_ns;
        if times.null_count() == 0 && self.all_in_time(times.values(), event_time.delay_ns) {
            return Ok(Sorted::AllInTime);
        }
        self.latest_ns = before_ns;
        let (mut in_time, mut late) = (Vec::with_capacity(rows.num_rows()), Vec::new());
        for time_ns in times.iter() {
            let is_late = time_ns.is_some_and(|time_ns| time_ns < self.watermark_ns());
            in_time.push(time_ns.is_some() && !is_late);
            late.push(is_late);
            match time_ns {
                Some(time_ns) => self.latest_ns = self.latest_ns.max(time_ns),
                None => self.faults.add("a row without event time (it is NULL) was left out"),
            }
            self.late += u64::from(is_late);
        }
        Ok(Sorted::Mixed { in_time: in_time.into(), late: late.into() })
    }

    /// The common case, without a branch per row.
    fn all_in_time(&mut self, times_ns: &[i64], delay_ns: i64) -> bool {
        let mut latest_ns = self.latest_ns;
        let mut in_time = true;
        for time_ns in times_ns {
            in_time &= *time_ns >= latest_ns.saturating_sub(delay_ns);
            latest_ns = latest_ns.max(*time_ns);
        }
        self.latest_ns = latest_ns;
        in_time
    }
}

/// The rows that a mask selects, at their positions.
fn chosen(rows: &RecordBatch, positions: &[u32], mask: &BooleanArray) -> Result<Batch, Cause> {
    let positions = mask.values().set_indices().map(|row| positions[row]).collect();
    let rows = filter_record_batch(rows, mask).map_err(|error| Cause::Bug(error.to_string()))?;
    Ok(Batch::from_source(rows, positions))
}
