//! `EXPLAIN ANALYZE`.

use tidemill_service::Query;

use super::answer::{Answer, Rows};
use super::{Conversation, Result, Stop};
use crate::measured_plan::measured_plan;

impl Conversation<'_> {
    /// Runs a query, drops its rows, and answers with its plan and what was measured until it ended, or until the client or the time
    /// limit cancelled it.
    pub(super) fn analyze(&mut self, query: Query, is_json: bool) -> Result<Answer> {
        self.slot.leave();
        self.writer.flush()?;
        let (cancellation, before) = (self.session.cancellation(), self.cancelled_before);
        let plan = measured_plan(query, is_json, || cancellation.requests() > before);
        if self.inbox.has_ended() {
            return Err(Stop::Gone);
        }
        Ok(Answer::Rows(Rows::ready(plan?, "EXPLAIN", &self.session)?))
    }
}
