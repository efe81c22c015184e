//! Adds times to points without one, where the rows of all connections come together, in their final order. If a
//! connection did this itself, others could overtake it, and its rows would be late.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowTimestampType, TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType,
    TimestampSecondType,
};
use arrow_array::{Array, ArrayRef, PrimitiveArray, RecordBatch};
use arrow_schema::{DataType, SchemaRef, TimeUnit};
use tidemill_core::error::Cause;
use tidemill_core::{Clock, TimeOfDay};

/// Assigns times that never go backwards.
pub(super) struct Stamping {
    time_column: String,
    clock: Box<dyn Clock>,
    latest_ns: i64,
}

impl Stamping {
    pub(super) fn new(time_column: &str) -> Stamping {
        Stamping { time_column: time_column.to_owned(), clock: Box::new(TimeOfDay), latest_ns: i64::MIN }
    }

    /// The rows with the declared columns, in which rows without a time get the current one.
    pub(super) fn stamp(&mut self, rows: RecordBatch, schema: &SchemaRef) -> Result<RecordBatch, Cause> {
        let Ok(index) = schema.index_of(&self.time_column) else { return Ok(rows) };
        let mut columns = rows.columns().to_vec();
        if columns[index].null_count() > 0 {
            let now_ns = i64::try_from(self.clock.now_ns()).unwrap_or(i64::MAX);
            self.latest_ns = self.latest_ns.max(now_ns);
            columns[index] = filled(&columns[index], self.latest_ns);
        }
        RecordBatch::try_new(Arc::clone(schema), columns)
            .map_err(|error| Cause::bug(error.to_string()).with_source(error))
    }
}

impl std::fmt::Debug for Stamping {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Stamping").field("latest_ns", &self.latest_ns).finish_non_exhaustive()
    }
}

/// The column with this time, rounded towards the past, where it has no value.
fn filled(times: &ArrayRef, time_ns: i64) -> ArrayRef {
    match times.data_type() {
        DataType::Timestamp(TimeUnit::Second, _) => {
            filled_as::<TimestampSecondType>(times, time_ns.div_euclid(1_000_000_000))
        }
        DataType::Timestamp(TimeUnit::Millisecond, _) => {
            filled_as::<TimestampMillisecondType>(times, time_ns.div_euclid(1_000_000))
        }
        DataType::Timestamp(TimeUnit::Microsecond, _) => {
            filled_as::<TimestampMicrosecondType>(times, time_ns.div_euclid(1_000))
        }
        DataType::Timestamp(TimeUnit::Nanosecond, _) => filled_as::<TimestampNanosecondType>(times, time_ns),
        _ => Arc::clone(times),
    }
}

fn filled_as<T: ArrowTimestampType>(times: &ArrayRef, time: i64) -> ArrayRef {
    let given = times.as_primitive::<T>();
    let values: Vec<i64> = given.iter().map(|given| given.unwrap_or(time)).collect();
    Arc::new(PrimitiveArray::<T>::new(values.into(), None).with_data_type(times.data_type().clone()))
}

#[cfg(test)]
mod tests {
    use arrow_array::TimestampMillisecondArray;
    use arrow_schema::{Field, Schema};
    use tidemill_core::ManualClock;

    use super::*;

    fn schema(is_nullable: bool) -> SchemaRef {
        let time = DataType::Timestamp(TimeUnit::Millisecond, None);
        Arc::new(Schema::new(vec![Field::new("time", time, is_nullable)]))
    }

    fn stamped(stamping: &mut Stamping, times: Vec<Option<i64>>) -> Vec<i64> {
        let times = Arc::new(TimestampMillisecondArray::from(times));
        let rows = RecordBatch::try_new(schema(true), vec![times]).expect("rows");
        let rows = stamping.stamp(rows, &schema(false)).expect("they can be stamped");
        rows.column(0).as_primitive::<TimestampMillisecondType>().values().to_vec()
    }

    #[test]
    fn rows_without_a_time_get_that_of_now_in_the_unit_of_the_column() {
        let clock = Arc::new(ManualClock::default());
        struct SharedClock(Arc<ManualClock>);
        impl Clock for SharedClock {
            fn now_ns(&self) -> u64 {
                self.0.now_ns()
            }
        }
        let mut stamping =
            Stamping { clock: Box::new(SharedClock(Arc::clone(&clock))), ..Stamping::new("time") };
        clock.advance_ns(5_999_999);
        assert_eq!(stamped(&mut stamping, vec![Some(70), None, Some(3)]), [70, 5, 3]);
        clock.advance_ns(2_000_001);
        assert_eq!(stamped(&mut stamping, vec![None, None]), [8, 8]);
    }

    #[test]
    fn a_clock_that_is_set_back_makes_no_row_earlier() {
        let mut stamping = Stamping {
            clock: Box::new(ManualClock::default()),
            latest_ns: 9_000_000,
            ..Stamping::new("time")
        };
        assert_eq!(stamped(&mut stamping, vec![None]), [9]);
    }
}
