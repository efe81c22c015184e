//! The sessions of a server, for one of them that looks at the others or ends them.

use std::sync::Arc;

use tidemill_engine::Cause;

use crate::sessions::activity::{Activity, Ending};
use crate::sessions::connections::Connections;

/// The sessions of a server, as one of them sees them.
#[derive(Clone)]
pub(crate) struct Sessions {
    pub connections: Arc<Connections>,
    /// Its own number.
    pub own: i32,
    pub user: String,
    /// Whether it may end sessions of other users.
    pub is_owner: bool,
    /// Whether calls of functions count. While a statement is only described, they do not.
    pub acts: bool,
}

impl Sessions {
    /// What a session executes, as this one may see it. Statements can contain secrets.
    pub fn statement_of(&self, activity: &Activity) -> String {
        if self.is_owner || activity.user == self.user {
            activity.statement.clone()
        } else {
            "<insufficient privilege>".to_owned()
        }
    }

    /// Ends a session, or what it waits for; whether there is such a session.
    ///
    /// # Errors
    /// If it belongs to another user, and this one is not an owner.
    pub fn end(&self, process: i64, ending: Ending) -> Result<bool, Cause> {
        let found = self.connections.activities().into_iter().find(|one| i64::from(one.process) == process);
        let Some(found) = found else { return Ok(false) };
        if !self.is_owner && found.user != self.user {
            return Err(Cause::user(format!(
                "session {process} belongs to user '{}'; only that user and owners can end it",
                found.user
            )));
        }
        if self.acts {
            self.connections.end(found.process, ending);
        }
        Ok(true)
    }
}
