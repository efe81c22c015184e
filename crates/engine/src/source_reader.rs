//! Reading a source: which of its rows may come in, and how far its connections are. With a journal or without.

use std::time::{Duration, Instant};

use tidemill_core::arrow::array::RecordBatch;
use tidemill_core::arrow::schema::SchemaRef;
use tidemill_core::error::Cause;
use tidemill_core::{Polled, Source, Stretch};

use crate::admission::AdmissionFilter;
use crate::connection_times::ConnectionTimes;
use crate::feed_settings::FeedSettings;
use crate::feed_state::FeedState;

/// Maximum wait per poll; also bounds how long a stop can go unnoticed.
pub(crate) const POLL_WAIT: Duration = Duration::from_millis(20);

/// A source with what decides about its rows before they have a position.
pub(crate) struct SourceReader {
    pub source: Box<dyn Source>,
    gate: AdmissionFilter,
    /// If the rows have an event time.
    connections: Option<ConnectionTimes>,
    idle_after: Option<Duration>,
    last_rows: Instant,
}

impl SourceReader {
    /// For a gateway with these streams. The event time of the source is at `time_ns`, if it has one.
    pub fn new(
        mut source: Box<dyn Source>,
        settings: &FeedSettings,
        streams: &[SchemaRef],
        time_ns: i64,
        now: Instant,
    ) -> Self {
        let gate = AdmissionFilter::new(source.as_mut(), settings, streams);
        let connections = ConnectionTimes::watch(source.as_mut(), settings, time_ns);
        SourceReader { source, gate, connections, idle_after: settings.idle_after, last_rows: now }
    }

    /// What the source has next. Reports its faults and its progress.
    pub fn poll(&mut self, wait: Duration, state: &FeedState) -> Result<Polled, Cause> {
        let polled = self.source.poll(wait)?;
        let faults = self.source.faults();
        state.add_faults(faults);
        state.log_faults();
        state.set_progress(self.source.progress());
        Ok(polled)
    }

    /// The rows that may come in, and whose they are. The first ones, this many, have come in before.
    pub fn take(
        &mut self,
        rows: &RecordBatch,
        known: usize,
        state: &FeedState,
    ) -> Result<(RecordBatch, Vec<Stretch>), Cause> {
        let new = rows.slice(known, rows.num_rows() - known);
        let (rows, admitted) = self.gate.admit(new, self.source.as_mut())?;
        state.add_faults(self.gate.faults());
        let is_in = |row: usize| {
            row.checked_sub(known)
                .is_some_and(|new| admitted.as_ref().is_none_or(|admitted| admitted.value(new)))
        };
        let recorded = self.source.recorded_stretches();
        let stretches = match &mut self.connections {
            _ if !recorded.is_empty() => recorded,
            Some(connections) => connections.hear(self.source.connections(), &rows, is_in)?,
            None => Vec::new(),
        };
        Ok((rows, stretches))
    }

    /// The source is not silent at this moment.
    pub fn rows_came(&mut self, now: Instant) {
        self.last_rows = now;
    }

    /// Takes over what the source has heard of its connections, when nothing came. The source may have said that it is
    /// idle.
    pub fn hear_nothing(&mut self, now: Instant, says_idle: bool) {
        let silent = now.saturating_duration_since(self.last_rows);
        let is_idle = says_idle || self.idle_after.is_some_and(|limit| silent >= limit);
        if let Some(connections) = &mut self.connections {
            connections.hear_nothing(self.source.connections(), is_idle);
        }
    }

    /// How far the event time of the source is, by its connections; `None`: its rows have none.
    pub fn time_ns(&self) -> Option<i64> {
        self.connections.as_ref().map(ConnectionTimes::time_ns)
    }
}
