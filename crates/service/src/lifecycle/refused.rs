//! What a view with parts at gateways cannot do yet.

use tidemill_sql::{Name, Statement, StatementKind};

use crate::{Error, Runtime};

impl Runtime {
    /// Refuses what is done to a view of this process only.
    pub(crate) fn check_gateways(&self, statement: &Statement) -> Result<(), Error> {
        let Some((kind, name)) = replaced_here(&statement.kind) else { return Ok(()) };
        let gateways = self.defined_catalog().gateways_of(name.as_str()).join(", ");
        if gateways.is_empty() || !self.is_at_gateways(name.as_str()) {
            return Ok(());
        }
        let message = format!("{kind} `{name}` runs at gateways ({gateways}), and cannot be replaced there");
        Err(statement.error(name.span, message).with_hint("DROP it, and create it again").into())
    }
}

/// What a statement replaces, if only queries of this process can be replaced so: its kind and its name.
fn replaced_here(kind: &StatementKind) -> Option<(&'static str, &Name)> {
    match kind {
        StatementKind::CreateView(create) if create.or_replace => Some(("view", &create.name)),
        StatementKind::CreateSource(create) if create.or_replace => Some(("source", &create.name)),
        StatementKind::CreateTable(create) if create.or_replace => Some(("table", &create.name)),
        StatementKind::CreateSink(create) if create.or_replace => Some(("sink", &create.name)),
        StatementKind::CreateProcess(create) if create.or_replace => Some(("process", &create.name)),
        _ => None,
    }
}
