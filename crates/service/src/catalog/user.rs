//! Who may connect to a database, and what each of them may do.

use std::collections::BTreeMap;
use std::fmt;

/// What a user may do. A role may do what those before it may.
///
/// ```
/// use tidemill_service::Role;
/// assert!(Role::Owner > Role::Writer && Role::Writer > Role::Reader);
/// assert_eq!("writer".parse(), Ok(Role::Writer));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// Reads views, streams and what the catalogue has.
    Reader,
    /// Also puts rows into sources.
    Writer,
    /// Also defines, drops, opens files and other systems, and says who the users are.
    Owner,
}

impl Role {
    /// All roles.
    pub const ALL: [Role; 3] = [Role::Reader, Role::Writer, Role::Owner];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Role::Reader => "reader",
            Role::Writer => "writer",
            Role::Owner => "owner",
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

/// There is no role of this name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no role '{0}'; the roles are reader, writer and owner")]
pub struct UnknownRole(String);

impl std::str::FromStr for Role {
    type Err = UnknownRole;

    fn from_str(name: &str) -> Result<Role, UnknownRole> {
        let known = Role::ALL.into_iter().find(|role| role.name().eq_ignore_ascii_case(name));
        known.ok_or_else(|| UnknownRole(name.to_owned()))
    }
}

/// Somebody who may connect.
#[derive(Clone, PartialEq, Eq)]
pub struct User {
    /// The name.
    pub name: String,
    /// What the user may do.
    pub role: Role,
    /// What proves the password without containing it, in the notation of PostgreSQL:
    /// `SCRAM-SHA-256$iterations:salt$stored key:server key`. Whoever makes users fills it in; here it is only kept.
    pub verifier: String,
}

/// The users by name.
pub(crate) type Users = BTreeMap<String, User>;

/// Without the verifier, so that no log has it.
impl fmt::Debug for User {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("User")
            .field("name", &self.name)
            .field("role", &self.role)
            .finish_non_exhaustive()
    }
}
