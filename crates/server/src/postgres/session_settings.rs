//! Settings that clients of PostgreSQL expect of a session, beside those of the language.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::postgres::ignored_settings::IGNORED;
use crate::postgres::statement_timeout::{milliseconds, shown, time};

/// What a setting may be.
#[derive(Clone, Copy)]
enum Accepts {
    Anything,
    /// One of these, in any case of letters. They mean the same.
    Only(&'static [&'static str]),
    /// A time in milliseconds, or with a unit; 0: none.
    Time,
}

use Accepts::{Anything, Only, Time};

/// The version of PostgreSQL whose clients and catalogue queries are understood.
const SERVER_VERSION: &str = concat!("15.0 (Tidemill ", env!("CARGO_PKG_VERSION"), ")");

/// Name, first value, what it may be, and whether clients are told about it.
type Setting = (&'static str, &'static str, Accepts, bool);

/// The settings that mean something.
const KNOWN: &[Setting] = &[
    ("application_name", "", Anything, true),
    ("bytea_output", "hex", Only(&["hex"]), false),
    ("client_encoding", "UTF8", Only(&["utf8", "utf-8", "unicode"]), true),
    ("client_min_messages", "notice", Anything, false),
    ("DateStyle", "ISO, MDY", Only(&["iso, mdy", "iso", "iso, ymd", "iso, dmy"]), true),
    ("default_table_access_method", "heap", Only(&["heap"]), false),
    ("default_transaction_isolation", "read committed", Anything, false),
    ("default_transaction_read_only", "off", Anything, true),
    ("extra_float_digits", "1", Anything, false),
    ("idle_in_transaction_session_timeout", "0", Time, false),
    ("in_hot_standby", "off", Only(&["off"]), true),
    ("integer_datetimes", "on", Only(&["on"]), true),
    ("IntervalStyle", "postgres", Only(&["postgres"]), true),
    ("is_superuser", "on", Only(&[]), true),
    ("lock_timeout", "0", Time, false),
    ("max_index_keys", "32", Only(&["32"]), false),
    ("max_identifier_length", "63", Only(&["63"]), false),
    ("role", "none", Only(&["none"]), false),
    ("row_security", "on", Anything, false),
    ("search_path", "public", Anything, false),
    ("server_encoding", "UTF8", Only(&["utf8"]), true),
    ("server_version", SERVER_VERSION, Only(&[]), true),
    ("server_version_num", "150000", Only(&[]), false),
    ("session_authorization", "", Only(&[]), true),
    ("standard_conforming_strings", "on", Only(&["on", "true"]), true),
    ("statement_timeout", "0", Time, false),
    ("synchronize_seqscans", "on", Anything, false),
    ("TimeZone", "UTC", Only(&["utc", "etc/utc", "gmt", "etc/gmt", "zulu", "0"]), true),
    ("transaction_isolation", "read committed", Only(&["read committed"]), false),
    ("transaction_read_only", "off", Only(&["off"]), false),
];

/// The settings of a session that clients of PostgreSQL expect.
#[derive(Clone)]
pub(crate) struct SessionSettings {
    values: Vec<String>,
    /// As they were when the session began: what `RESET` returns to.
    first: Vec<String>,
    /// Those that mean nothing here and have another value than their first one; and as they were when the session began.
    ignored: BTreeMap<&'static str, String>,
    first_ignored: BTreeMap<&'static str, String>,
}

/// The settings of a command line: `-c name=value`, `-cname=value`, `--name=value`.
fn command_line(text: &str) -> impl Iterator<Item = (&str, &str)> {
    let words = text.split_ascii_whitespace().filter(|word| *word != "-c");
    words.filter_map(|word| {
        let word = word.strip_prefix("--").or(word.strip_prefix("-c")).unwrap_or(word);
        word.split_once('=')
    })
}

fn place(name: &str) -> Option<usize> {
    KNOWN.iter().position(|(known, ..)| known.eq_ignore_ascii_case(name))
}

/// A setting that means nothing here, and its first value.
fn ignored(name: &str) -> Option<(&'static str, &'static str)> {
    IGNORED.iter().copied().find(|(known, _)| known.eq_ignore_ascii_case(name))
}

impl SessionSettings {
    /// As the first message of a client has them. What cannot be is left as it is: the client is told what holds.
    pub fn new(parameters: &[(String, String)], is_owner: bool) -> SessionSettings {
        let values = KNOWN.iter().map(|(_, value, ..)| (*value).to_owned()).collect();
        let mut settings = SessionSettings {
            values,
            first: Vec::new(),
            ignored: BTreeMap::new(),
            first_ignored: BTreeMap::new(),
        };
        settings.put("is_superuser", if is_owner { "on" } else { "off" });
        for (name, value) in parameters {
            match name.as_str() {
                "user" => settings.put("session_authorization", value),
                "options" => {
                    for (name, value) in command_line(value) {
                        drop(settings.set(name, value));
                    }
                }
                name => drop(settings.set(name, value)),
            }
        }
        settings.first = settings.values.clone();
        settings.first_ignored = settings.ignored.clone();
        settings
    }

    fn put(&mut self, name: &str, value: &str) {
        if let Some(place) = place(name) {
            self.values[place] = value.to_owned();
        }
    }

    /// Whether there is a setting of this name.
    pub fn is_known(name: &str) -> bool {
        place(name).is_some() || ignored(name).is_some()
    }

    /// The value of a setting.
    pub fn get(&self, name: &str) -> Option<&str> {
        if let Some(place) = place(name) {
            return Some(&self.values[place]);
        }
        let (name, value) = ignored(name)?;
        Some(self.ignored.get(name).map_or(value, String::as_str))
    }

    /// How long a statement waits for a table that another transaction changes; `None`: until that has ended.
    pub fn lock_timeout(&self) -> Option<Duration> {
        self.get("lock_timeout").and_then(time)
    }

    /// How long a statement may take; `None`: there is no limit.
    pub fn statement_timeout(&self) -> Option<Duration> {
        self.get("statement_timeout").and_then(time)
    }

    /// How long a transaction may wait for its client; `None`: as long as it likes.
    pub fn idle_in_transaction_timeout(&self) -> Option<Duration> {
        self.get("idle_in_transaction_session_timeout").and_then(time)
    }

    /// All settings, by name.
    pub fn all(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let ignored = IGNORED
            .iter()
            .map(|(name, value)| (*name, self.ignored.get(name).map_or(*value, String::as_str)));
        KNOWN.iter().zip(&self.values).map(|((name, ..), value)| (*name, &**value)).chain(ignored)
    }

    /// The settings that clients are told about.
    pub fn reported(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let settings = KNOWN.iter().zip(&self.values);
        settings.filter(|((.., is_reported), _)| *is_reported).map(|((name, ..), value)| (*name, &**value))
    }

    /// The settings that clients are told about, and that are different in `other`.
    pub fn reported_since(&self, other: &SessionSettings) -> impl Iterator<Item = (&'static str, &str)> {
        self.reported().filter(|(name, value)| other.get(name) != Some(*value))
    }

    /// Changes a setting; `None`: to what it was when the session began. Returns its name and value if clients are to be told. The error
    /// says why it cannot be.
    pub fn change(
        &mut self,
        name: &str,
        value: Option<&str>,
    ) -> Result<Option<(&'static str, &str)>, String> {
        if let Some((name, _)) = ignored(name) {
            let value = value.or(self.first_ignored.get(name).map(String::as_str));
            match value.map(str::to_owned) {
                Some(value) => self.ignored.insert(name, value),
                None => self.ignored.remove(name),
            };
            return Ok(None);
        }
        let Some(place) = place(name) else { return Err(format!("there is no setting '{name}'")) };
        let (name, _, accepts, is_reported) = KNOWN[place];
        match value {
            None => self.values[place] = self.first[place].clone(),
            Some(value) => {
                let is_same = |known: &&str| known.eq_ignore_ascii_case(value);
                match accepts {
                    Anything => self.values[place] = value.to_owned(),
                    Time => {
                        let milliseconds = milliseconds(value).map_err(|why| format!("{name}: {why}"))?;
                        self.values[place] = shown(milliseconds);
                    }
                    Only(values) if values.iter().any(is_same) => {}
                    Only(_) => {
                        let now = &self.values[place];
                        return Err(format!("{name} is {now}, and cannot be changed to '{value}'"));
                    }
                }
            }
        }
        Ok(is_reported.then(|| (name, &*self.values[place])))
    }

    fn set(&mut self, name: &str, value: &str) -> Result<(), String> {
        self.change(name, Some(value)).map(drop)
    }
}
