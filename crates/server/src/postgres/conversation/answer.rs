//! The answer to a statement.

use tidemill_engine::arrow::array::RecordBatch;
use tidemill_engine::arrow::schema::SchemaRef;
use tidemill_engine::bytes_of_rows;
use tidemill_service::{Cancellation, RowStream, Session, Subscription, UnreadRows};
use tidemill_sql::{LeftOut, RowBatches};

use crate::postgres::values::{Column, columns};
use crate::report::{QUERY_CANCELED, Report, SUCCESSFUL};
use crate::sessions::connections::end_at_once;

/// The answer to a statement.
pub(super) enum Answer {
    /// What was done, as clients are told.
    Done(String),
    Rows(Rows),
    /// The next rows of a cursor.
    Fetch(Fetch),
}

/// Rows that are to be fetched.
pub(super) struct Fetch {
    pub name: String,
    pub rows_max: usize,
    pub is_move: bool,
    /// As the client is told, or was.
    pub columns: Vec<Column>,
}

/// Where rows come from.
enum Source {
    /// They are computed as they are taken.
    Computed(Box<RowBatches>),
    Coming(Box<RowStream>),
    Changes(Box<Subscription>),
}

impl Iterator for Source {
    type Item = Result<RecordBatch, Report>;

    fn next(&mut self) -> Option<Self::Item> {
        match self {
            Source::Computed(batches) => Some(batches.next()?.map_err(Report::from)),
            Source::Coming(stream) => Some(stream.next()?.map_err(Report::from)),
            Source::Changes(changes) => Some(changes.next()?.map_err(Report::from)),
        }
    }
}

/// Rows, a batch at a time.
pub(super) struct Rows {
    source: Option<Source>,
    /// Whether more may come at any time, as long as nobody ends it.
    is_subscription: bool,
    /// The batch that is being given, and how many of its rows were given.
    batch: Option<(RecordBatch, usize)>,
    /// The bytes of that batch, until its last rows are sent.
    unread: UnreadRows,
    schema: Option<SchemaRef>,
    /// As the client was told.
    columns: Option<Vec<Column>>,
    /// The first word of the tag.
    word: &'static str,
    /// The whole tag, if it does not count the rows.
    whole_tag: Option<String>,
    given: u64,
    left_out: Option<LeftOut>,
    cancellation: Cancellation,
    /// How often the session had been cancelled when the query began.
    requests: u32,
}

impl Rows {
    /// Rows that are there.
    pub fn ready(batch: RecordBatch, word: &'static str, session: &Session) -> Result<Rows, Report> {
        let mut rows = Rows::of(None, Some(batch.schema()), word, session);
        rows.hold(batch)?;
        Ok(rows)
    }

    /// Rows that a change gives back, with its tag.
    pub fn returned(batch: RecordBatch, tag: String, session: &Session) -> Result<Rows, Report> {
        Ok(Rows { whole_tag: Some(tag), ..Rows::ready(batch, "SELECT", session)? })
    }

    /// Rows that come. The query is started by `start`.
    pub fn coming(
        start: impl FnOnce() -> Result<RowStream, Report>,
        session: &Session,
    ) -> Result<Rows, Report> {
        // A request to cancel that comes while it starts counts.
        let requests = session.cancellation().requests();
        let source = start()?;
        let schema = source.schema().cloned();
        let rows = Rows::of(Some(Source::Coming(Box::new(source))), schema, "SELECT", session);
        Ok(Rows { requests, ..rows })
    }

    /// Rows of views and tables that are computed as they are taken.
    pub fn computed(batches: Box<RowBatches>, session: &Session) -> Rows {
        let schema = Some(SchemaRef::clone(batches.schema()));
        Rows::of(Some(Source::Computed(batches)), schema, "SELECT", session)
    }

    /// Counts what they hold of views that these have dropped or replaced since.
    pub fn count_outlived_rows(&mut self) -> Result<(), Report> {
        match &mut self.source {
            Some(Source::Computed(batches)) => Ok(batches.count_outlived_rows()?),
            _ => Ok(()),
        }
    }

    /// How much of that is counted.
    pub fn outlived_bytes(&self) -> u64 {
        match &self.source {
            Some(Source::Computed(batches)) => batches.outlived_bytes(),
            _ => 0,
        }
    }

    /// The changes of a view.
    pub fn changes(changes: Subscription, session: &Session) -> Rows {
        let schema = Some(SchemaRef::clone(changes.schema()));
        let rows = Rows::of(Some(Source::Changes(Box::new(changes))), schema, "SUBSCRIBE", session);
        Rows { is_subscription: true, ..rows }
    }

    fn of(source: Option<Source>, schema: Option<SchemaRef>, word: &'static str, session: &Session) -> Rows {
        let (cancellation, unread) = (session.cancellation(), session.unread_rows());
        let (batch, columns, requests) = (None, None, cancellation.requests());
        Rows {
            source,
            is_subscription: false,
            batch,
            unread,
            schema,
            columns,
            word,
            whole_tag: None,
            given: 0,
            left_out: None,
            cancellation,
            requests,
        }
    }

    /// Begins to give a batch.
    fn hold(&mut self, batch: RecordBatch) -> Result<(), Report> {
        self.unread.set(bytes_of_rows(&batch) as u64);
        if let Err(cause) = self.unread.check() {
            self.end();
            return Err(cause.into());
        }
        self.batch = Some((batch, 0));
        Ok(())
    }

    /// Their schema; `None` if it is known with the answer only.
    pub fn schema(&self) -> Option<&SchemaRef> {
        self.schema.as_ref()
    }

    /// How many rows were given since the count was restarted.
    pub fn given(&self) -> u64 {
        self.given
    }

    /// The columns, in these formats. Those of a query that is answered at its end are known with its answer only.
    pub fn columns(&mut self, formats: &[u16]) -> Result<&[Column], Report> {
        if self.columns.is_none() {
            if self.schema.is_none() {
                self.advance()?;
            }
            let schema = self.schema.clone();
            let known = schema.map(|schema| columns(&schema, formats)).unwrap_or_default();
            self.columns = Some(known);
        }
        Ok(self.columns.as_deref().unwrap_or_default())
    }

    /// The columns are these, which the client knows already.
    pub fn set_columns(&mut self, columns: Vec<Column>) {
        self.columns = Some(columns);
    }

    /// Takes the next batch; whether there is one.
    pub fn advance(&mut self) -> Result<bool, Report> {
        let next = self.source.as_mut().and_then(Iterator::next);
        let was_cancelled = self.cancellation.requests() > self.requests;
        if was_cancelled {
            self.end();
            return Err(Report::error(QUERY_CANCELED, "the query was cancelled"));
        }
        match next {
            None => {
                if let Some(Source::Coming(stream)) = &self.source {
                    self.left_out = stream.left_out().cloned();
                }
                self.end();
                Ok(false)
            }
            Some(Err(report)) => {
                self.end();
                Err(report)
            }
            Some(Ok(batch)) => {
                self.schema.get_or_insert_with(|| batch.schema());
                self.hold(batch)?;
                Ok(true)
            }
        }
    }

    fn end(&mut self) {
        self.source = None;
        self.batch = None;
        self.unread.set(0);
    }

    /// The batch with the next rows, at most `rows_max` of them; 0: all. Empty when the batch is used up, `None` if there is
    /// none.
    pub fn take(&mut self, rows_max: usize) -> Option<RecordBatch> {
        let Some((batch, from)) = self.batch.as_mut() else {
            // Whoever asks for more has sent the rows before.
            self.unread.set(0);
            return None;
        };
        let left = batch.num_rows() - *from;
        let count = if rows_max == 0 { left } else { left.min(rows_max) };
        let rows = batch.slice(*from, count);
        *from += count;
        if *from == batch.num_rows() {
            self.batch = None;
        }
        self.given += count as u64;
        Some(rows)
    }

    /// Whether nothing is left to be given from what is there, and nothing comes.
    pub fn is_over(&self) -> bool {
        self.source.is_none() && self.batch.is_none()
    }

    /// Whether more may come at any time. Who asks for some rows then gets those that are there.
    pub fn is_subscription(&self) -> bool {
        self.is_subscription
    }

    /// The client has gone.
    pub fn abandon(&mut self) {
        end_at_once(&self.cancellation);
        self.end();
    }

    /// What the client is to learn of rows that are missing; once, at the end.
    pub fn take_notice(&mut self) -> Option<Report> {
        Some(Report::notice(SUCCESSFUL, self.left_out.take()?.sentence()))
    }

    pub fn tag(&self) -> String {
        if let Some(tag) = &self.whole_tag {
            return tag.clone();
        }
        match self.word {
            word @ ("SELECT" | "SUBSCRIBE") => format!("{word} {}", self.given),
            word => word.to_owned(),
        }
    }

    /// What was given is counted from here on: a portal tells the rows of each of its executions.
    pub fn restart_count(&mut self) {
        self.given = 0;
    }
}
