//! One definition of a catalogue, as it is kept and sent.

use std::time::Duration;

use tidemill_engine::fields::{Fields, Malformed, PutFields, TakeFields};

use crate::statement::{Statement, parse, text_with_columns};

/// One definition of a catalogue: the text of a statement, and what it depended on beside that text. Executed in the order
/// of their versions, definitions give the same catalogue again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Definition {
    /// The version of the catalogue that it made, from 1.
    pub version: u64,
    /// The statement, without its `;`.
    pub statement: String,
    /// The setting `idle_after` of the session, which sources take over.
    pub idle_after: Duration,
}

impl Definition {
    /// Its bytes: version, `idle_after` in nanoseconds, statement.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tidemill_sql::Definition;
    /// let statement = "CREATE PLACES two (0, 1)".to_owned();
    /// let definition = Definition { version: 1, statement, idle_after: Duration::from_secs(5) };
    /// assert_eq!(Definition::decode(&definition.encode()), Some(definition));
    /// assert_eq!(Definition::decode(b"something else"), None);
    /// ```
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(24 + self.statement.len());
        self.put(&mut bytes);
        bytes
    }

    /// A definition from its bytes; `None` if they are none.
    pub fn decode(bytes: &[u8]) -> Option<Definition> {
        let mut fields = Fields(bytes);
        let definition = Definition::take(&mut fields).ok()?;
        fields.0.is_empty().then_some(definition)
    }

    pub(super) fn put(&self, bytes: &mut Vec<u8>) {
        bytes.put_u64(self.version);
        bytes.put_u64(u64::try_from(self.idle_after.as_nanos()).unwrap_or(u64::MAX));
        bytes.put_bytes(self.statement.as_bytes());
    }

    pub(super) fn take(fields: &mut Fields<'_>) -> Result<Definition, Malformed> {
        let (version, idle_after) = (fields.u64()?, Duration::from_nanos(fields.u64()?));
        Ok(Definition { version, statement: fields.text()?, idle_after })
    }
}

/// The definition of a source with the columns that another statement adds; `None`: it cannot have them.
pub(crate) fn with_columns(definition: &Statement, added: &Statement) -> Option<Statement> {
    let text = text_with_columns(definition, added)?;
    parse(&text, "the altered definition").ok()?.into_iter().next()
}
