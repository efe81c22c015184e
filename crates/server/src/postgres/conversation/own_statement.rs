//! Statements that only sessions of PostgreSQL's clients have: transactions, settings, prepared statements, users.

use tidemill_service::StatusTables;

use super::savepoints::SavepointStatement;
use super::user_statement::UserStatement;
use super::words::{folded, name};
use crate::postgres::session_settings::SessionSettings;
use crate::report::{NOT_SUPPORTED, Report, SYNTAX_ERROR};

/// What `SHOW SESSIONS` tells.
const SESSION_COLUMNS: [&str; 7] =
    ["session", "user", "application", "client", "state", "seconds", "statement"];

/// A statement about the session itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum OwnStatement {
    /// With the words to which it is answered.
    Begin(&'static str),
    Commit,
    Rollback,
    Savepoint(SavepointStatement),
    /// Changes a setting; `None`: to what it was when the session began.
    Set {
        name: String,
        value: Option<String>,
        /// Whether it is so until the transaction ends only.
        is_local: bool,
    },
    /// All settings to what they were when the session began.
    ResetAll,
    Show(String),
    ShowAll,
    ShowQueries,
    /// The statement that has defined something.
    ShowCreate(String),
    /// Where the rows of materialized views are.
    ShowFragments,
    /// What enters where, and how long its cycles take.
    ShowGateways,
    ShowUsers,
    ShowSessions,
    /// Cancels what this session waits for.
    Cancel(i32),
    /// Changes who may connect.
    User(UserStatement),
    /// Forgets prepared statements: this one, or all.
    Deallocate(Option<String>),
    DiscardAll,
    /// Asks for what is always so here, for these relations: rows are counted and views are kept up to date as rows come. With the words
    /// to which it is answered.
    Maintain(&'static str, Vec<String>),
    /// Has no effect here, and is answered with these words.
    Nothing(&'static str),
}

impl OwnStatement {
    /// What these words say; `None` if it is a statement of the language, or unknown.
    pub fn read(words: &[String]) -> Option<Result<OwnStatement, Report>> {
        let upper: Vec<String> = words.iter().map(|word| word.to_ascii_uppercase()).collect();
        let upper: Vec<&str> = upper.iter().map(String::as_str).collect();
        if let Some(read) = UserStatement::read(words, &upper) {
            return Some(read.map(OwnStatement::User));
        }
        let last = words.last().map(|word| name(word)).unwrap_or_default();
        if let Some(statement) = SavepointStatement::read(&upper, &last) {
            return Some(Ok(OwnStatement::Savepoint(statement)));
        }
        Some(Ok(match upper.as_slice() {
            ["BEGIN", ..] => OwnStatement::Begin("BEGIN"),
            ["START", "TRANSACTION", ..] => OwnStatement::Begin("START TRANSACTION"),
            ["COMMIT" | "END"] | ["COMMIT" | "END", "WORK" | "TRANSACTION"] => OwnStatement::Commit,
            ["ROLLBACK" | "ABORT"] | ["ROLLBACK" | "ABORT", "WORK" | "TRANSACTION"] => OwnStatement::Rollback,
            ["ROLLBACK" | "ABORT", ..] => {
                let message = "only whole transactions and savepoints are rolled back";
                return Some(Err(Report::error(NOT_SUPPORTED, message)));
            }
            ["SET", "TRANSACTION", ..] | ["SET", "SESSION", "CHARACTERISTICS", ..] => {
                OwnStatement::Nothing("SET")
            }
            ["SET", "ROLE", role @ ..] | ["SET", "LOCAL" | "SESSION", "ROLE", role @ ..] => {
                return Some(set_role(role));
            }
            ["RESET", "ROLE"] | ["RESET", "SESSION", "AUTHORIZATION"] => OwnStatement::Nothing("RESET"),
            ["SET", "SESSION", "AUTHORIZATION", role @ ..] => return Some(set_role(role)),
            ["ANALYZE" | "ANALYSE", ..] => OwnStatement::Maintain("ANALYZE", relations(words)),
            ["VACUUM", ..] => OwnStatement::Maintain("VACUUM", relations(words)),
            ["REFRESH", "MATERIALIZED", "VIEW", ..] => {
                OwnStatement::Maintain("REFRESH MATERIALIZED VIEW", relations(&words[3..]))
            }
            ["SET", "LOCAL", ..] => return set(&words[2..], true),
            ["SET", "SESSION", ..] => return set(&words[2..], false),
            ["SET", ..] => return set(&words[1..], false),
            ["RESET", "ALL"] => OwnStatement::ResetAll,
            ["RESET", _] if SessionSettings::is_known(&name(&words[1])) => {
                OwnStatement::Set { name: name(&words[1]), value: None, is_local: false }
            }
            ["SHOW", "CREATE", _]
            | ["SHOW", "CREATE", _, _]
            | ["SHOW", "CREATE", "MATERIALIZED", "VIEW", _] => {
                OwnStatement::ShowCreate(words.last().map(|word| folded(word)).unwrap_or_default())
            }
            ["SHOW", "ALL"] => OwnStatement::ShowAll,
            ["SHOW", "QUERIES"] => OwnStatement::ShowQueries,
            ["SHOW", "FRAGMENTS"] => OwnStatement::ShowFragments,
            ["SHOW", "GATEWAYS"] => OwnStatement::ShowGateways,
            ["SHOW", "USERS" | "ROLES"] => OwnStatement::ShowUsers,
            ["SHOW", "SESSIONS"] => OwnStatement::ShowSessions,
            ["CANCEL", session] | ["CANCEL", "SESSION", session] => match session.parse() {
                Ok(session) => OwnStatement::Cancel(session),
                Err(_) => {
                    let report = Report::error(SYNTAX_ERROR, "CANCEL takes the number of a session");
                    return Some(Err(report.with_hint("SHOW SESSIONS lists them; DROP ends a view or sink")));
                }
            },
            ["SHOW", "TIME", "ZONE"] => OwnStatement::Show("TimeZone".to_owned()),
            ["SHOW", "TRANSACTION", "ISOLATION", "LEVEL"] => {
                OwnStatement::Show("transaction_isolation".to_owned())
            }
            ["SHOW", _] if SessionSettings::is_known(&name(&words[1])) => OwnStatement::Show(name(&words[1])),
            ["DEALLOCATE", "ALL"] | ["DEALLOCATE", "PREPARE", "ALL"] => OwnStatement::Deallocate(None),
            ["DEALLOCATE", _] | ["DEALLOCATE", "PREPARE", _] => {
                OwnStatement::Deallocate(words.last().map(|word| name(word)))
            }
            ["DISCARD", "ALL"] => OwnStatement::DiscardAll,
            ["DISCARD", "PLANS" | "SEQUENCES" | "TEMP" | "TEMPORARY"] => OwnStatement::Nothing("DISCARD"),
            ["UNLISTEN", ..] => OwnStatement::Nothing("UNLISTEN"),
            ["CHECKPOINT"] => OwnStatement::Nothing("CHECKPOINT"),
            ["LISTEN" | "NOTIFY", ..] => {
                let report = Report::error(NOT_SUPPORTED, "sessions do not notify each other here");
                let hint = "SUBSCRIBE TO name sends the changes of a view as they come";
                return Some(Err(report.with_hint(hint)));
            }
            _ => return None,
        }))
    }
}

impl OwnStatement {
    /// The columns of its rows; `None` if it gives none.
    pub fn columns(&self) -> Option<Vec<&str>> {
        match self {
            OwnStatement::Show(name) => Some(vec![name]),
            OwnStatement::ShowAll => Some(vec!["name", "setting", "description"]),
            OwnStatement::ShowCreate(_) => Some(vec!["name", "create_statement"]),
            OwnStatement::ShowSessions => Some(SESSION_COLUMNS.to_vec()),
            OwnStatement::ShowUsers => Some(vec!["name", "role"]),
            OwnStatement::ShowFragments => Some(StatusTables::FRAGMENT_COLUMNS.to_vec()),
            OwnStatement::ShowGateways => Some(StatusTables::GATEWAY_COLUMNS.to_vec()),
            OwnStatement::ShowQueries => Some(StatusTables::QUERY_COLUMNS.to_vec()),
            _ => None,
        }
    }
}

/// The value of a setting, without quotes.
fn value(words: &[String]) -> String {
    let plain = |word: &String| match word.strip_prefix('\'').and_then(|word| word.strip_suffix('\'')) {
        Some(quoted) => quoted.replace("''", "'"),
        None => name(word),
    };
    let mut text = String::new();
    for word in words.iter().map(plain) {
        let is_apart = !text.is_empty() && word != "," && !text.ends_with('-');
        text = text + if is_apart { " " } else { "" } + &word;
    }
    text
}

/// `SET ROLE`: everybody acts as himself.
fn set_role(role: &[&str]) -> Result<OwnStatement, Report> {
    match role {
        ["NONE" | "DEFAULT"] => Ok(OwnStatement::Nothing("SET")),
        _ => {
            let report = Report::error(NOT_SUPPORTED, "a session acts as the user who has logged in");
            Err(report.with_hint("log in as the other user, or SET ROLE NONE"))
        }
    }
}

/// The relations that a statement of maintenance names, without its options: `VACUUM (ANALYZE) a, b (x)`.
fn relations(words: &[String]) -> Vec<String> {
    const OPTIONS: [&str; 12] = [
        "ANALYZE",
        "ANALYSE",
        "VACUUM",
        "VERBOSE",
        "FULL",
        "FREEZE",
        "SKIP_LOCKED",
        "CONCURRENTLY",
        "WITH",
        "NO",
        "DATA",
        "ONLY",
    ];
    let (mut depth, mut named, mut after_period) = (0_usize, Vec::new(), false);
    for word in words {
        match word.as_str() {
            "(" => depth += 1,
            ")" => depth = depth.saturating_sub(1),
            "," => {}
            "." => after_period = true,
            _ if depth > 0 || OPTIONS.iter().any(|option| word.eq_ignore_ascii_case(option)) => {}
            word => {
                // The last part of a name is that of the relation.
                if std::mem::take(&mut after_period) {
                    named.pop();
                }
                named.push(folded(word));
            }
        }
    }
    named
}

/// What follows `SET`; `None` if it is a setting of the language.
fn set(words: &[String], is_local: bool) -> Option<Result<OwnStatement, Report>> {
    let (setting, rest) = match words {
        [time, zone, rest @ ..] if time.eq_ignore_ascii_case("time") && zone.eq_ignore_ascii_case("zone") => {
            ("TimeZone".to_owned(), rest)
        }
        // Of the standard: SET NAMES 'UTF8'.
        [names, rest @ ..] if names.eq_ignore_ascii_case("names") => ("client_encoding".to_owned(), rest),
        [setting, sign, rest @ ..] if sign == "=" || sign.eq_ignore_ascii_case("to") => (name(setting), rest),
        _ => return None,
    };
    if !SessionSettings::is_known(&setting) {
        return None;
    }
    Some(match rest {
        [] => Err(Report::error(SYNTAX_ERROR, format!("SET {setting} has no value"))),
        [default] if default.eq_ignore_ascii_case("default") || default.eq_ignore_ascii_case("local") => {
            Ok(OwnStatement::Set { name: setting, value: None, is_local })
        }
        rest => Ok(OwnStatement::Set { name: setting, value: Some(value(rest)), is_local }),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Option<OwnStatement> {
        let pieces = tidemill_sql::divide(text, "test").unwrap();
        OwnStatement::read(&pieces[0].words())?.ok()
    }

    fn set(name: &str, value: Option<&str>) -> Option<OwnStatement> {
        Some(OwnStatement::Set { name: name.to_owned(), value: value.map(str::to_owned), is_local: false })
    }

    #[test]
    fn statements_about_the_session_are_known_by_their_words() {
        assert_eq!(read("begin isolation level serializable"), Some(OwnStatement::Begin("BEGIN")));
        assert_eq!(read("/* so */ Commit work"), Some(OwnStatement::Commit));
        assert_eq!(read("SET application_name TO 'it''s; me'"), set("application_name", Some("it's; me")));
        assert_eq!(read("SET SESSION datestyle = ISO, DMY"), set("datestyle", Some("ISO, DMY")));
        assert_eq!(read("SET TIME ZONE LOCAL"), set("TimeZone", None));
        let local =
            OwnStatement::Set { name: "statement_timeout".into(), value: Some("1s".into()), is_local: true };
        assert_eq!(read("set local statement_timeout to '1s'"), Some(local));
        assert_eq!(read("SET workers = 2"), None);
        assert_eq!(read("SHOW SOURCES"), None);
        assert_eq!(read("show fragments"), Some(OwnStatement::ShowFragments));
        assert_eq!(read("Show Gateways"), Some(OwnStatement::ShowGateways));
        assert_eq!(read("SHOW \"Server_Version\""), Some(OwnStatement::Show("Server_Version".into())));
        assert_eq!(
            read("DEALLOCATE PREPARE \"a\"\"b\""),
            Some(OwnStatement::Deallocate(Some("a\"b".into())))
        );
        let savepoint = |statement| Some(OwnStatement::Savepoint(statement));
        assert_eq!(read("savepoint \"S 1\""), savepoint(SavepointStatement::Set("S 1".into())));
        assert_eq!(
            read("ROLLBACK WORK TO SAVEPOINT s"),
            savepoint(SavepointStatement::RollbackTo("s".into()))
        );
        assert_eq!(read("RELEASE SAVEPOINT s"), savepoint(SavepointStatement::Release("s".into())));
        let maintain = |tag, names: &[&str]| {
            Some(OwnStatement::Maintain(tag, names.iter().map(|name| (*name).to_owned()).collect()))
        };
        assert_eq!(read("analyze"), maintain("ANALYZE", &[]));
        assert_eq!(
            read("VACUUM (ANALYZE, VERBOSE) Prices (id), public.\"B\""),
            maintain("VACUUM", &["prices", "B"])
        );
        assert_eq!(
            read("REFRESH MATERIALIZED VIEW CONCURRENTLY v WITH NO DATA"),
            maintain("REFRESH MATERIALIZED VIEW", &["v"])
        );
        assert_eq!(read("SHOW CREATE MATERIALIZED VIEW \"V\""), Some(OwnStatement::ShowCreate("V".into())));
        assert_eq!(read("SHOW CREATE TABLE V"), Some(OwnStatement::ShowCreate("v".into())));
        assert_eq!(read("SET ROLE NONE"), Some(OwnStatement::Nothing("SET")));
        assert_eq!(read("SET ROLE ada"), None);
        assert_eq!(read("SET jit = off"), set("jit", Some("off")));
        assert_eq!(read("SELECT 1"), None);
    }
}
