//! What is repeated while the server is away, and what is told about it.

use std::time::Duration;

use tidemill_core::OutageReport;
use tracing::warn;

use super::failure::Reason;

/// What the sink does at the server.
#[derive(Clone, Copy, Debug)]
pub(super) enum Doing {
    /// It is opened; the query runs already.
    Open,
    /// It commits the cycles up to this one.
    Commit { cycle: u64 },
}

impl Doing {
    /// It has failed, and is tried again.
    pub fn tell_failed(self, server: &str, report: OutageReport, reason: &Reason, retry_for: Duration) {
        let OutageReport { attempts, lasted } = report;
        match self {
            Doing::Open => warn!(
                server, attempts, ?lasted, %reason, ?retry_for,
                "PostgreSQL is away; the query has started, and its rows wait"
            ),
            Doing::Commit { cycle } => warn!(
                server, cycle, attempts, ?lasted, %reason, ?retry_for,
                "a commit to PostgreSQL failed; it is tried again"
            ),
        }
    }

    /// It has worked in the end.
    pub fn tell_over(self, server: &str, OutageReport { attempts, lasted }: OutageReport) {
        match self {
            Doing::Open => {
                warn!(server, attempts, after = ?lasted, "PostgreSQL is there; the rows are written");
            }
            Doing::Commit { cycle } => {
                warn!(server, cycle, attempts, after = ?lasted, "PostgreSQL is back; the rows are committed");
            }
        }
    }
}
