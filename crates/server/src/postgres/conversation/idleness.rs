//! Sessions whose clients send nothing, and that hold rows which views have dropped or replaced since.

use std::time::{Duration, Instant};

use super::Conversation;
use super::cursors::Cursor;
use super::prepared::Progress;
use crate::postgres::inbox::Next;
use crate::postgres::wire::TransactionStatus;
use crate::report::{IDLE_IN_TRANSACTION, Report};

/// How often it is looked at what such a session holds.
const LOOK: Duration = Duration::from_secs(1);

impl Conversation<'_> {
    /// Waits for the next request, and looks meanwhile whether the session may continue to wait. What is free in the
    /// memory of its thread is for others then.
    ///
    /// # Errors
    /// Why the session ends.
    pub(super) fn next_request(&mut self, may_rest: bool) -> Result<Next, Report> {
        let since = Instant::now();
        // It keeps its thread, and others are answered meanwhile.
        if !may_rest && !self.inbox.has_next() {
            self.slot.leave();
        }
        let mut keeps_memory = true;
        loop {
            match self.inbox.next(may_rest, self.patience(since)).map_err(|error| Report::from(&error))? {
                Next::Nothing => {
                    self.look_at_idleness(since)?;
                    if std::mem::take(&mut keeps_memory) {
                        self.shared.options.release_memory.iter().for_each(|release| release());
                    }
                }
                next => {
                    self.session.forget_outlived_rows();
                    return Ok(next);
                }
            }
        }
    }

    /// How long the session waits for its next request before it is looked at what it holds, if it has been waiting `since` then; `None`: it
    /// holds nothing.
    fn patience(&self, since: Instant) -> Option<Duration> {
        let is_in_transaction = self.transaction != TransactionStatus::None;
        if !is_in_transaction && self.cursors.is_empty() {
            return None;
        }
        let left = self.settings.idle_in_transaction_timeout().filter(|_| is_in_transaction);
        Some(left.map_or(LOOK, |timeout| timeout.saturating_sub(since.elapsed()).min(LOOK)))
    }

    /// Looks whether a session that has been waiting `since` then may continue to do so. What it holds of views that they do not have any more
    /// counts in the memory of readers.
    ///
    /// # Errors
    /// Why it ends.
    fn look_at_idleness(&mut self, since: Instant) -> Result<(), Report> {
        let timeout = self.settings.idle_in_transaction_timeout();
        let is_in_transaction = self.transaction != TransactionStatus::None;
        if is_in_transaction && timeout.is_some_and(|timeout| since.elapsed() >= timeout) {
            let message = "the transaction has been idle for longer than idle_in_transaction_session_timeout";
            let report = Report::fatal(IDLE_IN_TRANSACTION, message);
            return Err(
                report.with_hint("end transactions that have nothing to do, or SET it to more; 0: no limit")
            );
        }
        self.count_outlived_rows().map_err(as_fatal)
    }

    /// Rows that are taken some at a time count by themselves, also while nobody takes them.
    fn count_outlived_rows(&mut self) -> Result<(), Report> {
        let of_portals = self.portals.values_mut().filter_map(|portal| match &mut portal.progress {
            Progress::Rows(rows) => Some(&mut **rows),
            Progress::NotStarted | Progress::Done => None,
        });
        let mut counted = 0;
        for rows in of_portals.chain(self.cursors.values_mut().map(Cursor::rows)) {
            rows.count_outlived_rows()?;
            counted += rows.outlived_bytes();
        }
        Ok(self.session.count_outlived_rows(counted)?)
    }
}

fn as_fatal(report: Report) -> Report {
    let hint = "end transactions that have nothing to do, and close cursors: views keep changing meanwhile";
    Report::fatal(report.code, report.message).with_hint(hint)
}
