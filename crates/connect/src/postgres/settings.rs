//! The user's settings.

use std::fmt;
use std::time::Duration;

/// The table for the rows, and how they are written.
#[derive(Clone, PartialEq, Eq)]
pub struct PostgresSinkSettings {
    /// `postgres://user:password@host:port/database`, or `host=... user=... dbname=...`. It is never shown.
    ///
    /// TLS is chosen by `sslmode`, `sslrootcert`, `sslcert` and `sslkey`, which mean what they mean to PostgreSQL's own
    /// programs: without them, TLS is used if the server offers it, and nobody's certificate is checked; `verify-full`
    /// checks that an authority has issued the server's certificate for its name. Without `sslrootcert`, the
    /// system's authorities are trusted.
    pub url: String,
    /// `table` or `schema.table`, with exact spelling, including capitals.
    pub table: String,
    /// The name under which the database records the last cycle. Two queries need two names.
    pub sink: String,
    /// The columns of the key: a row replaces the one with the same key. Empty: rows are appended.
    pub key: Vec<String>,
    /// Whether a missing table is created.
    pub create: bool,
    /// Whether to continue after the last cycle committed under this name. If not, cycles are counted from the
    /// beginning, and existing rows of the table stay.
    pub resume: bool,
    /// Whether the table must be empty when the sink is opened.
    pub must_be_empty: bool,
    /// The table for rows that the database refuses, `table` or `schema.table`; it is created if it does not exist.
    /// `None`: such a row ends the query.
    pub dead_letters: Option<String>,
    /// How long to retry a lost connection before the query fails.
    pub retry_for: Duration,
    /// How long the server may take for one answer, before the connection counts as lost.
    pub answer_wait: Duration,
}

impl PostgresSinkSettings {
    /// The defaults: rows are appended exactly once to the table, which is created if it does not exist. A lost
    /// connection is retried for 10 minutes, and an answer may take 2.
    pub fn new(url: impl Into<String>, table: impl Into<String>, sink: impl Into<String>) -> Self {
        PostgresSinkSettings {
            url: url.into(),
            table: table.into(),
            sink: sink.into(),
            key: Vec::new(),
            create: true,
            resume: true,
            must_be_empty: false,
            dead_letters: Some("tidemill_dead_letters".to_owned()),
            retry_for: Duration::from_secs(600),
            answer_wait: Duration::from_secs(120),
        }
    }
}

impl fmt::Debug for PostgresSinkSettings {
    /// Without the URL, which contains the password.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let PostgresSinkSettings {
            url: _,
            table,
            sink,
            key,
            create,
            resume,
            must_be_empty,
            dead_letters,
            retry_for,
            answer_wait,
        } = self;
        let mut fields = formatter.debug_struct("PostgresSinkSettings");
        fields.field("table", table).field("sink", sink).field("key", key).field("create", create);
        fields
            .field("resume", resume)
            .field("must_be_empty", must_be_empty)
            .field("dead_letters", dead_letters)
            .field("retry_for", retry_for)
            .field("answer_wait", answer_wait);
        fields.finish_non_exhaustive()
    }
}
