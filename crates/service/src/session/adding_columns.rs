//! `ALTER SOURCE ... ADD COLUMN`: those that read the source end behind a cycle, and continue with it as it is then (decision 0153).

use std::sync::Arc;

use tidemill_engine::Cause;
use tidemill_sql::{AddColumns, Planner, Statement};

use crate::catalog::change::Change;
use crate::runtime::entry::Entry;
use crate::runtime::is_starting;
use crate::runtime::query::NamedQuery;
use crate::{Error, QueryState, Reply, Runtime, Session};

/// Gives a source columns; the text says what was done. Queries over it continue where they are.
pub(super) fn add_columns(
    session: &mut Session,
    statement: &Statement,
    add: &AddColumns,
) -> Result<String, Error> {
    let (runtime, name) = (session.runtime().clone(), add.name.as_str());
    let before = runtime.defined_catalog();
    // What is refused is refused before anything has ended.
    let mut planner = Planner::at(before.clone(), session.settings().clone());
    planner.execute(statement)?;
    if planner.catalog().version() == before.version() {
        return define_columns(session, statement);
    }
    let (readers, _changes) = readers_of(&runtime, name)?;
    // All continue with the same row of the source, which has its columns then.
    let held = runtime.clock().hold();
    readers.iter().for_each(|query| query.abandon());
    if let Some(stream) = before.stream_of(name) {
        let why = format!("source '{name}' was given columns while the query read it; run it again");
        runtime.clock().close_source(&stream, &Cause::operation(why));
    }
    let defined = define_columns(session, statement);
    for query in &readers {
        let (kept, clock_name) = (query.identity.kept.clone(), query.clock_name().to_owned());
        let start = runtime.catalog_store().note_started(kept.name.clone());
        runtime.restart(kept, clock_name, start);
    }
    drop(held);
    let defined = defined?;
    runtime.apply_at_gateways(name, &runtime.is_cancelled_from_here(&session.cancellation()));
    let names = readers.iter().map(|query| query.identity.kept.name.as_str());
    let failed = |name: &&str| runtime.state(name).is_ok_and(|state| state == QueryState::Failed);
    let (failed, continued): (Vec<_>, Vec<_>) = names.partition(failed);
    Ok(match (continued.is_empty(), failed.is_empty()) {
        (true, true) => defined,
        (false, true) => format!("{defined}; what reads it continues: '{}'", continued.join("', '")),
        _ => format!(
            "{defined}; what reads it could not continue, SHOW QUERIES says why: '{}'",
            failed.join("', '")
        ),
    })
}

fn define_columns(session: &mut Session, statement: &Statement) -> Result<String, Error> {
    match session.define(statement)? {
        Reply::Done(text) => Ok(text),
        _ => Err(Cause::bug("a definition is answered by a text").into()),
    }
}

/// The queries that run and read a source. Until the changes are dropped, nobody else changes them.
fn readers_of(runtime: &Runtime, source: &str) -> Result<(Vec<Arc<NamedQuery>>, Vec<Change>), Cause> {
    let outputs = runtime.defined_catalog().outputs_over(source);
    let mut readers = Vec::new();
    for (name, entry) in runtime.entries().iter() {
        if !entry.outputs().iter().any(|output| outputs.contains(output)) {
            continue;
        }
        match entry {
            Entry::Starting(_) => return Err(is_starting(name)),
            Entry::Started(query) => match query.state() {
                QueryState::Running | QueryState::Ending => readers.push(Arc::clone(query)),
                QueryState::Stopped | QueryState::Ended | QueryState::Failed => {}
            },
        }
    }
    let change =
        |query: &Arc<NamedQuery>| runtime.changes().begin(&query.identity.kept.name, "given another source");
    let changes = readers.iter().map(change).collect::<Result<_, _>>()?;
    Ok((readers, changes))
}
