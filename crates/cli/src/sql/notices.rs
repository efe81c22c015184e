//! What sources have to say while a query runs, each as soon as it is known.

use std::time::{Duration, Instant};

use tidemill_sql::QueryStatus;

use super::live::Live;

/// How often there is a look.
const PAUSE: Duration = Duration::from_millis(200);

/// What was told already.
#[derive(Default)]
pub(crate) struct Notices {
    /// How many of each source.
    told: Vec<usize>,
    next: Option<Instant>,
}

impl Notices {
    /// Tells what is new, if it is time to look.
    pub fn look(&mut self, live: &Live, status: impl FnOnce() -> Option<QueryStatus>) {
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
