//! What clients learn from definitions that change what runs.

use tidemill_service::Session;
use tidemill_sql::{Statement, StatementKind};

use crate::report::{Report, SUCCESSFUL};

/// Executes a statement that replaces what a query writes to that runs, and the query with it. Returns a notice for its client.
/// `None` if the statement replaces nothing that runs, so nothing was done.
pub(crate) fn replace(session: &mut Session, statement: &Statement) -> Option<Result<Report, Report>> {
    if session.replaces_at_gateways(statement) {
        let replaced = session.replace_at_gateways(statement).map_err(Report::from);
        return Some(replaced.map(|said| Report::notice(SUCCESSFUL, said)));
    }
    let name = session.replaces(statement)?;
    let replaced = session.replace(statement).map_err(Report::from);
    Some(replaced.map(|inherited| Report::notice(SUCCESSFUL, inherited.describe(name))))
}

/// Whether the client gets a notice of what a statement has done: what its query keeps, and what it misses.
pub(crate) fn is_told(kind: &StatementKind) -> bool {
    matches!(
        kind,
        StatementKind::Stop(_)
            | StatementKind::Start(_)
            | StatementKind::Alter(_)
            | StatementKind::AddColumns(_)
    )
}

/// Whether a statement drops more than it names. Its client is told what.
pub(crate) fn takes_others_along(kind: &StatementKind) -> bool {
    matches!(kind, StatementKind::Drop { cascade: true, .. })
}
