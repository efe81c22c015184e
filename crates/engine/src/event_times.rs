//! The event times of a source's rows, before they become the rows of a gateway.

use std::sync::Arc;

use tidemill_core::arrow::array::cast::AsArray;
use tidemill_core::arrow::array::types::TimestampNanosecondType;
use tidemill_core::arrow::array::{Array, ArrayRef, RecordBatch, TimestampNanosecondArray};
use tidemill_core::error::{Cause, Fault};
use tidemill_core::{Cut, Expression};

use crate::feed_settings::FeedSettings;

/// Computes event times.
pub(crate) struct EventTimes {
    /// Computed from the gateway's columns.
    pub column: usize,
    /// How it is computed from the source's columns, if it is not one of them.
    computed: Option<Arc<dyn Expression>>,
    /// The context of expressions at intake, which depend on no cut.
    cut: Cut,
}

impl EventTimes {
    /// `None` if the stream has no event time.
    pub fn of(settings: &FeedSettings) -> Option<EventTimes> {
        let column = settings.event_time?.column;
        let computed = settings.columns.as_ref().map(|columns| Arc::clone(&columns[column]));
        Some(EventTimes { column, computed, cut: Cut::first() })
    }

    /// The event time of each row.
    ///
    /// # Errors
    /// [`Cause::user`] if the event time of a row cannot be computed.
    pub fn of_rows(&self, rows: &RecordBatch) -> Result<TimestampNanosecondArray, Cause> {
        let times: ArrayRef = match &self.computed {
            Some(computed) => computed.evaluate(rows, &self.cut)?,
            None => Arc::clone(rows.column(self.column)),
        };
        event_times(&times).cloned()
    }

    /// The largest event time among some rows; `i64::MIN` if none of them has one.
    pub fn largest_of(&self, rows: &RecordBatch) -> Result<i64, Cause> {
        match self.of_rows(rows) {
            Ok(times) => Ok(times.iter().flatten().max().unwrap_or(i64::MIN)),
            // Rows whose event time cannot be computed are left out later, and advance no time.
            Err(Cause { fault: Fault::User, .. }) if rows.num_rows() == 1 => Ok(i64::MIN),
            Err(Cause { fault: Fault::User, .. }) => {
                let middle = rows.num_rows() / 2;
                let halves = [rows.slice(0, middle), rows.slice(middle, rows.num_rows() - middle)];
                halves.iter().try_fold(i64::MIN, |largest, half| Ok(largest.max(self.largest_of(half)?)))
            }
            Err(cause) => Err(cause),
        }
    }
}

/// A column of event times.
pub(crate) fn event_times(column: &ArrayRef) -> Result<&TimestampNanosecondArray, Cause> {
    column.as_primitive_opt::<TimestampNanosecondType>().ok_or_else(|| {
        let found = column.data_type();
        Cause::bug(format!("the event time is {found}, not a timestamp in nanoseconds"))
    })
}
