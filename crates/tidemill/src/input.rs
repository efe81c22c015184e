//! Where a program pushes rows.

use std::sync::{Arc, Mutex, MutexGuard};

use arrow_array::RecordBatch;
use arrow_schema::{Schema, SchemaRef};
use tidemill_engine::{Faults, FeedSettings, Gateway, Intake};

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
    state: Arc<Mutex<State>>,
}

struct State {
    /// `None` once the source has ended.
    gateway: Option<Gateway>,
    intake: Intake,
    faults: Faults,
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
        let state = State { gateway: Some(gateway), intake, faults: Faults::default() };
        Input {
            query: query.into(),
            source: source.into(),
            schema: Arc::clone(schema),
            state: Arc::new(Mutex::new(state)),
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
        let mut state = self.lock();
        let State { gateway: Some(gateway), intake, faults } = &mut *state else {
            return Err(Error::Stopped);
        };
        if rows.num_rows() == 0 {
            return Ok(());
        }
        let chunk = intake.take(&rows)?;
        faults.merge(intake.faults());
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
        let state = self.lock();
        let State { gateway: Some(gateway), intake, .. } = &*state else { return Err(Error::Stopped) };
        gateway.push(intake.idle()).map_err(|_| Error::Stopped)
    }

    /// Ends the source. Its event time is complete, and all windows close.
    pub fn end(&self) {
        self.lock().gateway = None;
    }

    /// Leaves the source without ending it: no more rows come from here, but event time stays where it is, and open
    /// windows stay open.
    pub fn leave(&self) {
        if let Some(gateway) = self.lock().gateway.take() {
            gateway.leave();
        }
    }

    pub(crate) fn late(&self) -> u64 {
        self.lock().intake.late()
    }

    pub(crate) fn faults(&self) -> Faults {
        self.lock().faults.clone()
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

    /// A thread that panicked while it pushed leaves the source usable.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}
