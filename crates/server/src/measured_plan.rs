//! `EXPLAIN ANALYZE`: a query that runs for its measurements.

use std::thread;
use std::time::Duration;

use tidemill_engine::arrow::array::RecordBatch;
use tidemill_service::{Execution, Phase, Query, QueryEnd};
use tidemill_sql::QueryStatus;

use crate::report::{QUERY_CANCELED, Report};
use crate::text_rows::plan_rows;

/// How often a running query is looked at.
const LOOK: Duration = Duration::from_millis(5);

/// Runs a query, drops its rows, and describes its plan and what was measured. Many queries do not end by themselves: one that is
/// cancelled is described with what was measured until then.
///
/// # Errors
/// If the query fails, or is cancelled before anything was measured.
pub(crate) fn measured_plan(
    query: Query,
    is_json: bool,
    is_cancelled: impl Fn() -> bool,
) -> Result<RecordBatch, Report> {
    let explained = query.explained();
    let mut execution = query.start_without_rows().map_err(Report::from)?;
    while !is_cancelled() && execution.advance() == Phase::Running {
        thread::sleep(LOOK);
    }
    let status = if is_cancelled() { execution.running().status() } else { finished(execution)? };
    let status = status.ok_or_else(|| Report::error(QUERY_CANCELED, "the query was cancelled"))?;
    Ok(plan_rows(&explained.with(&status), is_json))
}

/// The last status of a query that has taken in everything.
fn finished(execution: Execution) -> Result<Option<QueryStatus>, Report> {
    match execution.finish()? {
        QueryEnd::Finished { status, .. } => Ok(Some(*status)),
        QueryEnd::Abandoned => Ok(None),
    }
}
