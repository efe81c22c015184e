//! Notices of sources while a query runs, each shown as soon as it is known.

use std::time::{Duration, Instant};

use tidemill_sql::QueryStatus;

use super::query_progress::QueryProgress;

/// How often to check.
const PAUSE: Duration = Duration::from_millis(200);

/// What was reported already.
#[derive(Default)]
pub(crate) struct Notices {
    /// The number of notices per source.
    told: Vec<usize>,
    next: Option<Instant>,
}

impl Notices {
    /// Reports what is new, if a check is due.
    pub fn look(&mut self, live: &QueryProgress, status: impl FnOnce() -> Option<QueryStatus>) {
        let now = Instant::now();
        if self.next.is_some_and(|next| now < next) {
            return;
        }
        self.next = Some(now + PAUSE);
        let Some(status) = status() else { return };
        self.told.resize(status.sources.len(), 0);
        for ((_, feed), told) in status.sources.iter().zip(&mut self.told) {
            for notice in feed.faults.notices.iter().skip(*told) {
                live.tell(&format!("note: {notice}"));
            }
            *told = feed.faults.notices.len();
        }
    }
}
