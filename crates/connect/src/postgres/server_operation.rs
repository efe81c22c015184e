//! The operations that the sink repeats while the server is away, and what it logs about them.

use std::time::Duration;

use tidemill_core::OutageReport;
use tracing::warn;

use super::failure::Reason;

/// What the sink does at the server.
#[derive(Clone, Copy, Debug)]
pub(super) enum ServerOperation {
    /// It is opened; the query runs already.
    Open,
    /// It commits the cycles up to this one.
    Commit { cycle: u64 },
}

impl ServerOperation {
    /// It has failed, and is tried again.
    pub fn log_failure(
        self,
        (sink, server): (&str, &str),
        report: OutageReport,
        reason: &Reason,
        retry_for: Duration,
    ) {
        let OutageReport { attempts, lasted } = report;
        match self {
            ServerOperation::Open => warn!(
                sink, server, attempts, ?lasted, %reason, ?retry_for,
                "PostgreSQL is away; the query has started, and its rows wait"
            ),
            ServerOperation::Commit { cycle } => warn!(
                sink, server, cycle, attempts, ?lasted, %reason, ?retry_for,
                "a commit to PostgreSQL failed; it is tried again"
            ),
        }
    }

    /// It has worked in the end.
    pub fn log_recovery(self, sink: &str, server: &str, OutageReport { attempts, lasted }: OutageReport) {
        match self {
            ServerOperation::Open => {
                warn!(sink, server, attempts, after = ?lasted, "PostgreSQL is there; the rows are written");
            }
            ServerOperation::Commit { cycle } => {
                warn!(sink, server, cycle, attempts, after = ?lasted, "PostgreSQL is back; the rows are committed");
            }
        }
    }
}
