//! `sequence`: integers in equal steps, one per event.

use std::sync::Arc;
use std::time::Duration;

use arrow_array::{ArrayRef, Int64Array, RecordBatch, TimestampNanosecondArray};
use arrow_schema::{DataType, Field, Schema, SchemaRef, TimeUnit};
use tidemill_core::error::Cause;
use tidemill_core::source::{Polled, Progress, Source};

use super::pace::{EventTimes, Pace};

/// The settings of a [`Sequence`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SequenceConfig {
    /// The first value.
    pub start: i64,
    /// How many values; `None`: endless.
    pub count: Option<u64>,
    /// The step from one value to the next; may be negative or 0.
    pub step: i64,
    /// Values per second of real time and of event time; `None`: as fast as possible, with a million per
    /// second of event time.
    pub rate: Option<u64>,
    /// Event time of the first value, nanoseconds since 1970.
    pub start_time_ns: i64,
}

impl Default for SequenceConfig {
    /// 0, 1, 2 ... as fast as possible, from 1970 on.
    fn default() -> Self {
        SequenceConfig { start: 0, count: None, step: 1, rate: None, start_time_ns: 0 }
    }
}

/// The columns of a [`Sequence`]: `value` BIGINT, `event_time` TIMESTAMP in nanoseconds.
pub fn sequence_schema() -> SchemaRef {
    Arc::new(Schema::new(vec![
        Field::new("value", DataType::Int64, false),
        Field::new("event_time", DataType::Timestamp(TimeUnit::Nanosecond, None), false),
    ]))
}

/// Counts: one row per value, in order, with increasing event times.
///
/// ```
/// use std::time::Duration;
/// use tidemill_connect::generator::{Sequence, SequenceConfig};
/// use tidemill_core::arrow::array::{cast::AsArray, types::Int64Type};
/// use tidemill_core::source::{Polled, Source};
///
/// let mut odd = Sequence::new(SequenceConfig { start: 1, step: 2, count: Some(3), ..Default::default() })?;
/// let Polled::Rows(rows) = odd.poll(Duration::ZERO)? else { panic!("there are rows") };
/// assert_eq!(rows.column(0).as_primitive::<Int64Type>().values(), &[1, 3, 5]);
/// assert!(matches!(odd.poll(Duration::ZERO)?, Polled::Ended));
/// # Ok::<(), tidemill_core::Cause>(())
/// ```
#[derive(Clone, Debug)]
pub struct Sequence {
    config: SequenceConfig,
    schema: SchemaRef,
    pace: Pace,
    times: EventTimes,
}

impl Sequence {
    /// A sequence before its first value.
    ///
    /// # Errors
    /// [`Cause::user`] if the rate is out of range, or the last value or event time would be.
    pub fn new(config: SequenceConfig) -> Result<Sequence, Cause> {
        let times = EventTimes::new(config.start_time_ns, config.rate)?;
        let sequence = Sequence { config, schema: sequence_schema(), pace: Pace::new(config.rate)?, times };
        if let Some(last) = config.count.and_then(|count| count.checked_sub(1)) {
            sequence.value(last)?;
            times.append(last, 1, &mut Vec::new())?;
        }
        Ok(sequence)
    }

    fn value(&self, event: u64) -> Result<i64, Cause> {
        let SequenceConfig { start, step, .. } = self.config;
        let value = i128::from(start) + i128::from(step) * i128::from(event);
        i64::try_from(value).map_err(|_| {
            Cause::user(format!(
                "sequence: value {event} from {start} in steps of {step} is {value}, which does not fit into \
                 BIGINT; use a smaller count or step"
            ))
        })
    }

    fn rows(&self, first: u64, count: usize) -> Result<RecordBatch, Cause> {
        let start = self.value(first)?;
        self.value(first + count as u64 - 1)?;
        let step = self.config.step;
        let values: Vec<i64> = (0..count as i64).map(|index| start + index * step).collect();
        let mut times = Vec::with_capacity(count);
        self.times.append(first, count, &mut times)?;
        let columns: Vec<ArrayRef> =
            vec![Arc::new(Int64Array::from(values)), Arc::new(TimestampNanosecondArray::from(times))];
        RecordBatch::try_new(Arc::clone(&self.schema), columns)
            .map_err(|error| Cause::bug(error.to_string()).with_source(error))
    }
}

impl Source for Sequence {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn poll(&mut self, wait: Duration) -> Result<Polled, Cause> {
        self.pace.next(self.config.count, wait).polled(|first, count| self.rows(first, count))
    }

    fn progress(&self) -> Progress {
        self.pace.progress(self.config.count)
    }

    fn is_finite(&self) -> bool {
        self.config.count.is_some()
    }

    fn is_repeatable(&self) -> bool {
        true
    }
}
