//! Views and sinks that begin over tables which have rows already: they get these rows first.
//!
//! They come through the source of the table, marked as being for the new query alone. So they are journaled with the table's changes, and a
//! query that is restarted reads both again.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use std::{fs, io, thread};

use tidemill_engine::{Cause, inspect};
use tidemill_sql::{ClientTable, Pipeline, RunningQuery};

use super::table_contents::{as_changes, give_together, read_rows};
use crate::Runtime;
use crate::error::Error;
use crate::tables::{TableLock, of_arrow};

/// How long a query that begins waits for transactions over the tables that it reads.
const PATIENCE: Duration = Duration::from_secs(60);
/// How often it is looked whether its views have the rows.
const LOOK: Duration = Duration::from_millis(1);

/// The tables that a query reads which begins. Nobody changes them until they have been given to it.
pub(crate) struct BeingFilled {
    tables: Vec<(ClientTable, TableLock)>,
    readers: Vec<String>,
    /// A file that is there until then, so that a query which was interrupted meanwhile begins once more.
    mark: Option<PathBuf>,
}

/// Whether a query is to be given the rows of tables: it reads some, and begins without a state.
pub(crate) fn needs_filling(pipeline: &Pipeline, is_new: bool) -> Result<bool, Cause> {
    let is_interrupted = || mark_of(pipeline).is_some_and(|mark| mark.exists());
    Ok(!pipeline.tables().0.is_empty() && (is_new || is_interrupted() || !has_state(pipeline)?))
}

/// Keeps the tables that a query reads as they are, if it is to be given their rows.
pub(crate) fn begin_filling(
    runtime: &Runtime,
    pipeline: &Pipeline,
    is_new: bool,
) -> Result<Option<BeingFilled>, Error> {
    if !needs_filling(pipeline, is_new)? {
        return Ok(None);
    }
    let (sources, readers) = pipeline.tables();
    let mark = mark_of(pipeline);
    if let Some(mark) = &mark {
        fs::write(mark, []).map_err(|error| cannot_mark(mark, &error))?;
    }
    let catalog = runtime.defined_catalog();
    let named = |source: &String| ClientTable::of(&catalog, source.strip_suffix("_rows")?);
    let owner = runtime.tables().new_owner();
    let mut tables = Vec::new();
    for table in sources.iter().filter_map(named) {
        let lock = runtime.tables().lock(owner, &table.target, &|| !runtime.is_closing(), Some(PATIENCE))?;
        tables.push((table, lock));
    }
    Ok(Some(BeingFilled { tables, readers: readers.to_vec(), mark }))
}

/// Gives the rows of the tables to a query that has begun, and waits until its views have them.
pub(crate) fn fill(
    runtime: &Runtime,
    filled: BeingFilled,
    query: &str,
    running: &RunningQuery,
) -> Result<(), Error> {
    let BeingFilled { mut tables, readers, mark } = filled;
    let mut given = Vec::new();
    for (table, lock) in &mut tables {
        if table.name == query {
            // It is the table itself, which begins without rows.
            lock.rows = None;
            continue;
        }
        let mut rows = match lock.rows.take() {
            Some(rows) => rows,
            None => read_rows(runtime, table, &|| !runtime.is_closing())?,
        };
        let columns: Vec<usize> = (0..table.shape.columns.fields().len()).collect();
        let mut batches = Vec::new();
        for numbered in rows.numbered()? {
            let own = numbered.project(&columns).map_err(of_arrow)?;
            for reader in &readers {
                batches.push(as_changes(&own, 1, Some(reader), &table.target)?);
            }
        }
        lock.rows = Some(rows);
        given.push((table.target.clone(), batches));
    }
    let has_rows = given.iter().any(|(_, batches)| !batches.is_empty());
    let cycle = has_rows.then(|| give_together(runtime, &given)).transpose()?;
    if let Some(mark) = &mark {
        fs::remove_file(mark).map_err(|error| cannot_mark(mark, &error))?;
    }
    // Others may change the tables meanwhile.
    drop(tables);
    let Some(cycle) = cycle else { return Ok(()) };
    let since = Instant::now();
    let lacks_rows = || running.views().iter().any(|view| !view.has_reached(cycle));
    // The rows are on their way, whatever becomes of the query.
    while lacks_rows() && !running.has_ended() && !runtime.is_closing() && since.elapsed() < PATIENCE {
        thread::sleep(LOOK);
    }
    Ok(())
}

/// The file that says that a query has not been given the rows of its tables; `None`: it has no folder.
fn mark_of(pipeline: &Pipeline) -> Option<PathBuf> {
    // Beside the folder, which is made when the query begins.
    Some(pipeline.journal()?.with_extension("filling"))
}

fn cannot_mark(mark: &Path, error: &io::Error) -> Cause {
    Cause::operation(format!("cannot write {}: {error}", mark.display()))
}

/// Whether the folder of a query has where it continues.
fn has_state(pipeline: &Pipeline) -> Result<bool, Cause> {
    match pipeline.journal() {
        Some(folder) if folder.is_dir() => Ok(inspect::query(folder)?.is_some()),
        _ => Ok(false),
    }
}
