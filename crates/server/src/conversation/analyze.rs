//! `EXPLAIN ANALYZE`.

use std::thread;
use std::time::Duration;

use tidemill_service::{Execution, Phase, Query, QueryEnd};
use tidemill_sql::QueryStatus;

use super::answer::{Answer, Rows};
use super::{Conversation, Result, Stop};
use crate::report::{QUERY_CANCELED, Report};
use crate::text_rows::plan_table;

/// How often a running query is looked at.
const LOOK: Duration = Duration::from_millis(5);

impl Conversation<'_> {
    /// Runs a query, drops its rows, and answers with its plan and what was measured. Many queries do not end by themselves. So one
    /// that the client or the time limit cancels is answered, too, with what was measured until then.
    ///
    /// `requests` is how often the session had been cancelled before the query was planned.
    pub(super) fn analyze(&mut self, query: Query, requests: u32) -> Result<Answer> {
        self.writer.flush()?;
        let (cancellation, explained) = (self.session.cancellation(), query.explained());
        let mut execution = query.start_without_rows().map_err(Report::from)?;
        let is_cancelled = || cancellation.requests() > requests;
        while !is_cancelled() && execution.advance() == Phase::Running {
            thread::sleep(LOOK);
        }
        if self.inbox.has_ended() {
            return Err(Stop::Gone);
        }
        let status = match is_cancelled() {
            true => execution.running().status(),
            false => finished(execution)?,
        };
        let Some(status) = status else {
            return Err(Report::error(QUERY_CANCELED, "the query was cancelled").into());
        };
        let plan = plan_table(&explained.with(&status));
        Ok(Answer::Rows(Rows::ready(plan, "EXPLAIN", &self.session)?))
    }
}

/// The last status of a query that has taken in everything.
fn finished(execution: Execution) -> std::result::Result<Option<QueryStatus>, Report> {
    match execution.finish()? {
        QueryEnd::Finished { status, .. } => Ok(Some(*status)),
        QueryEnd::Abandoned => Ok(None),
    }
}
