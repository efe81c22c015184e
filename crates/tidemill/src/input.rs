//! Where a program pushes rows.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use arrow_array::RecordBatch;
use arrow_schema::{Schema, SchemaRef};
use tidemill_engine::{Faults, FeedSettings, Gateway, Intake, Interrupt};

use crate::error::Error;
use crate::functions::batch;
use crate::row::Row;
use crate::stream::describe;

/// The end of a source at which a program pushes rows: [`Run::input`](crate::Run::input). Clones push into the same
/// source. If two threads push at the same time, either may be first.
#[derive(Clone)]
pub struct Input {
    query: Arc<str>,
    source: Arc<str>,
    schema: SchemaRef,
    state: Arc<State>,
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
    intake: Intake,
}

impl Input {
    pub(crate) fn new(
        query: &str,
        source: &str,
        schema: &SchemaRef,
        feed: &FeedSettings,
        gateway: Gateway,
    ) -> Input {
        let intake = Intake::new(feed, std::slice::from_ref(schema));
        let state = State {
            interrupt: gateway.interrupt(),
            entry: Mutex::new(Entry { gateway: Some(gateway), intake }),
            is_closed: AtomicBool::new(false),
            late: AtomicU64::new(0),
            faults: Mutex::default(),
        };
        Input {
            query: query.into(),
            source: source.into(),
            schema: Arc::clone(schema),
            state: Arc::new(state),
        }
    }

    /// Pushes some rows. Waits while the query has as much work waiting as it may keep in memory.
    ///
    /// # Errors
    /// [`Error::Query`] if the columns of the rows differ from those of the source; [`Error::Stopped`] if the source
    /// has ended or the query has stopped; [`Run::join`](crate::Run::join) then says why.
    pub fn push(&self, rows: RecordBatch) -> Result<(), Error> {
        if rows.schema_ref() != &self.schema {
            self.check(rows.schema_ref())?;
        }
        let mut entry = self.entry();
        let Entry { gateway: Some(gateway), intake } = &mut *entry else { return Err(Error::Stopped) };
        if self.state.is_closed.load(Ordering::SeqCst) {
            return Err(Error::Stopped);
        }
        if rows.num_rows() == 0 {
            return Ok(());
        }
        let chunk = intake.take(&rows)?;
        self.state.late.store(intake.late(), Ordering::Relaxed);
        lock(&self.state.faults).merge(intake.faults());
        gateway.push(chunk).map_err(|_| Error::Stopped)
    }

    /// Pushes some rows of the type with which the source was declared.
    pub(crate) fn push_rows<R: Row>(&self, rows: impl IntoIterator<Item = R>) -> Result<(), Error> {
        let rows: Vec<R> = rows.into_iter().collect();
        let count = rows.len();
        self.push(batch(&self.schema, R::arrays(rows), count)?)
    }

    /// Says that no rows will come for a while. Until the next row, the source does not hold event time back.
    ///
    /// # Errors
    /// As for [`push`](Input::push).
    pub fn idle(&self) -> Result<(), Error> {
        let entry = self.entry();
        let Entry { gateway: Some(gateway), intake } = &*entry else { return Err(Error::Stopped) };
        gateway.push(intake.idle()).map_err(|_| Error::Stopped)
    }

    /// Ends the source. Its event time is complete, and all windows close. A push that another thread has begun is
    /// finished first.
    pub fn end(&self) {
        self.state.is_closed.store(true, Ordering::SeqCst);
        self.entry().gateway = None;
    }

    /// Leaves the source without ending it: no more rows come from here, but event time stays where it is, and open
    /// windows stay open. If a push of another thread waits for the query, it returns [`Error::Stopped`], and its rows
    /// are not taken in.
    pub fn leave(&self) {
        self.state.is_closed.store(true, Ordering::SeqCst);
        self.state.interrupt.raise();
        if let Some(gateway) = self.entry().gateway.take() {
            gateway.leave();
        }
    }

    pub(crate) fn late(&self) -> u64 {
        self.state.late.load(Ordering::Relaxed)
    }

    pub(crate) fn faults(&self) -> Faults {
        lock(&self.state.faults).clone()
    }

    /// Checks that rows of this schema fit. Only the types of the columns are compared.
    fn check(&self, given: &Schema) -> Result<(), Error> {
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

    fn entry(&self) -> MutexGuard<'_, Entry> {
        lock(&self.state.entry)
    }
}

/// A thread that panicked while it pushed leaves the source usable.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}
