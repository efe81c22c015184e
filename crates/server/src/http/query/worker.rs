//! The thread that answers a question.

use std::io;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use hyper::StatusCode;
use hyper::body::Bytes;
use hyper::header::{HeaderMap, HeaderName, HeaderValue};
use parking_lot::{Mutex, MutexGuard};
use tidemill_engine::arrow::array::{Int64Array, RecordBatch, StringArray};
use tidemill_engine::arrow::schema::{Schema, SchemaRef};
use tidemill_engine::bytes_of_rows;
use tidemill_service::{Query, Reply, Role, RowStream, Session};
use tidemill_sql::{LeftOut, Statement, StatementKind, TableChange, divide, parse};
use tokio::sync::{OwnedSemaphorePermit, oneshot};

use super::encoding::{Encoder, Encoding, Failure};
use super::pieces::{NotTaken, PieceSender};
use super::question::Question;
use crate::http::answer::Refusal;
use crate::measured_plan::measured_plan;
use crate::report::{
    INSUFFICIENT_PRIVILEGE, NOT_SUPPORTED, PROGRAM_LIMIT, QUERY_CANCELED, Report, SYNTAX_ERROR,
};
use crate::text_rows::plan_rows;

/// Planning takes stack for each level of an expression.
const STACK_BYTES: usize = 16 * 1024 * 1024;
/// The field after an answer that says how many rows and values are missing from it.
pub(super) const LEFT_OUT: HeaderName = HeaderName::from_static("tidemill-left-out");
/// The field before or after an answer with what a client of PostgreSQL's protocol gets as a notice.
pub(super) const NOTICE: HeaderName = HeaderName::from_static("x-tidemill-notice");
/// How often a full queue is looked at.
const LOOK: Duration = Duration::from_millis(20);

/// The last piece of an answer, for which there is always room, and the fields that follow the answer.
#[derive(Clone, Default)]
pub(in crate::http) struct FinalPiece(Arc<Mutex<(Option<Bytes>, Option<HeaderMap>)>>);

impl FinalPiece {
    fn lock(&self) -> MutexGuard<'_, (Option<Bytes>, Option<HeaderMap>)> {
        self.0.lock()
    }

    fn set(&self, piece: Vec<u8>) {
        self.lock().0 = Some(piece.into());
    }

    fn tell_of_missing_rows(&self, left_out: &LeftOut) {
        let count = HeaderValue::from(left_out.rows + left_out.null_results);
        let notice = notice_field(&[left_out.sentence()]).map(|notice| (NOTICE, notice));
        self.lock().1 = Some([(LEFT_OUT, count)].into_iter().chain(notice).collect());
    }

    pub fn take(&self) -> Option<Bytes> {
        self.lock().0.take()
    }

    pub fn take_trailers(&self) -> Option<HeaderMap> {
        self.lock().1.take()
    }
}

/// What answers a question.
pub(super) struct Worker {
    pub session: Session,
    pub role: Role,
    pub question: Question,
    pub begun: Option<oneshot::Sender<Result<AnswerHead, Refusal>>>,
    pub pieces: PieceSender,
    pub final_piece: FinalPiece,
    pub started: Instant,
    /// How long a piece may wait for the client.
    pub unread_max: Duration,
    /// What the client is to know besides the rows.
    pub notices: Vec<String>,
}

/// What is said before an answer.
pub(in crate::http) struct AnswerHead {
    /// The type of its content.
    pub content: HeaderValue,
    /// What is known by then of what its client is to know besides the rows.
    pub notice: Option<HeaderValue>,
}

/// Why rows are no longer sent.
enum End {
    /// The client has gone.
    Gone,
    Failed(Report),
}

impl From<Report> for End {
    fn from(report: Report) -> End {
        End::Failed(report)
    }
}

/// Rows that are there, or that come.
enum Rows {
    Ready(Option<RecordBatch>),
    /// The plan of a query that was measured, perhaps until its time was up.
    Measured(Option<RecordBatch>),
    Coming(Box<dyn Iterator<Item = Result<RecordBatch, Report>>>),
    Stream(Box<RowStream>),
}

impl Rows {
    /// What is missing, at their end.
    fn left_out(&self) -> Option<&LeftOut> {
        match self {
            Rows::Stream(stream) => stream.left_out(),
            _ => None,
        }
    }
}

/// Rows, their columns unless these come with the answer, and the columns that identify a row that changes.
type Answered = (Rows, Option<SchemaRef>, Option<Vec<String>>);

impl Worker {
    /// Starts the thread. The permit is kept until it ends.
    pub fn start(self, permit: OwnedSemaphorePermit) -> Result<(), Refusal> {
        let thread = thread::Builder::new().name("http query".into()).stack_size(STACK_BYTES);
        let started = thread.spawn(move || {
            self.session.runtime().be_reader();
            self.run();
            drop(permit);
        });
        started.map(drop).map_err(|error| {
            let message = format!("cannot start a thread for the query: {error}");
            Refusal::new(StatusCode::SERVICE_UNAVAILABLE, "53000", message)
        })
    }

    fn run(mut self) {
        let answered = self.ask().and_then(|answered| self.answer(answered));
        if let Err(End::Failed(report)) = answered {
            self.tell(Err(Refusal { status: status_of(report.code), report }));
        }
    }

    fn tell(&mut self, begun: Result<AnswerHead, Refusal>) {
        if let Some(sender) = self.begun.take() {
            let _ = sender.send(begun);
        }
    }

    /// Plans the statement, and starts what it asks for. The columns may be known with the answer only.
    fn ask(&mut self) -> Result<Answered, End> {
        if let Some(change) = only_change(&self.question.text)? {
            return self.change(&change);
        }
        let statement = only_statement(&self.question.text)?;
        let ready = |rows: RecordBatch| {
            let schema = rows.schema();
            Ok((Rows::Ready(Some(rows)), Some(schema), None))
        };
        self.session.set_answers_in_batches(true);
        self.notices = self.session.stopped_views(&statement).map_err(Report::from)?;
        match self.session.execute(&statement).map_err(Report::from)? {
            Reply::Rows(rows) => ready(rows),
            Reply::Batches(batches) => {
                let schema = Some(SchemaRef::clone(batches.schema()));
                let batches = batches.map(|batch| batch.map_err(Report::from));
                Ok((Rows::Coming(Box::new(batches)), schema, None))
            }
            Reply::Text(text) => ready(plan_rows(&text, statement.kind.is_explained_in_json())),
            Reply::Query(query) => {
                let key = self.key(&query)?;
                self.notices.extend(query.notice().map(str::to_owned));
                let stream = query.stream().map_err(Report::from)?;
                let schema = stream.schema().cloned();
                Ok((Rows::Stream(Box::new(stream)), schema, key))
            }
            Reply::Changes(changes) => {
                let schema = Some(SchemaRef::clone(changes.schema()));
                let changes = changes.map(|batch| batch.map_err(Report::from));
                Ok((Rows::Coming(Box::new(changes)), schema, None))
            }
            Reply::Analyze(query) => {
                let cancellation = self.session.cancellation();
                let plan = measured_plan(query, statement.kind.is_explained_in_json(), || {
                    cancellation.requests() > 0
                })?;
                let schema = plan.schema();
                Ok((Rows::Measured(Some(plan)), Some(schema), None))
            }
            Reply::Done(_) => Err(not_a_query().into()),
        }
    }

    /// Changes a table. Without `RETURNING`, the answer says how many rows there were.
    fn change(&mut self, change: &TableChange) -> Result<Answered, End> {
        if self.role < Role::Writer {
            let message = "a reader changes no tables";
            return Err(Report::error(INSUFFICIENT_PRIVILEGE, message).into());
        }
        let changed = self.session.change(change).map_err(Report::from)?;
        let rows = match changed.returned {
            Some(rows) => rows,
            None => {
                let command = Arc::new(StringArray::from(vec![change.kind.word()])) as _;
                let count = Arc::new(Int64Array::from(vec![changed.rows as i64])) as _;
                let rows = RecordBatch::try_from_iter([("command", command), ("rows", count)]);
                rows.map_err(|error| Report::bug(error.to_string()))?
            }
        };
        let schema = rows.schema();
        Ok((Rows::Ready(Some(rows)), Some(schema), None))
    }

    /// The names of the columns that identify a row of an answer that changes. Only subscribers can be told a change.
    fn key(&self, query: &Query) -> Result<Option<Vec<String>>, Report> {
        let Some(output) = query.outputs().iter().find(|output| output.table_key.is_some()) else {
            return Ok(None);
        };
        match &output.table_key {
            Some(key) if self.question.encoding.is_of_events() => {
                let names = key.iter().flatten().map(|index| output.schema.field(*index).name().clone());
                Ok(Some(names.collect()))
            }
            _ => Err(Report::of_changing_answer()),
        }
    }

    fn answer(&mut self, (mut rows, schema, key): Answered) -> Result<(), End> {
        // The first rows are waited for before the answer begins, so that a query that fails at once is answered with an
        // error. A subscriber is told the columns at once.
        let is_subscription = self.question.encoding.is_of_events() && schema.is_some();
        let mut next = if is_subscription { None } else { self.next(&mut rows)? };
        let schema = schema.or_else(|| next.as_ref().map(RecordBatch::schema));
        let schema = schema.unwrap_or_else(|| Arc::new(Schema::empty()));
        let Question { encoding, value_bytes_max, .. } = self.question;
        let notices = std::mem::take(&mut self.notices);
        let head = AnswerHead { content: encoding.content_type(), notice: notice_field(&notices) };
        let mut encoder =
            Encoder::new((encoding, notices), &schema, key, value_bytes_max).map_err(Report::from)?;
        let beginning = encoder.head();
        let mut sent = 0;
        let first = match next.take() {
            Some(batch) => self.encode(&mut encoder, &batch, &mut sent)?,
            None => Vec::new(),
        };
        // The type of its content.
        self.tell(Ok(head));
        let sending = self.send_beginning(beginning, first).and_then(|()| {
            while !self.are_too_many(sent)
                && let Some(batch) = self.next(&mut rows)?
            {
                let piece = self.encode(&mut encoder, &batch, &mut sent)?;
                self.send(piece)?;
            }
            if self.are_too_many(sent) {
                return Err(self.too_many().into());
            }
            if let Some(left_out) = rows.left_out() {
                self.final_piece.tell_of_missing_rows(left_out);
            }
            let end = encoder.end(rows.left_out()).map_err(Report::from)?;
            self.send(end)
        });
        match sending {
            Err(End::Failed(report)) => {
                self.fail(&encoder, &report);
                Ok(())
            }
            other => other,
        }
    }

    /// A message is a piece by itself; otherwise few bytes are not sent for themselves.
    fn send_beginning(&self, head: Vec<u8>, first: Vec<u8>) -> Result<(), End> {
        match self.question.encoding {
            Encoding::Messages => self.send(head).and_then(|()| self.send(first)),
            _ => self.send([head, first].concat()),
        }
    }

    /// The rows of a batch, without those that are too many.
    fn encode(&self, encoder: &mut Encoder, batch: &RecordBatch, sent: &mut u64) -> Result<Vec<u8>, End> {
        let room = self.question.rows_max.map_or(u64::MAX, |most| most.saturating_sub(*sent));
        *sent += batch.num_rows() as u64;
        let count = usize::try_from(room).unwrap_or(usize::MAX).min(batch.num_rows());
        Ok(encoder.rows(&batch.slice(0, count)).map_err(Report::from)?)
    }

    fn are_too_many(&self, rows: u64) -> bool {
        self.question.rows_max.is_some_and(|most| rows > most)
    }

    fn too_many(&self) -> Report {
        let most = self.question.rows_max.unwrap_or_default();
        let message = format!("the answer has more than {most} rows; the rest is left out");
        Report::error(PROGRAM_LIMIT, message).with_hint("write LIMIT, or ask for more: ?rows_max=N")
    }

    /// The next rows; `None` at the end.
    fn next(&self, rows: &mut Rows) -> Result<Option<RecordBatch>, End> {
        let batch = match rows {
            Rows::Measured(plan) => return Ok(plan.take()),
            Rows::Ready(batch) => Ok(batch.take()),
            Rows::Coming(rows) => rows.next().transpose(),
            Rows::Stream(stream) => stream.next().transpose().map_err(Report::from),
        };
        if self.session.cancellation().requests() == 0 {
            let batch = batch?;
            let bytes = batch.as_ref().map_or(0, |batch| bytes_of_rows(batch) as u64);
            self.pieces.hold_rows(bytes).map_err(Report::from)?;
            return Ok(batch);
        }
        match self.question.time_max {
            Some(time_max) if self.started.elapsed() >= time_max && !self.pieces.is_closed() => {
                let message = format!("the query took longer than {} s", time_max.as_secs());
                let report = Report::error(QUERY_CANCELED, message);
                Err(report.with_hint("write LIMIT, or give it more time: ?seconds_max=N").into())
            }
            _ if self.pieces.is_closed() => Err(End::Gone),
            _ => Err(Report::error(QUERY_CANCELED, "the query was cancelled").into()),
        }
    }

    /// Hands over a piece when there is room for it.
    fn send(&self, piece: Vec<u8>) -> Result<(), End> {
        if piece.is_empty() {
            return Ok(());
        }
        let mut piece = Bytes::from(piece);
        let start = Instant::now();
        loop {
            piece = match self.pieces.try_send(piece) {
                Ok(()) => return Ok(()),
                Err(NotTaken::Closed) => return Err(End::Gone),
                Err(NotTaken::Full(piece)) => piece,
            };
            // Before the connection itself is given up: who reads on then learns why nothing more comes.
            if start.elapsed() > self.unread_max {
                let message = "the client does not read the answer; the rest is left out";
                return Err(Report::error(PROGRAM_LIMIT, message)
                    .with_hint("read faster, or ask for less")
                    .into());
            }
            thread::sleep(LOOK);
        }
    }

    /// Reports a failure within the answer.
    fn fail(&self, encoder: &Encoder, report: &Report) {
        match encoder.failure(report) {
            Failure::Reported(piece) => self.final_piece.set(piece),
            Failure::BreakOff(piece) => {
                self.pieces.break_off(piece, io::Error::other(report.message.clone()));
            }
        }
    }
}

/// Notices as a field of HTTP, which has only characters of ASCII; `None`: there are none.
fn notice_field(notices: &[String]) -> Option<HeaderValue> {
    let text = notices.join("; ");
    let text: String =
        text.chars().map(|letter| if matches!(letter, ' '..='~') { letter } else { '?' }).collect();
    (!text.is_empty()).then(|| HeaderValue::from_str(&text).ok()).flatten()
}

/// The change of a table that a text is; `None` if it is something else.
fn only_change(text: &str) -> Result<Option<TableChange>, Report> {
    let pieces = divide(text, "query").map_err(|error| Report::of_reading(&error))?;
    match pieces.as_slice() {
        [piece] => match TableChange::read(piece).transpose().map_err(|error| Report::of_reading(&error))? {
            Some(change) if change.parameters() > 0 => {
                Err(Report::error(SYNTAX_ERROR, "the statement has parameters; write their values into it"))
            }
            change => Ok(change),
        },
        _ => Ok(None),
    }
}

/// The statement of a text, which has only one.
fn only_statement(text: &str) -> Result<Statement, Report> {
    let mut statements = parse(text, "query").map_err(|error| Report::of_reading(&error))?;
    match (statements.pop(), statements.is_empty()) {
        (None, _) => Err(Report::error(SYNTAX_ERROR, "the request contains no statement")
            .with_hint("send a statement as the body, such as SELECT 1")),
        (Some(_), false) => Err(Report::error(SYNTAX_ERROR, "the request has several statements; send one")),
        (Some(statement), true) => match statement.kind {
            StatementKind::Query(..)
            | StatementKind::Show(_)
            | StatementKind::Describe(_)
            | StatementKind::Subscribe(_)
            | StatementKind::ExplainOutput(_)
            | StatementKind::ExplainWhy(_)
            | StatementKind::Explain { analyze: false, .. } => Ok(statement),
            StatementKind::Explain { analyze: true, statement: ref measured, .. }
                if matches!(measured.kind, StatementKind::Query(..)) =>
            {
                Ok(statement)
            }
            _ => Err(not_a_query()),
        },
    }
}

fn not_a_query() -> Report {
    Report::error(
        NOT_SUPPORTED,
        "only SELECT, SHOW, DESCRIBE, EXPLAIN, SUBSCRIBE and changes of tables are answered by HTTP",
    )
    .with_hint("use psql or `tidemill sql --database` for definitions and settings")
}

fn status_of(code: &str) -> StatusCode {
    match code {
        QUERY_CANCELED => StatusCode::REQUEST_TIMEOUT,
        INSUFFICIENT_PRIVILEGE => StatusCode::FORBIDDEN,
        code if code.starts_with("53") || code.starts_with("58") => StatusCode::SERVICE_UNAVAILABLE,
        code if code.starts_with("XX") => StatusCode::INTERNAL_SERVER_ERROR,
        _ => StatusCode::BAD_REQUEST,
    }
}
