//! To whom a session belongs, and what it may do.

use tidemill_service::{Role, Runtime};
use tidemill_sql::StatementKind;

use crate::report::{ADMIN_SHUTDOWN, INSUFFICIENT_PRIVILEGE, Report};

/// To whom a session belongs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Identity {
    /// Somebody of this machine, who was not asked because there were no users.
    Anybody,
    /// The user of this name, who has proved it.
    User(String),
}

impl Identity {
    /// What it may do at this moment.
    pub fn role(&self, runtime: &Runtime) -> Result<Role, Report> {
        match self {
            Identity::Anybody => Ok(Role::Owner),
            Identity::User(name) => runtime.user(name).map(|user| user.role).ok_or_else(|| {
                Report::fatal(
                    ADMIN_SHUTDOWN,
                    format!("user '{name}' was dropped, and this session ends with it"),
                )
            }),
        }
    }

    /// Refuses what needs another role.
    pub fn check(&self, role: Role, needed: Role) -> Result<(), Report> {
        match (self, role >= needed) {
            (_, true) | (Identity::Anybody, _) => Ok(()),
            (Identity::User(name), false) => {
                let message = format!("this needs the role {needed}, and user '{name}' is a {role}");
                let hint = format!("an owner can change that: ALTER USER {name} ROLE {needed}");
                Err(Report::error(INSUFFICIENT_PRIVILEGE, message).with_hint(hint))
            }
        }
    }
}

/// The role that a statement of the language needs. Settings of the engine decide how much of the machine a query takes.
pub(crate) fn needed_role(kind: &StatementKind) -> Role {
    match kind {
        StatementKind::Set { .. } => Role::Owner,
        kind if kind.is_definition() => Role::Owner,
        _ => Role::Reader,
    }
}
