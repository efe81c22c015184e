//! The users of a database.
//!
//! As long as there are none, nobody is asked who he is. The first one is an owner, and an owner stays as long as there are
//! others, so that nobody is locked out of changing them.

use tidemill_engine::Cause;
use tidemill_sql::closest;

use crate::Runtime;
use crate::catalog::user::{Role, User, Users};

/// The longest name of a user, as PostgreSQL has it.
const NAME_BYTES_MAX: usize = 63;
/// More than any team has; each takes a line in the catalogue's log.
const USERS_MAX: usize = 10_000;

impl Runtime {
    /// The users, by name.
    pub fn users(&self) -> Vec<User> {
        self.catalog_store().users().into_values().collect()
    }

    /// A user.
    pub fn user(&self, name: &str) -> Option<User> {
        self.catalog_store().user(name)
    }

    /// Whether there are users: if so, everybody who connects is asked for a password.
    pub fn has_users(&self) -> bool {
        self.catalog_store().has_users()
    }

    /// Adds a user. That there is one is in the catalogue's log when this returns.
    ///
    /// ```
    /// use tidemill_service::{Role, Runtime, User};
    /// use tidemill_sql::Planner;
    /// let runtime = Runtime::new(Planner::new());
    /// let user = |name: &str, role| User { name: name.to_owned(), role, verifier: String::new() };
    /// assert!(runtime.create_user(user("eve", Role::Reader)).is_err());
    /// runtime.create_user(user("ada", Role::Owner)).unwrap();
    /// runtime.create_user(user("eve", Role::Reader)).unwrap();
    /// assert!(runtime.drop_user("ada").is_err());
    /// ```
    ///
    /// # Errors
    /// If there is one of this name, the name cannot be one, or the first user is not an owner.
    pub fn create_user(&self, user: User) -> Result<(), Cause> {
        check_name(&user.name)?;
        self.catalog_store().keep_user(&user.name.clone(), |users| {
            if users.contains_key(&user.name) {
                return Err(Cause::user(format!("user '{}' already exists; change it with ALTER USER", user.name)));
            }
            if users.is_empty() && user.role != Role::Owner {
                return Err(Cause::user(
                    "the first user must be an owner, who can then create others: CREATE USER name PASSWORD '...' \
                     ROLE owner",
                ));
            }
            if users.len() >= USERS_MAX {
                return Err(Cause::resource(format!("there are {USERS_MAX} users already; drop some first")));
            }
            Ok(Some(user))
        })
    }

    /// Gives a user another role, another verifier, or both.
    ///
    /// # Errors
    /// If there is no such user, or it is the last owner and would be none any more.
    pub fn alter_user(&self, name: &str, role: Option<Role>, verifier: Option<String>) -> Result<(), Cause> {
        self.catalog_store().keep_user(name, |users| {
            let mut user = users.get(name).cloned().ok_or_else(|| unknown(name, users))?;
            user.role = role.unwrap_or(user.role);
            user.verifier = verifier.unwrap_or(user.verifier);
            if user.role != Role::Owner {
                check_owner_stays(name, users)?;
            }
            Ok(Some(user))
        })
    }

    /// Drops a user. The last one of all may be dropped: then nobody is asked for a password any more.
    ///
    /// # Errors
    /// If there is no such user, or it is the last owner and there are others.
    pub fn drop_user(&self, name: &str) -> Result<(), Cause> {
        self.catalog_store().keep_user(name, |users| {
            if !users.contains_key(name) {
                return Err(unknown(name, users));
            }
            if users.len() > 1 {
                check_owner_stays(name, users)?;
            }
            Ok(None)
        })
    }
}

fn check_name(name: &str) -> Result<(), Cause> {
    let is_name = !name.is_empty() && name.len() <= NAME_BYTES_MAX && !name.chars().any(char::is_control);
    if is_name && !name.contains(':') {
        Ok(())
    } else {
        // HTTP separates name and password by a colon.
        Err(Cause::user(format!(
            "a user's name has 1 to {NAME_BYTES_MAX} bytes, without control characters and colons"
        )))
    }
}

/// An owner other than this user must be there.
fn check_owner_stays(name: &str, users: &Users) -> Result<(), Cause> {
    if users.values().any(|user| user.role == Role::Owner && user.name != name) {
        Ok(())
    } else {
        Err(Cause::user(format!(
            "'{name}' is the only owner; make another user an owner first: ALTER USER name ROLE owner"
        )))
    }
}

fn unknown(name: &str, users: &Users) -> Cause {
    let hint = closest(name, users.keys().map(String::as_str));
    let hint = hint.map_or(String::new(), |meant| format!("; did you mean '{meant}'?"));
    Cause::user(format!("there is no user '{name}'{hint}"))
}
