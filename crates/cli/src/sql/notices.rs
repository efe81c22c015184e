//! Notices of sources while a query runs, each shown as soon as it is known. Where there is a log, it has them.

use std::time::{Duration, Instant};

use tidemill_sql::QueryStatus;

use super::query_progress::QueryProgress;
use crate::logging;

/// How often to check.
const PAUSE: Duration = Duration::from_millis(200);

/// What was reported already.
#[derive(Default)]
pub(crate) struct Notices {
    /// The number of notices per source.
    told: Vec<u64>,
    next: Option<Instant>,
}

impl Notices {
    /// Reports what is new, if a check is due.
    pub fn look(&mut self, live: &QueryProgress, status: impl FnOnce() -> Option<QueryStatus>) {
        if logging::has_warnings() {
            return;
        }
        let now = Instant::now();
        if self.next.is_some_and(|next| now < next) {
            return;
        }
        self.next = Some(now + PAUSE);
        if let Some(status) = status() {
            self.show_new(&status, |text| live.tell(text));
        }
    }

    /// Reports what is new in this status, unless the log has it.
    pub fn show_new(&mut self, status: &QueryStatus, tell: impl Fn(&str)) {
        if logging::has_warnings() {
            return;
        }
        self.told.resize(status.sources.len(), 0);
        for ((_, feed), told) in status.sources.iter().zip(&mut self.told) {
            let notices = &feed.faults.notices;
            let (new, kept) = (notices.count() - *told, notices.since(*told));
            match new - kept.len() as u64 {
                0 => {}
                left_out => tell(&format!("note: {left_out} notices came too fast to be shown")),
            }
            kept.iter().for_each(|notice| tell(&format!("note: {notice}")));
            *told = notices.count();
        }
    }
}
