//! The rows of tables whose changes come from clients: read from their views, and given to their sources.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use tidemill_engine::Cause;
use tidemill_engine::arrow::array::{Array, Int64Array, RecordBatch, StringArray, new_null_array};
use tidemill_sql::{ClientTable, PushTarget};

use crate::error::{Error, Refused};
use crate::tables::{TableRows, of_arrow};
use crate::{QueryState, Runtime};

/// How often one who waits for a view looks.
const LOOK: Duration = Duration::from_millis(1);
/// How long a view is waited for.
const PATIENCE: Duration = Duration::from_secs(30);
/// The most rows that are given to a source at once.
const ROWS_MAX: usize = 1 << 16;

/// Gives rows to the sources of tables, so that all of them are in one cycle.
pub(crate) fn give_together(
    runtime: &Runtime,
    changes: &[(PushTarget, Vec<RecordBatch>)],
) -> Result<u64, Error> {
    let names: Vec<&str> = changes.iter().map(|(target, _)| target.name()).collect();
    let mut transaction = runtime.clock().begin_transaction(&names)?;
    let goes_on = || !runtime.is_closing();
    let mut pushed = Vec::new();
    for (place, (target, batches)) in changes.iter().enumerate() {
        for batch in batches {
            let mut from = 0;
            while from < batch.num_rows() {
                let rows = batch.slice(from, ROWS_MAX.min(batch.num_rows() - from));
                from += rows.num_rows();
                transaction.gave(place, rows.num_rows() as u64);
                pushed.push(target.push(&rows, &goes_on)?);
            }
        }
    }
    for pushed in &pushed {
        pushed.settle(&goes_on)?;
    }
    Ok(transaction.commit()?)
}

/// Rows as the source of their table takes them.
pub(crate) fn as_changes(
    rows: &RecordBatch,
    weight: i64,
    reader: Option<&str>,
    target: &PushTarget,
) -> Result<RecordBatch, Cause> {
    let count = rows.num_rows();
    let weights = Arc::new(Int64Array::from_value(weight, count)) as Arc<dyn Array>;
    let reader_type = target.schema().fields().last().map(|field| field.data_type().clone());
    let reader_type = reader_type.ok_or_else(|| Cause::bug("the source of a table has no columns"))?;
    let readers = match reader {
        None => new_null_array(&reader_type, count),
        Some(reader) => {
            let texts = StringArray::from(vec![reader; count]);
            arrow_cast::cast(&texts, &reader_type).map_err(of_arrow)?
        }
    };
    let columns = rows.columns().iter().cloned().chain([weights, readers]).collect();
    RecordBatch::try_new(Arc::clone(target.schema()), columns).map_err(of_arrow)
}

/// Reads the rows of a table, once its view has all that were committed.
pub(crate) fn read_rows(
    runtime: &Runtime,
    table: &ClientTable,
    goes_on: &dyn Fn() -> bool,
) -> Result<TableRows, Error> {
    let not_running = |why: &str| {
        let message = format!("the rows of table '{}' cannot be changed: {why}", table.name);
        Error::from(
            Refused::new("55000", message).with_hint(format!("START MATERIALIZED VIEW {}", table.name)),
        )
    };
    match runtime.state(&table.name) {
        Ok(QueryState::Running | QueryState::Ending) => {}
        Ok(state) => return Err(not_running(&format!("its view is {state:?}").to_lowercase())),
        Err(_) => return Err(not_running("its view does not run")),
    }
    let committed = runtime.clock().cycle();
    let view = runtime.running_view(&table.name).ok_or_else(|| not_running("its view does not run"))?;
    wait_for_view(runtime, &table.name, committed, goes_on)?;
    TableRows::new(&table.name, &table.shape, view.read()?)
}

/// Waits until a view that runs has a cycle.
pub(crate) fn wait_for_view(
    runtime: &Runtime,
    name: &str,
    cycle: Option<u64>,
    goes_on: &dyn Fn() -> bool,
) -> Result<(), Error> {
    let Some(cycle) = cycle else { return Ok(()) };
    let since = Instant::now();
    loop {
        let Some(view) = runtime.running_view(name) else { return Ok(()) };
        // One that has ended has what it will ever have.
        let runs = matches!(runtime.query_of_output(name), Some(Some(query)) if query.state() == QueryState::Running);
        if view.has_reached(cycle) || !runs {
            return Ok(());
        }
        if !goes_on() {
            return Err(Refused::new(
                "57014",
                format!("the statement was cancelled while view '{name}' was behind"),
            )
            .into());
        }
        if since.elapsed() > PATIENCE {
            let message = format!("view '{name}' does not yet have what this session has changed");
            return Err(Refused::new("55000", message)
                .with_hint("repeat the statement; SHOW QUERIES says how far the view is behind")
                .into());
        }
        thread::sleep(LOOK);
    }
}
