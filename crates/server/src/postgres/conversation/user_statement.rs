//! `CREATE USER`, `ALTER USER`, `DROP USER`.
//!
//! They are not definitions of the language: their text, which may contain a password, is kept nowhere, and no message
//! quotes it.

use std::fmt;

use tidemill_service::{Role, User};

use super::words::{folded, name};
use super::{Conversation, Result};
use crate::authentication::{PASSWORD_BYTES_MAX, Verifier};
use crate::report::{INVALID_PARAMETER_VALUE, Report, SYNTAX_ERROR};
use crate::sessions::identity::Identity;

/// A text that no log has.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Password(String);

impl fmt::Debug for Password {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("(a password)")
    }
}

/// A statement about users.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum UserStatement {
    Create { name: String, password: Password, role: Role },
    Alter { name: String, password: Option<Password>, role: Option<Role> },
    Drop { name: String, if_exists: bool },
}

impl UserStatement {
    /// What these words say, which are those of `upper` in capitals; `None` if it is not about users.
    pub fn read(words: &[String], upper: &[&str]) -> Option<std::result::Result<UserStatement, Report>> {
        Some(match upper {
            ["CREATE", "USER" | "ROLE", _, ..] => created(&words[2], &words[3..]),
            ["ALTER", "USER" | "ROLE", _, ..] => clauses(&words[3..]).and_then(|(password, role)| {
                let name = folded(&words[2]);
                match (&password, &role) {
                    (None, None) => Err(wrong("the statement changes nothing")),
                    _ => Ok(UserStatement::Alter { name, password, role }),
                }
            }),
            ["DROP", "USER" | "ROLE", "IF", "EXISTS", _] => {
                Ok(UserStatement::Drop { name: folded(&words[4]), if_exists: true })
            }
            ["DROP", "USER" | "ROLE", _] => {
                Ok(UserStatement::Drop { name: folded(&words[2]), if_exists: false })
            }
            ["CREATE" | "ALTER" | "DROP", "USER" | "ROLE", ..] => {
                Err(wrong("the statement does not name one user"))
            }
            _ => return None,
        })
    }

    pub fn tag(&self) -> &'static str {
        match self {
            UserStatement::Create { .. } => "CREATE ROLE",
            UserStatement::Alter { .. } => "ALTER ROLE",
            UserStatement::Drop { .. } => "DROP ROLE",
        }
    }

    /// What it needs: everybody may give himself another password.
    pub fn needed_role(&self, identity: &Identity) -> Role {
        match (self, identity) {
            (UserStatement::Alter { name, role: None, .. }, Identity::User(own)) if name == own => {
                Role::Reader
            }
            _ => Role::Owner,
        }
    }
}

fn wrong(message: &str) -> Report {
    let hint = "CREATE USER name PASSWORD '...' ROLE reader; ALTER USER name PASSWORD '...'; \
                ALTER USER name ROLE writer; DROP USER name. The roles are reader, writer and owner";
    Report::error(SYNTAX_ERROR, message).with_hint(hint)
}

fn created(user: &str, rest: &[String]) -> std::result::Result<UserStatement, Report> {
    let (password, role) = clauses(rest)?;
    let password = password.ok_or_else(|| wrong("a user needs a password"))?;
    // As little as possible, unless it is asked for.
    Ok(UserStatement::Create { name: folded(user), password, role: role.unwrap_or(Role::Reader) })
}

/// What follows the name: a password, a role, each at most once.
fn clauses(words: &[String]) -> std::result::Result<(Option<Password>, Option<Role>), Report> {
    let (mut password, mut role) = (None, None);
    let mut rest = words.iter();
    while let Some(word) = rest.next() {
        match word.to_ascii_uppercase().as_str() {
            "WITH" | "LOGIN" | "ENCRYPTED" | "IN" => {}
            "PASSWORD" if password.is_none() => {
                let text = rest.next().and_then(|text| text.strip_prefix('\'')?.strip_suffix('\''));
                let text = text.ok_or_else(|| wrong("the password must be a text in single quotes"))?;
                password = Some(checked(text)?);
            }
            "ROLE" if role.is_none() => {
                let known = rest.next().and_then(|role| name(role).parse().ok());
                role = Some(known.ok_or_else(|| wrong("there is no such role"))?);
            }
            _ => return Err(wrong("the statement has words that do not belong to it")),
        }
    }
    Ok((password, role))
}

fn checked(password: &str) -> std::result::Result<Password, Report> {
    if password.is_empty() || password.len() > PASSWORD_BYTES_MAX {
        Err(Report::error(
            INVALID_PARAMETER_VALUE,
            format!("a password must have 1 to {PASSWORD_BYTES_MAX} bytes"),
        ))
    } else {
        Ok(Password(password.to_owned()))
    }
}

/// What proves the password. A client may have made it already, so that the password does not leave its machine: psql's
/// \password does.
fn verifier(password: &Password) -> std::result::Result<String, Report> {
    if password.0.parse::<Verifier>().is_ok() {
        return Ok(password.0.clone());
    }
    let made = Verifier::new(&password.0);
    let made =
        made.map_err(|error| Report::error("58000", format!("there are no random numbers: {error}")))?;
    Ok(made.to_string())
}

impl Conversation<'_> {
    pub(super) fn execute_user_statement(&mut self, statement: &UserStatement) -> Result<()> {
        let runtime = &self.shared.runtime;
        match statement {
            UserStatement::Create { name, password, role } => {
                let verifier = verifier(password)?;
                runtime
                    .create_user(User { name: name.clone(), role: *role, verifier })
                    .map_err(Report::from)?;
            }
            UserStatement::Alter { name, password, role } => {
                let verifier = password.as_ref().map(verifier).transpose()?;
                runtime.alter_user(name, *role, verifier).map_err(Report::from)?;
            }
            UserStatement::Drop { name, if_exists } => {
                if !if_exists || runtime.user(name).is_some() {
                    runtime.drop_user(name).map_err(Report::from)?;
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> std::result::Result<UserStatement, Report> {
        let words = tidemill_sql::divide(text, "test").unwrap()[0].words();
        let upper: Vec<String> = words.iter().map(|word| word.to_ascii_uppercase()).collect();
        UserStatement::read(&words, &upper.iter().map(String::as_str).collect::<Vec<_>>())
            .expect("about users")
    }

    fn password(text: &str) -> Password {
        Password(text.to_owned())
    }

    #[test]
    fn a_user_is_created_changed_and_dropped() {
        let create = |name: &str, text: &str, role| UserStatement::Create {
            name: name.to_owned(),
            password: password(text),
            role,
        };
        assert_eq!(
            read("CREATE USER Ada PASSWORD 'x''y\"\\' ROLE owner"),
            Ok(create("ada", "x'y\"\\", Role::Owner))
        );
        assert_eq!(
            read("create role \"A b\" with login encrypted password 'p'"),
            Ok(create("A b", "p", Role::Reader))
        );
        assert_eq!(
            read("CREATE USER u IN ROLE Writer PASSWORD 'a''''b'"),
            Ok(create("u", "a''b", Role::Writer))
        );
        let (name, role) = ("u".to_owned(), Some(Role::Writer));
        assert_eq!(read("ALTER USER u ROLE writer"), Ok(UserStatement::Alter { name, password: None, role }));
        assert_eq!(
            read("DROP USER IF EXISTS u"),
            Ok(UserStatement::Drop { name: "u".to_owned(), if_exists: true })
        );
    }

    #[test]
    fn no_message_and_no_debug_output_has_the_password() {
        for wrong in [
            "CREATE USER u",
            "CREATE USER u PASSWORD geheim",
            "CREATE USER u PASSWORD 'geheim' PASSWORD 'geheim'",
            "CREATE USER u PASSWORD 'geheim' ROLE geheim",
            "CREATE USER u PASSWORD 'geheim' SUPERUSER",
            "CREATE USER u PASSWORD",
            "CREATE USER",
            "CREATE USER u PASSWORD ''",
            "ALTER USER u",
            "DROP USER u, v",
        ] {
            let report = read(wrong).expect_err(wrong);
            assert!(!format!("{report:?}").contains("geheim"), "{wrong}: {report:?}");
        }
        assert!(!format!("{:?}", read("CREATE USER u PASSWORD 'geheim'")).contains("geheim"));
    }
}
