//! What a view with parts at gateways cannot do yet.

use tidemill_sql::{Name, Statement, StatementKind};

use crate::{Error, Session};

impl Session {
    /// Refuses what is done to a view of this process only.
    pub(crate) fn check_gateways(&self, statement: &Statement) -> Result<(), Error> {
        let Some((name, what, remedy)) = done_here(&statement.kind) else { return Ok(()) };
        let gateways = self.runtime().defined_catalog().gateways_of(name.as_str()).join(", ");
        if gateways.is_empty() || !self.runtime().is_at_gateways(name.as_str()) {
            return Ok(());
        }
        let message = format!("view `{name}` has parts at gateways ({gateways}), and cannot be {what} there");
        Err(statement.error(name.span, message).with_hint(remedy).into())
    }
}

/// The name that a statement is about, if it does something that queries of this process only can do; what that is, and what
/// helps instead.
fn done_here(kind: &StatementKind) -> Option<(&Name, &'static str, &'static str)> {
    let again = "DROP it, and create it again";
    match kind {
        StatementKind::CreateView(create) if create.or_replace => Some((&create.name, "replaced", again)),
        StatementKind::CreateSource(create) | StatementKind::CreateTable(create) if create.or_replace => {
            Some((&create.name, "replaced", again))
        }
        StatementKind::CreateSink(create) if create.or_replace => Some((&create.name, "replaced", again)),
        StatementKind::CreateProcess(create) if create.or_replace => Some((&create.name, "replaced", again)),
        _ => None,
    }
}
