//! Where a program pushes rows.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use arrow_array::RecordBatch;
use arrow_schema::{Schema, SchemaRef};
use parking_lot::{Mutex, MutexGuard};
use tidemill_engine::{ChunkBuilder, Faults, FeedSettings, Gateway, Interrupt, Request};

use crate::error::Error;
use crate::functions::batch;
use crate::pushed_source::{Outcome, Pusher};
use crate::row::Row;
use crate::stream::describe;

/// The end of a source at which a program pushes rows: [`Run::input`](crate::Run::input). Clones push into the same
/// source. If two threads push at the same time, either may be first.
#[derive(Clone)]
pub struct Input {
    query: Arc<str>,
    source: Arc<str>,
    schema: SchemaRef,
    target: Target,
}

/// Where pushed rows go.
#[derive(Clone)]
enum Target {
    /// Into the query.
    Gateway(Arc<State>),
    /// Into the journal of a durable query.
    Journal(Arc<Pusher>),
}

struct State {
    /// Held while rows are pushed, so that they enter in the order in which the intake has judged them. Nobody else waits
    /// for it: a push may wait for the query.
    entry: Mutex<Entry>,
    /// Nothing more is taken in, though a push may be under way.
    is_closed: AtomicBool,
    interrupt: Interrupt,
    late: AtomicU64,
    faults: Mutex<Faults>,
}

struct Entry {
    /// `None` once the source has ended.
    gateway: Option<Gateway>,
    chunks: ChunkBuilder,
}

impl Input {
    pub(crate) fn new(
        query: &str,
        source: &str,
        schema: &SchemaRef,
        feed: &FeedSettings,
        gateway: Gateway,
    ) -> Input {
        let chunks = ChunkBuilder::new(feed, std::slice::from_ref(schema));
        let state = State {
            interrupt: gateway.interrupt(),
            entry: Mutex::new(Entry { gateway: Some(gateway), chunks }),
            is_closed: AtomicBool::new(false),
            late: AtomicU64::new(0),
            faults: Mutex::default(),
        };
        Input::of(query, source, schema, Target::Gateway(Arc::new(state)))
    }

    /// Into the journal of a durable query.
    pub(crate) fn journaled(query: &str, source: &str, schema: &SchemaRef, pusher: Pusher) -> Input {
        Input::of(query, source, schema, Target::Journal(Arc::new(pusher)))
    }

    fn of(query: &str, source: &str, schema: &SchemaRef, target: Target) -> Input {
        Input { query: query.into(), source: source.into(), schema: Arc::clone(schema), target }
    }

    /// Pushes some rows. Waits while the query has as much work waiting as it may keep in memory; in a
    /// [durable](crate::Query::durable) query, until the rows are on the disk.
    ///
    /// # Errors
    /// [`Error::Query`] if the columns of the rows differ from those of the source; [`Error::Stopped`] if the source
    /// has ended or the query has stopped; [`Run::join`](crate::Run::join) then says why.
    pub fn push(&self, rows: RecordBatch) -> Result<(), Error> {
        self.check(rows.schema_ref())?;
        match &self.target {
            Target::Gateway(state) => state.push(&rows),
            Target::Journal(pusher) => self.journal(pusher, rows, None),
        }
    }

    /// Pushes some rows that count once, no matter how often they are pushed, of a durable query. `sequence` is their
    /// number among those of this client; numbers ascend.
    ///
    /// A program that dies while it pushes does not know whether the rows are taken in. It pushes them again with the
    /// same number: if they were, they are left out.
    ///
    /// # Errors
    /// As for [`push`](Input::push), and [`Error::Behind`] if a later number of this client was taken in before.
    pub fn push_once(&self, client: &str, sequence: u64, rows: RecordBatch) -> Result<(), Error> {
        self.check(rows.schema_ref())?;
        match &self.target {
            Target::Gateway(_) => Err(self
                .fault("only durable queries remember the numbers of requests; call durable() on the query")),
            Target::Journal(pusher) => {
                self.journal(pusher, rows, Some(Request { client: client.to_owned(), sequence }))
            }
        }
    }

    fn journal(&self, pusher: &Pusher, rows: RecordBatch, request: Option<Request>) -> Result<(), Error> {
        if rows.num_rows() == 0 {
            return Ok(());
        }
        let rows = RecordBatch::try_new(Arc::clone(&self.schema), rows.columns().to_vec())
            .map_err(|error| self.fault(&error.to_string()))?;
        match (pusher.push(rows, request.clone()), request) {
            (None, _) => Err(Error::Stopped),
            (Some(Outcome::Behind(last)), Some(Request { client, sequence })) => {
                Err(Error::Behind { client, sequence, last })
            }
            (Some(_), _) => Ok(()),
        }
    }

    /// Rows of the type with which the source was declared.
    pub(crate) fn batch_of<R: Row>(&self, rows: impl IntoIterator<Item = R>) -> Result<RecordBatch, Error> {
        let rows: Vec<R> = rows.into_iter().collect();
        let count = rows.len();
        Ok(batch(&self.schema, R::arrays(rows), count)?)
    }

    /// Says that no rows will come for a while. Until the next row, the source does not hold event time back.
    ///
    /// # Errors
    /// As for [`push`](Input::push).
    pub fn idle(&self) -> Result<(), Error> {
        match &self.target {
            Target::Gateway(state) => state.idle(),
            Target::Journal(pusher) => pusher.idle().ok_or(Error::Stopped),
        }
    }

    /// Ends the source. Its event time is complete, and all windows close. A push that another thread has begun is
    /// finished first.
    pub fn end(&self) {
        match &self.target {
            Target::Gateway(state) => {
                state.is_closed.store(true, Ordering::SeqCst);
                state.entry().gateway = None;
            }
            Target::Journal(pusher) => pusher.end(),
        }
    }

    /// Leaves the source without ending it: no more rows come from here, but event time stays where it is, and open
    /// windows stay open. If a push of another thread waits for the query, it returns [`Error::Stopped`], and its rows
    /// are not taken in; in a durable query it is finished first.
    pub fn leave(&self) {
        match &self.target {
            Target::Gateway(state) => state.leave(),
            Target::Journal(pusher) => pusher.leave(),
        }
    }

    /// What the intake of this end has found: late rows, and those that it left out. Feeds count for themselves.
    pub(crate) fn found(&self) -> (u64, Faults) {
        match &self.target {
            Target::Gateway(state) => (state.late.load(Ordering::Relaxed), state.faults.lock().clone()),
            Target::Journal(_) => Default::default(),
        }
    }

    /// Checks that rows of this schema fit. Only the types of the columns are compared.
    fn check(&self, given: &Schema) -> Result<(), Error> {
        if given == self.schema.as_ref() {
            return Ok(());
        }
        let types = |schema: &Schema| -> Vec<_> {
            schema.fields().iter().map(|field| field.data_type().clone()).collect()
        };
        if types(given) == types(&self.schema) {
            return Ok(());
        }
        let (given, own) = (describe(given), describe(&self.schema));
        Err(self.fault(&format!("the rows have the columns {given}; the source has {own}")))
    }

    fn fault(&self, reason: &str) -> Error {
        Error::Query { query: self.query.to_string(), reason: format!("source '{}': {reason}", self.source) }
    }
}

impl State {
    fn push(&self, rows: &RecordBatch) -> Result<(), Error> {
        let mut entry = self.entry();
        let Entry { gateway: Some(gateway), chunks } = &mut *entry else { return Err(Error::Stopped) };
        if self.is_closed.load(Ordering::SeqCst) {
            return Err(Error::Stopped);
        }
        if rows.num_rows() == 0 {
            return Ok(());
        }
        let chunk = chunks.take(rows)?;
        self.late.store(chunks.late(), Ordering::Relaxed);
        self.faults.lock().merge(chunks.faults());
        gateway.push(chunk).map_err(|_| Error::Stopped)
    }

    fn idle(&self) -> Result<(), Error> {
        let entry = self.entry();
        let Entry { gateway: Some(gateway), chunks } = &*entry else { return Err(Error::Stopped) };
        gateway.push(chunks.idle()).map_err(|_| Error::Stopped)
    }

    fn leave(&self) {
        self.is_closed.store(true, Ordering::SeqCst);
        self.interrupt.raise();
        if let Some(gateway) = self.entry().gateway.take() {
            gateway.leave();
        }
    }

    fn entry(&self) -> MutexGuard<'_, Entry> {
        self.entry.lock()
    }
}
