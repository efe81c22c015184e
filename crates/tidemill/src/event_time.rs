//! What is known of the event time of a stream.

use std::time::Duration;

use arrow_schema::{DataType, TimeUnit};
use tidemill_engine::{Cause, EventTime, FeedSettings, Producer};
use tidemill_operators::watermark::WatermarkSpec;

use crate::stream::Stream;

impl Stream {
    /// Declares which column of a source is its event time: `Timestamp(Nanosecond)`. A row is late, and is dropped, if
    /// its time is more than `delay` behind the largest event time before it. Windows close that much later.
    ///
    /// Only for the stream of a source, before anything reads it.
    #[must_use]
    pub fn event_time(self, column: &str, delay: Duration) -> Stream {
        let delay_ns = i64::try_from(delay.as_nanos()).unwrap_or(i64::MAX);
        let index = self.time_column(column);
        let set = |source: &mut FeedSettings| {
            source.event_time = index.map(|column| EventTime { column, delay_ns });
        };
        Stream { times: vec![column.to_owned()], ..self.with_source(set) }
    }

    /// Says that a column which a function has written is event time: its values are never earlier than the event time
    /// of the rows that caused them. Queries in [SQL](crate::Query::define) can then use it for windows and joins. The
    /// typed operators are told the column where they need it.
    #[must_use]
    pub fn timed_by(&self, column: &str) -> Stream {
        let Some(_) = self.time_column(column) else { return self.clone() };
        let mut timed = self.clone();
        timed.times.push(column.to_owned());
        timed
    }

    /// Sets after how long without rows a source no longer holds event time back. With `None` it always does.
    ///
    /// Only for sources that are [read](crate::Query::read). A program that pushes rows calls
    /// [`Input::idle`](crate::Input::idle).
    #[must_use]
    pub fn idle_after(self, limit: Option<Duration>) -> Stream {
        self.with_source(|source| source.idle_after = limit)
    }

    /// Sets how far ahead of the clock the event time of a row may be. Rows further ahead are refused, because they
    /// would make all others late. With `None` there is no limit.
    ///
    /// Only for sources that are [read](crate::Query::read) and whose rows differ each time.
    #[must_use]
    pub fn max_ahead(self, limit: Option<Duration>) -> Stream {
        self.with_source(|source| source.max_ahead = limit)
    }

    fn with_source(self, set: impl FnOnce(&mut FeedSettings)) -> Stream {
        {
            let build = &mut *self.build.borrow_mut();
            match (self.stream.producer, self.sources.as_slice()) {
                (Producer::Source(_), [source]) if build.is_fixed(*source) => build.fail(
                    "event time, idleness and the limit ahead of the clock are set before sql() or define() is called"
                        .to_owned(),
                ),
                (Producer::Source(_), [source]) => set(&mut build.sources[*source].feed),
                _ => build.fail(
                    "event time, idleness and the limit ahead of the clock belong to a source: set them on the \
                     stream that source(), rows() or read() returned"
                        .to_owned(),
                ),
            }
        }
        self
    }

    /// This stream, as far in event time as both are: for what is made of the rows of both.
    pub(crate) fn with_time_of(&self, other: &Stream) -> Stream {
        let mut both = self.clone();
        both.sources.extend(other.sources.iter().filter(|source| !self.sources.contains(source)));
        both.delay_ns = self.delay_ns.max(other.delay_ns);
        both.table_key = None;
        both.window_end_delay_ns = None;
        both.unbounded = self.unbounded.clone().or_else(|| other.unbounded.clone());
        both
    }

    /// Up to which event time the stream is complete for an operator that reads it.
    pub(crate) fn watermark(&self) -> WatermarkSpec {
        WatermarkSpec { sources: self.sources.clone(), delay_ns: self.delay_ns }
    }

    /// The same for an operator that needs to know only which windows are over.
    pub(crate) fn watermark_of_window_end(&self) -> WatermarkSpec {
        WatermarkSpec { delay_ns: self.window_end_delay_ns.unwrap_or(self.delay_ns), ..self.watermark() }
    }

    /// Checks that event time passes. `otherwise` says what would happen without.
    pub(crate) fn check_event_time(&self, column: &str, otherwise: &str) -> Result<(), Cause> {
        let build = self.build.borrow();
        let without = self.sources.iter().find(|source| build.sources[**source].feed.event_time.is_none());
        match without {
            None => Ok(()),
            Some(source) => Err(Cause::user(format!(
                "source '{}' has no event time, so {otherwise}; call .event_time(\"{column}\", delay) on it",
                build.plan.sources[*source].name
            ))),
        }
    }

    /// A column of event times; keeps the fault if there is one.
    pub(crate) fn time_column(&self, name: &str) -> Option<usize> {
        let column = self.columns("event time", name)?[0];
        let data_type = self.schema.field(column).data_type();
        if !matches!(data_type, DataType::Timestamp(TimeUnit::Nanosecond, _)) {
            self.fail(format!(
                "event time: column '{name}' is {data_type}; it must be Timestamp(Nanosecond)"
            ));
            return None;
        }
        if self.unbounded.as_deref() == Some(name) {
            self.fail(format!(
                "event time: '{name}' is the start of a session, which can be arbitrarily old when the session \
                 closes; use window_end"
            ));
            return None;
        }
        Some(column)
    }
}
