//! Pipelines whose past is looked at.

use std::path::Path;

use tidemill_engine::Past;
use tidemill_engine::arrow::array::cast::AsArray;
use tidemill_engine::arrow::array::types::TimestampNanosecondType;
use tidemill_service::{Runtime, past_query};
use tidemill_sql::{PastResults, Pipeline, Planner, Reply, STATE_OF, parse, state_of};

use super::database::{CATALOGUE, JOURNAL};
use super::pipeline::{durable_pipeline, executor};
use super::script::ScriptText;
use super::{RowOptions, user_error};
use crate::exit::Exit;

/// The pipeline of a script, and its past in the folder of its journal.
pub(crate) fn past_of_script(
    script: &Path,
    planner: Planner,
    folder: &Path,
) -> anyhow::Result<(Pipeline, Past)> {
    let past = Past::open(folder)?;
    Ok((durable_pipeline(script, planner, folder)?, past))
}

/// A query of the database in a folder, and its past.
pub(crate) fn past_of_query(data: &Path, query: &str, planner: Planner) -> anyhow::Result<(Pipeline, Past)> {
    let (pipeline, folder) = past_query(planner, (&data.join(CATALOGUE), &data.join(JOURNAL)), query)?;
    Ok((pipeline, Past::open(&folder)?))
}

/// Answers a query over the past: rows under the name of the sink or view that had them, and what operators held by the
/// function `state_of`.
pub(crate) fn look(
    query: &str,
    results: PastResults,
    mut planner: Planner,
    rows: RowOptions,
) -> anyhow::Result<Exit> {
    let mut catalog = planner.catalog().clone();
    results.rows.into_iter().for_each(|(name, rows)| catalog.attach_rows(&name, rows));
    planner.set_catalog(catalog);
    if let Some(state) = results.state {
        planner.register_generator(STATE_OF, state_of(state));
    }
    let script = ScriptText { name: "--look".into(), text: query.to_owned(), is_standard_input: false };
    let mut executor = executor(&Runtime::new(planner), rows, None)?;
    for statement in &script.statements()? {
        let exit = executor.statement(statement)?;
        if exit != Exit::Done {
            return Ok(exit);
        }
    }
    Ok(Exit::Done)
}

/// A time as SQL writes it, in nanoseconds since 1970.
pub(crate) fn time_ns(text: &str) -> anyhow::Result<u64> {
    let wrong = || user_error(format!("'{text}' is not a time; write it as in '2026-03-01 12:00:05' (UTC)"));
    let query = format!("SELECT CAST('{}' AS TIMESTAMP) AS time", text.replace('\'', "''"));
    let statement = parse(&query, "the time").ok().and_then(|statements| statements.into_iter().next());
    let statement = statement.ok_or_else(wrong)?;
    let Ok(Reply::Rows(rows)) = Planner::new().execute(&statement) else { return Err(wrong()) };
    let time =
        rows.column(0).as_primitive_opt::<TimestampNanosecondType>().and_then(|times| times.iter().next()?);
    time.and_then(|time| u64::try_from(time).ok()).ok_or_else(wrong)
}
