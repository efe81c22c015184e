//! From a source's rows to a gateway's chunk. It decides row by row whether a row is late, against the event time
//! that its source had reached before it. So lateness does not depend on where cycles are cut.

use std::ops::Range;
use std::sync::Arc;

use arrow_select::concat::concat_batches;
use arrow_select::filter::filter_record_batch;
use tidemill_core::arrow::array::{Array, BooleanArray, RecordBatch, RecordBatchOptions};
use tidemill_core::arrow::schema::SchemaRef;
use tidemill_core::error::{Cause, Fault};
use tidemill_core::{Batch, Cut, Expression, Faults, Stretch};
use tidemill_flow::{Chunk, guard};
use tidemill_journal::{Positions, Record};

use crate::event_times::event_times;
use crate::feed_settings::{EventTime, FeedSettings};
use crate::in_time::Reached;

/// Makes chunks of a gateway from the rows of its source: computes their columns, and decides row by row which are late.
/// A [`Feed`](crate::Feed) does this for a source; a program that pushes rows itself does it here.
///
/// ```
/// use std::sync::Arc;
/// use tidemill_engine::arrow::array::{RecordBatch, TimestampNanosecondArray};
/// use tidemill_engine::{ChunkBuilder, EventTime, FeedSettings};
///
/// let times = Arc::new(TimestampNanosecondArray::from(vec![100, 250, 120])) as _;
/// let rows = RecordBatch::try_from_iter([("time", times)]).unwrap();
/// let event_time = Some(EventTime { column: 0, delay_ns: 50 });
/// let settings = FeedSettings { event_time, ..FeedSettings::default() };
/// let mut chunks = ChunkBuilder::new(&settings, &[rows.schema()]);
/// let chunk = chunks.take(&rows).unwrap();
/// assert_eq!((chunk.events, chunk.watermark, chunks.late()), (3, 200, 1));
/// ```
pub struct ChunkBuilder {
    columns: Option<Vec<Arc<dyn Expression>>>,
    event_time: Option<EventTime>,
    schema: SchemaRef,
    keeps_late: bool,
    /// How far the event time of the source is.
    time_ns: i64,
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

impl ChunkBuilder {
    /// For a gateway with these streams.
    pub fn new(settings: &FeedSettings, streams: &[SchemaRef]) -> Self {
        ChunkBuilder {
            columns: settings.columns.clone(),
            event_time: settings.event_time,
            schema: Arc::clone(&streams[0]),
            keeps_late: streams.len() > 1,
            time_ns: i64::MIN,
            late: 0,
            faults: Faults::default(),
            cut: Cut::first(),
        }
    }

    /// For a gateway that resumes: the event time up to which it was complete.
    pub(crate) fn resumed(mut self, watermark: i64) -> Self {
        self.time_ns = self.event_time.map_or(i64::MIN, |event_time| event_time.before(watermark));
        self
    }

    /// Whether the source is not as far as this.
    pub(crate) fn is_behind(&self, time_ns: i64) -> bool {
        self.time_ns < time_ns
    }

    /// The source is as far as this, though no row says so; whether it was not.
    pub(crate) fn raise(&mut self, time_ns: i64) -> bool {
        let is_raised = self.is_behind(time_ns);
        self.time_ns = self.time_ns.max(time_ns);
        is_raised
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
        self.take_stretches(rows, &[])
    }

    /// The chunk of some rows of a source with connections, and over which of these they came.
    pub(crate) fn take_stretches(
        &mut self,
        rows: &RecordBatch,
        stretches: &[Stretch],
    ) -> Result<Chunk, Cause> {
        let events = rows.num_rows() as u32;
        self.take_at(rows, (0..events).collect(), events, stretches)
    }

    /// The chunk of a journaled record without the rows at some positions. These count as events, and their event time
    /// counts as before: the lateness and the watermarks of all other rows, which may be in logged cuts, stay the same.
    ///
    /// # Errors
    /// If a column of another row cannot be computed for a reason that is not a single row's.
    pub(crate) fn take_without(&mut self, record: &Record, skipped: &Positions) -> Result<Chunk, Cause> {
        let Record { rows, stretches, .. } = record;
        if skipped.is_empty() {
            return self.take_stretches(rows, stretches);
        }
        let is_kept = |row: u32| {
            let position = record.start + u64::from(row);
            skipped.within(position..position + 1).is_empty()
        };
        // A skipped row may be one that cannot even be computed. Then its time is not known and does not count.
        let Ok(mut chunk) = guard(|| self.take_stretches(rows, stretches)) else {
            let events = rows.num_rows() as u32;
            let kept: BooleanArray = (0..events).map(|row| Some(is_kept(row))).collect();
            let kept_rows = filter_record_batch(rows, &kept)
                .map_err(|error| Cause::bug(error.to_string()).with_source(error))?;
            return self.take_at(
                &kept_rows,
                (0..events).filter(|row| is_kept(*row)).collect(),
                events,
                stretches,
            );
        };
        for stream in &mut chunk.streams {
            let Some(batch) = stream else { continue };
            let kept: BooleanArray = batch.positions.iter().map(|row| Some(is_kept(*row))).collect();
            *batch = chosen(&batch.rows, &batch.positions, &kept)?;
        }
        Ok(chunk)
    }

    /// Checks that the columns of some rows can be computed, or that these rows can be left out one by one.
    ///
    /// # Errors
    /// If one of the rows ends the query.
    pub(crate) fn check(&self, rows: &RecordBatch) -> Result<(), Cause> {
        match self.computed(rows) {
            Err(Cause { fault: Fault::User, .. }) | Ok(_) => Ok(()),
            Err(cause) => Err(cause),
        }
    }

    /// The chunk of this many events, of which there are rows at these positions.
    fn take_at(
        &mut self,
        rows: &RecordBatch,
        positions: Vec<u32>,
        events: u32,
        stretches: &[Stretch],
    ) -> Result<Chunk, Cause> {
        let (rows, positions) = match self.computed(rows) {
            Err(Cause { fault: Fault::User, .. }) => {
                let (rows, kept) = self.computed_row_by_row(rows)?;
                (rows, kept.into_iter().map(|row| positions[row as usize]).collect())
            }
            rows => (rows?, positions),
        };
        let (in_time, late) = match self.sort(&rows, &positions, stretches)? {
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
        self.without_rows(true)
    }

    /// A chunk without rows: it reports how far the source is, and whether it is idle.
    pub(crate) fn without_rows(&self, idle: bool) -> Chunk {
        let streams = vec![None; 1 + usize::from(self.keeps_late)];
        Chunk { streams, events: 0, watermark: self.watermark_ns(), arrived_ns: None, idle }
    }

    fn watermark_ns(&self) -> i64 {
        match self.event_time {
            Some(event_time) if self.time_ns > i64::MIN => {
                // The largest of all says that the source has ended, which a row cannot say.
                self.time_ns.saturating_sub(event_time.delay_ns).min(i64::MAX - 1)
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
            let text = format!("the rows of a source do not match its declaration: {error}");
            if lacks_values { Cause::user(text) } else { Cause::bug(text) }
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
                Err(cause @ Cause { fault: Fault::User, .. }) if end - start == 1 => {
                    self.faults
                        .add(format!("a row was skipped because its columns cannot be computed: {cause}"));
                }
                Err(Cause { fault: Fault::User, .. }) => {
                    let middle = start + (end - start) / 2;
                    // The first half comes off first.
                    waiting.extend([(middle, end), (start, middle)]);
                }
                Err(cause) => return Err(cause),
            }
        }
        let rows = concat_batches(&self.schema, &parts)
            .map_err(|error| Cause::bug(error.to_string()).with_source(error))?;
        Ok((rows, positions))
    }

    /// Decides row by row which rows are late, and which have no event time at all. The rows have these positions among those
    /// that the stretches are of.
    fn sort(
        &mut self,
        rows: &RecordBatch,
        positions: &[u32],
        stretches: &[Stretch],
    ) -> Result<Sorted, Cause> {
        let Some(event_time) = self.event_time else { return Ok(Sorted::AllInTime) };
        let times = event_times(rows.column(event_time.column))?;
        let of_all = [Stretch::of_all(u32::MAX)];
        let stretches = if stretches.is_empty() { &of_all[..] } else { stretches };
        let before_ns = self.time_ns;
        if times.null_count() == 0 && self.all_in_time(times.values(), positions, stretches) {
            return Ok(Sorted::AllInTime);
        }
        self.time_ns = before_ns;
        let (mut in_time, mut late) = (Vec::with_capacity(rows.num_rows()), Vec::new());
        for (stretch, range) in ranges(stretches, positions) {
            let mut own_ns = stretch.own_ns;
            self.time_ns = self.time_ns.max(stretch.time_at(own_ns));
            for time_ns in times.slice(range.start, range.len()).iter() {
                let is_late = time_ns.is_some_and(|time_ns| time_ns < self.watermark_ns());
                in_time.push(time_ns.is_some() && !is_late);
                late.push(is_late);
                self.late += u64::from(is_late);
                match time_ns {
                    Some(time_ns) => own_ns = own_ns.max(time_ns),
                    None => self.faults.add("a row was skipped because its event time is NULL"),
                }
                self.time_ns = self.time_ns.max(stretch.time_at(own_ns));
            }
        }
        Ok(Sorted::Mixed { in_time: in_time.into(), late: late.into() })
    }

    /// The common case, in which no row has to be set apart.
    fn all_in_time(&mut self, times_ns: &[i64], positions: &[u32], stretches: &[Stretch]) -> bool {
        let delay_ns = self.event_time.map_or(0, |event_time| event_time.delay_ns);
        let mut all_in_time = true;
        for (stretch, range) in ranges(stretches, positions) {
            let mut reached =
                Reached { time_ns: self.time_ns, own_ns: stretch.own_ns, others_ns: stretch.others_ns };
            all_in_time &= reached.pass(&times_ns[range], delay_ns);
            self.time_ns = reached.time_ns;
        }
        all_in_time
    }
}

/// The rows of each stretch, of rows with these positions among all that the stretches are of.
fn ranges<'a>(
    stretches: &'a [Stretch],
    positions: &'a [u32],
) -> impl Iterator<Item = (&'a Stretch, Range<usize>)> {
    let (mut position, mut row) = (0u32, 0);
    stretches.iter().map(move |stretch| {
        position = position.saturating_add(stretch.rows);
        let start = row;
        row += positions[row..].partition_point(|of_row| *of_row < position);
        (stretch, start..row)
    })
}

/// The rows that a mask selects, at their positions.
fn chosen(rows: &RecordBatch, positions: &[u32], mask: &BooleanArray) -> Result<Batch, Cause> {
    let positions = mask.values().set_indices().map(|row| positions[row]).collect();
    let rows =
        filter_record_batch(rows, mask).map_err(|error| Cause::bug(error.to_string()).with_source(error))?;
    Ok(Batch::from_source(rows, positions))
}
