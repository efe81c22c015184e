//! Windows over event time: which windows a point in time belongs to.

use arrow_schema::{DataType, Schema, TimeUnit};
use tidemill_core::Cause;

/// Windows of equal size that begin at regular intervals. A window `[start, start + size)` begins at each `start =
/// offset + n * slide`. With `slide == size` they are *tumbling*, otherwise *hopping*.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WindowSpec {
    /// The column of event times: `Timestamp(Nanosecond, _)`.
    pub time: usize,
    /// The length of a window, above 0.
    pub size_ns: i64,
    /// From the start of one window to the start of the next, above 0.
    pub slide_ns: i64,
    /// Where one of the windows starts.
    pub offset_ns: i64,
}

/// Sessions: the events of a key, each at most the gap after the one before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionSpec {
    /// The column of event times: `Timestamp(Nanosecond, _)`.
    pub time: usize,
    /// The longest time without events within a session, above 0. A session ends this long after its last event.
    pub gap_ns: i64,
}

/// The longest size, slide or gap: 73 years.
const LONGEST_NS: i64 = 1 << 61;

/// The most windows that a row may be in, because each of them is written separately. This is a day by the second.
pub const WINDOWS_OF_ROW_MAX: i64 = 100_000;

impl WindowSpec {
    /// Checks sizes and the type of the column of times.
    ///
    /// # Errors
    /// If a size is not positive or too long, a row is in too many windows, or the column has another type.
    pub(crate) fn check(&self, input: &Schema) -> Result<(), Cause> {
        check_length("the size of a window", self.size_ns)?;
        check_length("the slide of a window", self.slide_ns)?;
        let windows = self.windows_of_row();
        if windows > WINDOWS_OF_ROW_MAX {
            return Err(Cause::user(format!(
                "each row is in {windows} hopping windows, but at most {WINDOWS_OF_ROW_MAX} are allowed; use a \
                 longer slide or a smaller size"
            )));
        }
        time_type(input, self.time).map(|_| ())
    }
}

impl WindowSpec {
    /// The most windows that a row is in.
    pub(crate) fn windows_of_row(&self) -> i64 {
        self.size_ns / self.slide_ns + i64::from(self.size_ns % self.slide_ns > 0)
    }
}

impl SessionSpec {
    /// Checks the gap and the type of the column of times.
    ///
    /// # Errors
    /// If the gap is not positive or too long, or the column has another type.
    pub(crate) fn check(&self, input: &Schema) -> Result<(), Cause> {
        check_length("the gap of a session", self.gap_ns)?;
        time_type(input, self.time).map(|_| ())
    }
}

fn check_length(what: &str, length_ns: i64) -> Result<(), Cause> {
    if (1..=LONGEST_NS).contains(&length_ns) {
        Ok(())
    } else {
        Err(Cause::user(format!("{what} is {length_ns} ns; it must be from 1 ns to 73 years")))
    }
}

/// The type of the column of times, with its time zone.
pub(crate) fn time_type(input: &Schema, time: usize) -> Result<DataType, Cause> {
    match input.fields().get(time).map(|field| field.data_type()) {
        Some(found @ DataType::Timestamp(TimeUnit::Nanosecond, _)) => Ok(found.clone()),
        found => {
            Err(Cause::bug(format!("windows need a column of Timestamp(ns), but column {time} is {found:?}")))
        }
    }
}
