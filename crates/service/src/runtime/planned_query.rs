//! A query of a session that was planned and can be started.

use tidemill_engine::{Cause, DatabaseClock, Sink};
use tidemill_sql::{DiscardSink, Explained, Opened, Output, Prepared, RunningQuery, query_span};

use crate::runtime::execution::Execution;
use crate::runtime::row_stream::RowStream;
use crate::runtime::unread::UnreadRows;
use crate::{Cancellation, Error};

/// A planned query of a session.
pub struct Query {
    pub(crate) prepared: Prepared,
    pub(crate) cancellation: Cancellation,
    pub(crate) unread: UnreadRows,
    pub(crate) is_strict: bool,
    /// The clock under which it reads sources that other queries have open; `None`: it opens its sources itself.
    pub(crate) clock: Option<DatabaseClock>,
    pub(crate) notice: Option<String>,
}

impl Query {
    /// What whoever waits for it is to know before its first row.
    pub fn notice(&self) -> Option<&str> {
        self.notice.as_deref()
    }

    /// Its outputs. A query that is answered at its end has none.
    pub fn outputs(&self) -> &[Output] {
        self.prepared.outputs()
    }

    /// What was planned.
    pub fn prepared(&self) -> &Prepared {
        &self.prepared
    }

    /// A description of the plan that can be completed with measurements.
    pub fn explained(&self) -> Explained {
        self.prepared.explained()
    }

    /// The same query, ended by requests of its own instead of those of its session: whoever has several queries of a session run at once
    /// can end each by itself.
    #[must_use]
    pub fn cancelled_by(self, cancellation: Cancellation) -> Query {
        Query { cancellation, ..self }
    }

    /// Starts it with a sink for each of its outputs.
    ///
    /// # Errors
    /// If it cannot be opened or started.
    pub fn start(self, sinks: Vec<Box<dyn Sink>>) -> Result<Execution, Error> {
        let Query { prepared, cancellation, is_strict, clock, .. } = self;
        let running = prepared.open(sinks).and_then(|opened| start(opened, clock.as_ref()))?;
        Ok(Execution::new(running, cancellation, is_strict))
    }

    /// Starts it, and drops its rows, as for measuring it.
    ///
    /// # Errors
    /// As [`start`](Query::start).
    pub fn start_without_rows(self) -> Result<Execution, Error> {
        let discard = |_: &Output| Box::new(DiscardSink) as Box<dyn Sink>;
        let sinks = self.outputs().iter().map(discard).collect();
        self.start(sinks)
    }

    /// Starts it, and gives its rows a batch at a time.
    ///
    /// # Errors
    /// As [`start`](Query::start).
    pub fn stream(self) -> Result<RowStream, Error> {
        let Query { prepared, cancellation, unread, is_strict, clock, .. } = self;
        let stream = RowStream::start(prepared, unread, |prepared, sinks| {
            let running = prepared.open(sinks).and_then(|opened| start(opened, clock.as_ref()))?;
            Ok(Execution::new(running, cancellation, is_strict))
        });
        Ok(stream?)
    }
}

/// The name in messages of a query that somebody waits for.
const WAITED_FOR: &str = "SELECT";

fn start(opened: Opened, clock: Option<&DatabaseClock>) -> Result<RunningQuery, Cause> {
    query_span(WAITED_FOR).in_scope(|| opened.start_under(clock.map(|clock| (clock, WAITED_FOR))))
}
