//! What a catalogue's log keeps: definitions, which queries run, and users.

use std::sync::Arc;

use tidemill_engine::fields::{Fields, Malformed, PutFields, TakeFields, take_all};
use tidemill_sql::Definition;

use crate::catalog::user::{Role, User};

/// Stands where a definition has its version, which is at least 1.
const NO_DEFINITION: u64 = 0;
/// The version of the records that are not definitions.
const VERSION: u32 = 1;
const STARTED: u8 = 1;
const ENDED: u8 = 2;
const USER: u8 = 3;
const USER_DROPPED: u8 = 4;
const REPLACED: u8 = 5;
const STOPPED: u8 = 6;
const NOT_STARTED: u8 = 7;

/// One record of a catalogue's log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CatalogRecord {
    /// A definition. One that drops an output ends the query that writes to nothing else.
    Definition(Arc<Definition>),
    /// A query runs by name from here on, until it is stopped or has ended. Another one of this name takes its place.
    Started(StartedQuery),
    /// The query of this name has written everything, was dropped, or was forgotten: it does not run again.
    Ended(String),
    /// The query of this name, which was announced with its definition, could not be started, for this reason: it does not run again
    /// until it is started.
    NotStarted(String, String),
    /// The query of this name is stopped from here on, until it is started again.
    Stopped(String),
    /// A definition, and the query that runs by its name from here on, in the place of another one if there was one.
    Replaced(Arc<Definition>, StartedQuery),
    /// There is a user of this name from here on, who is as the record says.
    User(User),
    /// There is no user of this name any more.
    UserDropped(String),
}

/// A query that runs by name, as it was started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StartedQuery {
    /// Its name.
    pub name: String,
    /// The sinks and materialized views that it writes to.
    pub outputs: Vec<String>,
    /// Its settings, see [`Settings::encode_beside`](tidemill_sql::Settings::encode_beside).
    pub settings: Vec<u8>,
    /// Whether it stops at what cannot be done as it was asked for.
    pub is_strict: bool,
}

impl StartedQuery {
    fn put(&self, bytes: &mut Vec<u8>) {
        bytes.put_bytes(self.name.as_bytes());
        bytes.put_u64(self.outputs.len() as u64);
        self.outputs.iter().for_each(|output| bytes.put_bytes(output.as_bytes()));
        bytes.put_bytes(&self.settings);
        bytes.put_u8(self.is_strict.into());
    }

    fn take(fields: &mut Fields<'_>) -> Result<StartedQuery, Malformed> {
        let (name, outputs) = (fields.text()?, fields.u64()?);
        let outputs = take_all(fields, outputs, Fields::text)?;
        let settings = fields.bytes()?.to_vec();
        let is_strict = match fields.u8()? {
            0 => false,
            1 => true,
            _ => return Err(Malformed),
        };
        Ok(StartedQuery { name, outputs, settings, is_strict })
    }
}

impl CatalogRecord {
    /// Its bytes: those of the definition; or 0 as a `u64`, the version of the record, its kind, and its fields.
    ///
    /// ```
    /// use tidemill_service::CatalogRecord;
    /// let record = CatalogRecord::Ended("totals".to_owned());
    /// assert_eq!(CatalogRecord::decode(&record.encode()), Some(record));
    /// assert_eq!(CatalogRecord::decode(b"something else"), None);
    /// ```
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut head = |kind| {
            bytes.put_u64(NO_DEFINITION);
            bytes.put_u32(VERSION);
            bytes.put_u8(kind);
        };
        match self {
            CatalogRecord::Definition(definition) => return definition.encode(),
            CatalogRecord::Started(query) => {
                head(STARTED);
                query.put(&mut bytes);
            }
            CatalogRecord::Replaced(definition, query) => {
                head(REPLACED);
                bytes.put_bytes(&definition.encode());
                query.put(&mut bytes);
            }
            CatalogRecord::Ended(name) => {
                head(ENDED);
                bytes.put_bytes(name.as_bytes());
            }
            CatalogRecord::NotStarted(name, why) => {
                head(NOT_STARTED);
                bytes.put_bytes(name.as_bytes());
                bytes.put_bytes(why.as_bytes());
            }
            CatalogRecord::Stopped(name) => {
                head(STOPPED);
                bytes.put_bytes(name.as_bytes());
            }
            CatalogRecord::User(user) => {
                head(USER);
                bytes.put_bytes(user.name.as_bytes());
                bytes.put_bytes(user.role.name().as_bytes());
                bytes.put_bytes(user.verifier.as_bytes());
            }
            CatalogRecord::UserDropped(name) => {
                head(USER_DROPPED);
                bytes.put_bytes(name.as_bytes());
            }
        }
        bytes
    }

    /// A record from its bytes; `None` if they are not a record.
    pub fn decode(bytes: &[u8]) -> Option<CatalogRecord> {
        let mut fields = Fields(bytes);
        match fields.u64().ok()? {
            NO_DEFINITION => {
                let record = taken(&mut fields).ok()?;
                fields.0.is_empty().then_some(record)
            }
            _ => Definition::decode(bytes).map(Arc::new).map(CatalogRecord::Definition),
        }
    }
}

fn taken(fields: &mut Fields<'_>) -> Result<CatalogRecord, Malformed> {
    if fields.u32()? != VERSION {
        return Err(Malformed);
    }
    match fields.u8()? {
        STARTED => StartedQuery::take(fields).map(CatalogRecord::Started),
        REPLACED => {
            let definition = Definition::decode(fields.bytes()?).ok_or(Malformed)?;
            Ok(CatalogRecord::Replaced(Arc::new(definition), StartedQuery::take(fields)?))
        }
        ENDED => fields.text().map(CatalogRecord::Ended),
        STOPPED => fields.text().map(CatalogRecord::Stopped),
        NOT_STARTED => Ok(CatalogRecord::NotStarted(fields.text()?, fields.text()?)),
        USER => {
            let (name, role) = (fields.text()?, fields.text()?);
            let role: Role = role.parse().map_err(|_| Malformed)?;
            Ok(CatalogRecord::User(User { name, role, verifier: fields.text()? }))
        }
        USER_DROPPED => fields.text().map(CatalogRecord::UserDropped),
        _ => Err(Malformed),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_record_is_read_as_it_was_written_and_never_in_part() {
        let definition =
            Definition { version: 1, statement: "CREATE".to_owned(), idle_after: Duration::from_secs(1) };
        let started = StartedQuery {
            name: "q".to_owned(),
            outputs: vec!["a".to_owned(), "b c".to_owned()],
            settings: vec![1, 2, 3],
            is_strict: true,
        };
        for record in [
            CatalogRecord::Definition(Arc::new(definition.clone())),
            CatalogRecord::Started(started.clone()),
            CatalogRecord::Replaced(Arc::new(definition.clone()), started),
            CatalogRecord::Ended(String::new()),
            CatalogRecord::Stopped("q".to_owned()),
            CatalogRecord::NotStarted("q".to_owned(), "no such folder".to_owned()),
            CatalogRecord::User(User {
                name: "ada".to_owned(),
                role: Role::Owner,
                verifier: "SCRAM-SHA-256$1:x$y:z".to_owned(),
            }),
            CatalogRecord::UserDropped("ada".to_owned()),
        ] {
            let bytes = record.encode();
            assert_eq!(CatalogRecord::decode(&bytes), Some(record));
            for length in 0..bytes.len() {
                assert_eq!(CatalogRecord::decode(&bytes[..length]), None, "{length} bytes");
            }
            assert_eq!(CatalogRecord::decode(&[&bytes[..], b"?"].concat()), None);
        }
        // Logs were definitions only before queries were kept.
        let old = CatalogRecord::decode(&definition.encode());
        assert_eq!(old, Some(CatalogRecord::Definition(Arc::new(definition))));
    }
}
