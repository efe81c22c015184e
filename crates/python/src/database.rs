//! A database: statements, rows for its sources, changes of its views.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use arrow_array::{RecordBatch, RecordBatchReader, StringArray};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use parking_lot::Mutex;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;
use tidemill_engine::Cause;
use tidemill_service::{
    Cancellation, Error as EngineError, FileCatalogLog, Query, QueryEnd, Refused, Reply, Runtime, Session,
    chosen_columns,
};
use tidemill_sql::{
    ClientTable, Planner, PushTarget, Statement, StatementKind, TableChange, divide, fitted_rows,
};

use crate::convert::{rows_of, schema_capsule};
use crate::engine_value::EngineValue;
use crate::error::raised;
use crate::function;
use crate::interrupt::interruptible;
use crate::rows::{RowSource, Rows};

/// What errors call the text of a statement.
const TEXT: &str = "sql";
/// The most rows that a source is given at once.
const ROWS_MAX: usize = 1 << 16;
/// How long a database that is being closed waits before it looks whether it is to end at once.
const CLOSE_LOOK: Duration = Duration::from_millis(50);

/// A database in this process. Any thread may use it; its statements are executed one after the other, and rows are taken and pushed
/// beside them.
#[pyclass(frozen, module = "tidemill._tidemill")]
pub(crate) struct Connection {
    /// `None`: it is closed.
    session: EngineValue<Mutex<Option<Session>>>,
    cancellation: Cancellation,
}

/// A function of Python: its name, what is called, the types of its arguments and of its result.
type Functions<'py> = Vec<Bound<'py, PyAny>>;

#[pymethods]
impl Connection {
    /// Opens a database in a folder, as `tidemill serve --data` has it, or one in memory.
    #[new]
    #[pyo3(signature = (folder=None, functions=Vec::new(), workers=None, strict=false))]
    fn new(
        py: Python<'_>,
        folder: Option<PathBuf>,
        functions: Functions<'_>,
        workers: Option<usize>,
        strict: bool,
    ) -> PyResult<Connection> {
        let mut planner = Planner::new();
        for function in &functions {
            function::register(&mut planner, function)?;
        }
        if let Some(workers) = workers {
            planner.settings_mut().workers = workers.max(1);
        }
        let opened = interruptible(py, &Cancellation::default(), || open(planner, folder))?;
        let mut session = opened.map_err(|cause| raised(py, &cause.into()))?;
        session.set_strict(strict);
        let cancellation = session.cancellation();
        Ok(Connection { session: EngineValue::new(Mutex::new(Some(session))), cancellation })
    }

    /// Executes statements, and returns the rows of the last one.
    fn sql(&self, py: Python<'_>, text: &str) -> PyResult<Rows> {
        self.work(py, |session| {
            let mut last = None;
            for piece in divide(text, TEXT)? {
                last = Some(match TableChange::read(&piece).transpose()? {
                    Some(change) if session.client_table(&change.table).is_some() => {
                        changed(session, &change)?
                    }
                    _ => executed(session, &piece.read()?)?,
                });
            }
            Ok(last.unwrap_or_else(|| done(String::new())))
        })
    }

    /// Gives rows to a source or a table, and returns how many there were once they have been taken in.
    fn push(&self, py: Python<'_>, name: &str, data: &Bound<'_, PyAny>) -> PyResult<usize> {
        let rows = rows_of(data)?;
        let cancellation = Cancellation::default();
        let goes_on = || cancellation.requests() == 0;
        let pushed = interruptible(py, &cancellation, || {
            let table = self.with(|session| Ok(session.client_table(name)))?;
            if let Some(table) = table {
                return self.with(|session| added(session, &table, rows));
            }
            let target = self.with(|session| Ok(session.push_target(name, "pushed")?))?;
            let count = pushed(&target, rows, &goes_on)?;
            self.with(|session| {
                session.note_pushed(name);
                Ok(count)
            })
        })?;
        pushed.map_err(|error| raised(py, &error))
    }

    /// Returns the columns that rows for a source or a table have, as a capsule.
    fn columns<'py>(&self, py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyCapsule>> {
        let schema = self.work(py, |session| match session.client_table(name) {
            Some(table) => Ok(table.shape.columns),
            None => {
                let catalog = session.runtime().catalog();
                let target = catalog.push_target(name).map(|target| Arc::clone(target.schema()));
                // The error says what is there instead.
                target.map_or_else(|| Ok(Arc::clone(session.push_target(name, "pushed")?.schema())), Ok)
            }
        })?;
        schema_capsule(py, &schema)
    }

    /// Returns the rows of a view, and then its changes as they come.
    fn changes(&self, py: Python<'_>, view: &str) -> PyResult<Rows> {
        self.work(py, |session| {
            let text = format!("SUBSCRIBE TO {}", quoted(view));
            executed(session, &divide(&text, TEXT)?.remove(0).read()?)
        })
    }

    /// Whether there is a source, table or view of a name.
    fn has(&self, py: Python<'_>, name: &str) -> PyResult<bool> {
        self.work(py, |session| Ok(session.names().iter().any(|known| known == name)))
    }

    /// Closes the database: what its queries have taken in is answered and committed. Nothing happens if it is closed.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        let cancellation = Cancellation::default();
        let closed = interruptible(py, &cancellation, || -> Result<(), Cause> {
            let Some(session) = self.session.get()?.lock().take() else { return Ok(()) };
            while !session.runtime().close(CLOSE_LOOK).is_empty() && cancellation.requests() == 0 {}
            Ok(())
        })?;
        closed.map_err(|cause| raised(py, &cause.into()))
    }
}

impl Connection {
    /// Works with the session.
    fn with<T>(&self, work: impl FnOnce(&mut Session) -> Result<T, EngineError>) -> Result<T, EngineError> {
        match self.session.get()?.lock().as_mut() {
            Some(session) => work(session),
            None => Err(Cause::user("the database is closed").into()),
        }
    }

    /// Works with the session, while the interpreter is free.
    fn work<T: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&mut Session) -> Result<T, EngineError> + Send,
    ) -> PyResult<T> {
        interruptible(py, &self.cancellation, || self.with(work))?.map_err(|error| raised(py, &error))
    }
}

/// Opens a database.
fn open(mut planner: Planner, folder: Option<PathBuf>) -> Result<Session, Cause> {
    let runtime = match folder {
        None => Runtime::new(planner),
        Some(folder) => {
            let definitions = FileCatalogLog::open(&folder.join("catalogue"))?;
            let journal = folder.join("journal");
            planner.settings_mut().journal = Some(journal.clone());
            planner.settings_mut().cost_profiles = Some(folder.join("cost-profiles"));
            Runtime::open_journaled(planner, Box::new(definitions), &journal)?
        }
    };
    let mut session = Session::new(&runtime);
    session.set_runs_definitions(true);
    // Each sink runs by itself.
    session.set_checks_deadlines(true);
    Ok(session)
}

/// Executes a statement, and runs what it defines.
fn executed(session: &mut Session, statement: &Statement) -> Result<Rows, EngineError> {
    if let Some(name) = session.replaces(statement).map(str::to_owned) {
        return Ok(done(session.replace(statement)?.describe(&name)));
    }
    if let StatementKind::Subscribe(_) = statement.kind {
        // With a session of its own, it is cancelled by itself.
        return executed_by(&mut Session::new(session.runtime()), statement);
    }
    executed_by(session, statement)
}

fn executed_by(session: &mut Session, statement: &Statement) -> Result<Rows, EngineError> {
    match session.execute(statement)? {
        Reply::Done(text) => {
            if statement.kind.is_definition() && session.has_defined() {
                session.follow(statement)?;
            }
            Ok(done(text))
        }
        Reply::Rows(rows) => Ok(ready(rows)),
        Reply::Text(text) => Ok(ready(text_rows(&text)?)),
        Reply::Analyze(query) => {
            let explained = query.explained();
            match query.start_without_rows()?.finish()? {
                QueryEnd::Finished { status, .. } => Ok(ready(text_rows(&explained.with(&status))?)),
                QueryEnd::Abandoned => Err(Cause::operation("the query was cancelled").into()),
            }
        }
        Reply::Query(query) => coming(query),
        Reply::Changes(changes) => {
            let schema = Arc::clone(changes.schema());
            Ok(Rows::new(schema, RowSource::Changes(changes), session.cancellation(), None))
        }
        Reply::Batches(_) => Err(Cause::bug("nobody has asked for an answer in batches").into()),
    }
}

/// Starts a query over streams.
fn coming(query: Query) -> Result<Rows, EngineError> {
    if query.outputs().iter().any(|output| output.table_key.is_some()) {
        return Err(Refused::changing_answer().into());
    }
    let is_answered_at_end = query.outputs().is_empty();
    if is_answered_at_end {
        // By the cancellation of the session, which waits for it.
        let rows = query.stream()?.collect::<Result<Vec<_>, _>>()?;
        return match <[RecordBatch; 1]>::try_from(rows) {
            Ok([answer]) => Ok(ready(answer)),
            Err(_) => Err(Cause::bug("a query that is answered at its end has one answer").into()),
        };
    }
    let cancellation = Cancellation::default();
    let stream = query.cancelled_by(cancellation.clone()).stream()?;
    let schema = stream.schema().map_or_else(|| Arc::new(Schema::empty()), SchemaRef::clone);
    Ok(Rows::new(schema, RowSource::Coming(Box::new(stream)), cancellation, None))
}

/// Executes a change of a table.
fn changed(session: &mut Session, change: &TableChange) -> Result<Rows, EngineError> {
    let changed = session.change(change)?;
    Ok(match changed.returned {
        Some(rows) => ready(rows),
        None => done(format!("{} {}", change.kind.word(), changed.rows)),
    })
}

/// Adds rows to a table, all of them or none.
fn added(
    session: &mut Session,
    table: &ClientTable,
    rows: Box<dyn RecordBatchReader + Send>,
) -> Result<usize, EngineError> {
    let places = places(&table.shape.columns, &rows.schema(), false)?;
    let batches = rows.collect::<Result<Vec<_>, _>>().map_err(unreadable)?;
    session.add_to_table(table, &batches, &places)
}

/// Gives rows to a source, and waits until it has taken them in.
fn pushed(
    target: &PushTarget,
    rows: Box<dyn RecordBatchReader + Send>,
    goes_on: &dyn Fn() -> bool,
) -> Result<usize, EngineError> {
    let places = places(target.schema(), &rows.schema(), true)?;
    let (mut count, mut last) = (0, None);
    for batch in rows {
        let batch = fitted_rows(&batch.map_err(unreadable)?, &places, target.schema())?;
        for from in (0..batch.num_rows()).step_by(ROWS_MAX) {
            let piece = batch.slice(from, ROWS_MAX.min(batch.num_rows() - from));
            count += piece.num_rows();
            last = Some(target.push(&piece, goes_on)?);
        }
    }
    if let Some(last) = last {
        last.settle(goes_on)?;
    }
    Ok(count)
}

/// Returns the places of given columns, by their names. `checks_others`: those that are not given must be able to be NULL.
fn places(all: &SchemaRef, given: &SchemaRef, checks_others: bool) -> Result<Vec<usize>, Refused> {
    let names: Vec<String> = given.fields().iter().map(|field| field.name().clone()).collect();
    if checks_others {
        return chosen_columns(all, &names, "the rows");
    }
    let nullable = all.fields().iter().map(|field| Field::clone(field).with_nullable(true));
    chosen_columns(&Arc::new(Schema::new(nullable.collect::<Vec<_>>())), &names, "the rows")
}

fn unreadable(error: arrow_schema::ArrowError) -> Cause {
    Cause::user(format!("the rows cannot be read: {error}")).with_source(error)
}

fn ready(rows: RecordBatch) -> Rows {
    Rows::new(rows.schema(), RowSource::Ready(Some(rows)), Cancellation::default(), None)
}

/// Returns the result of a statement that gives no rows.
fn done(text: String) -> Rows {
    let nothing = RecordBatch::new_empty(Arc::new(Schema::empty()));
    Rows::new(nothing.schema(), RowSource::Ready(None), Cancellation::default(), Some(text))
}

/// Returns a text as rows, a line each.
fn text_rows(text: &str) -> Result<RecordBatch, Cause> {
    let schema = Arc::new(Schema::new(vec![Field::new("text", DataType::Utf8, false)]));
    let lines = Arc::new(StringArray::from(text.trim_end().lines().collect::<Vec<_>>()));
    RecordBatch::try_new(schema, vec![lines]).map_err(|error| Cause::bug(error.to_string()))
}

fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}
