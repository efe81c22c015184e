//! Admission: which rows of a live source may come in, judged by their event times. This is decided once, before a row
//! has a position or is journaled, because it depends on the clock: a replay must not decide again.

use std::time::Duration;

use arrow_select::filter::filter_record_batch;
use tidemill_core::arrow::array::temporal_conversions::timestamp_ns_to_datetime;
use tidemill_core::arrow::array::{Array, BooleanArray, RecordBatch, TimestampNanosecondArray};
use tidemill_core::arrow::schema::SchemaRef;
use tidemill_core::error::{Cause, Fault};
use tidemill_core::{Admission, Clock, Faults, Refused, Source};

use crate::event_times::EventTimes;
use crate::feed_settings::{AdmissionClock, FeedSettings};

/// Asked for each batch of a source before it is passed on, unless the source itself asks.
pub(crate) struct AdmissionFilter {
    admission: Option<Box<dyn Admission>>,
    faults: Faults,
}

impl AdmissionFilter {
    /// The gate between a source and a gateway with these streams.
    ///
    /// A source that returns the same rows each time is not filtered, because the rows that a journal has are known
    /// only by their number.
    pub fn new(source: &mut dyn Source, settings: &FeedSettings, streams: &[SchemaRef]) -> AdmissionFilter {
        let lives = !source.is_finite() || settings.max_ahead.is_some();
        let admission = if lives && !source.is_repeatable() {
            TimeBound::of(settings, streams).and_then(|times| source.admit_by(Box::new(times)))
        } else {
            None
        };
        AdmissionFilter { admission, faults: Faults::default() }
    }

    /// The rows of the source that may come in, and which these are; `None`: all. Tells the source of the others.
    pub fn admit(
        &mut self,
        rows: RecordBatch,
        source: &mut dyn Source,
    ) -> Result<(RecordBatch, Option<BooleanArray>), Cause> {
        let Some(admission) = &mut self.admission else { return Ok((rows, None)) };
        let refused = admission.refused(&rows)?;
        if refused.rows.is_empty() {
            return Ok((rows, None));
        }
        source.refused_rows(&rows, &refused)?;
        (0..refused.rows.len()).for_each(|place| self.fault(refused.reason(place)));
        let admitted = refused.admitted(rows.num_rows());
        let rows = filter_record_batch(&rows, &admitted)
            .map_err(|error| Cause::bug(error.to_string()).with_source(error))?;
        Ok((rows, Some(admitted)))
    }

    fn fault(&mut self, reason: &str) {
        if self.faults.samples.len() < Faults::SAMPLES_MAX {
            self.faults.add(format!("a row was skipped: {reason}"))
        } else {
            self.faults.count += 1
        }
    }

    /// The faults since this was last asked.
    pub fn faults(&mut self) -> Faults {
        std::mem::take(&mut self.faults)
    }
}

/// Refuses rows without event time, and those whose event time is too far ahead of the clock.
struct TimeBound {
    event_times: EventTimes,
    name: String,
    max_ahead: Option<Duration>,
    clock: AdmissionClock,
}

impl TimeBound {
    /// `None` if the stream has no event time.
    fn of(settings: &FeedSettings, streams: &[SchemaRef]) -> Option<TimeBound> {
        let event_times = EventTimes::of(settings)?;
        let name = streams[0].field(event_times.column).name().clone();
        Some(TimeBound { event_times, name, max_ahead: settings.max_ahead, clock: settings.clock.clone() })
    }

    /// Like [`Admission::refused`], if the event time of a row cannot be computed.
    fn refused_row_by_row(&mut self, rows: &RecordBatch) -> Result<Refused, Cause> {
        let mut refused = Refused::default();
        for row in 0..rows.num_rows() {
            let alone = rows.slice(row, 1);
            let reason = match self.event_times.of_rows(&alone) {
                Err(Cause { fault: Fault::User, message: reason, .. }) => {
                    format!("its event time '{}' cannot be computed: {reason}", self.name)
                }
                _ => {
                    let own = self.refused(&alone)?;
                    if own.rows.is_empty() {
                        continue;
                    }
                    own.reason(0).to_owned()
                }
            };
            refused.add(row, || reason);
        }
        Ok(refused)
    }

    /// The latest event time that may come in.
    fn latest_ns(&self) -> i64 {
        let Some(max_ahead) = self.max_ahead else { return i64::MAX };
        let latest = u128::from(self.clock.now_ns()) + max_ahead.as_nanos();
        i64::try_from(latest).unwrap_or(i64::MAX)
    }

    fn too_far(&self, time_ns: i64) -> String {
        let (name, max_ahead) = (&self.name, spelled(self.max_ahead.unwrap_or_default()));
        format!(
            "its event time '{name}', {}, is more than {max_ahead} ahead of this machine's clock, which says {}; send \
             times in UTC, or give the source a longer max_ahead",
            shown(time_ns),
            shown(i64::try_from(self.clock.now_ns()).unwrap_or(i64::MAX))
        )
    }
}

impl Admission for TimeBound {
    fn refused(&mut self, rows: &RecordBatch) -> Result<Refused, Cause> {
        let times = match self.event_times.of_rows(rows) {
            Err(Cause { fault: Fault::User, .. }) => return self.refused_row_by_row(rows),
            times => times?,
        };
        let latest_ns = self.latest_ns();
        let mut refused = Refused::default();
        if times.null_count() == 0 && largest(&times) <= latest_ns {
            return Ok(refused);
        }
        for (row, time_ns) in times.iter().enumerate() {
            match time_ns {
                None => refused.add(row, || format!("it has no event time, because '{}' is NULL", self.name)),
                Some(time_ns) if time_ns > latest_ns => refused.add(row, || self.too_far(time_ns)),
                Some(_) => {}
            }
        }
        Ok(refused)
    }
}

fn largest(times: &TimestampNanosecondArray) -> i64 {
    times.values().iter().copied().max().unwrap_or(i64::MIN)
}

fn shown(time_ns: i64) -> String {
    timestamp_ns_to_datetime(time_ns).map_or_else(|| time_ns.to_string(), |time| time.to_string())
}

/// The duration in the largest unit of which it is a whole number.
fn spelled(duration: Duration) -> String {
    let units = [(86_400_000, "day"), (3_600_000, "hour"), (60_000, "minute"), (1_000, "second")];
    let length_ms = duration.as_millis();
    let Some((unit_ms, name)) = units.into_iter().find(|(unit_ms, _)| length_ms.is_multiple_of(*unit_ms))
    else {
        return format!("{length_ms} ms");
    };
    let count = length_ms / unit_ms;
    format!("{count} {name}{}", if count == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tidemill_core::ManualClock;
    use tidemill_core::arrow::schema::{DataType, Field, Schema, TimeUnit};

    use super::*;
    use crate::feed_settings::EventTime;

    const HOUR_NS: i64 = 3_600_000_000_000;

    fn admission(max_ahead: Option<Duration>) -> (TimeBound, SchemaRef) {
        let field = Field::new("at", DataType::Timestamp(TimeUnit::Nanosecond, None), true);
        let schema: SchemaRef = Arc::new(Schema::new(vec![field]));
        let event_time = Some(EventTime { column: 0, delay_ns: 0 });
        let settings = FeedSettings { event_time, max_ahead, ..FeedSettings::default() };
        let bound = TimeBound::of(&settings, &[Arc::clone(&schema)]).unwrap();
        let clock = ManualClock::default();
        clock.advance_ns(10 * HOUR_NS as u64);
        (TimeBound { clock: AdmissionClock::new(Arc::new(clock)), ..bound }, schema)
    }

    fn refused(max_ahead: Option<Duration>, times: Vec<Option<i64>>) -> Refused {
        let (mut admission, schema) = admission(max_ahead);
        let times = Arc::new(TimestampNanosecondArray::from(times));
        admission.refused(&RecordBatch::try_new(schema, vec![times]).unwrap()).unwrap()
    }

    #[test]
    fn a_row_beyond_the_bound_or_without_time_is_refused_and_one_at_the_bound_is_not() {
        let hour = Some(Duration::from_secs(3600));
        let times = vec![Some(11 * HOUR_NS), Some(11 * HOUR_NS + 1), None, Some(i64::MIN), Some(i64::MAX)];
        let refused = refused(hour, times);
        assert_eq!(refused.rows, [1, 2, 4]);
        let far = "its event time 'at', 1970-01-01 11:00:00.000000001, is more than 1 hour ahead";
        assert!(refused.reason(0).starts_with(far), "{}", refused.reason(0));
        assert_eq!(refused.reason(1), "it has no event time, because 'at' is NULL");
    }

    #[test]
    fn a_bound_is_spelled_in_its_largest_unit() {
        let spelled_ms = |length_ms| spelled(Duration::from_millis(length_ms));
        assert_eq!(
            [1, 2000, 90_000, 7_200_000].map(spelled_ms),
            ["1 ms", "2 seconds", "90 seconds", "2 hours"]
        );
    }

    #[test]
    fn without_a_bound_any_time_may_come() {
        assert_eq!(refused(None, vec![Some(i64::MAX), None]).rows, [1]);
    }
}
